"""Functions of rows in the fixed-point arithmetic of gemmlowp, which TensorFlow Lite uses."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.constant import constant_array
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    InputOperation,
    expect_shape,
    quantized_element,
    shape_of,
)

SUM_SHIFT = 12
"""The right shift of exponentials before they are added."""


@irdl_op_definition
class FixedPointSoftmaxOp(InputOperation):
    """
    Softmax of stored int8 along the last dimension, as in the reference kernels of TensorFlow Lite.
    `table` has 256 exponentials in units of 2^-31. `mul(a, b)` is `(a * b + 2^30) >> 31`, and
    `round` is half away from zero:

    1. `e = table[max(q) - q]` for each `q` of a row, `s = sum(round(e / 2^12))`
    2. `h = (s << n) >> 1`, where `n` is the number of leading zeros of `s` in 32 bits
    3. `x = 1515870810 + mul(h, -1010580540)`, then three times
       `x = x + (mul(x, 2^29 - mul(h, x)) << 2)`, and `r = min(2 * x, 2^31 - 1)`
    4. `result = clamp(round(mul(r, e) / 2^(43 - w - n)) + low, low, high)` for a result of `w` bits
       from `low` to `high`

        %t = graph.constant dense<2147483647> : tensor<256xi32>
            : tensor<256x!quant.uniform<i32:f32, 1.0>>
        %y = graph.fixed_point_softmax %x table %t : tensor<256x!quant.uniform<i32:f32, 1.0>>
            : tensor<3x4x!quant.uniform<i8:f32, 0.5>>
            -> tensor<3x4x!quant.uniform<i8:f32, 0.00390625:-128>>
    """

    name = "graph.fixed_point_softmax"
    DIMENSIONS: ClassVar = ()
    ENTRIES: ClassVar = 256
    MAX_EXTENT: ClassVar = (1 << SUM_SHIFT) - 1

    input = operand_def(TensorType)
    table = operand_def(TensorType)

    assembly_format = (
        "$input `table` $table `:` type($table) attr-dict `:` type($input) `->` type($result)"
    )

    def __init__(self, input: SSAValue, table: SSAValue, element: Attribute):
        GraphOperation.__init__(
            self,
            operands=[input, table],
            result_types=[TensorType(element, shape_of(input))],
            properties={},
        )

    @property
    def has_kernel_form(self) -> bool:
        return True

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return (self.input,)

    def verify_semantics(self) -> None:
        source, target = quantized_element(self.input), quantized_element(self.result)
        if source is None or source.storage != IntegerType(8) or source.is_per_axis:
            raise VerifyException(f"int8 with a single scale expected, got {self.input.type}")
        if (
            target is None
            or target.storage not in (IntegerType(8), IntegerType(16))
            or target.is_per_axis
        ):
            raise VerifyException(
                f"an int8 or int16 result with a single scale expected, got {self.result.type}"
            )
        expect_shape("result", self.result, shape_of(self.input))
        expect_shape("table", self.table, (self.ENTRIES,))
        if not 1 <= (1, *shape_of(self.input))[-1] <= self.MAX_EXTENT:
            raise VerifyException(
                f"rows must have at most {self.MAX_EXTENT} elements, got {self.input.type}"
            )
        entries, kind = constant_array(self.table), quantized_element(self.table)
        if kind is None or kind.storage != IntegerType(32) or entries is None:
            raise VerifyException("the table must be a constant that is stored in i32")
        if entries.min() < 0 or entries[0] < 1 << 2 * SUM_SHIFT:
            raise VerifyException("the table must not be negative, and its first entry large")
