"""
The time of an operation on VTA and on the host's CPU, in microseconds, for placement by cost.

VTA's times are those of the schedules that will be chosen; the host's are its rates in the board
file. A value that changes sides is packed or unpacked by the host. `maximum_after` decides whether
a maximum over windows is taken of the sums of a convolution before they are rescaled.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.machine.encoding import DEFAULT_BOARD
from ceras_ir.backends.vta.machine.time import Timing
from ceras_ir.backends.vta.rules.addition_pooling import (
    addition_contraction,
    averaging_of,
    graph_pooling,
    multiplier_digits,
)
from ceras_ir.backends.vta.rules.admission import VTA, graph_contraction, why_not
from ceras_ir.backends.vta.rules.channel_constants import computed_point, has_computed_weights
from ceras_ir.backends.vta.schedule.blocks import longest_row
from ceras_ir.backends.vta.schedule.contraction import SWISH_CYCLES, SWISH_PASSES, Contraction
from ceras_ir.backends.vta.schedule.cost import estimate
from ceras_ir.backends.vta.schedule.search import (
    averaging_blocks,
    averaging_cycles,
    best_blocks,
    maximum_cycles,
    pooling_blocks,
    search_all,
)
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.graph.attributes import MovesElements, viewed_operand
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.tile import WindowMaximum
from ceras_ir.targets.capabilities import Accelerator, Cost
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_ir.transforms.quantization.analysis.function_forms import Form

WEIGHTS = 1
"""Which operand of a `graph.LinearOperation` they are."""
NEVER = 1e9
"""Microseconds for a value that VTA can neither load nor store."""


class VtaAccelerator(Accelerator):
    """VTA in its default configuration, or that of the `board` whose rates are known."""

    device = VTA

    def __init__(self, board: str | None, jobs: int):
        self.board = DEFAULT_BOARD if board is None else load_board(board)
        self.has_costs = board is not None
        self.jobs = jobs

    def why_not(self, op: Operation) -> str | None:
        return why_not(op, self.board)

    def prepare(self, ops: Sequence[Operation]) -> None:
        products = [op for op in ops if isinstance(op, graph.LinearOperation | graph.BinaryOp)]
        shapes = [_contraction(op, self.board) for op in products]
        search_all(shapes, self.board, jobs=self.jobs)

    def must_run(self, op: Operation) -> bool:
        """
        Dense products with constants are what VTA is for: where they run is not a question of
        transfers.
        """
        if not isinstance(op, graph.LinearOperation) or has_computed_weights(op):
            return False
        return not isinstance(op, graph.Conv2dOp) or op.group_count == 1

    def host_operands(self, op: Operation) -> Sequence[int]:
        """Computed weights, of which the host makes tiles."""
        is_computed = isinstance(op, graph.LinearOperation) and has_computed_weights(op)
        return (WEIGHTS,) if is_computed else ()

    def cost(self, op: Operation, *, admitted: bool) -> Cost:
        """Modelled time of `op` on each side; none on VTA unless the rules have `admitted` it."""
        board = self.board
        moved = sum(byte_size(value) for value in {*op.operands, *op.results})
        if op.has_trait(MovesElements):
            # A slice reads no more than it writes.
            moved = 2 * byte_size(op.results[0])
        macs = op.macs if isinstance(op, graph.GraphOperation) else 0
        cpu = macs / board.host_macs_per_us + moved / board.host_bytes_per_us
        if isinstance(op, graph.Pool2dOp):
            cpu += byte_size(op.result) * prod(op.kernel.get_values()) / board.host_bytes_per_us
        if viewed_operand(op) is not None:
            cpu = 0.0
        vta = cycles_of(op, board) / board.clock if admitted else None
        if vta is not None:
            vta += tile_microseconds(op, board)
        return Cost(cpu, vta, VTA, _swish_note(op, board))

    def transfer(self, value: SSAValue) -> float:
        return transfer(value, self.board)


def form_for_alu(board: VtaBoard) -> Callable[[graph.UnaryOp, graph.LinearOperation], Form]:
    """SiLU as shifts where they take no longer on VTA's ALU; tables for all else."""

    def offer(op: graph.UnaryOp, linear: graph.LinearOperation) -> Form:
        is_swish = op.function == graph.FunctionAttr(graph.Function.SWISH)
        constant = isinstance(linear.weights.owner, graph.ConstantOp)
        pays = is_swish and constant and swish_pays(graph.shape_of(op.result), board)
        return Form.SHIFTS if pays else Form.TABLE

    return offer


def _swish_note(op: Operation, board: VtaBoard) -> str:
    """What the swish of a sum takes as ALU operations, and as a table with both transfers."""
    if not isinstance(op, graph.LookupOp | graph.ShiftSwishOp) or not _is_swish(op):
        return ""
    linear = op.input.owner
    if not isinstance(linear, graph.LinearOperation) or why_not(linear, board):
        return ""
    shape = graph_contraction(linear, board)
    vectors = shape.batch * shape.groups * shape.nblocks * shape.rows * shape.columns
    alu, table = swish_microseconds(vectors, byte_size(op.result), board)
    return f"; swish by the ALU {alu:.1f} us, by a table {table:.1f} us"


