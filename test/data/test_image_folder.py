"""Load images as calibration data: values by hand, each way to fit, and refusals."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Tool

from ceras_ir.data.image_folder import ImageFolder
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.data.sample_stream import stream_samples
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError, UsageError

Image = pytest.importorskip("PIL.Image")

INPUT = TensorInfo("image", (1, 3, 2, 4), "float32")
NETWORK = """
func.func @main(%x: tensor<1x3x2x4xf32> {graph.name = "image"}) -> tensor<1x3x2x4xf32> {
  %y = graph.unary <relu> %x : tensor<1x3x2x4xf32>
  func.return %y : tensor<1x3x2x4xf32>
}
"""


def picture(path: Path, height: int = 2, width: int = 4, seed: int = 0) -> np.ndarray:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels.astype(np.float64)


def only(folder: Path, options: str = "", info: TensorInfo = INPUT) -> np.ndarray:
    _, samples = stream_samples(f"{folder}?{options}", [info], 10)
    (sample,) = samples
    return sample["image"]


def test_pixels_are_scaled_and_normalized(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png")
    expected = (pixels / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]
    found = only(tmp_path, "mean=0.5:0.4:0.3&std=0.2:0.3:0.4")
    np.testing.assert_allclose(found, expected.transpose(2, 0, 1)[None], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(
        only(tmp_path, "scale=1&channels=bgr"), pixels[:, :, ::-1].transpose(2, 0, 1)[None]
    )
    nhwc = TensorInfo("image", (1, 2, 4, 3), "uint8")
    np.testing.assert_array_equal(only(tmp_path, "scale=1", nhwc), pixels[None])
    np.testing.assert_array_equal(only(tmp_path, "", nhwc), pixels[None])


def test_letterbox_keeps_the_shape_and_pads(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png", 2, 2)
    found = only(tmp_path, "fit=letterbox&scale=1&pad=7")
    np.testing.assert_array_equal(found[0, :, :, :2], pixels.transpose(2, 0, 1))
    np.testing.assert_array_equal(found[0, :, :, 2:], np.full((3, 2, 2), 7))


def test_crop_takes_the_centre(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png", 4, 6)
    found = only(tmp_path, "fit=crop&size=4x6&scale=1")
    np.testing.assert_array_equal(found[0], pixels[1:3, 1:5].transpose(2, 0, 1))
    assert only(tmp_path, "fit=stretch").shape == (1, 3, 2, 4)


def test_files_are_sorted_limited_and_read_late(tmp_path: Path) -> None:
    for i, name in enumerate(("b.png", "a.jpg", "c.bmp")):
        picture(tmp_path / name, seed=i)
    (tmp_path / "notes.txt").write_text("no image")
    folder = ImageFolder(str(tmp_path), [INPUT])
    assert [f.name for f in folder.files] == ["a.jpg", "b.png", "c.bmp"]
    count, samples = stream_samples(str(tmp_path), [INPUT], 2)
    assert count == 2 and len(list(samples)) == 2


def test_broken_images_and_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no images"):
        ImageFolder(str(tmp_path), [INPUT])
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\nno image")
    with pytest.raises(InputError, match="not a readable image"):
        only(tmp_path)
    with pytest.raises(InputError, match=r"a single input of shape"):
        ImageFolder(str(tmp_path), [TensorInfo("image", (1, 5), "float32")])
    for options, message in (
        ("std=0", "divide"),
        ("mean=0.1:0.2", "2 values for 3 channels"),
        ("size=9x9", "use --image-fit crop"),
        ("fit=tile", "must be one of"),
        ("size=0x3", "HxW"),
        ("scale=a", "must be numbers"),
        ("tint=3", "unknown image option"),
    ):
        with pytest.raises(UsageError, match=message):
            ImageFolder(f"{tmp_path}?{options}", [INPUT])
    assert ImageOptions.parse("size=5").size == (5, 5)


def test_folder_and_files_calibrate_together(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text(NETWORK)
    picture(tmp_path / "photos" / "a.png")
    np.savez(tmp_path / "more.npz", image=np.full((3, 3, 2, 4), 5, np.float32))
    run = ("ceras-run", "n.mlir", "--inputs", "more.npz", "--outputs", "o.npz")
    done = tool(*run, "--calibrate", "photos", "--calibrate", "more.npz", "--image-mean", "0.5,0,0")
    assert (done.status, "synthetic" in done.stderr) == (0, False), done.stderr
    done = tool(*run, "--calibrate", "more.npz", "--image-mean", "0.5")
    assert done.status == 2 and "apply to a folder or an image" in done.stderr
    done = tool(*run, "--calibrate", "photos", "--image-size", "many")
    assert done.status == 2 and "HxW" in done.stderr
