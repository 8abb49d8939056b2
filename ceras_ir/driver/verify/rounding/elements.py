"""
Rules of operations on elements: movement, arithmetic, comparisons and conversions.

Operations that move elements move their bounds. Integers and truth values made of floats are exact,
unless a bound reaches a tie, a limit or another element. A step then counts as 1, and a wrong index
as infinity.
"""

from math import inf

import numpy as np

from ceras_ir.dialects import graph
from ceras_ir.driver.verify.rounding.real import UNIT, Doubles, binary_error, gamma
from ceras_ir.driver.verify.rounding.rules import Applied, is_float, moved, rule
from ceras_ir.network import integer

rule(graph.ReshapeOp, graph.TransposeOp, graph.ConcatOp, graph.SliceOp, graph.GatherOp)(moved)


@rule(graph.UnaryOp)
def _unary(op: graph.UnaryOp, at: Applied) -> Doubles:
    if op.channel_factors is not None:
        return at.anything
    (x,) = at.reals()
    return x.function_error(op.function, at.result.astype(np.float64))


@rule(graph.BinaryOp)
def _binary(op: graph.BinaryOp, at: Applied) -> Doubles:
    if not is_float(at.result) or op.activation is not None:
        return _integer_binary(op, at)
    return binary_error(op.function, *at.reals())


def _integer_binary(op: graph.BinaryOp, at: Applied) -> Doubles:
    a, b = at.errors
    if op.activation is not None:
        return at.anything
    if at.is_exact:
        return at.nothing
    match op.function:
        case graph.Binary.ADD | graph.Binary.SUB:
            return a + b
        case graph.Binary.MIN | graph.Binary.MAX:
            return np.maximum(a, b)
        case graph.Binary.MUL:
            return np.abs(at.values[0]) * b + np.abs(at.values[1]) * a + a * b
        case _:
            return np.where(a + b > 0, inf, 0.0)


@rule(graph.SelectOp)
def _select(op: graph.SelectOp, at: Applied) -> Doubles:
    condition, a, b = at.values
    unsure, ea, eb = at.errors
    known = np.where(condition != 0, ea, eb)
    if not unsure.any():
        return known
    apart = np.abs(a - b) + np.maximum(ea, eb)
    return np.where(unsure > 0, apart, known)


@rule(graph.CompareOp)
def _compare(op: graph.CompareOp, at: Applied) -> Doubles:
    bound = at.errors[0] + at.errors[1]
    if not bound.any():
        return at.nothing
    apart = np.abs(at.values[0] - at.values[1])
    return np.where((bound > 0) & ~(apart > bound), 1.0, 0.0)


@rule(graph.CastOp)
def _cast(op: graph.CastOp, at: Applied) -> Doubles:
    value, error = at.values[0], at.errors[0]
    if at.result.dtype == np.bool_:
        return np.where((error > 0) & (np.abs(value) <= error), 1.0, 0.0)
    if not is_float(at.operands[0]):
        return error + at.unit * np.abs(value) if is_float(at.result) else error
    if is_float(at.result):
        return error
    # ONNX leaves open what becomes of numbers that the integers do not have.
    info = np.iinfo(at.result.dtype.name)
    inside = (np.trunc(value) >= float(info.min)) & (np.trunc(value) < float(info.max) + 1)
    if not error.any():
        return np.where(inside, 0.0, inf)
    steps = np.abs(np.trunc(value + error) - np.trunc(value - error))
    return np.where(inside, steps, inf)


@rule(graph.QuantizeOp)
def _quantize(op: graph.QuantizeOp, at: Applied) -> Doubles:
    element = graph.stored_element(op.result)
    scale = integer.scales(element, at.operands[0].ndim).astype(np.float64)
    point = integer.zero_points(element, at.operands[0].ndim)
    real: Doubles = at.values[0] / scale
    reach = at.errors[0] / scale + (UNIT / 2) * np.abs(real) * (at.errors[0] > 0)
    low, high = (
        np.clip(np.rint(edge) + point, element.low, element.high)
        for edge in (real - reach, real + reach)
    )
    stored = at.result.astype(np.float64)
    return np.maximum(np.abs(high - stored), np.abs(low - stored))


@rule(graph.DequantizeOp)
def _dequantize(op: graph.DequantizeOp, at: Applied) -> Doubles:
    scale = integer.scales(graph.stored_element(op.input), at.result.ndim).astype(np.float64)
    return at.errors[0] * scale + at.unit * at.magnitudes


@rule(graph.PadOp)
def _pad(op: graph.PadOp, at: Applied) -> Doubles:
    if op.function is not graph.Pad.CONSTANT:
        return moved(op, at)
    found = at.nothing
    shape, low, between = at.operands[0].shape, op.low.get_values(), op.interior.get_values()
    places = zip(shape, low, between, strict=True)
    inside = tuple(slice(a, a + (n - 1) * (i + 1) + 1, i + 1) for n, a, i in places)
    found[inside] = at.errors[0]
    return found


@rule(graph.TakeOp)
def _take(op: graph.TakeOp, at: Applied) -> Doubles:
    if at.errors[1].any():
        return at.anything
    return at.evaluation.evaluate(op, [at.errors[0], at.operands[1]]).astype(np.float64)


@rule(graph.PutOp)
def _put(op: graph.PutOp, at: Applied) -> Doubles:
    if at.errors[1].any() or (op.function is graph.Reduce.PRODUCT and at.errors[2].any()):
        return at.anything

    def put(into: Doubles, values: Doubles) -> Doubles:
        operands = [into.astype(np.float32), at.operands[1], values.astype(np.float32)]
        return at.evaluation.evaluate(op, operands).astype(np.float64)

    spread = put(at.errors[0], at.errors[2])
    if not is_float(at.result) or op.function in (None, graph.Reduce.MAX, graph.Reduce.MIN):
        return spread
    own = gamma(len(at.operands[1])) * put(np.abs(at.values[0]), np.abs(at.values[2]))
    return own if op.function is graph.Reduce.PRODUCT else spread + own


@rule(graph.ArgOp)
def _arg(op: graph.ArgOp, at: Applied) -> Doubles:
    if not at.errors[0].any():
        return at.nothing
    sign = 1.0 if op.function is graph.Reduce.MAX else -1.0
    values = np.sort(np.moveaxis(sign * at.values[0], op.axis.value.data, -1))
    bound = np.moveaxis(at.errors[0], op.axis.value.data, -1).max(axis=-1)
    if values.shape[-1] < 2:
        return at.nothing
    close = values[..., -1] - values[..., -2] <= 2 * bound
    return np.where(close, inf, 0.0).reshape(at.result.shape)


@rule(graph.TopKOp)
def _top_k(op: graph.TopKOp, at: Applied) -> Doubles:
    if not at.errors[0].any():
        return at.nothing
    sign = 1.0 if op.function is graph.Reduce.MAX else -1.0
    values = -np.sort(-sign * at.values[0], axis=-1)
    bound = 2 * at.errors[0].max(axis=-1, keepdims=True)
    close = np.diff(values, axis=-1, append=-inf) >= -bound
    close |= np.diff(values, axis=-1, prepend=inf) >= -bound
    return np.where(close[..., : at.result.shape[-1]], inf, 0.0)
