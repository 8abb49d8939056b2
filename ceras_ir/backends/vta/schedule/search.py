"""
Search for the best schedule of a contraction (convolution or matrix product), and for the block
sizes of poolings.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal, TypeAlias

import numpy as np

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.isa import MemoryType
from ceras_ir.backends.vta.machine.micro_op_lists import LIST_LENGTHS
from ceras_ir.backends.vta.machine.time import ALU_INTERVAL_CYCLES, Timing
from ceras_ir.backends.vta.schedule.blocks import (
    MIN_MERGED_NBLOCK,
    Blocks,
    Schedules,
    even_blocks,
    max_pad,
)
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.backends.vta.schedule.cost import estimate, rough_scores, scores
from ceras_ir.support.workers import parallel

Convolution: TypeAlias = Literal["auto", "direct", "kn2row"]
"""
The methods for windows of several taps: "direct", with inputs on chip that all taps share, or
"kn2row", with shifted inputs for each tap in turn (`Contraction.by_taps`).
"""

STAGES = ((2, 2), (1, 2), (2, 1), (1, 1))
"""The tried numbers of buffers of inputs and of weights."""


@dataclass(frozen=True)
class Limits:
    """
    The block sizes and options of a schedule that the user specifies; the search chooses those that
    are `None`. Sizes of channels count vectors.
    """

    positions: int | None = None
    """The maximum number of output positions in a block."""
    kblock: int | None = None
    nblock: int | None = None
    serial: bool = False
    """
    Whether there is only a single buffer of each kind, so that transfers and computation do not
    overlap.
    """
    convolution: Convolution = "auto"


MAX_COMPARED_TIMELINES, MAX_COMPARED_TIMELINES_HLS = 64, 24
"""The schedules with the lowest rough cost are compared by timelines. HLS has more models."""
MAX_DRAIN_VARIANTS = 8
"""
The number of schedules for which different values of `drain`, the vectors that are stored together,
are compared.
"""


NEAR_TIE = 1.005
"""
The factor of the best score up to which models of the HLS source do not distinguish schedules: the
simulation of blocks has errors of this size.
"""


_FOUND: dict[tuple[Contraction, VtaBoard, Limits], Blocks | None] = {}
"""The results of searches in this process."""


def best_blocks(shape: Contraction, board: VtaBoard, limits: Limits = Limits()) -> Blocks | None:
    """
    Return the schedule with the fewest modelled cycles within `limits`, the first of equal
    schedules; `None` if no schedule fits. If no kn2row schedule fits a window, direct schedules are
    searched instead. Results are cached.
    """
    key = shape, board, limits
    if key not in _FOUND:
        _FOUND[key] = _search(*key)
    return _FOUND[key]


def search_all(
    shapes: Iterable[Contraction], board: VtaBoard, limits: Limits = Limits(), jobs: int = 1
) -> None:
    """
    Search the best schedules of all distinct shapes in `jobs` processes (joblib), so that later
    calls of `best_blocks` find them. Searches are independent, so `jobs` does not change the
    result; with 1, no search is made ahead.
    """
    keys = [(shape, board, limits) for shape in dict.fromkeys(shapes)]
    missing = [key for key in keys if key not in _FOUND]
    if jobs != 1 and len(missing) > 1:
        _FOUND.update(zip(missing, parallel(_search, missing, jobs), strict=True))


def good_blocks(shape: Contraction, board: VtaBoard, limits: Limits = Limits()) -> Sequence[Blocks]:
    """
    Return the schedules of a contraction within `limits` that have the fewest modelled cycles, the
    best first; empty if none fits.
    """
    found = _ranked(_views(shape, limits.convolution), board, limits)
    if not found and limits.convolution == "kn2row":
        found = _ranked([shape], board, limits)
    if limits.serial or not found:
        return found
    found = _sorted(shape, found, board)[:MAX_DRAIN_VARIANTS]
    variants = [replace(b, drain=drain) for b in found for drain in _drains(b.nblock)]
    return _sorted(shape, variants, board)


def _search(shape: Contraction, board: VtaBoard, limits: Limits) -> Blocks | None:
    return next(iter(good_blocks(shape, board, limits)), None)


def _sorted(shape: Contraction, found: Sequence[Blocks], board: VtaBoard) -> list[Blocks]:
    """
    Return schedules in the order of their scores. For the HLS source, schedules close to the best
    score are in the order of the model that agrees best with measurements, without `drain` first,
    which needs more lists of micro-ops.
    """
    score = np.array(scores(shape, found, board))
    order: list[int] = np.argsort(score, kind="stable").tolist()
    if board.is_hls:
        limit = NEAR_TIE * score.min(initial=np.inf)
        near = [i for i in order if score[i] <= limit]
        cycles = {i: (found[i].drain > 0, estimate(shape, found[i], board)) for i in near}
        order[: len(near)] = sorted(near, key=cycles.__getitem__)
    return [found[i] for i in order]


def _views(shape: Contraction, convolution: Convolution) -> list[Contraction]:
    if shape.taps == 1 or convolution == "direct" or shape.maximum:
        return [shape]
    return [shape.by_taps()] if convolution == "kn2row" else [shape, shape.by_taps()]


def _ranked(views: Sequence[Contraction], board: VtaBoard, limits: Limits) -> list[Blocks]:
    tables = [candidates(view, board, limits) for view in views]
    cycles = rough_scores(tables, board)
    limit = MAX_COMPARED_TIMELINES_HLS if board.is_hls else MAX_COMPARED_TIMELINES
    order = np.argsort(cycles, kind="stable")[:limit]
    found: list[Blocks] = []
    for i in order[~np.isinf(cycles[order])].tolist():
        for table in tables:
            if i < len(table.rows):
                found.append(table[i])
                break
            i -= len(table.rows)
    return found


def _drains(nblock: int) -> list[int]:
    return [0, *(d for d in (1, 2, 4) if d < nblock)]


def candidates(shape: Contraction, board: VtaBoard, limits: Limits) -> Schedules:
    """
    Return the schedules that the search considers within `limits`: block sizes that divide extents
    into nearly equal parts (5, 3, 2 and 1 for 5), both loop orders, and 1 or 2 buffers of each kind
    (inputs, weights, accumulators).
    """
    positions = np.array(_position_blocks(shape, limits.positions), np.int64)
    positions = positions[positions.prod(axis=1) <= board.acc]
    kblocks = _fixed(limits.kblock, shape.kblocks)
    if shape.is_by_taps:
        kblocks = _divisors(limits.kblock, shape.input_blocks)
    nblocks = [1] if shape.maximum else _fixed(limits.nblock, shape.nblocks)
    stages = ((1, 1),) if limits.serial else STAGES
    axes = (
        positions,
        np.array(kblocks)[:, None],
        np.array(nblocks)[:, None],
        np.array(stages),
        np.array((2,) if shape.maximum else (1,) if limits.serial else (2, 1))[:, None],
        np.array((0, 1))[:, None],
        np.array((0,) if limits.serial else (0, 1))[:, None],
    )
    places = np.meshgrid(*(np.arange(len(a)) for a in axes), indexing="ij")
    columns = [axis[place.reshape(-1)] for axis, place in zip(axes, places, strict=True)]
    table = np.concatenate(columns, axis=1)
    # With a single K-block, an operand is kept with or without `resident`.
    return Schedules.of(shape, table[(table[:, -1] == 0) | (table[:, 2] < shape.kblocks)])


def _fixed(value: int | None, extent: int) -> Sequence[int]:
    return even_blocks(extent) if value is None else [min(value, extent)]


def _divisors(limit: int | None, extent: int) -> Sequence[int]:
    """
    Return the divisors of `extent`, the largest first; with `limit`, only the largest divisor up to
    it.
    """
    sizes = [size for size in range(extent, 0, -1) if extent % size == 0]
    return sizes if limit is None else [size for size in sizes if size <= limit][:1]


def _position_blocks(c: Contraction, limit: int | None) -> list[tuple[int, int]]:
    """
    Return the possible (rows, columns) of a block of output positions; with `limit`, only those up
    to it with more than half of the positions of the largest.
    """
    if c.maximum is not None:
        rows, step = c.rows // c.maximum.strides[0], c.maximum.strides[0]
        return [(step * r, c.columns) for r in even_blocks(rows)]
    sizes = [(r, s) for r in even_blocks(c.rows) for s in even_blocks(c.columns)]
    if limit is None:
        return sizes
    allowed = [(r, s) for r, s in sizes if r * s <= limit]
    largest = max(r * s for r, s in allowed)
    return [(r, s) for r, s in allowed if 2 * r * s > largest]


@dataclass(frozen=True)
class Pooling:
    """
    The shape of a pooling: windows over `planes` planes, which are channel blocks of images, of
    `height` x `width` vectors; the result has `rows` x `columns`.
    """

    planes: int
    height: int
    width: int
    rows: int
    columns: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]

    def window(self, rows: int, columns: int) -> tuple[int, int]:
        (kh, kw), (sh, sw) = self.kernel, self.strides
        return (rows - 1) * sh + kh, (columns - 1) * sw + kw

    @property
    def is_global(self) -> bool:
        """Whether a single window covers an entire plane, which is contiguous in DRAM."""
        return self.rows == self.columns == 1 and self.kernel == (self.height, self.width)

    def has_merged_taps(self, planes: int) -> bool:
        """
        Return whether a single GEMM sums all taps of a global average of `planes` planes: the
        pipeline requires other accumulators between two sums of the same accumulator.
        """
        return self.is_global and planes >= MIN_MERGED_NBLOCK

    @property
    def is_separable_in_place(self) -> bool:
        """
        Whether maxima along a row can replace the elements of the row: with stride 1 step by step,
        otherwise if a window overlaps only a single position of the next window.
        """
        kw, sw = self.kernel[1], self.strides[1]
        return sw == 1 or kw <= 2 * sw


def pooling_blocks(p: Pooling, board: VtaBoard) -> tuple[int, int] | None:
    """
    Return the rows and columns of the output block with which a maximum pooling has the fewest
    cycles. Two blocks must fit on chip; `None` if no block does.
    """
    best: tuple[float, int, int] | None = None
    for rows in even_blocks(p.rows):
        for columns in even_blocks(p.columns):
            ih, iw = p.window(rows, columns)
            outputs = rows * columns
            if 2 * ih * iw > board.inp or ih * iw + 2 * outputs > board.acc:
                continue
            if max(_pads(p, rows, columns)) > max_pad(board):
                continue
            total = maximum_cycles(p, rows, columns, board)
            if best is None or total < best[0]:
                best = (total, rows, columns)
    return None if best is None else best[1:]


def maximum_cycles(p: Pooling, rows: int, columns: int, board: VtaBoard) -> float:
    """
    Return the approximate cycles of the maximum pooling of a plane (a channel block of an image) in
    blocks of `rows` x `columns` outputs. The slowest of load, arithmetic and store determines them.
    """
    timing = Timing.of(board)
    ih, iw = p.window(rows, columns)
    blocks = -(-p.rows // rows) * -(-p.columns // columns)
    (kh, kw), (sh, sw) = p.kernel, p.strides
    right, along = (len(doubled(kw)), iw) if sw == 1 else (kw - 1, columns)
    down, lines = (len(doubled(kh)), ih * len(doubled(kh)) + rows) if sh == 1 else (kh, kh * rows)
    cycles = 2 * ih * iw + 2 * right * along * ih + (2 * lines + rows) * columns
    instructions = right + down + 3
    groups = [(2, ih * iw), (right, along * ih), (down + 1, rows * columns)]
    compute = cycles + instructions * timing.instruction + _refills(groups, timing)
    return blocks * max(compute, *_transfers(p, (1, rows, columns), timing))


def _refills(groups: Sequence[tuple[int, int]], timing: Timing) -> float:
    """
    Return the cycles per block of the refills between micro-op lists, and of loads of lists if they
    do not remain on chip. `groups` has (instructions, iterations of each); lists have the length
    with the fewest cycles, as in `lengthen_lists`.
    """
    if not timing.refill:
        return 0.0
    board, best = timing.board, inf
    for length in LIST_LENGTHS:
        entries = sum(count * -(-size // length) for count, size in groups)
        micro_ops = sum(count * min(length, size) for count, size in groups)
        cycles = float(entries * timing.refill)
        # Lists exist for both result buffers.
        if 2 * micro_ops > board.portable_uops:
            cycles += timing.read_latency + micro_ops * timing.beats_of(MemoryType.UOP)
        best = min(best, cycles)
    return best


def _transfers(p: Pooling, blocks: tuple[int, int, int], timing: Timing) -> tuple[float, float]:
    """
    Return the cycles to load the inputs and to store the results of a block of (planes, rows,
    columns) outputs.
    """
    planes, rows, columns = blocks
    (ih, iw), board = p.window(rows, columns), timing.board
    vectors = planes * rows * columns
    instructions = 1 if p.is_global else planes
    beats = timing.beats(ih * iw * planes * board.element_bytes(MemoryType.INP))
    if not timing.is_hls:
        load = instructions * (timing.read_latency + timing.load) + beats
        return load, vectors * timing.store_element + timing.write_latency
    full_rows = columns == p.columns and not any(p.padding) and iw == p.width
    load_rows = instructions if full_rows else instructions * ih
    store_rows = instructions if columns == p.columns else instructions * rows
    stored = timing.beats(vectors * board.element_bytes(MemoryType.OUT))
    load = instructions * timing.load + load_rows * timing.read_latency + beats
    return load, instructions * timing.instruction + store_rows * timing.write_latency + stored


def doubled(window: int) -> list[int]:
    """
    Return the distances of in-place maxima `x[i] = max(x[i], x[i + d])` after which each element is
    the maximum of `window` adjacent elements: [1, 2, 1] for 5. Each doubles the covered elements,
    or covers the rest.
    """
    steps: list[int] = []
    known = 1
    while known < window:
        steps.append(min(known, window - known))
        known += steps[-1]
    return steps


def averaging_blocks(p: Pooling, weight_tiles: int, board: VtaBoard) -> tuple[int, int, int] | None:
    """
    Return the planes, rows and columns of the output block with which an average pooling has the
    fewest cycles. Two blocks must fit on chip; `None` if no block does. `weight_tiles` is the
    number of digits of the multiplier.
    """
    best: tuple[float, int, int, int] | None = None
    for rows in even_blocks(p.rows):
        for columns in even_blocks(p.columns):
            ih, iw = p.window(rows, columns)
            limit = min(board.inp // (2 * ih * iw), (board.acc - 1) // (2 * rows * columns))
            if not limit or max(_pads(p, rows, columns)) > max_pad(board):
                continue
            planes = min(limit, p.planes, board.portable_uops // 2)
            planes = -(-p.planes // -(-p.planes // planes))
            cycles = averaging_cycles(p, weight_tiles, (planes, rows, columns), board)
            if best is None or cycles < best[0]:
                best = (cycles, planes, rows, columns)
    return None if best is None else best[1:]


def averaging_cycles(
    p: Pooling, weight_tiles: int, blocks: tuple[int, int, int], board: VtaBoard
) -> float:
    """
    Return the approximate cycles of an average pooling with output blocks of (planes, rows,
    columns). The slowest of load, arithmetic and store determines them. `weight_tiles` is the
    number of digits of the multiplier.
    """
    timing = Timing.of(board)
    planes, rows, columns = blocks
    count = -(-p.planes // planes) * -(-p.rows // rows) * -(-p.columns // columns)
    vectors, taps = planes * rows * columns, p.kernel[0] * p.kernel[1]
    products = 1 if p.has_merged_taps(planes) else taps
    # Shifts between digits; then rounding, a shift and two bounds.
    alu, interval = weight_tiles + 3, ALU_INTERVAL_CYCLES if timing.is_hls else 1
    groups = [(weight_tiles * products, taps // products * vectors), (alu + 1, vectors)]
    compute = (weight_tiles * taps + 1 + alu * interval) * vectors + _refills(groups, timing)
    compute += (weight_tiles * products + alu + 1) * timing.instruction
    load, store = _transfers(p, blocks, timing)
    return count * max(compute, load, store) + min(compute, load) + store


def _pads(p: Pooling, rows: int, columns: int) -> tuple[int, int, int, int]:
    top, left, _, _ = p.padding
    ih, iw = p.window(rows, columns)
    last_row = ((p.rows - 1) // rows) * rows * p.strides[0] - top
    last_column = ((p.columns - 1) // columns) * columns * p.strides[1] - left
    return top, left, last_row + ih - p.height, last_column + iw - p.width
