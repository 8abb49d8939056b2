"""Pooling of feature maps over sliding windows, and resizing, which can interpolate."""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, UnitAttr, f64, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import (
    InputOperation,
    expect_length,
    expect_rank,
    expect_rescaling,
    expect_same_element,
    expect_shape,
    quantized_element,
    scale_of,
    shape_of,
    stored_element,
    window_extent,
    window_output,
)
from ceras_ir.dialects.quant import RequantAttr


class Pool(StrEnum):
    """The reduction of the elements of a window."""

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
    the window with `count_include_pad`. Float sums start from 0. The elements of each row of the
    window are summed from left to right, then the sums of the rows are added from the top. For a
    quantized average, K is the window size and k the divisor of the float form:

    `requant(sum of (x - zero_point))` with the multiplier `floor((2*multiplier*K + k) / (2*k))`.

    `requant` contains the reciprocal of a full window. With `divides`, operand and result have the
    same type, and the result is the sum of the stored integers divided by their number, rounded
    half away from zero, as in the kernels of TensorFlow Lite; `requant` only clamps it. After ONNX
    `MaxPool`, `AveragePool`.

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
    divides = opt_prop_def(UnitAttr)

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
        divides: bool = False,
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
            "divides": UnitAttr() if divides else None,
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
            if self.divides is not None and (self.requant is None or not self._only_clamps()):
                raise VerifyException(
                    "'divides' needs a quantized result of the type of the operand, 'requant' with "
                    "shift 0 and multiplier 1, and no 'count_include_pad'"
                )
        elif self.divides is not None:
            raise VerifyException("max pooling cannot have 'divides'")
        elif self.requant is not None:
            raise VerifyException("max pooling cannot have 'requant': it keeps the scale")
        elif quantized_element(self.input) != quantized_element(self.result):
            raise VerifyException(
                "max pooling must keep the element type of the input, "
                f"got {self.input.type} -> {self.result.type}"
            )

    def _only_clamps(self) -> bool:
        assert self.requant is not None
        is_one = self.requant.shift.data == 0 and self.requant.multipliers == (1,)
        same = quantized_element(self.input) == quantized_element(self.result)
        return is_one and same and not self.includes_padding


