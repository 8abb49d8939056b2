"""Elementwise arithmetic of two operands, on float32 and on plain integers that wrap around."""

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph.elementwise import Binary
from ceras_ir.dialects.graph.logic import Compare
from ceras_ir.interpreters.float_functions import power

Array = NDArray[np.generic]


def combine(kind: Binary, lhs: Array, rhs: Array) -> Array:
    """`graph.binary` before its activation; operands of one type, which is the result's."""
    if lhs.dtype == np.float32:
        return _floats(kind, lhs.astype(np.float32), rhs.astype(np.float32))
    # 64 bits wrap around to the same low bits as fewer do.
    is_unsigned = lhs.dtype.kind in "ub"
    if is_unsigned:
        wide = _integers(kind, lhs.astype(np.uint64), rhs.astype(np.uint64))
    else:
        wide = _integers(kind, lhs.astype(np.int64), rhs.astype(np.int64))
    return wide.astype(lhs.dtype)


def _floats(kind: Binary, a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    match kind:
        case Binary.ADD:
            return np.add(a, b)
        case Binary.SUB:
            return np.subtract(a, b)
        case Binary.MUL:
            return np.multiply(a, b)
        case Binary.DIV:
            return np.divide(a, b)
        case Binary.MIN:
            return np.minimum(a, b)
        case Binary.MAX:
            return np.maximum(a, b)
        case Binary.POW:
            return power(*np.broadcast_arrays(a, b))
        case Binary.AND | Binary.OR | Binary.XOR:
            raise AssertionError(kind)


def _integers(kind: Binary, a: Array, b: Array) -> Array:
    x, y = (v.view(np.uint64) for v in np.broadcast_arrays(a, b))
    signed = a.dtype == np.int64
    match kind:
        case Binary.ADD:
            return x + y
        case Binary.SUB:
            return x - y
        case Binary.MUL:
            return x * y
        case Binary.DIV:
            return _quotient(x, y, signed)
        case Binary.MIN:
            return np.where(np.less(a, b), a, b)
        case Binary.MAX:
            return np.where(np.greater(a, b), a, b)
        case Binary.POW:
            return _signed_power(x, y) if signed else _power(x, y)
        case Binary.AND:
            return x & y
        case Binary.OR:
            return x | y
        case Binary.XOR:
            return x ^ y


def _quotient(x: NDArray[np.uint64], y: NDArray[np.uint64], signed: bool) -> NDArray[np.uint64]:
    """The quotient of the magnitudes with its sign; 0 where the divisor is."""
    zero = np.uint64(0)
    if not signed:
        return np.where(y == 0, zero, x // np.where(y == 0, np.uint64(1), y))
    minus_x, minus_y = x.view(np.int64) < 0, y.view(np.int64) < 0
    magnitudes = np.where(minus_x, zero - x, x), np.where(minus_y, zero - y, y)
    result = _quotient(*magnitudes, signed=False)
    return np.where(minus_x != minus_y, zero - result, result)


def _signed_power(x: NDArray[np.uint64], y: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of reciprocals, those of 1 and -1 alone are not below 1; that of 0 counts as 0."""
    one, minus_one = np.uint64(1), ~np.uint64(0)
    is_unit = (x == one) | (x == minus_one)
    reciprocal = np.where(is_unit, _power(x, y & one), np.uint64(0))
    below = y.view(np.int64) < 0
    return np.where(below, reciprocal, _power(x, np.where(below, np.uint64(0), y)))


def _power(x: NDArray[np.uint64], exponent: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """By squaring."""
    result = np.ones_like(x)
    while exponent.any():
        result = np.where(exponent & np.uint64(1), result * x, result)
        x = x * x
        exponent = exponent >> np.uint64(1)
    return result


def compare(kind: Compare, lhs: Array, rhs: Array) -> NDArray[np.bool_]:
    """`graph.compare`."""
    match kind:
        case Compare.EQUAL:
            return np.equal(lhs, rhs)
        case Compare.LESS:
            return np.less(lhs, rhs)
        case Compare.LESS_OR_EQUAL:
            return np.less_equal(lhs, rhs)


def cast(x: Array, dtype: np.dtype[np.generic]) -> Array:
    """`graph.cast`."""
    if dtype == np.bool_:
        return x != x.dtype.type(0)
    if x.dtype != np.float32 or dtype == np.float32:
        return x.astype(dtype)
    info = np.iinfo(dtype.name)
    whole = np.trunc(np.nan_to_num(x.astype(np.float32), nan=0.0, posinf=np.inf, neginf=-np.inf))
    # Bounds of 64 bits are no float32 numbers: what reaches them is told apart by comparison.
    low, high = whole <= np.float32(info.min), whole >= np.float32(info.max)
    inside = np.where(low | high, np.float32(0), whole).astype(dtype)
    return np.where(low, dtype.type(info.min), np.where(high, dtype.type(info.max), inside))
