"""
Estimate the time of an operation on VTA and on the CPU of the host, in microseconds, for placement
by cost.

Times of VTA are for the schedules that will be chosen; times of the host follow from the rates in
the board file. The host packs or unpacks a value that changes devices. `maximum_after` decides
whether a maximum over windows is fused into a convolution. `best_windows` chooses the number of
taps of a window that become channels: all of them (im2col), a number equal to the stride (space to
depth), or a number in between, which leaves a convolution with fewer taps and more channels.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.machine.encoding import DEFAULT_VTA_BOARD
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
from ceras_ir.dialects.mem.packing import packed_shape
from ceras_ir.dialects.tile import WindowMaximum
from ceras_ir.targets.capabilities import Accelerator, Cost
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_ir.transforms.quantization.analysis.function_forms import Form

WEIGHTS = 1
"""The operand index of weights in `graph.LinearOperation`."""
UNSUPPORTED_TRANSFER_US = 1e9
"""
The time in microseconds of a value that VTA can neither load nor store, so large that no placement
needs it.
"""


class VtaAccelerator(Accelerator):
    """
    The rules and modelled times of VTA for the pass `place`; without `board`, the rules of the
    default configuration and no times.
    """

    device = VTA

    def __init__(self, board: str | None, jobs: int):
        self.board = DEFAULT_VTA_BOARD if board is None else load_board(board)
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
        Return whether `op`, which VTA supports, runs on VTA regardless of its time: a layer with
        constant weights and a single group.
        """
        if not isinstance(op, graph.LinearOperation) or has_computed_weights(op):
            return False
        return not isinstance(op, graph.Conv2dOp) or op.group_count == 1

    def host_operands(self, op: Operation) -> Sequence[int]:
        """
        Return the indices of the operands of `op` that the host packs before each run: weights that
        are not constant.
        """
        is_computed = isinstance(op, graph.LinearOperation) and has_computed_weights(op)
        return (WEIGHTS,) if is_computed else ()

    def cost(self, op: Operation, *, admitted: bool) -> Cost:
        """
        Return the modelled microseconds of `op` on the CPU and on VTA; the latter is `None` if VTA
        does not support it (`admitted` is false).
        """
        board = self.board
        moved = sum(byte_size(value) for value in {*op.operands, *op.results})
        if op.has_trait(MovesElements):
            # A slice loads and stores the same number of bytes.
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
    """
    Return a function that chooses the form of an activation after a layer: shifts for a SiLU if the
    ALU of VTA is as fast as a table on the host, otherwise a table.
    """

    def offer(op: graph.UnaryOp, linear: graph.LinearOperation) -> Form:
        is_swish = op.function == graph.FunctionAttr(graph.Function.SWISH)
        constant = isinstance(linear.weights.owner, graph.ConstantOp)
        pays = is_swish and constant and swish_pays(graph.shape_of(op.result), board)
        return Form.SHIFTS if pays else Form.TABLE

    return offer


