"""Pooling of feature maps: maximum and average over sliding windows."""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import (
    InputOperation,
    expect_length,
    expect_rank,
    expect_rescaling,
    expect_shape,
    quantized_element,
    scale_of,
    shape_of,
    window_extent,
    window_output,
)
from ceras_ir.dialects.quant import RequantAttr


class Pool(StrEnum):
    """What is taken of a window."""

    MAX = "max"
    AVERAGE = "average"


@irdl_attr_definition
class PoolAttr(EnumAttribute[Pool], SpacedOpaqueSyntaxAttribute):
    name = "graph.pool"


@irdl_op_definition
class Pool2dOp(InputOperation):
    """
    Pool windows of `input` [N, H, W, C], per channel; `padding` is [top, left, bottom, right].

    `max`: the greatest element inside the input; a quantized result has the input's scale.

    `average`: the sum of the elements inside the input, divided by their number, or by the size of
    the window with `count_include_pad`. Floats are added from 0, each row of the window from left
    to right, then the rows from the top: errors grow with height and width, not with their
    product. Quantized, with K the
    size of the window and k the number that float would divide by:

    `requant(sum of (x - zero_point))` with the multiplier `(2*multiplier*K + k) / (2*k)`, floored.

    So `requant` holds the reciprocal of a full window. After ONNX `MaxPool`, `AveragePool`.
    """

    name = "graph.pool2d"

    kind = prop_def(PoolAttr)
    kernel = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64), default_value=integers((1, 1)))
    padding = prop_def(DenseArrayBase.constr(i64), default_value=integers((0, 0, 0, 0)))
    dilations = prop_def(DenseArrayBase.constr(i64), default_value=integers((1, 1)))
    count_include_pad = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    requant = opt_prop_def(RequantAttr)

    assembly_format = "$kind $input attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        kind: Pool,
        input: SSAValue,
        kernel: Sequence[int],
        *,
        result_element: Attribute,
        strides: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0, 0, 0),
        dilations: Sequence[int] = (1, 1),
        count_include_pad: bool = False,
        requant: RequantAttr | None = None,
    ):
        n, h, w, c = shape_of(input)
        oh = window_output(h, padding[0], padding[2], kernel[0], strides[0], dilations[0])
        ow = window_output(w, padding[1], padding[3], kernel[1], strides[1], dilations[1])
        properties = {
            "kind": PoolAttr(kind),
            "kernel": integers(kernel),
            "strides": integers(strides),
            "padding": integers(padding),
            "dilations": integers(dilations),
            "count_include_pad": BoolAttr.from_bool(count_include_pad),
            "requant": requant,
        }
        super().__init__(input, properties, shape=(n, oh, ow, c), element=result_element)

    @property
    def function(self) -> Pool:
        return self.kind.data

    @property
    def spelling(self) -> str:
        return f"{super().spelling} {self.function.value}"

    @property
    def window(self) -> tuple[int, ...]:
        return tuple(int(k) for k in self.kernel.get_values())

    @property
    def keeps_scale(self) -> bool:
        return self.function is Pool.MAX

    @property
    def rescales(self) -> bool:
        return self.function is Pool.AVERAGE

    @property
    def keeps_channels(self) -> bool:
        return True

    @property
    def includes_padding(self) -> bool:
        return bool(self.count_include_pad.value.data)

    def verify_semantics(self) -> None:
        expect_rank("input", self.input, 4)
        expect_length("kernel", kernel := self.kernel.get_values(), 2, 1)
        expect_length("strides", strides := self.strides.get_values(), 2, 1)
        expect_length("padding", padding := self.padding.get_values(), 4, 0)
        expect_length("dilations", dilations := self.dilations.get_values(), 2, 1)
        n, h, w, c = shape_of(self.input)
        extent = [window_extent(k, d) for k, d in zip(kernel, dilations, strict=True)]
        # A window wholly in the padding would have nothing to take.
        if any(padding[i] >= extent[i % 2] for i in range(4)):
            raise VerifyException(
                f"padding {list(padding)} must be smaller than the window of {extent}"
            )
        oh = window_output(h, padding[0], padding[2], kernel[0], strides[0], dilations[0])
        ow = window_output(w, padding[1], padding[3], kernel[1], strides[1], dilations[1])
        if oh < 1 or ow < 1:
            raise VerifyException(f"a window of {extent} does not fit the padded input of {h}x{w}")
        expect_shape("result", self.result, (n, oh, ow, c))
        if self.function is Pool.AVERAGE:
            expect_rescaling(self, self.requant)
            most = prod(kernel) * (self.requant.multiplier.data if self.requant else 0)
            if any(padding) and not self.includes_padding and most >= 1 << 31:
                raise VerifyException(
                    f"the multiplier of a window of one element must be below 2^31, got {most}"
                )
        elif self.requant is not None:
            raise VerifyException("max pooling cannot have 'requant': it never leaves its scale")
        elif quantized_element(self.input) != quantized_element(self.result):
            raise VerifyException(
                "max pooling must keep the element type of its input, "
                f"got {self.input.type} -> {self.result.type}"
            )


def average_requant(op: Pool2dOp, count: int) -> RequantAttr:
    """The requantization of a window with `count` elements inside the input, as documented."""
    assert op.requant is not None
    window = 1
    for extent in op.kernel.get_values():
        window *= extent
    if count == window:
        return op.requant
    full = op.requant.multiplier.data
    return op.requant.replaced(multiplier=(2 * full * window + count) // (2 * count))


def reciprocal_requant(window: int, input: SSAValue, result_scale: float) -> RequantAttr:
    """
    Division by `window` and the change of scale as a fixed-point multiplier.

    The shift is such that the multiplier of a window of one element still has 31 bits; the
    error against exact division stays below 2^-11 of a unit in the last place for sums of
    int8 over windows up to 2^12 elements at equal scales, 2^-3 for sums of int16.
    """
    ratio = scale_of(input) / result_scale / window
    shift = 0
    # The multiplier of a window of one element is `window` times the full one's.
    while ratio * window * 2.0 ** (shift + 1) < 1 << 30 and shift < 40:
        shift += 1
    return RequantAttr(shift, multiplier=int(ratio * 2.0**shift + 0.5))
