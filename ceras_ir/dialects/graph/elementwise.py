"""Elementwise operations of the `graph` dialect, and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, TensorType, f32, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    VarConstraint,
    base,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import (
    Elementwise,
    FunctionAttr,
    MayOverwrite,
    integers,
    integers_of,
)
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    InputOperation,
    broadcast_shape,
    element_of,
    expect_axis,
    expect_rescaling,
    is_plain,
    only_clips,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.quant import RequantAttr, UniformType


@irdl_op_definition
class UnaryOp(InputOperation):
    """
    `result = function(input)`, element by element; see `Function`. With exponents, channel `c`
    (index of the last dimension) is scaled: `result = function(input * 2^input_exponents[c]) *
    2^-result_exponents[c]`. A `leaky_relu` with exponents can have a slope for each channel.

        %y = graph.unary <clip, 0.0, 6.0> %x : tensor<4xf32>
    """

    name = "graph.unary"

    MAX_EXPONENT: ClassVar = 64

    T: ClassVar = VarConstraint("T", base(TensorType))

    input = operand_def(T)
    function = prop_def(FunctionAttr)
    input_exponents = opt_prop_def(DenseArrayBase.constr(i64))
    result_exponents = opt_prop_def(DenseArrayBase.constr(i64))
    result = result_def(T)

    traits = traits_def(Elementwise(), MayOverwrite())
    assembly_format = "$function $input attr-dict `:` type($input)"

    def __init__(self, input: SSAValue, function: FunctionAttr):
        super().__init__(input, {"function": function})

    @property
    def spelling(self) -> str:
        return self.function.data.value

    @property
    def rescales(self) -> bool:
        return True

    @property
    def depends_on_channel(self) -> bool:
        return self.channel_exponents is not None

    @property
    def channel_exponents(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """
        The exponents by which each channel of the operand and of the result is scaled, or `None` if
        channels are not scaled.
        """
        if self.input_exponents is None or self.result_exponents is None:
            return None
        return integers_of(self.input_exponents), integers_of(self.result_exponents)

    @property
    def channel_factors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """
        The powers of two by which each channel of the operand and of the result is multiplied, or
        `None` if channels are not scaled.
        """
        if (exponents := self.channel_exponents) is None:
            return None
        up, down = (np.array(values, np.float32) for values in exponents)
        return np.exp2(up), np.exp2(-down)

    def verify_semantics(self) -> None:
        if self.is_quantized:
            raise VerifyException("a quantized function must be 'graph.lookup'")
        if (self.input_exponents is None) != (self.result_exponents is None):
            raise VerifyException("exponents of operand and result must be given together")
        channels, slopes = (1, *shape_of(self.result))[-1], self.function.slopes
        if slopes is not None and (len(slopes) != channels or self.input_exponents is None):
            raise VerifyException(
                f"one slope, or {channels} slopes and exponents expected, got {len(slopes)} slopes"
            )
        for exponents in self.channel_exponents or ():
            if len(exponents) != channels or any(abs(e) > self.MAX_EXPONENT for e in exponents):
                raise VerifyException(
                    f"{channels} exponents <= {self.MAX_EXPONENT} expected, got {list(exponents)}"
                )


class Binary(StrEnum):
    """Elementwise functions of two arguments."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    """the quotient; for integers without the fraction, and 0 if the divisor is 0"""
    MIN = "min"
    """NaN if an operand is NaN"""
    MAX = "max"
    """NaN if an operand is NaN"""
    POW = "pow"
    """`float_functions.power`; of integers the exact power without fraction"""
    AND = "and"
    """bitwise, only of integers, as are the next two"""
    OR = "or"
    XOR = "xor"


@irdl_attr_definition
class BinaryAttr(EnumAttribute[Binary], SpacedOpaqueSyntaxAttribute):
    name = "graph.binary"


QUANTIZED_BINARIES = frozenset({Binary.ADD, Binary.SUB, Binary.MUL})
"""Functions with a quantized form."""

BITWISE_BINARIES = frozenset({Binary.AND, Binary.OR, Binary.XOR})
"""Functions without a float form."""


def _unless_one(multiplier: int) -> IntegerAttr[IntegerType] | None:
    return None if multiplier == 1 else IntegerAttr(multiplier, i64)


@irdl_op_definition
class BinaryOp(GraphOperation):
    """
    `activation(lhs op rhs)`, element by element, with broadcast operands. Plain integers wrap
    around and have no activation. Quantized, on stored integers minus their zero points, in 32
    bits:

    `add`, `sub`: `requant((lhs * lm << lhs_shift) op (rhs * rm << rhs_shift))`, with `lm` and `rm`
    of `lhs_multiplier` and `rhs_multiplier`, by default 1; `mul`: `requant(lhs * rhs)`. An
    accelerator without a multiplier accepts only shifts. With `lhs_requant` and `rhs_requant`, the
    shifted operands are requantized before they are added, as in the kernels of TensorFlow Lite.

        %z = graph.binary add %x, %y {activation = #graph.function<relu>}
            : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    """

    name = "graph.binary"
    ADMITS_INTEGERS: ClassVar = True

    MAX_SHIFT: ClassVar = 22
    MAX_MULTIPLIER: ClassVar = 1 << 22

    kind = prop_def(BinaryAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    activation = opt_prop_def(FunctionAttr)
    lhs_shift = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(0, i64))
    rhs_shift = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(0, i64))
    lhs_multiplier = opt_prop_def(IntegerAttr[IntegerType])
    rhs_multiplier = opt_prop_def(IntegerAttr[IntegerType])
    lhs_requant = opt_prop_def(RequantAttr)
    rhs_requant = opt_prop_def(RequantAttr)
    requant = opt_prop_def(RequantAttr)

    traits = traits_def(Elementwise(), MayOverwrite())
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
        multipliers: tuple[int, int] = (1, 1),
        addends: tuple[RequantAttr, RequantAttr] | None = None,
        requant: RequantAttr | None = None,
    ):
        shape = broadcast_shape(shape_of(lhs), shape_of(rhs))
        assert shape is not None
        super().__init__(
            operands=[lhs, rhs],
            result_types=[TensorType(result_element, shape)],
            properties={
                "kind": BinaryAttr(kind),
                "activation": activation,
                "lhs_shift": IntegerAttr(shifts[0], i64),
                "rhs_shift": IntegerAttr(shifts[1], i64),
                "lhs_multiplier": _unless_one(multipliers[0]),
                "rhs_multiplier": _unless_one(multipliers[1]),
                "lhs_requant": None if addends is None else addends[0],
                "rhs_requant": None if addends is None else addends[1],
                "requant": requant,
            },
        )

    @property
    def function(self) -> Binary:
        return self.kind.data

    @property
    def spelling(self) -> str:
        return f"{super().spelling} {self.function.value}"

    @property
    def rescales(self) -> bool:
        has_form = self.function in QUANTIZED_BINARIES and only_clips(self.activation)
        return has_form and not is_plain(self.result)

    @property
    def shifts(self) -> tuple[int, int]:
        """
        The left shifts of the stored operands of a quantized sum, which convert both to the same
        scale.
        """
        return self.lhs_shift.value.data, self.rhs_shift.value.data

    @property
    def multipliers(self) -> tuple[int, int]:
        """
        The integers by which the stored operands of a quantized sum are multiplied before the
        shifts; 1 by default.
        """
        lhs, rhs = self.lhs_multiplier, self.rhs_multiplier
        return 1 if lhs is None else lhs.value.data, 1 if rhs is None else rhs.value.data

    @property
    def addends(self) -> tuple[RequantAttr, RequantAttr] | None:
        """The requantization of each shifted operand before the sum, or `None`."""
        if self.lhs_requant is None or self.rhs_requant is None:
            return None
        return self.lhs_requant, self.rhs_requant

    @property
    def factors(self) -> tuple[int, int]:
        """
        The integer by which each stored operand is multiplied in total: the multiplier times
        `2**shift`.
        """
        (lm, rm), (ls, rs) = self.multipliers, self.shifts
        return lm << ls, rm << rs

    def verify_semantics(self) -> None:
        if any(not 0 <= s <= self.MAX_SHIFT for s in self.shifts):
            raise VerifyException(
                f"operand shifts must be in [0, {self.MAX_SHIFT}], got {list(self.shifts)}"
            )
        if any(f != 1 for f in self.factors) and (
            not self.is_quantized or self.function is Binary.MUL
        ):
            raise VerifyException("only quantized 'add' and 'sub' can shift operands")
        if any(not 1 <= f <= self.MAX_MULTIPLIER for f in (*self.multipliers, *self.factors)):
            raise VerifyException(
                f"operand multipliers, shifted, must be in [1, {self.MAX_MULTIPLIER}], "
                f"got {list(self.factors)}"
            )
        if (self.lhs_requant is None) != (self.rhs_requant is None):
            raise VerifyException("'lhs_requant' and 'rhs_requant' must be given together")
        for addend in self.addends or ():
            if not self.is_quantized or self.function is Binary.MUL or addend.is_per_channel:
                raise VerifyException(
                    "only quantized 'add' and 'sub' can requantize operands, by one multiplier"
                )
        if self.is_quantized and self.function not in QUANTIZED_BINARIES:
            raise VerifyException(
                f"'{self.function}' has no quantized form; dequantize the operands"
            )
        if not self.is_quantized:
            self._verify_plain()
        if self.activation is not None and self.is_quantized:
            raise VerifyException(
                "a quantized operation clamps in 'requant'; use 'graph.lookup' for other functions"
            )
        expect_rescaling(self, self.requant)

    def _verify_plain(self) -> None:
        elements = {element_of(v) for v in (self.lhs, self.rhs, self.result)}
        if len(elements) > 1 and not any(isinstance(e, UniformType) for e in elements):
            raise VerifyException(
                f"operands and result must have equal element types, got {element_of(self.lhs)}, "
                f"{element_of(self.rhs)} and {element_of(self.result)}"
            )
        is_float = element_of(self.result) == f32
        if is_float and self.function in BITWISE_BINARIES:
            raise VerifyException(f"'{self.kind.data}' requires integers, got {self.result.type}")
        if not is_float and self.activation is not None:
            raise VerifyException("an activation requires floats; cast the result")


@irdl_op_definition
class SoftmaxOp(InputOperation):
    """
    `e / sum(e)` along dimension `axis`, with `e = exp(x - max)`. The sum adds 16 partial sums in
    order; sum j adds elements j, j + 16, ... in order. After ONNX `Softmax` (opset 13).

        %y = graph.softmax %x {axis = 1 : i64} : tensor<2x4xf32>
    """

    name = "graph.softmax"
    DIMENSIONS: ClassVar = ("axis",)

    T: ClassVar = VarConstraint("T", base(TensorType))

    input = operand_def(T)
    axis = prop_def(IntegerAttr[IntegerType])
    result = result_def(T)

    assembly_format = "$input attr-dict `:` type($input)"

    def __init__(self, input: SSAValue, axis: int):
        super().__init__(input, {"axis": IntegerAttr(axis, i64)})

    @property
    def rescales(self) -> bool:
        return True

    def verify_semantics(self) -> None:
        expect_axis(self.axis.value.data, len(shape_of(self.input)))
        if self.is_quantized:
            raise VerifyException("softmax requires float; use integer_softmax for integers")


BENDS = (0.0523, 0.2669, 0.492, 0.3321, 0.112)
"""The real constants of `bends`; `|y - swish(x)|` is below 0.012, without rounding down."""


@irdl_op_definition
class ShiftSwishOp(InputOperation):
    """
    Piecewise linear swish on the stored integer `q` of `input` (int8 or int16, no zero point), in
    32 bits; `>>` rounds down:

    `p = max(q, -q)`, `m = min(q, -q)`, `tail = min((p >> 3) - k2, (p >> 4) - k3, (p >> 6) - k4, 0)`

    `result = requant(max(q, 0) + max(m >> 1, (m >> 2) - k0, -k1, tail))`, a shift.

    `bends = array<i64: k0, k1, k2, k3, k4>` has the constants 0.0523, 0.2669, 0.492, 0.3321 and
    0.112 in units of the input scale, for each channel of the last dimension if their scales
    differ. Each is in [0, 2^15).

        %y = graph.shift_swish %x {bends = array<i64: 1, 2, 4, 3, 1>,
            requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>}
            : (tensor<4x!quant.uniform<i16:f32, 0.125>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
    """

    name = "graph.shift_swish"

    MAX_BEND: ClassVar = (1 << 15) - 1

    bends = prop_def(DenseArrayBase.constr(i64))
    requant = prop_def(RequantAttr)

    traits = traits_def(Elementwise(), MayOverwrite())

    def __init__(
        self,
        input: SSAValue,
        bends: Sequence[int],
        result_element: Attribute,
        requant: RequantAttr,
    ):
        properties = {"bends": integers(bends), "requant": requant}
        super().__init__(input, properties, element=result_element)

    @property
    def depends_on_channel(self) -> bool:
        return len(self.channel_bends) > 1

    @property
    def channel_bends(self) -> list[tuple[int, ...]]:
        """
        The constants k0 to k4 of the formula of the class: a single tuple for all channels, or a
        tuple per channel.
        """
        values = [int(v) for v in self.bends.get_values()]
        return [tuple(values[i : i + 5]) for i in range(0, len(values), 5)]

    def verify_semantics(self) -> None:
        source = quantized_element(self.input)
        if source is None or source.storage.width.data > 16 or not source.is_signed:
            raise VerifyException(f"int8 or int16 elements expected, got {self.input.type}")
        if source.is_per_axis or source.zero_point:
            raise VerifyException(f"a single scale without zero point expected, got {source}")
        channels = (1, *shape_of(self.input))[-1]
        bends = [int(v) for v in self.bends.get_values()]
        if len(bends) not in (5, 5 * channels):
            raise VerifyException(f"5 or {5 * channels} bends expected, got {len(bends)}")
        if any(not 0 <= k <= self.MAX_BEND for k in bends):
            raise VerifyException(f"bends must be in [0, {self.MAX_BEND}]")
        if not self.requant.is_shift:
            raise VerifyException("'requant' must be a shift")
        expect_rescaling(self, self.requant)
