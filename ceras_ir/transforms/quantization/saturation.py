"""
Keep the clip of `graph.quantize` as an operation or activation of the float network.

QuantizeLinear rounds and clips. A pass that removes QuantizeLinear, or stores the result in a wider
range, must keep the clip: quantizers omit a Relu or Clip that QuantizeLinear repeats, and ranges
without outliers are common. `saturated` keeps the clip after any operation. It has no cost if the
value cannot exceed the range, or if the clip becomes the activation of a layer.
"""

from collections.abc import Mapping
from math import exp, inf, isfinite, isnan, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, IntAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network import integer
from ceras_ir.network.storage import exponent
from ceras_ir.transforms.quantization.analysis.qdq import is_quantized_alike, only_moves

Bounds = tuple[float, float]

UNBOUNDED: Bounds = (-inf, inf)

MAX_DEPTH = 64
"""Length of the chains of operations that are followed; longer chains have no bounds."""

LARGEST_EXPONENT = 88.0
"""Beyond it the exponential of a float32 number is infinite."""

FIXED: Mapping[graph.Function, Bounds] = {
    graph.Function.SIGMOID: (0.0, 1.0),
    graph.Function.HARD_SIGMOID: (0.0, 1.0),
    graph.Function.TANH: (-1.0, 1.0),
    graph.Function.ERF: (-1.0, 1.0),
    graph.Function.SIGN: (-1.0, 1.0),
    graph.Function.SOFTSIGN: (-1.0, 1.0),
    graph.Function.SIN: (-1.0, 1.0),
    graph.Function.COS: (-1.0, 1.0),
    graph.Function.ATAN: (-pi / 2, pi / 2),
}
"""The bounds of the results of functions, for any argument."""

RECTIFIERS: Mapping[graph.Function, float] = {
    graph.Function.SWISH: -0.2785,
    graph.Function.HARD_SWISH: -0.375,
    graph.Function.GELU: -0.17,
    graph.Function.GELU_TANH: -0.1705,
    graph.Function.MISH: -0.309,
}
"""Functions with `c <= f(x) <= max(x, 0)`, each with a lower bound of `c`."""


def range_of(element: UniformType) -> Bounds:
    """
    Return the lowest and the highest real value that the quantized type `element` can store in any
    channel.
    """
    channels = list(zip(element.scales, element.zero_points, strict=True))
    low = min((element.low - z.data) * s.data for s, z in channels)
    return low, max((element.high - z.data) * s.data for s, z in channels)


def proven_bounds(value: SSAValue) -> Bounds:
    """
    Return a lower and an upper bound of a float value that hold for any graph input; `(-inf, inf)`
    if no bounds are known.
    """
    return _Bounds().of(value, 0)


class _Bounds:
    """Computes the bounds of float values from the bounds of operands, and caches them."""

    def __init__(self) -> None:
        self.known: dict[SSAValue, Bounds] = {}

    def of(self, value: SSAValue, depth: int) -> Bounds:
        if value not in self.known:
            owner = value.owner
            found = self._result(owner, depth) if isinstance(owner, Operation) else UNBOUNDED
            self.known[value] = UNBOUNDED if any(map(isnan, found)) else found
        return self.known[value]

    def _result(self, op: Operation, depth: int) -> Bounds:
        if depth == MAX_DEPTH:
            return UNBOUNDED

        def of(value: SSAValue) -> Bounds:
            return self.of(value, depth + 1)

        match op:
            case graph.ConstantOp():
                return _extremes(op)
            case graph.DequantizeOp():
                stored = op.input.owner
                element = graph.stored_element(op.input)
                return (
                    _extremes(stored) if isinstance(stored, graph.ConstantOp) else range_of(element)
                )
            case graph.UnaryOp(channel_exponents=None):
                return _function(op.function, of(op.input))
            case graph.BinaryOp():
                return _activated(op, _binary(op.function, of(op.lhs), of(op.rhs)))
            case graph.LinearOperation(residual=None):
                return _activated(op, _sum(op, of(op.input)))
            case graph.LinearOperation():
                return _activated(op, UNBOUNDED)
            case graph.SoftmaxOp():
                return 0.0, 1.0
            case graph.PadOp():
                fill = float(op.stored_value)
                return _union(of(op.input), (fill, fill))
            case graph.TakeOp():
                return of(op.input)
            case graph.SelectOp():
                return _union(of(op.lhs), of(op.rhs))
            case graph.Pool2dOp() | graph.ResizeOp(function=graph.Resize.LINEAR):
                # Weighted averages, which may include zeros of the padding.
                return _union(of(op.input), (0.0, 0.0))
            case graph.GraphOperation() if op.keeps_scale:
                # Data movement may insert zeros.
                return _union(*map(of, op.data_operands), (0.0, 0.0))
            case _:
                return UNBOUNDED


