"""
Data movement operations for layouts, and resizing, which can interpolate.

Canonical forms have no identity reshape or transpose, no two in a row, and none of a constant. A
transpose that moves only dimensions of extent 1 is a reshape. Two slices in a row, which exporters
write for separate dimensions, are merged.
"""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseResourceAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f64,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import HasCanonicalizationPatternsTrait
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.graph.attributes import MovesElements, View, integers
from ceras_ir.dialects.graph.constant import ConstantOp
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    InputOperation,
    element_of,
    expect_axis,
    expect_rank,
    expect_same_element,
    expect_shape,
    is_per_axis,
    is_plain,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.graph.selection import SliceOp


@irdl_op_definition
class ReshapeOp(InputOperation, HasFolderInterface):
    """
    Return the same elements in the same row-major order, in another shape.

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


class Resize(StrEnum):
    """The result of the elements near a coordinate."""

    NEAREST = "nearest"
    LINEAR = "linear"


@irdl_attr_definition
class ResizeAttr(EnumAttribute[Resize], SpacedOpaqueSyntaxAttribute):
    name = "graph.resize"


class Coordinates(StrEnum):
    """The coordinate of output index `i` in the input; ONNX `coordinate_transformation_mode`."""

    HALF_PIXEL = "half_pixel"
    """`(i + 0.5) / scale - 0.5`"""
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    """as half_pixel, but 0 for an output extent of 1"""
    ALIGN_CORNERS = "align_corners"
    """`i * (in - 1) / (out - 1)`, 0 for an output extent of 1"""
    ASYMMETRIC = "asymmetric"
    """`i / scale`"""
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"
    """
    `c + (i + 0.5) / scale - 0.5` with the center offset `c = in / 2 * (1 - out / (scale * in))`
    """


@irdl_attr_definition
class CoordinatesAttr(EnumAttribute[Coordinates], SpacedOpaqueSyntaxAttribute):
    name = "graph.coordinates"


class Nearest(StrEnum):
    """The rounding of a coordinate to an index; ONNX `nearest_mode`."""

    ROUND_PREFER_FLOOR = "round_prefer_floor"
    """the nearest index; the lower if within 1e-6 of a tie"""
    ROUND_PREFER_CEIL = "round_prefer_ceil"
    """the nearest index; the upper if within 1e-6 of a tie"""
    FLOOR = "floor"
    CEIL = "ceil"


@irdl_attr_definition
class NearestAttr(EnumAttribute[Nearest], SpacedOpaqueSyntaxAttribute):
    name = "graph.nearest"


@irdl_op_definition
class ResizeOp(InputOperation):
    """
    Resample height and width of `input` [N, H, W, C] by `scales` [sy, sx].

    `coordinates` specifies the coordinate of an output index. The scale and each step are rounded
    to float32. `rounding` converts it to an index, which is clamped to the input. `linear` (float
    only) combines the two neighbors in each dimension with float32 weights `1 - t` and `t`, first
    along height (`a*(1-t) + b*t`), then along width. After ONNX `Resize`.

        %y = graph.resize nearest %x coordinates asymmetric rounding floor
            {scales = array<f64: 2.0, 2.0>} : (tensor<1x2x2x4xf32>) -> tensor<1x4x4x4xf32>
    """

    name = "graph.resize"

    kind = prop_def(ResizeAttr)
    scales = prop_def(DenseArrayBase.constr(f64))
    coordinates = prop_def(CoordinatesAttr)
    rounding = prop_def(NearestAttr)

    assembly_format = (
        "$kind $input `coordinates` $coordinates `rounding` $rounding attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        kind: Resize,
        input: SSAValue,
        size: tuple[int, int],
        scales: tuple[float, float],
        coordinates: Coordinates = Coordinates.HALF_PIXEL,
        rounding: Nearest = Nearest.ROUND_PREFER_FLOOR,
    ):
        n, _, _, c = shape_of(input)
        properties: dict[str, Attribute] = {
            "kind": ResizeAttr(kind),
            "scales": DenseArrayBase.from_list(f64, list(scales)),
            "coordinates": CoordinatesAttr(coordinates),
            "rounding": NearestAttr(rounding),
        }
        super().__init__(input, properties, shape=(n, *size, c))

    @property
    def factors(self) -> tuple[float, float]:
        """The scales of height and width."""
        height, width = self.scales.get_values()
        return float(height), float(width)

    @property
    def function(self) -> Resize:
        return self.kind.data

    @property
    def is_alias(self) -> bool:
        return self.function is Resize.NEAREST

    @property
    def keeps_channels(self) -> bool:
        return True

    def verify_semantics(self) -> None:
        expect_same_element(self)
        expect_rank("input", self.input, 4)
        expect_rank("result", self.result, 4)
        scales = self.scales.get_values()
        if len(scales) != 2 or any(not 0.0 < s < float("inf") for s in scales):
            raise VerifyException("two positive scales expected")
        source, target = shape_of(self.input), shape_of(self.result)
        if (source[0], source[3]) != (target[0], target[3]):
            raise VerifyException(f"only height and width can change, got {source} -> {target}")
        if self.function is Resize.LINEAR and quantized_element(self.result) is not None:
            raise VerifyException("linear resizing requires float; dequantize the input")


def permutation_of(op: TransposeOp) -> tuple[int, ...]:
    return tuple(op.permutation.get_values())


def inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    """Return the inverse permutation."""
    return tuple(permutation.index(i) for i in range(len(permutation)))


def is_reshape(shape: tuple[int, ...], permutation: tuple[int, ...]) -> bool:
    """Return whether a transpose of `shape` keeps the row-major order of elements."""
    moved = [p for p in permutation if shape[p] != 1]
    return moved == sorted(moved)


class RemoveIdentityLayout(RewritePattern):
    """Replace a reshape to the same shape, or a transpose to the same order, by its operand."""

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
    """Fold a reshape or transpose of a constant."""

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
