"""
Place operations on the FPGA of nnet, and report times, cycles and skipped products of layers.

Placement and report share the model of a board: rules, circuits, and the rates of CPU and bus.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.array_cycles import core_cycles_of
from ceras_ir.backends.nnet.array_plan import why_not_in_verilog
from ceras_ir.backends.nnet.board import BoardCircuit, FpgaBoard, load_board
from ceras_ir.backends.nnet.circuits import number
from ceras_ir.backends.nnet.rules import FPGA, MOVERS, packed_operands, why_not
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import GraphOperation, shape_of
from ceras_ir.dialects.graph.attributes import viewed
from ceras_ir.dialects.mem import CPU, block_of, device_of
from ceras_ir.network.function import main_function
from ceras_ir.network.integer import zero_points
from ceras_ir.pipeline.report import entries_of
from ceras_ir.targets import MICROSECONDS, Ceiling, Prediction
from ceras_ir.targets.capabilities import Accelerator, Cost
from ceras_ir.transforms.memory.liveness import byte_size, steps
from ceras_ir.transforms.memory.slices import operand_in_place, slices

CONSTANT_BYTES = 8
"""Constant, shift and table of an output channel, as the array reads them."""


class FpgaCircuits(Accelerator):
    """The circuits of any FPGA, or of the `board` whose rates are known."""

    device = FPGA

    def __init__(self, board: str | None):
        self.board = None if board is None else load_board(board)
        self.has_costs = self.board is not None

    def why_not(self, op: Operation) -> str | None:
        if reason := why_not(op):
            return reason
        if self.board is not None:
            return circuit_limit(op, self.board)
        if isinstance(op, FOLLOWERS) and not is_beside_a_circuit(op):
            return "nothing on the FPGA makes or reads its operands or its result"
        return None

    def cost(self, op: Operation, *, admitted: bool) -> Cost:
        assert self.board is not None
        return cost_of(op, self.board, admitted=admitted)

    def host_operands(self, op: Operation) -> Sequence[int]:
        return packed_operands(op)

    def transfer(self, value: SSAValue) -> float:
        assert self.board is not None
        return transfer(value, self.board)


FOLLOWERS = MOVERS | graph.LookupOp
"""What goes where its operands come from or its result goes to; costs of a board weigh that."""


def is_beside_a_circuit(op: Operation) -> bool:
    """Whether the FPGA computes what `op` reads, or reads what it makes, other followers aside."""
    seen, waiting = {op}, [op]
    while waiting:
        near = waiting.pop()
        owners = [v.owner for v in near.operands if isinstance(v.owner, Operation)]
        users = [use.operation for result in near.results for use in result.uses]
        for other in (*owners, *users):
            if other in seen or why_not(other) is not None:
                continue
            if not isinstance(other, FOLLOWERS):
                return True
            seen.add(other)
            waiting.append(other)
    return False


def circuit_limit(op: Operation, board: FpgaBoard) -> str | None:
    """Why the circuits of `board` do not take `op`, or None."""
    if isinstance(op, graph.ReshapeOp):
        return None
    circuit = circuit_of(op, board)
    if circuit is None:
        kind = "a depthwise convolution" if graph.is_depthwise(op) else op.name
        return f"{board.title} has no circuit for {kind}"
    kernel = op.window if isinstance(op, GraphOperation) else ()
    if circuit.max_kernel is not None and max(kernel, default=1) > circuit.max_kernel:
        return f"a window of {max(kernel)} exceeds the {circuit.max_kernel} of the board's circuit"
    channels = max(shape_of(v)[-1] for v in (op.operands[0], op.results[0]))
    if circuit.max_channels is not None and channels > circuit.max_channels:
        return f"{channels} channels exceed the {circuit.max_channels} of the board's circuit"
    return None


def circuit_of(op: Operation, board: FpgaBoard) -> BoardCircuit | None:
    name = "depthwise" if graph.is_depthwise(op) else op.name.removeprefix("graph.")
    return board.circuits.get(name)


def cost_of(op: Operation, board: FpgaBoard, *, admitted: bool) -> Cost:
    """What the board's model says that `op` takes; a reshape is on whichever side is best."""
    moved = moved_bytes(op)
    if moved == 0:
        return Cost(0.0, 0.0, FPGA)
    macs = op.macs if isinstance(op, GraphOperation) else 0
    # A maximum or a sum takes the CPU what a product does.
    taps = prod(op.window) * prod(shape_of(op.result)) if isinstance(op, graph.Pool2dOp) else 0
    cpu = (macs + taps) / board.cpu_macs_per_us + moved / board.cpu_bytes_per_us
    circuit = circuit_of(op, board)
    if not admitted or circuit is None:
        return Cost(cpu, None, FPGA)
    host = circuit.launch_us + packing(op, circuit.lanes, board)
    if board.array is not None and (run := core_cycles_of(op, board.array)) is not None:
        launches, cycles = run
        more = (launches - 1) * circuit.launch_us
        return Cost(cpu, host + more + cycles / board.clock_mhz, FPGA)
    cycles = moved / circuit.bytes_per_cycle
    if isinstance(op, graph.SliceOp | graph.TransposeOp):
        # Elements side by side are one burst, which takes a cycle at least.
        cycles = max(cycles, prod(shape_of(op.result)) / _run_length(op))
    if isinstance(op, graph.LinearOperation) and circuit.macs_per_cycle:
        outputs, inputs = shape_of(op.weights)[0], shape_of(op.weights)[-1]
        padded = _rounded(outputs, circuit.lanes)
        padded *= inputs if graph.is_depthwise(op) else _rounded(inputs, circuit.lanes)
        cycles = max(cycles, macs * padded / (outputs * inputs) / circuit.macs_per_cycle)
    return Cost(cpu, host + cycles / board.clock_mhz, FPGA)


