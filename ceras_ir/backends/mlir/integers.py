"""
Build the integer arithmetic of quantized operations for the body of a `linalg.generic`, as
`ceras_ir.network.integer` defines it. The parameter `s` builds scalar operations. Accumulators have
64 bits.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import SSAValue

from ceras_ir.backends.mlir.scalars import Scalars
from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.dialects.graph.normalization import FRACTION_BITS, IntegerNormalizeOp
from ceras_ir.dialects.quant import MULTIPLIER_BITS, RequantAttr, Rounding, UniformType
from ceras_ir.network.integer import RECIPROCAL_OFFSET, RECIPROCAL_SLOPE

LARGEST_ROUNDED = 2.0**31
"""
The magnitude to which a quotient is limited before it becomes an integer, so that it fits i64.
"""
ROOT_BITS = 16
"""The number of bits of the square root of a value below 2^32."""


def signless(element: IntegerType) -> IntegerType:
    """
    Return the signless integer type of the same width, as upstream dialects require: ui8 becomes
    i8.
    """
    return IntegerType(element.width.data)


def round_shift(s: Scalars, value: SSAValue, shift: int, mode: Rounding) -> SSAValue:
    """Return `value / 2**shift` in i64, rounded by `mode`."""
    if shift == 0:
        return value
    by, half = s.integer(shift), s.integer(1 << (shift - 1))
    floor = s.shift_right(value, by)
    assert mode is not Rounding.DOUBLE_ROUND
    match mode:
        case Rounding.FLOOR:
            return floor
        case Rounding.HALF_UP:
            return s.shift_right(s.add(value, half), by)
        case Rounding.HALF_AWAY:
            zero = s.integer(0)
            up = s.shift_right(s.add(value, half), by)
            down = s.sub(zero, s.shift_right(s.sub(half, value), by))
            return s.select(s.compare("ge", value, zero), up, down)
        case Rounding.HALF_EVEN:
            rest = s.sub(value, s.shift_left(floor, by))
            odd = s.compare("ne", s.both(floor, s.integer(1)), s.integer(0))
            tie = s.both(s.compare("eq", rest, half), odd)
            up = s.either(s.compare("gt", rest, half), tie)
            return s.add(floor, s.resized(up, i64, signed=False))


def _half_up(s: Scalars, value: SSAValue, shift: SSAValue) -> SSAValue:
    """Return `value / 2**shift`, rounded half up; `shift` is at least 1."""
    half = s.shift_left(s.integer(1), s.sub(shift, s.integer(1)))
    return s.shift_right(s.add(value, half), shift)


def _rounded_twice(s: Scalars, value: SSAValue, shift: SSAValue) -> SSAValue:
    """Return `value / 2**shift` as `Rounding.DOUBLE_ROUND` rounds it; `shift` is at least 1."""
    first = s.min(shift, s.integer(MULTIPLIER_BITS))
    rest = s.sub(shift, first)
    high = _half_up(s, value, first)
    return s.select(s.compare("gt", rest, s.integer(0)), half_away(s, high, rest), high)


def half_away(s: Scalars, value: SSAValue, shift: SSAValue) -> SSAValue:
    """
    Return `value / 2**shift`, rounded half away from zero, for an i64 `shift`. The result for 0 is
    not defined.
    """
    zero = s.integer(0)
    half = s.shift_left(s.integer(1), s.max(s.sub(shift, s.integer(1)), zero))
    negative = s.resized(s.compare("lt", value, zero), i64, signed=False)
    return s.shift_right(s.sub(s.add(value, half), negative), shift)


def high_product(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    """
    Return the product of two fixed-point numbers in units of 2^-31: `a * b / 2**31`, rounded half
    up.
    """
    return _half_up(s, s.mul(a, b), s.integer(31))


def newton_reciprocal(s: Scalars, half: SSAValue) -> SSAValue:
    """
    Return `1 / half` by three steps of Newton's method, in units of 2^-29. `half` is in units of
    2^-31. The bits equal those of `ceras_ir.network.integer.newton_reciprocal`.
    """
    x = s.add(s.integer(RECIPROCAL_OFFSET), high_product(s, half, s.integer(RECIPROCAL_SLOPE)))
    for _ in range(3):
        error = s.sub(s.integer(1 << 29), high_product(s, half, x))
        x = s.add(x, s.shift_left(high_product(s, x, error), s.integer(2)))
    return x


def requantize(
    s: Scalars,
    accumulator: SSAValue,
    requant: RequantAttr,
    storage: IntegerType,
    multiplier: SSAValue | None = None,
    shift: SSAValue | None = None,
) -> SSAValue:
    """
    Convert an i64 accumulator to a stored integer: multiply, shift, round, add the zero point,
    clamp. `multiplier` and `shift` (i64) belong to the channel, if channels differ; by default,
    `requant` has both.
    """
    if multiplier is None and requant.multiplier.data != 1:
        multiplier = s.integer(requant.factors[0][0])
    product = accumulator if multiplier is None else s.mul(accumulator, multiplier)
    if requant.is_normalized:
        shift = s.integer(requant.factors[1][0]) if shift is None else shift
        twice = requant.mode is Rounding.DOUBLE_ROUND
        rounded = (_rounded_twice if twice else _half_up)(s, product, shift)
    else:
        rounded = round_shift(s, product, requant.shift.data, requant.mode)
    if requant.zero_point.data:
        rounded = s.add(rounded, s.integer(requant.zero_point.data))
    clamped = s.clamp(rounded, requant.low.data, requant.high.data)
    return s.resized(clamped, signless(storage))


def quantize(
    s: Scalars,
    quotient: SSAValue,
    element: UniformType,
    point: SSAValue,
    mode: Rounding = Rounding.HALF_EVEN,
) -> SSAValue:
    """
    Round `quotient`, a real value that was divided by the scale, by `mode`; add the zero point
    `point`, and clamp to the range of `element`. NaN becomes the zero point.
    """
    zero, limit = s.real(0.0), s.real(LARGEST_ROUNDED)
    rounded = s.rint(quotient)
    if mode is Rounding.HALF_AWAY:
        # A tie differs from the even neighbor by a half, exactly.
        rest = s.sub(quotient, rounded)
        up = s.both(s.compare("eq", rest, s.real(0.5)), s.compare("gt", quotient, zero))
        down = s.both(s.compare("eq", rest, s.real(-0.5)), s.compare("lt", quotient, zero))
        rounded = s.select(up, s.add(rounded, s.real(1.0)), rounded)
        rounded = s.select(down, s.sub(rounded, s.real(1.0)), rounded)
    rounded = s.select(s.is_nan(rounded), zero, rounded)
    rounded = s.select(s.compare("gt", rounded, limit), limit, rounded)
    least = s.real(-LARGEST_ROUNDED)
    rounded = s.select(s.compare("lt", rounded, least), least, rounded)
    moved = s.add(s.to_integer(rounded, i64), point)
    return s.resized(s.clamp(moved, element.low, element.high), signless(element.storage))


def centred(
    s: Scalars, stored: SSAValue, element: UniformType, type: IntegerType = i64
) -> SSAValue:
    """
    Return a stored integer minus the zero point of `element`, a per-tensor type, as an integer of
    `type`.
    """
    wide = s.resized(stored, type, signed=element.is_signed)
    return wide if element.zero_point == 0 else s.sub(wide, s.integer(element.zero_point, type))


def shift_swish(s: Scalars, q: SSAValue, bends: Sequence[SSAValue]) -> SSAValue:
    """
    Return the sum that `graph.shift_swish` computes from the stored integer `q` before the
    requantization, as an i64. `bends` has the five constants k0 to k4 of the operation: offsets of
    the linear pieces, as i64 values in units of the input scale.
    """
    k0, k1, k2, k3, k4 = bends
    zero = s.integer(0)

    def shifted(value: SSAValue, by: int) -> SSAValue:
        return s.shift_right(value, s.integer(by))

    p, m = s.max(q, s.neg(q)), s.min(q, s.neg(q))
    tail = s.min(s.sub(shifted(p, 3), k2), s.sub(shifted(p, 4), k3))
    tail = s.min(s.min(tail, s.sub(shifted(p, 6), k4)), zero)
    dip = s.max(shifted(m, 1), s.sub(shifted(m, 2), k0))
    dip = s.max(dip, s.max(s.neg(k1), tail))
    return s.add(s.max(q, zero), dip)


def root(s: Scalars, value: SSAValue) -> SSAValue:
    """Return the square root of an i64 below 2^32, rounded down."""
    result = s.integer(0)
    for bit in reversed(range(ROOT_BITS)):
        larger = s.add(result, s.integer(1 << bit))
        fits = s.compare("le", s.mul(larger, larger), value)
        result = s.select(fits, larger, result)
    return result


def shifted_by(s: Scalars, value: SSAValue, shift: SSAValue) -> SSAValue:
    """
    Return `value` shifted left by `shift`, an i64; a negative shift divides by `2**-shift` and
    rounds half up.
    """
    zero, one = s.integer(0), s.integer(1)
    right = s.max(s.neg(shift), zero)
    half = s.shift_left(one, s.max(s.sub(right, one), zero))
    half = s.select(s.compare("gt", right, zero), half, zero)
    left = s.shift_left(value, s.max(shift, zero))
    return s.shift_right(s.add(left, half), right)


def normalization_factor(
    s: Scalars, op: IntegerNormalizeOp, squares: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """
    Return a factor `m` and a shift with which `graph.integer_normalize` multiplies the elements of
    a row; `shifted_by` applies the shift. `squares` is the sum of the squares of the row.
    """
    w, zero = s.add(squares, s.integer(op.epsilon.value.data)), s.integer(0)
    log = s.sub(s.integer(63), s.leading_zeros(w))
    t = s.shift_right(s.sub(log, s.integer(30)), s.integer(1))
    twice = s.add(t, t)
    even = s.shift_right(w, s.max(twice, zero))
    even = s.shift_left(even, s.max(s.neg(twice), zero))
    m = s.div(s.integer(op.root << 17), root(s, even))
    return m, s.sub(s.integer(FRACTION_BITS - 17 - op.root_shift), t)


def cast(
    s: Scalars, x: SSAValue, target: IntegerType, *, from_signed: bool, signed: bool
) -> SSAValue:
    """
    Return `x`, a float or an integer, as an integer of type `target`, as `graph.cast` defines it.
    `from_signed` and `signed` are the signs of source and target, whose types are signless. A float
    is truncated and saturates, NaN becomes 0; an integer keeps its low bits. The result of type i1
    is whether `x` is not 0.
    """
    type = signless(target)
    if not is_integer(x.type):
        if target.width.data == 1:
            return s.compare("ne", x, s.real(0.0))
        bits = target.width.data - int(signed)
        low, high = (-(1 << bits) if signed else 0), (1 << bits) - 1
        # The upper bound of a wide type is not representable and is rounded up.
        below, above = s.compare("le", x, s.real(low)), s.compare("ge", x, s.real(high))
        outside = s.either(s.either(below, above), s.is_nan(x))
        inside = s.to_integer(s.select(outside, s.real(0.0), x), type, signed=signed)
        top = s.select(above, s.integer(high if signed else -1, type), inside)
        return s.select(below, s.integer(low, type), top)
    if target.width.data == 1:
        return s.compare("ne", x, s.integer(0, x.type))
    return s.resized(x, type, signed=from_signed)
