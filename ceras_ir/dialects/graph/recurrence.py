"""Recurrent layers: one operation for all steps, whose weights are there once."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, TensorType
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.graph.attributes import FunctionAttr
from ceras_ir.dialects.graph.constant import ConstantOp
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    expect_rank,
    expect_shape,
    shape_of,
)


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
    MAX_WIDTH: ClassVar = 1 << 14

    kind = prop_def(CellAttr)
    functions = prop_def(ArrayAttr[FunctionAttr])
    input = operand_def(TensorType)
    weights = operand_def(TensorType)
    state = operand_def(TensorType)
    cell = opt_operand_def(TensorType)
    bias = opt_operand_def(TensorType)

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
    ):
        steps, batch, _ = shape_of(input)
        shape = (steps + (kind is Cell.LSTM), batch, shape_of(state)[1])
        super().__init__(
            operands=[input, weights, state, cell, bias],
            result_types=[TensorType(element_of(input), shape)],
            properties={"kind": CellAttr(kind), "functions": ArrayAttr(functions)},
        )

    @property
    def type_of_cell(self) -> Cell:
        return self.kind.data

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
        if self.is_quantized:
            raise VerifyException("a recurrent layer is float; dequantize its input")
        expect_shape("result", self.result, (steps + (kind is Cell.LSTM), batch, hidden))
