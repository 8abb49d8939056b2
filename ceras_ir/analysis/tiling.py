"""
Schedules of a contraction: whether one fits a board's buffers, what it costs, which is best.

The cost counts cycles of the three modules from the measured rules of the hardware and lets
them overlap where there are two buffers of a kind; it ranks schedules, no more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ceras_ir.analysis.contraction import Contraction
from ceras_ir.backends.vta.board import ELEMENT_BYTES, VtaBoard
from ceras_ir.backends.vta.encoding import field_limits
from ceras_ir.backends.vta.isa import Load, MemoryType
from ceras_ir.dialects.tile import Order, ScheduleAttr

MERGE_FROM = 3
"""
N-blocks from which one GEMM can run all reductions: the accumulators of a position take turns,
so that no two of three consecutive iterations write the same one.
"""


@dataclass(frozen=True)
class Timing:
    """Cycles that VTA's configuration does not tell; measured on the Chisel RTL."""

    read_latency: int = 50
    write_latency: int = 31
    instruction: int = 7
    store_vector: int = 3
    bus_bytes: int = 8
    """Where the board does not say."""


@dataclass(frozen=True)
class Blocks:
    """A schedule in plain numbers; see `tile.ScheduleAttr`."""

    rows: int
    columns: int
    kblock: int
    nblock: int
    stages: tuple[int, int, int] = (1, 1, 1)
    order: Order = Order.NMK

    @property
    def positions(self) -> int:
        return self.rows * self.columns

    def attribute(self) -> ScheduleAttr:
        return ScheduleAttr(
            self.rows, self.columns, self.kblock, self.nblock, self.stages, self.order
        )

    @classmethod
    def of(cls, schedule: ScheduleAttr) -> "Blocks":
        return cls(
            schedule.rows.data,
            schedule.columns.data,
            schedule.kblock.data,
            schedule.nblock.data,
            (schedule.inp_stages.data, schedule.wgt_stages.data, schedule.acc_stages.data),
            schedule.loop_order,
        )


def longest_row(board: VtaBoard) -> int:
    """Vectors in a row of DRAM that a transfer can step over."""
    return field_limits(Load, board)["x_stride"][1]


def misfit(c: Contraction, b: Blocks, board: VtaBoard) -> str | None:
    """Why a schedule does not fit `board`, or None."""
    ih, iw = c.window(b.rows, b.columns)
    inp_stages, wgt_stages, acc_stages = b.stages
    needs = (
        ("inp", inp_stages * b.kblock * ih * iw + c.residual * inp_stages * b.positions, board.inp),
        ("wgt", wgt_stages * b.nblock * b.kblock * c.taps + c.residual, board.wgt),
        ("acc", acc_stages * b.nblock * b.positions + c.nblocks, board.acc),
    )
    for name, need, size in needs:
        if need > size:
            return f"its blocks need {need} vectors of {name}, the board has {size}"
    most = field_limits(Load, board)["x_pad_left"][1]
    for name, pad in zip(("top", "left", "bottom", "right"), _pads(c, b), strict=True):
        if pad > most:
            return f"its blocks need {pad} vectors of padding at the {name}, at most {most}"
    return None


