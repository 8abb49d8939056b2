"""The poolings of a kernel before they are cut into blocks."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, MemRefType, i8, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import window_output
from ceras_ir.dialects.tile.memory import DRAM, memref_type, packed_vector, space_of


class _PoolOp(IRDLOperation):
    """What both poolings share: windows over planes."""

    kernel = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))
    padding = prop_def(DenseArrayBase.constr(i64))

    irdl_options = (ParsePropInAttrDict(),)

    def __init__(
        self,
        operands: Sequence[SSAValue],
        kernel: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[int],
        **numbers: int,
    ):
        windows = {"kernel": kernel, "strides": strides, "padding": padding}
        lists = {name: integers(values) for name, values in windows.items()}
        attributes = {name: IntegerAttr(value, i64) for name, value in numbers.items()}
        super().__init__(operands=operands, properties={**lists, **attributes})

    def verify_windows(
        self,
        source: SSAValue,
        target: SSAValue,
        *constants: tuple[str, SSAValue, tuple[int, ...]],
    ) -> None:
        """Check geometry and types; `constants` are other operands with the expected shapes."""
        vector = packed_vector(source)
        for value in self.operands:
            if space_of(value) != DRAM:
                raise VerifyException(f"operands must be in memory dram, got {value.type}")
        for name, length in (("kernel", 2), ("strides", 2), ("padding", 4)):
            values = getattr(self, name).get_values()
            if len(values) != length or min(values) < (name != "padding"):
                raise VerifyException(f"{name} must be {length} integers, got {list(values)}")
        n, c, h, w, *_ = memref_type(source).get_shape()
        (kh, kw), (sh, sw) = self.kernel.get_values(), self.strides.get_values()
        top, left, bottom, right = self.padding.get_values()
        oh = window_output(h, top, bottom, kh, sh, 1)
        ow = window_output(w, left, right, kw, sw, 1)
        for name, value, expected in (
            ("input", source, (n, c, h, w, *vector)),
            *constants,
            ("output", target, (n, c, oh, ow, *vector)),
        ):
            element = i32 if name == "bias" else i8
            if memref_type(value).element_type != element:
                raise VerifyException(f"{name} must be {element}, got {value.type}")
            if (got := memref_type(value).get_shape()) != expected:
                raise VerifyException(f"{name} must have shape {expected}, got {got}")


@irdl_op_definition
class MaxPoolOp(_PoolOp):
    """
    Maximum over windows of a packed buffer in DRAM, lane by lane:

    `output[n, c, y, x] = max over i, j of input[n, c, y*sh + i - top, x*sw + j - left]`

    where positions outside `input` count as `least`. `identity` is the BxB unit matrix, by which
    vectors come into the accumulators. Types: input and output [N, C/B, H, W, B] or, with R rows
    in a vector, [N/R, C/B, H, W, R, B], int8.
    """

    name = "tile.max_pool"

    input = operand_def(MemRefType)
    identity = operand_def(MemRefType)
    output = operand_def(MemRefType)
    least = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(0, i64))

    assembly_format = (
        "$input `,` $identity `to` $output attr-dict `:` type($input) `,` type($identity) `to` "
        "type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        identity: SSAValue,
        output: SSAValue,
        *,
        kernel: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[int],
        least: int = 0,
    ):
        super().__init__([input, identity, output], kernel, strides, padding, least=least)

    def verify_(self) -> None:
        if not -128 <= (least := self.least.value.data) <= 0:
            raise VerifyException(f"least must be in [-128, 0], got {least}")
        identity = ("identity", self.identity, packed_vector(self.input)[-1:] * 2)
        self.verify_windows(self.input, self.output, identity)


@irdl_op_definition
class AveragePoolOp(_PoolOp):
    """
    Scaled sum over windows of a packed buffer in DRAM, lane by lane, in int32:

    `sum[n, c, y, x, t] = sum over i, j of
       input[n, c, y*sh + i - top, x*sw + j - left] . transpose(weights[t])`
    `acc = sum[0]`, or `acc = (sum[0] << 7) + sum[1]` where there are two tiles of weights
    `output = clamp((acc + bias) >> shift, low, high)`

    where positions outside `input` contribute zero and `>>` floors. Types: input and output
    [N, C/B, H, W, B], int8; weights [1 or 2, B, B], int8; bias [B], int32, every lane the
    same number `addend`. With R rows in a vector, [R, B] stands for the last [B] of all but
    weights.
    """

    name = "tile.average_pool"

    DIGIT_BITS: ClassVar = 7

    input = operand_def(MemRefType)
    weights = operand_def(MemRefType)
    bias = operand_def(MemRefType)
    output = operand_def(MemRefType)
    addend = prop_def(IntegerAttr[IntegerType])
    shift = prop_def(IntegerAttr[IntegerType])
    low = prop_def(IntegerAttr[IntegerType])
    high = prop_def(IntegerAttr[IntegerType])

    assembly_format = (
        "$input `,` $weights `,` $bias `to` $output attr-dict `:` type($input) `,` "
        "type($weights) `,` type($bias) `to` type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        weights: SSAValue,
        bias: SSAValue,
        output: SSAValue,
        *,
        kernel: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[int],
        addend: int,
        shift: int,
        low: int,
        high: int,
    ):
        numbers = {"addend": addend, "shift": shift, "low": low, "high": high}
        super().__init__([input, weights, bias, output], kernel, strides, padding, **numbers)

    def verify_(self) -> None:
        tiles = memref_type(self.weights).get_shape()[0]
        if tiles not in (1, 2):
            raise VerifyException(f"one or two tiles of weights expected, got {tiles}")
        vector = packed_vector(self.input)
        weights = ("weights", self.weights, (tiles, *vector[-1:] * 2))
        bias = ("bias", self.bias, vector)
        self.verify_windows(self.input, self.output, weights, bias)
        if not 0 <= self.shift.value.data <= 31:
            raise VerifyException(f"shift must be in [0, 31], got {self.shift.value.data}")
        low, high = self.low.value.data, self.high.value.data
        if not -128 <= low <= high <= 127:
            raise VerifyException(f"[low, high] must be a range of int8, got [{low}, {high}]")
