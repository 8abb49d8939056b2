"""
Block sizes of a contraction as numbers, one schedule or many at once, and their needs.

Capacities and pads are computed on arrays, so that a search can rule out thousands of schedules
together; `misfit` gives the reason why a single one does not fit. `S3Blocks` are the block sizes of
S3's Algorithms 1 to 3 (two-stage tiling of a matrix product), which exist for comparison: their
loop nests are those of the paper, not of the search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import field_limits
from ceras_ir.backends.vta.machine.isa import GEMM_PIPELINE, Load
from ceras_ir.backends.vta.schedule.contraction import Contraction, borders_of
from ceras_ir.dialects.tile import Order, ScheduleAttr

Counts: TypeAlias = NDArray[np.int64]

MERGE_FROM = GEMM_PIPELINE + 1
"""
N-blocks from which one GEMM can run all reductions: the accumulators of a position take turns,
so that no two of three consecutive iterations write the same one.
"""


ONLY_PADDING = 1 << 20
"""More padding than any load can have."""


@dataclass(frozen=True)
class Blocks:
    """A schedule in plain numbers; see `tile.ScheduleAttr`."""

    rows: int
    columns: int
    kblock: int
    nblock: int
    stages: tuple[int, int, int] = (1, 1, 1)
    """Buffers of inp, wgt and acc."""
    order: Order = Order.NMK
    resident: bool = False
    drain: int = 0
    kn2row: bool = False

    @property
    def positions(self) -> int:
        return self.rows * self.columns

    def view(self, shape: Contraction) -> Contraction:
        """`shape` as this schedule sees it."""
        return shape.by_taps() if self.kn2row else shape

    def attribute(self) -> ScheduleAttr:
        blocks = (self.rows, self.columns, self.kblock, self.nblock)
        kept = (self.order, self.resident, self.drain, self.kn2row)
        return ScheduleAttr(*blocks, self.stages, *kept)

    @classmethod
    def of(cls, schedule: ScheduleAttr) -> "Blocks":
        rows, columns, kblock, nblock, inp, wgt, acc = schedule.integers
        return cls(
            *(rows, columns, kblock, nblock),
            (inp, wgt, acc),
            schedule.loop_order,
            bool(schedule.resident.data),
            schedule.drain.data,
            bool(schedule.kn2row.data),
        )


@dataclass(frozen=True, eq=False)
class Schedules:
    """Many schedules of one contraction: the fields of `Blocks` as arrays of one length."""

    shape: Contraction
    rows: Counts
    columns: Counts
    kblock: Counts
    nblock: Counts
    inp_stages: Counts
    wgt_stages: Counts
    acc_stages: Counts
    inputs_stay: NDArray[np.bool_]
    """Whether the order is `mnk`."""
    resident: NDArray[np.bool_]

    @classmethod
    def of(cls, shape: Contraction, table: Counts) -> "Schedules":
        """From rows of the fields in order, the last but one 1 for `mnk`."""
        rows, columns, kblock, nblock, inp, wgt, acc, order, resident = table.T
        stays, stay = order.astype(np.bool_), resident.astype(np.bool_)
        return cls(shape, rows, columns, kblock, nblock, inp, wgt, acc, stays, stay)

    @classmethod
    def single(cls, shape: Contraction, b: Blocks) -> "Schedules":
        order = int(b.order is Order.MNK)
        row = (b.rows, b.columns, b.kblock, b.nblock, *b.stages, order, int(b.resident))
        return cls.of(b.view(shape), np.array([row], np.int64))

    def __getitem__(self, index: int) -> Blocks:
        sizes = (self.rows, self.columns, self.kblock, self.nblock)
        rows, columns, kblock, nblock = (int(size[index]) for size in sizes)
        stages = (self.inp_stages, self.wgt_stages, self.acc_stages)
        inp, wgt, acc = (int(stage[index]) for stage in stages)
        return Blocks(
            *(rows, columns, kblock, nblock),
            (inp, wgt, acc),
            Order.MNK if self.inputs_stay[index] else Order.NMK,
            bool(self.resident[index]),
            kn2row=self.shape.is_by_taps,
        )

    @property
    def weight_loads(self) -> Counts:
        """Loads of a block of weights: one tap of some inputs lies in pieces, one per output."""
        c = self.shape
        pieces = c.is_by_taps & (self.kblock < c.input_blocks)
        return np.where(pieces, self.nblock, 1)

    @property
    def positions(self) -> Counts:
        """Output positions of an M-block."""
        return self.rows * self.columns

    @property
    def window(self) -> tuple[Counts, Counts]:
        """Rows and columns on chip that an M-block needs."""
        c = self.shape
        heights, widths = c.extents
        return (
            (self.rows - 1) * c.row_stride + heights,
            (self.columns - 1) * c.strides[1] + widths,
        )

    def needs(self) -> dict[str, Counts]:
        """Vectors of each scratchpad, and micro-ops of the longest GEMM."""
        c = self.shape
        merged = self.nblock >= MERGE_FROM
        # Positions whose maximum is taken lie in planes, with a micro-op for each.
        planes = c.merged
        ih, iw = self.window
        residual = self.nblock * self.positions * c.residual
        # Of an operand that stays, all K-blocks are on chip.
        k_tiles = -(-c.kblocks // self.kblock)
        inp_blocks = self.kblock * np.where(self.resident & self.inputs_stay, k_tiles, 1)
        wgt_blocks = self.kblock * np.where(self.resident & ~self.inputs_stay, k_tiles, 1)
        vectors, borders = c.nblocks * c.groups, borders_of(c).constants
        constants = (c.constants + borders * (c.border_tiles == 0)) * vectors
        constants += c.swish * (c.swish > 1)
        tiles = (c.bias_tiles + borders * c.border_tiles + c.residual_by_channel) * vectors
        tiles += c.residual and not c.residual_by_channel
        return {
            "inp": self.inp_stages * inp_blocks * ih * iw + residual + c.has_products,
            "wgt": self.wgt_stages * self.nblock * wgt_blocks * c.taps + tiles,
            "acc": (self.acc_stages * self.nblock + c.temporaries) * self.positions + constants,
            "uop": planes
            * self.nblock
            * np.where(merged & (not c.is_flat), self.kblock * c.taps, 1),
        }

    @property
    def micro_ops(self) -> Counts:
        """Micro-ops of all GEMMs together: one sequence for each place that operands have."""
        c = self.shape
        k_tiles = -(-c.kblocks // self.kblock)
        kept = np.where(self.inputs_stay, self.inp_stages, self.wgt_stages)
        moving = np.where(self.inputs_stay, self.wgt_stages, self.inp_stages)
        stays = self.resident | (k_tiles == 1)
        places = np.where(stays, kept * np.lcm(k_tiles, moving), np.lcm(kept, moving))
        reductions = 1 if c.is_flat else self.kblock * c.taps
        return self.acc_stages * places * self.nblock * reductions * c.merged

    def pads(self) -> dict[str, Counts]:
        """Widest padding of any load: of the first block, and of the last, which may overhang."""
        c = self.shape
        top, left, _, _ = c.padding
        ih, iw = self.window
        last_row = -(-c.rows // self.rows) * self.rows - self.rows
        last_column = -(-c.columns // self.columns) * self.columns - self.columns
        bottom = last_row * c.row_stride - top + ih + -c.height // c.row_step
        right = last_column * c.strides[1] - left + iw - c.width
        if c.is_by_taps:
            top, bottom = tap_pads(c, 0, self.rows)
            left, right = tap_pads(c, 1, self.columns)
        if c.residual:
            bottom = np.maximum(bottom, last_row + self.rows - c.rows)
            right = np.maximum(right, last_column + self.columns - c.columns)
        zeros = np.zeros_like(bottom)
        return {"top": zeros + top, "left": zeros + left, "bottom": bottom, "right": right}

    def fitting(self, board: VtaBoard) -> NDArray[np.bool_]:
        """Which schedules fit the buffers and pads of `board`."""
        sizes, most = capacities(board), widest_pad(board)
        fits = np.ones(len(self.rows), np.bool_)
        for name, need in self.needs().items():
            fits &= need <= sizes[name]
        for pad in self.pads().values():
            fits &= pad <= most
        return fits & self.takes_maximum()

    def takes_maximum(self) -> NDArray[np.bool_]:
        """Whether a maximum over windows can be taken: of whole rows, beside the block before."""
        if (maximum := self.shape.maximum) is None:
            return np.ones(len(self.rows), np.bool_)
        whole = (self.columns == self.shape.columns) & (self.rows % maximum.strides[0] == 0)
        return whole & (self.nblock == 1) & (self.acc_stages == 2) & ~self.inputs_stay


def tap_pads(c: Contraction, axis: int, blocks: Counts) -> tuple[Counts, Counts]:
    """
    Widest padding before and after the shifted inputs of any tap of any block, in the direction
    `axis`; `ONLY_PADDING` where that is all that some tap of a block would see.
    """
    extent, size = ((c.rows, c.height), (c.columns, c.width))[axis]
    stride = c.strides[axis]
    taps = np.arange(c.spread[axis], dtype=np.int64) * c.dilations[axis]
    sizes, places = np.unique(blocks, return_inverse=True)
    pads = np.empty((len(sizes), 2), np.int64)
    for pad, block in zip(pads, sizes.tolist(), strict=True):
        step = c.row_step if axis == 0 else 1
        count = c.window(block, block)[axis]
        corners = np.arange(0, extent, block, dtype=np.int64) * stride - c.padding[axis]
        start = corners[:, None] + taps
        before = np.maximum(-(start // step), 0)
        after = np.maximum(count + (start - size) // step, 0)
        pad[:] = before.max(), after.max()
        if (before + after >= count).any():
            pad[:] = ONLY_PADDING
    before, after = pads[places].T
    return before, after


def capacities(board: VtaBoard) -> dict[str, int]:
    """Vectors, or micro-ops, that each on-chip memory holds."""
    sizes = {"inp": board.inp, "wgt": board.wgt, "acc": board.acc}
    return {**sizes, "uop": board.portable_uops}


def widest_pad(board: VtaBoard) -> int:
    """Vectors of zeros that a load can put at one side."""
    return field_limits(Load, board)["x_pad_left"][1]


def longest_row(board: VtaBoard) -> int:
    """Vectors in a row of DRAM that a transfer can step over."""
    return field_limits(Load, board)["x_stride"][1]


def misfit(shape: Contraction, blocks: Blocks, board: VtaBoard) -> str | None:
    """Why a schedule does not fit `board`, or None."""
    shape = blocks.view(shape)
    if shape.is_by_taps and shape.input_blocks % blocks.kblock:
        return f"kn2row cuts {shape.input_blocks} blocks of a tap evenly, got {blocks.kblock}"
    schedule = Schedules.single(shape, blocks)
    for name, need in schedule.needs().items():
        if (count := int(need[0])) > (size := capacities(board)[name]):
            return f"its blocks need {count} elements of {name}, the board has {size}"
    if not schedule.takes_maximum()[0]:
        return "a maximum needs blocks of whole rows, nblock 1, two buffers of acc and order nmk"
    for side, pad in schedule.pads().items():
        if (count := int(pad[0])) > (most := widest_pad(board)):
            if count == ONLY_PADDING:
                return f"some tap of its blocks sees nothing but padding at the {side}"
            return f"its blocks need {count} vectors of padding at the {side}, at most {most}"
    return None


def even_blocks(extent: int) -> Sequence[int]:
    """Sizes that cut `extent` into equal parts, the last perhaps smaller; largest first."""
    return sorted({-(-extent // parts) for parts in range(1, extent + 1)}, reverse=True)


@dataclass(frozen=True)
class S3Blocks:
    """What the user fixes, in positions and vectors; None is the default of the algorithm."""

    order: Order
    mblock: int | None = None
    kblock: int | None = None
    nblock: int | None = None

    def blocks(self, shape: Contraction, board: VtaBoard) -> Blocks:
        """
        Algorithms 1 and 2 have blocks of one intrinsic for as many positions as it has lanes
        (16 x 16 in S3), as S3's second stage. Algorithm 3 fills the accumulators with an M-block
        of all N, and takes as much of K as two buffers hold.
        """
        step = board.block
        rows = _whole(shape.columns, step)
        if self.order is not Order.ALG3:
            m = min(self.mblock or step, rows)
            k, n = min(self.kblock or 1, shape.kblocks), min(self.nblock or 1, shape.nblocks)
            return Blocks(1, _whole(m, step), k, n, (1, 1, 1), self.order)
        free = board.acc - shape.constants * shape.nblocks
        most = max(step, free // shape.nblocks // step * step)
        tiles = board.wgt - shape.bias_tiles * shape.nblocks
        vectors = board.inp - shape.has_products
        deepest = max(1, min(vectors // (2 * step), tiles // 2, shape.kblocks))
        m, k = min(self.mblock or most, rows), min(self.kblock or deepest, shape.kblocks)
        return Blocks(1, _whole(m, step), k, 1, (2, 2, 1), self.order)


def s3_misfit(shape: Contraction, blocks: Blocks, board: VtaBoard) -> str | None:
    """Why an algorithm of S3 cannot run, or None."""
    if shape.swish:
        return "S3's algorithms have no swish; use schedule=auto"
    if not shape.is_flat or shape.groups > 1:
        return "S3's algorithms are for matrix products; use schedule=auto for convolutions"
    if blocks.positions % (step := board.block):
        return f"its M-block must be a multiple of {step} positions, got {blocks.positions}"
    if blocks.order is Order.ALG2 and (over := -shape.columns % blocks.positions) >= step:
        return (
            f"blocks of {blocks.positions} rows go {over} beyond the matrix, at most "
            f"{step - 1} can be padded"
        )
    alg3 = blocks.order is Order.ALG3
    rows = step if alg3 else blocks.positions
    needs = {
        "inp": blocks.stages[0] * rows * blocks.kblock + shape.has_products,
        "wgt": blocks.stages[1] * blocks.nblock * blocks.kblock + shape.bias_tiles * shape.nblocks,
        "acc": (blocks.positions + shape.constants) * shape.nblocks,
    }
    for name, need in needs.items():
        if need > (size := capacities(board)[name]):
            return f"its blocks need {need} elements of {name}, the board has {size}"
    return None


def _whole(positions: int, step: int) -> int:
    return -(-positions // step) * step