def _extremes(op: graph.ConstantOp) -> Bounds:
    element, array = graph.quantized_element(op.result), op.array()
    real = array if element is None else integer.dequantize(array, element)
    if not np.isfinite(real).all():
        return UNBOUNDED
    return float(real.min()), float(real.max())


def _union(*bounds: Bounds) -> Bounds:
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _sum(op: graph.LinearOperation, bounds: Bounds) -> Bounds:
    """
    Return the bounds of the sums of products of `op`, for elements of the input within `bounds`.
    Return infinite bounds if weights of both signs cancel to less than half, because real sums are
    then far from the bounds.
    """
    weights, bias = op.weights.owner, None if op.bias is None else op.bias.owner
    if not isinstance(weights, graph.ConstantOp) or not isinstance(bias, graph.ConstantOp | None):
        return UNBOUNDED
    low, high = _union(bounds, (0.0, 0.0))  # Padding is zero.
    if not isfinite(low) or not isfinite(high):
        return UNBOUNDED
    factors = weights.array().astype(np.float64)
    factors = factors.reshape(len(factors), -1)
    if (2 * np.abs(factors.sum(axis=1)) < np.abs(factors).sum(axis=1)).any():
        return UNBOUNDED
    positive, negative = np.maximum(factors, 0).sum(axis=1), np.minimum(factors, 0).sum(axis=1)
    added = np.float64(0) if bias is None else bias.array().astype(np.float64)
    lows, highs = positive * low + negative * high, positive * high + negative * low
    return float((lows + added).min()), float((highs + added).max())


def _activated(op: graph.LinearOperation | graph.BinaryOp, bounds: Bounds) -> Bounds:
    return bounds if op.activation is None else _function(op.activation, bounds)


def _function(function: graph.FunctionAttr, bounds: Bounds) -> Bounds:
    low, high = _core(function, bounds)
    if function.affine is None:
        return low, high
    scale, offset = function.affine
    bounds_of_result = (low * scale + offset, high * scale + offset)
    return (
        UNBOUNDED
        if any(map(isnan, bounds_of_result))
        else (min(bounds_of_result), max(bounds_of_result))
    )


def _core(function: graph.FunctionAttr, bounds: Bounds) -> Bounds:
    low, high = bounds
    kind = function.data
    if (limits := function.clip_range) is not None:
        return min(max(low, limits[0]), limits[1]), min(max(high, limits[0]), limits[1])
    if kind in FIXED:
        return FIXED[kind]
    if kind in RECTIFIERS:
        return RECTIFIERS[kind], max(high, 0.0)
    match kind:
        case graph.Function.EXP:
            return 0.0, exp(high) if high < LARGEST_EXPONENT else inf
        case graph.Function.SQRT:
            return 0.0, sqrt(max(high, 0.0))
        case graph.Function.ABS:
            return 0.0, max(-low, high)
        case graph.Function.SOFTPLUS:
            return 0.0, max(high, 0.0) + log(2)
        case graph.Function.ELU | graph.Function.CELU if function.values[0] > 0.0:
            return -function.values[0], max(high, 0.0)
        case graph.Function.LEAKY_RELU if function.values[0] != 0.0:
            candidates = (0.0, function.values[0] * min(low, 0.0), max(high, 0.0))
            return min(candidates), max(candidates)
        case _:
            return UNBOUNDED


def _binary(function: graph.Binary, lhs: Bounds, rhs: Bounds) -> Bounds:
    match function:
        case graph.Binary.ADD:
            return lhs[0] + rhs[0], lhs[1] + rhs[1]
        case graph.Binary.SUB:
            return lhs[0] - rhs[1], lhs[1] - rhs[0]
        case graph.Binary.MUL:
            # Zero times infinity is NaN, which has no bounds.
            products = [a * b for a in lhs for b in rhs]
            return UNBOUNDED if any(map(isnan, products)) else (min(products), max(products))
        case graph.Binary.MIN:
            return min(lhs[0], rhs[0]), min(lhs[1], rhs[1])
        case graph.Binary.MAX:
            return max(lhs[0], rhs[0]), max(lhs[1], rhs[1])
        case _:
            return UNBOUNDED


def saturated(quantize: graph.QuantizeOp, coarsest: int | None) -> SSAValue:
    """
    Return the operand of `quantize`, clipped to the range that `quantize` stores, so that the
    quantization can be removed.

    The clip becomes part of the operations that compute the elements if these are sums, products or
    clips, without other consumers, and with a `graph.exponent` of at most `coarsest`: the model
    rounds results of larger scales before it clips them. Otherwise the clip is a new operation
    before `quantize`, unless the operand is proven to exceed the range by at most a unit.
    """
    clip, value = _Clip(quantize, coarsest), quantize.input
    if is_quantized_alike(quantize) and clip.is_absorbed(value):
        clip.absorb(value)
    elif not clip.holds(value):
        value = clip.before(value, quantize)
    return _clipped_channels(value, quantize)


