"""
The blocks of a pipeline: the circuit of each layer in integers, without lanes, and the extraction
of blocks from operations. Streams are rows of a channel.

1. All zero points and roundings are constants of a sum: `bias` includes the constants of operands,
   padding and result, and half a unit for rounding. A block adds, shifts to the right and clamps:
   `floor((s + h) / 2^n) + z` is `floor((s + h + z 2^n) / 2^n)` for all s.
2. Channels with different shifts share the smallest shift. The rest is shifted before the residual
   is added: `floor((s + r 2^(k + f)) / 2^(n + f))` is `floor((floor(s / 2^f) + r 2^k) / 2^n)`,
   because scales let the residual of a channel go left by as many bits more.
"""

from collections.abc import Callable, Sequence
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
class SumScale:
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
class BlockWindows:
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

    windows: BlockWindows = BlockWindows((1, 1))
    weights: Integers = field(default_factory=lambda: np.zeros((1, 1, 1, 1), np.int64))
    """[filters, window rows, window columns, channels of a group]."""
    bias: Integers = field(default_factory=lambda: np.zeros(1, np.int64))
    groups: int = 1
    pad: int = 0
    """What lies around the input."""
    scale: SumScale = SumScale(0, -128, 127)
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

    windows: BlockWindows = BlockWindows((1, 1))


@dataclass(frozen=True)
class Addend:
    """One operand of an addition: what it is multiplied by."""

    shift: int
    sign: int = 1


@dataclass(frozen=True, eq=False)
class Addition(Block):
    """The sum of two inputs and a constant, rescaled."""

    terms: tuple[Addend, Addend] = (Addend(0), Addend(0))
    constant: int = 0
    scale: SumScale = SumScale(0, -128, 127)

    @property
    def sum_bits(self) -> int:
        """Bits that hold every sum."""
        most = sum(128 << term.shift for term in self.terms) + abs(self.constant)
        return most.bit_length() + 1


@dataclass(frozen=True, eq=False)
class FunctionTable(Block):
    """A function of each number."""

    table: Integers = field(default_factory=lambda: np.zeros(256, np.int64))
    """By the stored number as unsigned."""


@dataclass(eq=False)
class Pipeline:
    """The blocks of a circuit in the order of the network, from its port to its port."""

    source: Source
    blocks: list[Block] = field(default_factory=list[Block])
    operations: dict[Operation, Block] = field(default_factory=dict[Operation, Block])
    """What made each block; a reshape makes none."""

    @property
    def result(self) -> Block:
        """What the output port sends."""
        return self.blocks[-1]

    def readers(self, block: Block) -> "list[tuple[Block, int]]":
        """Who reads a stream, and as which operand."""
        return [
            (reader, n)
            for reader in self.blocks
            for n, operand in enumerate(reader.inputs)
            if operand is block
        ]


def extract(value: SSAValue, operations: Sequence[Operation]) -> Pipeline:
    """The blocks of `operations`, which compute one result from `value`."""
    pipeline = Pipeline(Source("input", _feature(value)))
    made: dict[SSAValue, Block] = {value: pipeline.source}
    for op in operations:
        assert why_not(op) is None, f"{node_name(op)}: {why_not(op)}"
        if isinstance(op, graph.ReshapeOp):
            made[op.result] = made[op.input]
            continue
        block = _make(op, lambda v: made[v], pipeline.blocks)
        made[op.results[0]] = block
        pipeline.blocks.append(block)
        pipeline.operations[op] = block
    return pipeline


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
    """
    The least shift and the clamp, and what is added to sums before: one number, or one for each
    channel.
    """

    def added(shift: int) -> int:
        half = 1 << shift - 1 if shift > 0 and requant.mode is Rounding.HALF_UP else 0
        return half + (point << shift if shift >= 0 else point >> -shift)

    shifts, point = requant.net_shifts, requant.zero_point.data
    scale = SumScale(min(shifts), requant.low.data, requant.high.data)
    return scale, np.array([added(shift) for shift in shifts], np.int64)


