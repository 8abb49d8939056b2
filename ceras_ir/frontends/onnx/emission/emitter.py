"""
Operands of the current node, and short compositions that several operators are made of.

Values keep the model's own layout (NCHW) between nodes; importers of operators that are NHWC in
`graph` go through `feature_map` and `from_feature_map`, which put explicit transposes around
them. `eliminate-transposes` takes these out again.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, IntAttr, IntegerAttr, f32
from xdsl.ir import Attribute, Block, SSAValue

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
    MatmulOp,
    Pad,
    PadOp,
    Reduce,
    ReduceOp,
    SelectOp,
    SliceOp,
    TakeOp,
    UnaryOp,
    element_of,
)
from ceras_ir.dialects.graph.operation import broadcast_shape
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.builder import Builder
from ceras_ir.frontends.onnx.emission.values import Constant, Value, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.model.model_file import Array
from ceras_ir.frontends.onnx.model.node import fix_with_set

TO_NHWC = (0, 2, 3, 1)
TO_NCHW = (0, 3, 1, 2)

MAX_INDICES = 1 << 16
"""Entries of an index list in the IR; longer ones would be data, not structure."""

Subgraph: TypeAlias = "Callable[[str, Emitter, Mapping[str, Value]], Sequence[Value]]"
"""What emits a subgraph of the current node: its outputs, for values of its inputs."""


class Emitter(Builder):
    """What importers of operators use: operands are values of the model."""

    def __init__(self, block: Block, subgraph: "Subgraph"):
        super().__init__(block)
        self._subgraph = subgraph

    # Operands of the node.

    def value(self, index: int) -> Value:
        """Operand `index`; floats of any width are float32."""
        if not self.node.has_input(index):
            raise self.node.wrong(
                f"operand {index} is missing, got {len(self.node.inputs)} operands"
            )
        value = self.values[self.node.inputs[index]]
        return value.in_float32() if isinstance(value, Constant) else value

    def tensor(self, index: int) -> SSAValue:
        """Operand `index` as an IR value."""
        return self.materialize(self.value(index))

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of operand `index`."""
        return shape_of_value(self.value(index))

    def array(self, index: int) -> Array:
        """Operand `index`, which a rule of the operator says is a constant."""
        value = self.value(index)
        if not isinstance(value, Constant):
            decided = self.node.deciding(index)
            remedy = "make it an initializer, or fold it with a tool such as onnxsim"
            raise self.node.unsupported(
                f"operand {index} ('{self.node.inputs[index]}') must be a constant; "
                f"{fix_with_set(decided) if decided else remedy}"
            )
        return value.load()

    def stored(self, index: int) -> Array:
        """Operand `index`, a constant, in the model's own type."""
        value = self.values[self.node.inputs[index]]
        assert isinstance(value, Constant)
        return value.load()

    def floats(self, index: int) -> NDArray[np.float32]:
        """A constant operand of float32 elements."""
        array = self.array(index)
        if array.dtype != np.float32:
            raise self.node.wrong(f"operand {index} must be float32, got {array.dtype}")
        return array.astype(np.float32, copy=False)

    def integers(self, index: int) -> tuple[int, ...]:
        """A constant operand that is a list of integers: a shape, axes, pads."""
        array = self.array(index)
        if array.ndim > 1 or not np.issubdtype(array.dtype, np.integer):
            raise self.node.wrong(
                f"operand {index} must be a list of integers, "
                f"got {array.dtype} of shape {list(array.shape)}"
            )
        if array.size > 64:
            raise self.node.wrong(f"operand {index} has {array.size} entries, expected a few")
        return tuple(int(i) for i in array.reshape(-1))

    def subgraph(self, name: str, bound: Mapping[str, Value]) -> Sequence[Value]:
        """The outputs of a subgraph of the node, whose inputs are `bound`, emitted here."""
        return self._subgraph(name, self, bound)

    # Operations.

    def number(self, value: float, like: Value | None = None) -> Value:
        """A scalar constant, of the type of `like` or float32."""
        dtype = np.dtype(np.float32) if like is None else dtype_of_value(like)
        return self.constant(np.array(value, dtype), "number")

    def add(self, a: Value, b: Value) -> SSAValue:
        return self.binary(Binary.ADD, a, b)

    def sub(self, a: Value, b: Value) -> SSAValue:
        return self.binary(Binary.SUB, a, b)

    def mul(self, a: Value, b: Value) -> SSAValue:
        return self.binary(Binary.MUL, a, b)

    def div(self, a: Value, b: Value) -> SSAValue:
        return self.binary(Binary.DIV, a, b)

    def unary(self, function: Function, x: Value, *parameters: float) -> SSAValue:
        """An elementwise function."""
        return self.emit(UnaryOp(self.materialize(x), FunctionAttr(function, parameters)))

    def compare(self, kind: Compare, a: Value, b: Value) -> SSAValue:
        """A comparison with broadcasting."""
        self._check_broadcast(a, b)
        operands = self._lifted(a, b)
        return self.emit(CompareOp(kind, *map(self.materialize, operands)))

    def select(self, condition: Value, a: Value, b: Value) -> SSAValue:
        """`condition ? a : b` with broadcasting."""
        self._check_broadcast(condition, a, b)
        operands = self._lifted(condition, a, b)
        return self.emit(SelectOp(*map(self.materialize, operands)))

    def bounded(self, x: Value, low: int, high: int) -> SSAValue:
        """Integers, of which each that is outside becomes the nearer bound."""
        above = self.binary(Binary.MAX, x, self.number(low, x))
        return self.binary(Binary.MIN, above, self.number(high, x))

    def cast(self, x: Value, element: Attribute = f32) -> Value:
        """`x` with elements of another type: of quantized numbers, the integers that store them."""
        value = self.materialize(x)
        if isinstance(known := element_of(value), UniformType):
            value = self.materialize(self._stored(value, known, element))
        return value if element_of(value) == element else self.emit(CastOp(value, element))

    def _stored(self, value: SSAValue, known: UniformType, element: Attribute) -> Value:
        """
        The integers that store quantized numbers, as float32 for that `element`. A number less its
        zero point, times the scale and divided by it, is wrong in its last bit only: rounded, it is
        what it was if it has less than 22 bits.
        """
        is_plain = not known.is_per_axis and not known.zero_point
        if is_plain and known.scale == 1 and element != f32:
            return self.emit(CastOp(value, known.storage))
        if not (is_plain and element == f32) and known.storage.width.data > 16:
            raise self.node.unsupported(
                f"the integers of {known} as numbers of another type; quantize to 8 or 16 bits"
            )
        real: Value = self.emit(DequantizeOp(value))
        if is_plain and element == f32:
            return real if known.scale == 1 else self.div(real, self.number(known.scale))
        shape = tuple[int, ...]()
        if isinstance(known.axis, IntAttr):
            shape = (-1, *(1,) * (len(shape_of_value(value)) - 1 - known.axis.data))
        scales, points = (
            self.constant(np.array([n.data for n in of], np.float32).reshape(shape), name)
            for of, name in ((known.scales, "scale"), (known.zero_points, "zero_point"))
        )
        whole = self.add(self.unary(Function.ROUND, self.div(real, scales)), points)
        return whole if element == f32 else self.emit(CastOp(whole, known.storage))

    def reduce(self, kind: Reduce, x: Value, axes: Sequence[int]) -> Value:
        """A reduction that keeps its dimensions; `x` itself along none."""
        if not axes:
            return x
        return self.emit(ReduceOp(kind, self.materialize(x), axes))

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
            zeros = self.constant(np.zeros(before, dtype_of_value(x)), "before")
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
            return self.constant(np.zeros(sizes, dtype_of_value(x)), "nothing")
        return self.emit(SliceOp(self.materialize(x), starts, sizes, strides))

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
            raise self.node.unsupported("no indices: the result has no elements")
        steps = {b - a for a, b in pairwise(indices)} or {1}
        if len(steps) == 1 and (step := steps.pop()) != 0:
            starts = [indices[0] if i == axis else 0 for i in range(len(shape))]
            strides = [step if i == axis else 1 for i in range(len(shape))]
            shape[axis] = len(indices)
            if step != 1 or len(indices) != shape_of_value(x)[axis]:
                return self.sliced(x, starts, shape, strides)
            return x
        self.check_indices(len(indices))
        return self.emit(GatherOp(self.materialize(x), axis, indices))

    def taken(self, rows: Value, indices: Value) -> Value:
        """The `rows` at computed indices, one after the other in their order."""
        flat = self.reshaped(indices, (prod(shape_of_value(indices)),))
        return self.emit(TakeOp(self.materialize(rows), self.materialize(flat)))

    def rows_of_steps(self, step: Value) -> Value:
        """The rows of computed steps [n, batch], i64, in a table of all [steps * batch]."""
        _, batch = shape_of_value(step)
        along = self.mul(step, self.constant(np.array([batch], np.int64), "stride"))
        sequences = np.arange(batch, dtype=np.int64).reshape(1, batch)
        return self.add(along, self.constant(sequences, "sequences"))

    def at_steps(self, x: Value, step: Value) -> Value:
        """Of `x` [steps, batch, ...] the elements at computed steps [n, batch] of each sequence."""
        steps, batch, *rest = shape_of_value(x)
        rows = self.reshaped(x, (steps * batch, prod(rest)))
        found = self.taken(rows, self.rows_of_steps(step))
        return self.reshaped(found, (*shape_of_value(step), *rest))

    def check_indices(self, count: int) -> None:
        """Refuse a list of indices that is too long, before it is made."""
        if count > MAX_INDICES:
            raise self.node.unsupported(
                f"{count} indices; at most {MAX_INDICES} are taken: split the node"
            )

    def joined(self, values: Sequence[Value], axis: int) -> Value:
        """Values one after the other along `axis`, without those that have no elements."""
        values = [v for v in values if prod(shape_of_value(v))] or values[:1]
        if len(values) == 1:
            return values[0]
        return self.emit(ConcatOp([self.materialize(v) for v in values], axis))

    def expanded(self, x: Value, shape: Sequence[int]) -> Value:
        """`x` with extents of 1 repeated to those of `shape`, which has its rank."""
        result = x
        for axis, (have, want) in enumerate(zip(shape_of_value(x), shape, strict=True)):
            if have != want:
                self.check_indices(want)
                result = self.gathered(result, axis, [0] * want)
        return result

    def padded(
        self,
        x: Value,
        low: Sequence[int],
        high: Sequence[int],
        *,
        value: FloatAttr | IntegerAttr | None = None,
        interior: Sequence[int] | None = None,
    ) -> Value:
        """`x` with `value`, by default zeros, around its elements and between them."""
        if not any((*low, *high, *(interior or ()))):
            return x
        given = self.materialize(x)
        return self.emit(PadOp(Pad.CONSTANT, given, low, high, interior=interior, value=value))

    def product(self, rows: Value, weights: Value, bias: Value | None = None) -> SSAValue:
        """`rows` [M, K] times the transpose of `weights` [N, K]."""
        if isinstance(rows, Constant) and not isinstance(weights, Constant) and bias is None:
            # A product with the constant as weights, which every target packs, is the transpose.
            return self.materialize(self.transposed(self.product(weights, rows), (1, 0)))
        operands = self.materialize(rows), self.materialize(weights)
        added = None if bias is None else self.materialize(bias)
        return self.emit(MatmulOp(*operands, added, result_element=f32))

    def _check_broadcast(self, *values: Value) -> None:
        shape: tuple[int, ...] | None = ()
        for value in values:
            shape = None if shape is None else broadcast_shape(shape, shape_of_value(value))
        if shape is None:
            shapes = ", ".join(str(list(shape_of_value(v))) for v in values)
            raise self.node.wrong(f"shapes {shapes} do not broadcast")

    def _lifted(self, *values: Value) -> list[Value]:
        """One number is a vector of one, which broadcasts the same way."""
        if not any(shape_of_value(v) for v in values):
            return list(values)
        return [v if shape_of_value(v) else self.reshaped(v, (1,)) for v in values]

    def feature_map(self, value: Value) -> SSAValue:
        """`value`, [N, C, W] or [N, C, H, W] in the model, as [N, H, W, C]."""
        shape = shape_of_value(value)
        if len(shape) == 3:
            value = self.reshaped(value, (*shape[:2], 1, shape[2]))
        return self.materialize(self.transposed(value, TO_NHWC))

    def from_feature_map(self, value: Value, rank: int) -> Value:
        """The inverse of `feature_map` for a result of the model's `rank`."""
        result = self.transposed(value, TO_NCHW)
        if rank == 3:
            n, _, w, c = shape_of_value(value)
            return self.reshaped(result, (n, c, w))
        return result