def packing(op: Operation, lanes: int, board: FpgaBoard) -> float:
    """
    Microseconds in which the CPU packs computed weights, and what it has packed changes sides: of
    each output a constant of 8 bytes and its products, both in whole tiles of `lanes`.
    """
    if not packed_operands(op):
        return 0.0
    assert isinstance(op, graph.LinearOperation)
    outputs, products = shape_of(op.weights)
    packed = _rounded(outputs, lanes) * (CONSTANT_BYTES + _rounded(products, lanes))
    moved = byte_size(op.weights) + packed
    return moved / board.cpu_bytes_per_us + _crossing(packed, board)


def moved_bytes(op: Operation) -> int:
    """
    Bytes that `op` reads and writes: none for another shape of the same bytes, and none for what a
    concatenation has in its place. Before there is a plan, it has all that can be there.
    """
    if viewed(op) is not None:
        return 0
    if not isinstance(op, graph.ConcatOp):
        return sum(byte_size(value) for value in {*op.operands, *op.results})
    is_planned = block_of(op.result) is not None
    there = [part.operand for part in slices(op) if not is_planned or operand_in_place(op, part)]
    return 2 * sum(byte_size(value) for value in op.operands if value not in there)


def _run_length(op: graph.SliceOp | graph.TransposeOp) -> int:
    """Elements that lie side by side in operand and result."""
    source = shape_of(op.input)
    if isinstance(op, graph.TransposeOp):
        order = op.permutation.get_values()
        run = 1
        for d in reversed(range(len(order))):
            if order[d] != d:
                break
            run *= source[d]
        return run
    strides = [int(v) for v in op.strides.get_values()]
    return shape_of(op.result)[-1] if strides[-1:] == [1] else 1


