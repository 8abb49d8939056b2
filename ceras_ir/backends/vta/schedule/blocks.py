"""
Compute the memory that block sizes of a contraction (convolution or matrix product) require, for
single schedules and for arrays of schedules.

Capacities and padding are computed on arrays, so that a search can exclude thousands of schedules
together; `misfit` returns the reason if a single schedule does not fit. `S3Blocks` are the block
sizes of Algorithms 1 to 3 of paper S3 (two-stage tiling of a matrix product), with the loop nests
of the paper.
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

MIN_MERGED_NBLOCK = GEMM_PIPELINE + 1
"""
The minimum size of a block of output channels for which a single GEMM instruction can compute all
reductions: of three consecutive iterations, no two write the same accumulator.
"""

INFINITE_PADDING = 1 << 20
"""
The number that stands for the padding of a tap that is entirely outside the input; no load supports
as much.
"""


@dataclass(frozen=True)
class Blocks:
    """
    The block sizes and the loop order of a contraction, as integers; `tile.ScheduleAttr` defines
    the fields.
    """

    rows: int
    columns: int
    kblock: int
    nblock: int
    stages: tuple[int, int, int] = (1, 1, 1)
    """The numbers of buffers of inputs, weights and accumulators."""
    order: Order = Order.NMK
    resident: bool = False
    drain: int = 0
    kn2row: bool = False

    @property
    def positions(self) -> int:
        return self.rows * self.columns

    def view(self, shape: Contraction) -> Contraction:
        """
        Return the contraction `shape` with the loops of this schedule: with `kn2row`, taps of
        windows are blocks of the reduction; otherwise `shape` is unchanged.
        """
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
    """
    Many schedules of a contraction: each field of `Blocks` is an array with an element per
    schedule.
    """

    shape: Contraction
    rows: Counts
    columns: Counts
    kblock: Counts
    nblock: Counts
    inp_stages: Counts
    wgt_stages: Counts
    acc_stages: Counts
    keeps_inputs: NDArray[np.bool_]
    """Whether the loop order is `mnk`, in which inputs remain on chip while weights change."""
    resident: NDArray[np.bool_]

    @classmethod
    def of(cls, shape: Contraction, table: Counts) -> "Schedules":
        """
        Return the schedules in `table`, which has a row for each schedule and a column for each
        field of this class after `shape`; the order is 1 for `mnk`.
        """
        rows, columns, kblock, nblock, inp, wgt, acc, order, resident = table.T
        flags = order.astype(np.bool_), resident.astype(np.bool_)
        return cls(shape, rows, columns, kblock, nblock, inp, wgt, acc, *flags)

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
            Order.MNK if self.keeps_inputs[index] else Order.NMK,
            bool(self.resident[index]),
            kn2row=self.shape.is_by_taps,
        )

    @property
    def weight_loads(self) -> Counts:
        """
        The number of load instructions for a block of weights. A kn2row schedule with a part of the
        input channels needs a load for each output vector; all other schedules need one.
        """
        c = self.shape
        pieces = c.is_by_taps & (self.kblock < c.input_blocks)
        return np.where(pieces, self.nblock, 1)

    @property
    def positions(self) -> Counts:
        return self.rows * self.columns

    @property
    def window(self) -> tuple[Counts, Counts]:
        """The numbers of input rows and columns that a block of output positions needs on chip."""
        c = self.shape
        heights, widths = c.extents
        return (
            (self.rows - 1) * c.row_stride + heights,
            (self.columns - 1) * c.strides[1] + widths,
        )

    def needs(self) -> dict[str, Counts]:
        """
        Return the number of vectors that each schedule needs in each on-chip memory (by name), and
        the number of micro-ops of its longest GEMM ("uop").
        """
        c = self.shape
        merged = self.nblock >= MIN_MERGED_NBLOCK
        # Positions of a maximum are stored in planes, with a separate micro-op for each plane.
        planes = c.merged
        ih, iw = self.window
        residual = self.nblock * self.positions * c.residual
        # All K-blocks of an operand that the inner loop keeps are on chip.
        k_tiles = -(-c.kblocks // self.kblock)
        inp_blocks = self.kblock * np.where(self.resident & self.keeps_inputs, k_tiles, 1)
        wgt_blocks = self.kblock * np.where(self.resident & ~self.keeps_inputs, k_tiles, 1)
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
        """
        The number of micro-ops of all GEMMs of a schedule. Each combination of positions of the
        operands on chip needs separate micro-ops.
        """
        c = self.shape
        k_tiles = -(-c.kblocks // self.kblock)
        kept = np.where(self.keeps_inputs, self.inp_stages, self.wgt_stages)
        moving = np.where(self.keeps_inputs, self.wgt_stages, self.inp_stages)
        is_kept = self.resident | (k_tiles == 1)
        places = np.where(is_kept, kept * np.lcm(k_tiles, moving), np.lcm(kept, moving))
        reductions = 1 if c.is_flat else self.kblock * c.taps
        return self.acc_stages * places * self.nblock * reductions * c.merged

    def pads(self) -> dict[str, Counts]:
        """
        Return the maximum padding, in rows or columns on each side, that a load of the first or the
        last block adds.
        """
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
        sizes, limit = capacities(board), max_pad(board)
        fits = np.ones(len(self.rows), np.bool_)
        for name, need in self.needs().items():
            fits &= need <= sizes[name]
        for pad in self.pads().values():
            fits &= pad <= limit
        return fits & self.supports_maximum()

    def supports_maximum(self) -> NDArray[np.bool_]:
        """
        Return, for each schedule, whether a maximum pooling can be fused: blocks consist of entire
        rows and a single channel block, and there are two accumulator buffers. Without a pooling,
        it is true.
        """
        if (maximum := self.shape.maximum) is None:
            return np.ones(len(self.rows), np.bool_)
        full_rows = (self.columns == self.shape.columns) & (self.rows % maximum.strides[0] == 0)
        return full_rows & (self.nblock == 1) & (self.acc_stages == 2) & ~self.keeps_inputs


def tap_pads(c: Contraction, axis: int, blocks: Counts) -> tuple[Counts, Counts]:
    """
    Return the maximum padding before and after the inputs of a single tap along `axis` (0: rows),
    for each block size in `blocks`; `INFINITE_PADDING` if all inputs of a tap of some block are
    padding.
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
            pad[:] = INFINITE_PADDING
    before, after = pads[places].T
    return before, after


