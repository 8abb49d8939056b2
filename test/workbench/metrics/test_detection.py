"""Decode boxes from detectors' outputs, and compute their average precision."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ceras_ir.data.image_folder import ImageFolder
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError
from ceras_ir.workbench.metrics.detection import AveragePrecision, CocoLabels, Heads, detections

pytest.importorskip("pycocotools")

Array = NDArray[np.float32]
BOX = (10.0, 20.0, 30.0, 60.0)
"""Left, top, right, bottom; the center is (20, 40), and the size is 20 by 40."""


def padded(row: list[float], count: int) -> Array:
    """Return a row and `count` rows of zeros."""
    return np.concatenate((np.array([row]), np.zeros((count, len(row))))).astype(np.float32)


LAYOUTS = {
    "rows": {"y": padded([20, 40, 20, 40, 0.5, 0.2, 0.8], 9)[None]},
    "columns": {"y": padded([20, 40, 20, 40, 0.1, 0.4], 9).T[None]},
    "pair": {
        "scores": padded([0.1, 0.4], 9)[None],
        "boxes": padded([10, 20, 30, 60], 9)[None],
    },
    "shares of the image": {
        "boxes": padded([10 / 96, 20 / 64, 30 / 96, 60 / 64], 9)[None],
        "scores": padded([0.1, 0.4], 9)[None],
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    outputs = LAYOUTS[layout]
    heads = Heads.find({name: array.shape for name, array in outputs.items()})
    found = detections(*heads.read(outputs, (64, 96)))
    assert heads.classes == 2
    np.testing.assert_allclose(found[0], (*BOX, 0.4, 1), rtol=1e-6)
    # The other class at the same position is a detection too; there is no third.
    np.testing.assert_allclose(found[1], (*BOX, 0.1, 0), rtol=1e-5)
    assert (found[2:] == -1).all()


def test_grids_are_decoded() -> None:
    """YOLOX returns offsets in cells of grids with strides 8, 16, 32, and logarithms of sizes."""
    cells = (64 // 8) * (96 // 8) + (64 // 16) * (96 // 16) + (64 // 32) * (96 // 32)
    raw = np.zeros((1, cells, 7), np.float32)
    raw[0, :, 2] = -1
    # The second cell of the second row of stride 16.
    raw[0, 96 + 6 + 1] = (0.25, 0.5, np.log(2), np.log(3), 1, 0.9, 0)
    found = detections(*Heads.find({"y": raw.shape}).read({"y": raw}, (64, 96)))
    np.testing.assert_allclose(found[0], (4, 0, 36, 48, 0.9, 0), rtol=1e-6)
    with pytest.raises(InputError, match="not decoded"):
        Heads.find({"y": raw.shape}).read({"y": raw[:, 1:]}, (64, 96))


def test_boxes_that_overlap_are_one() -> None:
    boxes = np.array([BOX, (11, 20, 31, 60), (10, 20, 30, 40)], np.float32)
    scores = np.array([[0.9], [0.8], [0.7]], np.float32)
    found = detections(boxes, scores)
    np.testing.assert_allclose(found[:2, 4], (0.9, 0.7))
    assert found[2, 5] == -1


def labels(path: Path, boxes: list[list[float]], **more: object) -> CocoLabels:
    """Write true boxes of images of 96x64, a box in each."""
    images = [{"id": 7 + i, "file_name": f"{i}.png", "height": 64, "width": 96}
              for i in range(len(boxes))]  # fmt: skip
    annotations = [
        {"image_id": 7 + i, "category_id": 3, "bbox": box, "iscrowd": 0}
        for i, box in enumerate(boxes)
    ]
    content = {
        "images": images,
        "categories": [{"id": 3}, {"id": 1}],
        "annotations": annotations,
        **more,
    }
    path.write_text(json.dumps(content))
    return CocoLabels(str(path))


def test_precision_by_hand(tmp_path: Path) -> None:
    """Use two objects: a box is exact, the other overlaps by half; each network misses a box."""
    truth = labels(tmp_path / "l.json", [[10, 20, 20, 40], [40, 20, 20, 40]])
    truth.of_arrays(2, (64, 96))
    shapes = {"y": (1, 10, 7)}
    metric = AveragePrecision(shapes, (64, 96), truth)
    exact = [20, 40, 20, 40, 1, 0, 0.9], [50, 40, 20, 40, 1, 0, 0.8]
    half = [50, 50, 20, 20, 1, 0, 0.8]
    first, second, partial = ({"y": padded(row, 9)[None]} for row in (*exact, half))
    metric.add(first, first)
    metric.add(second, partial)
    figures = {f.name: f for f in metric.figures()}
    ap, every = figures["AP"], np.arange(2)
    assert ap.real is not None and ap.real(every) == 1
    # Overlap 0.5 counts for a tenth of the bounds; recall 0.5 is 51 of 101 points of recall.
    assert ap.quantized(every) == pytest.approx((1 + 9 * 51 / 101) / 10)
    assert ap.quantized(np.array([0, 0, 0])) == 1
    assert ap.quantized(np.array([1, 1])) == pytest.approx(0.1)
    against = figures["AP against the float network's"]
    assert against.quantized(every) == ap.quantized(every)


def test_background_is_no_class(tmp_path: Path) -> None:
    truth = labels(tmp_path / "l.json", [[10, 20, 20, 40]])
    truth.of_arrays(1, (64, 96))
    metric = AveragePrecision({"b": (1, 10, 4), "s": (1, 10, 3)}, (64, 96), truth)
    scores = np.tile(np.array([1, 0, 0], np.float32), (1, 10, 1))
    scores[0, 0] = (0.1, 0, 0.9)
    outputs = {"b": padded([*BOX], 9)[None], "s": scores}
    metric.add(outputs, outputs)
    assert metric.figures()[0].quantized(np.arange(1)) == pytest.approx(1)


@pytest.mark.parametrize("fit", ["stretch", "letterbox", "crop"])
def test_true_boxes_follow_their_images(tmp_path: Path, fit: str) -> None:
    """Place a white rectangle in the input at the position of the box."""
    image_of = pytest.importorskip("PIL.Image").fromarray
    pixels = np.zeros((120, 200, 3), np.uint8)
    pixels[40:80, 80:120] = 255
    image_of(pixels).save(tmp_path / "0.png")
    truth = labels(tmp_path / "l.json", [[80, 40, 40, 40]])
    tensor = TensorInfo("x", (1, 3, 64, 96), "float32")
    folder = ImageFolder(f"{tmp_path}?fit={fit}", [tensor])
    truth.of_folder(folder)
    (box,) = truth.boxes(2)[0]
    rows, columns = np.nonzero(folder.read(folder.files[0])[0, 0] > 0.5)
    found = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    # The gray border of a letterbox is dark too.
    np.testing.assert_allclose(box, (*found, 1, 0), atol=1)


ANNOTATION = {"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4]}
WRONG: dict[str, tuple[str | dict[str, object], str]] = {
    "no JSON": ("{", "not JSON"),
    "list": ("[]", "'images' must list id, file_name"),
    "box": ({"annotations": [{**ANNOTATION, "bbox": [1, 2, 3]}]}, "four numbers"),
    "category": ({"annotations": [{**ANNOTATION, "category_id": 2}]}, "unknown"),
    "identity": ({"categories": [{"id": "a"}]}, "must be an integer"),
    "empty": ({"categories": []}, "no categories"),
}


@pytest.mark.parametrize("case", WRONG)
def test_labels_that_are_none(tmp_path: Path, case: str) -> None:
    content, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        if isinstance(content, dict):
            labels(tmp_path / "l.json", [[1, 2, 3, 4]], **content)
        else:
            (tmp_path / "l.json").write_text(content)
            CocoLabels(str(tmp_path / "l.json"))


def test_labels_of_others(tmp_path: Path) -> None:
    truth = labels(tmp_path / "l.json", [[1, 2, 3, 4]])
    with pytest.raises(InputError, match="1 images for 2 samples"):
        truth.of_arrays(2, (64, 96))
    with pytest.raises(InputError, match="use a folder of images"):
        truth.of_arrays(1, (64, 64))
    truth.of_arrays(1, (64, 96))
    with pytest.raises(InputError, match="2 categories, and the network 9 classes"):
        truth.boxes(9)
    # Ids with gaps are classes if the network has a class for the highest id.
    assert [truth.boxes(n)[0][0, 4] for n in (2, 3, 4)] == [1, 2, 3]
