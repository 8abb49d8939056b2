"""
Replace the float operations between a quantized layer and a quantization by thresholds.

Batch normalization, rectifiers and quantization are a monotone function of a sum of integers, for
each channel. The thresholds are the sums at which the stored result changes. The operations of the
interpreter evaluate the function, so the results are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function
from ceras_ir.dialects.quant import BYTE_BITS, RequantAttr, UniformType
from ceras_ir.interpreters.elementwise import combined, elementwise, threshold
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.network import integer
from ceras_ir.network.storage import is_kept_in_float
from ceras_ir.support.diagnostics import remark
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.quantization.analysis.qdq import is_quantized_alike
from ceras_ir.transforms.quantization.analysis.stored_operands import (
    stored_operand,
    stored_weights,
)
from ceras_ir.transforms.quantization.integer_forms import accumulator_element
from ceras_ir.transforms.rebuilding import erase_dead, rebuild_linear

Integers = NDArray[np.int64]

MONOTONE = (Binary.ADD, Binary.SUB, Binary.MUL, Binary.DIV, Binary.MIN, Binary.MAX)
"""The operations with a constant that are monotone in the other operand."""

ROUNDINGS = (Function.ROUND, Function.FLOOR, Function.CEIL)

THRESHOLD_BITS = 4
MAX_LEVELS = (1 << THRESHOLD_BITS) - 1
"""The thresholds of a channel that replace float operations in each layer."""

MIN_WEIGHTS_PER_THRESHOLD = 4
"""
The weights of a layer for each threshold of more bits. A weight has at least 1 byte in float, and a
threshold has 4.
"""

SUM_BITS = 32
"""The bits of a sum of products."""

Step = graph.UnaryOp | graph.BinaryOp
End = graph.QuantizeOp | graph.ThresholdOp


@dataclass(frozen=True)
class Chain:
    """The float operations from a layer to a quantization, without other consumers."""

    layer: graph.LinearOperation
    input: SSAValue
    """The stored input of the layer."""
    weights: SSAValue
    """The stored weights of the layer, a constant."""
    steps: Sequence[Step]
    end: End

    def results(self, sums: Integers) -> NDArray[np.generic]:
        """Return the stored results for sums of products: [n, C] -> [n, C]."""
        element = _sum_element(self.layer, self.input, self.weights)
        scales = np.array([scale.data for scale in element.scales])
        value = (sums * scales).astype(np.float32)
        if self.layer.bias is not None:
            value = value + _vector(self.layer.bias)
        if self.layer.activation is not None:
            value = apply_function(self.layer.activation, value)
        for step in self.steps:
            if isinstance(step, graph.UnaryOp):
                value = elementwise(step, value)
                continue
            first, second = (
                value if side is _computed(step) else _vector(side) for side in (step.lhs, step.rhs)
            )
            value = combined(step, first, second).astype(np.float32, copy=False)
        if isinstance(self.end, graph.ThresholdOp):
            return threshold(self.end, value, graph.known_array(self.end.thresholds))
        return integer.quantize(value, graph.stored_element(self.end.result), self.end.mode)


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of the channels of a layer, see `graph.threshold`."""

    limits: Integers
    """[K, C], ascending along K."""
    offset: Integers
    step: Integers

    @classmethod
    def of(cls, chain: Chain) -> "Thresholds | None":
        """
        Return the thresholds of the results of `chain`, or `None` if a sum does not fit 32 bits.

        The smallest sum that reaches a level is found by bisection between the bounds of the sum. A
        level that no sum reaches has the threshold above the highest sum.
        """
        low, high = _bounds(chain.input, chain.weights)
        if not _fit(low, high):
            return None
        first, last = chain.results(np.stack([low, high])).astype(np.int64)
        ascends, unit = last >= first, graph.stored_element(chain.end.result).unit
        ends = np.concatenate([first, last])
        bottom, top = int(ends.min()), int(ends.max())
        if bottom == top:
            return cls((high + 1)[None, :1], np.full(1, bottom), np.zeros(1, np.int64))
        distance = np.arange(unit, top - bottom + unit, unit).astype(np.int64)[:, None]
        below, above = (np.broadcast_to(v, (len(distance), len(low))) for v in (low, high + 1))
        while (below < above).any():
            middle = (below + above) >> 1
            result = chain.results(middle).astype(np.int64)
            is_reached = np.where(ascends, result >= bottom + distance, result <= top - distance)
            above = np.where(is_reached, middle, above)
            below = np.where(is_reached | (below >= above), below, middle + 1)
        offset, step = np.where(ascends, bottom, top), np.where(ascends, unit, -unit)
        if ascends.all() or not ascends.any():
            offset, step = offset[:1], step[:1]
        return cls(above, offset, step)

    def is_small(self, chain: Chain) -> bool:
        """Return whether the thresholds are few, compared with the weights of the layer."""
        weights = graph.known_array(chain.weights).size
        return (
            len(self.limits) <= MAX_LEVELS
            or self.limits.size * MIN_WEIGHTS_PER_THRESHOLD <= weights
        )


