"""
Describe the circuit of each layer in integers, and extract these blocks from operations.

Blocks exchange streams. A word of a stream has all columns of a row of a channel. The lanes of a
block, its parallel multipliers, are chosen later (`lanes.py`).

1. All zero points and roundings are constants of a sum: `bias` includes the constants of operands,
   padding and result, and half a unit for rounding. A block adds, shifts to the right and clamps:
   `floor((s + h) / 2^n) + z` is `floor((s + h + z 2^n) / 2^n)` for all s.
2. Channels with different shifts share the smallest shift `n`. The extra shift `f` of a channel is
   applied before the residual `r` is added: `floor((s + r 2^(k + f)) / 2^(n + f))` is
   `floor((floor(s / 2^f) + r 2^k) / 2^n)`. In a channel with extra shift `f`, the
   left shift of the residual must therefore be `k + f`; a rule checks it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.dataflow.rules import average_of, why_not
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.elementwise import Binary
from ceras_ir.dialects.graph.pooling import Pool, Pool2dOp
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.support.diagnostics import node_name

Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Feature:
    """
    The shape of a frame in a stream between blocks. A frame is the feature map of one inference.
    """

    rows: int
    channels: int
    columns: int

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


@dataclass(frozen=True)
class SumScale:
    """
    A requantization of a sum, `clamp(sum >> shift, low, high)`. A negative `shift` shifts to the
    left.
    """

    shift: int
    low: int
    high: int


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

    @property
    def taps(self) -> int:
        """The number of products that are added for an element of the result."""
        return prod(self.weights.shape[1:])

    @cached_property
    def non_zeros(self) -> Integers:
        """The number of nonzero weights of each filter."""
        return np.count_nonzero(self.weights, axis=(1, 2, 3)).astype(np.int64)

    @cached_property
    def weight_bits(self) -> int:
        """
        The bits in which a weight is stored: 8, or more for averages, whose weight is the
        multiplier of the average.
        """
        low, high = int(self.weights.min()), int(self.weights.max())
        return max(8, max(-low - 1, high).bit_length() + 1)

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
        The bits of the signed accumulator in the worst case for any int8 input, with bias and
        residual.
        """
        residual = 128 << self.residual_shift if len(self.inputs) > 1 else 0
        products = np.abs(self.weights).sum(axis=(1, 2, 3)) * 128
        worst_case = int((np.abs(self.bias) + products).max()) + residual
        return worst_case.bit_length() + 1


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

    table: Integers = field(default_factory=lambda: np.zeros(256, np.int64))
    """The 256 results; the index is the input as an unsigned byte (-1 is at 255)."""


@dataclass(eq=False)
class Pipeline:
    """The blocks of the circuit of a network, in the order of the network."""

    source: Source
    blocks: list[Block] = field(default_factory=list[Block])
    operations: dict[Operation, Block] = field(default_factory=dict[Operation, Block])
    """The block of each operation. A reshape has no block."""

    @property
    def result(self) -> Block:
        """The last block, whose stream is the network output."""
        return self.blocks[-1]

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


def extract(value: SSAValue, operations: Sequence[Operation]) -> Pipeline:
    """
    Return the pipeline of blocks for `operations`, which compute a single result from `value`, the
    input of the pipeline. All operations must be supported by the target.
    """
    pipeline = Pipeline(Source("input", _feature(value)))
    producers: dict[SSAValue, Block] = {value: pipeline.source}
    for op in operations:
        assert why_not(op) is None, f"{node_name(op)}: {why_not(op)}"
        if isinstance(op, graph.ReshapeOp):
            producers[op.result] = producers[op.input]
            continue
        block = _block_of(op, producers, pipeline.blocks)
        producers[op.results[0]] = block
        pipeline.blocks.append(block)
        pipeline.operations[op] = block
    return pipeline


Producers: TypeAlias = Mapping[SSAValue, Block]


def _feature(value: SSAValue) -> Feature:
    shape = graph.shape_of(value)
    if len(shape) == 2:
        return Feature(1, shape[1], 1)
    return Feature(shape[1], shape[3], shape[2])


def _point(value: SSAValue) -> int:
    element = graph.quantized_element(value)
    assert element is not None
    return element.zero_point