def _swish_note(op: Operation, board: VtaBoard) -> str:
    """
    Return a note for the report with the modelled times of a swish on the ALU of VTA and as a table
    on the host; empty for other operations.
    """
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
    """
    Return the microseconds of a swish on the ALU of VTA, for `vectors` vectors, and as a table on
    the host, for `size` bytes.
    """
    # A step processes an eighth of the accumulators: temporaries and two buffers use the rest.
    instructions = SWISH_PASSES * -(-8 * vectors // board.acc)
    cycles = vectors * SWISH_CYCLES + instructions * Timing.instruction
    # The host loads and stores all bytes for the table and for both transfers.
    return cycles / board.clock, 4 * size / board.host_bytes_per_us


def swish_pays(shape: Sequence[int], board: VtaBoard) -> bool:
    """
    Return whether the ALU of VTA computes a swish of a result of `shape` as fast as a table on the
    host, or faster.

    Both times are proportional to the positions, so only the extents that fill vectors matter:
    channels, and rows if there are several.
    """
    rows = -(-shape[0] // board.batch)
    vectors = rows * prod(shape[1:-1]) * -(-shape[-1] // board.block)
    alu, table = swish_microseconds(vectors, prod(shape), board)
    return alu <= table


def _is_swish(op: graph.LookupOp | graph.ShiftSwishOp) -> bool:
    return isinstance(op, graph.ShiftSwishOp) or any(
        isinstance(a, graph.FunctionAttr) and a.data is graph.Function.SWISH
        for a in op.attributes.values()
    )


def transfer(value: SSAValue, board: VtaBoard) -> float:
    """
    Return the microseconds in which the host packs or unpacks `value`, because it changes devices.
    """
    element = graph.quantized_element(value)
    if element is not None and element.storage.width.data != 8:
        return UNSUPPORTED_TRANSFER_US
    return byte_size(value) / board.host_bytes_per_us


def tile_microseconds(op: Operation, board: VtaBoard) -> float:
    """
    Return the microseconds in which the host packs computed weights of `op` and sums them for the
    zero point; 0 for other operations.
    """
    if not isinstance(op, graph.LinearOperation) or not has_computed_weights(op):
        return 0.0
    passes = 2 if computed_point(op) else 1
    return passes * byte_size(op.weights) / board.host_bytes_per_us


def cycles_of(op: Operation, board: VtaBoard) -> float:
    """
    Return the modelled cycles of `op` on VTA with the best schedule; the rules must accept it.
    """
    match op:
        case graph.LinearOperation() | graph.BinaryOp():
            shape = _contraction(op, board)
            blocks = best_blocks(shape, board)
            assert blocks is not None, "blocks of 1 fit if the rules admit an operation"
            return estimate(shape, blocks, board)
        case graph.ShiftSwishOp():
            # It is fused into the previous layer, and counted there.
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
            return maximum_cycles(shape, *blocks, board) * shape.planes
        case _:
            raise AssertionError(op.name)


def _contraction(op: graph.LinearOperation | graph.BinaryOp, board: VtaBoard) -> Contraction:
    if isinstance(op, graph.BinaryOp):
        return addition_contraction(op, board).flattened(longest_row(board))
    return graph_contraction(op, board).flattened(longest_row(board))


def window_maximum(op: graph.Pool2dOp) -> WindowMaximum:
    top, left, _, _ = op.padding.get_values()
    return WindowMaximum.of((*op.kernel.get_values(), *op.strides.get_values(), top, left))


def maximum_after(op: graph.LinearOperation, board: VtaBoard) -> graph.Pool2dOp | None:
    """
    Return the maximum pooling that follows `op` if it is faster to fuse it into `op`, otherwise
    `None`. It must be the only consumer of `op`, on the same device.
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
    unfused, windows = replace(fused, maximum=None), graph_pooling(pool, board)
    blocks, sizes = best_blocks(fused, board), pooling_blocks(windows, board)
    if blocks is None or sizes is None:
        return blocks is not None
    separate = best_blocks(flat := unfused.flattened(longest_row(board)), board)
    if separate is None:
        return True
    cycles = (
        estimate(flat, separate, board) + maximum_cycles(windows, *sizes, board) * windows.planes
    )
    return estimate(fused, blocks, board) < cycles


@dataclass(frozen=True)
class WindowAxis:
    """
    The division of convolution windows along an axis into parts of `taps` taps, which begin every
    `step` taps. The taps of a part become channels. If parts overlap, the first part that contains
    a tap computes it.
    """

    kernel: int
    stride: int
    taps: int
    step: int

    @property
    def parts(self) -> int:
        """
        The number of parts of a window, which is the kernel extent of the convolution that remains.
        """
        return 1 + -(-(self.kernel - self.taps) // self.step)

    @property
    def dilation(self) -> int:
        """
        The distance between adjacent parts of a window, in output positions: the dilation of the
        convolution that remains.
        """
        return self.step // self.stride if self.parts > 1 else 1

    def positions(self, results: int) -> int:
        """
        Return the input extent, along this axis, of the convolution that remains for `results`
        outputs: the number of parts that the host gathers. Part n begins at position `n * stride`
        of the padded image.
        """
        return results + (self.parts - 1) * self.dilation

    def tap(self, part: int, place: int) -> int | None:
        """
        Return the index in the window of tap number `place` of part number `part`, or `None` if it
        is outside the window or the previous part computes it.
        """
        if part and place < self.taps - self.step:
            return None
        tap = part * self.step + place
        return tap if tap < self.kernel else None


@dataclass(frozen=True)
class WindowSplit:
    """
    The division of convolution windows into parts of several taps along both axes. The taps of a
    part become channels of a convolution with fewer taps.
    """

    down: WindowAxis
    across: WindowAxis

    @classmethod
    def unsplit(cls, kernel: tuple[int, int], strides: tuple[int, int]) -> "WindowSplit":
        down, across = (WindowAxis(k, s, k, s) for k, s in zip(kernel, strides, strict=True))
        return cls(down, across)

    @classmethod
    def of(cls, kernel: tuple[int, int], strides: tuple[int, int]) -> "Iterator[WindowSplit]":
        """Yield all divisions of a window into parts, except into parts of a single tap."""
        axes = [list(_window_axes(k, s)) for k, s in zip(kernel, strides, strict=True)]
        for down, across in product(*axes):
            if down.taps * across.taps > 1:
                yield cls(down, across)

    @property
    def size(self) -> tuple[int, int]:
        return self.down.taps, self.across.taps

    @property
    def kernel(self) -> tuple[int, int]:
        return self.down.parts, self.across.parts

    @property
    def dilations(self) -> tuple[int, int]:
        return self.down.dilation, self.across.dilation

    def plane(self, results: tuple[int, int]) -> tuple[int, int]:
        return self.down.positions(results[0]), self.across.positions(results[1])


def _window_axes(kernel: int, stride: int) -> Iterator[WindowAxis]:
    for taps in range(stride, kernel):
        yield WindowAxis(kernel, stride, taps, taps // stride * stride)
    yield WindowAxis(kernel, stride, kernel, stride)


MAX_SEARCHED_SPLITS = 4
"""The number of divisions, those with the lowest rough times, for which schedules are searched."""


def best_windows(op: graph.Conv2dOp, board: VtaBoard) -> WindowSplit | None:
    """
    Return the division of windows with which `op` takes the shortest time, including the time in
    which the host gathers the parts; `None` if `op` is faster unchanged.
    """
    _, kh, kw, channels = graph.shape_of(op.weights)
    if prod(op.dilations.get_values()) != 1 or why_not(op, board) is not None:
        return None
    shape = graph_contraction(op, board)
    splits: list[tuple[float, int, WindowSplit]] = []
    for windows in WindowSplit.of((kh, kw), (shape.strides[0], shape.strides[1])):
        fewer = _with_split(windows, shape, channels, board)
        if fewer.taps * fewer.kblocks < shape.taps * shape.kblocks:
            cycles = fewer.taps * fewer.kblocks * shape.nblocks * shape.rows * shape.columns
            rough = shape.batch * cycles / board.clock + host_microseconds(op, windows, board)
            splits.append((rough, len(splits), windows))
    if not splits:
        return None
    producer = op.input.owner
    here = isinstance(producer, Operation) and why_not(producer, board) is None
    plain = packed_shape(graph.shape_of(op.input), board.vector)
    moved = prod(graph.shape_of(op.input)) + prod(plain)
    best, shortest = None, cycles_of(op, board) / board.clock
    shortest += (not here) * moved / board.host_bytes_per_us
    for _, _, windows in sorted(splits)[:MAX_SEARCHED_SPLITS]:
        time = product_microseconds(op, windows, board)
        if time is None:
            continue
        time += host_microseconds(op, windows, board) + here * transfer(op.input, board)
        if time < shortest:
            best, shortest = windows, time
    return best


def product_microseconds(op: graph.Conv2dOp, windows: WindowSplit, board: VtaBoard) -> float | None:
    """
    Return the modelled microseconds on VTA of `op` as a convolution over parts of windows; `None`
    if no schedule fits the chip.
    """
    channels = graph.shape_of(op.weights)[-1]
    shape = _with_split(windows, graph_contraction(op, board), channels, board)
    shape = shape.flattened(longest_row(board))
    blocks = best_blocks(shape, board)
    return None if blocks is None else estimate(shape, blocks, board) / board.clock


def _with_split(
    windows: WindowSplit, shape: Contraction, channels: int, board: VtaBoard
) -> Contraction:
    height, width = windows.plane((shape.rows, shape.columns))
    return replace(
        shape,
        kblocks=-(-prod(windows.size) * channels // board.block),
        height=height,
        width=width,
        kernel=windows.kernel,
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilations=windows.dilations,
        outside=False,
        border_tiles=0,
    )


def host_microseconds(op: graph.Conv2dOp, windows: WindowSplit, board: VtaBoard) -> float:
    """
    Return the microseconds in which the host gathers and packs the parts of windows: it reads each
    element and writes each lane of the packed result.
    """
    n, _, _, channels = graph.shape_of(op.input)
    _, rows, columns, _ = graph.shape_of(op.result)
    parts = (n, *windows.plane((rows, columns)), prod(windows.size) * channels)
    return (prod(parts) + prod(packed_shape(parts, board.vector))) / board.host_bytes_per_us
