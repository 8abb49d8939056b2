"""Recurrent layers: a single operation for all steps, with a single copy of the weights."""

from collections.abc import Sequence
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    Float32Type,
    IntegerAttr,
    TensorType,
    f32,
    i8,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_attr_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import FunctionAttr
from ceras_ir.dialects.graph.constant import ConstantOp, constant_array
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    expect_rank,
    expect_shape,
    shape_of,
)

MAX_STATE_EXPONENT = 60
"""Scales are far from the limits of float32, so that their products are normal."""


class Cell(StrEnum):
    """The function of a step; `f`, `g` and `k` are the operation's functions in order."""

    RNN = "rnn"
    """`h = f(a)`"""
    GRU = "gru"
    """`z = f(a0)`, `r = f(a1)`, `n = g(x2 + r * p2)`, `h = ((1 - z) * n) + (z * h)`"""
    GRU_RESET_FIRST = "gru_reset_first"
    """the same, but `p2` is the product with `r * h`, and `n = g(x2 + p2)`"""
    LSTM = "lstm"
    """`c = (f(a2) * c) + (f(a0) * g(a3))`, `h = f(a1) * k(c)`"""

    @property
    def gates(self) -> int:
        """
        The number of gates: the input has this number of columns for each element of the state.
        """
        return {Cell.RNN: 1, Cell.LSTM: 4}.get(self, 3)

    @property
    def functions(self) -> int:
        """The number of activation functions in a step."""
        return {Cell.RNN: 1, Cell.LSTM: 3}.get(self, 2)


@irdl_attr_definition
class CellAttr(EnumAttribute[Cell], SpacedOpaqueSyntaxAttribute):
    name = "graph.cell"


