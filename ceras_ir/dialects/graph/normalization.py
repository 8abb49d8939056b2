"""Normalization along a dimension, and integer forms of normalization and softmax."""

from collections.abc import Sequence
from math import isqrt
from typing import ClassVar

from xdsl.dialects.builtin import (
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    InputOperation,
    element_of,
    expect_axis,
    expect_shape,
    expect_storable,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType

FRACTION_BITS = 12
"""Fractional bits of a normalized element."""
EXP_TABLE_BITS = 15
RECIPROCAL_BITS = 31
"""The reciprocal of a sum is `(2^31 - 1) / sum`."""
MIN_EPSILON = 1 << 10
"""The minimum of `epsilon`, and so of the operand of the square root."""
MAX_NORMALIZED_EXTENT = 1 << 16


@irdl_op_definition
class NormalizeOp(GraphOperation):
    """
    Normalize rows of n elements along the last dimension, with sums in index order: `c = x - sum(x)
    / n` if `centred`, else `c = x`; `d = sqrt(sum(c * c) / n + epsilon)`; `result = c / d * scale +
    bias`, without the addition if there is no bias. After ONNX `LayerNormalization` and
    `RMSNormalization`.

        %y = graph.normalize %x scale %s : tensor<4xf32> bias %b : tensor<4xf32>
            {epsilon = 1.0e-5 : f32, centred = true} : tensor<3x4xf32> -> tensor<3x4xf32>
    """

    name = "graph.normalize"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    epsilon = prop_def(FloatAttr)
    centred = prop_def(BoolAttr)

    assembly_format = (
        "$input `scale` $scale `:` type($scale) (`bias` $bias^ `:` type($bias))? attr-dict `:` "
        "type($input) `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        scale: SSAValue,
        bias: SSAValue | None,
        *,
        epsilon: float,
        centred: bool,
    ):
        super().__init__(
            operands=[input, scale, bias],
            result_types=[input.type],
            properties={"epsilon": FloatAttr(epsilon, f32), "centred": BoolAttr.from_bool(centred)},
        )

    @property
    def is_centred(self) -> bool:
        return bool(self.centred.value.data)

    @property
    def rescales(self) -> bool:
        return shape_of(self.input)[-1] <= MAX_NORMALIZED_EXTENT

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return (self.input,)

    def verify_semantics(self) -> None:
        if any(element_of(v) != f32 for v in (*self.operands, self.result)):
            raise VerifyException("normalize requires float; use integer_normalize for integers")
        if not shape_of(self.input):
            raise VerifyException("expected a row, got a scalar")
        expect_shape("result", self.result, shape_of(self.input))
        for name, value in (("scale", self.scale), ("bias", self.bias)):
            if value is not None:
                expect_shape(name, value, shape_of(self.input)[-1:])


@irdl_op_definition
class IntegerNormalizeOp(GraphOperation):
    """
    Normalize rows along the last dimension, as `graph.normalize`, in integers. A row has n stored
    elements `q` of `bits` bits, 8 or 16, minus their zero point. The shift `s` is 5 if not
    `centred`, else `min(5, floor((62 - 3 * ceil(log2 n) - 2 * bits) / 2))`. A negative shift is a
    right shift that rounds half up; all other divisions and roots are rounded down:

    1. `c = (n * q - sum(q)) << s` if `centred`, else `c = q << s`
    2. `w = sum(c * c) + epsilon`, `t = floor((floor(log2 w) - 30) / 2)`, `root = sqrt(w * 2^(-2
       t))`
    3. `g = 14 - floor(floor(log2 n) / 2)`, `m = floor(sqrt(n * 2^(2 g))) * 2^17 / root`
    4. `z = (c * m) >> (g + 5 + t)`, rounded half up: the normalized element with 12 fractional bits
    5. `result = requant(z * scale + bias)`, a shift that rounds half up

    `scale` is stored in 16 bits with scale S, `bias` in 32 bits with S / 2^12. All values fit 64
    bits.

        %y = graph.integer_normalize %x scale %s : tensor<4x!quant.uniform<i16:f32, 0.5>>
            bias %b : tensor<4x!quant.uniform<i32:f32, 0.0001220703125>>
            {epsilon = 1024 : i64, centred = true,
             requant = #graph.requant<shift = 6, rounding = half_up, low = -128, high = 127>}
            : tensor<3x4x!quant.uniform<i8:f32, 0.5>> -> tensor<3x4x!quant.uniform<i8:f32, 0.5>>
    """

    name = "graph.integer_normalize"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    result = result_def(TensorType)
    epsilon = prop_def(IntegerAttr[IntegerType])
    centred = prop_def(BoolAttr)
    requant = prop_def(RequantAttr)

    assembly_format = (
        "$input `scale` $scale `:` type($scale) `bias` $bias `:` type($bias) attr-dict `:` "
        "type($input) `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        scale: SSAValue,
        bias: SSAValue,
        *,
        epsilon: int,
        centred: bool,
        element: UniformType,
        requant: RequantAttr,
    ):
        super().__init__(
            operands=[input, scale, bias],
            result_types=[TensorType(element, shape_of(input))],
            properties={
                "epsilon": IntegerAttr(epsilon, i64),
                "centred": BoolAttr.from_bool(centred),
                "requant": requant,
            },
        )

    @property
    def is_centred(self) -> bool:
        return bool(self.centred.value.data)

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return (self.input,)

    @property
    def shift(self) -> int:
        """The shift `s` in the formula of the class."""
        return deviation_shift(self.input, centred=self.is_centred)

    @property
    def root_shift(self) -> int:
        """The shift `g` in the formula of the class."""
        return 14 - (shape_of(self.input)[-1].bit_length() - 1) // 2

    @property
    def root(self) -> int:
        """The integer square root of `n * 2^(2 g)` in the formula of the class."""
        return isqrt(shape_of(self.input)[-1] << 2 * self.root_shift)

    def verify_semantics(self) -> None:
        _expect_rows(self)
        n = shape_of(self.input)[-1]
        for name, value, bits in (("scale", self.scale, 16), ("bias", self.bias, 32)):
            expect_shape(name, value, (n,))
            element = quantized_element(value)
            if element is None or element.storage != IntegerType(bits) or element.zero_point:
                raise VerifyException(f"{name} must be stored in i{bits} without zero point")
        if not MIN_EPSILON <= self.epsilon.value.data <= 1 << 62:
            raise VerifyException(
                f"epsilon must be in [{MIN_EPSILON}, 2^62], got {self.epsilon.value.data}"
            )


def deviation_shift(input: SSAValue, *, centred: bool) -> int:
    """
    Return the left shift of the deviations from the mean before they are squared: at most 5, so
    that the sum of squares fits 64 bits. It can be negative, a right shift. Without `centred`, it
    is 5.
    """
    if not centred:
        return 5
    element = quantized_element(input)
    assert element is not None
    bits, octaves = element.storage.width.data, (shape_of(input)[-1] - 1).bit_length()
    return min(5, (62 - 3 * octaves - 2 * bits) // 2)


@irdl_op_definition
class IntegerSoftmaxOp(InputOperation):
    """
    Softmax of stored int8 or int16 along `axis`, in integers. A `table` has N exponentials; the
    first is 2^15, the maximum:

    1. `d = min(max(q) - q, N - 1)`, `e = table[d]`, for each `q` along the dimension
    2. `r = floor((2^31 - 1) / sum(e))`
    3. `result = requant(e * r)`, a shift that rounds half up, of units of 2^-31

    All values except the difference from the maximum fit 32 unsigned bits, for dimensions up to
    2^16.

        %y = graph.integer_softmax %x table %t : tensor<9x!quant.uniform<i32:f32, 1.0>>
            {axis = 1 : i64,
             requant = #graph.requant<shift = 27, rounding = half_up, low = -128, high = 127>}
            : tensor<3x4x!quant.uniform<i8:f32, 0.5>> -> tensor<3x4x!quant.uniform<i8:f32, 0.5>>
    """

    name = "graph.integer_softmax"
    DIMENSIONS: ClassVar = ("axis",)
    MAX_TABLE: ClassVar = 1 << 12

    input = operand_def(TensorType)
    table = operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType])
    requant = prop_def(RequantAttr)

    assembly_format = (
        "$input `table` $table `:` type($table) attr-dict `:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        table: SSAValue,
        axis: int,
        element: Attribute,
        requant: RequantAttr,
    ):
        GraphOperation.__init__(
            self,
            operands=[input, table],
            result_types=[TensorType(element, shape_of(input))],
            properties={"axis": IntegerAttr(axis, i64), "requant": requant},
        )

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return (self.input,)

    def verify_semantics(self) -> None:
        axis = self.axis.value.data
        expect_axis(axis, len(shape_of(self.input)))
        _expect_rows(self, axis)
        size, table = shape_of(self.table), quantized_element(self.table)
        if len(size) != 1 or not 2 <= size[0] <= self.MAX_TABLE:
            raise VerifyException(f"a table must have 2 to {self.MAX_TABLE} entries, got {size}")
        if table is None or table.storage != IntegerType(32) or table.zero_point:
            raise VerifyException("a table must be stored in i32 without zero point")
        if self.requant.shift.data < 1:
            raise VerifyException("'requant' must shift to the right")


def _expect_rows(op: IntegerNormalizeOp | IntegerSoftmaxOp, axis: int = -1) -> None:
    for value in (op.input, op.result):
        element = quantized_element(value)
        bits = 0 if element is None else element.storage.width.data
        if element is None or bits not in (8, 16) or not element.is_signed or element.is_per_axis:
            raise VerifyException(f"expected int8 or int16 with a single scale, got {value.type}")
    expect_shape("result", op.result, shape_of(op.input))
    if shape_of(op.input)[axis] > MAX_NORMALIZED_EXTENT:
        raise VerifyException(
            f"rows must have at most {MAX_NORMALIZED_EXTENT} elements, got {op.input.type}"
        )
    if op.requant.multipliers != (1,) or op.requant.mode is not Rounding.HALF_UP:
        raise VerifyException("'requant' must be a shift that rounds half up")
    expect_storable(op.result, op.requant)
