"""Maximum and average pooling of feature maps over sliding windows."""

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
    """The function of a window."""

    MAX = "max"
    AVERAGE = "average"


@irdl_attr_definition
class PoolAttr(EnumAttribute[Pool], SpacedOpaqueSyntaxAttribute):
    name = "graph.pool"


@irdl_op_definition
class Pool2dOp(InputOperation):
    """
    Pool windows of `input` [N, H, W, C], per channel; `padding` is [top, left, bottom, right].

    `max`: the maximum of the elements inside the input; a quantized result has the input's scale.

    `average`: the sum of the elements inside the input, divided by their number, or by the size of
    the window with `count_include_pad`. Float sums start from 0. Each row of the window is added
    from left to right, then the rows from the top. Rounding errors therefore grow with height plus
    width, not with their product. For quantized elements, K is the window size and k the divisor of
    the float form:

    `requant(sum of (x - zero_point))` with the multiplier `(2*multiplier*K + k) / (2*k)`, rounded
    down.

    So `requant` contains the reciprocal of a full window. After ONNX `MaxPool`, `AveragePool`.

        %y = graph.pool2d max %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>}
            : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32>
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
        # A window that is entirely padding would have no elements.
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
            largest = prod(kernel) * (self.requant.multiplier.data if self.requant else 0)
            if any(padding) and not self.includes_padding and largest >= 1 << 31:
                raise VerifyException(
                    f"the multiplier of a single-element window must be below 2^31, got {largest}"
                )
        elif self.requant is not None:
            raise VerifyException("max pooling cannot have 'requant': it keeps the scale")
        elif quantized_element(self.input) != quantized_element(self.result):
            raise VerifyException(
                "max pooling must keep the element type of the input, "
                f"got {self.input.type} -> {self.result.type}"
            )


def average_requant(op: Pool2dOp, count: int) -> RequantAttr:
    """Return the requantization of a window with `count` elements inside the input."""
    assert op.requant is not None
    window = prod(op.kernel.get_values())
    if count == window:
        return op.requant
    full = op.requant.multiplier.data
    return op.requant.replaced(multiplier=(2 * full * window + count) // (2 * count))


def reciprocal_requant(window: int, input: SSAValue, result_scale: float) -> RequantAttr:
    """
    Return the division by `window` and the change of scale as a fixed-point multiplier.

    The shift leaves 31 bits for the multiplier of a single-element window. For equal scales and
    windows of up to 2^12 elements, the error of sums of int8 is below 2^-11 units of the result,
    and below 2^-3 for sums of int16.
    """
    ratio = scale_of(input) / result_scale / window
    shift = 0
    # The multiplier of a single-element window is `window` times that of the full window.
    while ratio * window * 2.0 ** (shift + 1) < 1 << 30 and shift < 40:
        shift += 1
    return RequantAttr(shift, multiplier=int(ratio * 2.0**shift + 0.5))
