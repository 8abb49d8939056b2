"""
Define data movement operations that change the layout.

Canonical forms have no identity reshape or transpose, no two in a row, and no constant operand. A
transpose that moves only dimensions of extent 1 is a reshape. Two slices in a row are merged.
"""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseResourceAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import SSAValue
from xdsl.irdl import (
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import HasCanonicalizationPatternsTrait
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import MovesElements, View, integers
from ceras_ir.dialects.graph.constant import ConstantOp
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    InputOperation,
    element_of,
    expect_axis,
    expect_same_element,
    expect_shape,
    is_per_axis,
    is_plain,
    shape_of,
)
from ceras_ir.dialects.graph.selection import SliceOp


@irdl_op_definition
class ReshapeOp(InputOperation, HasFolderInterface):
    """
    Return the same elements in row-major order, in another shape.

        %y = graph.reshape %x : (tensor<2x6xf32>) -> tensor<3x4xf32>
    """

    name = "graph.reshape"
    ADMITS_INTEGERS: ClassVar = True

    traits = traits_def(View())

    def __init__(self, input: SSAValue, shape: Sequence[int]):
        super().__init__(input, shape=shape)

    def fold(self):
        return (self.input,) if self.input.type == self.result.type else None


@irdl_op_definition
class TransposeOp(InputOperation, HasFolderInterface):
    """
    Permute dimensions: dimension `i` of the result is dimension `permutation[i]` of `input`.

        %y = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>}
            : (tensor<1x8x8x4xf32>) -> tensor<1x4x8x8xf32>
    """

    name = "graph.transpose"
    ADMITS_INTEGERS: ClassVar = True

    permutation = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(MovesElements())

    def __init__(self, input: SSAValue, permutation: Sequence[int]):
        shape = [shape_of(input)[p] for p in permutation]
        super().__init__(input, {"permutation": integers(permutation)}, shape=shape)

    def fold(self):
        identity = self.permutation.get_values() == tuple(range(len(shape_of(self.input))))
        return (self.input,) if identity else None

    @property
    def keeps_channels(self) -> bool:
        return self.permutation.get_values()[-1:] == (len(shape_of(self.input)) - 1,)

    def verify_semantics(self) -> None:
        shape, permutation = shape_of(self.input), self.permutation.get_values()
        if sorted(permutation) != list(range(len(shape))):
            raise VerifyException(
                f"a permutation of {len(shape)} dimensions expected, got {list(permutation)}"
            )
        expect_shape("result", self.result, [shape[p] for p in permutation])


@irdl_op_definition
class ConcatOp(GraphOperation, HasFolderInterface):
    """
    Concatenate operands of equal element types along dimension `axis`.

        %z = graph.concat %x, %y {axis = 1 : i64}
            : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x7xf32>
    """

    name = "graph.concat"
    ADMITS_INTEGERS: ClassVar = True
    DIMENSIONS: ClassVar = ("axis",)

    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType])

    assembly_format = "$inputs attr-dict `:` functional-type(operands, results)"

    def __init__(self, inputs: Sequence[SSAValue], axis: int):
        shape = list(shape_of(inputs[0]))
        shape[axis] = sum(shape_of(v)[axis] for v in inputs)
        super().__init__(
            operands=[inputs],
            result_types=[TensorType(element_of(inputs[0]), shape)],
            properties={"axis": IntegerAttr(axis, i64)},
        )

    def fold(self):
        return (self.inputs[0],) if len(self.inputs) == 1 else None

    @property
    def keeps_scale(self) -> bool:
        return not is_plain(self.result)

    def verify_semantics(self) -> None:
        if not self.inputs:
            raise VerifyException("expected an operand")
        expect_same_element(self)
        result, axis = shape_of(self.result), self.axis.value.data
        expect_axis(axis, len(result))
        for value in self.inputs:
            shape = shape_of(value)
            if len(shape) != len(result) or any(
                a != b for i, (a, b) in enumerate(zip(shape, result, strict=True)) if i != axis
            ):
                raise VerifyException(
                    f"operand of shape {shape} does not fit {result} along axis {axis}"
                )
        if (total := sum(shape_of(v)[axis] for v in self.inputs)) != result[axis]:
            raise VerifyException(f"extents along axis {axis} add to {total}, not {result[axis]}")