def _scale(requant: RequantAttr) -> tuple[SumScale, Integers]:
    # The smallest shift, the clamp, and the constants that are added to the sums before.
    def addend(shift: int) -> int:
        half = 1 << shift - 1 if shift > 0 and requant.mode is Rounding.HALF_UP else 0
        return half + (point << shift if shift >= 0 else point >> -shift)

    shifts, point = requant.net_shifts, requant.zero_point.data
    scale = SumScale(min(shifts), requant.low.data, requant.high.data)
    return scale, np.array([addend(shift) for shift in shifts], np.int64)


def _block_of(op: Operation, producers: Producers, before: Sequence[Block]) -> Block:
    match op:
        case graph.LinearOperation():
            return _linear(op, producers)
        case Pool2dOp() if op.function is Pool.AVERAGE:
            return _average(op, producers)
        case Pool2dOp():
            inputs = (producers[op.input],)
            return MaxPool(node_name(op), _feature(op.result), inputs, _windows(op))
        case graph.BinaryOp():
            return _addition(op, producers, before)
        case graph.LookupOp():
            table = np.roll(op.tables[0].astype(np.int64), 128)
            return FunctionTable(node_name(op), _feature(op.result), (producers[op.input],), table)
        case _:
            raise AssertionError(op.name)


def _windows(op: graph.Conv2dOp | Pool2dOp) -> BlockWindows:
    kernel, strides, before, dilations = (
        (int(values[0]), int(values[1]))
        for values in (
            op.window,
            op.strides.get_values(),
            op.padding.get_values(),
            op.dilations.get_values(),
        )
    )
    return BlockWindows(kernel, strides, before, dilations)


def _linear(op: graph.LinearOperation, producers: Producers) -> Convolution:
    assert op.requant is not None
    weights = graph.known_array(op.weights).astype(np.int64)
    source, point = producers[op.input], _point(op.input)
    groups = 1
    if isinstance(op, graph.Conv2dOp):
        windows, groups = _windows(op), op.group_count
    else:
        # A product of a flattened feature map is a window that covers all of it.
        f = source.feature
        weights = weights.reshape(len(weights), f.rows, f.columns, f.channels)
        windows = BlockWindows((f.rows, f.columns))
    scale, addends = _scale(op.requant)
    bias = addends - point * weights.sum(axis=(1, 2, 3))
    if op.bias is not None:
        bias = bias + graph.known_array(op.bias).astype(np.int64)
    inputs: tuple[Block, ...] = (source,)
    if op.residual is not None:
        bias = bias - (_point(op.residual) << np.array(op.residual_shifts))
        inputs = (source, producers[op.residual])
    shifts = op.requant.channel_shifts
    return Convolution(
        node_name(op), _feature(op.result), inputs, windows, weights, bias, groups, point, scale,
        np.array(shifts, np.int64) - scale.shift if shifts else None, min(op.residual_shifts),
    )  # fmt: skip


def _average(op: Pool2dOp, producers: Producers) -> Convolution:
    average, source = average_of(op), producers[op.input]
    assert average is not None and op.requant is not None
    channels, (kh, kw) = source.feature.channels, op.window
    weights: Integers = np.full((channels, kh, kw, 1), average.multiplier, np.int64)
    bias = np.full(channels, average.addend, np.int64)
    scale = SumScale(average.shift, op.requant.low.data, op.requant.high.data)
    return Convolution(
        node_name(op), _feature(op.result), (source,), _windows(op), weights, bias, channels,
        _point(op.input), scale, uniform=True,
    )  # fmt: skip


def _addition(op: graph.BinaryOp, producers: Producers, before: Sequence[Block]) -> Addition:
    assert op.requant is not None
    scale, addends = _scale(op.requant)
    signs = (1, -1 if op.function is Binary.SUB else 1)
    operands = [
        (producers[v], Addend(f.bit_length() - 1, s), s * f * _point(v))
        for v, f, s in zip((op.lhs, op.rhs), op.factors, signs, strict=True)
    ]
    # The operand that is computed last is streamed; a ring stores the other operand.
    order = {block: n for n, block in enumerate(before)}
    operands.sort(key=lambda operand: -order.get(operand[0], -1))
    (first, a, x), (second, b, y) = operands
    name, feature = node_name(op), _feature(op.result)
    return Addition(name, feature, (first, second), (a, b), int(addends[0]) - x - y, scale)