@irdl_op_definition
class RecurrenceOp(GraphOperation):
    """
    Run steps of a `Cell` over `input` [T, B, G * H], the contribution of the input to the gates,
    with `weights` [G * H, H] of the state and the initial `state` [B, H]. In each step, with `x`
    the row of the input and `h` the state:

    `p[j] = (...((0 + h[0] * w[j, 0]) + h[1] * w[j, 1]) + ...) + bias[j]`, `a = x + p`

    `x0`, `p0` and `a0` are the first H elements, and so on. The result [T, B, H] has the state `h`
    after each step. An LSTM also has a cell state `c`, with the initial value `cell`. Its result
    has an additional row, [T + 1, B, H], with the last `c`. After ONNX `LSTM`, `GRU` and `RNN`.

    Weights of i8 are multiplied by a state of integers `q`, with exact sums. With `state_exponent`
    s and `weight_exponents` e, an exponent for each row:

    `q[i] = clamp(round(h[i] * 2^-s), -2^15, 2^15 - 1)`, `p[j] = f32(sum of q[i] * w[j, i]) *
    2^(e[j] + s) + bias[j]`

    NaN counts as 0. An LSTM can instead have `weight_scales` v, per row or a common scale, and
    `weight_zero_point` z. Each step then quantizes the states `h` of the batch together to 8 bits,
    with a scale `d` and a zero point `m`:

    `low = min(0, all h)`, `high = max(0, all h)`, `d = (high - low) / 255`, or 1 for equal bounds,
    `m = clamp(round((0 - low) / d), 0, 255)`, `q[i] = clamp(round(h[i] / d) + m, 0, 255) - m`,
    `p[j] = f32(sum of q[i] * (w[j, i] - z)) * (d * v[j]) + bias[j]`

    `low` and `high` ignore NaN, and NaN quotients count as 0. After ONNX Runtime's
    `DynamicQuantizeLSTM`.

        %y = graph.recurrence gru %x, %w, %h bias %b : tensor<9xf32>
            {functions = [#graph.function<sigmoid>, #graph.function<tanh>]}
            : (tensor<5x2x9xf32>, tensor<9x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
    """

    name = "graph.recurrence"
    ADMITS_INTEGERS: ClassVar = True
    MAX_WIDTH: ClassVar = 1 << 14
    STATE_BOUND: ClassVar = 1 << 15
    """The largest magnitude of quantized states."""

    kind = prop_def(CellAttr)
    functions = prop_def(ArrayAttr[FunctionAttr])
    input = operand_def(TensorType)
    weights = operand_def(TensorType)
    state = operand_def(TensorType)
    cell = opt_operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    state_exponent = opt_prop_def(IntegerAttr[I64])
    weight_exponents = opt_prop_def(DenseArrayBase[I64])
    weight_scales = opt_prop_def(DenseArrayBase[Float32Type])
    weight_zero_point = opt_prop_def(IntegerAttr[I64])

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$kind $input `,` $weights `,` $state (`cell` $cell^ `:` type($cell))? "
        "(`bias` $bias^ `:` type($bias))? attr-dict `:` "
        "`(` type($input) `,` type($weights) `,` type($state) `)` `->` type($result)"
    )

    def __init__(
        self,
        kind: Cell,
        input: SSAValue,
        weights: SSAValue,
        state: SSAValue,
        functions: Sequence[FunctionAttr],
        *,
        cell: SSAValue | None = None,
        bias: SSAValue | None = None,
        exponents: tuple[int, Sequence[int]] | None = None,
        scales: tuple[Sequence[float], int] | None = None,
    ):
        """
        Create the operation. Integer weights need either `exponents`, the exponent of the scale of
        the state and of each row of weights, or `scales`, the scales and the zero point of the
        weights for a state that each step quantizes with a new scale.
        """
        steps, batch, _ = shape_of(input)
        shape = (steps + (kind is Cell.LSTM), batch, shape_of(state)[1])
        integers: dict[str, Attribute] = {}
        if exponents is not None:
            integers["state_exponent"] = IntegerAttr(exponents[0], i64)
            integers["weight_exponents"] = DenseArrayBase.from_list(i64, exponents[1])
        if scales is not None:
            integers["weight_scales"] = DenseArrayBase.from_list(f32, scales[0])
            integers["weight_zero_point"] = IntegerAttr(scales[1], i64)
        super().__init__(
            operands=[input, weights, state, cell, bias],
            result_types=[TensorType(element_of(input), shape)],
            properties={"kind": CellAttr(kind), "functions": ArrayAttr(functions), **integers},
        )

    @property
    def cell_kind(self) -> Cell:
        return self.kind.data

    @property
    def exponents(self) -> tuple[int, tuple[int, ...]] | None:
        """
        The exponent of the scale of the state, and the exponent of the scale of each row of
        weights. `None` for float weights, and if each step chooses the scale of the state.
        """
        if self.state_exponent is None or self.weight_exponents is None:
            return None
        return self.state_exponent.value.data, self.weight_exponents.get_values()

    @property
    def scales(self) -> tuple[NDArray[np.float32], int] | None:
        """
        The scales of integer weights (a single scale, or a scale for each row) and the zero point.
        `None` unless each step chooses the scale of the state.
        """
        if self.weight_scales is None or self.weight_zero_point is None:
            return None
        values = np.array(self.weight_scales.get_values(), np.float32)
        return values, self.weight_zero_point.value.data

    @property
    def is_integer(self) -> bool:
        """Whether the weights are int8, so that products are computed in integers."""
        return element_of(self.weights) == i8

    @property
    def spelling(self) -> str:
        return self.kind.data.value

    @property
    def macs(self) -> int:
        steps, batch, width = shape_of(self.input)
        return steps * batch * width * shape_of(self.state)[1]

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return [v for v in self.operands if not isinstance(v.owner, ConstantOp)]

    @classmethod
    def max_sum(cls, weights: NDArray[np.generic]) -> int:
        """
        Return the maximum magnitude that the sum of products of a row of integer weights and a
        quantized state can reach.
        """
        return int(np.abs(weights.astype(np.int64)).sum(1).max()) * cls.STATE_BOUND

    def verify_semantics(self) -> None:
        kind = self.cell_kind
        expect_rank("input", self.input, 3)
        expect_rank("state", self.state, 2)
        steps, batch, width = shape_of(self.input)
        hidden = shape_of(self.state)[1]
        if width != kind.gates * hidden or hidden > self.MAX_WIDTH:
            raise VerifyException(
                f"'{kind.value}' requires an input of {kind.gates} times {hidden} columns, got "
                f"{width}"
            )
        expect_shape("state", self.state, (batch, hidden))
        expect_shape("weights", self.weights, (width, hidden))
        if (self.cell is not None) != (kind is Cell.LSTM):
            raise VerifyException("only 'lstm' has a cell state, and requires it")
        if self.cell is not None:
            expect_shape("cell", self.cell, (batch, hidden))
        if self.bias is not None:
            expect_shape("bias", self.bias, (width,))
        if len(self.functions) != kind.functions:
            raise VerifyException(
                f"'{kind.value}' has {kind.functions} functions, got {len(self.functions)}"
            )
        floats = [v for v in (*self.operands, self.result) if v is not self.weights]
        if not all(element_of(v) == f32 for v in floats):
            raise VerifyException(
                "only weights of a recurrent layer can be quantized; dequantize other operands"
            )
        self._verify_integers(width)
        expect_shape("result", self.result, (steps + (kind is Cell.LSTM), batch, hidden))

    def _verify_integers(self, width: int) -> None:
        pairs = (
            (self.state_exponent, self.weight_exponents),
            (self.weight_scales, self.weight_zero_point),
        )
        given = sorted(sum(v is not None for v in pair) for pair in pairs)
        if given != ([0, 2] if self.is_integer else [0, 0]):
            raise VerifyException(
                "weights of i8 require exponents of state and weights, or scales and a zero point; "
                "float weights have neither"
            )
        if not self.is_integer:
            return
        if (weights := constant_array(self.weights)) is None:
            raise VerifyException("weights of i8 must be constant")
        if (exponents := self.exponents) is not None:
            state, rows = exponents
            if len(rows) != width:
                raise VerifyException(f"expected {width} exponents of weights, got {len(rows)}")
            if not all(-MAX_STATE_EXPONENT <= e <= MAX_STATE_EXPONENT for e in (state, *rows)):
                raise VerifyException(
                    f"exponents must be in [-{MAX_STATE_EXPONENT}, {MAX_STATE_EXPONENT}]"
                )
            if (sums := self.max_sum(weights)) >= 1 << 31:
                raise VerifyException(f"sums can reach {sums}, which exceeds 32 bits")
        if (scales := self.scales) is not None:
            # No sum of up to `MAX_WIDTH` products of 8 bits exceeds 32 bits.
            values, zero_point = scales
            if self.cell_kind is not Cell.LSTM:
                raise VerifyException(f"only 'lstm' can have scales, got '{self.spelling}'")
            if len(values) not in (1, width):
                raise VerifyException(f"expected 1 or {width} scales, got {len(values)}")
            if not all(0 <= v < inf for v in values.tolist()):
                raise VerifyException("scales must be finite and not negative")
            if not -128 <= zero_point < 128:
                raise VerifyException(f"the zero point must be an i8, got {zero_point}")