def swish_microseconds(vectors: int, size: int, board: VtaBoard) -> tuple[float, float]:
    """Of the swish of `vectors` with `size` bytes: on the ALU, and by a table on the host."""
    # An eighth of the accumulators at once: the temporaries and two buffers take the rest.
    instructions = SWISH_PASSES * -(-8 * vectors // board.acc)
    cycles = vectors * SWISH_CYCLES + instructions * Timing.instruction
    # The host reads and writes, once for the table and once for either transfer.
    return cycles / board.clock, 4 * size / board.host_bytes_per_us


def swish_pays(shape: Sequence[int], board: VtaBoard) -> bool:
    """
    Whether the ALU is the faster one for a result of this shape. Both times grow with its
    positions, so that the answer depends on what fills vectors: channels, and rows if there are.
    """
    rows = -(-shape[0] // board.batch)
    vectors = rows * prod(shape[1:-1]) * -(-shape[-1] // board.block)
    alu, table = swish_microseconds(vectors, prod(shape), board)
    return alu <= table


def _is_swish(op: graph.LookupOp | graph.ShiftSwishOp) -> bool:
    """Whether it is one, or a table of one."""
    return isinstance(op, graph.ShiftSwishOp) or any(
        isinstance(a, graph.FunctionAttr) and a.kind is graph.Function.SWISH
        for a in op.attributes.values()
    )


def transfer(value: SSAValue, board: VtaBoard) -> float:
    """Microseconds for a value to change sides: packed or unpacked by the host."""
    element = graph.quantized_element(value)
    if element is not None and element.storage.width.data != 8:
        return NEVER
    return byte_size(value) / board.host_bytes_per_us


def tile_microseconds(op: Operation, board: VtaBoard) -> float:
    """Of the host, for tiles of the computed weights of `op`, and for sums of them if need be."""
    if not isinstance(op, graph.LinearOperation) or not has_computed_weights(op):
        return 0.0
    passes = 2 if computed_point(op) else 1
    return passes * byte_size(op.weights) / board.host_bytes_per_us


def cycles_of(op: Operation, board: VtaBoard) -> float:
    """Of an operation that VTA's rules admit."""
    match op:
        case graph.LinearOperation() | graph.BinaryOp():
            shape = _contraction(op, board)
            blocks = best_blocks(shape, board)
            assert blocks is not None, "the rules admit what fits in blocks of one"
            return estimate(shape, blocks, board)
        case graph.ShiftSwishOp():
            # It is in the epilogue of the layer before, and counted there.
            return 0.0
        case graph.Pool2dOp() if op.function is Pool.AVERAGE:
            average, shape = averaging_of(op), graph_pooling(op, board)
            assert average is not None
            tiles = len(multiplier_digits(average))
            sizes = averaging_blocks(shape, tiles, board)
            assert sizes is not None
            return averaging_cycles(shape, tiles, sizes, board)
        case graph.Pool2dOp():
            shape = graph_pooling(op, board)
            blocks = pooling_blocks(shape, board)
            assert blocks is not None
            return maximum_cycles(shape, *blocks) * shape.planes
        case _:
            raise AssertionError(op.name)


def _contraction(op: graph.LinearOperation | graph.BinaryOp, board: VtaBoard) -> Contraction:
    """The shape of `op` as it is scheduled."""
    if isinstance(op, graph.BinaryOp):
        return addition_contraction(op, board).flattened(longest_row(board))
    return graph_contraction(op, board).flattened(longest_row(board))


def window_maximum(op: graph.Pool2dOp) -> WindowMaximum:
    """The windows of `op`."""
    top, left, _, _ = op.padding.get_values()
    return WindowMaximum.of((*op.kernel.get_values(), *op.strides.get_values(), top, left))


def maximum_after(op: graph.LinearOperation, board: VtaBoard) -> graph.Pool2dOp | None:
    """
    The maximum over windows that comes next, is the only reader of `op` on the same device, and
    costs less with it.
    """
    if not isinstance(op, graph.Conv2dOp):
        return None
    pool = op.next_op
    while isinstance(pool, graph.ConstantOp):
        pool = pool.next_op
    if not isinstance(pool, graph.Pool2dOp) or pool.function is not Pool.MAX:
        return None
    if pool.input is not op.result or not op.result.has_one_use() or op.residual is not None:
        return None
    if mem.device_of(pool) != mem.device_of(op) or set(pool.dilations.get_values()) != {1}:
        return None
    maximum, (_, rows, columns, _) = window_maximum(pool), graph.shape_of(op.result)
    shape = graph_contraction(op, board)
    if shape.groups > 1 or not maximum.fits(rows, columns):
        return None
    if graph.shape_of(pool.result)[1:3] != maximum.results(rows, columns):
        return None
    return pool if _pays(pool, replace(shape, maximum=maximum), board) else None


def _pays(pool: graph.Pool2dOp, fused: Contraction, board: VtaBoard) -> bool:
    """Whether `fused` takes less than the convolution and the maximum one after the other."""
    alone, windows = replace(fused, maximum=None), graph_pooling(pool, board)
    blocks, sizes = best_blocks(fused, board), pooling_blocks(windows, board)
    if blocks is None or sizes is None:
        return blocks is not None
    apart = best_blocks(flat := alone.flattened(longest_row(board)), board)
    if apart is None:
        return True
    cycles = estimate(flat, apart, board) + maximum_cycles(windows, *sizes) * windows.planes
    return estimate(fused, blocks, board) < cycles