def _sum_element(layer: graph.LinearOperation, input: SSAValue, weights: SSAValue) -> UniformType:
    """Return the type of the sums of products of a layer with stored `input` and `weights`."""
    element = accumulator_element(input, weights)
    rank = len(graph.shape_of(layer.result))
    return element.rescaled(1.0, rank - 1) if element.is_per_axis else element


def _bounds(input: SSAValue, weights: SSAValue) -> tuple[Integers, Integers]:
    """Return the lowest and the highest sum of products of each output channel: [C], [C]."""
    source, kind = graph.stored_element(input), graph.stored_element(weights)
    stored = graph.known_array(weights).astype(np.int64)
    centred = stored - integer.zero_points(kind, stored.ndim)
    rows = centred.reshape(len(centred), -1)
    ends = (end - source.zero_point for end in (source.low, source.high))
    products = np.stack([rows * end for end in ends])
    return products.min(axis=0).sum(axis=1), products.max(axis=0).sum(axis=1)


def _fit(low: Integers, high: Integers) -> bool:
    """Return whether sums between the bounds, and a threshold above them, fit 32 bits."""
    return low.min() >= np.iinfo(np.int32).min and high.max() < np.iinfo(np.int32).max


def _vector(value: SSAValue) -> NDArray[np.float32]:
    """Return a float constant as a vector, with a single element or an element per channel."""
    return graph.known_array(value).reshape(-1).astype(np.float32, copy=False)


def _is_per_channel(value: SSAValue, channels: int) -> bool:
    """Return whether `value` is a finite float constant with an element, or one per channel."""
    array = graph.constant_array(value)
    if array is None or array.dtype != np.float32 or not np.isfinite(array).all():
        return False
    return array.size == 1 or (array.size == channels == array.shape[-1])


def _is_monotone(step: graph.GraphOperation, channels: int) -> bool:
    match step:
        case graph.UnaryOp():
            return step.function.clip_range is not None or step.function.data in ROUNDINGS
        case graph.BinaryOp() if step.function in MONOTONE:
            if step.activation is not None and step.activation.clip_range is None:
                return False
            if _is_per_channel(step.rhs, channels):
                divides = step.function is Binary.DIV
                return not divides or bool(graph.known_array(step.rhs).all())
            return step.function is not Binary.DIV and _is_per_channel(step.lhs, channels)
        case _:
            return False


def _computed(step: Step) -> SSAValue:
    """Return the operand of a monotone step that is not the constant."""
    if isinstance(step, graph.UnaryOp):
        return step.input
    return step.lhs if graph.constant_array(step.lhs) is None else step.rhs


def chain_before(end: End) -> Chain | None:
    """
    Return the float operations before a quantization or float thresholds, up to a layer with stored
    operands. Return `None` if there is no such layer, or if an operation is not monotone, has other
    consumers, or remains in float on request.
    """
    value, steps = end.input, list[Step]()
    if isinstance(end, graph.QuantizeOp):
        if graph.is_per_axis(end.result) or not is_quantized_alike(end):
            return None
    elif value.has_more_than_one_use() or graph.quantized_element(value) is not None:
        return None
    channels = (1, *graph.shape_of(value))[-1]
    while isinstance(step := value.owner, graph.UnaryOp | graph.BinaryOp):
        if step.is_quantized or is_kept_in_float(step) or not _is_monotone(step, channels):
            return None
        steps.insert(0, step)
        value = _computed(step)
        if value.type != step.result.type or value.has_more_than_one_use():
            return None
    if not isinstance(step, graph.LinearOperation) or is_kept_in_float(step):
        return None
    if step.ordered is not None or step.residual is not None:
        return None
    if step.activation is not None and step.activation.clip_range is None:
        return None
    if step.bias is not None and not _is_per_channel(step.bias, channels):
        return None
    input, weights = stored_operand(step.input), stored_weights(step.weights)
    if input is None or weights is None:
        return None
    return Chain(step, input, weights, steps, end)