def _make(op: Operation, made: Callable[[SSAValue], Block], before: Sequence[Block]) -> Block:
    match op:
        case graph.LinearOperation():
            return _linear(op, made)
        case Pool2dOp() if op.function is Pool.AVERAGE:
            return _average(op, made)
        case Pool2dOp():
            top, left = op.padding.get_values()[:2]
            strides = _pair(op.strides.get_values())
            windows = BlockWindows(_pair(op.window), strides, (int(top), int(left)))
            return MaxPool(node_name(op), _feature(op.result), (made(op.input),), windows)
        case graph.BinaryOp():
            return _addition(op, made, before)
        case graph.LookupOp():
            table = np.roll(op.tables[0].astype(np.int64), 128)
            return FunctionTable(node_name(op), _feature(op.result), (made(op.input),), table)
        case _:
            raise AssertionError(op.name)


def _pair(values: Sequence[int]) -> tuple[int, int]:
    first, second = values
    return int(first), int(second)


def _linear(op: graph.LinearOperation, made: Callable[[SSAValue], Block]) -> Convolution:
    assert op.requant is not None
    weights = graph.known_array(op.weights).astype(np.int64)
    source, point = made(op.input), _point(op.input)
    groups = 1
    if isinstance(op, graph.Conv2dOp):
        top, left = op.padding.get_values()[:2]
        windows = BlockWindows(
            _pair(op.window),
            _pair(op.strides.get_values()),
            (int(top), int(left)),
            _pair(op.dilations.get_values()),
        )
        groups = op.group_count
    else:
        # A product of what was flattened is one window over all of it.
        rows, channels, columns = (
            source.feature.rows,
            source.feature.channels,
            source.feature.columns,
        )
        weights = weights.reshape(len(weights), rows, columns, channels)
        windows = BlockWindows((rows, columns))
    scale, added = _scale(op.requant)
    bias = added - point * weights.sum(axis=(1, 2, 3))
    if op.bias is not None:
        bias = bias + graph.known_array(op.bias).astype(np.int64)
    inputs: tuple[Block, ...] = (source,)
    if op.residual is not None:
        bias = bias - (_point(op.residual) << np.array(op.residual_shifts))
        inputs = (source, made(op.residual))
    return Convolution(
        node_name(op),
        _feature(op.result),
        inputs,
        windows,
        weights,
        bias,
        groups,
        point,
        scale,
        np.array(shifts, np.int64) - scale.shift if (shifts := op.requant.channel_shifts) else None,
        min(op.residual_shifts),
    )


def _average(op: Pool2dOp, made: Callable[[SSAValue], Block]) -> Convolution:
    average, source = average_of(op), made(op.input)
    assert average is not None and op.requant is not None
    channels, (kh, kw) = source.feature.channels, op.window
    weights: Integers = np.full((channels, kh, kw, 1), average.multiplier, np.int64)
    top, left = op.padding.get_values()[:2]
    return Convolution(
        node_name(op),
        _feature(op.result),
        (source,),
        BlockWindows(
            (kh, kw),
            _pair(op.strides.get_values()),
            (int(top), int(left)),
            _pair(op.dilations.get_values()),
        ),
        weights,
        np.full(channels, average.addend, np.int64),
        channels,
        _point(op.input),
        SumScale(average.shift, op.requant.low.data, op.requant.high.data),
        uniform=True,
    )


def _addition(
    op: graph.BinaryOp, made: Callable[[SSAValue], Block], before: Sequence[Block]
) -> Addition:
    assert op.requant is not None
    scale, added = _scale(op.requant)
    signs = (1, -1 if op.function is Binary.SUB else 1)
    operands = [
        (made(v), Addend(f.bit_length() - 1, s), s * f * _point(v))
        for v, f, s in zip((op.lhs, op.rhs), op.factors, signs, strict=True)
    ]
    # The one that is made last is streamed; the other waits for it.
    order = {block: n for n, block in enumerate(before)}
    operands.sort(key=lambda operand: -order.get(operand[0], -1))
    (first, a, x), (second, b, y) = operands
    name, feature = node_name(op), _feature(op.result)
    return Addition(name, feature, (first, second), (a, b), int(added[0]) - x - y, scale)
