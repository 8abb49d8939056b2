"""
Short compositions that several operators are made of: arithmetic, reductions and selections on
values of the model, each appended at the current node.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntAttr, f32
from xdsl.ir import Attribute, SSAValue

from ceras_ir.dialects.graph import (
    Binary,
    CastOp,
    Compare,
    CompareOp,
    ConcatOp,
    DequantizeOp,
    Function,
    FunctionAttr,
    GatherOp,
    Reduce,
    ReduceOp,
    SelectOp,
    SliceOp,
    TakeOp,
    element_of,
)
from ceras_ir.dialects.graph.operation import broadcast_shape
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.constants import Value
from ceras_ir.frontends.onnx.emission.emitter import Emitter, dtype_of_value, shape_of_value

MAX_INDICES = 1 << 16
"""Entries of an index list in the IR; longer ones would be data, not structure."""


class Composer:
    """Makes operations through an emitter; operands are values of the model."""

    def __init__(self, emitter: Emitter):
        self.emitter = emitter

    def number(self, value: float, like: Value | None = None) -> Value:
        """A scalar constant, of the type of `like` or float32."""
        dtype = np.dtype(np.float32) if like is None else dtype_of_value(like)
        return self.emitter.constant(np.array(value, dtype), "number")

    def add(self, a: Value, b: Value) -> SSAValue:
        return self.emitter.binary(Binary.ADD, a, b)

    def sub(self, a: Value, b: Value) -> SSAValue:
        return self.emitter.binary(Binary.SUB, a, b)

    def mul(self, a: Value, b: Value) -> SSAValue:
        return self.emitter.binary(Binary.MUL, a, b)

    def div(self, a: Value, b: Value) -> SSAValue:
        return self.emitter.binary(Binary.DIV, a, b)

    def unary(self, function: Function, x: Value, *parameters: float) -> SSAValue:
        """An elementwise function."""
        return self.emitter.unary(x, FunctionAttr(function, parameters))

    def compare(self, kind: Compare, a: Value, b: Value) -> SSAValue:
        """A comparison with broadcasting."""
        self._check_broadcast(a, b)
        operands = self._lifted(a, b)
        return self.emitter.emit(CompareOp(kind, *map(self.emitter.materialize, operands)))

    def select(self, condition: Value, a: Value, b: Value) -> SSAValue:
        """`condition ? a : b` with broadcasting."""
        self._check_broadcast(condition, a, b)
        operands = self._lifted(condition, a, b)
        return self.emitter.emit(SelectOp(*map(self.emitter.materialize, operands)))

    def bounded(self, x: Value, low: int, high: int) -> SSAValue:
        """Integers, of which each that is outside becomes the nearer bound."""
        above = self.emitter.binary(Binary.MAX, x, self.number(low, x))
        return self.emitter.binary(Binary.MIN, above, self.number(high, x))

    def cast(self, x: Value, element: Attribute = f32) -> Value:
        """`x` with elements of another type: of quantized numbers, the integers that store them."""
        value = self.emitter.materialize(x)
        if isinstance(known := element_of(value), UniformType):
            value = self.emitter.materialize(self._stored(value, known, element))
        return value if element_of(value) == element else self.emitter.emit(CastOp(value, element))

    def _stored(self, value: SSAValue, known: UniformType, element: Attribute) -> Value:
        """
        The integers that store quantized numbers, as float32 for that `element`. A number less its
        zero point, times the scale and divided by it, is wrong in its last bit only: rounded, it is
        what it was if it has less than 22 bits.
        """
        is_plain = not known.is_per_axis and not known.zero_point
        if is_plain and known.scale == 1 and element != f32:
            return self.emitter.emit(CastOp(value, known.storage))
        if not (is_plain and element == f32) and known.storage.width.data > 16:
            raise self.emitter.node.unsupported(
                f"the integers of {known} as numbers of another type; quantize to 8 or 16 bits"
            )
        real: Value = self.emitter.emit(DequantizeOp(value))
        if is_plain and element == f32:
            return real if known.scale == 1 else self.div(real, self.number(known.scale))
        shape = tuple[int, ...]()
        if isinstance(known.axis, IntAttr):
            shape = (-1, *(1,) * (len(shape_of_value(value)) - 1 - known.axis.data))
        scales, points = (
            self.emitter.constant(np.array([n.data for n in of], np.float32).reshape(shape), name)
            for of, name in ((known.scales, "scale"), (known.zero_points, "zero_point"))
        )
        whole = self.add(self.unary(Function.ROUND, self.div(real, scales)), points)
        return whole if element == f32 else self.emitter.emit(CastOp(whole, known.storage))

    def reduce(self, kind: Reduce, x: Value, axes: Sequence[int]) -> Value:
        """A reduction that keeps its dimensions; `x` itself along none."""
        if not axes:
            return x
        return self.emitter.emit(ReduceOp(kind, self.emitter.materialize(x), axes))

    def mean(self, x: Value, axes: Sequence[int]) -> Value:
        """The average along `axes`, dimensions kept."""
        if not axes:
            return x
        count = prod(shape_of_value(x)[a] for a in axes)
        total = self.reduce(Reduce.SUM, x, axes)
        return self.div(total, self.number(count, x))

    def running_sum(self, x: Value, axis: int) -> Value:
        """
        The sums of whole numbers up to each along `axis`, in as many steps as its extent has binary
        digits.
        """
        shape, distance = list(shape_of_value(x)), 1
        while distance < shape[axis]:
            before = [distance if i == axis else n for i, n in enumerate(shape)]
            zeros = self.emitter.constant(np.zeros(before, dtype_of_value(x)), "before")
            rest = self.part(x, axis, 0, shape[axis] - distance)
            x = self.add(x, self.joined([zeros, rest], axis))
            distance *= 2
        return x

    def sliced(
        self,
        x: Value,
        starts: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """Part of `x`; nothing is emitted for all of it."""
        if tuple(sizes) == shape_of_value(x) and not any(starts):
            return x
        if any(size < 1 for size in sizes):
            # Exporters write parts without elements, which they join with others.
            return self.emitter.constant(np.zeros(sizes, dtype_of_value(x)), "nothing")
        return self.emitter.emit(SliceOp(self.emitter.materialize(x), starts, sizes, strides))

    def part(self, x: Value, axis: int, start: int, size: int) -> Value:
        """`size` elements along `axis` from `start` on."""
        shape = shape_of_value(x)
        starts = [start if i == axis else 0 for i in range(len(shape))]
        sizes = [size if i == axis else n for i, n in enumerate(shape)]
        return self.sliced(x, starts, sizes)

    def reversed(self, x: Value, axis: int) -> Value:
        """`x` from its other end along `axis`."""
        return self.gathered(x, axis, range(shape_of_value(x)[axis])[::-1])

    def gathered(self, x: Value, axis: int, indices: Sequence[int]) -> Value:
        """The elements at `indices` along `axis`; a slice where they are evenly spaced."""
        shape = list(shape_of_value(x))
        if not indices:
            raise self.emitter.node.unsupported("no indices: the result has no elements")
        steps = {b - a for a, b in pairwise(indices)} or {1}
        if len(steps) == 1 and (step := steps.pop()) != 0:
            starts = [indices[0] if i == axis else 0 for i in range(len(shape))]
            strides = [step if i == axis else 1 for i in range(len(shape))]
            shape[axis] = len(indices)
            if step != 1 or len(indices) != shape_of_value(x)[axis]:
                return self.sliced(x, starts, shape, strides)
            return x
        self.check_indices(len(indices))
        return self.emitter.emit(GatherOp(self.emitter.materialize(x), axis, indices))

    def taken(self, rows: Value, indices: Value) -> Value:
        """The `rows` at computed indices, one after the other in their order."""
        emitter = self.emitter
        flat = emitter.reshaped(indices, (prod(shape_of_value(indices)),))
        return emitter.emit(TakeOp(emitter.materialize(rows), emitter.materialize(flat)))

    def rows_of_steps(self, step: Value) -> Value:
        """The rows of computed steps [n, batch], i64, in a table of all [steps * batch]."""
        _, batch = shape_of_value(step)
        along = self.mul(step, self.emitter.constant(np.array([batch], np.int64), "stride"))
        sequences = np.arange(batch, dtype=np.int64).reshape(1, batch)
        return self.add(along, self.emitter.constant(sequences, "sequences"))

    def at_steps(self, x: Value, step: Value) -> Value:
        """Of `x` [steps, batch, ...] the elements at computed steps [n, batch] of each sequence."""
        steps, batch, *rest = shape_of_value(x)
        rows = self.emitter.reshaped(x, (steps * batch, prod(rest)))
        found = self.taken(rows, self.rows_of_steps(step))
        return self.emitter.reshaped(found, (*shape_of_value(step), *rest))

    def check_indices(self, count: int) -> None:
        """Refuse a list of indices that is too long, before it is made."""
        if count > MAX_INDICES:
            raise self.emitter.node.unsupported(
                f"{count} indices; at most {MAX_INDICES} are taken: split the node"
            )

    def joined(self, values: Sequence[Value], axis: int) -> Value:
        """Values one after the other along `axis`, without those that have no elements."""
        values = [v for v in values if prod(shape_of_value(v))] or values[:1]
        if len(values) == 1:
            return values[0]
        return self.emitter.emit(ConcatOp([self.emitter.materialize(v) for v in values], axis))

    def expanded(self, x: Value, shape: Sequence[int]) -> Value:
        """`x` with extents of 1 repeated to those of `shape`, which has its rank."""
        result = x
        for axis, (have, want) in enumerate(zip(shape_of_value(x), shape, strict=True)):
            if have != want:
                self.check_indices(want)
                result = self.gathered(result, axis, [0] * want)
        return result

    def _check_broadcast(self, *values: Value) -> None:
        shape: tuple[int, ...] | None = ()
        for value in values:
            shape = None if shape is None else broadcast_shape(shape, shape_of_value(value))
        if shape is None:
            shapes = ", ".join(str(list(shape_of_value(v))) for v in values)
            raise self.emitter.node.wrong(f"shapes {shapes} do not broadcast")

    def _lifted(self, *values: Value) -> list[Value]:
        """One number is a vector of one, which broadcasts the same way."""
        if not any(shape_of_value(v) for v in values):
            return list(values)
        return [v if shape_of_value(v) else self.emitter.reshaped(v, (1,)) for v in values]