def needs_thresholds(chain: Chain) -> bool:
    """
    Return whether thresholds are useful for the results of `chain`: they have at most 4 bits, or
    the chain has other operations than clips, which no requantization computes.
    """
    target = graph.stored_element(chain.end.result)
    return (
        isinstance(chain.end, graph.ThresholdOp)
        or target.width <= THRESHOLD_BITS
        or any(
            not isinstance(step, graph.UnaryOp) or step.function.clip_range is None
            for step in chain.steps
        )
    )


@dataclass(frozen=True)
class ThresholdRule(NetworkPass):
    """
    Replace batch normalization and other monotone float operations between a quantized layer and a
    quantization by thresholds. If the results have at most 4 bits, a layer without such operations
    also gets thresholds, for example if its integer sums cannot represent a float bias.

    The layer returns sums of 32 bits, and `graph.threshold` compares them. Layers remain float if
    more than 15 thresholds per channel have more than a quarter as many elements as the weights. A
    note on stderr gives the number of layers.

    Exact: the interpreter evaluates the float operations at each threshold, and they are monotone.
    The sum of products is exact in integers, which float32 may round.

    Before:

        %c = graph.constant dense<0.3> : tensor<1xf32> : tensor<1xf32>
        %r = graph.dequantize %x : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2xf32>
        %w = graph.constant dense<1> : tensor<1x2xi2> : tensor<1x2x!quant.uniform<i2:f32, 1.0>>
        %v = graph.dequantize %w : (tensor<1x2x!quant.uniform<i2:f32, 1.0>>) -> tensor<1x2xf32>
        %s = graph.matmul %r, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
        %n = graph.binary mul %s, %c : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
        %y = graph.quantize %n : (tensor<1x1xf32>) -> tensor<1x1x!quant.uniform<u1:f32, 1.0>>

    After:

        %w = graph.constant dense<1> : tensor<1x2xi2> : tensor<1x2x!quant.uniform<i2:f32, 1.0>>
        %s = graph.matmul %x, %w {requant = #graph.requant<shift = 0, rounding = half_up,
            low = -2147483648, high = 2147483647>}
            : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x!quant.uniform<i2:f32, 1.0>>)
            -> tensor<1x1x!quant.uniform<i32:f32, 0.5>>
        %t = graph.constant dense<4> : tensor<1x1xi32> : tensor<1x1xi32>
        %y = graph.threshold %s, %t {offset = array<i64: 0>, step = array<i64: 1>}
            : (tensor<1x1x!quant.uniform<i32:f32, 0.5>>, tensor<1x1xi32>)
            -> tensor<1x1x!quant.uniform<u1:f32, 1.0>>
    """

    name = "thresholds"

    def change(self, main: FuncOp) -> None:
        counts = self.replace(main)
        for count, text in zip(
            counts, ("compare sums with thresholds", "remain float"), strict=True
        ):
            if count:
                layers = "1 layer" if count == 1 else f"{count} layers"
                remark(f"fold-qdq: note: {layers} before float operations: {text}")

    def replace(self, main: FuncOp) -> tuple[int, int]:
        """
        Apply the rule without a note. Return the number of layers that compare sums with
        thresholds, and of those that remain float.
        """
        replaced = kept = 0
        for op in list(main.body.block.ops):
            chain = chain_before(op) if isinstance(op, End) else None
            if chain is None or not needs_thresholds(chain):
                continue
            found = Thresholds.of(chain)
            if found is None or not found.is_small(chain):
                kept += 1
                continue
            replaced += 1
            _replace(chain, found)
        erase_dead(main.body.block)
        return replaced, kept


