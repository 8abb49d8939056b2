"""
The shape of a contraction on packed tensors: everything on which a schedule depends.

Convolution and matrix product are treated alike; channels are counted in vectors, and images, or
rows of a matrix, in groups that fill the rows of a vector. `Borders` are the places where windows
reach over the edge of the input. A tap is outside if its row is or if its column is: the
contribution of all taps outside is the sum over rows outside and columns outside, less the taps in
both.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from math import prod

from ceras_ir.backends.vta.machine.isa import is_immediate
from ceras_ir.dialects import tile
from ceras_ir.dialects.graph.operation import window_extent

SWISH_TEMPORARIES, SWISH_PASSES, SWISH_CYCLES = 3, 49, 69
"""Buffers and instructions of a swish in the epilogue, and cycles of one vector."""
SWISH_CONSTANTS, SWISH_ROWS = 7, 7
"""Instructions with constants, and vectors that hold them where they are no immediates."""


@dataclass(frozen=True)
class Contraction:
    """
    `rows` x `columns` output positions of `nblocks` vectors, from `kblocks` vectors each, in
    every group.
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
    """Whether each output vector has a tile of its own that brings the residual in."""
    shifts: int = 1
    """ALU operations that shift the sum by an immediate, 0 or 1."""
    by_channel: bool = False
    """Whether another shifts by a vector, with an amount for each channel."""
    bias_cycles: int = 2
    """
    Of adding the bias to one vector: 2, or 1 if it is one small number or has one tile, or 0 if it
    is 0.
    """
    clamps: int = 2
    """ALU operations that clamp: those that may change something."""
    groups: int = 1
    """Contractions of this shape side by side, on channels of their own."""
    swish: int = 0
    """Vectors of constants of a swish in the epilogue: 0 without, 1 where they are immediates."""
    spread: tuple[int, int] = (1, 1)
    """The window that `by_taps` took apart."""
    outside: bool = False
    """Whether what is around the input is something else than zeros; see `borders_of`."""
    bias_tiles: int = 0
    """Tiles with digits of the bias for each output vector, if it is added as a product."""
    border_tiles: int = 0
    """Likewise of each constant for what is around the input."""
    maximum: tile.WindowMaximum | None = None
    """What is taken over windows of the sums before they are rescaled."""

    @property
    def merged(self) -> int:
        """Output positions for each vector that is rescaled and stored."""
        return 1 if self.maximum is None else self.maximum.merged

    def maxima(self, positions: int) -> list[int]:
        """Vectors of each ALU operation that takes the maximum over windows of `positions`."""
        if self.maximum is None:
            return []
        across = positions // self.maximum.strides[1]
        return [across for _ in self.maximum.offsets(1)] + [
            across // self.maximum.strides[0] for _ in self.maximum.offsets(0)
        ]

    @property
    def constants(self) -> int:
        """Vectors on chip for each output vector: the bias unless it is a number, and shifts."""
        return (self.bias_cycles > 1 and not self.bias_tiles) + self.by_channel

    @property
    def has_products(self) -> bool:
        """Whether constants are added as products with a vector of their own."""
        return bool(self.bias_tiles or self.border_tiles)

    @property
    def border_cycles(self) -> int:
        """Of adding a constant for what is around the input to one vector."""
        return self.border_tiles or 2

    @property
    def shift_passes(self) -> int:
        """Instructions that shift."""
        return self.shifts + self.by_channel

    @property
    def shift_cycles(self) -> int:
        """Of shifting one vector: an operation with another vector takes two."""
        return self.shifts + 2 * self.by_channel

    @property
    def swish_cycles(self) -> int:
        """Of the swish of one vector: constants that are no immediates take one more each."""
        return 0 if not self.swish else SWISH_CYCLES + SWISH_CONSTANTS * (self.swish > 1)

    @property
    def temporaries(self) -> int:
        """Accumulators for each position of one output vector that the epilogue needs besides."""
        return SWISH_TEMPORARIES * (self.swish > 0)

    @property
    def taps(self) -> int:
        """Positions of the window."""
        return self.kernel[0] * self.kernel[1]

    @property
    def is_by_taps(self) -> bool:
        """Whether `by_taps` took a window apart."""
        return self.spread != (1, 1)

    @property
    def input_blocks(self) -> int:
        """Blocks of input channels, which every tap of a window that was taken apart has."""
        return self.kblocks // prod(self.spread)

    @property
    def is_pointwise(self) -> bool:
        """Whether every output position reads the input position of the same index."""
        windows = (self.kernel, self.spread, self.strides)
        return set(windows) == {(1, 1)} and not any(self.padding)

    @property
    def is_flat(self) -> bool:
        """Whether positions are one row, so that a K-block is one two-dimensional transfer."""
        return self.is_pointwise and self.height == 1

    @property
    def row_step(self) -> int:
        """Input rows that a block need not load: all but every n-th."""
        return self.strides[0] if self.kernel[0] == 1 else 1

    @property
    def row_stride(self) -> int:
        """Rows on chip between the windows of neighbouring output rows."""
        return self.strides[0] // self.row_step

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns from the first to the last tap of a window."""
        (kh, kw), (dh, dw) = self.kernel, self.dilations
        return window_extent(kh, dh), window_extent(kw, dw)

    def window(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns on chip that a block of output positions needs."""
        height, width = self.extents
        return (rows - 1) * self.row_stride + height, (columns - 1) * self.strides[1] + width

    def by_taps(self) -> "Contraction":
        """
        The same as kn2row sees it: one pointwise product of shifted inputs for every tap, as
        blocks of K of its own, so that no more than a tap's inputs need be on chip.
        """
        if self.taps == 1:
            return self
        return replace(self, kernel=(1, 1), kblocks=self.kblocks * self.taps, spread=self.kernel)

    def flattened(self, longest: int) -> "Contraction":
        """
        The same with positions in one row where that changes nothing: a pointwise contraction
        whose planes are at most `longest` vectors.
        """
        if self.maximum or not self.is_pointwise or self.height * self.width > longest:
            return self
        positions = self.rows * self.columns
        return replace(self, height=1, width=positions, rows=1, columns=positions)


def bias_immediate(op: tile.Conv2dOp) -> int | None:
    """The bias, where it is one number that an ALU operation can add."""
    if (
        op.bias_tiles
        or op.uniform_bias is None
        or not is_immediate(value := op.uniform_bias.value.data)
    ):
        return None
    return value


def contraction_of(op: tile.Conv2dOp) -> Contraction:
    """The shape of `op`."""
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
    """`count` neighbours among rows, or columns, of outputs that have these taps outside."""

    first: int
    count: int
    taps: tuple[int, ...]


@dataclass(frozen=True)
class Borders:
    """Runs of output rows and of output columns whose windows have taps outside."""

    rows: tuple[BorderRun, ...] = ()
    columns: tuple[BorderRun, ...] = ()

    @property
    def constants(self) -> int:
        """What is added, for every output channel: for rows, for columns, and where both meet."""
        rows, columns = len(self.rows), len(self.columns)
        return rows + columns + rows * columns

    def corner(self, row: int, column: int) -> int:
        """The constant of two runs, by their numbers."""
        return len(self.rows) + len(self.columns) + row * len(self.columns) + column

    def additions(self, rows: int, columns: int) -> int:
        """Vectors that are added to, for `rows` x `columns` outputs of one block of channels."""
        down, across = (sum(run.count for run in runs) for runs in (self.rows, self.columns))
        return down * columns + across * rows + down * across


@lru_cache
def borders_of(shape: Contraction) -> Borders:
    """Of a contraction around whose input is something else than zeros; none of any other."""
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
