"""Functions of whole rows: normalization, and softmax and normalization of stored integers."""

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
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    InputOperation,
    element_of,
    expect_shape,
    expect_storable,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType

FRACTION = 12
"""Bits behind the point of a normalized number."""
ONE = 15
"""The exponential of 0 is 2 to this in the table of a softmax."""
RECIPROCAL = 31
"""A reciprocal of a sum has this many bits: `(2^31 - 1) / sum`."""
LEAST_POWER = 1 << 10
"""Of what a root is taken at least."""
MAX_EXTENT = 1 << 16


@irdl_op_definition
class NormalizeOp(GraphOperation):
    """
    Rows along the last dimension, of n elements, in float32, every step rounded, sums one element
    after the other: `m = sum(x) / n` and `c = x - m` if `centred`, else `c = x`;
    `d = sqrt(sum(c * c) / n + epsilon)`; `result = c / d * scale + bias`, a missing `bias` adding
    nothing. After ONNX `LayerNormalization` and `RMSNormalization`.
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
        return shape_of(self.input)[-1] <= MAX_EXTENT

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return (self.input,)

    def verify_semantics(self) -> None:
        if any(element_of(v) != f32 for v in (*self.operands, self.result)):
            raise VerifyException("normalize is float; of integers there is integer_normalize")
        if not shape_of(self.input):
            raise VerifyException("a row expected, got a scalar")
        expect_shape("result", self.result, shape_of(self.input))
        for name, value in (("scale", self.scale), ("bias", self.bias)):
            if value is not None:
                expect_shape(name, value, shape_of(self.input)[-1:])


@irdl_op_definition
class IntegerNormalizeOp(GraphOperation):
    """
    `graph.normalize` of stored int8 or int16, in integers alone. For a row of n numbers `q`, each
    less its zero point, with `s = 5` if not `centred`, else
    `min(5, floor((62 - 3 * ceil(log2 n) - 2 * bits) / 2))`, where a shift by less than 0 is one to
    the right that rounds half up, and all other divisions and roots are floored:

    1. `c = (n * q - sum(q)) << s` if `centred`, else `c = q << s`
    2. `w = sum(c * c) + epsilon`, of which `t = floor((floor(log2 w) - 30) / 2)`,
       `root = sqrt(w * 2^(-2 t))`
    3. `g = 14 - floor(floor(log2 n) / 2)`, `m = floor(sqrt(n * 2^(2 g))) * 2^17 / root`
    4. `z = (c * m) >> (g + 5 + t)`, rounded half up: the normalized number with 12 bits behind the
       point
    5. `result = requant(z * scale + bias)`, a shift that rounds half up

    `scale` is stored in 16 bits at a step S, `bias` in 32 at S / 2^12. All fits 64 bits.
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
        """`s`."""
        return deviation_shift(self.input, centred=self.is_centred)

    @property
    def root_shift(self) -> int:
        """`g`."""
        return 14 - (shape_of(self.input)[-1].bit_length() - 1) // 2

    @property
    def root(self) -> int:
        """`sqrt(n * 2^(2 g))`."""
        return isqrt(shape_of(self.input)[-1] << 2 * self.root_shift)

    def verify_semantics(self) -> None:
        _expect_rows(self)
        n = shape_of(self.input)[-1]
        for name, value, bits in (("scale", self.scale, 16), ("bias", self.bias, 32)):
            expect_shape(name, value, (n,))
            element = quantized_element(value)
            if element is None or element.storage != IntegerType(bits) or element.zero_point:
                raise VerifyException(f"{name} must be stored in i{bits} without zero point")
        if not LEAST_POWER <= self.epsilon.value.data <= 1 << 62:
            raise VerifyException(
                f"epsilon must be in [{LEAST_POWER}, 2^62], got {self.epsilon.value.data}"
            )


def deviation_shift(input: SSAValue, *, centred: bool) -> int:
    """By how much what is squared is shifted to the left, so that the sum of squares fits."""
    if not centred:
        return 5
    element = quantized_element(input)
    assert element is not None
    bits, octaves = element.storage.width.data, (shape_of(input)[-1] - 1).bit_length()
    return min(5, (62 - 3 * octaves - 2 * bits) // 2)


@irdl_op_definition
class IntegerSoftmaxOp(InputOperation):
    """
    Softmax of stored int8 or int16 along `axis`, in integers alone, with exponentials from a
    `table` of N numbers, the first of which is 2^15 and none of which is greater:

    1. `d = min(max(q) - q, N - 1)`, `e = table[d]`, for every `q` along the dimension
    2. `r = floor((2^31 - 1) / sum(e))`
    3. `result = requant(e * r)`, a shift that rounds half up, of steps of 2^-31

    All but the maximum's difference fits 32 unsigned bits, for dimensions of up to 2^16.
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
        rank, axis = len(shape_of(self.input)), self.axis.value.data
        if not 0 <= axis < rank:
            raise VerifyException(f"axis must be in [0, {rank}), got {axis}")
        _expect_rows(self, axis)
        size, table = shape_of(self.table), quantized_element(self.table)
        if len(size) != 1 or not 2 <= size[0] <= self.MAX_TABLE:
            raise VerifyException(f"a table of 2 to {self.MAX_TABLE} entries, got {size}")
        if table is None or table.storage != IntegerType(32) or table.zero_point:
            raise VerifyException("a table must be stored in i32 without zero point")
        if self.requant.shift.data < 1:
            raise VerifyException("'requant' must shift to the right")


def _expect_rows(op: IntegerNormalizeOp | IntegerSoftmaxOp, axis: int = -1) -> None:
    """Refuse what is not stored in one scale, rows that are too long, and other roundings."""
    for value in (op.input, op.result):
        element = quantized_element(value)
        bits = 0 if element is None else element.storage.width.data
        if element is None or bits not in (8, 16) or not element.is_signed or element.is_per_axis:
            raise VerifyException(f"int8 or int16 of one scale expected, got {value.type}")
    expect_shape("result", op.result, shape_of(op.input))
    if shape_of(op.input)[axis] > MAX_EXTENT:
        raise VerifyException(f"rows of at most {MAX_EXTENT} elements, got {op.input.type}")
    if op.requant.multipliers != (1,) or op.requant.mode is not Rounding.HALF_UP:
        raise VerifyException("'requant' must be a shift that rounds half up")
    expect_storable(op.result, op.requant)
