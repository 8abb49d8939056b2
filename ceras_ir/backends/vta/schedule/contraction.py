"""
Describe the shape of a contraction (convolution or matrix product) on packed tensors, with all
properties on which a schedule depends.

Convolutions and matrix products have the same form. Channels are counted in vectors, and images, or
rows of a matrix, in groups that fill the rows of a vector. `Borders` are the positions with windows
that exceed the input. A tap is outside if the row or the column is outside. The contribution of all
outside taps is the sum over outside rows and over outside columns, minus the taps in both.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from math import prod

from ceras_ir.backends.vta.machine.isa import is_immediate
from ceras_ir.dialects import tile
from ceras_ir.dialects.graph.operation import window_extent

SWISH_TEMPORARIES, SWISH_PASSES, SWISH_CYCLES = 3, 49, 69
"""The buffers and instructions of a swish in the epilogue, and the cycles per vector."""
SWISH_CONSTANTS, SWISH_ROWS = 7, 7
"""The instructions with constants, and the vectors that hold constants that are not immediates."""


@dataclass(frozen=True)
class Contraction:
    """
    The shape of a convolution or matrix product: for each image and group, `rows` x `columns`
    output positions with `nblocks` output vectors, which depend on `kblocks` input vectors of an
    image of `height` x `width`.
    """

    batch: int
    kblocks: int
    height: int
    width: int
    nblocks: int
    rows: int
    columns: int
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    residual: bool = False
    residual_by_channel: bool = False
    """Whether each output vector has a separate tile that adds the residual."""
    shifts: int = 1
    """The number of ALU operations that shift the sum by an immediate, 0 or 1."""
    by_channel: bool = False
    """Whether an additional ALU operation shifts by a vector with an amount for each channel."""
    bias_cycles: int = 2
    """
    Cycles in which the bias is added to a vector: 0 if it is 0, 1 if it is an immediate or has a
    single tile, otherwise 2.
    """
    clamps: int = 2
    """The number of ALU operations that clamp, 0 to 2; clamps without effect are omitted."""
    groups: int = 1
    """The number of contractions of this shape on separate channels, executed in sequence."""
    swish: int = 0
    """
    The number of constant vectors of a swish in the output stage: 0 without swish, 1 if the
    constants are immediates.
    """
    spread: tuple[int, int] = (1, 1)
    """
    The height and width of the window that `by_taps` split into blocks of the reduction; (1, 1) if
    it did not.
    """
    outside: bool = False
    """Whether the padding is not zero, so that borders need constants; see `borders_of`."""
    bias_tiles: int = 0
    """
    The number of tiles with digits of the bias for each output vector, if products add it;
    otherwise 0.
    """
    border_tiles: int = 0
    """The number of tiles with digits of each border constant, if products add it; otherwise 0."""
    maximum: tile.WindowMaximum | None = None
    """A fused maximum pooling, which is computed on the sums before requantization."""

    @property
    def merged(self) -> int:
        """
        The number of output positions per stored position: more than 1 only with a fused maximum
        pooling, which stores a maximum of several positions.
        """
        return 1 if self.maximum is None else self.maximum.merged

    def maxima(self, positions: int) -> list[int]:
        """
        Return the number of vectors of each ALU operation of the fused maximum pooling, for a block
        of `positions` output positions; empty without pooling.
        """
        if self.maximum is None:
            return []
        across = positions // self.maximum.strides[1]
        return [across for _ in self.maximum.offsets(1)] + [
            across // self.maximum.strides[0] for _ in self.maximum.offsets(0)
        ]

    @property
    def constants(self) -> int:
        """
        The number of constant vectors on chip for each output vector: bias and shifts, 0 to 2.
        """
        return (self.bias_cycles > 1 and not self.bias_tiles) + self.by_channel

    @property
    def has_products(self) -> bool:
        """
        Whether GEMMs add the bias or the border constants, which are then stored as digits in
        weight tiles.
        """
        return bool(self.bias_tiles or self.border_tiles)

    @property
    def border_cycles(self) -> int:
        """The cycles in which a border constant is added to an output vector."""
        return self.border_tiles or 2

    @property
    def shift_passes(self) -> int:
        return self.shifts + self.by_channel

    @property
    def shift_cycles(self) -> int:
        """
        The cycles in which the ALU shifts an output vector: one for a shift by an immediate, and
        two for a shift by a vector.
        """
        return self.shifts + 2 * self.by_channel

    @property
    def swish_cycles(self) -> int:
        """
        The cycles in which the ALU computes swish on an output vector; 0 without swish. Constants
        that are stored in vectors instead of instructions need more.
        """
        return 0 if not self.swish else SWISH_CYCLES + SWISH_CONSTANTS * (self.swish > 1)

    @property
    def temporaries(self) -> int:
        """
        The number of accumulators that the output stage needs for each output vector in addition to
        the sum.
        """
        return SWISH_TEMPORARIES * (self.swish > 0)

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def is_by_taps(self) -> bool:
        return self.spread != (1, 1)

    @property
    def input_blocks(self) -> int:
        """
        The number of vectors of input channels. `kblocks` counts them for each tap into which
        `by_taps` splits a window.
        """
        return self.kblocks // prod(self.spread)

    @property
    def is_pointwise(self) -> bool:
        """Whether each output position depends only on the input position with the same index."""
        windows = (self.kernel, self.spread, self.strides)
        return set(windows) == {(1, 1)} and not any(self.padding)

    @property
    def is_flat(self) -> bool:
        """
        Whether all positions are a single row, so that a block of inputs is a two-dimensional
        transfer.
        """
        return self.is_pointwise and self.height == 1

    @property
    def row_step(self) -> int:
        """
        The distance between adjacent input rows that a load transfers: the stride if windows have a
        single row, so that unused rows are skipped; otherwise 1.
        """
        return self.strides[0] if self.kernel[0] == 1 else 1

    @property
    def row_stride(self) -> int:
        """The vertical stride in input rows on chip, where rows that a load skips are missing."""
        return self.strides[0] // self.row_step

    @property
    def extents(self) -> tuple[int, int]:
        """The numbers of rows and columns that a window spans, with dilation."""
        (kh, kw), (dh, dw) = self.kernel, self.dilations
        return window_extent(kh, dh), window_extent(kw, dw)

    def window(self, rows: int, columns: int) -> tuple[int, int]:
        height, width = self.extents
        return (rows - 1) * self.row_stride + height, (columns - 1) * self.strides[1] + width

    def by_taps(self) -> "Contraction":
        """
        Return the contraction for kn2row: each tap is a pointwise product of shifted inputs, with
        separate blocks of the reduction, so that only the inputs of a single tap must be on chip.
        Windows of a single tap are unchanged.
        """
        if self.taps == 1:
            return self
        return replace(self, kernel=(1, 1), kblocks=self.kblocks * self.taps, spread=self.kernel)

    def flattened(self, longest: int) -> "Contraction":
        """
        Return the contraction with all positions in a single row if this is equivalent: it is
        pointwise, and an image has at most `longest` vectors. Otherwise return it unchanged.
        """
        if self.maximum or not self.is_pointwise or self.height * self.width > longest:
            return self
        positions = self.rows * self.columns
        return replace(self, height=1, width=positions, rows=1, columns=positions)


def bias_immediate(op: tile.Conv2dOp) -> int | None:
    """
    Return the bias if it is equal for all channels and fits an ALU instruction (an immediate), else
    `None`.
    """
    if (
        op.bias_tiles
        or op.uniform_bias is None
        or not is_immediate(value := op.uniform_bias.value.data)
    ):
        return None
    return value


def contraction_of(op: tile.Conv2dOp) -> Contraction:
    n, _, h, w, *_ = tile.memref_type(op.input).get_shape()
    o, kblocks, kh, kw, _, _ = tile.memref_type(op.weights).get_shape()
    groups = op.groups.value.data
    rows, columns = op.plane
    sh, sw = op.strides.get_values()
    top, left, bottom, right = op.padding.get_values()
    dh, dw = op.dilations.get_values()
    return Contraction(
        *(n, kblocks, h, w, o // groups, rows, columns),
        kernel=(kh, kw),
        strides=(sh, sw),
        padding=(top, left, bottom, right),
        dilations=(dh, dw),
        residual=op.residual is not None,
        residual_by_channel=op.residual_tiles > 1,
        shifts=int(op.shift.value.data != 0),
        by_channel=op.shifts is not None,
        clamps=(op.never_below is None) + (op.never_above is None),
        groups=groups,
        swish=0 if op.swish is None else 1 if op.uniform_bends is not None else SWISH_ROWS * o,
        outside=op.border is not None,
        bias_cycles=_bias_cycles(op),
        bias_tiles=op.bias_tiles,
        border_tiles=op.border_tiles,
        maximum=op.window_maximum,
    )


def _bias_cycles(op: tile.Conv2dOp) -> int:
    if op.bias_tiles:
        return op.bias_tiles
    immediate = bias_immediate(op)
    return 2 if immediate is None else int(immediate != 0)


@dataclass(frozen=True)
class BorderRun:
    """
    `count` adjacent output rows, or columns, from `first` on, with the same `taps` outside of the
    input: indices of window rows or columns.
    """

    first: int
    count: int
    taps: tuple[int, ...]


@dataclass(frozen=True)
class Borders:
    """The output rows and output columns with windows that extend beyond the input."""

    rows: tuple[BorderRun, ...] = ()
    columns: tuple[BorderRun, ...] = ()

    @property
    def constants(self) -> int:
        """
        The number of constants per output channel: one for each run of border rows, run of border
        columns, and intersection of both.
        """
        rows, columns = len(self.rows), len(self.columns)
        return rows + columns + rows * columns

    def corner(self, row: int, column: int) -> int:
        return len(self.rows) + len(self.columns) + row * len(self.columns) + column

    def additions(self, rows: int, columns: int) -> int:
        """
        Return the number of vector additions that add the border constants to `rows` x `columns`
        outputs of a channel block.
        """
        down, across = (sum(run.count for run in runs) for runs in (self.rows, self.columns))
        return down * columns + across * rows + down * across


@lru_cache
def borders_of(shape: Contraction) -> Borders:
    """
    Return the borders of a contraction whose padding is not zero (`shape.outside`), otherwise empty
    borders, because zeros need no correction.
    """
    return Borders(_runs(shape, 0), _runs(shape, 1)) if shape.outside else Borders()


def _runs(c: Contraction, axis: int) -> tuple[BorderRun, ...]:
    extent, size = ((c.rows, c.height), (c.columns, c.width))[axis]
    taps = range((c.spread if c.is_by_taps else c.kernel)[axis])

    def outside(position: int) -> tuple[int, ...]:
        first = position * c.strides[axis] - c.padding[axis]
        return tuple(k for k in taps if not 0 <= first + k * c.dilations[axis] < size)

    runs: list[BorderRun] = []
    for key, group in groupby(range(extent), outside):
        positions = list(group)
        if key:
            runs.append(BorderRun(positions[0], len(positions), key))
    return tuple(runs)
