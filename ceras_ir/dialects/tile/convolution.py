"""The contraction of a kernel before it is cut into blocks."""

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    MemRefType,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.operation import window_output
from ceras_ir.dialects.tile.memory import DRAM, LANES, memref_type, space_of
from ceras_ir.dialects.tile.schedule import ScheduleAttr

RESIDUAL_WEIGHT_BITS = 6
"""Most bits by which an int8 diagonal can move a residual left; 2^7 would not be int8."""


@irdl_op_definition
class Conv2dOp(IRDLOperation):
    """
    Convolution of packed buffers in DRAM, with `o`, `c` blocks of 16 channels, in int32:

    `acc[n, o, y, x] = bias[o] + sum over c, i, j of
       input[n, c, y*sh + i*dh - top, x*sw + j*dw - left] . transpose(weights[o, c, i, j])`
    `acc += (residual[n, o, y, x] . transpose(residual_weights)) << residual_shift`
    `output = clamp(acc >> shift, low, high)`

    where positions outside `input` contribute zero and `>>` is a floor shift: rounding is in
    `bias`. The sums must be proven to fit 32 bits. Types: input and residual
    [N, C/16, H, W, 16], weights [O/16, C/16, KH, KW, 16 out, 16 in], residual_weights [16, 16],
    bias [O/16, 16]. A matrix product is the convolution of an image of one row. Where
    `uniform_bias` is given, every lane of the bias is known to hold that number.
    """

    name = "tile.conv2d"

    input = operand_def(MemRefType)
    weights = operand_def(MemRefType)
    bias = operand_def(MemRefType)
    residual = opt_operand_def(MemRefType)
    residual_weights = opt_operand_def(MemRefType)
    output = operand_def(MemRefType)
    strides = prop_def(DenseArrayBase.constr(i64))
    padding = prop_def(DenseArrayBase.constr(i64))
    dilations = prop_def(DenseArrayBase.constr(i64))
    residual_shift = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(0, i64))
    shift = prop_def(IntegerAttr[IntegerType])
    low = prop_def(IntegerAttr[IntegerType])
    high = prop_def(IntegerAttr[IntegerType])
    uniform_bias = opt_prop_def(IntegerAttr[IntegerType])
    schedule = opt_prop_def(ScheduleAttr)

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$input `,` $weights `,` $bias "
        "(`residual` $residual^ `,` $residual_weights `:` type($residual) `,` "
        "type($residual_weights))? "
        "`to` $output attr-dict `:` type($input) `,` type($weights) `,` type($bias) `to` "
        "type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        weights: SSAValue,
        bias: SSAValue,
        residual: tuple[SSAValue, SSAValue] | None,
        output: SSAValue,
        *,
        strides: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0, 0, 0),
        dilations: Sequence[int] = (1, 1),
        residual_shift: int = 0,
        shift: int = 0,
        low: int = -128,
        high: int = 127,
        uniform_bias: int | None = None,
    ):
        properties: dict[str, Attribute | None] = {
            "strides": DenseArrayBase.from_list(i64, list(strides)),
            "padding": DenseArrayBase.from_list(i64, list(padding)),
            "dilations": DenseArrayBase.from_list(i64, list(dilations)),
            "residual_shift": IntegerAttr(residual_shift, i64),
            "shift": IntegerAttr(shift, i64),
            "low": IntegerAttr(low, i64),
            "high": IntegerAttr(high, i64),
            "uniform_bias": None if uniform_bias is None else IntegerAttr(uniform_bias, i64),
        }
        super().__init__(
            operands=[input, weights, bias, *(residual or (None, None)), output],
            properties=properties,
        )

    @property
    def bias_immediate(self) -> int | None:
        """The bias, where it is one number that an ALU operation can add."""
        if self.uniform_bias is None:
            return None
        value = self.uniform_bias.value.data
        return value if -(2**15) <= value < 2**15 else None

    def verify_(self) -> None:
        for value in self.operands:
            if space_of(value) != DRAM:
                raise VerifyException(f"operands must be in memory dram, got {value.type}")
            expected = i32 if value is self.bias else i8
            if memref_type(value).element_type != expected:
                raise VerifyException(f"elements must be {expected}, got {value.type}")
        if len(memref_type(self.input).get_shape()) != 5:
            raise VerifyException(f"input must be [N, C/16, H, W, 16], got {self.input.type}")
        for name, length in (("strides", 2), ("padding", 4), ("dilations", 2)):
            values = getattr(self, name).get_values()
            if len(values) != length or min(values) < (name != "padding"):
                raise VerifyException(f"{name} must be {length} integers, got {list(values)}")
        if len(memref_type(self.weights).get_shape()) != 6:
            raise VerifyException(
                f"weights must be [O/16, C/16, KH, KW, 16, 16], got {self.weights.type}"
            )
        n, c, h, w, _ = memref_type(self.input).get_shape()
        o, _, kh, kw, _, _ = memref_type(self.weights).get_shape()
        (sh, sw), (dh, dw) = self.strides.get_values(), self.dilations.get_values()
        top, left, bottom, right = self.padding.get_values()
        oh = window_output(h, top, bottom, kh, sh, dh)
        ow = window_output(w, left, right, kw, sw, dw)
        shapes = [
            ("input", self.input, (n, c, h, w, LANES)),
            ("weights", self.weights, (o, c, kh, kw, LANES, LANES)),
            ("bias", self.bias, (o, LANES)),
            ("output", self.output, (n, o, oh, ow, LANES)),
        ]
        if (self.residual is None) != (self.residual_weights is None):
            raise VerifyException("a residual and its weights belong together")
        if self.residual is not None and self.residual_weights is not None:
            shapes.append(("residual", self.residual, (n, o, oh, ow, LANES)))
            shapes.append(("residual_weights", self.residual_weights, (LANES, LANES)))
        for name, value, shape in shapes:
            if (got := memref_type(value).get_shape()) != shape:
                raise VerifyException(f"{name} must have shape {shape}, got {got}")
        if not -31 <= self.shift.value.data <= 31:
            raise VerifyException(f"shift must be in [-31, 31], got {self.shift.value.data}")
        if not 0 <= self.residual_shift.value.data <= 31:
            raise VerifyException(
                f"residual_shift must be in [0, 31], got {self.residual_shift.value.data}"
            )
        if not -128 <= self.low.value.data <= self.high.value.data <= 127:
            raise VerifyException(
                f"[low, high] must be a range of int8, got "
                f"[{self.low.value.data}, {self.high.value.data}]"
            )