def _rounded(size: int, lanes: int) -> int:
    return -(-size // lanes) * lanes


def transfer(value: SSAValue, board: FpgaBoard) -> float:
    """Microseconds for a value to change sides."""
    return _crossing(byte_size(value), board)


def _crossing(size: int, board: FpgaBoard) -> float:
    return board.bus_latency_us + size / board.bus_bytes_per_us


ONLY_IN_CPP = "only_in_cpp"
"""Why the core in Verilog does not run a layer of the FPGA; its time is of the board's rates."""


def annotate_times(layers: list[dict[str, object]], module: ModuleOp, board_name: str) -> None:
    """Add its microseconds to the entry of each layer."""
    board, ops = load_board(board_name), steps(main_function(module))
    for op, entry in zip(ops, entries_of(layers, ops), strict=True):
        if entry is None:
            continue
        on_fpga = device_of(op) == FPGA
        cost = cost_of(op, board, admitted=on_fpga)
        if on_fpga and board.array is not None and moved_bytes(op):
            run = core_cycles_of(op, board.array)
            if run is None:
                entry[ONLY_IN_CPP] = why_not_in_verilog(op, board.array)
            else:
                entry["cycles"] = run[1]
        entry[MICROSECONDS] = round((cost.accelerator if on_fpga else cost.cpu) or 0.0, 3)


def prediction(board_name: str) -> Prediction:
    """Where the times come from, and what circuits and CPU can do at most."""
    board = load_board(board_name)
    circuits = board.circuits.values()
    macs = max((circuit.macs_per_cycle for circuit in circuits), default=0.0)
    moved = max((circuit.bytes_per_cycle for circuit in circuits), default=0.0)
    ceilings = [Ceiling(CPU, board.cpu_macs_per_us, board.cpu_bytes_per_us)]
    if macs and moved:
        ceilings.insert(0, Ceiling(FPGA, macs * board.clock_mhz, moved * board.clock_mhz))
    return Prediction(
        f"{board.title} at {board.clock_mhz:g} MHz",
        (
            "A circuit takes its launch, the packing of computed weights, and the cycles of the "
            "core in Verilog; one in C++ alone "
            f"('{ONLY_IN_CPP}'), the longer of its products and bytes"
            if board.array is not None
            else "A circuit takes its launch and the longer of its products and bytes"
        )
        + ", the CPU its products and its bytes, at the board's rates. Moves between them are not "
        "counted.",
        tuple(ceilings),
    )


BLOCK = number("runtime/zero_blocks.h", "ZERO_BLOCK")


def skipped_share(op: graph.LinearOperation) -> float:
    """The share of its products that the engine skips."""
    weights = graph.constant_array(op.weights)
    grouped = isinstance(op, graph.Conv2dOp) and op.group_count != 1
    element = graph.quantized_element(op.weights)
    if weights is None or element is None or op.requant is None or grouped:
        return 0.0
    return _share_in_zero_blocks(weights != zero_points(element, weights.ndim))


def _share_in_zero_blocks(nonzero: NDArray[np.bool_]) -> float:
    rows = nonzero.reshape(len(nonzero), -1)
    ends = [(0, -extent % BLOCK) for extent in rows.shape]
    blocks = np.pad(rows, ends).reshape(-(-len(rows) // BLOCK), BLOCK, -1, BLOCK)
    high, wide = np.nonzero(~blocks.any(axis=(1, 3)))
    # Blocks at the ends have fewer weights.
    heights = np.minimum(BLOCK, rows.shape[0] - high * BLOCK)
    widths = np.minimum(BLOCK, rows.shape[1] - wide * BLOCK)
    return float((heights * widths).sum() / rows.size)


def annotate_skipped(layers: list[dict[str, object]], module: ModuleOp) -> None:
    """Add `skipped_products` to the entry of each layer that has such blocks."""
    ops = steps(main_function(module))
    for op, entry in zip(ops, entries_of(layers, ops), strict=True):
        if entry is None or not isinstance(op, graph.LinearOperation):
            continue
        if share := skipped_share(op):
            entry["skipped_products"] = round(share, 4)