def is_sum(op: Operation) -> bool:
    """Return whether `op` is a layer that returns its sums of products unchanged."""
    if not isinstance(op, graph.LinearOperation) or op.requant is None:
        return False
    element = graph.stored_element(op.result)
    return (
        element.width == SUM_BITS and op.requant.multipliers == (1,) and not op.requant.shift.data
    )


def _sums(
    layer: graph.LinearOperation, input: SSAValue, weights: SSAValue
) -> graph.LinearOperation:
    """Return the sums of products of a layer in 32 bits, without bias and activation."""
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    requant = RequantAttr(0, low=int(low), high=int(high))
    return rebuild_linear(
        layer,
        {"activation": None, "requant": requant},
        input=input,
        weights=weights,
        bias=None,
        element=_sum_element(layer, input, weights),
    )


def _replace(chain: Chain, found: Thresholds) -> None:
    sums = _sums(chain.layer, chain.input, chain.weights)
    end = chain.end
    limits = graph.ConstantOp.from_array(found.limits.astype(np.int32), i32, location=end.location)
    element = graph.stored_element(end.result)
    new = graph.ThresholdOp(
        sums.result, limits.result, element, found.offset.tolist(), found.step.tolist()
    )
    new.location = end.location
    Rewriter.insert_op([sums, limits, new], InsertPoint.before(end))
    for use in list(end.input.uses):  # All have the same result.
        use.operation.results[0].replace_all_uses_with(new.result)


@dataclass(frozen=True)
class SumRule(NetworkPass):
    """
    Compute the sums of layers with weights of less than 8 bits in integers, if no quantization
    follows: those of the last layers of a network.

    Exact if float32 represents the sums, as with scales that are powers of two. Otherwise float32
    rounds the sums of the model, but not these.

    Before:

        %r = graph.dequantize %x : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2xf32>
        %w = graph.constant dense<1> : tensor<1x2xi2> : tensor<1x2x!quant.uniform<i2:f32, 1.0>>
        %v = graph.dequantize %w : (tensor<1x2x!quant.uniform<i2:f32, 1.0>>) -> tensor<1x2xf32>
        %y = graph.matmul %r, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>

    After:

        %w = graph.constant dense<1> : tensor<1x2xi2> : tensor<1x2x!quant.uniform<i2:f32, 1.0>>
        %s = graph.matmul %x, %w {requant = #graph.requant<shift = 0, rounding = half_up,
            low = -2147483648, high = 2147483647>}
            : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x!quant.uniform<i2:f32, 1.0>>)
            -> tensor<1x1x!quant.uniform<i32:f32, 0.5>>
        %y = graph.dequantize %s : (tensor<1x1x!quant.uniform<i32:f32, 0.5>>) -> tensor<1x1xf32>
    """

    name = "sums"

    def change(self, main: FuncOp) -> None:
        # Operations on whose results a quantization depends.
        quantized: set[Operation] = set()
        for op in reversed(list(main.body.block.ops)):
            users = {use.operation for result in op.results for use in result.uses}
            if isinstance(op, End) or not quantized.isdisjoint(users):
                quantized.add(op)
            elif isinstance(op, graph.LinearOperation) and not is_kept_in_float(op):
                _compute_sums(op)
        erase_dead(main.body.block)


def _compute_sums(layer: graph.LinearOperation) -> None:
    input, weights = stored_operand(layer.input), stored_weights(layer.weights)
    if layer.ordered is not None or layer.residual is not None or input is None or weights is None:
        return
    if graph.stored_element(weights).width >= BYTE_BITS or not _fit(*_bounds(input, weights)):
        return
    sums = _sums(layer, input, weights)
    real = graph.DequantizeOp(sums.result)
    new: list[graph.GraphOperation] = [sums, real]
    if layer.bias is not None:
        new.append(graph.BinaryOp(Binary.ADD, real.result, layer.bias, result_element=f32))
    if layer.activation is not None:
        new.append(graph.UnaryOp(new[-1].output, layer.activation))
    for op in new[1:]:
        op.location = layer.location
    Rewriter.replace_op(layer, new, [new[-1].output])