def capacities(board: VtaBoard) -> dict[str, int]:
    """
    Return the number of vectors that fit each on-chip memory of a board by name, and the number of
    micro-ops ("uop").
    """
    sizes = {"inp": board.inp, "wgt": board.wgt, "acc": board.acc}
    return {**sizes, "uop": board.portable_uops}


def max_pad(board: VtaBoard) -> int:
    """Return the maximum number of rows or columns of zeros that a load can add on a side."""
    return field_limits(Load, board)["x_pad_left"][1]


def longest_row(board: VtaBoard) -> int:
    """
    Return the maximum stride of a load or store in vectors, which limits the length of a row in
    DRAM.
    """
    return field_limits(Load, board)["x_stride"][1]


def misfit(shape: Contraction, blocks: Blocks, board: VtaBoard) -> str | None:
    """
    Return the reason why the schedule `blocks` does not fit the memories or instruction fields of
    `board`, or `None` if it does.
    """
    shape = blocks.view(shape)
    if shape.is_by_taps and shape.input_blocks % blocks.kblock:
        return f"kn2row splits {shape.input_blocks} blocks of a tap evenly, got {blocks.kblock}"
    schedule = Schedules.single(shape, blocks)
    for name, need in schedule.needs().items():
        if (count := int(need[0])) > (size := capacities(board)[name]):
            return f"blocks need {count} elements of {name}, the board has {size}"
    if not schedule.supports_maximum()[0]:
        return "a maximum needs blocks of entire rows, nblock 1, two buffers of acc and order nmk"
    for side, pad in schedule.pads().items():
        if (count := int(pad[0])) > (limit := max_pad(board)):
            if count == INFINITE_PADDING:
                return f"all inputs of a tap of a block are padding at the {side}"
            return f"blocks need {count} vectors of padding at the {side}, at most {limit}"
    return None


def even_blocks(extent: int) -> Sequence[int]:
    """
    Return the block sizes that a search tries for `extent`, the largest first: for each number of
    blocks the smallest size, such as 5, 3, 2, 1 for 5.
    """
    return sorted({-(-extent // parts) for parts in range(1, extent + 1)}, reverse=True)


@dataclass(frozen=True)
class S3Blocks:
    """
    The loop order and the block sizes of an algorithm of paper S3 that the user specifies: `mblock`
    in output positions, the others in vectors; `None` is the default size.
    """

    order: Order
    mblock: int | None = None
    kblock: int | None = None
    nblock: int | None = None

    def blocks(self, shape: Contraction, board: VtaBoard) -> Blocks:
        """
        Return the block sizes of the algorithm for `shape`.

        Algorithms 1 and 2 have blocks of an intrinsic with a position for each lane (16 x 16 in
        S3), the second stage of S3. Algorithm 3 fills the accumulators with a block of output
        positions for all output channels, and uses the largest block of reductions of which two
        buffers fit.
        """
        step = board.block
        rows = _rounded_up(shape.columns, step)
        if self.order is not Order.ALG3:
            m = min(self.mblock or step, rows)
            k, n = min(self.kblock or 1, shape.kblocks), min(self.nblock or 1, shape.nblocks)
            return Blocks(1, _rounded_up(m, step), k, n, (1, 1, 1), self.order)
        free = board.acc - shape.constants * shape.nblocks
        max_m = max(step, free // shape.nblocks // step * step)
        tiles = board.wgt - shape.bias_tiles * shape.nblocks
        vectors = board.inp - shape.has_products
        max_k = max(1, min(vectors // (2 * step), tiles // 2, shape.kblocks))
        m, k = min(self.mblock or max_m, rows), min(self.kblock or max_k, shape.kblocks)
        return Blocks(1, _rounded_up(m, step), k, 1, (2, 2, 1), self.order)


def s3_misfit(shape: Contraction, blocks: Blocks, board: VtaBoard) -> str | None:
    """
    Return the reason why an algorithm of paper S3 cannot compute the contraction `shape` with these
    blocks, or `None` if it can.
    """
    if shape.swish:
        return "S3's algorithms have no swish; use schedule=auto"
    if not shape.is_flat or shape.groups > 1:
        return "S3's algorithms are for matrix products; use schedule=auto for convolutions"
    if blocks.positions % (step := board.block):
        return f"the M-block must be a multiple of {step} positions, got {blocks.positions}"
    if blocks.order is Order.ALG2 and (over := -shape.columns % blocks.positions) >= step:
        return (
            f"blocks of {blocks.positions} rows exceed the matrix by {over}, at most "
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
            return f"blocks need {need} elements of {name}, the board has {size}"
    return None


def _rounded_up(positions: int, step: int) -> int:
    return -(-positions // step) * step
