"""
Import the integer operators of quantlib and Deeploy. Their tensors are floats with integers.

The operators compute in 64 bits. The integers are those of Deeploy's kernels wherever these neither
wrap around nor exceed 32 bits. Functions of unsigned results return integers from 0.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Binary, Compare, Function, Reduce, element_of, plain_element
from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.dialects.graph.operation import broadcast_shape
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import constant_operands, operator
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node

REQUANT_SHIFT = ("RequantShift", "ai.onnx.contrib::RequantShift")
"""The names of the requantization, of which the second is that of newer exporters."""

LEVELS = ("n_levels_out", "n_levels")
"""The attributes for the number of values of the result, the newer first."""

OFFSET_BITS = 56
"""With an offset of 2^56 the dividend is positive, so dropping the fraction rounds down."""

MAX_SHIFT = 31
"""Larger shifts of quotients have the same result."""

ITA_BITS = 5
"""`ITAMax` halves a result for each 2^5 units below the maximum."""


constant_operands(
    dict.fromkeys(REQUANT_SHIFT, (1, 2)),
    "multipliers and addends must be constants",
    "make it an initializer",
)
constant_operands(
    {"iRMSNorm": (1,), "iLayerNorm": (1, 2), "iNoNorm": (1, 2)},
    "weights and biases must be constants",
    "make it an initializer",
)


@operator(*REQUANT_SHIFT)
def requant_shift(node: Node, emitter: Emitter) -> Value:
    """
    Import RequantShift: `clamp(floor((x * mul + add + div / 2) / div))`; `div` is a power of two.
    The result has `n_levels` values, around 0 if `signed`, else from 0. It has the type of integer
    multipliers, otherwise that of `x`.
    """
    levels, divisor = _levels(node), _power_of_two(node, "div")
    signed = bool(node.whole("signed"))
    # As in `_halved`, the dividend is positive; the constant is part of the addend.
    start = 1 << OFFSET_BITS
    multiplier = _per_channel(node, emitter, 1)
    addend = _per_channel(node, emitter, 2, start + divisor // 2)
    total = emitter.add(emitter.mul(_whole(emitter, 0), multiplier), addend)
    low, high = (-(levels // 2), levels // 2 - 1) if signed else (0, levels - 1)
    zero = start // divisor
    moved = emitter.bounded(_quotient(emitter, total, divisor), zero + low, zero + high)
    clamped = emitter.sub(moved, emitter.number(zero, moved))
    kind = plain_element(emitter.array(1).dtype)
    if kind is not None and is_integer(kind):
        return emitter.cast(clamped, kind)
    return _result(emitter, clamped)


@operator("iSoftmax")
def integer_softmax(node: Node, emitter: Emitter) -> Value:
    """
    Import iSoftmax: softmax of I-BERT along the last dimension. For `d = x - max`,
    `z = clamp(-d / log2, 0, 31)` and `e = (coeffA * (d + z * log2 + coeffB)^2 + coeffC) >> z`, the
    result is `e * (n_levels - 1) / sum(e)`, without the fraction.
    """
    a, b, c, unit = (node.whole(name) for name in ("coeffA", "coeffB", "coeffC", "log2"))
    if min(a, c) < 0 or unit < 1 or a * b * b + c < 1:
        raise node.wrong(f"coefficients {a}, {b} and {c} of exponentials in units of {unit}")
    x = _whole(emitter, 0)
    below = emitter.sub(_largest(emitter, x), x)
    shift = emitter.bounded(_quotient(emitter, below, unit), 0, MAX_SHIFT)
    base = emitter.sub(emitter.mul(shift, emitter.number(unit, x)), below)
    base = emitter.add(base, emitter.number(b, x))
    square = emitter.mul(emitter.mul(base, base), emitter.number(a, x))
    powers = emitter.add(square, emitter.number(c, x))
    terms = emitter.div(powers, _power(emitter, shift))
    scaled = emitter.mul(terms, emitter.number(_levels(node) - 1, x))
    return _result(emitter, emitter.div(scaled, _sum(emitter, terms)))


@operator("ITAMax")
def ita_max(node: Node, emitter: Emitter) -> Value:
    """
    Import ITAMax: `((n_levels - 1) * 256 / sum(256 >> s)) >> s` along the last dimension, for
    `s = (max - x + 16) >> 5`.
    """
    x = _whole(emitter, 0)
    shift = _ita_shift(emitter, emitter.sub(_largest(emitter, x), x))
    total = _sum(emitter, _ita_terms(emitter, shift))
    inverse = emitter.div(emitter.number((_levels(node) - 1) * 256, x), total)
    return _result(emitter, emitter.div(inverse, _power(emitter, shift)))


@operator("ITAPartialMax")
def ita_partial_max(node: Node, emitter: Emitter) -> Value:
    """
    Import ITAPartialMax: `ITAMax` with a maximum that is updated for each group of `group_width`
    elements. A higher maximum shifts the previous sum. The result is at most `n_levels / 2 - 1`.
    """
    x, width = _whole(emitter, 0), node.whole("group_width")
    size = shape_of_value(x)[-1] if shape_of_value(x) else 0
    if width < 1 or not size or size % width:
        raise node.wrong(f"groups of {width} in {size} elements")
    axis = len(shape_of_value(x)) - 1
    groups = emitter.split(x, axis, [width] * (size // width))
    maximum = _largest(emitter, groups[0])
    shift = _ita_shift(emitter, emitter.sub(maximum, groups[0]))
    total = _sum(emitter, _ita_terms(emitter, shift))
    for group in groups[1:]:
        higher = emitter.binary(Binary.MAX, maximum, _largest(emitter, group))
        # Equal maxima shift by (0 + 16) >> 5 = 0.
        shift = _ita_shift(emitter, emitter.sub(higher, maximum))
        terms = _ita_terms(emitter, _ita_shift(emitter, emitter.sub(higher, group)))
        kept = emitter.div(total, _power(emitter, shift))
        total, maximum = emitter.add(kept, _sum(emitter, terms)), higher
    shift = _ita_shift(emitter, emitter.sub(maximum, x))
    inverse = emitter.div(emitter.number((_levels(node) // 2 - 1) * 256, x), total)
    return _result(emitter, emitter.div(inverse, _power(emitter, shift)))


@operator("iLayerNorm")
def integer_layer_norm(node: Node, emitter: Emitter) -> Value:
    """
    Import iLayerNorm: `((x - m) * weight / s + bias) >> log2(D)` along the last dimension, for the
    mean `m` and `s = floor(sqrt(mean((x - m)^2) + 1))`. Quotients have no fraction. The result is
    signed.
    """
    x = _whole(emitter, 0)
    centered = emitter.sub(x, _mean(emitter, x))
    scaled = _normalized(node, emitter, centered)
    total = emitter.add(scaled, _integers(node, emitter, 2))
    return _signed(node, emitter, _halved(emitter, total, _power_of_two(node, "D")))


@operator("iRMSNorm")
def integer_rms_norm(node: Node, emitter: Emitter) -> Value:
    """
    Import iRMSNorm: `(x * weight / s) >> log2(D)` along the last dimension, for
    `s = floor(sqrt(mean(x^2) + 1))`. Quotients have no fraction. The result is signed.
    """
    scaled = _normalized(node, emitter, _whole(emitter, 0))
    return _signed(node, emitter, _halved(emitter, scaled, _power_of_two(node, "D")))


@operator("iNoNorm")
def integer_no_norm(node: Node, emitter: Emitter) -> Value:
    """Import iNoNorm: `((x * weight + bias) * mul) >> log2(D)`; the result is signed."""
    weight, bias = (_integers(node, emitter, i) for i in (1, 2))
    total = emitter.add(emitter.mul(_whole(emitter, 0), weight), bias)
    scaled = emitter.mul(total, emitter.number(node.whole("mul"), total))
    return _signed(node, emitter, _halved(emitter, scaled, _power_of_two(node, "D")))


@operator("iGELU")
def integer_gelu(node: Node, emitter: Emitter) -> Value:
    """
    Import iGELU: `x * ((one + sign(x) * (one - (min(|x|, -b) + b)^2)) >> 1)`.
    """
    b, one, x = node.whole("b"), node.whole("one"), _whole(emitter, 0)
    zero = emitter.number(0, x)
    size = emitter.binary(Binary.MAX, x, emitter.sub(zero, x))
    near = emitter.binary(Binary.MIN, size, emitter.number(-b, x))
    distance = emitter.add(near, emitter.number(b, x))
    curve = emitter.sub(emitter.number(one, x), emitter.mul(distance, distance))
    sign = emitter.bounded(x, -1, 1)
    doubled = emitter.add(emitter.mul(sign, curve), emitter.number(one, x))
    return _result(emitter, emitter.mul(x, _halved(emitter, doubled, 2)))


@operator("iHardswish")
def integer_hard_swish(node: Node, emitter: Emitter) -> Value:
    """Import iHardswish: `x * clamp(x + three, 0, six) * one_over_six`."""
    three, six, factor = (node.whole(name) for name in ("three", "six", "one_over_six"))
    if six < 0:
        raise node.wrong(f"attribute 'six' must be positive, got {six}")
    x = _whole(emitter, 0)
    gate = emitter.bounded(emitter.add(x, emitter.number(three, x)), 0, six)
    return _result(emitter, emitter.mul(x, emitter.mul(gate, emitter.number(factor, x))))


@operator("iLeakyReLU")
def integer_leaky_relu(node: Node, emitter: Emitter) -> Value:
    """Import iLeakyReLU: `x` if it is not negative, else `(x * mul) >> shift`."""
    x, shift = _whole(emitter, 0), node.whole("shift")
    if not 0 <= shift <= MAX_SHIFT:
        raise node.wrong(f"attribute 'shift' must be in [0, {MAX_SHIFT}], got {shift}")
    product = emitter.mul(x, emitter.number(node.whole("mul"), x))
    is_negative = emitter.compare(Compare.LESS, x, emitter.number(0, x))
    below = _halved(emitter, product, 1 << shift)
    return _result(emitter, emitter.select(is_negative, below, x))


@operator("IntegerDiv")
def integer_division(node: Node, emitter: Emitter) -> Value:
    """Import IntegerDiv: `Delta * eta * a / (eta * b + eps)`, rounded; ties are away from zero."""
    delta, eta, epsilon = (node.whole(name) for name in ("Delta", "eta", "eps"))
    a, b = _whole(emitter, 0), _whole(emitter, 1)
    dividend = emitter.mul(a, emitter.number(delta * eta, a))
    divisor = emitter.mul(b, emitter.number(eta, b))
    divisor = emitter.add(divisor, emitter.number(epsilon, b))
    return _result(emitter, _rounded_quotient(emitter, dividend, divisor))


@operator("TrueIntegerDiv")
def true_integer_division(node: Node, emitter: Emitter) -> Value:
    """Import TrueIntegerDiv: `x * floor(Delta * eta / (y * eta + eps))`; `y` is an attribute."""
    delta, eta, epsilon, y = (node.whole(name) for name in ("Delta", "eta", "eps", "y"))
    if y * eta + epsilon < 1:
        raise node.wrong(f"the divisor {y} * {eta} + {epsilon} must be positive")
    x = _whole(emitter, 0)
    return _result(emitter, emitter.mul(x, emitter.number(delta * eta // (y * eta + epsilon), x)))


@operator("IntegerMean")
def integer_mean(node: Node, emitter: Emitter) -> Value:
    """
    Import IntegerMean: the average along `axes`, rounded. Ties are up if the count is a power of
    two and the axes are removed, else away from zero.
    """
    x, shape = _whole(emitter, 0), emitter.shape(0)
    kept, given = node.flag("keepdims", True), node.numbers64("axes")
    chosen = range(len(shape)) if given is None else given.reshape(-1).tolist()
    axes = {node.axis(a, len(shape)) for a in chosen}
    count = prod(shape[a] for a in axes)
    total = emitter.reduce(Reduce.SUM, x, sorted(axes))
    if kept or count.bit_count() != 1:
        result = _rounded_quotient(emitter, total, emitter.number(count, x))
    else:
        result = _halved(emitter, emitter.add(total, emitter.number(count // 2, x)), count)
    if not kept:
        result = emitter.reshaped(result, [n for i, n in enumerate(shape) if i not in axes])
    return _result(emitter, result)


def _levels(node: Node) -> int:
    name = next((name for name in LEVELS if node.has_attribute(name)), LEVELS[-1])
    levels = node.whole(name)
    if not 2 <= levels <= 1 << 31:
        raise node.wrong(f"the number of levels must be in [2, 2^31], got {levels}")
    return levels


def _power_of_two(node: Node, name: str) -> int:
    divisor = node.whole(name)
    if divisor < 1 or divisor.bit_count() != 1 or divisor >= 1 << 31:
        raise node.wrong(f"attribute '{name}' must be a power of two below 2^31, got {divisor}")
    return divisor


def _integers(node: Node, emitter: Emitter, index: int, more: int = 0) -> Value:
    """Return operand `index`, a constant of integers below 2^31, plus `more` as i64."""
    array = emitter.array(index)
    rounded = np.rint(array.astype(np.float64))
    if not (array == rounded).all() or np.abs(rounded).max(initial=0) >= 1 << 31:
        raise node.wrong(f"operand {index} must have integers below 2^31")
    return emitter.constant(rounded.astype(np.int64) + more, node.inputs[index])


def _per_channel(node: Node, emitter: Emitter, index: int, more: int = 0) -> Value:
    """
    Return operand `index`, a constant of integers, plus `more`, in a shape that broadcasts to
    operand 0. An operand that does not broadcast has an integer for each channel, dimension 1.
    """
    value, shape = _integers(node, emitter, index, more), emitter.shape(0)
    given = shape_of_value(value)
    if broadcast_shape(shape, given) == tuple(shape) or len(shape) < 2:
        return value
    if prod(given) != shape[1]:
        raise node.wrong(f"operand {index} of shape {list(given)} for {list(shape)}")
    return emitter.reshaped(value, (shape[1], *(1,) * (len(shape) - 2)))


def _whole(emitter: Emitter, index: int) -> Value:
    """Return operand `index`, integers that may be stored as floats, as i64."""
    return emitter.cast(emitter.value(index), i64)


def _result(emitter: Emitter, x: Value) -> Value:
    """Convert the integers `x` to the type of the first operand."""
    return emitter.cast(x, element_of(emitter.tensor(0)))


def _signed(node: Node, emitter: Emitter, x: Value) -> Value:
    """
    Clamp `x` to the `n_levels` integers around 0, and convert it to the type of the first operand.
    """
    half = _levels(node) // 2
    return _result(emitter, emitter.bounded(x, -half, half - 1))


def _quotient(emitter: Emitter, x: Value, divisor: int) -> Value:
    """Return `x / divisor`, rounded toward 0."""
    return emitter.div(x, emitter.number(divisor, x))


def _halved(emitter: Emitter, x: Value, divisor: int) -> Value:
    """Return `floor(x / divisor)` for a power of two and `|x| < 2^56`."""
    if divisor == 1:
        return x
    start = 1 << OFFSET_BITS
    moved = _quotient(emitter, emitter.add(x, emitter.number(start, x)), divisor)
    return emitter.sub(moved, emitter.number(start // divisor, x))


def _rounded_quotient(emitter: Emitter, dividend: Value, divisor: Value) -> Value:
    """
    Return `dividend / divisor`, rounded to the nearest integer; ties are away from zero. The
    divisor must be positive.
    """
    half = emitter.div(divisor, emitter.number(2, divisor))
    is_negative = emitter.compare(Compare.LESS, dividend, emitter.number(0, dividend))
    moved = emitter.select(is_negative, emitter.sub(dividend, half), emitter.add(dividend, half))
    return emitter.div(moved, divisor)


def _last(x: Value) -> Sequence[int]:
    return [len(shape_of_value(x)) - 1]


def _largest(emitter: Emitter, x: Value) -> Value:
    return emitter.reduce(Reduce.MAX, x, _last(x))


def _sum(emitter: Emitter, x: Value) -> Value:
    return emitter.reduce(Reduce.SUM, x, _last(x))


def _mean(emitter: Emitter, x: Value) -> Value:
    """
    Return the average along the last dimension, rounded toward 0. The dimension remains with extent
    1.
    """
    return _quotient(emitter, _sum(emitter, x), shape_of_value(x)[-1])


def _normalized(node: Node, emitter: Emitter, x: Value) -> Value:
    """Return `x * weight / floor(sqrt(mean(x^2) + 1))`."""
    square = emitter.add(_mean(emitter, emitter.mul(x, x)), emitter.number(1, x))
    product = emitter.mul(x, _integers(node, emitter, 1))
    return emitter.div(product, _root(emitter, square))


def _root(emitter: Emitter, x: Value) -> Value:
    """Return `floor(sqrt(x))` for `x < 2^40`."""
    near = emitter.cast(emitter.unary(Function.SQRT, emitter.cast(x)), i64)
    # The square root in float32 is at most a unit from the result.
    one = emitter.number(1, x)
    low, high = emitter.sub(near, one), emitter.add(near, one)
    above = emitter.compare(Compare.LESS, x, emitter.mul(near, near))
    below = emitter.compare(Compare.LESS, x, emitter.mul(high, high))
    return emitter.select(above, low, emitter.select(below, near, high))


def _power(emitter: Emitter, exponent: Value) -> Value:
    """Return powers of two for exponents up to `MAX_SHIFT`."""
    return _entries(emitter, [1 << i for i in range(MAX_SHIFT + 1)], exponent)


def _entries(emitter: Emitter, table: Sequence[int], indices: Value) -> Value:
    rows = emitter.constant(np.array(table, np.int64).reshape(-1, 1), "powers")
    return emitter.lookup(rows, indices)


def _ita_shift(emitter: Emitter, below: Value) -> Value:
    rounded = emitter.add(below, emitter.number(1 << ITA_BITS - 1, below))
    return emitter.bounded(_quotient(emitter, rounded, 1 << ITA_BITS), 0, MAX_SHIFT)


def _ita_terms(emitter: Emitter, shift: Value) -> Value:
    return _entries(emitter, [256 >> i for i in range(MAX_SHIFT + 1)], shift)