def _pads(c: Contraction, b: Blocks) -> tuple[int, int, int, int]:
    """The widest padding of any load: of the first block, and of the last, which may overhang."""
    top, left, _, _ = c.padding
    ih, iw = c.window(b.rows, b.columns)
    last_row = -(-c.rows // b.rows) * b.rows - b.rows
    last_column = -(-c.columns // b.columns) * b.columns - b.columns
    loaded = -(-c.height // c.row_step)
    bottom = last_row * c.row_stride - top + ih - loaded
    right = last_column * c.strides[1] - left + iw - c.width
    if c.residual:
        bottom = max(bottom, last_row + b.rows - c.rows)
        right = max(right, last_column + b.columns - c.columns)
    return top, left, max(0, bottom), max(0, right)


def cost(c: Contraction, b: Blocks, board: VtaBoard, timing: Timing = Timing()) -> float:
    """Cycles, roughly."""
    bus = board.bus_bytes or timing.bus_bytes
    inp_beats = ELEMENT_BYTES[MemoryType.INP] / bus
    wgt_beats = ELEMENT_BYTES[MemoryType.WGT] / bus
    start = timing.read_latency + 5
    ih, iw = c.window(b.rows, b.columns)
    m_tiles = c.batch * -(-c.rows // b.rows) * -(-c.columns // b.columns)
    n_tiles = -(-c.nblocks // b.nblock)
    k_tiles = -(-c.kblocks // b.kblock)
    tiles = m_tiles * n_tiles
    vectors = m_tiles * b.positions * c.nblocks

    steps = k_tiles if b.nblock >= MERGE_FROM else c.kblocks * c.taps
    compute = vectors * (c.kblocks * c.taps + 5 + c.shifts + c.residual)
    compute += tiles * timing.instruction * (steps + 4 + c.shifts + c.residual * b.nblock)

    inp_repeats = 1 if k_tiles == 1 and b.order is Order.MNK else n_tiles
    wgt_repeats = 1 if k_tiles == 1 and b.order is Order.NMK else m_tiles
    inp_loads = m_tiles * inp_repeats * (k_tiles if c.height == 1 else c.kblocks)
    wgt_loads = n_tiles * wgt_repeats * k_tiles
    inp = m_tiles * inp_repeats * c.kblocks * ih * iw * inp_beats + inp_loads * start
    inp += c.residual * (vectors * inp_beats + tiles * b.nblock * start)
    wgt = c.nblocks * wgt_repeats * c.kblocks * c.taps * wgt_beats + wgt_loads * start
    store = vectors * timing.store_vector
    store += tiles * b.nblock * (timing.write_latency + timing.store_vector)

    exposed = 0.0
    if b.stages[0] == 1 and m_tiles * inp_repeats * k_tiles > 1:
        exposed += inp
    if b.stages[1] == 1 and wgt_loads > 1:
        exposed += wgt
    if b.stages[2] == 1 and tiles > 1:
        exposed += store
    first = (inp + wgt) / (tiles * k_tiles)
    return max(compute, inp + wgt, store) + exposed + first + store / tiles


def even_blocks(extent: int) -> list[int]:
    """Sizes that cut `extent` into equal parts, the last perhaps smaller; largest first."""
    return sorted({-(-extent // parts) for parts in range(1, extent + 1)}, reverse=True)


@dataclass(frozen=True)
class Limits:
    """What the user fixes of a schedule; None leaves it to the search."""

    positions: int | None = None
    kblocks: int | None = None
    nblocks: int | None = None
    serial: bool = False
    """One buffer of each kind, so that nothing overlaps."""


@lru_cache(maxsize=4096)
def best_blocks(c: Contraction, board: VtaBoard, limits: Limits = Limits()) -> Blocks | None:
    """The cheapest schedule within `limits`, the first found of equal ones; None if none fits."""
    best: tuple[float, Blocks] | None = None
    for blocks in _candidates(c, board, limits):
        if misfit(c, blocks, board) is None:
            cycles = cost(c, blocks, board)
            if best is None or cycles < best[0]:
                best = cycles, blocks
    return None if best is None else best[1]


def _candidates(c: Contraction, board: VtaBoard, limits: Limits) -> Iterator[Blocks]:
    kblocks = _fixed(limits.kblocks, c.kblocks)
    nblocks = _fixed(limits.nblocks, c.nblocks)
    orders = tuple(Order)
    pairs = ((1, 1),) if limits.serial else ((2, 2), (1, 2), (2, 1), (1, 1))
    for rows, columns in _position_blocks(c, limits.positions):
        ih, iw = c.window(rows, columns)
        for nblock in nblocks:
            for acc_stages in (1,) if limits.serial else (2, 1):
                if acc_stages * nblock * rows * columns > board.acc:
                    continue
                for kblock in kblocks:
                    if kblock * ih * iw > board.inp or kblock * nblock * c.taps > board.wgt:
                        continue
                    for inp_stages, wgt_stages in pairs:
                        stages = inp_stages, wgt_stages, acc_stages
                        for order in orders:
                            yield Blocks(rows, columns, kblock, nblock, stages, order)


def _fixed(value: int | None, extent: int) -> list[int]:
    return even_blocks(extent) if value is None else [min(value, extent)]


def _position_blocks(c: Contraction, limit: int | None) -> Iterator[tuple[int, int]]:
    """Rows and columns of M-blocks; with a limit, the largest blocks that it allows."""
    sizes = [(r, s) for r in even_blocks(c.rows) for s in even_blocks(c.columns)]
    if limit is not None:
        allowed = [(r, s) for r, s in sizes if r * s <= limit]
        most = max(r * s for r, s in allowed)
        sizes = [(r, s) for r, s in allowed if r * s == most]
    yield from sizes
