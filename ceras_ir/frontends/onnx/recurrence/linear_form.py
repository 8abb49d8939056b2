"""
Represent values of a step as sums of products with constant matrices, for any choice of operations.

With `parts[v] : [K, n]` and `offset : [n]`, a value of [rows, n] is the sum of `v @ parts[v]` over
all `v`, plus `offset`. Products, sums, factors, and slices and concatenations of columns are
merged. The result of another operation is a part. Reshapes keep the order of elements and are
ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, BinaryOp, MatmulOp, ReshapeOp, constant_array, shape_of

Float64Array: TypeAlias = NDArray[np.float64]

MAX_PART_COLUMNS = 2048
"""Maximum number of columns of a part, the matrix of which has the square of elements."""


def origin(value: SSAValue) -> SSAValue:
    """
    Return the value of which `value` is a reshape, after any number of reshapes; without a reshape,
    `value` itself.
    """
    while isinstance(op := value.owner, ReshapeOp):
        value = op.input
    return value


@dataclass(frozen=True)
class LinearForm:
    """
    A value [rows, n] as a sum: for each v in `parts` the product of the value v [rows, K] with a
    constant matrix [K, n], plus the constant `offset` [n].
    """

    parts: Mapping[SSAValue, Float64Array]
    offset: Float64Array

    def __add__(self, other: "LinearForm") -> "LinearForm":
        parts = dict(self.parts)
        for value, weights in other.parts.items():
            parts[value] = parts[value] + weights if value in parts else weights
        return LinearForm(parts, self.offset + other.offset)

    def times(self, weights: Float64Array) -> "LinearForm":
        """
        Return the form of the product of this value with the constant matrix `weights` [n, m].
        """
        parts = {v: _product(w, weights) for v, w in self.parts.items()}
        return LinearForm(parts, _product(self.offset, weights))

    def scaled(self, factors: Float64Array) -> "LinearForm":
        """
        Return the form of this value with column i multiplied by `factors[i]`, or all columns by a
        single factor.
        """
        return LinearForm({v: w * factors for v, w in self.parts.items()}, self.offset * factors)

    def columns(self, start: int, stride: int, count: int) -> "LinearForm":
        indices = start + stride * np.arange(count)
        parts = {v: w[:, indices] for v, w in self.parts.items()}
        return LinearForm(parts, self.offset[indices])

    def padded(self, before: int, after: int) -> "LinearForm":
        """
        Return the form of this value with `before` and `after` columns of zeros around the columns.
        """
        padding = (before, after)
        parts = {v: np.pad(w, ((0, 0), padding)) for v, w in self.parts.items()}
        return LinearForm(parts, np.pad(self.offset, padding))


def _product(a: Float64Array, b: Float64Array) -> Float64Array:
    """Return `a @ b`; exactly `b` if `a` is the identity."""
    if a.ndim == 2 and a.shape[0] == a.shape[1] and np.array_equal(a, np.eye(len(a))):
        return b
    return a @ b


def _as_part(value: SSAValue, width: int) -> LinearForm | None:
    """
    Return the form of `value` that consists of itself, since it is not decomposed further. Return
    `None` if it has more than `MAX_PART_COLUMNS` columns (`width`).
    """
    return None if width > MAX_PART_COLUMNS else LinearForm({value: np.eye(width)}, np.zeros(width))


class LinearForms:
    """
    Computes the linear forms of values that have `rows` rows, from the operations that compute
    them.
    """

    def __init__(self, rows: int):
        self.rows = rows
        self._known: dict[SSAValue, LinearForm | None] = {}

    def of(self, value: SSAValue) -> LinearForm | None:
        """
        Return the linear form of `value`, or `None` if it is not [rows, n] or does not treat all
        rows in the same way.
        """
        if value not in self._known:
            self._known[value] = self._form(value)
        return self._known[value]

    def width(self, value: SSAValue) -> int | None:
        """Return the number of columns of a value [rows, n], or `None` for other shapes."""
        axis = self._axis(value)
        return None if axis is None else shape_of(value)[axis]

    def _axis(self, value: SSAValue) -> int | None:
        shape = shape_of(value)
        if self.rows == 1:
            long = [i for i, extent in enumerate(shape) if extent > 1] or [len(shape) - 1]
            return long[0] if len(long) == 1 and shape else None
        return len(shape) - 1 if prod(shape[:-1]) == self.rows else None

    def _form(self, value: SSAValue) -> LinearForm | None:
        if (width := self.width(value)) is None:
            return None
        match value.owner:
            case ReshapeOp() as op:
                return self.of(op.input) or _as_part(origin(value), width)
            case BinaryOp() as op:
                form = self._binary(op, width)
            case MatmulOp() as op:
                form = self._matmul(op)
            case graph.SliceOp() as op:
                form = self._slice(op)
            case graph.ConcatOp() as op:
                form = self._concat(op, width)
            case _:
                form = None
        return form or _as_part(value, width)

    def _entries(self, value: SSAValue, width: int) -> Float64Array | None:
        """
        Return the `width` numbers of a constant that are equal in all rows, or `None` for other
        values.
        """
        array = constant_array(value)
        if array is None or array.dtype.kind != "f":
            return None
        along = array.size == width and (self.rows == 1 or array.shape[-1] == width)
        if array.size != 1 and not along:
            return None
        return np.broadcast_to(array.reshape(-1).astype(np.float64), (width,))

    def _operand(self, value: SSAValue, width: int) -> LinearForm | None:
        """Return the linear form of an operand that is broadcast to `width` columns, or `None`."""
        if (entries := self._entries(value, width)) is not None:
            return LinearForm({}, entries)
        return self.of(value) if self.width(value) == width else None

    def _binary(self, op: BinaryOp, width: int) -> LinearForm | None:
        if op.activation is not None:
            return None
        lhs, rhs = (self._operand(v, width) for v in (op.lhs, op.rhs))
        if lhs is None or rhs is None:
            return None
        match op.function:
            case Binary.ADD:
                return lhs + rhs
            case Binary.SUB:
                return lhs + rhs.scaled(np.array(-1.0))
            case Binary.MUL if not rhs.parts:
                return lhs.scaled(rhs.offset)
            case Binary.MUL if not lhs.parts:
                return rhs.scaled(lhs.offset)
            case Binary.DIV if not rhs.parts and rhs.offset.all():
                return lhs.scaled(1 / rhs.offset)
            case _:
                return None

    def _matmul(self, op: MatmulOp) -> LinearForm | None:
        weights, given = constant_array(op.weights), self.of(op.input)
        if weights is None or weights.dtype.kind != "f" or given is None:
            return None
        if shape_of(op.input)[0] != self.rows or not (op.activation is op.residual is None):
            return None
        product = given.times(weights.astype(np.float64).T)
        if op.bias is None:
            return product
        bias = self._operand(op.bias, len(weights))
        return None if bias is None else product + bias

    def _slice(self, op: graph.SliceOp) -> LinearForm | None:
        given, axis = self.of(op.input), self._axis(op.input)
        if given is None or axis is None or self.width(op.result) is None:
            return None
        starts, strides = op.starts.get_values(), op.strides.get_values()
        sizes = shape_of(op.result)
        if any(
            s != 1 and n > 1
            for i, (s, n) in enumerate(zip(strides, sizes, strict=True))
            if i != axis
        ):
            return None
        return given.columns(starts[axis], strides[axis], sizes[axis])

    def _concat(self, op: graph.ConcatOp, width: int) -> LinearForm | None:
        total, at = LinearForm({}, np.zeros(width)), 0
        for value in op.inputs:
            size = shape_of(value)[op.axis.value.data]
            part = self._operand(value, size)
            if part is None or self._axis(op.result) != op.axis.value.data:
                return None
            total += part.padded(at, width - at - size)
            at += size
        return total
