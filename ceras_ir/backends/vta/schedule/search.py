"""Search for the schedule of a contraction, and for the blocks of poolings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.isa import MemoryType
from ceras_ir.backends.vta.machine.time import Timing
from ceras_ir.backends.vta.schedule.blocks import Blocks, Schedules, even_blocks, widest_pad
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.backends.vta.schedule.cost import rough_scores, scores
from ceras_ir.support.workers import parallel

Convolution: TypeAlias = Literal["auto", "direct", "kn2row"]
"""
How windows of several taps are computed: on inputs that all taps share, or with shifted inputs
for every tap (`Contraction.by_taps`).
"""

STAGES = ((2, 2), (1, 2), (2, 1), (1, 1))
"""Buffers of inputs and of weights that are tried."""


@dataclass(frozen=True)
class Limits:
    """What the user fixes of a schedule; None leaves it to the search."""

    positions: int | None = None
    """Output positions of an M-block, at most."""
    kblock: int | None = None
    nblock: int | None = None
    serial: bool = False
    """One buffer of each kind, so that nothing overlaps."""
    convolution: Convolution = "auto"


MAX_WALKED, MAX_WALKED_HLS, REFINED = 64, 24, 8
"""
Schedules, the cheapest by rough cost, whose timelines are compared; fewer for the HLS source, as
that is in each of its models; and those tried further.
"""


_FOUND: dict[tuple[Contraction, VtaBoard, Limits], Blocks | None] = {}
"""What was searched for in this process."""


def best_blocks(shape: Contraction, board: VtaBoard, limits: Limits = Limits()) -> Blocks | None:
    """
    The cheapest schedule within `limits`, the first of equal ones; None if none fits. A window
    that no kn2row schedule fits stays whole even if kn2row is asked for.
    """
    key = shape, board, limits
    if key not in _FOUND:
        _FOUND[key] = _search(*key)
    return _FOUND[key]


def search_all(
    shapes: Iterable[Contraction], board: VtaBoard, limits: Limits = Limits(), jobs: int = 1
) -> None:
    """
    Find `best_blocks` of all shapes, each once, in `jobs` processes of joblib, or on whatever
    backend joblib is configured with. No search knows of another: `jobs` changes no result.
    """
    keys = [(shape, board, limits) for shape in dict.fromkeys(shapes)]
    missing = [key for key in keys if key not in _FOUND]
    if jobs != 1 and len(missing) > 1:
        _FOUND.update(zip(missing, parallel(_search, missing, jobs), strict=True))


def good_blocks(shape: Contraction, board: VtaBoard, limits: Limits = Limits()) -> Sequence[Blocks]:
    """The cheapest schedules within `limits`, the best first; none if none fits."""
    found = _ranked(_views(shape, limits.convolution), board, limits)
    if not found and limits.convolution == "kn2row":
        found = _ranked([shape], board, limits)
    if limits.serial or not found:
        return found
    found = _sorted(shape, found, board)[:REFINED]
    variants = [replace(b, drain=drain) for b in found for drain in _drains(b.nblock)]
    return _sorted(shape, variants, board)


def _search(shape: Contraction, board: VtaBoard, limits: Limits) -> Blocks | None:
    return next(iter(good_blocks(shape, board, limits)), None)


def _sorted(shape: Contraction, found: Sequence[Blocks], board: VtaBoard) -> list[Blocks]:
    """The best first, of equal ones that which came first."""
    order = np.argsort(scores(shape, found, board), kind="stable")
    return [found[i] for i in order.tolist()]


def _views(shape: Contraction, convolution: Convolution) -> list[Contraction]:
    """What is scheduled: the contraction as it is, its taps one by one, or either."""
    if shape.taps == 1 or convolution == "direct" or shape.maximum:
        return [shape]
    return [shape.by_taps()] if convolution == "kn2row" else [shape, shape.by_taps()]


def _ranked(views: Sequence[Contraction], board: VtaBoard, limits: Limits) -> list[Blocks]:
    """The cheapest schedules of all `views` by rough cost."""
    tables = [candidates(view, board, limits) for view in views]
    cycles = rough_scores(tables, board)
    order = np.argsort(cycles, kind="stable")[: MAX_WALKED_HLS if board.is_hls else MAX_WALKED]
    found: list[Blocks] = []
    for i in order[~np.isinf(cycles[order])].tolist():
        for table in tables:
            if i < len(table.rows):
                found.append(table[i])
                break
            i -= len(table.rows)
    return found


def _drains(nblock: int) -> list[int]:
    """Groups of output vectors that leave together."""
    return [0, *(d for d in (1, 2, 4) if d < nblock)]


def candidates(shape: Contraction, board: VtaBoard, limits: Limits) -> Schedules:
    """All schedules that are tried: even cuts of each extent, both orders, one or two buffers."""
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
    # Where K is one block, what stays on chip stays anyway.
    return Schedules.of(shape, table[(table[:, -1] == 0) | (table[:, 2] < shape.kblocks)])


def _fixed(value: int | None, extent: int) -> Sequence[int]:
    return even_blocks(extent) if value is None else [min(value, extent)]


def _divisors(most: int | None, extent: int) -> Sequence[int]:
    """Sizes that cut `extent` into equal parts; the largest up to `most` where that is given."""
    sizes = [size for size in range(extent, 0, -1) if extent % size == 0]
    return sizes if most is None else [size for size in sizes if size <= most][:1]


def _position_blocks(c: Contraction, limit: int | None) -> list[tuple[int, int]]:
    """Rows and columns of M-blocks; with a limit, those that use more than half of it."""
    if c.maximum is not None:
        rows, step = c.rows // c.maximum.strides[0], c.maximum.strides[0]
        return [(step * r, c.columns) for r in even_blocks(rows)]
    sizes = [(r, s) for r in even_blocks(c.rows) for s in even_blocks(c.columns)]
    if limit is None:
        return sizes
    allowed = [(r, s) for r, s in sizes if r * s <= limit]
    most = max(r * s for r, s in allowed)
    return [(r, s) for r, s in allowed if 2 * r * s > most]


@dataclass(frozen=True)
class Pooling:
    """Windows over planes of `height` x `width` vectors."""

    planes: int
    height: int
    width: int
    rows: int
    columns: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]

    def window(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns on chip that a block of output positions needs."""
        (kh, kw), (sh, sw) = self.kernel, self.strides
        return (rows - 1) * sh + kh, (columns - 1) * sw + kw

    @property
    def is_global(self) -> bool:
        """Whether a plane is one window, and so consecutive in DRAM."""
        return self.rows == self.columns == 1 and self.kernel == (self.height, self.width)

    @property
    def is_separable_in_place(self) -> bool:
        """
        Whether maxima along a row can replace its elements: with stride 1 one step at a time,
        else if a window meets only one position of the next.
        """
        kw, sw = self.kernel[1], self.strides[1]
        return sw == 1 or kw <= 2 * sw


