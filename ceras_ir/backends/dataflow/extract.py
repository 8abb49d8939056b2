"""
Extract the blocks of a circuit from operations.

1. All zero points and roundings are constants of a sum: `bias` includes the constants of operands,
   padding and result, and half a unit for rounding. A block adds, shifts to the right and clamps:
   `floor((s + h) / 2^n) + z` is `floor((s + h + z 2^n) / 2^n)` for all s.
2. Channels with different shifts share the smallest shift `n`. The extra shift `f` of a channel is
   applied before the residual `r` is added: `floor((s + r 2^(k + f)) / 2^(n + f))` is
   `floor((floor(s / 2^f) + r 2^k) / 2^n)`. In a channel with extra shift `f`, the
   left shift of the residual must therefore be `k + f`; a rule checks it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.dataflow.blocks import (
    Addend,
    Addition,
    Block,
    BlockWindows,
    Column,
    Concatenation,
    Convolution,
    Feature,
    FunctionTable,
    Integers,
    MaxPool,
    Pipeline,
    Repetition,
    Selection,
    Source,
    SumScale,
)
from ceras_ir.backends.dataflow.rules import average_of, comparison_of, why_not
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.elementwise import Binary
from ceras_ir.dialects.graph.pooling import Pool, Pool2dOp
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.network import integer
from ceras_ir.support.diagnostics import node_name


def extract(
    value: SSAValue, operations: Sequence[Operation], results: Sequence[SSAValue]
) -> Pipeline:
    """
    Return the pipeline of blocks for `operations`, which compute `results` from `value`, the input
    of the pipeline. All operations must be supported by the target.

    A word of a stream has all columns of a row. If rows are long, rows and columns are exchanged.
    """
    source, blocks = Source("input", _feature(value)), list[Block]()
    producers: dict[SSAValue, Block] = {value: source}
    computed: dict[Operation, Block] = {}
    for op in operations:
        assert why_not(op) is None, f"{node_name(op)}: {why_not(op)}"
        if isinstance(op, graph.ReshapeOp | graph.ThresholdOp):
            producers[op.result] = producers[op.input]
            continue
        if isinstance(op, graph.ConcatOp):
            block = _concatenation(op, producers, blocks)
        else:
            block = _block_of(op, producers, blocks)
            blocks.append(block)
        producers[op.results[0]] = computed[op] = block
    pipeline = Pipeline(source, blocks, [producers[result] for result in results], computed)
    features = [block.feature for block in (source, *blocks)]
    rows, columns = max(f.rows for f in features), max(f.columns for f in features)
    return _turned(pipeline) if columns > max(LONG_ROW, rows) else pipeline


LONG_ROW = 1 << 10
"""The columns of a row above which rows and columns are exchanged, if there are fewer rows."""


def _turned(pipeline: Pipeline) -> Pipeline:
    # The pipeline for frames whose rows and columns are exchanged.
    source = replace(pipeline.source, feature=pipeline.source.feature.turned)
    turned: dict[Block, Block] = {pipeline.source: source}
    for block in pipeline.blocks:
        inputs = tuple(turned[operand] for operand in block.inputs)
        other = replace(block, feature=block.feature.turned, inputs=inputs)
        match other:
            case Convolution():
                weights = other.weights.transpose(0, 2, 1, 3)
                other = replace(other, windows=other.windows.turned, weights=weights)
            case MaxPool():
                other = replace(other, windows=other.windows.turned)
            case Repetition():
                rows, columns = other.factors
                other = replace(other, factors=(columns, rows))
            case Selection():
                other = replace(other, start=other.start.turned)
            case _:
                pass
        turned[block] = other
    return Pipeline(
        source,
        [turned[block] for block in pipeline.blocks],
        [turned[result] for result in pipeline.results],
        {op: turned[block] for op, block in pipeline.operations.items()},
        is_turned=True,
    )


Producers: TypeAlias = Mapping[SSAValue, Block]


def _feature(value: SSAValue) -> Feature:
    shape, element = graph.shape_of(value), graph.stored_element(value)
    column = Column(element.width, _offset(value), element.is_bipolar)
    if len(shape) == 2:
        return Feature(1, shape[1], 1, column)
    return Feature(shape[1], shape[3], shape[2], column)


def _offset(value: SSAValue) -> int:
    # The difference between a stored integer and the signed integer in the stream.
    element = graph.stored_element(value)
    return 0 if element.is_signed else 1 << element.width - 1


def _point(value: SSAValue) -> int:
    return graph.stored_element(value).zero_point - _offset(value)


def _scale(requant: RequantAttr, result: SSAValue) -> tuple[SumScale, Integers]:
    # The smallest shift, the clamp, and the constants that are added to the sums before.
    def addend(shift: int) -> int:
        half = 1 << shift - 1 if shift > 0 and requant.mode is not Rounding.FLOOR else 0
        return half + (point << shift if shift >= 0 else point >> -shift)

    shifts, offset = requant.net_shifts, _offset(result)
    point = requant.zero_point.data - offset
    # An odd zero point changes the parity of results.
    ties = 1 + point % 2 if requant.mode is Rounding.HALF_EVEN and max(shifts) > 0 else 0
    scale = SumScale(min(shifts), requant.low.data - offset, requant.high.data - offset, ties)
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
            tables = np.roll(op.tables.astype(np.int64), 128, axis=1)
            numbers, source = op.channel_rows or (), producers[op.input]
            return FunctionTable(node_name(op), source.feature, (source,), tables, numbers)
        case graph.RequantizeOp():
            source, stored = producers[op.input], np.arange(256).astype(np.uint8).view(np.int8)
            values = stored.astype(np.int64) - _point(op.input)
            table = integer.requantize(values, op.requant, graph.stored_element(op.result))
            tables = table.astype(np.int64)[np.newaxis]
            return FunctionTable(node_name(op), source.feature, (source,), tables)
        case graph.ResizeOp():
            feature, source = _feature(op.result), producers[op.input]
            small = source.feature
            factors = feature.rows // small.rows, feature.columns // small.columns
            return Repetition(node_name(op), feature, (source,), factors)
        case graph.SliceOp():
            starts = [0, *op.starts.get_values()[1:]]
            start = Feature(0, starts[1], 0)
            if len(starts) == 4:
                start = Feature(starts[1], starts[3], starts[2])
            return Selection(node_name(op), _feature(op.result), (producers[op.input],), start)
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
    bias = -point * weights.sum(axis=(1, 2, 3))
    if op.bias is not None:
        bias = bias + graph.known_array(op.bias).astype(np.int64)
    # The integers -1 and 1 are twice the integers of the stream, plus 1.
    step = 2 if graph.stored_element(op.input).is_bipolar else 1
    bias += (step - 1) * weights.sum(axis=(1, 2, 3))
    if (compared := comparison_of(op)) is not None:
        return _comparison(op, compared, source, windows, groups, weights, bias, step)
    scale, addends = _scale(op.requant, op.result)
    bias += addends
    if step == 2:
        if scale.shift > 0 and not scale.ties:
            # floor((2 s + b) / 2^n) is floor((s + floor(b / 2)) / 2^(n - 1)).
            bias, scale = bias >> 1, replace(scale, shift=scale.shift - 1)
        else:
            weights = weights * 2
    inputs: tuple[Block, ...] = (source,)
    if op.residual is not None:
        bias = bias - (_point(op.residual) << np.array(op.residual_shifts))
        inputs = (source, producers[op.residual])
    shifts = np.array(op.requant.channel_shifts, np.int64)
    return Convolution(
        node_name(op), _feature(op.result), inputs, windows, weights, bias, groups, point, scale,
        shifts - shifts.min() if shifts.size else None, min(op.residual_shifts),
        declared_bits=graph.stored_element(op.weights).width,
    )  # fmt: skip


def _comparison(
    op: graph.LinearOperation,
    compared: graph.ThresholdOp,
    source: Block,
    windows: BlockWindows,
    groups: int,
    weights: Integers,
    bias: Integers,
    step: int,
) -> Convolution:
    # The sums `step * products + bias` are compared with thresholds, [channels, n]. A channel whose
    # results descend has the opposite weights: -s > -t, or -s >= 1 - t, if and only if s < t.
    channels = len(weights)
    limits = graph.known_array(compared.thresholds).astype(np.int64).T
    limits = np.broadcast_to(limits, (channels, compared.levels))
    descends = np.broadcast_to(compared.steps, channels) < 0
    signs = np.where(descends, -1, 1)
    limits = np.where(descends[:, None], 1 - limits[:, ::-1], limits)
    weights, bias = weights * signs[:, None, None, None], bias * signs
    # The products reach ceil((t - bias) / step).
    limits = -((bias[:, None] - limits) // step)
    element = graph.stored_element(compared.result)
    lowest = int((compared.offsets + np.minimum(compared.steps, 0) * compared.levels)[0])
    low = -1 if element.is_bipolar else lowest - _offset(compared.result)
    return Convolution(
        node_name(op), _feature(compared.result), (source,), windows, weights, -limits[:, 0],
        groups, _point(op.input), SumScale(0, low, low + compared.levels),
        limits=limits[:, 1:] - limits[:, :1],
        declared_bits=graph.stored_element(op.weights).width,
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
    scale, addends = _scale(op.requant, op.result)
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


def _concatenation(op: graph.ConcatOp, producers: Producers, blocks: list[Block]) -> Block:
    # Operands are joined in pairs. The operand that is computed last is streamed.
    name, joined = node_name(op), producers[op.inputs[0]]
    order = {block: n for n, block in enumerate(blocks)}
    for value in op.inputs[1:]:
        lower, upper = joined, producers[value]
        f = lower.feature
        feature = replace(f, channels=f.channels + upper.feature.channels)
        is_upper_last = order.get(upper, -1) > order.get(lower, -1)
        operands = (upper, lower) if is_upper_last else (lower, upper)
        joined = Concatenation(name, feature, operands, is_upper_last)
        order[joined] = len(blocks)
        blocks.append(joined)
    return joined
