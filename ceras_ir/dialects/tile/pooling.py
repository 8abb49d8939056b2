"""The maximum pooling of a kernel before it is cut into blocks."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i8, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.operation import window_output
from ceras_ir.dialects.tile.memory import DRAM, LANES, memref_type, space_of


@irdl_op_definition
class MaxPoolOp(IRDLOperation):
    """
    Maximum over windows of a packed buffer in DRAM, lane by lane:

    `output[n, c, y, x] = max over i, j of input[n, c, y*sh + i - top, x*sw + j - left]`

    where positions outside `input` count as zero, so that padding is right only for inputs
    that are never negative. `identity` is the 16x16 unit matrix, by which vectors come into the
    accumulators. Types: input and output [N, C/16, H, W, 16], int8.
    """

    name = "tile.max_pool"

    input = operand_def(MemRefType)
    identity = operand_def(MemRefType)
    output = operand_def(MemRefType)
    kernel = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))
    padding = prop_def(DenseArrayBase.constr(i64))

    irdl_options = (ParsePropInAttrDict(),)
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
    ):
        named = {"kernel": kernel, "strides": strides, "padding": padding}
        super().__init__(
            operands=[input, identity, output],
            properties={k: DenseArrayBase.from_list(i64, list(v)) for k, v in named.items()},
        )

    def verify_(self) -> None:
        for value in self.operands:
            if space_of(value) != DRAM or memref_type(value).element_type != i8:
                raise VerifyException(f"operands must be i8 in memory dram, got {value.type}")
        for name, length in (("kernel", 2), ("strides", 2), ("padding", 4)):
            values = getattr(self, name).get_values()
            if len(values) != length or min(values) < (name != "padding"):
                raise VerifyException(f"{name} must be {length} integers, got {list(values)}")
        shape = memref_type(self.input).get_shape()
        if len(shape) != 5:
            raise VerifyException(f"input must be [N, C/16, H, W, 16], got {self.input.type}")
        n, c, h, w, _ = shape
        (kh, kw), (sh, sw) = self.kernel.get_values(), self.strides.get_values()
        top, left, bottom, right = self.padding.get_values()
        oh = window_output(h, top, bottom, kh, sh, 1)
        ow = window_output(w, left, right, kw, sw, 1)
        for name, value, expected in (
            ("input", self.input, (n, c, h, w, LANES)),
            ("identity", self.identity, (LANES, LANES)),
            ("output", self.output, (n, c, oh, ow, LANES)),
        ):
            if (got := memref_type(value).get_shape()) != expected:
                raise VerifyException(f"{name} must have shape {expected}, got {got}")
