"""Frames of cameras become the colors that the standards define, and sizes as ONNX Resize."""

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ceras_ir.dialects.graph.camera import PACKED, PLANAR, Channels, FrameFormat, FrameLayout
from ceras_ir.dialects.graph.pooling import Resize
from ceras_ir.interpreters.camera import decoded, resized
from ceras_ir.network.frames import Frame

BARS = {
    (235, 128, 128): (255, 255, 255),
    (210, 16, 146): (255, 255, 0),
    (170, 166, 16): (0, 255, 255),
    (145, 54, 34): (0, 255, 0),
    (106, 202, 222): (255, 0, 255),
    (81, 90, 240): (255, 0, 0),
    (41, 240, 110): (0, 0, 255),
    (16, 128, 128): (0, 0, 0),
}
"""The color bars of ITU-R BT.601: Y, U and V -> red, green and blue."""

WORDS = {0xFFFF: (255, 255, 255), 0xF800: (255, 0, 0), 0x07E0: (0, 255, 0), 0x0010: (0, 0, 132)}
"""Numbers of RGB565 -> red, green and blue, of which the upper bits are repeated."""


def one_color(format: FrameFormat, y: int, u: int, v: int) -> NDArray[np.uint8]:
    """Return a frame of 2x2 pixels with a single color."""
    rows = {
        FrameFormat.YUYV: [[[y, u], [y, v]]] * 2,
        FrameFormat.UYVY: [[[u, y], [v, y]]] * 2,
        FrameFormat.NV12: [[[y], [y]], [[y], [y]], [[u], [v]]],
        FrameFormat.NV21: [[[y], [y]], [[y], [y]], [[v], [u]]],
    }
    return np.array([rows[format]], np.uint8)


@pytest.mark.parametrize("format", ["yuyv", "uyvy", "nv12", "nv21"])
def test_color_bars(format: str) -> None:
    for yuv, rgb in BARS.items():
        frame = one_color(FrameFormat(format), *yuv)
        image = decoded(frame, FrameFormat(format), Channels.RGB)
        assert image.shape == (2, 2, 3)
        assert np.abs(image - np.array(rgb)).max() <= 2, (yuv, image[0, 0])
        np.testing.assert_array_equal(
            image[:, :, ::-1], decoded(frame, FrameFormat(format), Channels.BGR)
        )


def test_words_of_16_bits() -> None:
    for word, rgb in WORDS.items():
        big = word.to_bytes(2, "big")
        for format, stored in ((FrameFormat.RGB565_BE, big), (FrameFormat.RGB565_LE, big[::-1])):
            frame = np.frombuffer(stored, np.uint8).reshape(1, 1, 1, 2)
            assert tuple(decoded(frame, format, Channels.RGB)[0, 0]) == rgb


@pytest.mark.parametrize("pattern", ["rggb", "bggr", "grbg", "gbrg"])
def test_bayer_patterns(pattern: str) -> None:
    """A scene of a single color gives the color in all pixels; greens are averaged."""
    color = {"r": 200, "b": 30}
    greens = iter((100, 103))
    cell = [color.get(letter) or next(greens) for letter in pattern]
    frame = np.tile(np.array(cell, np.uint8).reshape(2, 2), (2, 3)).reshape(1, 4, 6, 1)
    image = decoded(frame, FrameFormat(pattern), Channels.RGB)
    np.testing.assert_array_equal(image, np.broadcast_to([200, 102, 30], (4, 6, 3)))


def test_gray_weighs_colors_as_the_standard() -> None:
    frame = np.random.default_rng(3).integers(0, 256, (1, 9, 9, 3), dtype=np.uint8)
    gray = decoded(frame, FrameFormat.RGB888, Channels.GRAY)[:, :, 0]
    assert np.abs(gray - frame[0] @ [0.299, 0.587, 0.114]).max() < 1.1


@pytest.mark.parametrize("size", [(7, 9), (14, 18), (3, 4), (1, 1), (20, 5)])
def test_sizes_change_as_in_onnx(size: tuple[int, int]) -> None:
    """The weights have 8 bits, so that a value differs by up to 2 from the reference in float."""
    image = np.random.default_rng(5).integers(0, 256, (7, 9, 3)).astype(np.int32)
    node = helper.make_node(
        "Resize", ["x", "", "", "s"], ["y"], mode="linear",
        coordinate_transformation_mode="half_pixel",
    )  # fmt: skip
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [node],
        "resize",
        [helper.make_tensor_value_info("x", kind, [7, 9, 3])],
        [helper.make_tensor_value_info("y", kind, [*size, 3])],
        [helper.make_tensor("s", onnx.TensorProto.INT64, [3], [*size, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    evaluator: Any = ReferenceEvaluator(model)
    (expected,) = evaluator.run(None, {"x": image.astype(np.float32)})
    assert np.abs(resized(image, size, Resize.LINEAR) - expected).max() <= 2


def test_shapes_and_sizes() -> None:
    assert FrameLayout(FrameFormat.NV12, 240, 320).shape == (1, 360, 320, 1)
    assert FrameLayout(FrameFormat.YUYV, 240, 320).shape == (1, 240, 320, 2)
    layout = FrameLayout(FrameFormat.NV12, 240, 320)
    assert FrameLayout.of_shape(FrameFormat.NV12, layout.shape) == layout
    for format, height, width in (("nv12", 3, 4), ("yuyv", 3, 5), ("rggb", 4, 3), ("gray", 0, 4)):
        assert FrameLayout(FrameFormat(format), height, width).error
    assert not FrameLayout(FrameFormat.YUYV, 3, 4).error


@pytest.mark.parametrize("format", FrameFormat)
def test_encoded_images_are_decoded(format: FrameFormat) -> None:
    """Images with a color per 4x4 pixels keep it, up to the bits of the format."""
    colors = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    image = colors.repeat(4, 0).repeat(4, 1)
    channels = Channels.GRAY if format is FrameFormat.GRAY else Channels.RGB
    frame = Frame(format, (16, 16), (0, 0, 16, 16), channels, Resize.LINEAR)
    given = image[:, :, :1] if channels is Channels.GRAY else image
    encoded = frame.of_colors(given)
    assert encoded.shape == frame.layout.shape
    lost = np.abs(decoded(encoded, format, channels) - given).max()
    assert lost <= (7 if "565" in format else 2 if format in PACKED | PLANAR else 0)
    assert Frame.from_json(frame.to_json()) == frame


def test_images_fill_the_crop() -> None:
    images = np.random.default_rng(1).integers(0, 256, (2, 4, 3, 3), dtype=np.uint8)
    frame = Frame(FrameFormat.RGB888, (11, 9), (2, 1, 8, 6), Channels.RGB, Resize.NEAREST)
    frames = frame.of_images(images)
    assert frames.shape == (2, 11, 9, 3) and not frames[:, :2].any()
    for made, image in zip(frames, images, strict=True):
        crop = decoded(made[None], frame.format, frame.channels)[2:10, 1:7]
        np.testing.assert_array_equal(resized(crop, (4, 3), Resize.NEAREST), image)
