"""
Build elementwise float functions, such as exp, from operations of arith and math.

Each function is the sequence of float32 operations that `ceras_ir.interpreters.float_functions`
defines, so a compiler that rounds each operation separately computes the same bits. Operations of
math with an approximate result, such as `math.exp`, are not used.
"""

from collections.abc import Callable, Sequence
from math import inf

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ceras_ir.backends.mlir.scalars import Scalars
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.interpreters import float_functions as defined

MANTISSA_BITS, EXPONENT_BIAS = 23, 127
MANTISSA, HALF_EXPONENT = 0x007FFFFF, 0x3F000000
"""The bits of the mantissa of an f32, and of the exponent of 0.5."""


class Functions:
    """
    Builds float functions: each method adds operations on f32 scalars to `body`, and returns the
    result. `body` is the body of a `linalg.generic`.
    """

    def __init__(self, body: Scalars):
        self.body = body

    def apply(self, function: FunctionAttr, x: SSAValue) -> SSAValue:
        """
        Return `function` of `x`, with the scale and the offset that the attribute applies to the
        result.
        """
        y = self._plain(function, x)
        if function.affine is None:
            return y
        scale, offset = (self._real(v) for v in function.affine)
        return self.body.add(self.body.mul(y, scale), offset)

    def power(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """
        Return `x` to the power of `y`, with the special cases of the interpreter for 0, negative
        and integer operands.
        """
        s = self.body
        one, two, zero = self._real(1), self._real(2), self._real(0)
        result = self.exp(s.mul(y, self.log(s.magnitude(x))))
        half = s.mul(y, self._real(0.5))
        odd = s.select(s.compare("ne", s.floor(half), half), s.neg(result), result)
        negative = s.select(s.compare("eq", s.floor(y), y), odd, self._real(np.nan))
        result = s.select(s.compare("lt", x, zero), negative, result)
        result = s.select(s.compare("eq", y, one), x, result)
        result = s.select(s.compare("eq", y, two), s.mul(x, x), result)
        return s.select(s.compare("eq", y, zero), one, result)

    def _real(self, value: float | np.float32) -> SSAValue:
        return self.body.real(float(np.float32(value)))

    def _polynomial(self, coefficients: Sequence[np.float32], x: SSAValue) -> SSAValue:
        p = self._real(coefficients[0])
        for c in coefficients[1:]:
            p = self.body.add(self.body.mul(p, x), self._real(c))
        return p

    def _plain(self, function: FunctionAttr, x: SSAValue) -> SSAValue:
        p = [float(np.float32(v)) for v in function.values]
        if (bounds := function.clip_range) is not None:
            return self.clip(x, *bounds)
        without: dict[Function, Callable[[SSAValue], SSAValue]] = {
            Function.SIGMOID: self.sigmoid,
            Function.TANH: self.tanh,
            Function.EXP: self.exp,
            Function.LOG: self.log,
            Function.ERF: self.erf,
            Function.SQRT: self.body.sqrt,
            Function.ABS: self.body.magnitude,
            Function.FLOOR: self.body.floor,
            Function.CEIL: self.body.ceil,
            Function.ROUND: self.body.rint,
            Function.SOFTPLUS: self._softplus,
            Function.MISH: self._mish,
            Function.ATAN: self._atan,
            Function.SIGN: self._sign,
            Function.HARD_SWISH: self._hard_swish,
            Function.GELU: self._gelu,
            Function.GELU_TANH: self._gelu_tanh,
            Function.SIN: lambda x: self._wave(x, 0),
            Function.COS: lambda x: self._wave(x, 1),
        }
        if (build := without.get(function.data)) is not None:
            return build(x)
        s, zero = self.body, self._real(0)
        match function.data:
            case Function.SWISH:
                return s.mul(self.sigmoid(x), x)
            case Function.LEAKY_RELU:
                return self._unless_negative(x, lambda: s.mul(self._real(p[0]), x))
            case Function.HARD_SIGMOID:
                y = s.add(s.mul(self._real(p[0]), x), self._real(p[1]))
                return self.clip(y, 0.0, 1.0)
            case Function.ELU:
                return self._unless_negative(
                    x, lambda: s.mul(self._real(p[0]), self.exp_minus_one(x))
                )
            case Function.CELU:
                return self._unless_negative(
                    x,
                    lambda: s.mul(self._real(p[0]), self.exp_minus_one(s.div(x, self._real(p[0])))),
                )
            case Function.SOFTSIGN:
                return s.div(x, s.add(s.magnitude(x), self._real(1)))
            case Function.THRESHOLDED_RELU:
                return s.select(s.compare("gt", x, self._real(p[0])), x, zero)
            case _:
                raise AssertionError(function.data)

    def _unless_negative(self, x: SSAValue, other: Callable[[], SSAValue]) -> SSAValue:
        return self.body.select(self.body.compare("ge", x, self._real(0)), x, other())

    def clip(self, x: SSAValue, low: float, high: float) -> SSAValue:
        """Return `low` if `x < low`, `high` if `x > high`, else `x`, which can be NaN or -0."""
        s, y = self.body, x
        if high != inf:
            bound = self._real(high)
            y = s.select(s.compare("gt", x, bound), bound, y)
        if low != -inf:
            bound = self._real(low)
            y = s.select(s.compare("lt", x, bound), bound, y)
        return y

    def exp(self, x: SSAValue) -> SSAValue:
        s = self.body
        low, high, zero = self._real(defined.EXP_LOW), self._real(defined.EXP_HIGH), self._real(0)
        inside = s.both(s.compare("ge", x, low), s.compare("le", x, high))
        safe = s.select(inside, x, zero)
        n = s.rint(s.mul(safe, self._real(defined.LOG2_E)))
        r = s.sub(safe, s.mul(n, self._real(defined.LN2_HIGH)))
        r = s.sub(r, s.mul(n, self._real(defined.LN2_LOW)))
        p = self._polynomial(defined.EXP_COEFFICIENTS, r)
        p = s.add(s.add(s.mul(p, s.mul(r, r)), r), self._real(1))
        exponent = s.add(s.to_integer(n, i32), s.integer(EXPONENT_BIAS, i32))
        scale = s.of_bits(s.shift_left(exponent, s.integer(MANTISSA_BITS, i32)))
        below = s.select(s.compare("lt", x, low), zero, x)
        outside = s.select(s.compare("gt", x, high), self._real(inf), below)
        return s.select(inside, s.mul(p, scale), outside)

    def exp_minus_one(self, x: SSAValue) -> SSAValue:
        s = self.body
        near = s.compare("lt", s.magnitude(x), self._real(defined.EXP_MINUS_ONE_NEAR))
        safe = s.select(near, x, self._real(0))
        p = self._polynomial(defined.EXP_COEFFICIENTS, safe)
        p = s.add(s.mul(p, s.mul(safe, safe)), safe)
        return s.select(near, p, s.sub(self.exp(x), self._real(1)))

    def sigmoid(self, x: SSAValue) -> SSAValue:
        s, one = self.body, self._real(1)
        return s.div(one, s.add(self.exp(s.neg(x)), one))

    def log(self, x: SSAValue) -> SSAValue:
        s, zero, one = self.body, self._real(0), self._real(1)
        inside = s.both(s.compare("gt", x, zero), s.compare("lt", x, self._real(inf)))
        safe = s.select(inside, x, one)
        tiny = s.compare("lt", safe, self._real(defined.MIN_NORMAL))
        bits = s.bits(s.select(tiny, s.mul(safe, self._real(2.0**25)), safe))
        e = s.sub(
            s.shift_right(bits, s.integer(MANTISSA_BITS, i32)), s.integer(EXPONENT_BIAS - 1, i32)
        )
        e = s.sub(e, s.select(tiny, s.integer(25, i32), s.integer(0, i32)))
        m = s.of_bits(
            s.either(s.both(bits, s.integer(MANTISSA, i32)), s.integer(HALF_EXPONENT, i32))
        )
        low = s.compare("lt", m, self._real(defined.SQRT_HALF))
        e = s.to_real(s.sub(e, s.resized(low, i32, signed=False)))
        r = s.sub(s.select(low, s.add(m, m), m), one)
        p = s.mul(self._polynomial(defined.LOG_COEFFICIENTS, r), s.mul(s.mul(r, r), r))
        y = s.add(p, s.mul(e, self._real(defined.LN2_LOW)))
        y = s.add(s.sub(y, s.mul(self._real(0.5), s.mul(r, r))), r)
        y = s.add(y, s.mul(e, self._real(defined.LN2_HIGH)))
        below = s.select(s.compare("lt", x, zero), self._real(np.nan), self._real(-inf))
        outside = s.select(s.compare("le", x, zero), below, x)
        return s.select(inside, y, outside)

    def erf(self, x: SSAValue) -> SSAValue:
        s, one = self.body, self._real(1)
        b = s.magnitude(x)
        a = self.clip(b, -inf, 4.0)
        p = self._polynomial(defined.ERF_COEFFICIENTS, s.mul(a, a))
        q = self._polynomial(defined.ERFC_COEFFICIENTS, a)
        tail = s.sub(one, self.exp(s.neg(q)))
        tail = s.select(s.compare("lt", x, self._real(0)), s.neg(tail), tail)
        return s.select(s.compare("lt", b, one), s.mul(x, p), tail)

    def tanh(self, x: SSAValue) -> SSAValue:
        s = self.body
        t = self.exp_minus_one(s.mul(self._real(-2), s.magnitude(x)))
        y = s.div(t, s.add(t, self._real(2)))
        return s.select(s.compare("lt", x, self._real(0)), y, s.neg(y))

    def _wave(self, x: SSAValue, quarter: int) -> SSAValue:
        s = self.body
        inside = s.compare("le", s.magnitude(x), self._real(defined.LARGEST_ANGLE))
        safe = s.select(inside, x, self._real(0))
        n = s.floor(s.add(s.mul(safe, self._real(defined.TWO_OVER_PI)), self._real(0.5)))
        r = safe
        for part in (defined.HALF_PI_HIGH, defined.HALF_PI_MIDDLE, defined.HALF_PI_LOW):
            r = s.sub(r, s.mul(n, self._real(part)))
        square = s.mul(r, r)
        sine = s.mul(s.mul(self._polynomial(defined.SIN_COEFFICIENTS, square), square), r)
        sine = s.add(sine, r)
        cosine = s.mul(self._polynomial(defined.COS_COEFFICIENTS, square), s.mul(square, square))
        cosine = s.add(s.sub(cosine, s.mul(square, self._real(0.5))), self._real(1))
        number = s.add(s.to_integer(n, i32), s.integer(quarter, i32))

        def has_bit(bit: int) -> SSAValue:
            return s.compare("ne", s.both(number, s.integer(bit, i32)), s.integer(0, i32))

        y = s.select(has_bit(1), cosine, sine)
        y = s.select(has_bit(2), s.neg(y), y)
        return s.select(inside, y, self._real(np.nan))

    def _atan(self, x: SSAValue) -> SSAValue:
        s, one, zero = self.body, self._real(1), self._real(0)
        a = s.magnitude(x)
        far = s.compare("gt", a, self._real(defined.COT_EIGHTH))
        middle = s.compare("gt", a, self._real(defined.TAN_EIGHTH))
        t = s.select(middle, s.div(s.sub(a, one), s.add(a, one)), a)
        t = s.select(far, s.div(self._real(-1), a), t)
        start = s.select(middle, self._real(defined.QUARTER_PI), zero)
        start = s.select(far, self._real(defined.HALF_PI), start)
        square = s.mul(t, t)
        p = s.mul(s.mul(self._polynomial(defined.ATAN_COEFFICIENTS, square), square), t)
        y = s.add(start, s.add(p, t))
        return s.select(s.compare("lt", x, zero), s.neg(y), y)

    def _softplus(self, x: SSAValue) -> SSAValue:
        s, one = self.body, self._real(1)
        e = self.exp(s.neg(s.magnitude(x)))
        u = s.add(one, e)
        lost = s.sub(e, s.sub(u, one))
        return s.add(self._largest(x, self._real(0)), s.add(self.log(u), lost))

    def _largest(self, x: SSAValue, y: SSAValue) -> SSAValue:
        s = self.body
        return s.select(s.either(s.compare("gt", x, y), s.is_nan(x)), x, y)

    def _mish(self, x: SSAValue) -> SSAValue:
        s = self.body
        e = self.exp(self.clip(x, -inf, 20.0))
        n = s.mul(e, s.add(e, self._real(2)))
        return s.mul(x, s.div(n, s.add(n, self._real(2))))

    def _sign(self, x: SSAValue) -> SSAValue:
        s, zero = self.body, self._real(0)
        negative = s.select(s.compare("lt", x, zero), self._real(-1), x)
        return s.select(s.compare("gt", x, zero), self._real(1), negative)

    def _hard_swish(self, x: SSAValue) -> SSAValue:
        s = self.body
        y = self.clip(s.add(x, self._real(3)), 0.0, 6.0)
        return s.mul(x, s.div(y, self._real(6)))

    def _gelu(self, x: SSAValue) -> SSAValue:
        s = self.body
        inner = self.erf(s.mul(x, self._real(defined.SQRT_OF_HALF)))
        return s.mul(s.mul(x, self._real(0.5)), s.add(self._real(1), inner))

    def _gelu_tanh(self, x: SSAValue) -> SSAValue:
        s = self.body
        cube = s.mul(s.mul(s.mul(x, x), x), self._real(0.044715))
        inner = s.mul(s.add(x, cube), self._real(defined.SQRT_2_OVER_PI))
        return s.mul(s.mul(x, self._real(0.5)), s.add(self._real(1), self.tanh(inner)))
