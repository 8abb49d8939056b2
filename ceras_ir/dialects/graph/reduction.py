"""Operations that reduce dimensions, write rows of a tensor, or select boxes."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import ClassVar

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    InputOperation,
    element_of,
    expect_axis,
    expect_rank,
    expect_same_element,
    expect_shape,
    is_plain,
    shape_of,
)


class Reduce(StrEnum):
    """The function of two elements that a reduction applies repeatedly."""

    SUM = "sum"
    PRODUCT = "product"
    MAX = "max"
    """NaN if an element is NaN"""
    MIN = "min"
    """NaN if an element is NaN"""


@irdl_attr_definition
class ReduceAttr(EnumAttribute[Reduce], SpacedOpaqueSyntaxAttribute):
    name = "graph.reduce"


@irdl_op_definition
class ReduceOp(InputOperation):
    """
    Combine the elements along `axes`, which become extents of 1, in row-major order, starting with
    the first. Integers wrap around. Quantized elements can only have `max` and `min`.

        %y = graph.reduce sum %x {axes = array<i64: 0>} : (tensor<2x6xf32>) -> tensor<1x6xf32>
    """

    name = "graph.reduce"
    ADMITS_INTEGERS: ClassVar = True
    DIMENSIONS: ClassVar = ("axes",)

    kind = prop_def(ReduceAttr)
    axes = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$kind $input attr-dict `:` functional-type(operands, results)"

    def __init__(self, kind: Reduce, input: SSAValue, axes: Sequence[int]):
        shape = [1 if i in axes else n for i, n in enumerate(shape_of(input))]
        properties = {"kind": ReduceAttr(kind), "axes": integers(sorted(axes))}
        super().__init__(input, properties, shape=shape)

    @property
    def function(self) -> Reduce:
        return self.kind.data

    @property
    def keeps_scale(self) -> bool:
        return self.function in (Reduce.MAX, Reduce.MIN) and not is_plain(self.input)

    def reordered(self, order: Sequence[int]) -> Mapping[str, Attribute] | None:
        axes = [order[a] for a in self.axes.get_values()]
        # Other orders would change the order of float additions.
        return super().reordered(order) if axes == sorted(axes) else None

    def verify_semantics(self) -> None:
        expect_same_element(self)
        shape, axes = shape_of(self.input), list(self.axes.get_values())
        if axes != sorted(set(axes)) or any(not 0 <= a < len(shape) for a in axes):
            raise VerifyException(f"axes must be ascending and in [0, {len(shape)}), got {axes}")
        expect_shape("result", self.result, [1 if i in axes else n for i, n in enumerate(shape)])
        if self.is_quantized and self.function not in (Reduce.MAX, Reduce.MIN):
            raise VerifyException(f"'{self.function}' would change the scale; dequantize the input")


@irdl_op_definition
class ArgOp(InputOperation):
    """
    Return the index, as i64, of the `max` or `min` along `axis`, which becomes an extent of 1. The
    search starts with the first element. A larger (smaller) element replaces it, with `last` also
    an equal element. Comparisons with NaN are false.

        %i = graph.arg max %x {axis = 1 : i64} : (tensor<2x6xf32>) -> tensor<2x1xi64>
    """

    name = "graph.arg"
    ADMITS_INTEGERS: ClassVar = True
    DIMENSIONS: ClassVar = ("axis",)

    kind = prop_def(ReduceAttr)
    axis = prop_def(IntegerAttr[IntegerType])
    last = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    assembly_format = "$kind $input attr-dict `:` functional-type(operands, results)"

    def __init__(self, kind: Reduce, input: SSAValue, axis: int, *, last: bool = False):
        shape = [1 if i == axis else n for i, n in enumerate(shape_of(input))]
        properties: dict[str, Attribute] = {
            "kind": ReduceAttr(kind),
            "axis": IntegerAttr(axis, i64),
            "last": BoolAttr.from_bool(last),
        }
        super().__init__(input, properties, shape=shape, element=i64)

    @property
    def function(self) -> Reduce:
        return self.kind.data

    @property
    def takes_last(self) -> bool:
        """Whether the index of the last of equal extremes is returned, not of the first."""
        return bool(self.last.value.data)

    def verify_semantics(self) -> None:
        if self.kind.data not in (Reduce.MAX, Reduce.MIN):
            raise VerifyException(f"kind must be max or min, got {self.kind.data}")
        shape, axis = shape_of(self.input), self.axis.value.data
        expect_axis(axis, len(shape))
        expect_shape("result", self.result, [1 if i == axis else n for i, n in enumerate(shape)])
        if element_of(self.result) != i64:
            raise VerifyException(f"indices must be i64, got {element_of(self.result)}")


@irdl_op_definition
class TopKOp(InputOperation):
    """
    Return the indices, as i64, of the `max` or `min` elements of each row along the last dimension.
    The last extent of the result is their number. They are ordered from the extreme, equal elements
    by index. NaN are last, as equal elements.

        %i = graph.top_k max %x : (tensor<2x6xf32>) -> tensor<2x3xi64>
    """

    name = "graph.top_k"
    ADMITS_INTEGERS: ClassVar = True

    kind = prop_def(ReduceAttr)

    assembly_format = "$kind $input attr-dict `:` functional-type(operands, results)"

    def __init__(self, kind: Reduce, input: SSAValue, count: int):
        shape = [*shape_of(input)[:-1], count]
        super().__init__(input, {"kind": ReduceAttr(kind)}, shape=shape, element=i64)

    @property
    def function(self) -> Reduce:
        return self.kind.data

    def verify_semantics(self) -> None:
        if self.kind.data not in (Reduce.MAX, Reduce.MIN):
            raise VerifyException(f"kind must be max or min, got {self.kind.data}")
        shape, found = shape_of(self.input), shape_of(self.result)
        if not shape:
            raise VerifyException("expected a row, got a scalar")
        if found[:-1] != shape[:-1] or not 1 <= found[-1] <= shape[-1]:
            *rows, extent = shape
            raise VerifyException(
                f"result must have {rows} rows of 1 to {extent} indices, got {list(found)}"
            )
        if element_of(self.result) != i64:
            raise VerifyException(f"indices must be i64, got {element_of(self.result)}")


@irdl_op_definition
class PutOp(GraphOperation):
    """
    Replace row `indices[n]` of `input` [R, C] by row `n` of `rows` [N, C], or with a `reduction` by
    the combination of both, as in `graph.reduce`. Rows are written in order, so the last of equal
    indices remains, or all are combined. A negative index counts from the end; an index out of
    range has no effect. Quantized elements can only be replaced.

        %y = graph.put %rows into %x[%i] by max
            : (tensor<7x3xf32>, tensor<4xi64>, tensor<4x3xf32>) -> tensor<7x3xf32>
    """

    name = "graph.put"
    ADMITS_INTEGERS: ClassVar = True

    input = operand_def(TensorType)
    indices = operand_def(TensorType)
    rows = operand_def(TensorType)
    reduction = opt_prop_def(ReduceAttr)

    assembly_format = (
        "$rows `into` $input `[` $indices `]` (`by` $reduction^)? attr-dict `:` "
        "functional-type(operands, results)"
    )

    def __init__(
        self, input: SSAValue, indices: SSAValue, rows: SSAValue, reduction: Reduce | None = None
    ):
        super().__init__(
            operands=[input, indices, rows],
            result_types=[input.type],
            properties={} if reduction is None else {"reduction": ReduceAttr(reduction)},
        )

    @property
    def function(self) -> Reduce | None:
        return None if self.reduction is None else self.reduction.data

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return (self.input, self.rows)

    def verify_semantics(self) -> None:
        expect_rank("input", self.input, 2)
        expect_rank("indices", self.indices, 1)
        if not is_plain(self.indices) or element_of(self.indices) == IntegerType(1):
            raise VerifyException(f"indices must be integers, got {element_of(self.indices)}")
        for name, value in (("rows", self.rows), ("result", self.result)):
            if element_of(value) != element_of(self.input):
                raise VerifyException(
                    f"{name} must have elements of {element_of(self.input)}, got "
                    f"{element_of(value)}"
                )
        expect_shape("rows", self.rows, (shape_of(self.indices)[0], shape_of(self.input)[1]))
        expect_shape("result", self.result, shape_of(self.input))
        if self.reduction is not None and self.is_quantized:
            raise VerifyException("quantized elements cannot be combined; dequantize them")


@irdl_op_definition
class SuppressOp(GraphOperation):
    """
    Select boxes by non-maximum suppression, as rows (image, class, box) of i64. The f32 `boxes` [B,
    N, 4] are y0, x0, y1, x1, smaller coordinates first. The f32 `scores` are [B, C, N].

    For each image and class in order:

    1. The candidates are the boxes with a score above `least`.
    2. Select the candidate with the highest score, the first if equal, and remove it.
    3. Remove the candidates for which `shared / (area + selected area - shared)` is above
       `overlap`, if both areas, the shared area and the union are positive.
    4. Repeat from 2 until `most` are selected or no candidates remain.

    A side is the difference of coordinates, or 0 if negative. Unused rows of the result are -1;
    boxes beyond the rows are omitted.

        %kept = graph.suppress %boxes, %scores
            {most = 3 : i64, overlap = 0.5 : f32, least = 0.25 : f32}
            : (tensor<1x6x4xf32>, tensor<1x2x6xf32>) -> tensor<6x3xi64>
    """

    name = "graph.suppress"
    ADMITS_INTEGERS: ClassVar = True

    boxes = operand_def(TensorType)
    scores = operand_def(TensorType)
    most = prop_def(IntegerAttr[IntegerType])
    overlap = prop_def(FloatAttr)
    least = prop_def(FloatAttr)

    assembly_format = "$boxes `,` $scores attr-dict `:` functional-type(operands, results)"

    def __init__(
        self, boxes: SSAValue, scores: SSAValue, rows: int, most: int, bounds: tuple[float, float]
    ):
        """
        Create the operation. `bounds` are `overlap` and `least`, `rows` is the number of rows of
        the result, and `most` is the maximum number of boxes of a class.
        """
        overlap, least = bounds
        super().__init__(
            operands=[boxes, scores],
            result_types=[TensorType(i64, (rows, 3))],
            properties={
                "most": IntegerAttr(most, i64),
                "overlap": FloatAttr(overlap, f32),
                "least": FloatAttr(least, f32),
            },
        )

    def verify_semantics(self) -> None:
        expect_rank("boxes", self.boxes, 3)
        expect_rank("scores", self.scores, 3)
        images, count, _ = shape_of(self.boxes)
        expect_shape("boxes", self.boxes, (images, count, 4))
        expect_shape("scores", self.scores, (images, shape_of(self.scores)[1], count))
        for name, value in (("boxes", self.boxes), ("scores", self.scores)):
            if element_of(value) != f32:
                raise VerifyException(f"{name} must be f32, got {element_of(value)}")
        if element_of(self.result) != i64:
            raise VerifyException(f"indices must be i64, got {element_of(self.result)}")
        expect_shape("result", self.result, (shape_of(self.result)[0], 3))
        if self.most.value.data < 1:
            raise VerifyException(f"most must be >= 1, got {self.most.value.data}")
        if any(isnan(bound.value.data) for bound in (self.overlap, self.least)):
            raise VerifyException("overlap and least must not be NaN")
