"""Conversion of camera frames to images, with cropping and resizing in integers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition, prop_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.dialects.graph.operation import InputOperation, element_of, expect_shape, shape_of
from ceras_ir.dialects.graph.pooling import Resize, ResizeAttr


class FrameFormat(StrEnum):
    """
    The bytes of a frame. `y` and `x` are a row and a column, and `frame[y, x, b]` is byte `b` of a
    pixel. YUV has the limited range of ITU-R BT.601.
    """

    GRAY = "gray"
    """one byte: red, green and blue are equal"""
    RGB888 = "rgb888"
    """red, green, blue"""
    BGR888 = "bgr888"
    """blue, green, red"""
    RGB565_BE = "rgb565_be"
    """a 16-bit number, the upper byte first: 5 bits of red, 6 of green, 5 of blue"""
    RGB565_LE = "rgb565_le"
    """the same, the lower byte first"""
    YUYV = "yuyv"
    """luma, and U in even or V in odd columns, for each pair of columns (YUV 4:2:2)"""
    UYVY = "uyvy"
    """the same, luma as the second byte"""
    NV12 = "nv12"
    """all luma, then rows of pairs U V, each for 2x2 pixels (YUV 4:2:0)"""
    NV21 = "nv21"
    """the same with pairs V U"""
    RGGB = "rggb"
    """a Bayer pattern of 2x2 pixels: red and green above green and blue"""
    BGGR = "bggr"
    """blue and green above green and red"""
    GRBG = "grbg"
    """green and red above blue and green"""
    GBRG = "gbrg"
    """green and blue above red and green"""


@irdl_attr_definition
class FrameFormatAttr(EnumAttribute[FrameFormat], SpacedOpaqueSyntaxAttribute):
    name = "graph.frame_format"


class Channels(StrEnum):
    """The channels of an image."""

    RGB = "rgb"
    BGR = "bgr"
    GRAY = "gray"


@irdl_attr_definition
class ChannelsAttr(EnumAttribute[Channels], SpacedOpaqueSyntaxAttribute):
    name = "graph.channels"


PLANAR = frozenset({FrameFormat.NV12, FrameFormat.NV21})
PACKED = frozenset({FrameFormat.YUYV, FrameFormat.UYVY})
BAYER = {
    FrameFormat.RGGB: ((0, 0), (1, 1)),
    FrameFormat.BGGR: ((1, 1), (0, 0)),
    FrameFormat.GRBG: ((0, 1), (1, 0)),
    FrameFormat.GBRG: ((1, 0), (0, 1)),
}
"""The row and column of red, and of blue, in 2x2 pixels of a Bayer pattern."""

MAX_FRAME_EXTENT = 1 << 14


@dataclass(frozen=True)
class FrameLayout:
    """The shape in bytes of a camera frame of `height` x `width` pixels in a format."""

    format: FrameFormat
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape [1, rows, columns, bytes] of the bytes of a frame."""
        if self.format in PLANAR:
            return 1, self.height + self.height // 2, self.width, 1
        count = {FrameFormat.GRAY: 1, FrameFormat.RGB888: 3, FrameFormat.BGR888: 3}
        return 1, self.height, self.width, 1 if self.format in BAYER else count.get(self.format, 2)

    @property
    def error(self) -> str:
        """The reason why the format does not permit frames of this size, or an empty text."""
        largest = max(self.height, self.width)
        if min(self.height, self.width) < 1 or largest > MAX_FRAME_EXTENT:
            return f"height and width of a frame are 1 to {MAX_FRAME_EXTENT}"
        if self.format in {*PLANAR, *PACKED, *BAYER} and self.width % 2:
            return f"frames of format {self.format} have an even width, got {self.width}"
        if self.format in {*PLANAR, *BAYER} and self.height % 2:
            return f"frames of format {self.format} have an even height, got {self.height}"
        return ""

    def has(self, crop: tuple[int, int, int, int]) -> bool:
        """
        Return whether the rectangle `crop` (top, left, height, width in pixels) is inside the
        frame.
        """
        top, left, height, width = crop
        is_part = min(top, left) >= 0 and min(height, width) > 0
        return is_part and top + height <= self.height and left + width <= self.width

    @classmethod
    def of_shape(cls, format: FrameFormat, shape: Sequence[int]) -> "FrameLayout":
        """
        Return the layout of frames of `format` that have the bytes `shape`, [1, rows, columns,
        bytes].
        """
        _, rows, width, _ = shape
        return cls(format, rows * 2 // 3 if format in PLANAR else rows, width)


@irdl_op_definition
class DecodeFrameOp(InputOperation):
    """
    Convert the bytes of a camera frame to an image: crop it to [top, left, height, width], and
    resize the crop to the result [1, H, W, C] of ui8.

    A component of 5 or 6 bits is widened by the upper bits of the component. With
    c = 298 * (Y - 16), d = U - 128 and e = V - 128, red is (c + 409 e + 128) >> 8, green
    (c - 100 d - 208 e + 128) >> 8, blue (c + 516 d + 128) >> 8, each clamped to 0..255. A pixel of
    a Bayer pattern has the colors of the 2x2 pixels, green rounded up. Gray is (c + 128) >> 8,
    clamped, for YUV, and (77 red + 150 green + 29 blue + 128) >> 8 for other formats.

    `nearest` uses row floor((2 i + 1) * h / 2 H) of h rows for row i of H. `linear` has the
    position floor((2 i + 1) * h * 128 / H) - 128 in units of 1/256 row, clamped to the crop, and
    combines two rows and two columns with these weights. The sum of the four products, which is
    2^16 times the value, is rounded, ties up.

        %y = graph.decode_frame nv12 to rgb linear %x {crop = array<i64: 0, 40, 240, 240>}
            : (tensor<1x360x320x1xui8>) -> tensor<1x96x96x3xui8>
    """

    name = "graph.decode_frame"
    ADMITS_INTEGERS: ClassVar = True

    format = prop_def(FrameFormatAttr)
    channels = prop_def(ChannelsAttr)
    kind = prop_def(ResizeAttr)
    crop = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$format `to` $channels $kind $input attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        input: SSAValue,
        format: FrameFormat,
        channels: Channels,
        kind: Resize,
        crop: tuple[int, int, int, int],
        size: tuple[int, int],
    ):
        properties: dict[str, Attribute] = {
            "format": FrameFormatAttr(format),
            "channels": ChannelsAttr(channels),
            "kind": ResizeAttr(kind),
            "crop": integers(crop),
        }
        depth = 1 if channels is Channels.GRAY else 3
        super().__init__(input, properties, shape=(1, *size, depth), element=BYTE)

    @property
    def layout(self) -> FrameLayout:
        return FrameLayout.of_shape(self.format.data, shape_of(self.input))

    @property
    def region(self) -> tuple[int, int, int, int]:
        """The crop: top, left, height and width."""
        top, left, height, width = (int(v) for v in self.crop.get_values())
        return top, left, height, width

    def verify_semantics(self) -> None:
        if {element_of(self.input), element_of(self.result)} != {BYTE}:
            raise VerifyException("a frame and an image have elements of ui8")
        if len(shape_of(self.input)) != 4 or len(shape_of(self.result)) != 4:
            raise VerifyException("a frame and an image have four dimensions")
        layout = self.layout
        if error := layout.error:
            raise VerifyException(error)
        expect_shape("input", self.input, layout.shape)
        _, height, width, _ = shape_of(self.result)
        expect_shape(
            "result", self.result, (1, height, width, 1 if self.channels.data == "gray" else 3)
        )
        if len(self.crop.get_values()) != 4:
            raise VerifyException("crop must be [top, left, height, width]")
        if not layout.has(self.region):
            raise VerifyException(
                f"crop {list(self.region)} is not inside of {layout.height}x{layout.width} pixels"
            )
