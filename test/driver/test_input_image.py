"""Check that `--input-image` lets a float model take bytes, with the normalized result."""

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from conftest import Tool
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from ceras_ir.data.image_options import PIXEL_LAYOUTS, InputImage
from ceras_ir.dialects.graph.camera import FrameFormat

pytestmark = pytest.mark.slow

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALISED = (
    "--image-mean", ",".join(map(str, MEAN)), "--image-std", ",".join(map(str, STD)),
)  # fmt: skip


def model(path: Path) -> None:
    """Write a convolution of NCHW floats."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(4, 3, 3, 3)).astype(np.float32) / 5
    node = helper.make_node("Conv", ["image", "w"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])
    image, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("image", [1, 3, 8, 8]), ("y", [1, 4, 4, 4]))
    )
    graph = helper.make_graph([node], "g", [image], [y], [numpy_helper.from_array(weights, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())


def data(folder: Path) -> None:
    """Write equal images as bytes in both layouts, as normalized floats, and as files."""
    images = np.random.default_rng(1).integers(0, 256, (40, 8, 8, 3), np.uint8)
    np.savez(folder / "nhwc.npz", image=images)
    np.savez(folder / "nchw.npz", image=images.transpose(0, 3, 1, 2))
    mean, std = np.array(MEAN, np.float32), np.array(STD, np.float32)
    floats = (images / np.float32(255) - mean) / std
    np.savez(folder / "floats.npz", image=floats.transpose(0, 3, 1, 2))
    np.savez(folder / "batches.npz", image=floats.transpose(0, 3, 1, 2)[:, None])
    (folder / "images").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"images/{number:02}.png")


def test_bytes_in_the_same_numbers_out(tool: Tool, tmp_path: Path):
    model(tmp_path / "m.onnx")
    data(tmp_path)
    run = ["ceras-run", "m.onnx", "--target", "interp", "--outputs"]
    assert tool(*run, "floats.out.npz", "--inputs", "floats.npz").status == 0
    expected = np.load(tmp_path / "floats.out.npz")["y"]
    sources = (
        *(("nhwc.npz", "nhwc"), ("nchw.npz", "nchw"), ("images", "nhwc")),
        # Floats of the model are converted back to the pixels.
        *(("floats.npz", "nhwc"), ("floats.npz", "nchw"), ("batches.npz", "nhwc")),
    )
    for source, layout in sources:
        image = ["--input-image", layout, *NORMALISED]
        done = tool(*run, "out.npz", "--inputs", source, *image)
        assert done.status == 0, done.stderr
        np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], expected)


@pytest.mark.needs("workbench")
def test_folders_of_images_are_inputs(tool: Tool, tmp_path: Path):
    """
    Folders work for a model, a compiled folder and a comparison, also with a calibration file.
    """
    model(tmp_path / "m.onnx")
    data(tmp_path)
    images = ["--inputs", "images", *NORMALISED]
    assert tool("ceras-compile", "m.onnx", "--target", "c", "-o", "c").status == 0
    for number, (source, inputs) in enumerate(
        [("m.onnx", ["--inputs", "floats.npz"]), ("m.onnx", images), ("c", images)]
    ):
        done = tool("ceras-run", source, *inputs, "--outputs", f"{number}.npz")
        assert done.status == 0, done.stderr
    expected, *others = (np.load(tmp_path / f"{number}.npz")["y"] for number in range(3))
    for found in others:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    for command in (["ceras-verify", "--targets", "c", "--samples", "3"], ["ceras-compare"]):
        done = tool(*command, "m.onnx", *images, "--calibrate", "floats.npz")
        assert done.status == 0, done.stderr


@pytest.mark.needs("nnet", "vta")
def test_quantized_it_is_one_table_and_exact(tool: Tool, tmp_path: Path):
    """Files of images and arrays of bytes give equal calibrations."""
    model(tmp_path / "m.onnx")
    data(tmp_path)
    image = ["--input-image", "nhwc", *NORMALISED]
    inputs = ["--calibrate", "nhwc.npz", "--inputs", "nhwc.npz"]
    done = tool("ceras-verify", "m.onnx", *image, *inputs, "--targets", "c,nnet,vta")
    assert done.status == 0, done.stderr
    for target in ("c", "nnet", "vta"):
        assert re.search(rf"^{target}: machine +exact$", done.stdout, re.MULTILINE)
    for source, folder in (("nhwc.npz", "a"), ("images", "b"), ("floats.npz", "c")):
        options = ["--target", "c", "--calibrate", source, "-o", folder]
        done = tool("ceras-compile", "m.onnx", *image, *options)
        assert done.status == 0, done.stderr
        assert re.findall(r"^image +(\w+)", done.stdout, re.MULTILINE) == ["lookup"]
    for name in ("model.c", "model_weights.c"):
        first, *others = ((tmp_path / folder / name).read_bytes() for folder in "abc")
        assert all(other == first for other in others)
    assert "const uint8_t *image" in (tmp_path / "a/model.h").read_text()
    # The manifest has the conversion, so the compiled folder accepts floats, too.
    for source in ("nhwc.npz", "floats.npz"):
        done = tool("ceras-run", "a", "--inputs", source, "--outputs", f"{source}.out.npz")
        assert done.status == 0, done.stderr
    results = [
        np.load(tmp_path / f"{source}.out.npz")["y"] for source in ("nhwc.npz", "floats.npz")
    ]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("format", ["rgb888", "bgr888"])
def test_a_part_of_a_frame_is_the_image(tool: Tool, tmp_path: Path, format: str):
    """Float samples become frames; the network has the same results as with pixels."""
    model(tmp_path / "m.onnx")
    data(tmp_path)
    frame = ["--input-image", format, "--frame-size", "10x14", "--frame-crop", "1,3,8x8"]
    results: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    for options in (frame, ["--input-image", "nhwc"]):
        inputs = ["--inputs", "floats.npz", "--outputs", "y.npz", "--target", "c", *NORMALISED]
        done = tool("ceras-run", "m.onnx", *options, *inputs)
        assert done.status == 0, done.stderr
        results.append(np.load(tmp_path / "y.npz")["y"])
    np.testing.assert_array_equal(results[0], results[1])


def test_quantized_frames_are_exact(tool: Tool, tmp_path: Path):
    model(tmp_path / "m.onnx")
    data(tmp_path)
    frame = ["--input-image", "nv12", "--frame-size", "12x20", *NORMALISED]
    inputs = ["--calibrate", "images", "--inputs", "images"]
    done = tool("ceras-verify", "m.onnx", *frame, *inputs, "--targets", "c,vta", "--samples", "4")
    assert done.status == 0, done.stderr
    for target in ("c", "vta"):
        assert re.search(rf"^{target}: machine +exact$", done.stdout, re.MULTILINE)
    done = tool("ceras-compile", "m.onnx", *frame, *inputs[:2], "--target", "c", "-o", "out")
    assert done.status == 0, done.stderr
    assert re.findall(r"^image +(\w+)", done.stdout, re.MULTILINE) == ["decode_frame", "lookup"]
    assert "a frame of 12x20 pixels in format nv12" in (tmp_path / "out/model.h").read_text()
    done = tool("ceras-run", "out", "--inputs", "images", "--outputs", "y.npz")
    assert done.status == 0, done.stderr


def test_exchanged_numbers_of_a_size_are_told(tool: Tool, tmp_path: Path):
    model(tmp_path / "m.onnx")
    (tmp_path / "images").mkdir()
    for i in range(2):
        Image.new("RGB", (20, 12), (i, 2, 3)).save(tmp_path / f"images/{i}.png")
    for size, count in (("20x12", 1), ("12x20", 0)):
        options = ["--input-image", "yuyv", "--frame-size", size, "--inputs", "images"]
        done = tool("ceras-run", "m.onnx", *options, "--outputs", "y.npz")
        assert done.status == 0, done.stderr
        assert (
            done.stderr.count("is 20 pixels wide and 12 high, but frames have height 20") == count
        )


def test_names_of_formats() -> None:
    assert set(get_args(InputImage)) == {*PIXEL_LAYOUTS, *map(str, FrameFormat)}


def test_mistakes_are_told(tool: Tool, tmp_path: Path):
    model(tmp_path / "m.onnx")
    data(tmp_path)
    np.savez(tmp_path / "far.npz", image=np.full((1, 3, 8, 8), 8.0, np.float32))
    for options, status, message in (
        (["--input-image", "hwc"], 2, "did you mean 'nhwc'"),
        (["--input-image", "nhwc", "--image-std", "0"], 2, "must not be 0"),
        (["--input-image", "nhwc", "--image-mean", "1,2"], 2, "2 values for 3 channels"),
        (["--input-image", "nv12", "--frame-size", "9x8"], 2, "an even height, got 9"),
        (["--input-image", "gray", "--frame-size", "9by8"], 2, "expected HxW, such as 240x320"),
        (["--input-image", "gray", "--frame-crop", "1,1,8x8"], 2, "needs --frame-size HxW"),
        (
            ["--input-image", "gray", "--frame-size", "8x8", "--frame-crop", "1,1,8x8"],
            2,
            "is not inside of a frame of",
        ),
        (["--input-image", "nhwc", "--frame-size", "9x8"], 2, "--frame-size needs a frame"),
        (["--frame-resize", "nearest"], 2, "--frame-resize needs --input-image"),
        (["--input-image", "nhwc", "--calibrate", "far.npz"], 1, "which is pixel 2040 and not"),
    ):
        done = tool("ceras-compile", "m.onnx", "--target", "c", "-o", "out", *options)
        assert done.status == status and message in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_a_frame_that_is_too_large_for_the_board(tool: Tool, tmp_path: Path):
    """The remedy is a size of frames that fits."""
    model(tmp_path / "m.onnx")
    options = ["m.onnx", "--target", "c", "--board", "nucleo_f446re", "--input-image", "rgb565_be"]
    done = tool("ceras-compile", *options, "--frame-size", "240x320", "-o", "out")
    assert done.status == 3
    found = re.search(
        r"frames of (\d+x\d+) \(--frame-size\), now 240x320 in 153,600 b", done.stderr
    )
    assert found is not None and "of their channels" not in done.stderr, done.stderr
    done = tool("ceras-compile", *options, "--frame-size", found[1], "-o", "out")
    assert done.status == 0, done.stderr