def average_requant(op: Pool2dOp, count: int) -> RequantAttr:
    """
    Return the requantization of the sum of a window of an average pooling that has `count` elements
    inside the input. The multiplier contains `1 / count`.
    """
    assert op.requant is not None
    window = prod(op.kernel.get_values())
    if count == window:
        return op.requant
    full = op.requant.multiplier.data
    return op.requant.replaced(multiplier=(2 * full * window + count) // (2 * count))


def reciprocal_requant(window: int, input: SSAValue, result_scale: float) -> RequantAttr:
    """
    Return the requantization that divides the sum of a window of `window` elements by their number
    and converts it to the scale of the result, by a fixed-point multiplier.

    The shift is small enough that the multiplier of a window with a single element inside the input
    has 31 bits. For equal scales and windows of up to 2^12 elements, the error of sums of int8 is
    below 2^-11 units of the result, and below 2^-3 for sums of int16.
    """
    ratio = scale_of(input) / result_scale / window
    shift = 0
    # The multiplier of a single-element window is `window` times that of the full window.
    while ratio * window * 2.0 ** (shift + 1) < 1 << 30 and shift < 40:
        shift += 1
    return RequantAttr(shift, multiplier=int(ratio * 2.0**shift + 0.5))


class Resize(StrEnum):
    """
    The elements of the input from which an output element is computed: the nearest element, or a
    linear combination of the neighbors.
    """

    NEAREST = "nearest"
    LINEAR = "linear"


@irdl_attr_definition
class ResizeAttr(EnumAttribute[Resize], SpacedOpaqueSyntaxAttribute):
    name = "graph.resize"


class Coordinates(StrEnum):
    """The coordinate of output index `i` in the input; ONNX `coordinate_transformation_mode`."""

    HALF_PIXEL = "half_pixel"
    """`(i + 0.5) / scale - 0.5`"""
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    """`(i + 0.5) / scale - 0.5`, but 0 for an output extent of 1"""
    ALIGN_CORNERS = "align_corners"
    """`i * (in - 1) / (out - 1)`, 0 for an output extent of 1"""
    ASYMMETRIC = "asymmetric"
    """`i / scale`"""
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"
    """
    `c + (i + 0.5) / scale - 0.5` with the center offset `c = in / 2 * (1 - out / (scale * in))`
    """


FIXED_POINT_COORDINATES = (
    Coordinates.HALF_PIXEL,
    Coordinates.ALIGN_CORNERS,
    Coordinates.ASYMMETRIC,
)
"""The coordinates of linear resizing in integers."""


@irdl_attr_definition
class CoordinatesAttr(EnumAttribute[Coordinates], SpacedOpaqueSyntaxAttribute):
    name = "graph.coordinates"


class Nearest(StrEnum):
    """The rounding of a coordinate to an index; ONNX `nearest_mode`."""

    ROUND_PREFER_FLOOR = "round_prefer_floor"
    """the nearest index; the lower if within 1e-6 of a tie"""
    ROUND_PREFER_CEIL = "round_prefer_ceil"
    """the nearest index; the upper if within 1e-6 of a tie"""
    FLOOR = "floor"
    CEIL = "ceil"


@irdl_attr_definition
class NearestAttr(EnumAttribute[Nearest], SpacedOpaqueSyntaxAttribute):
    name = "graph.nearest"


@irdl_op_definition
class ResizeOp(InputOperation):
    """
    Resample height and width of `input` [N, H, W, C] by `scales` [sy, sx].

    `coordinates` specifies the coordinate of an output index, from the scale in float32. `rounding`
    converts it to an index, which is clamped to the input. `linear` combines the two neighbors in
    each dimension, first along height (`a*(1-t) + b*t`), then along width. After ONNX `Resize`.

    Quantized, `linear` computes as the kernels of TensorFlow Lite, on stored integers of 8 or 16
    bits, with `half_pixel`, `align_corners` or `asymmetric` coordinates in units of 2^-10:

    1. `step = (in * 2^10 + out / 2) / out`; for `align_corners` and `out > 1` of `in - 1` and `out
       - 1`. Quotients have no fraction.
    2. `x = i * step`, and for `half_pixel` `x = i * step + step / 2 - 2^9`
    3. The neighbors are `x >> 10` and `(x + 2^10 - 1) >> 10`, clamped to the input; `t = x % 2^10`.
    4. `result = round(sum(w * v * q) / 2^20)`, half away from zero, for the four neighbors `q` and
       their weights `t` or `2^10 - t` in each dimension

        %y = graph.resize nearest %x coordinates asymmetric rounding floor
            {scales = array<f64: 2.0, 2.0>} : (tensor<1x2x2x4xf32>) -> tensor<1x4x4x4xf32>
    """

    name = "graph.resize"

    kind = prop_def(ResizeAttr)
    scales = prop_def(DenseArrayBase.constr(f64))
    coordinates = prop_def(CoordinatesAttr)
    rounding = prop_def(NearestAttr)

    assembly_format = (
        "$kind $input `coordinates` $coordinates `rounding` $rounding attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        kind: Resize,
        input: SSAValue,
        size: tuple[int, int],
        scales: tuple[float, float],
        coordinates: Coordinates = Coordinates.HALF_PIXEL,
        rounding: Nearest = Nearest.ROUND_PREFER_FLOOR,
    ):
        n, _, _, c = shape_of(input)
        properties: dict[str, Attribute] = {
            "kind": ResizeAttr(kind),
            "scales": DenseArrayBase.from_list(f64, list(scales)),
            "coordinates": CoordinatesAttr(coordinates),
            "rounding": NearestAttr(rounding),
        }
        super().__init__(input, properties, shape=(n, *size, c))

    @property
    def factors(self) -> tuple[float, float]:
        """The scales of height and width: output extent by input extent."""
        height, width = self.scales.get_values()
        return float(height), float(width)

    @property
    def function(self) -> Resize:
        return self.kind.data

    @property
    def is_alias(self) -> bool:
        return self.function is Resize.NEAREST

    @property
    def has_kernel_form(self) -> bool:
        return self.function is Resize.LINEAR and self.is_quantized

    @property
    def keeps_channels(self) -> bool:
        return True

    def verify_semantics(self) -> None:
        expect_same_element(self)
        expect_rank("input", self.input, 4)
        expect_rank("result", self.result, 4)
        scales = self.scales.get_values()
        if len(scales) != 2 or any(not 0.0 < s < float("inf") for s in scales):
            raise VerifyException("two positive scales expected")
        source, target = shape_of(self.input), shape_of(self.result)
        if (source[0], source[3]) != (target[0], target[3]):
            raise VerifyException(f"only height and width can change, got {source} -> {target}")
        if self.has_kernel_form:
            self._verify_kernel_form()

    def _verify_kernel_form(self) -> None:
        element = stored_element(self.result)
        if element.is_per_axis or element.storage.width.data > 16:
            raise VerifyException(
                "linear resizing of integers requires 8 or 16 bits and a single scale, got "
                f"{element}"
            )
        if self.coordinates.data not in FIXED_POINT_COORDINATES:
            allowed = ", ".join(FIXED_POINT_COORDINATES)
            raise VerifyException(
                f"linear resizing of integers has coordinates {allowed}, got "
                f"{self.coordinates.data}"
            )
