"""
Operations on values that a network keeps from call to call, such as a cache of keys and values.

`update-states` creates them for target c. Rows are then written in place, and products read a part
of the cache where it is stored.
"""

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.linear import LinearOperation, MatmulOp
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    expect_axis,
    expect_length,
    expect_rank,
    expect_shape,
    is_per_axis,
    is_plain,
    shape_of,
)


@irdl_op_definition
class UpdateOp(GraphOperation):
    """
    Write `rows` into `input` along dimension `axis`. Other dimensions have equal extents.

    1. Without `position`, the N rows are appended, and the first N rows of `input` are dropped:
       index `i` is index `i + N` of the concatenation of `input` and `rows`.
    2. With `position`, an integer in a tensor with one element, the single row replaces the row at
       this index. An index out of range has no effect. With `wraps`, an index in [-E, 0) counts
       from the end of the extent E.

        %y = graph.update %rows into %x {axis = 1 : i64}
            : (tensor<2x4x3xf32>, tensor<2x1x3xf32>) -> tensor<2x4x3xf32>
        %z = graph.update %rows into %x at %i : tensor<1xi64> {axis = 1 : i64, wraps}
            : (tensor<2x4x3xf32>, tensor<2x1x3xf32>) -> tensor<2x4x3xf32>
    """

    name = "graph.update"
    ADMITS_INTEGERS: ClassVar = True

    input = operand_def(TensorType)
    rows = operand_def(TensorType)
    position = opt_operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType])
    wraps = opt_prop_def(UnitAttr)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$rows `into` $input (`at` $position^ `:` type($position))? attr-dict `:` "
        "`(` type($input) `,` type($rows) `)` `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        rows: SSAValue,
        position: SSAValue | None,
        axis: int,
        *,
        wraps: bool = False,
    ):
        super().__init__(
            operands=[input, rows, position],
            result_types=[input.type],
            properties={
                "axis": IntegerAttr(axis, i64),
                "wraps": UnitAttr() if wraps else None,
            },
        )

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return (self.input, self.rows)

    @property
    def keeps_scale(self) -> bool:
        return not is_plain(self.result)

    @property
    def row_count(self) -> int:
        """The number of rows that are written."""
        return shape_of(self.rows)[self.axis.value.data]

    def verify_semantics(self) -> None:
        shape, axis = list(shape_of(self.input)), self.axis.value.data
        expect_axis(axis, len(shape))
        expect_shape("result", self.result, shape)
        for value in (self.input, self.rows):
            if element_of(value) != element_of(self.result):
                raise VerifyException(
                    f"element types must be equal, got {element_of(value)} -> "
                    f"{element_of(self.result)}"
                )
        expect_rank("rows", self.rows, len(shape))
        count = self.row_count
        expect_shape("rows", self.rows, [*shape[:axis], count, *shape[axis + 1 :]])
        if self.position is None:
            if self.wraps is not None:
                raise VerifyException("'wraps' needs a position")
            if count > shape[axis]:
                raise VerifyException(f"{count} rows do not fit an extent of {shape[axis]}")
            return
        if count != 1:
            raise VerifyException(f"a position is for a single row, got {count}")
        if not is_plain(self.position) or element_of(self.position) == i1:
            raise VerifyException(f"a position is an integer, got {element_of(self.position)}")
        if prod(shape_of(self.position)) != 1:
            raise VerifyException(f"one position expected, got shape {shape_of(self.position)}")


@irdl_op_definition
class StridedMatmulOp(LinearOperation):
    """
    Matrix product of `input` [M, K] with a part of `weights`, which may have any shape. With
    `weights` as a list of elements in row-major order and `strides` = [s, t]:

    `acc[m, n] = sum over k of input[m, k] * weights[offset + n * s + k * t]`

        %y = graph.strided_matmul %x, %w {offset = 8 : i64, strides = array<i64: 4, 1>}
            : (tensor<1x4xf32>, tensor<2x2x4xf32>) -> tensor<1x2xf32>
    """

    name = "graph.strided_matmul"

    offset = prop_def(IntegerAttr[IntegerType])
    strides = prop_def(DenseArrayBase.constr(i64))

    def __init__(self, product: MatmulOp, weights: SSAValue, offset: int, strides: Sequence[int]):
        """Create the operation with all operands and properties of `product`, except weights."""
        kept = product.properties.items()
        properties: dict[str, Attribute] = {k: v for k, v in kept if k != "operandSegmentSizes"}
        properties |= {"offset": IntegerAttr(offset, i64), "strides": integers(strides)}
        super().__init__(
            operands=[product.input, weights, product.bias, product.residual],
            result_types=[product.result.type],
            properties=properties,
            attributes=product.attributes,
        )
        self.location = product.location

    @property
    def rescales(self) -> bool:
        return False

    @property
    def macs(self) -> int:
        return prod(shape_of(self.result)) * shape_of(self.input)[-1]

    def verify_semantics(self) -> None:
        expect_rank("input", self.input, 2)
        expect_rank("result", self.result, 2)
        expect_length("strides", strides := self.strides.get_values(), 2, 1)
        (m, k), (rows, n) = shape_of(self.input), shape_of(self.result)
        if m != rows:
            raise VerifyException(f"input of {m} rows does not match a result of {rows} rows")
        if is_per_axis(self.weights):
            raise VerifyException("weights must have a single scale")
        offset, size = self.offset.value.data, prod(shape_of(self.weights))
        last = offset + (n - 1) * strides[0] + (k - 1) * strides[1]
        if offset < 0 or last >= size:
            raise VerifyException(f"elements {offset} to {last} are not all in weights of {size}")
        self.verify_epilogue(n)
