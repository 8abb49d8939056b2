"""
Convolution and matrix product, with their common output stage.

1. Float: `activation(acc + bias + residual)`. The target chooses the order of the sum `acc`, unless
   the operation is `ordered`. Then it is `(...((0 + p0) + p1) + ...)` over the products for an
   output, in the memory order of weights, with each product and sum rounded to float32.
2. Weights of ordered sums may be int8 with a single scale S and no zero point. Products use the
   stored integers as float32. The sum is multiplied by S before the bias (paper S4).
3. Quantized: `requant(acc + bias + ((residual - zero_point(residual)) << residual_shift))`, with
   `acc` the exact sum of products of `x - zero_point(x)` and `w - zero_point(w)`. Padding
   contributes 0.
4. With a `table` of 256 int8 or float32 entries, the requantization returns an int8 `q`, and the
   result is `table[q + 128]`. With `rows`, channel `c` uses row `rows[c]`, as in `graph.lookup`.

`bias` is stored in 32 bits at scale(input) * scale(weights). If weights have a scale and a zero
point per output channel, so has the bias, and `requant` has a multiplier per channel.
`residual_shift` is a list of shifts per channel, unless all are equal. Sums must be proven to fit
32 bits in any order of addition, so overflow is undefined.

Sums include only the weights that a `sparse` encoding lists. This matters only if an omitted weight
0 is multiplied by an infinity or NaN.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import FunctionAttr, integers
from ceras_ir.dialects.graph.constant import ConstantOp
from ceras_ir.dialects.graph.lookup import (
    BYTE_ENTRIES,
    FUNCTION,
    expect_tables,
    rows_of_channels,
    table_arrays,
    table_shape,
)
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    Tensor,
    element_of,
    expect_length,
    expect_multipliers,
    expect_rank,
    expect_rescaling,
    expect_shape,
    only_clips,
    quantized_element,
    shape_of,
    window_output,
)
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.dialects.sparse import Encoded

MAX_RESIDUAL_SHIFT = 23
"""A residual of 8 bits with a larger shift would not fit the 32-bit accumulator."""

MAX_TAPS, MAX_COMPUTED_TAPS = 1 << 22, 1 << 16
"""The maximum products per accumulator of a quantized form, for constant and computed weights."""


class LinearOperation(GraphOperation, ABC):
    """A multiply-accumulate operation with the common output stage."""

    input = operand_def(TensorType)
    weights = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    residual = opt_operand_def(TensorType)
    activation = opt_prop_def(FunctionAttr)
    requant = opt_prop_def(RequantAttr)
    residual_shift = opt_prop_def(IntegerAttr[IntegerType] | DenseArrayBase[IntegerType])
    ordered = opt_prop_def(UnitAttr)
    table = opt_prop_def(DenseIntOrFPElementsAttr)
    rows = opt_prop_def(DenseArrayBase.constr(i64))

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$input `,` $weights (`bias` $bias^ `:` type($bias))? "
        "(`residual` $residual^ `:` type($residual))? "
        "attr-dict `:` `(` type($input) `,` type($weights) `)` `->` type($result)"
    )

    @property
    def is_quantized(self) -> bool:
        # A table may convert the integers to floats.
        return self.table is not None or super().is_quantized

    @property
    def tables(self) -> NDArray[np.int8 | np.int16 | np.float32] | None:
        """
        The lookup tables that compute the activation in the output stage, as rows of an array, or
        `None`.
        """
        return None if self.table is None else table_arrays(self.table)

    @property
    def channel_rows(self) -> tuple[int, ...] | None:
        """
        The index of the lookup table (a row of `tables`) of each output channel, or `None` if all
        channels share a table.
        """
        return rows_of_channels(self.rows)

    @property
    def residual_shifts(self) -> tuple[int, ...]:
        """
        The left shift of a quantized residual before it is added to the accumulator: a single
        shift, or a shift for each output channel. It is 0 without a residual.
        """
        if (shifts := self.residual_shift) is None:
            return (0,)
        return (shifts.value.data,) if isinstance(shifts, IntegerAttr) else shifts.get_values()

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        weights = None if isinstance(self.weights.owner, ConstantOp) else self.weights
        return [v for v in (self.input, weights, self.residual) if v is not None]

    @property
    def rescales(self) -> bool:
        # A computed bias would need the scale of the accumulator.
        if self.bias is not None and not isinstance(self.bias.owner, ConstantOp):
            return False
        # With more products no scale of the weights would keep the accumulator in 32 bits.
        constant = isinstance(self.weights.owner, ConstantOp)
        taps = prod(shape_of(self.weights)[1:])
        return only_clips(self.activation) and taps < (MAX_TAPS if constant else MAX_COMPUTED_TAPS)

    @property
    def macs(self) -> int:
        """The number of multiplications, including products with the padding."""
        return prod(shape_of(self.result)) * prod(shape_of(self.weights)[1:])

    @property
    def has_single_channel_groups(self) -> bool:
        """
        Whether each output channel depends on a single input channel, as in depthwise convolutions.
        """
        return shape_of(self.weights)[3:] == (1,)

    @property
    def encoded_weights(self) -> Encoded | None:
        """The sparse encoding of constant weights, or `None` if all weights are stored."""
        constant = self.weights.owner
        return constant.encoded if isinstance(constant, ConstantOp) else None

    @property
    def weight_scale(self) -> float | None:
        """The scale of int8 weights of an operation that computes in float, or `None`."""
        element = quantized_element(self.weights)
        return None if element is None or self.is_quantized else element.scale

    @property
    def spelling(self) -> str:
        encoded = self.encoded_weights
        words = [super().spelling, *([] if encoded is None else [encoded.spelling])]
        if self.table is not None:
            tabulated = self.attributes.get(FUNCTION)
            known = isinstance(tabulated, FunctionAttr)
            words += [tabulated.data.value if known else "table"]
        return " ".join([*words, *([] if self.weight_scale is None else ["int8"])])

    def _verify_mixed(self, element: UniformType) -> None:
        floats = (self.input, self.bias, self.residual, self.result)
        is_mixed = any(v is not None and quantized_element(v) is not None for v in floats)
        if is_mixed or self.ordered is None:
            raise VerifyException(
                "operands and result must be all float or all quantized, except weights of "
                "'ordered' sums"
            )
        if element.is_per_axis or element != UniformType(element.scale):
            raise VerifyException(
                "weights of float sums must be f32, or i8 with a single scale and no zero point, "
                f"got {element}"
            )
        if self.requant is not None:
            raise VerifyException("a float operation cannot have 'requant'")

    def verify_epilogue(self, channels: int) -> None:
        if self.bias is not None:
            expect_shape("bias", self.bias, (channels,))
            element = quantized_element(self.bias)
            if element is not None and element.storage.width.data != 32:
                raise VerifyException(f"bias must be stored in 32 bits, got {element.storage}")
        if self.residual is not None:
            expect_shape("residual", self.residual, shape_of(self.result))
        if self.residual_shift is not None:
            if self.residual is None or not self.is_quantized:
                raise VerifyException("'residual_shift' needs a quantized residual")
            shifts = self.residual_shifts
            if isinstance(self.residual_shift, DenseArrayBase) and len(shifts) != channels:
                raise VerifyException(
                    f"'residual_shift' has {len(shifts)} shifts, expected {channels}"
                )
            if wrong := [s for s in shifts if not 0 <= s <= MAX_RESIDUAL_SHIFT]:
                raise VerifyException(
                    f"residual_shift must be in [0, {MAX_RESIDUAL_SHIFT}], got {wrong[0]}"
                )
        if (element := quantized_element(self.weights)) is not None and not self.is_quantized:
            self._verify_mixed(element)
            return
        if self.ordered is not None and self.is_quantized:
            raise VerifyException("'ordered' requires floats; integer sums are exact in any order")
        if self.activation is not None and self.is_quantized:
            raise VerifyException(
                "a quantized operation clamps in 'requant'; use 'graph.lookup' for other functions"
            )
        if self.table is not None:
            self._verify_table(channels)
            return
        if self.rows is not None:
            raise VerifyException("'rows' needs a 'table'")
        expect_rescaling(self, self.requant, channels)

    def _verify_table(self, channels: int) -> None:
        assert self.table is not None
        target = quantized_element(self.result)
        storage = element_of(self.result) if target is None else target.storage
        if target is not None and not (target.is_signed and target.storage.width.data == 8):
            raise VerifyException(f"a table must return int8 or f32, got {self.result.type}")
        expect_tables(self.table, self.rows, storage, channels)
        if (entries := table_shape(self.table)[1]) != BYTE_ENTRIES:
            raise VerifyException(f"a table for int8 has {BYTE_ENTRIES} entries, got {entries}")
        if any(quantized_element(v) is None for v in self.operands) or self.requant is None:
            raise VerifyException("a 'table' needs quantized operands and 'requant'")
        expect_multipliers(self.requant, channels)
        if not -128 <= self.requant.low.data <= self.requant.high.data <= 127:
            raise VerifyException("the clamp range before a table must be in [-128, 127]")


def shifts_of_channels(shifts: Sequence[int]) -> IntegerAttr | DenseArrayBase[IntegerType]:
    """
    Return the attribute `residual_shift` for the shifts of the output channels: a single integer if
    all are equal, otherwise an array.
    """
    return IntegerAttr(shifts[0], i64) if len(set(shifts)) == 1 else integers(shifts)


def epilogue_properties(
    activation: FunctionAttr | None,
    requant: RequantAttr | None,
    residual_shift: int | Sequence[int] | None,
) -> dict[str, Attribute | None]:
    shifts = (residual_shift,) if isinstance(residual_shift, int) else residual_shift
    return {
        "activation": activation,
        "requant": requant,
        "residual_shift": None if shifts is None else shifts_of_channels(shifts),
    }


@irdl_op_definition
class Conv2dOp(LinearOperation):
    """
    Cross-correlation of `input` [N, H, W, C] with `weights` [O, KH, KW, C/g]:

    `acc[n, y, x, o] = sum over i, j, c of input[n, y*sh + i*dh - top, x*sw + j*dw - left,
    group(o)*C/g + c] * weights[o, i, j, c]`

    Positions outside `input` contribute 0, `padding` is [top, left, bottom, right], and `group(o) =
    o / (O/g)`. After ONNX `Conv`.

        %y = graph.conv2d %x, %w bias %b : tensor<6xf32>
            {padding = array<i64: 1, 1, 1, 1>, activation = #graph.function<relu>}
            : (tensor<1x8x8x4xf32>, tensor<6x3x3x4xf32>) -> tensor<1x8x8x6xf32>
    """

    name = "graph.conv2d"

    strides = prop_def(DenseArrayBase.constr(i64), default_value=integers((1, 1)))
    padding = prop_def(DenseArrayBase.constr(i64), default_value=integers((0, 0, 0, 0)))
    dilations = prop_def(DenseArrayBase.constr(i64), default_value=integers((1, 1)))
    groups = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(1, i64))

    def __init__(
        self,
        input: SSAValue,
        weights: SSAValue,
        bias: SSAValue | None = None,
        residual: SSAValue | None = None,
        *,
        result_element: Attribute,
        strides: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0, 0, 0),
        dilations: Sequence[int] = (1, 1),
        groups: int = 1,
        activation: FunctionAttr | None = None,
        requant: RequantAttr | None = None,
        residual_shift: int | Sequence[int] | None = None,
    ):
        n, h, w, _ = shape_of(input)
        o, kh, kw, _ = shape_of(weights)
        top, left, bottom, right = padding
        oh = window_output(h, top, bottom, kh, strides[0], dilations[0])
        ow = window_output(w, left, right, kw, strides[1], dilations[1])
        super().__init__(
            operands=[input, weights, bias, residual],
            result_types=[TensorType(result_element, (n, oh, ow, o))],
            properties={
                "strides": integers(strides),
                "padding": integers(padding),
                "dilations": integers(dilations),
                "groups": IntegerAttr(groups, i64),
                **epilogue_properties(activation, requant, residual_shift),
            },
        )

    @property
    def window(self) -> tuple[int, ...]:
        return shape_of(self.weights)[1:3]

    @property
    def group_count(self) -> int:
        return self.groups.value.data

    def verify_semantics(self) -> None:
        expect_rank("input", self.input, 4)
        expect_rank("weights", self.weights, 4)
        expect_length("strides", strides := self.strides.get_values(), 2, 1)
        expect_length("padding", padding := self.padding.get_values(), 4, 0)
        expect_length("dilations", dilations := self.dilations.get_values(), 2, 1)
        n, h, w, c = shape_of(self.input)
        o, kh, kw, per_group = shape_of(self.weights)
        g = self.group_count
        if g < 1 or c % g or o % g:
            raise VerifyException(f"groups must divide {c} input and {o} output channels, got {g}")
        if per_group * g != c:
            raise VerifyException(
                f"weights of {per_group} channels in {g} groups require {per_group * g} input "
                f"channels, got {c}"
            )
        oh = window_output(h, padding[0], padding[2], kh, strides[0], dilations[0])
        ow = window_output(w, padding[1], padding[3], kw, strides[1], dilations[1])
        if oh < 1 or ow < 1:
            raise VerifyException(f"a {kh}x{kw} window does not fit the padded input of {h}x{w}")
        expect_shape("result", self.result, (n, oh, ow, o))
        self.verify_epilogue(o)


@irdl_op_definition
class MatmulOp(LinearOperation):
    """
    Matrix product of `input` [M, K] with transposed `weights` [N, K]:

    `acc[m, n] = sum over k of input[m, k] * weights[n, k]`

    After ONNX `Gemm` with transB = 1.

        %y = graph.matmul %x, %w
            {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>}
            : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>)
            -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
    """

    name = "graph.matmul"

    def __init__(
        self,
        input: SSAValue,
        weights: SSAValue,
        bias: SSAValue | None = None,
        residual: SSAValue | None = None,
        *,
        result_element: Attribute,
        activation: FunctionAttr | None = None,
        requant: RequantAttr | None = None,
        residual_shift: int | Sequence[int] | None = None,
    ):
        result_type: Tensor = TensorType(result_element, (shape_of(input)[0], shape_of(weights)[0]))
        super().__init__(
            operands=[input, weights, bias, residual],
            result_types=[result_type],
            properties=epilogue_properties(activation, requant, residual_shift),
        )

    def verify_semantics(self) -> None:
        expect_rank("input", self.input, 2)
        expect_rank("weights", self.weights, 2)
        (m, k), (n, wk) = shape_of(self.input), shape_of(self.weights)
        if k != wk:
            raise VerifyException(f"input of {k} columns does not match weights of {wk} columns")
        expect_shape("result", self.result, (m, n))
        self.verify_epilogue(n)


def is_depthwise(op: Operation) -> bool:
    """Return whether `op` is a depthwise convolution, with a single filter for each channel."""
    if not isinstance(op, Conv2dOp) or op.group_count == 1:
        return False
    outputs, _, _, channels = shape_of(op.weights)
    return channels == 1 and outputs == op.group_count
