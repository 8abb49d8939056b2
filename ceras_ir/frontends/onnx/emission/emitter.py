"""
Access the operands of the current node, and emit compositions that several operators share.

Values keep the layout of the model (NCHW) between nodes. Importers of operators that are NHWC in
`graph` call `feature_map` and `from_feature_map`, which add explicit transposes.
`eliminate-transposes` removes them again.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, IntAttr, IntegerAttr, f32
from xdsl.ir import Attribute, Block, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, CastOp, DequantizeOp, Function, Pad, Reduce, element_of
from ceras_ir.dialects.graph.operation import broadcast_shape
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
from ceras_ir.frontends.onnx.emission.builder import Builder
from ceras_ir.frontends.onnx.emission.values import (
    BlockedConstant,
    Constant,
    Value,
    dtype_of_value,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.model_file import Array

TO_NHWC = (0, 2, 3, 1)
TO_NCHW = (0, 3, 1, 2)

MAX_INDICES = 1 << 16
"""Maximum number of entries of an index list in the IR. A longer list would be data."""

Subgraph: TypeAlias = "Callable[[str, Emitter, Mapping[str, Value]], Sequence[Value]]"
"""Emits a subgraph of the current node for values of the inputs, and returns the outputs."""


class Emitter(Builder):
    """
    The interface of the importers of operators: it has the operands of the current ONNX node, and
    emits operations.
    """

    def __init__(self, block: Block, subgraph: "Subgraph"):
        super().__init__(block)
        self._subgraph = subgraph

    def value(self, index: int) -> Value:
        """
        Return operand `index` of the current node. Floats of any width are converted to float32.
        """
        if not self.node.has_input(index):
            count = len(self.node.inputs)
            raise self.node.wrong(f"operand {index} is missing, got {count} operands")
        value = self.values[self.node.inputs[index]]
        return value.in_float32() if isinstance(value, Constant) else value

    def operands(self) -> Sequence[Value]:
        """Return all operands. A node without operands is an error."""
        return [self.value(i) for i in range(max(len(self.node.inputs), 1))]

    def optional(self, index: int) -> Value | None:
        """Return operand `index`, or `None` if it is not given."""
        return self.value(index) if self.node.has_input(index) else None

    def optional_array(self, index: int) -> Array | None:
        """
        Return operand `index`, which must be a constant, as an array, or `None` if it is not given.
        """
        return self.array(index) if self.node.has_input(index) else None

    def tensor(self, index: int) -> SSAValue:
        """Return operand `index` of the current node as an IR value, also if it is a constant."""
        return self.materialize(self.value(index))

    def shape(self, index: int) -> tuple[int, ...]:
        return shape_of_value(self.value(index))

    def array(self, index: int) -> Array:
        """
        Return operand `index` as an array. An operand that is computed at run time is an error.
        """
        value = self.value(index)
        if not isinstance(value, Constant):
            remedy = "make it an initializer, or fold it with a tool such as onnxsim"
            found = self.node.computed(index, remedy)
            raise self.node.unsupported(f"operand {index} must be a constant; {found}")
        return value.load()

    def stored(self, index: int) -> Array:
        """
        Return the constant operand `index` in the type that the model has stored, such as float16.
        """
        value = self.values[self.node.inputs[index]]
        assert isinstance(value, Constant)
        return value.load()

    def floats(self, index: int) -> NDArray[np.float32]:
        """Return operand `index`, which must be a float32 constant, as an array."""
        array = self.array(index)
        if array.dtype != np.float32:
            raise self.node.wrong(f"operand {index} must be float32, got {array.dtype}")
        return array.astype(np.float32, copy=False)

    def integers(self, index: int) -> tuple[int, ...]:
        """
        Return operand `index`, which must be a constant list of at most 64 integers, such as a
        shape, axes or pads.
        """
        array = self.array(index)
        if array.ndim > 1 or not np.issubdtype(array.dtype, np.integer):
            kind = f"{array.dtype} of shape {list(array.shape)}"
            raise self.node.wrong(f"operand {index} must be a list of integers, got {kind}")
        if array.size > 64:
            raise self.node.wrong(f"operand {index} has {array.size} entries, expected a few")
        return tuple(int(i) for i in array.reshape(-1))

    def subgraph(self, name: str, bound: Mapping[str, Value]) -> Sequence[Value]:
        """
        Emit the subgraph that is the attribute `name` of the node, such as the body of a loop, and
        return the outputs. `bound` has the values of the inputs.
        """
        return self._subgraph(name, self, bound)

    def number(self, value: float, like: Value | None = None) -> Value:
        """Return a scalar constant of the type of `like`, by default float32."""
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
        attribute = graph.FunctionAttr(function, parameters)
        return self.emit(graph.UnaryOp(self.materialize(x), attribute))

    def compare(self, kind: graph.Compare, a: Value, b: Value) -> SSAValue:
        self._check_broadcast(a, b)
        operands = self._lifted(a, b)
        return self.emit(graph.CompareOp(kind, *map(self.materialize, operands)))

    def select(self, condition: Value, a: Value, b: Value) -> SSAValue:
        """Emit `condition ? a : b` for each element, with broadcasting. `condition` is boolean."""
        self._check_broadcast(condition, a, b)
        operands = self._lifted(condition, a, b)
        return self.emit(graph.SelectOp(*map(self.materialize, operands)))

    def bounded(self, x: Value, low: int, high: int) -> SSAValue:
        """Clamp integers to [low, high]."""
        above = self.binary(Binary.MAX, x, self.number(low, x))
        return self.binary(Binary.MIN, above, self.number(high, x))

    def cast(self, x: Value, element: Attribute = f32) -> Value:
        """
        Convert the elements of `x` to the type `element`. Of a quantized value, the stored integers
        are converted, not the real values.
        """
        value = self.materialize(x)
        if isinstance(known := element_of(value), UniformType):
            value = self.materialize(self._stored(value, known, element))
        return value if element_of(value) == element else self.emit(CastOp(value, element))

    def _stored(self, value: SSAValue, known: UniformType, element: Attribute) -> Value:
        """
        Return the stored integers of the quantized `value` of type `known`: as float32 if `element`
        is float32, otherwise as integers.

        Dividing the dequantized value by the scale has an error only in the last bit. After
        rounding, the result is exact for integers below 22 bits.
        """
        is_plain = not known.is_per_axis and not known.zero_point
        storage = known.widened(max(known.width, BYTE_BITS)).storage
        if is_plain and known.scale == 1 and element != f32:
            return self.emit(CastOp(value, storage))
        if not (is_plain and element == f32) and known.storage.width.data > 16:
            raise self.node.unsupported(f"a conversion of {known}; quantize to 8 or 16 bits")
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
        integers = self.add(self.unary(Function.ROUND, self.div(real, scales)), points)
        return integers if element == f32 else self.emit(CastOp(integers, storage))

    def reduce(self, kind: Reduce, x: Value, axes: Sequence[int]) -> Value:
        """
        Reduce `x` along `axes`; the reduced dimensions remain with extent 1. Without axes, return
        `x`.
        """
        if not axes:
            return x
        return self.emit(graph.ReduceOp(kind, self.materialize(x), axes))

    def mean(self, x: Value, axes: Sequence[int]) -> Value:
        """
        Return the average along `axes`; the reduced dimensions remain with extent 1. Without axes,
        return `x`.
        """
        if not axes:
            return x
        count = self.number(prod(shape_of_value(x)[a] for a in axes), x)
        return self.div(self.reduce(Reduce.SUM, x, axes), count)

    def running_sum(self, x: Value, axis: int) -> Value:
        """
        Return the sums of all integers up to each element along `axis`. The number of additions is
        logarithmic in the extent.
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
        """
        Return the slice of `x` that begins at `starts` and has the extents `sizes`, with `strides`
        (default: 1). If it is all of `x`, no operation is emitted.
        """
        if tuple(sizes) == shape_of_value(x) and not any(starts):
            return x
        if any(size < 1 for size in sizes):
            # Exporters write empty slices and concatenate them.
            return self.constant(np.zeros(sizes, dtype_of_value(x)), "nothing")
        return self.emit(graph.SliceOp(self.materialize(x), starts, sizes, strides))

    def part(self, x: Value, axis: int, start: int, size: int) -> Value:
        """Return `size` elements of `x` along `axis`, from index `start` on."""
        shape = shape_of_value(x)
        sizes = [size if i == axis else n for i, n in enumerate(shape)]
        return self.sliced(x, [start * (i == axis) for i in range(len(shape))], sizes)

    def split(self, x: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
        """Return consecutive parts of `x` with the extents `sizes` along `axis`."""
        starts = accumulate(sizes, initial=0)
        return [self.part(x, axis, a, n) for a, n in zip(starts, sizes, strict=False)]

    def lookup(self, table: Value, indices: Value) -> Value:
        """
        Return the entries of `table` [n, 1] at `indices`, which are computed at run time, in the
        shape of `indices`.
        """
        return self.reshaped(self.taken(table, indices), shape_of_value(indices))

    def slice_at(self, x: Value, index: int, axis: int = 0) -> Value:
        """
        Return the elements of `x` at `index` along `axis`. The result does not have that axis.
        """
        if isinstance(x, Constant):
            return Constant.of(f"{x.name}/{index}", np.asarray(x.load().take(index, axis)))
        shape = shape_of_value(x)
        return self.reshaped(self.part(x, axis, index, 1), (*shape[:axis], *shape[axis + 1 :]))

    def reversed(self, x: Value, axis: int) -> Value:
        """Return `x` in reverse order along `axis`."""
        return self.gathered(x, axis, range(shape_of_value(x)[axis])[::-1])

    def gathered(self, x: Value, axis: int, indices: Sequence[int]) -> Value:
        """
        Return the elements of `x` at constant `indices` along `axis`. Evenly spaced indices become
        a slice.
        """
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
        return self.emit(graph.GatherOp(self.materialize(x), axis, indices))

    def taken(self, rows: Value, indices: Value) -> Value:
        """
        Return the rows of `rows` [n, size] at `indices`, which are computed at run time:
        [count, size].
        """
        flat = self.reshaped(indices, (prod(shape_of_value(indices)),))
        if isinstance(rows, BlockedConstant) and not rows.is_turned:
            (weights, scales, points), sizes = self._blocks(rows)
            given = weights, self.materialize(flat), scales, points
            return self.emit(graph.BlockTakeOp(*given, columns=rows.shape[1], **sizes))
        return self.emit(graph.TakeOp(self.materialize(rows), self.materialize(flat)))

    def rows_of_steps(self, step: Value) -> Value:
        """
        Return row numbers for a table [steps * batch, ...]: entry (i, b) is the row of step
        `step[i, b]` of sequence b. `step` is [n, batch], i64.
        """
        _, batch = shape_of_value(step)
        along = self.mul(step, self.constant(np.array([batch], np.int64), "stride"))
        sequences = np.arange(batch, dtype=np.int64).reshape(1, batch)
        return self.add(along, self.constant(sequences, "sequences"))

    def at_steps(self, x: Value, step: Value) -> Value:
        """
        Return elements of `x` [steps, batch, ...] at steps that are computed at run time: entry (i,
        b) of the result [n, batch, ...] is `x[step[i, b], b]`.
        """
        steps, batch, *rest = shape_of_value(x)
        rows = self.reshaped(x, (steps * batch, prod(rest)))
        found = self.taken(rows, self.rows_of_steps(step))
        return self.reshaped(found, (*shape_of_value(step), *rest))

    def check_indices(self, count: int) -> None:
        """
        Raise an error if a list of `count` indices is too long for a constant, before it is
        created.
        """
        if count > MAX_INDICES:
            raise self.node.unsupported(f"{count} indices, expected at most {MAX_INDICES}: split")

    def joined(self, values: Sequence[Value], axis: int) -> Value:
        """Concatenate values along `axis`. Values without elements are omitted."""
        values = [v for v in values if prod(shape_of_value(v))] or values[:1]
        if len(values) == 1:
            return values[0]
        return self.emit(graph.ConcatOp([self.materialize(v) for v in values], axis))

    def expanded(self, x: Value, shape: Sequence[int]) -> Value:
        """
        Repeat the elements of `x` along dimensions of extent 1 up to `shape`, which has the same
        rank.
        """
        result = x
        for axis, (old, new) in enumerate(zip(shape_of_value(x), shape, strict=True)):
            if old != new:
                self.check_indices(new)
                result = self.gathered(result, axis, [0] * new)
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
        """
        Add `low[i]` elements before, `high[i]` after and `interior[i]` between the elements of `x`
        along each dimension i. They have the given `value`, by default 0.
        """
        if not any((*low, *high, *(interior or ()))):
            return x
        x = self.materialize(x)
        return self.emit(graph.PadOp(Pad.CONSTANT, x, low, high, interior=interior, value=value))

    def product(self, rows: Value, weights: Value, bias: Value | None = None) -> SSAValue:
        """
        Multiply `rows` [M, K] by the transpose of `weights` [N, K], and add `bias` [N] if it is
        given: [M, N].
        """
        if isinstance(rows, Constant) and not isinstance(weights, Constant) and bias is None:
            # Targets pack constant weights, so the transposed product is computed.
            return self.materialize(self.transposed(self.product(weights, rows), (1, 0)))
        x = self.materialize(rows)
        if isinstance(weights, BlockedConstant) and not weights.is_turned:
            operands, sizes = self._blocks(weights)
            added = None if bias is None else self.materialize(bias)
            return self.emit(graph.BlockMatmulOp(x, *operands, added, **sizes))
        operands = x, self.materialize(weights)
        added = None if bias is None else self.materialize(bias)
        return self.emit(graph.MatmulOp(*operands, added, result_element=f32))

    def _blocks(
        self, constant: BlockedConstant
    ) -> tuple[tuple[SSAValue, SSAValue, SSAValue | None], dict[str, int]]:
        """Return weights, scales and zero points in blocks, and the sizes of their operations."""
        weights, scales, points = constant.operands
        given = None if points is None else self.materialize(points)
        operands = self.materialize(weights), self.materialize(scales), given
        return operands, {"bits": constant.bits, "block": constant.block}

    def _check_broadcast(self, *values: Value) -> None:
        shape: tuple[int, ...] | None = ()
        for value in values:
            shape = None if shape is None else broadcast_shape(shape, shape_of_value(value))
        if shape is None:
            shapes = ", ".join(str(list(shape_of_value(v))) for v in values)
            raise self.node.wrong(f"shapes {shapes} do not broadcast")

    def _lifted(self, *values: Value) -> list[Value]:
        """
        Give scalars the shape [1] if another of the values is not a scalar. They broadcast in the
        same way.
        """
        if not any(shape_of_value(v) for v in values):
            return list(values)
        return [v if shape_of_value(v) else self.reshaped(v, (1,)) for v in values]

    def feature_map(self, value: Value) -> SSAValue:
        """
        Return `value`, which is [N, C, W] or [N, C, H, W] in the model, as [N, H, W, C], with H = 1
        without a height.
        """
        shape = shape_of_value(value)
        if len(shape) == 3:
            value = self.reshaped(value, (*shape[:2], 1, shape[2]))
        return self.materialize(self.transposed(value, TO_NHWC))

    def from_feature_map(self, value: Value, rank: int) -> Value:
        """
        Convert an NHWC result back to the layout of the model: [N, C, W] if the `rank` is 3, else
        [N, C, H, W].
        """
        result = self.transposed(value, TO_NCHW)
        if rank == 3:
            n, _, w, c = shape_of_value(value)
            return self.reshaped(result, (n, c, w))
        return result