class _Clip:
    """
    A clip to `limits`, the range that a quantization stores. It is omitted for values that are
    proven to exceed the limits by at most `step`, the scale.
    """

    def __init__(self, quantize: graph.QuantizeOp, coarsest: int | None):
        self.coarsest = coarsest
        element = graph.stored_element(quantize.result)
        low, high = range_of(element)
        self.limits = float(np.float32(low)), float(np.float32(high))
        self.step = min(scale.data for scale in element.scales)

    def holds(self, value: SSAValue) -> bool:
        """
        Return whether no clip is needed: `value` is proven to exceed the limits by at most a unit.
        """
        low, high = proven_bounds(value)
        return self.limits[0] - self.step <= low and high <= self.limits[1] + self.step

    def before(self, value: SSAValue, user: Operation) -> SSAValue:
        """
        Return `value`, an operand of `user`, after a clip: the result of a new operation before
        `user` or, for a constant, a new constant.
        """
        array = graph.constant_array(value)
        if array is not None:
            new = graph.ConstantOp.from_array(np.clip(array.astype(np.float32), *self.limits))
        else:
            new = graph.UnaryOp(value, graph.FunctionAttr(graph.Function.CLIP, self.limits))
        new.location = user.location
        Rewriter.insert_op(new, InsertPoint.before(user))
        return new.result

    def is_absorbed(self, value: SSAValue) -> bool:
        """
        Return whether the operations that compute the elements of `value` have no other consumers
        and can include the clip in the activation.
        """
        op, known = value.owner, exponent(value)
        match op:
            case graph.LinearOperation() | graph.BinaryOp() | graph.UnaryOp():
                function = op.function if isinstance(op, graph.UnaryOp) else op.activation
                if known is not None and self.coarsest is not None and known > self.coarsest:
                    return False
                return function is None or function.clip_range is not None
            case graph.GraphOperation() if only_moves(op) or isinstance(op, graph.PadOp):
                moved = op.data_operands
                return all(v.has_one_use() for v in moved) and any(map(self.is_absorbed, moved))
            case _:
                return False

    def absorb(self, value: SSAValue) -> None:
        """
        Include the clip in the activation of the operations that compute the elements of `value`.
        """
        op = value.owner
        match op:
            case graph.LinearOperation() | graph.BinaryOp():
                op.activation = self._narrowed(op.activation)
            case graph.UnaryOp():
                if not self.holds(value):
                    op.properties["function"] = self._narrowed(op.function)
            case graph.PadOp():
                fill = min(max(float(op.stored_value), self.limits[0]), self.limits[1])
                op.properties["value"] = FloatAttr(fill, f32)
                self._of_operand(op, op.input)
            case graph.GraphOperation():
                for operand in op.data_operands:
                    self._of_operand(op, operand)
            case _:
                pass

    def _of_operand(self, op: graph.GraphOperation, operand: SSAValue) -> None:
        if self.is_absorbed(operand):
            self.absorb(operand)
        elif not self.holds(operand):
            op.operands[op.operands.index(operand)] = self.before(operand, op)

    def _narrowed(self, function: graph.FunctionAttr | None) -> graph.FunctionAttr:
        bounds = (-inf, inf) if function is None else function.clip_range
        assert bounds is not None
        low, high = self.limits
        return graph.FunctionAttr(
            graph.Function.CLIP, [min(max(bound, low), high) for bound in bounds]
        )


def _clipped_channels(value: SSAValue, quantize: graph.QuantizeOp) -> SSAValue:
    """
    If a quantization has a scale per channel, return `value` clipped to the range of each channel
    by a minimum and a maximum, if it can exceed the range. Otherwise return `value`.
    """
    element = graph.stored_element(quantize.result)
    if not isinstance(element.axis, IntAttr):
        return value
    scales = np.array([scale.data for scale in element.scales])
    points = np.array([point.data for point in element.zero_points])
    shape = [1] * len(graph.shape_of(value))
    shape[element.axis.data] = len(scales)
    low, high = proven_bounds(value)
    lows, highs = (element.low - points) * scales, (element.high - points) * scales
    sides: list[tuple[graph.Binary, NDArray[np.float64]]] = []
    if (highs + scales < high).any():
        sides.append((graph.Binary.MIN, highs))
    if (lows - scales > low).any():
        sides.append((graph.Binary.MAX, lows))
    for kind, limits in sides:
        array = limits.astype(np.float32).reshape(shape)
        constant = graph.ConstantOp.from_array(array, location=quantize.location)
        bounded = graph.BinaryOp(kind, value, constant.result, result_element=f32)
        bounded.location = quantize.location
        Rewriter.insert_op([constant, bounded], InsertPoint.before(quantize))
        value = bounded.result
    return value
