"""
Compute elementwise float32 functions as fixed sequences of float32 operations.

All targets compute these operations in order, without fused multiply-add, so that float parts of a
quantized network are equal bit for bit. The error of `exp` is at most 1.4 units in the last place,
compared with double precision. Functions are faster and approximate in the statistics mode.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph.attributes import Function, FunctionAttr

_STATISTICS: ContextVar[bool] = ContextVar("statistics", default=False)


@contextmanager
def for_statistics() -> Generator[None]:
    """
    Inside the `with` block, compute `exp` and `tanh` by numpy and the products of recurrent layers
    by BLAS, which take a sixth of the time but have errors of some units in the last place.
    Calibration needs only the distribution of values.
    """
    token = _STATISTICS.set(True)
    try:
        yield
    finally:
        _STATISTICS.reset(token)


def is_for_statistics() -> bool:
    """Return whether functions are approximate, because the caller is inside `for_statistics`."""
    return _STATISTICS.get()


Floats = NDArray[np.float32]


def _float32s(*values: float) -> tuple[np.float32, ...]:
    return tuple(map(np.float32, values))


def _polynomial(coefficients: Sequence[np.float32], x: Floats) -> Floats:
    p = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        p = p * x + c
    return p


EXP_LOW, EXP_HIGH = np.float32(-87.33654), np.float32(88.37626)
"""`exp` is 0 below the first, and infinity above the second."""
LOG2_E = np.float32(1.44269504)
EXP_ROUND = np.float32(1.5 * 2**23)
"""If added to a float32 and subtracted again, leaves the `rint`, as in C and C++."""
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
"""ln 2 in two parts; the product of the first with an exponent is exact."""
EXP_COEFFICIENTS = _float32s(
    *(0.000198909908, 0.001393365, 0.00833331093, 0.0416664649, 0.166666667, 0.5)
)
"""Interpolation of `(exp(r) - 1 - r) / r**2` on [-ln 2 / 2, ln 2 / 2], highest degree first."""


def exp(x: Floats) -> Floats:
    """
    Compute `exp(x)` as `((p * (r * r) + r) + 1) * 2**n` with `n = rint(x * LOG2_E)`, ties to even,
    `r = (x - n * LN2_HIGH) - n * LN2_LOW`, and `p` the polynomial in `r` by Horner's rule.
    """
    if is_for_statistics():
        return np.exp(x)
    if x.ndim and x.size and x.min() >= EXP_LOW and x.max() <= EXP_HIGH:
        return _exp_inside(x)
    inside = (x >= EXP_LOW) & (x <= EXP_HIGH)
    safe = np.atleast_1d(np.where(inside, x, np.float32(0)))
    outside = np.where(x > EXP_HIGH, np.float32(np.inf), np.where(x < EXP_LOW, np.float32(0), x))
    return np.where(inside, _exp_inside(safe).reshape(x.shape), outside)


# In place, which takes half the time.
def _exp_inside(x: Floats) -> Floats:
    n = x * LOG2_E
    np.rint(n, out=n)
    p: Floats = np.multiply(n, LN2_HIGH)
    r = x - p
    np.multiply(n, LN2_LOW, out=p)
    r -= p
    np.multiply(r, EXP_COEFFICIENTS[0], out=p)
    for c in EXP_COEFFICIENTS[1:-1]:
        p += c
        p *= r
    p += EXP_COEFFICIENTS[-1]
    scale = n.astype(np.int32)
    np.multiply(r, r, out=n)
    p *= n
    p += r
    p += np.float32(1)
    scale += 127
    scale <<= 23
    p *= scale.view(np.float32)
    return p


EXP_MINUS_ONE_NEAR = np.float32(11 / 32)
"""Below this magnitude the polynomial of `exp` needs no range reduction."""


def exp_minus_one(x: Floats) -> Floats:
    """
    Compute `exp(x) - 1`: as `p * (x * x) + x` below `EXP_MINUS_ONE_NEAR` in magnitude, with the
    polynomial `p` of `exp` in `x`, which avoids cancellation; otherwise by a subtraction. The error
    is at most 4 units in the last place.
    """
    near = np.abs(x) < EXP_MINUS_ONE_NEAR
    safe = np.where(near, x, np.float32(0))
    p = _polynomial(EXP_COEFFICIENTS, safe)
    return np.where(near, p * (safe * safe) + safe, exp(x) - np.float32(1))


def sigmoid(x: Floats) -> Floats:
    """Compute `1 / (1 + exp(-x))`."""
    e = np.asarray(exp(-x))
    e += np.float32(1)
    return np.divide(np.float32(1), e, out=e)


LOG_COEFFICIENTS = _float32s(
    *(0.06971611, -0.11479734, 0.1168542, -0.12425687, 0.14249058),
    *(-0.16667803, 0.20000716, -0.24999997, 0.3333333),
)
"""Interpolation of `(log(1 + r) - r + r**2 / 2) / r**3` on [sqrt(1/2) - 1, sqrt(2) - 1]."""
SQRT_HALF = np.float32(0.70710678)
MIN_NORMAL = np.float32(2.0**-126)


def log(x: Floats) -> Floats:
    """
    Compute the natural logarithm as `(((p * (r * r * r) + e * LN2_LOW) - 0.5 * (r * r)) + r) + e *
    LN2_HIGH` with `x = m * 2**e`, m in [sqrt(1/2), sqrt(2)), `r = m - 1`, and `p` the polynomial in
    `r` by Horner's rule. The result is -infinity for 0 and NaN below 0. The error is at most 0.9
    units in the last place.
    """
    inside = (x > 0) & (x < np.float32(np.inf))
    safe = np.where(inside, x, np.float32(1))
    tiny = safe < MIN_NORMAL
    bits = np.where(tiny, safe * np.float32(2.0**25), safe).view(np.int32)
    e = (bits >> 23) - 126 - np.where(tiny, np.int32(25), np.int32(0))
    m = ((bits & 0x007FFFFF) | 0x3F000000).view(np.float32)
    low = m < SQRT_HALF
    e = (e - low).astype(np.float32)
    r = np.where(low, m + m, m) - np.float32(1)
    p = _polynomial(LOG_COEFFICIENTS, r)
    y = (((p * (r * r * r) + e * LN2_LOW) - np.float32(0.5) * (r * r)) + r) + e * LN2_HIGH
    below = np.where(x < 0, np.float32(np.nan), np.float32(-np.inf))
    outside = np.where(x <= 0, below, x)
    return np.where(inside, y, outside)


ERF_COEFFICIENTS = _float32s(
    *(-9.667044e-06, 0.00011265959, -0.00084840803, 0.0052210316),
    *(-0.02686543, 0.11283782, -0.37612638, 1.1283792),
)
"""Interpolation of `erf(sqrt(s)) / sqrt(s)` on [0, 1]."""
ERFC_COEFFICIENTS = _float32s(
    *(7.582681e-08, -3.3216843e-06, 6.229835e-05, -0.00068583665, 0.005064947),
    *(-0.027099524, 0.11105502, 0.630953, 1.1306752, -0.0004163292),
)
"""Interpolation of `-log(1 - erf(a))` on [1, 4]; above 4, erf is 1 in float32."""


def erf(x: Floats) -> Floats:
    """
    Compute the Gauss error function: `x * p(x * x)` below 1 in magnitude, otherwise `1 -
    exp(-q(min(abs(x), 4)))` with the sign of `x`, both polynomials by Horner's rule. The error is
    at most 2.4 units in the last place. NaN remains NaN.
    """
    a = np.minimum(np.abs(x), np.float32(4))
    s = a * a
    p = _polynomial(ERF_COEFFICIENTS, s)
    q = _polynomial(ERFC_COEFFICIENTS, a)
    tail = np.float32(1) - exp(-q)
    return np.where(np.abs(x) < np.float32(1), x * p, np.where(x < 0, -tail, tail))


LARGEST_ANGLE = np.float32(2.0**22)
"""For larger magnitudes, sine and cosine are NaN."""
TWO_OVER_PI = np.float32(0.636619772)
HALF_PI_HIGH, HALF_PI_MIDDLE, HALF_PI_LOW = _float32s(
    1.5703125, 0.00048065185546875, 3.17493937e-06
)
"""pi / 2 in three parts; the product of the first with an integer of 16 bits is exact."""
SIN_COEFFICIENTS = _float32s(-0.000195873872, 0.0083327461, -0.166666642)
"""Interpolation of `(sin(sqrt(s)) / sqrt(s) - 1) / s` on [0, (pi / 4)**2]."""
COS_COEFFICIENTS = _float32s(2.45474366e-05, -0.00138883002, 0.0416666642)
"""Interpolation of `(cos(sqrt(s)) - 1 + s / 2) / s**2` on [0, (pi / 4)**2]."""


def _wave(x: Floats, quarter: int) -> Floats:
    """
    Compute sine (`quarter` 0) or cosine (1). With `n = floor(x * TWO_OVER_PI + 0.5)`, `r` the rest
    after subtraction of `n` times each part of pi / 2, `s = r * r`, and polynomials by Horner's
    rule: the result is `p * s * r + r` if `n + quarter` is even, else `(q * (s * s) - 0.5 * s) +
    1`. It is negated if `n + quarter` is 2 or 3 modulo 4. Up to 8192 in magnitude, the error is at
    most 1e-7.
    """
    inside = np.abs(x) <= LARGEST_ANGLE
    safe = np.where(inside, x, np.float32(0))
    n = np.floor(safe * TWO_OVER_PI + np.float32(0.5))
    r: Floats = ((safe - n * HALF_PI_HIGH) - n * HALF_PI_MIDDLE) - n * HALF_PI_LOW
    s: Floats = np.multiply(r, r)
    sine = _polynomial(SIN_COEFFICIENTS, s) * s * r + r
    cosine = (_polynomial(COS_COEFFICIENTS, s) * (s * s) - half(s)) + np.float32(1)
    number = n.astype(np.int32) + np.int32(quarter)
    y = np.where(number & 1, cosine, sine)
    return np.where(inside, np.where(number & 2, -y, y), np.float32(np.nan))


ATAN_COEFFICIENTS = _float32s(0.0851620734, -0.140232161, 0.199911892, -0.333332866)
"""Interpolation of `(atan(sqrt(s)) / sqrt(s) - 1) / s` on [0, tan(pi / 8)**2]."""
TAN_EIGHTH, COT_EIGHTH = np.float32(0.414213562), np.float32(2.41421356)
"""The tangents of pi / 8 and of 3 pi / 8."""
HALF_PI, QUARTER_PI = np.float32(1.57079633), np.float32(0.785398163)


def atan(x: Floats) -> Floats:
    """
    Compute the arctangent, with `a = abs(x)`: `HALF_PI + f(-1 / a)` above `COT_EIGHTH`,
    `QUARTER_PI + f((a - 1) / (a + 1))` above `TAN_EIGHTH`, else `f(a)`, with the sign of `x`. Here
    `f(t) = p * s * t + t` with `s = t * t` and `p` the polynomial in `s` by Horner's rule.
    """
    a = np.abs(x)
    one = np.float32(1)
    far, middle = a > COT_EIGHTH, a > TAN_EIGHTH
    t = np.where(far, -one / a, np.where(middle, (a - one) / (a + one), a))
    start = np.where(far, HALF_PI, np.where(middle, QUARTER_PI, np.float32(0)))
    s = t * t
    y = start + (_polynomial(ATAN_COEFFICIENTS, s) * s * t + t)
    return np.where(x < 0, -y, y)


def softplus(x: Floats) -> Floats:
    """
    Compute `log(1 + exp(x))` as `max(x, 0) + (log(u) + (e - (u - 1)))` with `e = exp(-abs(x))` and
    `u = 1 + e`. The last term is the rounding error of `u`, so that the relative error near 0 is at
    most 2e-7.
    """
    e, one = exp(-np.abs(x)), np.float32(1)
    u = one + e
    lost: Floats = np.subtract(e, u - one)
    return np.maximum(x, np.float32(0)) + (log(u) + lost)


def tanh(x: Floats) -> Floats:
    """
    Compute the hyperbolic tangent as `t / (t + 2)` with `t = exp_minus_one(-2 * abs(x))`, negated
    unless `x < 0`.
    """
    if is_for_statistics():
        return np.tanh(x)
    t = exp_minus_one(np.float32(-2) * np.abs(x))
    y: Floats = np.divide(t, t + np.float32(2))
    return np.where(x < 0, y, -y)


INFINITY = np.float32(np.inf)
SQRT_2_OVER_PI, SQRT_OF_HALF = np.float32(0.7978845608), np.float32(0.7071067812)


def half(x: Floats) -> Floats:
    """Compute `0.5 * x`, which is exact."""
    return np.multiply(x, np.float32(0.5))


def mish(x: Floats) -> Floats:
    """
    Compute `x * tanh(softplus(x))` as `x * (n / (n + 2))` with `n = e * (e + 2)` and `e =
    exp(min(x, 20))`.
    """
    e = exp(np.minimum(x, np.float32(20)))
    n: Floats = np.multiply(e, e + np.float32(2))
    return np.multiply(x, n / (n + np.float32(2)))


def power(x: Floats, y: Floats) -> Floats:
    """
    Compute `x**y`: 1 for `y = 0`, `x` for `y = 1`, `x * x` for `y = 2`, otherwise `exp(y *
    log(abs(x)))`. For x < 0 the result is negated for odd y, and NaN if y is not an integer.
    """
    one, two = np.float32(1), np.float32(2)
    result = exp(y * log(np.abs(x)))
    half = y * np.float32(0.5)
    odd = np.where(np.floor(half) != half, -result, result)
    negative = np.where(np.floor(y) == y, odd, np.float32(np.nan))
    result = np.where(x < 0, negative, result)
    result = np.where(y == two, x * x, np.where(y == one, x, result))
    return np.where(y == 0, one, result)


MAX_CACHED_ELEMENTS = 1 << 15
"""The number of elements that are computed at a time, so that they fit the cache."""


def apply_function(function: FunctionAttr, x: Floats, out: Floats | None = None) -> Floats:
    """
    Compute an elementwise function of `graph` with parameters, scale and offset. If `out` is given,
    the result is written to it; it must be contiguous, and may be `x`. If each channel has a slope,
    channels are the last axis of `x`.
    """
    if function.slopes is not None:
        result = _scaled(function, _apply(function, x))
        if out is not None:
            out[...] = result
        return result
    if out is None and x.size <= MAX_CACHED_ELEMENTS:
        return _scaled(function, _apply(function, x))
    result = np.empty(x.shape, np.float32) if out is None else out
    flat, written = x.reshape(-1), result.reshape(-1)
    bounds = None if function.affine is not None else function.clip_range
    for start in range(0, x.size, MAX_CACHED_ELEMENTS):
        part = slice(start, start + MAX_CACHED_ELEMENTS)
        if bounds is not None:
            clip(flat[part], np.float32(bounds[0]), np.float32(bounds[1]), out=written[part])
        else:
            written[part] = _scaled(function, _apply(function, flat[part]))
    return result


def evaluator(function: FunctionAttr) -> Callable[[Floats], Floats]:
    """
    Return `apply_function` for a function that is applied to many small arrays: without the time to
    read the attributes of the function each time.
    """
    plain = WITHOUT_PARAMETERS.get(function.data) if function.affine is None else None
    return plain or partial(apply_function, function)


def _scaled(function: FunctionAttr, y: Floats) -> Floats:
    if (affine := function.affine) is None:
        return y
    scale, offset = (np.float32(v) for v in affine)
    return np.add(np.multiply(y, scale), offset)


def clip(
    x: Floats, low: np.float32, high: np.float32 = INFINITY, out: Floats | None = None
) -> Floats:
    """
    Return `low` if `x < low`, `high` if `x > high`, else `x`; a zero keeps the sign. If `out` is
    given, the result is written to it; it may be `x`.
    """
    # `np.clip` returns a scalar for a scalar, unless given out.
    result = np.empty_like(x) if out is None else out
    if not low <= high:
        result[...] = np.where(x < low, low, np.where(x > high, high, x))
    elif low <= 0 <= high and (is_zero := x == 0).any():
        result[...] = np.where(is_zero, x, np.clip(x, low, high))
    else:
        # Eight times as fast as two masks.
        np.clip(x, low, high, out=result)
    return result


WITHOUT_PARAMETERS: dict[Function, Callable[[Floats], Floats]] = {
    Function.SIGMOID: sigmoid,
    Function.TANH: tanh,
    Function.EXP: exp,
    Function.LOG: log,
    Function.ERF: erf,
    Function.SQRT: np.sqrt,
    Function.ABS: np.abs,
    Function.FLOOR: np.floor,
    Function.CEIL: np.ceil,
    Function.ROUND: np.rint,
    Function.SOFTPLUS: softplus,
    Function.MISH: mish,
    Function.ATAN: atan,
}


def _apply(function: FunctionAttr, x: Floats) -> Floats:
    kind, zero = function.data, np.float32(0)
    if (plain := WITHOUT_PARAMETERS.get(kind)) is not None:
        return plain(x)
    p = [np.float32(v) for v in function.values]
    one, six = np.float32(1), np.float32(6)
    match kind:
        case Function.RELU:
            return clip(x, zero)
        case Function.CLIP:
            return clip(x, p[0], p[1])
        case Function.LEAKY_RELU:
            slope = p[0] if function.slopes is None else np.array(p)
            return np.where(x >= zero, x, slope * x)
        case Function.SWISH:
            y = sigmoid(x)
            y *= x
            return y
        case Function.HARD_SIGMOID:
            return clip(p[0] * x + p[1], zero, one)
        case Function.HARD_SWISH:
            y = clip(x + np.float32(3), zero, six)
            y /= six
            return x * y
        case Function.SIGN:
            return np.where(x > zero, one, np.where(x < zero, -one, x))
        case Function.ELU:
            return np.where(x >= zero, x, p[0] * exp_minus_one(x))
        case Function.CELU:
            return np.where(x >= zero, x, p[0] * exp_minus_one(x / p[0]))
        case Function.SOFTSIGN:
            return x / (np.abs(x) + one)
        case Function.THRESHOLDED_RELU:
            return np.where(x > p[0], x, zero)
        case Function.GELU:
            return np.multiply(half(x), one + erf(x * SQRT_OF_HALF))
        case Function.GELU_TANH:
            cube: Floats = np.multiply(x * x * x, np.float32(0.044715))
            inner: Floats = np.multiply(x + cube, SQRT_2_OVER_PI)
            return np.multiply(half(x), one + tanh(inner))
        case Function.SIN:
            return _wave(x, 0)
        case Function.COS:
            return _wave(x, 1)
        case _:
            raise AssertionError(kind)


def softmax(x: Floats, axis: int) -> Floats:
    """Evaluate `graph.softmax`, bit for bit."""
    e = exp(x - np.max(x, axis=axis, keepdims=True))
    return e / _sum(e, axis)


# 16 sums of elements with index distance 16 along `axis`, then these sums in order.
def _sum(x: Floats, axis: int) -> Floats:
    rows = np.moveaxis(x, axis, 0)
    missing = np.zeros((-len(rows) % 16, *rows.shape[1:]), np.float32)
    rows = np.concatenate((rows, missing)).reshape(-1, 16, *rows.shape[1:])
    # cumsum adds in index order; np.sum would add in pairs.
    sums = np.cumsum(rows, axis=0, dtype=np.float32)[-1]
    total: Floats = np.cumsum(sums, axis=0, dtype=np.float32)[-1:]
    return np.moveaxis(total, 0, axis)
