"""Recurrent layers: one operation for all steps, whose weights are there once."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
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
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.graph.attributes import FunctionAttr
from ceras_ir.dialects.graph.constant import ConstantOp, constant_array
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    expect_rank,
    expect_shape,
    shape_of,
)

MAX_EXPONENT = 60
"""Steps are so far from the ends of float32 that their products are normal numbers."""


class Cell(StrEnum):
    """What is computed in a step; `f`, `g` and `k` are the operation's functions in order."""

    RNN = "rnn"
    """`h = f(a)`"""
    GRU = "gru"
    """`z = f(a0)`, `r = f(a1)`, `n = g(x2 + r * p2)`, `h = ((1 - z) * n) + (z * h)`"""
    GRU_RESET_FIRST = "gru_reset_first"
    """the same, where `p2` is the product with `r * h` and `n = g(x2 + p2)`"""
    LSTM = "lstm"
    """`c = (f(a2) * c) + (f(a0) * g(a3))`, `h = f(a1) * k(c)`"""

    @property
    def gates(self) -> int:
        """Parts of the width of the state that the input has."""
        return {Cell.RNN: 1, Cell.LSTM: 4}.get(self, 3)

    @property
    def functions(self) -> int:
        """How many functions a step has."""
        return {Cell.RNN: 1, Cell.LSTM: 3}.get(self, 2)


@irdl_attr_definition
class CellAttr(EnumAttribute[Cell], SpacedOpaqueSyntaxAttribute):
    name = "graph.cell"


@irdl_op_definition
class RecurrenceOp(GraphOperation):
    """
    Steps of a `Cell` over `input` [T, B, G * H], which is the input's part of the gates of every
    step, with `weights` [G * H, H] of the state and a state [B, H] that begins as `state`. For
    every step, with `x` the input's row and `h` the state:

    `p[j] = (...((0 + h[0] * w[j, 0]) + h[1] * w[j, 1]) + ...) + bias[j]`, `a = x + p`

    where `x0`, `p0` and `a0` are the first H of them and so on, and a missing `bias` adds nothing.
    All in float32, every product and sum rounded. The result [T, B, H] has the state `h` after
    every step. An LSTM also has a cell state `c`, which begins as `cell`; the result then has one
    row more, [T + 1, B, H], the last of which is `c` after the last step. After ONNX `LSTM`, `GRU`
    and `RNN`.
    """

    name = "graph.recurrence"
    ADMITS_INTEGERS: ClassVar = True
    MAX_WIDTH: ClassVar = 1 << 14
    STATE_BOUND: ClassVar = 1 << 15
    """Magnitude of the integers that stand for the state."""

    kind = prop_def(CellAttr)
    functions = prop_def(ArrayAttr[FunctionAttr])
    input = operand_def(TensorType)
    weights = operand_def(TensorType)
    state = operand_def(TensorType)
    cell = opt_operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    state_exponent = opt_prop_def(IntegerAttr[I64])
    weight_exponents = opt_prop_def(DenseArrayBase[I64])

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
    ):
        """`exponents` of the state, and of every row of weights that are integers."""
        steps, batch, _ = shape_of(input)
        shape = (steps + (kind is Cell.LSTM), batch, shape_of(state)[1])
        integers: dict[str, Attribute] = {}
        if exponents is not None:
            integers["state_exponent"] = IntegerAttr(exponents[0], i64)
            integers["weight_exponents"] = DenseArrayBase.from_list(i64, exponents[1])
        super().__init__(
            operands=[input, weights, state, cell, bias],
            result_types=[TensorType(element_of(input), shape)],
            properties={"kind": CellAttr(kind), "functions": ArrayAttr(functions), **integers},
        )

    @property
    def type_of_cell(self) -> Cell:
        return self.kind.data

    @property
    def exponents(self) -> tuple[int, tuple[int, ...]] | None:
        """Of the state and of every row of weights, which are integers; None where all is float."""
        if self.state_exponent is None or self.weight_exponents is None:
            return None
        return self.state_exponent.value.data, self.weight_exponents.get_values()

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
    def largest_sum(cls, weights: NDArray[np.generic]) -> int:
        """What the magnitude of no sum exceeds."""
        return int(np.abs(weights.astype(np.int64)).sum(1).max()) * cls.STATE_BOUND

    def verify_semantics(self) -> None:
        kind = self.type_of_cell
        expect_rank("input", self.input, 3)
        expect_rank("state", self.state, 2)
        steps, batch, width = shape_of(self.input)
        hidden = shape_of(self.state)[1]
        if width != kind.gates * hidden or hidden > self.MAX_WIDTH:
            raise VerifyException(
                f"input of {kind.gates} times {hidden} columns expected for '{kind.value}', got "
                f"{width}"
            )
        expect_shape("state", self.state, (batch, hidden))
        expect_shape("weights", self.weights, (width, hidden))
        if (self.cell is not None) != (kind is Cell.LSTM):
            raise VerifyException("'lstm' has a cell state, and the others have none")
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
            raise VerifyException("a recurrent layer is float but for its weights; dequantize it")
        is_integer, exponents = element_of(self.weights) == i8, self.exponents
        if is_integer != (exponents is not None):
            raise VerifyException("weights of i8, and no others, have exponents, as the state has")
        if exponents is not None:
            state, rows = exponents
            if len(rows) != width:
                raise VerifyException(f"{width} exponents of weights expected, got {len(rows)}")
            if not all(-MAX_EXPONENT <= e <= MAX_EXPONENT for e in (state, *rows)):
                raise VerifyException(f"exponents must be within {MAX_EXPONENT} of 0")
            if (weights := constant_array(self.weights)) is None:
                raise VerifyException("weights of i8 must be constant")
            if (sums := self.largest_sum(weights)) >= 1 << 31:
                raise VerifyException(f"sums can reach {sums}, beyond 32 bits")
        expect_shape("result", self.result, (steps + (kind is Cell.LSTM), batch, hidden))
