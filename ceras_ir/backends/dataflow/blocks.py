"""
Describe the circuit of each layer in integers.

Blocks exchange streams. A word of a stream has all columns of a row of a channel. The lanes of a
block, its parallel multipliers, are chosen later (`lanes.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from ceras_ir.dialects.quant import BYTE_BITS

Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """
    The integers of a stream: signed integers of `bits` bits, and their relation to the bytes of the
    network.
    """

    bits: int = BYTE_BITS
    offset: int = 0
    """A byte is larger by this number: half of the range for unsigned bytes."""
    is_bipolar: bool = False
    """Whether -1 is the byte -1, and 0 is the byte 1."""

    @property
    def reach(self) -> int:
        """The largest magnitude of an integer."""
        return 1 << self.bits - 1


@dataclass(frozen=True)
class Feature:
    """
    The shape of a frame in a stream between blocks. A frame is the feature map of one inference.
    """

    rows: int
    channels: int
    columns: int
    column: "Column" = Column()
    """The integers in the columns of a word."""

    @property
    def bits(self) -> int:
        """The bits of a column in a word."""
        return self.column.bits

    @property
    def words(self) -> int:
        """
        The number of words in which a stream transfers a frame. A word has all columns of a row of
        a channel.
        """
        return self.rows * self.channels

    @property
    def size(self) -> int:
        return self.rows * self.channels * self.columns

    @property
    def turned(self) -> "Feature":
        """The shape with rows and columns exchanged."""
        return Feature(self.columns, self.channels, self.rows, self.column)


@dataclass(frozen=True)
class SumScale:
    """
    A requantization of a sum, `clamp(sum >> shift, low, high)`. A negative `shift` shifts to the
    left. The sum includes half a unit for rounding to nearest.
    """

    shift: int
    low: int
    high: int
    ties: int = 0
    """The treatment of ties: 0 rounds up, 1 to an even result, 2 to an odd result."""


@dataclass(frozen=True, eq=False)
class Block:
    """
    A circuit of the pipeline that computes a layer. Words of the first of `inputs` are consumed as
    they arrive; a second, the residual, is stored in a buffer until it is needed.
    """

    name: str
    """The name of the node of the network that the circuit computes."""
    feature: Feature
    """The shape of the result."""
    inputs: "tuple[Block, ...]" = ()

    @property
    def input(self) -> Feature:
        """The shape of the frames of the first operand."""
        return self.inputs[0].feature

    @cached_property
    def ancestors(self) -> "frozenset[Block]":
        """The block, its producers, their producers, and so on."""
        return frozenset({self}).union(*(operand.ancestors for operand in self.inputs))


@dataclass(frozen=True, eq=False)
class Source(Block):
    """The input port of the pipeline, which sends the network input to the first block."""


@dataclass(frozen=True)
class BlockWindows:
    """The windows of a convolution or pooling; each pair is (rows, columns)."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    """The rows of padding at the top, and the columns of padding on the left."""
    dilations: tuple[int, int] = (1, 1)

    @property
    def reach(self) -> tuple[int, int]:
        """
        The distance in elements between the first and the last row of a window, and between the
        first and the last column: `(kernel - 1) * dilation`.
        """
        rows, columns = ((k - 1) * d for k, d in zip(self.kernel, self.dilations, strict=True))
        return rows, columns

    @property
    def turned(self) -> "BlockWindows":
        """The windows with rows and columns exchanged."""
        pairs = (self.kernel, self.strides, self.before, self.dilations)
        return BlockWindows(*((columns, rows) for rows, columns in pairs))


@dataclass(frozen=True, eq=False)
class Convolution(Block):
    """
    A block that computes sums of products: a convolution, a matrix product or an average. The sums
    of channel c are shifted to the right by `further[c]`; then the residual, if there is a second
    input, is added, shifted to the left by `residual_shift`; `scale` converts the sum to the
    result.
    """

    windows: BlockWindows = BlockWindows((1, 1))
    weights: Integers = field(default_factory=lambda: np.zeros((1, 1, 1, 1), np.int64))
    """The weights, with axes [filters, window rows, window columns, channels of a group]."""
    bias: Integers = field(default_factory=lambda: np.zeros(1, np.int64))
    """The constant that is added to each sum, by filter; it includes zero points and rounding."""
    groups: int = 1
    pad: int = 0
    """The stored integer that fills the padding."""
    scale: SumScale = SumScale(0, -128, 127)
    further: Integers | None = None
    """The extra right shift of each channel; None if all shifts are equal."""
    residual_shift: int = 0
    uniform: bool = False
    """Whether all weights are equal. They then need no memory."""
    limits: Integers | None = None
    """
    Replaces `scale` by a comparison: a result is `scale.low`, and 1 more for each limit that the
    sum reaches. The first limit is 0, and [filters, n] are the others, ascending.
    """
    declared_bits: int = BYTE_BITS
    """The bits of the type of the weights. Weights of less than 8 bits have exact widths."""

    @property
    def taps(self) -> int:
        """The number of products that are added for an element of the result."""
        return prod(self.weights.shape[1:])

    @cached_property
    def non_zeros(self) -> Integers:
        """The number of nonzero weights of each filter."""
        return np.count_nonzero(self.weights, axis=(1, 2, 3)).astype(np.int64)

    @property
    def is_narrow(self) -> bool:
        """Whether weights have less than 8 bits, so that lookup tables can multiply."""
        return self.declared_bits < BYTE_BITS

    @cached_property
    def is_bipolar(self) -> bool:
        """Whether all weights are -1 or 1. A dense memory then stores the sign."""
        return self.is_narrow and bool((np.abs(self.weights) == 1).all())

    @cached_property
    def weight_bits(self) -> int:
        """
        The bits of a weight as a signed factor: those of the range of the weights, but at least 8
        if the type has 8 bits. The weight of an average is its multiplier, which can have more.
        """
        low, high = int(self.weights.min()), int(self.weights.max())
        least = 1 if self.is_narrow else BYTE_BITS
        return max(least, max(-low - 1, high).bit_length() + 1)

    @property
    def further_bits(self) -> int:
        """
        The bits that hold the largest element of `further`, the extra shift of each channel; 0 if
        all shifts are equal.
        """
        return 0 if self.further is None else int(self.further.max()).bit_length()

    @cached_property
    def sum_bits(self) -> int:
        """
        The bits of the signed accumulator in the worst case for any input, with bias and residual,
        and of all limits.
        """
        residual = 128 << self.residual_shift if len(self.inputs) > 1 else 0
        products = np.abs(self.weights).sum(axis=(1, 2, 3)) * self.input.column.reach
        worst_case = int((np.abs(self.bias) + products).max()) + residual
        if self.limits is not None and self.limits.size:
            worst_case = max(worst_case, int(np.abs(self.limits).max()))
        return worst_case.bit_length() + 1

    @property
    def limit_count(self) -> int:
        """The number of limits of a channel, with the first; 0 without a comparison."""
        return 0 if self.limits is None else 1 + self.limits.shape[1]


@dataclass(frozen=True, eq=False)
class MaxPool(Block):
    """A block that computes the maximum of each window."""

    windows: BlockWindows = BlockWindows((1, 1))


@dataclass(frozen=True)
class Addend:
    """The left shift and the sign of an operand of an addition."""

    shift: int
    sign: int = 1


@dataclass(frozen=True, eq=False)
class Addition(Block):
    """
    A block that adds or subtracts two shifted inputs and a constant, and requantizes the sum. The
    constant includes zero points and rounding.
    """

    terms: tuple[Addend, Addend] = (Addend(0), Addend(0))
    constant: int = 0
    scale: SumScale = SumScale(0, -128, 127)

    @property
    def sum_bits(self) -> int:
        """The bits of the signed sum in the worst case for any int8 operands."""
        worst_case = sum(128 << term.shift for term in self.terms) + abs(self.constant)
        return worst_case.bit_length() + 1


@dataclass(frozen=True, eq=False)
class FunctionTable(Block):
    """A block that replaces each element by its entry in a lookup table."""

    tables: Integers = field(default_factory=lambda: np.zeros((1, 256), np.int64))
    """
    Tables of 256 results each, [tables, 256]; the index is the input as an unsigned byte (-1 is at
    255).
    """
    numbers: tuple[int, ...] = ()
    """The index of the table of each channel; empty if there is a single table."""


@dataclass(frozen=True, eq=False)
class Concatenation(Block):
    """
    A block that joins the channels of two inputs. The first is streamed; the second, which a buffer
    stores, has the lower channels if `second_is_lower`.
    """

    second_is_lower: bool = False


@dataclass(frozen=True, eq=False)
class Repetition(Block):
    """A block that repeats each row and each column `factors` times: (rows, columns)."""

    factors: tuple[int, int] = (1, 1)


@dataclass(frozen=True, eq=False)
class Selection(Block):
    """A block that selects a range of rows, channels and columns, which begin at `start`."""

    start: Feature = Feature(0, 0, 0)


@dataclass(eq=False)
class Pipeline:
    """The blocks of the circuit of a network, in the order of the network."""

    source: Source
    blocks: Sequence[Block]
    results: Sequence[Block] = ()
    """The block whose stream each output port sends; by default, a single port sends the last."""
    operations: Mapping[Operation, Block] = field(default_factory=dict[Operation, Block])
    """The block of each operation. A reshape has no block."""
    is_turned: bool = False
    """Whether rows and columns are exchanged, compared with the network."""

    def __post_init__(self) -> None:
        self.results = self.results or (self.blocks[-1],)

    def ports(self, block: Block) -> list[int]:
        """Return the numbers of the output ports that send the stream of `block`."""
        return [n for n, result in enumerate(self.results) if result is block]

    def consumers(self, block: Block) -> "list[tuple[Block, int]]":
        """
        Return the blocks that consume the stream of `block`, each with the index of the operand. A
        block that uses it for both operands appears twice.
        """
        return [
            (consumer, n)
            for consumer in self.blocks
            for n, operand in enumerate(consumer.inputs)
            if operand is block
        ]
