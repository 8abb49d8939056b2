"""
Which side runs each operation so that the modelled time is least: a minimum cut.

Operations on the source's side of the cut run on the FPGA. A value costs its transfer once in
each direction that it crosses, however many operations read it; the network's arguments
and results are the CPU's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.board import Circuit, FpgaBoard
from ceras_ir.dialects.graph import ConstantOp, GraphOperation, LinearOperation, shape_of
from ceras_ir.dialects.graph.traits import viewed
from ceras_ir.network.function import result_values
from ceras_ir.transforms.memory.analysis.liveness import byte_size, steps
from ceras_ir.transforms.placement.analysis.min_cut import INFINITE, SINK, SOURCE, FlowGraph

NANOSECONDS = 1000


@dataclass(frozen=True)
class Cost:
    """Modelled microseconds of one operation on each side; no FPGA time where it cannot."""

    cpu: float
    fpga: float | None
    name: str = "fpga"
    """What the accelerator is called."""
    note: str = ""
    """What else the model says."""

    def __str__(self) -> str:
        if self.cpu == self.fpga == 0.0 and not self.note:
            return "no time: the same bytes under another shape"
        fpga = "cannot" if self.fpga is None else f"{self.fpga:.1f} us"
        return f"cpu {self.cpu:.1f} us, {self.name} {fpga}{self.note}"


def circuit_limit(op: Operation, board: FpgaBoard) -> str | None:
    """Why the circuits of `board` do not take `op`, or None."""
    circuit = circuit_of(op, board)
    if circuit is None:
        return f"{board.title} has no circuit for {op.name}"
    kernel = op.window if isinstance(op, GraphOperation) else ()
    if circuit.max_kernel is not None and max(kernel, default=1) > circuit.max_kernel:
        return f"a window of {max(kernel)} exceeds the {circuit.max_kernel} of the board's circuit"
    channels = max(shape_of(v)[-1] for v in (op.operands[0], op.results[0]))
    if circuit.max_channels is not None and channels > circuit.max_channels:
        return f"{channels} channels exceed the {circuit.max_channels} of the board's circuit"
    return None


def circuit_of(op: Operation, board: FpgaBoard) -> Circuit | None:
    return board.circuits.get(op.name.removeprefix("graph."))


def cost_of(op: Operation, board: FpgaBoard, *, admitted: bool) -> Cost:
    """What the board's model says that `op` takes; a reshape is on whichever side is best."""
    if viewed(op) is not None:
        return Cost(0.0, 0.0)
    moved = sum(byte_size(value) for value in {*op.operands, *op.results})
    macs = op.macs if isinstance(op, GraphOperation) else 0
    cpu = macs / board.cpu_macs_per_us + moved / board.cpu_bytes_per_us
    circuit = circuit_of(op, board)
    if not admitted or circuit is None:
        return Cost(cpu, None)
    cycles = moved / circuit.bytes_per_cycle
    if isinstance(op, LinearOperation) and circuit.macs_per_cycle:
        outputs, inputs = shape_of(op.weights)[0], shape_of(op.weights)[-1]
        padded = _rounded(outputs, circuit.lanes) * _rounded(inputs, circuit.lanes)
        cycles = max(cycles, macs * padded / (outputs * inputs) / circuit.macs_per_cycle)
    return Cost(cpu, circuit.launch_us + cycles / board.clock_mhz)


def _rounded(size: int, lanes: int) -> int:
    return -(-size // lanes) * lanes


def transfer(value: SSAValue, board: FpgaBoard) -> float:
    """Microseconds for a value to change sides."""
    return board.bus_latency_us + byte_size(value) / board.bus_bytes_per_us


def cheapest(
    main: FuncOp,
    costs: Mapping[Operation, Cost],
    pins: Mapping[Operation, bool],
    price_of: Callable[[SSAValue], float],
) -> tuple[float, set[Operation]]:
    """
    The least modelled microseconds of one inference, and what runs on the FPGA for them.
    `pins` says of some operations whether they must; `price_of` is for a value to change sides.
    """
    graph = FlowGraph()
    nodes = {op: graph.add_node() for op in steps(main)}
    for op, node in nodes.items():
        cost = costs[op]
        graph.add_edge(node, SINK, INFINITE if cost.fpga is None else _ns(cost.fpga))
        graph.add_edge(SOURCE, node, _ns(cost.cpu))
        if op in pins:
            ends = (SOURCE, node) if pins[op] else (node, SINK)
            graph.add_edge(*ends, INFINITE)
    returned = set(result_values(main))
    for value in [*main.body.block.args, *(v for op in nodes for v in op.results)]:
        maker = nodes[value.owner] if isinstance(value.owner, Operation) else SINK
        readers = sorted({nodes[use.operation] for use in value.uses if use.operation in nodes})
        if value in returned:
            readers.append(SINK)
        price = _ns(price_of(value))
        to_cpu, to_fpga = graph.add_node(), graph.add_node()
        graph.add_edge(maker, to_cpu, price)
        graph.add_edge(to_fpga, maker, price)
        for reader in readers:
            graph.add_edge(to_cpu, reader, INFINITE)
            graph.add_edge(reader, to_fpga, INFINITE)
    total, fpga = graph.cut()
    return total / NANOSECONDS, {op for op, node in nodes.items() if node in fpga}


def crossings(main: FuncOp, fpga: set[Operation]) -> list[SSAValue]:
    """Values that change sides, twice over where both sides would read them: once each."""
    returned = set(result_values(main))
    result: list[SSAValue] = []
    for op in main.body.block.ops:
        if not isinstance(op, ConstantOp):
            result += [v for v in op.results if _crosses(v, op in fpga, fpga, v in returned)]
    return [
        *(a for a in main.body.block.args if _crosses(a, False, fpga, False)),
        *result,
    ]


def _crosses(value: SSAValue, on_fpga: bool, fpga: set[Operation], returned: bool) -> bool:
    readers = [use.operation in fpga for use in value.uses if use.operation.results]
    return any(reader != on_fpga for reader in readers) or (returned and on_fpga)


def _ns(microseconds: float) -> int:
    return round(microseconds * NANOSECONDS)
