"""
The blocks of a pipeline: what each layer is as a circuit, with its numbers but without lanes.

All zero points and roundings are constants of a sum: `bias` has those of operands, padding and
result, so that a block adds, shifts to the right and clamps. Streams are rows of one channel.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Feature:
    """What one frame of a stream is."""

    rows: int
    channels: int
    columns: int

    @property
    def words(self) -> int:
        """Words of a frame: one for each row of each channel."""
        return self.rows * self.channels

    @property
    def size(self) -> int:
        return self.rows * self.channels * self.columns


@dataclass(frozen=True)
class Scale:
    """How a sum becomes int8: `clamp(sum >> shift, low, high)`; a negative shift goes left."""

    shift: int
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Block:
    """One circuit of the pipeline; `inputs` are those that it reads, the streamed one first."""

    name: str
    """The node of the network."""
    feature: Feature
    """What it makes."""
    inputs: "tuple[Block, ...]" = ()

    @property
    def input(self) -> Feature:
        """What its first operand is."""
        return self.inputs[0].feature

    @cached_property
    def line(self) -> "frozenset[Block]":
        """The block and all that it comes from."""
        return frozenset({self}).union(*(operand.line for operand in self.inputs))


@dataclass(frozen=True, eq=False)
class Source(Block):
    """The input port."""


@dataclass(frozen=True)
class Windows:
    """Where the windows of a layer lie, rows before columns."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    """Padding above and on the left."""
    dilations: tuple[int, int] = (1, 1)


@dataclass(frozen=True, eq=False)
class Convolution(Block):
    """
    Sums of products, those of channel c rescaled by `floor(sum / 2^further[c])`; a second input is
    added, shifted to the left by `residual_shift`.
    """

    windows: Windows = Windows((1, 1))
    weights: Integers = field(default_factory=lambda: np.zeros((1, 1, 1, 1), np.int64))
    """[filters, window rows, window columns, channels of a group]."""
    bias: Integers = field(default_factory=lambda: np.zeros(1, np.int64))
    groups: int = 1
    pad: int = 0
    """What lies around the input."""
    scale: Scale = Scale(0, -128, 127)
    further: Integers | None = None
    """By how many bits more sums of each channel go right; None where all go alike."""
    residual_shift: int = 0
    uniform: bool = False
    """Whether all weights are one number, which then needs no memory."""

    @property
    def taps(self) -> int:
        """Products of one output."""
        return prod(self.weights.shape[1:])

    @cached_property
    def non_zeros(self) -> Integers:
        """Weights of each filter that are not zero."""
        return np.count_nonzero(self.weights, axis=(1, 2, 3)).astype(np.int64)

    @cached_property
    def weight_bits(self) -> int:
        """Bits of a weight: 8, but for averages."""
        low, high = int(self.weights.min()), int(self.weights.max())
        return max(8, max(-low - 1, high).bit_length() + 1)

    @property
    def further_bits(self) -> int:
        """Bits of a number of `further`."""
        return 0 if self.further is None else int(self.further.max()).bit_length()

    @cached_property
    def sum_bits(self) -> int:
        """Bits that hold every sum on the way, whatever the input is."""
        residual = 128 << self.residual_shift if len(self.inputs) > 1 else 0
        products = np.abs(self.weights).sum(axis=(1, 2, 3)) * 128
        most = int((np.abs(self.bias) + products).max()) + residual
        return most.bit_length() + 1


@dataclass(frozen=True, eq=False)
class MaxPool(Block):
    """The greatest number of each window."""

    windows: Windows = Windows((1, 1))


@dataclass(frozen=True)
class Term:
    """One operand of an addition: what it is multiplied by."""

    shift: int
    sign: int = 1


@dataclass(frozen=True, eq=False)
class Addition(Block):
    """The sum of two inputs and a constant, rescaled."""

    terms: tuple[Term, Term] = (Term(0), Term(0))
    constant: int = 0
    scale: Scale = Scale(0, -128, 127)

    @property
    def sum_bits(self) -> int:
        """Bits that hold every sum."""
        most = sum(128 << term.shift for term in self.terms) + abs(self.constant)
        return most.bit_length() + 1


@dataclass(frozen=True, eq=False)
class Table(Block):
    """A function of each number."""

    table: Integers = field(default_factory=lambda: np.zeros(256, np.int64))
    """By the stored number as unsigned."""
