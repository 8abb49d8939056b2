"""
Place operations on the FPGA of nnet, and report times, cycles and skipped products of layers.

Placement and report use the same model of a board: rules, circuits, and rates of CPU and bus.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.array_cycles import core_cycles_of
from ceras_ir.backends.nnet.array_plan import why_not_in_verilog
from ceras_ir.backends.nnet.board import BoardCircuit, FpgaBoard, load_board
from ceras_ir.backends.nnet.circuits import number
from ceras_ir.backends.nnet.rules import FPGA, MOVERS, packed_operands, why_not
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import GraphOperation, shape_of
from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.dialects.mem import CPU, block_of, device_of
from ceras_ir.network.function import main_function
from ceras_ir.network.integer import zero_points
from ceras_ir.pipeline.report import entries_of
from ceras_ir.targets import MICROSECONDS, Ceiling, Prediction
from ceras_ir.targets.capabilities import Accelerator, Cost
from ceras_ir.transforms.memory.liveness import byte_size, steps
from ceras_ir.transforms.memory.offsets import aligned
from ceras_ir.transforms.memory.slices import operand_in_place, slices

CONSTANT_BYTES = 8
"""
The bytes that each output channel adds to the packed weights: its constant, shift and table number.
"""


class FpgaAccelerator(Accelerator):
    """
    The rules of the FPGA for the pass `place`. With a board, its limits are further rules, and
    operations are placed by the modelled times.
    """

    device = FPGA

    def __init__(self, board: str | None):
        self.board = None if board is None else load_board(board)
        self.has_costs = self.board is not None

    def why_not(self, op: Operation) -> str | None:
        if reason := why_not(op):
            return reason
        if self.board is not None:
            return circuit_limit(op, self.board)
        if isinstance(op, FOLLOWERS) and not _is_next_to_a_circuit(op):
            return "no circuit of the FPGA computes the operands or uses the result"
        return None

    def cost(self, op: Operation, *, admitted: bool) -> Cost:
        assert self.board is not None
        return cost_of(op, self.board, admitted=admitted)

    def host_operands(self, op: Operation) -> Sequence[int]:
        return packed_operands(op)

    def transfer(self, value: SSAValue) -> float:
        assert self.board is not None
        return transfer_us(byte_size(value), self.board)


FOLLOWERS = MOVERS | graph.LookupOp
"""
The operations that follow the device of their producers or consumers if no board is given. With a
board, the modelled times decide.
"""


def _is_next_to_a_circuit(op: Operation) -> bool:
    # Follow producers and consumers through other followers.
    visited, pending = {op}, [op]
    while pending:
        follower = pending.pop()
        producers = [v.owner for v in follower.operands if isinstance(v.owner, Operation)]
        consumers = [use.operation for result in follower.results for use in result.uses]
        for neighbour in (*producers, *consumers):
            if neighbour in visited or why_not(neighbour) is not None:
                continue
            if not isinstance(neighbour, FOLLOWERS):
                return True
            visited.add(neighbour)
            pending.append(neighbour)
    return False


def circuit_limit(op: Operation, board: FpgaBoard) -> str | None:
    """Return the reason why the circuits of `board` cannot execute `op`, or `None` if they can."""
    if isinstance(op, graph.ReshapeOp):
        return None
    circuit = _circuit_of(op, board)
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


def _circuit_of(op: Operation, board: FpgaBoard) -> BoardCircuit | None:
    name = "depthwise" if graph.is_depthwise(op) else op.name.removeprefix("graph.")
    return board.circuits.get(name)


def cost_of(op: Operation, board: FpgaBoard, *, admitted: bool) -> Cost:
    """
    Return the modelled times of `op` on CPU and FPGA in microseconds. The time on the FPGA is
    `None` if the rules refuse `op` (`admitted` is false) or the board has no circuit; both times
    are 0 if `op` moves no data.
    """
    moved = moved_bytes(op)
    if moved == 0:
        return Cost(0.0, 0.0, FPGA)
    macs = op.macs if isinstance(op, GraphOperation) else 0
    # On the CPU, a maximum or a sum costs as much as a product.
    taps = prod(op.window) * prod(shape_of(op.result)) if isinstance(op, graph.Pool2dOp) else 0
    cpu = (macs + taps) / board.cpu_macs_per_us + moved / board.cpu_bytes_per_us
    circuit = _circuit_of(op, board)
    if not admitted or circuit is None:
        return Cost(cpu, None, FPGA)
    host = circuit.launch_us + _packing_us(op, circuit.lanes, board)
    if board.array is not None and (run := core_cycles_of(op, board.array)) is not None:
        launches, cycles = run
        more = (launches - 1) * circuit.launch_us
        return Cost(cpu, host + more + cycles / board.clock_mhz, FPGA)
    cycles = moved / circuit.bytes_per_cycle
    if isinstance(op, graph.SliceOp | graph.TransposeOp):
        # Each run of contiguous elements is a burst, which needs a cycle or more.
        cycles = max(cycles, prod(shape_of(op.result)) / _run_length(op))
    if isinstance(op, graph.LinearOperation) and circuit.macs_per_cycle:
        outputs, inputs = shape_of(op.weights)[0], shape_of(op.weights)[-1]
        padded = aligned(outputs, circuit.lanes)
        padded *= inputs if graph.is_depthwise(op) else aligned(inputs, circuit.lanes)
        cycles = max(cycles, macs * padded / (outputs * inputs) / circuit.macs_per_cycle)
    return Cost(cpu, host + cycles / board.clock_mhz, FPGA)


def _packing_us(op: Operation, lanes: int, board: FpgaBoard) -> float:
    # The CPU packs computed weights into full tiles, which the FPGA loads.
    if not packed_operands(op):
        return 0.0
    assert isinstance(op, graph.LinearOperation)
    outputs, products = shape_of(op.weights)
    packed = aligned(outputs, lanes) * (CONSTANT_BYTES + aligned(products, lanes))
    moved = byte_size(op.weights) + packed
    return moved / board.cpu_bytes_per_us + transfer_us(packed, board)


def moved_bytes(op: Operation) -> int:
    """
    Return the number of bytes that `op` reads and writes.

    A reshape of the same bytes moves no data, nor does an operand of a concatenation that is
    already stored in the result. Before memory planning, all operands that can be stored so count
    as stored.
    """
    if viewed_operand(op) is not None:
        return 0
    if not isinstance(op, graph.ConcatOp):
        return sum(byte_size(value) for value in {*op.operands, *op.results})
    is_planned = block_of(op.result) is not None
    in_place = [part.operand for part in slices(op) if not is_planned or operand_in_place(op, part)]
    return 2 * sum(byte_size(value) for value in op.operands if value not in in_place)


def _run_length(op: graph.SliceOp | graph.TransposeOp) -> int:
    # The number of elements that are contiguous in both operand and result.
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


def transfer_us(size: int, board: FpgaBoard) -> float:
    """Return the microseconds in which the bus transfers `size` bytes between CPU and FPGA."""
    return board.bus_latency_us + size / board.bus_bytes_per_us


ONLY_IN_CPP = "only_in_cpp"
"""
The key of the reason why the core in Verilog cannot execute a layer of the FPGA. The time of such a
layer follows from the rates of the board.
"""


def annotate_times(layers: list[dict[str, object]], module: ModuleOp, board_name: str) -> None:
    """
    Add the modelled time in microseconds to the report entry of each layer; for layers of a core in
    Verilog, also the cycles, or the reason why the core cannot execute the layer.
    """
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
    """
    Return the text that explains the modelled times, with the maximum rates of circuits and CPU for
    the roofline of the report.
    """
    board = load_board(board_name)
    circuits = board.circuits.values()
    macs = max((circuit.macs_per_cycle for circuit in circuits), default=0.0)
    moved = max((circuit.bytes_per_cycle for circuit in circuits), default=0.0)
    ceilings = [Ceiling(CPU, board.cpu_macs_per_us, board.cpu_bytes_per_us)]
    if macs and moved:
        ceilings.insert(0, Ceiling(FPGA, macs * board.clock_mhz, moved * board.clock_mhz))
    times = "launch, and the longer of the times for products and bytes"
    if board.array is not None:
        times = (
            "launch, packing of computed weights, and cycles of the core in Verilog, or, for a "
            f"layer that is '{ONLY_IN_CPP}', the longer of the times for products and bytes"
        )
    text = (
        f"Time of a circuit: {times}. Time of the CPU: products and bytes at the rates of the "
        "board. Transfers between the two are not included."
    )
    return Prediction(f"{board.title} at {board.clock_mhz:g} MHz", text, tuple(ceilings))


ZERO_BLOCK = number("runtime/zero_blocks.h", "ZERO_BLOCK")


def skipped_share(op: graph.LinearOperation) -> float:
    """
    Return the share, 0 to 1, of the products of a layer that the engine skips, because they are in
    square blocks of zero weights; 0 for layers without such blocks.
    """
    weights = graph.constant_array(op.weights)
    grouped = isinstance(op, graph.Conv2dOp) and op.group_count != 1
    element = graph.quantized_element(op.weights)
    if weights is None or element is None or op.requant is None or grouped:
        return 0.0
    rows = (weights != zero_points(element, weights.ndim)).reshape(len(weights), -1)
    padding = [(0, -extent % ZERO_BLOCK) for extent in rows.shape]
    blocks = np.pad(rows, padding).reshape(-(-len(rows) // ZERO_BLOCK), ZERO_BLOCK, -1, ZERO_BLOCK)
    high, wide = np.nonzero(~blocks.any(axis=(1, 3)))
    # Blocks at the borders have fewer weights.
    heights = np.minimum(ZERO_BLOCK, rows.shape[0] - high * ZERO_BLOCK)
    widths = np.minimum(ZERO_BLOCK, rows.shape[1] - wide * ZERO_BLOCK)
    return float((heights * widths).sum() / rows.size)


def annotate_skipped(layers: list[dict[str, object]], module: ModuleOp) -> None:
    """Add the share of skipped products to the report entry of each layer in which it is not 0."""
    ops = steps(main_function(module))
    for op, entry in zip(ops, entries_of(layers, ops), strict=True):
        if entry is None or not isinstance(op, graph.LinearOperation):
            continue
        if share := skipped_share(op):
            entry["skipped_products"] = round(share, 4)
