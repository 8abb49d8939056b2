"""Operations about truth and types: comparison, selection, and casts between element types."""

from typing import ClassVar

from xdsl.dialects.builtin import TensorType, i1
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, operand_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    InputOperation,
    broadcast_shape,
    element_of,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.graph.traits import Elementwise
from ceras_ir.dialects.quant import UniformType


class Compare(StrEnum):
    """Relations between two numbers; none holds where one is NaN."""

    EQUAL = "equal"
    LESS = "less"
    LESS_OR_EQUAL = "less_or_equal"


@irdl_attr_definition
class CompareAttr(EnumAttribute[Compare], SpacedOpaqueSyntaxAttribute):
    name = "graph.compare"


@irdl_op_definition
class CompareOp(GraphOperation):
    """Whether `lhs kind rhs`, element by element as i1, shapes broadcast as numpy does."""

    name = "graph.compare"
    ADMITS_INTEGERS: ClassVar = True

    kind = prop_def(CompareAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    traits = traits_def(Elementwise())
    assembly_format = "$kind $lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def __init__(self, kind: Compare, lhs: SSAValue, rhs: SSAValue):
        shape = broadcast_shape(shape_of(lhs), shape_of(rhs))
        assert shape is not None
        super().__init__(
            operands=[lhs, rhs],
            result_types=[TensorType(i1, shape)],
            properties={"kind": CompareAttr(kind)},
        )

    @property
    def function(self) -> Compare:
        return self.kind.data

    def verify_semantics(self) -> None:
        if element_of(self.lhs) != element_of(self.rhs):
            raise VerifyException(
                f"operands must have one element type, got {element_of(self.lhs)} "
                f"and {element_of(self.rhs)}"
            )
        if element_of(self.result) != i1:
            raise VerifyException(f"the result of a comparison is i1, got {self.result.type}")


@irdl_op_definition
class SelectOp(GraphOperation):
    """`condition ? lhs : rhs`, element by element, shapes broadcast as numpy does."""

    name = "graph.select"
    ADMITS_INTEGERS: ClassVar = True

    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    traits = traits_def(Elementwise())
    assembly_format = (
        "$condition `,` $lhs `,` $rhs attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue):
        shape = broadcast_shape(*map(shape_of, (condition, lhs, rhs)))
        assert shape is not None
        super().__init__(
            operands=[condition, lhs, rhs], result_types=[TensorType(element_of(lhs), shape)]
        )

    def verify_semantics(self) -> None:
        if element_of(self.condition) != i1:
            raise VerifyException(f"a condition of i1 expected, got {self.condition.type}")
        if not element_of(self.lhs) == element_of(self.rhs) == element_of(self.result):
            raise VerifyException(
                f"both choices and the result must have one element type, got "
                f"{element_of(self.lhs)}, {element_of(self.rhs)} and {element_of(self.result)}"
            )


@irdl_op_definition
class CastOp(InputOperation):
    """
    The same numbers as another plain type, element by element. To an integer of fewer bits or
    of other signedness: the low bits. From f32: the fraction dropped, then clamped to what the
    type holds, NaN being 0. To i1: whether it is not 0. To f32: rounded to nearest, ties to even.
    A quantized number at scale 1 without zero point may become the plain integer that stores it.
    """

    name = "graph.cast"
    ADMITS_INTEGERS: ClassVar = True

    traits = traits_def(Elementwise())

    def __init__(self, input: SSAValue, element: Attribute):
        super().__init__(input, element=element)

    def verify_semantics(self) -> None:
        element = quantized_element(self.input)
        if quantized_element(self.result) is not None or (
            element is not None and element != UniformType(1.0, storage=element.storage)
        ):
            raise VerifyException("quantized elements are converted by quantize and dequantize")
        if element is not None and element_of(self.result) != element.storage:
            raise VerifyException(f"stored integers are {element.storage}, got {self.result.type}")
