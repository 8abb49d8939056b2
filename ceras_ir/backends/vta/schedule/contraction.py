"""
Describe the shape of a contraction on packed tensors, with all properties on which a schedule
depends.

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
    The shape of a convolution or matrix product: `rows` x `columns` positions with `nblocks` output
    vectors, which depend on `kblocks` input vectors, for each group.
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
    """Whether an additional operation shifts by a vector with an amount for each channel."""
    bias_cycles: int = 2
    """
    Cycles of the addition of the bias to a vector: 0 if it is 0, 1 if it is an immediate or has a
    single tile, otherwise 2.
    """
    clamps: int = 2
    """The number of ALU operations that clamp, without clamps that have no effect."""
    groups: int = 1
    """The number of adjacent contractions of this shape on separate channels."""
    swish: int = 0
    """The vectors of constants of a swish in the epilogue: 0 without, 1 if they are immediates."""
    spread: tuple[int, int] = (1, 1)
    """The height and width of the window that `by_taps` split."""
    outside: bool = False
    """Whether the padding is not zero; see `borders_of`."""
    bias_tiles: int = 0
    """The tiles with digits of the bias for each output vector, if it is added as a product."""
    border_tiles: int = 0
    """The tiles of each constant of the border, if it is added as a product."""
    maximum: tile.WindowMaximum | None = None
    """The maximum over windows of sums before rescaling."""

    @property
    def merged(self) -> int:
        """
        The number of output positions whose maximum is a single stored vector: 1 without a fused
        maximum pooling.
        """
        return 1 if self.maximum is None else self.maximum.merged

    def maxima(self, positions: int) -> list[int]:
        """
        Return the vector count of each ALU operation of the fused maximum pooling, for a block of
        `positions`.
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
        The number of constant vectors that are on chip for each output vector: bias and shifts.
        """
        return (self.bias_cycles > 1 and not self.bias_tiles) + self.by_channel

    @property
    def has_products(self) -> bool:
        """
        Return whether GEMMs add the bias or the border constants, which are then stored as weight
        tiles.
        """
        return bool(self.bias_tiles or self.border_tiles)

    @property
    def border_cycles(self) -> int:
        """The cycles in which the constant of a border position is added to a vector."""
        return self.border_tiles or 2

    @property
    def shift_passes(self) -> int:
        return self.shifts + self.by_channel

    @property
    def shift_cycles(self) -> int:
        """
        The ALU cycles in which an output vector is shifted: two for a shift by a vector, one by an
        immediate.
        """
        return self.shifts + 2 * self.by_channel

    @property
    def swish_cycles(self) -> int:
        """
        The ALU cycles of swish on an output vector: more if its constants are stored in vectors
        instead of in instructions.
        """
        return 0 if not self.swish else SWISH_CYCLES + SWISH_CONSTANTS * (self.swish > 1)

    @property
    def temporaries(self) -> int:
        """The accumulators that the output stage needs for each vector in addition to the sum."""
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
        The number of blocks of input channels. `kblocks` counts them for each tap into which a
        window is split.
        """
        return self.kblocks // prod(self.spread)

    @property
    def is_pointwise(self) -> bool:
        """
        Return whether each output position depends only on the input position with the same index.
        """
        windows = (self.kernel, self.spread, self.strides)
        return set(windows) == {(1, 1)} and not any(self.padding)

    @property
    def is_flat(self) -> bool:
        """
        Return whether positions are a single row, so that a K-block is a two-dimensional transfer.
        """
        return self.is_pointwise and self.height == 1

    @property
    def row_step(self) -> int:
        """
        The distance between the input rows that a load transfers: the stride if windows have a
        single row.
        """
        return self.strides[0] if self.kernel[0] == 1 else 1

    @property
    def row_stride(self) -> int:
        """
        The vertical stride in input rows on chip, where rows that no window needs are omitted.
        """
        return self.strides[0] // self.row_step

    @property
    def extents(self) -> tuple[int, int]:
        """The number of rows and of columns that a window spans, with dilation."""
        (kh, kw), (dh, dw) = self.kernel, self.dilations
        return window_extent(kh, dh), window_extent(kw, dw)

    def window(self, rows: int, columns: int) -> tuple[int, int]:
        height, width = self.extents
        return (rows - 1) * self.row_stride + height, (columns - 1) * self.strides[1] + width

    def by_taps(self) -> "Contraction":
        """
        Return the contraction for kn2row: each tap is a pointwise product of shifted inputs with
        separate blocks of K, so that only the inputs of a single tap must be on chip.
        """
        if self.taps == 1:
            return self
        return replace(self, kernel=(1, 1), kblocks=self.kblocks * self.taps, spread=self.kernel)

    def flattened(self, longest: int) -> "Contraction":
        """
        Return the contraction with positions in a single row if this is equivalent: it is
        pointwise, and planes have at most `longest` vectors.
        """
        if self.maximum or not self.is_pointwise or self.height * self.width > longest:
            return self
        positions = self.rows * self.columns
        return replace(self, height=1, width=positions, rows=1, columns=positions)


def bias_immediate(op: tile.Conv2dOp) -> int | None:
    """
    Return the bias if it is the same for all channels and fits an ALU instruction, else `None`.
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
    `count` adjacent output rows, or columns, whose windows have the same taps outside of the input.
    """

    first: int
    count: int
    taps: tuple[int, ...]


@dataclass(frozen=True)
class Borders:
    """The output rows and output columns whose windows extend beyond the input."""

    rows: tuple[BorderRun, ...] = ()
    columns: tuple[BorderRun, ...] = ()

    @property
    def constants(self) -> int:
        """
        The number of constants for each output channel: for border rows, border columns, and their
        intersections.
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
    Return the borders of a contraction whose padding has a nonzero zero point, else no borders.
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