def pooling_blocks(p: Pooling, board: VtaBoard) -> tuple[int, int] | None:
    """Rows and columns of the cheapest block that fits twice, or None."""
    best: tuple[float, int, int] | None = None
    for rows in even_blocks(p.rows):
        for columns in even_blocks(p.columns):
            ih, iw = p.window(rows, columns)
            outputs = rows * columns
            if 2 * ih * iw > board.inp or ih * iw + 2 * outputs > board.acc:
                continue
            if max(_pads(p, rows, columns)) > widest_pad(board):
                continue
            total = maximum_cycles(p, rows, columns)
            if best is None or total < best[0]:
                best = (total, rows, columns)
    return None if best is None else best[1:]


def maximum_cycles(p: Pooling, rows: int, columns: int) -> float:
    """About how long the maxima of one plane take, in blocks of this size."""
    ih, iw = p.window(rows, columns)
    blocks = -(-p.rows // rows) * -(-p.columns // columns)
    (kh, kw), (sh, sw) = p.kernel, p.strides
    right, along = (len(doubled(kw)), iw) if sw == 1 else (kw - 1, columns)
    down, lines = (len(doubled(kh)), ih * len(doubled(kh)) + rows) if sh == 1 else (kh, kh * rows)
    cycles = 2 * ih * iw + 2 * right * along * ih + (2 * lines + rows) * columns
    return blocks * (cycles + (right + down + 3) * Timing.instruction)


def doubled(window: int) -> list[int]:
    """
    Distances whose maxima in place make those of `window` neighbours: as many elements as are
    known already, or what is missing.
    """
    steps: list[int] = []
    known = 1
    while known < window:
        steps.append(min(known, window - known))
        known += steps[-1]
    return steps


def averaging_blocks(p: Pooling, weight_tiles: int, board: VtaBoard) -> tuple[int, int, int] | None:
    """Planes, rows and columns of the cheapest block that fits twice, or None."""
    best: tuple[float, int, int, int] | None = None
    for rows in even_blocks(p.rows):
        for columns in even_blocks(p.columns):
            ih, iw = p.window(rows, columns)
            most = min(board.inp // (2 * ih * iw), (board.acc - 1) // (2 * rows * columns))
            if not most or max(_pads(p, rows, columns)) > widest_pad(board):
                continue
            planes = min(most, p.planes, board.portable_uops // 2)
            planes = -(-p.planes // -(-p.planes // planes))
            cycles = averaging_cycles(p, weight_tiles, (planes, rows, columns), board)
            if best is None or cycles < best[0]:
                best = (cycles, planes, rows, columns)
    return None if best is None else best[1:]


def averaging_cycles(
    p: Pooling, weight_tiles: int, blocks: tuple[int, int, int], board: VtaBoard
) -> float:
    """About how long an average takes: the longer of its loads and its arithmetic."""
    timing = Timing.of(board)
    planes, rows, columns = blocks
    ih, iw = p.window(rows, columns)
    count = -(-p.planes // planes) * -(-p.rows // rows) * -(-p.columns // columns)
    vectors = planes * rows * columns
    passes = p.kernel[0] * p.kernel[1] * weight_tiles
    compute = passes * (vectors + timing.pipeline) + 7 * (vectors + timing.pipeline)
    loads = 1 if p.is_global else planes
    beats = timing.beats(ih * iw * planes * board.element_bytes(MemoryType.INP))
    load = loads * (timing.read_latency + timing.load) + beats
    store = vectors * timing.store_element + timing.write_latency
    return count * max(compute, load, store) + min(compute, load) + store


def _pads(p: Pooling, rows: int, columns: int) -> tuple[int, int, int, int]:
    """Widest padding of any load, at each side."""
    top, left, _, _ = p.padding
    ih, iw = p.window(rows, columns)
    last_row = ((p.rows - 1) // rows) * rows * p.strides[0] - top
    last_column = ((p.columns - 1) // columns) * columns * p.strides[1] - left
    return top, left, last_row + ih - p.height, last_column + iw - p.width
