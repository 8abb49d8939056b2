"""Elementwise operations of the `graph` dialect: unary, binary, table lookup, softmax."""

from enum import StrEnum
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.attributes import FunctionAttr
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    expect_rescaling,
    expect_shape,
    quantized_element,
    shape_of,
    tensor_type,
)
from ceras_ir.dialects.quant import RequantAttr


@irdl_op_definition
class UnaryOp(GraphOperation):
    """`result = function(input)`, element by element, in float32; see `Function`."""

    name = "graph.unary"

    T: ClassVar = VarConstraint("T", base(TensorType))

    input = operand_def(T)
    function = prop_def(FunctionAttr)
    result = result_def(T)

    traits = traits_def(Pure())
    assembly_format = "$function $input attr-dict `:` type($input)"

    def __init__(self, input: SSAValue, function: FunctionAttr):
        super().__init__(
            operands=[input], result_types=[input.type], properties={"function": function}
        )

    def verify_semantics(self) -> None:
        if self.is_quantized:
            raise VerifyException("a quantized function of one argument is 'graph.lookup'")


class Binary(StrEnum):
    """Elementwise functions of two arguments."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"


def broadcast_shape(lhs: tuple[int, ...], rhs: tuple[int, ...]) -> tuple[int, ...] | None:
    """The common shape under numpy's rules, or None where there is none."""
    rank = max(len(lhs), len(rhs))
    result: list[int] = []
    for a, b in zip((1,) * (rank - len(lhs)) + lhs, (1,) * (rank - len(rhs)) + rhs, strict=True):
        if a != b and 1 not in (a, b):
            return None
        result.append(max(a, b))
    return tuple(result)


@irdl_op_definition
class BinaryOp(GraphOperation):
    """
    `activation(lhs op rhs)`, element by element, shapes broadcast as numpy does, where op is
    `add`, `sub` or `mul`. Quantized, on stored integers less their zero points, in 32 bits:

    `add`, `sub`: `requant((lhs << lhs_shift) op (rhs << rhs_shift))`; `mul`: `requant(lhs * rhs)`
    """

    name = "graph.binary"

    MAX_SHIFT: ClassVar = 22

    kind = prop_def(StringAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    activation = opt_prop_def(FunctionAttr)
    lhs_shift = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(0, i64))
    rhs_shift = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(0, i64))
    requant = opt_prop_def(RequantAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$kind $lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        kind: Binary,
        lhs: SSAValue,
        rhs: SSAValue,
        *,
        result_element: Attribute,
        activation: FunctionAttr | None = None,
        shifts: tuple[int, int] = (0, 0),
        requant: RequantAttr | None = None,
    ):
        shape = broadcast_shape(shape_of(lhs), shape_of(rhs))
        assert shape is not None
        super().__init__(
            operands=[lhs, rhs],
            result_types=[TensorType(result_element, shape)],
            properties={
                "kind": StringAttr(kind.value),
                "activation": activation,
                "lhs_shift": IntegerAttr(shifts[0], i64),
                "rhs_shift": IntegerAttr(shifts[1], i64),
                "requant": requant,
            },
        )

    @property
    def function(self) -> Binary:
        return Binary(self.kind.data)

    @property
    def shifts(self) -> tuple[int, int]:
        """Left shifts that bring the stored operands to one scale."""
        return self.lhs_shift.value.data, self.rhs_shift.value.data

    def verify_semantics(self) -> None:
        if self.kind.data not in set(Binary):
            raise VerifyException(f"kind must be one of {', '.join(Binary)}, got {self.kind.data}")
        shape = broadcast_shape(shape_of(self.lhs), shape_of(self.rhs))
        if shape is None:
            raise VerifyException(
                f"shapes {shape_of(self.lhs)} and {shape_of(self.rhs)} do not broadcast"
            )
        expect_shape("result", self.result, shape)
        if any(not 0 <= s <= self.MAX_SHIFT for s in self.shifts):
            raise VerifyException(
                f"operand shifts must be in [0, {self.MAX_SHIFT}], got {list(self.shifts)}"
            )
        if any(self.shifts) and (not self.is_quantized or self.function is Binary.MUL):
            raise VerifyException("only quantized 'add' and 'sub' shift their operands")
        if self.activation is not None and self.is_quantized:
            raise VerifyException(
                "a quantized operation clamps in 'requant'; other functions are 'graph.lookup'"
            )
        expect_rescaling(self, self.requant)


@irdl_op_definition
class LookupOp(GraphOperation):
    """
    `result = table[input + 128]`, element by element, on stored int8: any function of one
    argument, within half a unit of the last place. `table` has 256 int8 entries.
    """

    name = "graph.lookup"

    input = operand_def(TensorType)
    table = prop_def(DenseIntOrFPElementsAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$input `,` $table attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, table: DenseIntOrFPElementsAttr, result_element: Attribute):
        super().__init__(
            operands=[input],
            result_types=[TensorType(result_element, shape_of(input))],
            properties={"table": table},
        )

    def verify_semantics(self) -> None:
        expect_shape("result", self.result, shape_of(self.input))
        for value in (self.input, self.result):
            element = quantized_element(value)
            if element is None or element.storage.width.data != 8 or not element.is_signed:
                raise VerifyException(f"int8 elements expected, got {value.type}")
        table = self.table.type
        if not isinstance(table, TensorType) or table.get_shape() != (256,):
            raise VerifyException(f"table must be tensor<256xi8>, got {table}")


@irdl_op_definition
class SoftmaxOp(GraphOperation):
    """
    `exp(x - max) / sum` along dimension `axis`, in float32 and bit for bit: `max` over the
    dimension, `e = exp(x - max)` by `float_functions.exp`, `sum` of `e` added one after the
    other in index order, then one division per element. After ONNX `Softmax` (opset 13).
    """

    name = "graph.softmax"

    T: ClassVar = VarConstraint("T", base(TensorType))

    input = operand_def(T)
    axis = prop_def(IntegerAttr[IntegerType])
    result = result_def(T)

    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input)"

    def __init__(self, input: SSAValue, axis: int):
        super().__init__(
            operands=[input],
            result_types=[input.type],
            properties={"axis": IntegerAttr(axis, i64)},
        )

    def verify_semantics(self) -> None:
        rank = len(tensor_type(self.input).get_shape())
        if not 0 <= self.axis.value.data < rank:
            raise VerifyException(f"axis must be in [0, {rank}), got {self.axis.value.data}")
        if self.is_quantized:
            raise VerifyException("softmax is float; dequantize its input")