def permutation_of(op: TransposeOp) -> tuple[int, ...]:
    return tuple(op.permutation.get_values())


def inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    """Return the permutation that reverses `permutation`: (1, 2, 0) -> (2, 0, 1)."""
    return tuple(permutation.index(i) for i in range(len(permutation)))


def is_reshape(shape: tuple[int, ...], permutation: tuple[int, ...]) -> bool:
    """
    Return whether a transpose of a tensor of `shape` only moves axes of extent 1, so that the
    elements keep their order in memory.
    """
    moved = [p for p in permutation if shape[p] != 1]
    return moved == sorted(moved)


class RemoveIdentityLayout(RewritePattern):
    """Replace a reshape to the same shape, or a transpose to the same order, by the operand."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp | TransposeOp, rewriter: PatternRewriter, /):
        if op.fold() is not None:
            rewriter.replace(op, (), [op.input])


class MergeReshapes(RewritePattern):
    """Replace `reshape(reshape(x))` by `reshape(x)`: the row-major order does not change."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter, /):
        inner = op.input.owner
        if not isinstance(inner, ReshapeOp):
            return
        merged = ReshapeOp(inner.input, shape_of(op.result))
        merged.location = op.location
        rewriter.replace(op, merged)


class MergeTransposes(RewritePattern):
    """Replace `transpose(transpose(x, p), q)` by `transpose(x, r)` with `r[i] = p[q[i]]`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter, /):
        inner = op.input.owner
        if not isinstance(inner, TransposeOp):
            return
        first, second = permutation_of(inner), permutation_of(op)
        merged = TransposeOp(inner.input, [first[i] for i in second])
        merged.location = op.location
        rewriter.replace(op, merged)


class MergeSlices(RewritePattern):
    """Replace `slice(slice(x))` by a single slice of `x` with the composed indices."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter, /):
        inner = op.input.owner
        if not isinstance(inner, SliceOp) or is_per_axis(op.input):
            return
        sizes, steps = shape_of(op.result), inner.strides.get_values()
        # The stride of a dimension with a single element is arbitrary, so it becomes 1.
        strides = [
            step * stride if size > 1 else 1
            for step, stride, size in zip(steps, op.strides.get_values(), sizes, strict=True)
        ]
        starts = [
            first + step * start
            for first, step, start in zip(
                inner.starts.get_values(), steps, op.starts.get_values(), strict=True
            )
        ]
        merged = SliceOp(inner.input, starts, sizes, strides)
        merged.location = op.location
        rewriter.replace(op, merged)


class TransposeToReshape(RewritePattern):
    """
    Replace a transpose by a reshape if it keeps the order of all dimensions with an extent other
    than 1. The row-major order of elements is then unchanged.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter, /):
        order = permutation_of(op)
        if order == tuple(range(len(order))) or is_per_axis(op.input):
            return
        if not is_reshape(shape_of(op.input), order):
            return
        reshape = ReshapeOp(op.input, shape_of(op.result))
        reshape.location = op.location
        rewriter.replace(op, reshape)


class FoldConstantLayout(RewritePattern):
    """Replace a reshape or transpose of a constant by a constant with the moved elements."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp | TransposeOp, rewriter: PatternRewriter, /):
        constant = op.input.owner
        if not isinstance(constant, ConstantOp) or is_per_axis(op.input):
            return
        # An elided constant has no elements to move.
        if isinstance(constant.value, DenseResourceAttr):
            return
        array = constant.array()
        moved = (
            array.transpose(permutation_of(op))
            if isinstance(op, TransposeOp)
            else array.reshape(shape_of(op.result))
        )
        element = element_of(op.result)
        rewriter.replace(op, ConstantOp.from_array(moved, element, location=constant.location))


LAYOUT_PATTERNS: tuple[RewritePattern, ...] = (
    RemoveIdentityLayout(),
    MergeReshapes(),
    MergeTransposes(),
    MergeSlices(),
    TransposeToReshape(),
    FoldConstantLayout(),
)
"""Patterns of `ReshapeOp`, `TransposeOp` and `SliceOp`."""


class LayoutPatterns(HasCanonicalizationPatternsTrait):
    """Attaches the patterns to the operations, which are defined before them."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return LAYOUT_PATTERNS


for _operation in (ReshapeOp, TransposeOp, SliceOp):
    _operation.traits.add_trait(LayoutPatterns())
