"""
Define elementwise operations on floats and plain integers in numpy, without an interpreter.

Arithmetic of two operands is on float32, or on plain integers that wrap around. Passes that
evaluate a few operations import only this module.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.elementwise import Binary
from ceras_ir.dialects.graph.logic import Compare
from ceras_ir.interpreters.float_functions import MAX_CACHED_ELEMENTS, apply_function, power

Array = NDArray[np.generic]


def combine(kind: Binary, lhs: Array, rhs: Array) -> Array:
    """
    Evaluate `graph.binary` of kind `kind`, before the activation, on float32 or plain integers.
    Operands and result have the same type; integers wrap around.
    """
    if lhs.dtype == np.float32:
        return _floats(kind, lhs.astype(np.float32), rhs.astype(np.float32))
    # A 64-bit result has the low bits of a narrower result.
    wide = np.uint64 if lhs.dtype.kind in "ub" else np.int64
    return _integers(kind, lhs.astype(wide), rhs.astype(wide)).astype(lhs.dtype)


NUMPY_BINARY = {
    Binary.ADD: np.add,
    Binary.SUB: np.subtract,
    Binary.MUL: np.multiply,
    Binary.AND: np.bitwise_and,
    Binary.OR: np.bitwise_or,
    Binary.XOR: np.bitwise_xor,
}
NUMPY_COMPARISONS = {
    Compare.EQUAL: np.equal,
    Compare.LESS: np.less,
    Compare.LESS_OR_EQUAL: np.less_equal,
}


def _floats(kind: Binary, a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    match kind:
        case Binary.DIV:
            return np.divide(a, b)
        case Binary.MIN:
            return np.minimum(a, b)
        case Binary.MAX:
            return np.maximum(a, b)
        case Binary.POW:
            return power(*np.broadcast_arrays(a, b))
        case _:
            return NUMPY_BINARY[kind](a, b)


def _integers(kind: Binary, a: Array, b: Array) -> Array:
    x, y = (v.view(np.uint64) for v in np.broadcast_arrays(a, b))
    signed = a.dtype == np.int64
    match kind:
        case Binary.DIV:
            return _quotient(x, y, signed)
        case Binary.MIN:
            return np.where(np.less(a, b), a, b)
        case Binary.MAX:
            return np.where(np.greater(a, b), a, b)
        case Binary.POW:
            return _signed_power(x, y) if signed else _power(x, y)
        case _:
            return NUMPY_BINARY[kind](x, y)


def _quotient(x: NDArray[np.uint64], y: NDArray[np.uint64], signed: bool) -> NDArray[np.uint64]:
    zero = np.uint64(0)
    if not signed:
        return np.where(y == 0, zero, x // np.where(y == 0, np.uint64(1), y))
    minus_x, minus_y = x.view(np.int64) < 0, y.view(np.int64) < 0
    magnitudes = np.where(minus_x, zero - x, x), np.where(minus_y, zero - y, y)
    result = _quotient(*magnitudes, signed=False)
    return np.where(minus_x != minus_y, zero - result, result)


# A negative power is the quotient of 1, which is 0 except for the units 1 and -1.
def _signed_power(x: NDArray[np.uint64], y: NDArray[np.uint64]) -> NDArray[np.uint64]:
    one, minus_one = np.uint64(1), ~np.uint64(0)
    is_unit = (x == one) | (x == minus_one)
    reciprocal = np.where(is_unit, _power(x, y & one), np.uint64(0))
    below = y.view(np.int64) < 0
    return np.where(below, reciprocal, _power(x, np.where(below, np.uint64(0), y)))


def _power(x: NDArray[np.uint64], exponent: NDArray[np.uint64]) -> NDArray[np.uint64]:
    result = np.ones_like(x)
    while exponent.any():
        result = np.where(exponent & np.uint64(1), result * x, result)
        x = x * x
        exponent = exponent >> np.uint64(1)
    return result


def compare(kind: Compare, lhs: Array, rhs: Array) -> NDArray[np.bool_]:
    """Evaluate `graph.compare` of kind `kind`, elementwise."""
    return NUMPY_COMPARISONS[kind](lhs, rhs)


def cast(x: Array, dtype: np.dtype[np.generic]) -> Array:
    """Evaluate `graph.cast` to the numpy type `dtype`, elementwise."""
    if dtype == np.bool_:
        return x != x.dtype.type(0)
    if x.dtype != np.float32 or dtype == np.float32:
        return x.astype(dtype)
    info = np.iinfo(dtype.name)
    truncated = np.trunc(
        np.nan_to_num(x.astype(np.float32), nan=0.0, posinf=np.inf, neginf=-np.inf)
    )
    # Bounds of 64 bits are not float32 values, so saturated elements are found by comparison.
    low, high = truncated <= np.float32(info.min), truncated >= np.float32(info.max)
    inside = np.where(low | high, np.float32(0), truncated).astype(dtype)
    return np.where(low, dtype.type(info.min), np.where(high, dtype.type(info.max), inside))


def chosen(condition: NDArray[np.bool_], lhs: Array, rhs: Array) -> Array:
    """Evaluate `graph.select`, elementwise: `lhs` if `condition` is true, otherwise `rhs`."""
    left, right, where = np.broadcast_arrays(lhs, rhs, condition)
    result = right.copy()
    np.copyto(result, left, where=where)
    return result


def elementwise(op: graph.UnaryOp, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Evaluate `graph.unary`. Axes before the channels may have any extents."""
    if (factors := op.channel_factors) is None:
        return apply_function(op.function, x)
    return _between_factors(op.function, x.astype(np.float32, copy=False), factors)


def combined(op: graph.BinaryOp, lhs: Array, rhs: Array) -> Array:
    """Evaluate `graph.binary` on floats or plain integers."""
    result = combine(op.function, lhs, rhs)
    if op.activation is None:
        return result
    return apply_function(op.activation, result.astype(np.float32, copy=False))


def _between_factors(
    function: graph.FunctionAttr,
    x: NDArray[np.float32],
    factors: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> NDArray[np.float32]:
    up, down = factors
    result = np.empty(x.shape, np.float32)
    shape = -1, len(up)
    step = max(1, MAX_CACHED_ELEMENTS // len(up))
    rows, written = x.reshape(shape), result.reshape(shape)
    for start in range(0, len(rows), step):
        piece = written[start : start + step]
        np.multiply(rows[start : start + step], up, out=piece)
        apply_function(function, piece, out=piece)
        piece *= down
    return result


def threshold(op: graph.ThresholdOp, x: Array, thresholds: Array) -> Array:
    """Evaluate `graph.threshold`. Axes before the channels may have any extents."""
    count = np.zeros(x.shape, np.int64)
    for limits in thresholds:
        count += np.greater_equal(x, limits)
    dtype = graph.numpy_dtype(graph.element_of(op.result))
    return (op.offsets + op.steps * count).astype(dtype)


def evaluate(op: Operation, operands: Sequence[Array]) -> Array:
    """
    Evaluate an elementwise operation on floats or plain integers. The shapes of the operands are
    broadcast, and need not be those of the types.
    """
    match op:
        case graph.UnaryOp():
            return elementwise(op, operands[0].astype(np.float32, copy=False))
        case graph.BinaryOp():
            return combined(op, *operands)
        case graph.CompareOp():
            return compare(op.function, *operands)
        case graph.SelectOp():
            condition, lhs, rhs = operands
            return chosen(condition.astype(np.bool_, copy=False), lhs, rhs)
        case _:
            assert isinstance(op, graph.CastOp)
            return cast(operands[0], graph.numpy_dtype(graph.element_of(op.result)))
