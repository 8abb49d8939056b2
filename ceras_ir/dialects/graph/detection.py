"""Operations that choose among boxes."""

from math import isnan
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, TensorType, f32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    expect_rank,
    expect_shape,
    shape_of,
)


@irdl_op_definition
class SuppressOp(GraphOperation):
    """
    The boxes that others do not suppress, as rows (image, class, box) of i64. `boxes` [B, N, 4] are
    two corners, lesser numbers first: y0, x0, y1, x1; `scores` are [B, C, N], both f32.

    Of each image and class in turn, while fewer than `most` are chosen: of the boxes that are left,
    at first those whose score is greater than `least`, the one of the greatest score is chosen, the
    first of equals, and is left no more; nor is any box of which the area shared with it, over
    `area + other area - shared`, is greater than `overlap`, if all four are positive. A side is the
    difference of its ends, or 0; every step is rounded to float32. Rows behind the last chosen box
    are -1; boxes that have no row are left out.
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
        """`bounds` are `overlap` and `least`."""
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
                raise VerifyException(f"{name} are f32, got {element_of(value)}")
        if element_of(self.result) != i64:
            raise VerifyException(f"indices are i64, got {element_of(self.result)}")
        expect_shape("result", self.result, (shape_of(self.result)[0], 3))
        if self.most.value.data < 1:
            raise VerifyException(f"most must be at least 1, got {self.most.value.data}")
        if any(isnan(bound.value.data) for bound in (self.overlap, self.least)):
            raise VerifyException("overlap and least are numbers")
