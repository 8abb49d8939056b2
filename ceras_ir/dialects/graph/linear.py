"""
Operations that multiply and accumulate: convolution and matrix product.

Both share one epilogue. In float: `activation(acc + bias + residual)`, where the order of the
sum `acc` is the target's choice, unless the operation is `ordered`: then it is
`(...((0 + p0) + p1) + ...)` over the products of the input and the weights of one output, as the
weights lie in memory, every product and every sum rounded to float32. Weights of ordered sums
may be int8 with one scale S and no zero point: products are of the stored numbers as float32, and
the sum is multiplied by S, rounded, before the bias (S4). Quantized, with
stored integers and `acc` the exact sum of products of `x - zero_point(x)` and
`w - zero_point(w)` (padding contributes nothing):

`requant(acc + bias + ((residual - zero_point(residual)) << residual_shift))`

With a `table` of 256 int8 or float32 entries the requantization makes int8, and the result is
`table[q + 128]` of it; with `rows`, channel `c` looks up in row `rows[c]`, as in `graph.lookup`.

`bias` is stored in 32 bits at scale(input) * scale(weights). Weights may have a scale and a
zero point per output channel; then so has the bias, and `requant` a multiplier for each, by
which the channel's sums are multiplied. `residual_shift` is then a list, one for each channel,
unless all are equal. The sum must be proven to fit
32 bits for every input, in any order of addition; so there is no overflow to define.

Sums run over the weights that the constant stores: of one that is encoded (dialect `sparse`) those
it lists, else all. Only an infinity, or no number, times a zero that is not stored tells the two
apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.attributes import FunctionAttr, integers
from ceras_ir.dialects.graph.linear_operation import LinearOperation, epilogue_properties
from ceras_ir.dialects.graph.operation import (
    Tensor,
    expect_length,
    expect_rank,
    expect_shape,
    shape_of,
    window_output,
)
from ceras_ir.dialects.quant import RequantAttr

if TYPE_CHECKING:
    pass


@irdl_op_definition
class Conv2dOp(LinearOperation):
    """
    Two-dimensional cross-correlation of `input` [N, H, W, C] with `weights` [O, KH, KW, C/g]:

    `acc[n, y, x, o] = sum over i, j, c of
       input[n, y*sh + i*dh - top, x*sw + j*dw - left, group(o)*C/g + c] * weights[o, i, j, c]`

    where positions outside `input` contribute zero, `padding` is [top, left, bottom, right],
    and `group(o) = o / (O/g)`. Epilogue as the module says. After ONNX `Conv`.
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

    @property
    def shares_nothing(self) -> bool:
        return shape_of(self.weights)[3] == 1

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
                f"weights of {per_group} channels in {g} groups expect {per_group * g} input "
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

    Epilogue as the module says. After ONNX `Gemm` with transB = 1.
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
            raise VerifyException(f"input of {k} columns cannot meet weights of {wk} columns")
        expect_shape("result", self.result, (m, n))
        self.verify_epilogue(n)


def is_depthwise(op: Operation) -> bool:
    """Whether each channel is convolved by itself into one."""
    if not isinstance(op, Conv2dOp) or op.group_count == 1:
        return False
    outputs, _, _, channels = shape_of(op.weights)
    return channels == 1 and outputs == op.group_count
