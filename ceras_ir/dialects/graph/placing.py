"""Operations that put rows into a tensor at places that are computed."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    expect_rank,
    expect_shape,
    is_plain,
    shape_of,
)
from ceras_ir.dialects.graph.reduction import Reduce, ReduceAttr


@irdl_op_definition
class PutOp(GraphOperation):
    """
    `input` [R, C], in which row `indices[n]` becomes row `n` of `rows` [N, C], or with a
    `reduction` what that makes of it and what is there: one `n` after the other, so that of equal
    indices the last wins, or all are combined in their order. An index below 0 counts from the end;
    one that leaves the rows changes nothing. Floats and integers are combined as `graph.reduce`
    does; stored quantized numbers only replace others of the same type.
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
            raise VerifyException(f"indices are integers, got {element_of(self.indices)}")
        for name, value in (("rows", self.rows), ("result", self.result)):
            if element_of(value) != element_of(self.input):
                raise VerifyException(
                    f"{name} must have elements of {element_of(self.input)}, got "
                    f"{element_of(value)}"
                )
        expect_shape("rows", self.rows, (shape_of(self.indices)[0], shape_of(self.input)[1]))
        expect_shape("result", self.result, shape_of(self.input))
        if self.reduction is not None and self.is_quantized:
            raise VerifyException("stored numbers are not combined; dequantize them")
