"""Judge detections by average precision, with labels in the format of COCO."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.hints import isa

from ceras_ir.data.image_folder import ImageFolder
from ceras_ir.support.diagnostics import InputError, with_remedy
from ceras_ir.support.extras import install_command
from ceras_ir.support.user_files import read_text
from ceras_ir.workbench.metrics.figures import Chosen, Figure, Outputs, Reading

Boxes = NDArray[np.float32]

PRECISION, PRECISION_AGAINST_FLOAT = "AP", "AP against the float network's"
"""The names of the figures."""

MAX_DETECTIONS = 100
"""The largest number of detections of a sample, as in COCO."""

MAX_EXAMINED_BOXES = 1000
"""The number of highest scores that are examined."""

MIN_SCORE, MAX_OVERLAP = 0.001, 0.65
"""Thresholds of COCO: lower scores are ignored, and more overlap suppresses the weaker box."""

STRIDES = (8, 16, 32, 64)
"""The strides of grids of boxes that the network does not decode."""

BoxLayout = Literal["rows", "columns", "pair"]


@dataclass(frozen=True)
class Heads:
    """The names of the outputs of a detector that contain boxes and scores, and their layout."""

    layout: BoxLayout
    boxes: str
    scores: str
    classes: int

    @classmethod
    def find(cls, shapes: Mapping[str, tuple[int, ...]]) -> Heads:
        """
        Identify the outputs of a detector by `shapes`. Raise an `InputError` if they have no such
        form:

        1. YOLOv5 and YOLOX: [1, boxes, 5 + classes].
        2. YOLOv8: [1, 4 + classes, boxes].
        3. SSD: [1, boxes, 4] and [1, boxes, classes].
        """
        flat = {name: shape for name, shape in shapes.items() if len(shape) == 3 and shape[0] == 1}
        if len(flat) == len(shapes) == 1:
            ((name, (_, rows, columns)),) = flat.items()
            if columns > 5 and columns < rows:
                return cls("rows", name, name, columns - 5)
            if rows > 4 and rows < columns:
                return cls("columns", name, name, rows - 4)
        if len(flat) == len(shapes) == 2:
            for boxes, scores in (tuple(flat), tuple(reversed(flat))):
                if flat[boxes][2] == 4 and flat[scores][1] == flat[boxes][1]:
                    return cls("pair", boxes, scores, flat[scores][2])
        listed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise InputError(
            "--metric detection supports [1, boxes, 5 + classes], [1, 4 + classes, boxes], or "
            f"[1, boxes, 4] with [1, boxes, classes]; the outputs are {listed}: give "
            "--metric FILE.py:FUNCTION"
        )

    def read(self, outputs: Outputs, size: tuple[int, int]) -> tuple[Boxes, Boxes]:
        """
        Return all boxes [boxes, 4] as left, top, right and bottom in pixels, and the scores
        [boxes, classes]. `size` is the height and width of the input.
        """
        boxes = outputs[self.boxes][0].astype(np.float32)
        if self.layout == "columns":
            return _corners(boxes[:4].T), boxes[4:].T
        if self.layout == "rows":
            scores = boxes[:, 5:] * boxes[:, 4:5]
            # Decoded sizes are not negative; the logarithms of sizes are.
            raw = boxes[:, 2:4].min(initial=0) < 0
            return _corners(_decoded(boxes[:, :4], size) if raw else boxes[:, :4]), scores
        scores = outputs[self.scores][0].astype(np.float32)
        # Corners are fractions of the image, as exporters of SSD write them, or pixels.
        height, width = size
        scale = (width, height, width, height) if np.abs(boxes).max(initial=0) <= 2 else 1
        return (boxes * np.array(scale, np.float32)).astype(np.float32), scores


def _corners(boxes: Boxes) -> Boxes:
    centres, halves = boxes[:, :2], boxes[:, 2:4] / 2
    return np.concatenate((centres - halves, centres + halves), 1).astype(np.float32)


def _decoded(boxes: Boxes, size: tuple[int, int]) -> Boxes:
    # YOLOX: offsets in cells of grids, and logarithms of sizes in cells.
    for count in range(1, len(STRIDES) + 1):
        cells: list[Boxes] = []
        for stride in STRIDES[:count]:
            y, x = np.mgrid[: size[0] // stride, : size[1] // stride].reshape(2, -1)
            cells.append(np.stack((x, y, np.full_like(x, stride)), 1).astype(np.float32))
        grid = np.concatenate(cells)
        if len(grid) == len(boxes):
            strides = grid[:, 2:]
            with np.errstate(over="ignore"):
                sizes = np.exp(boxes[:, 2:4]) * strides
            return np.concatenate(((boxes[:, :2] + grid[:, :2]) * strides, sizes), 1)
    raise InputError(
        f"--metric detection: {len(boxes)} boxes of an input of {size[0]}x{size[1]} are not "
        "decoded, and do not match grids with strides 8, 16, 32, 64: use --metric "
        "FILE.py:FUNCTION"
    )


def detections(boxes: Boxes, scores: Boxes) -> Boxes:
    """
    Return the boxes with the highest scores, by decreasing score, after non-maximum suppression: of
    overlapping boxes of a class, only the best is kept. The shape is [MAX_DETECTIONS, 6]: the box,
    the score and the class; missing rows are -1.
    """
    flat = np.where(np.isfinite(scores), scores, 0).ravel()
    # A few hundred of two million scores are sorted.
    likely = np.flatnonzero(flat > MIN_SCORE)
    order = likely[np.argsort(-flat[likely], kind="stable")][:MAX_EXAMINED_BOXES]
    rows, classes = np.divmod(order, scores.shape[1])
    found = np.concatenate(
        (boxes[rows], flat[order, None], classes[:, None].astype(np.float32)), 1
    ).astype(np.float32)
    kept = np.full((MAX_DETECTIONS, 6), -1, np.float32)
    left, number = found[np.isfinite(found).all(1)], 0
    while len(left) and number < MAX_DETECTIONS:
        kept[number] = best = left[0]
        number += 1
        left = left[1:]
        left = left[(left[:, 5] != best[5]) | (overlaps(best, left) <= MAX_OVERLAP)]
    return kept


def overlaps(box: Boxes, boxes: Boxes) -> Boxes:
    """Return the intersection over union of `box` with each row of `boxes`."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:4], boxes[:, 2:4])
    inside = np.clip(high - low, 0, None).prod(1)
    areas = [np.clip(b[..., 2:4] - b[..., :2], 0, None).prod(-1) for b in (box, boxes)]
    union = np.maximum(areas[0] + areas[1] - inside, np.float32(1e-12))
    return (inside / union).astype(np.float32)


MIN_OBJECT_SCORE = 0.3
"""The score from which a detection of the float network is an object."""

MAX_SUM_ERROR = 1e-3
"""The largest difference of summed scores from 1, if a class is the background."""


def background_classes(heads: Heads, scores: Boxes) -> int:
    """
    Return 1 if the first class in `scores` is the background, as in SSD with a softmax over all
    classes; else 0.
    """
    is_softmax = heads.layout == "pair" and np.abs(scores.sum(1) - 1).max() < MAX_SUM_ERROR
    return int(is_softmax and scores.shape[1] > 1)


class AveragePrecision:
    """
    The average precision of the detections of both networks. It keeps the best boxes of each
    sample.
    """

    def __init__(
        self,
        shapes: dict[str, tuple[int, ...]],
        size: tuple[int, int],
        labels: CocoLabels | None,
    ):
        _expect_pycocotools()
        self._heads, self._size, self._labels = Heads.find(shapes), size, labels
        self._found: tuple[list[Boxes], list[Boxes]] = ([], [])
        self._first: int | None = None

    def add(self, real: Outputs, quantized: Outputs) -> None:
        for outputs, found in zip((real, quantized), self._found, strict=True):
            boxes, scores = self._heads.read(outputs, self._size)
            found.append(detections(boxes, scores[:, self._skipped(scores) :]))

    def _skipped(self, scores: Boxes) -> int:
        if self._first is None:
            self._first = background_classes(self._heads, scores)
        return self._first

    def merge(self, following: Self) -> None:
        for found, more in zip(self._found, following._found, strict=True):
            found += more

    def figures(self) -> list[Figure]:
        real, quantized = self._found
        against = [_sure(boxes) for boxes in real]
        found = [Figure(PRECISION_AGAINST_FLOAT, _precision(quantized, against))]
        if self._labels is not None:
            truth = self._labels.boxes(self._heads.classes - (self._first or 0))[: len(real)]
            pair = [_precision(boxes, truth) for boxes in (real, quantized)]
            found.insert(0, Figure(PRECISION, pair[1], pair[0]))
        return found


def _sure(boxes: Boxes) -> NDArray[np.generic]:
    # Detections in the format of true boxes; the last column is the crowd flag.
    certain = boxes[(boxes[:, 5] >= 0) & (boxes[:, 4] >= MIN_OBJECT_SCORE)]
    return np.concatenate((certain[:, :4], certain[:, 5:], np.zeros((len(certain), 1))), 1)


def _expect_pycocotools() -> None:
    if find_spec("pycocotools") is None:
        command = install_command("detection")
        raise InputError(f"--metric detection needs pycocotools: {command}")


def _precision(found: Sequence[Boxes], truth: Sequence[NDArray[np.generic]]) -> Reading:
    # The matches of an image do not depend on the selection of samples, so they are cached.
    evaluation = _matched(found, truth)
    classes, images = len(evaluation.params.catIds), len(found)
    matches: list[Any] = evaluation.evalImgs

    def read(chosen: Chosen) -> float:
        evaluation.evalImgs = [matches[c * images + i] for c in range(classes) for i in chosen]
        evaluation.params.imgIds = evaluation._paramsEval.imgIds = list(range(len(chosen)))
        with redirect_stdout(io.StringIO()):
            evaluation.accumulate()
        precision = evaluation.eval["precision"]
        known = precision[precision > -1]
        return float(known.mean()) if known.size else 0.0

    return read


def _matched(found: Sequence[Boxes], truth: Sequence[NDArray[np.generic]]) -> Any:
    from pycocotools.coco import COCO  # pyright: ignore[reportMissingTypeStubs]
    from pycocotools.cocoeval import COCOeval  # pyright: ignore[reportMissingTypeStubs]

    images = [{"id": i} for i in range(len(found))]
    true = [
        _object(i, row[:4], row[4], iscrowd=int(row[5])) for i, b in enumerate(truth) for row in b
    ]
    known = [
        _object(i, row[:4], row[5], score=float(row[4]))
        for i, boxes in enumerate(found)
        for row in boxes[boxes[:, 5] >= 0]
    ]
    categories = [{"id": c} for c in sorted({o["category_id"] for o in (*true, *known)})]
    sets: list[Any] = []
    with redirect_stdout(io.StringIO()):
        for objects in (true, known):
            numbered = [{**o, "id": n + 1} for n, o in enumerate(objects)]
            data: Any = COCO()
            data.dataset = {"images": images, "annotations": numbered, "categories": categories}
            data.createIndex()
            sets.append(data)
        evaluation: Any = COCOeval(sets[0], sets[1], "bbox")
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, 1e10]], ["all"]
        evaluation.params.maxDets = [100]
        evaluation.evaluate()
    return evaluation


def _object(
    image: int, box: NDArray[np.generic], category: np.generic, **more: float
) -> dict[str, Any]:
    left, top, right, bottom = (float(v) for v in box)
    width, height = max(right - left, 0.0), max(bottom - top, 0.0)
    area = {"area": width * height, "iscrowd": 0}
    return {
        "image_id": image,
        "category_id": int(category),
        "bbox": [left, top, width, height],
        **area,
        **more,
    }


Entry = dict[str, object]
Placement = tuple[float, float, float, float]
"""The map from pixels of an image to pixels of the input: factors of x and y, then offsets."""

COCO_KEYS = {
    "images": ("id", "file_name"),
    "categories": ("id",),
    "annotations": ("image_id", "category_id", "bbox"),
}
"""The entries of each table that are used."""


class CocoLabels:
    """The labelled boxes of samples, in pixels of the network input."""

    def __init__(self, path: str):
        self.path = path
        tables = _tables(path)
        self._images = tables["images"]
        self._categories = sorted(_integer(c["id"], "category", path) for c in tables["categories"])
        self._rows: dict[object, list[tuple[float, ...]]] = {}
        for annotation in tables["annotations"]:
            row = self._row(annotation)
            self._rows.setdefault(annotation["image_id"], []).append(row)
        self._samples: list[tuple[object, Placement]] = []

    def _row(self, annotation: Entry) -> tuple[float, ...]:
        # Left, top, right, bottom in pixels of the image, category, crowd flag.
        box, crowd = annotation["bbox"], annotation.get("iscrowd", 0)
        if not isa(box, list[float | int]) or len(box) != 4 or not np.isfinite(box).all():
            raise InputError(f"bbox must be four numbers, got {box}", self.path)
        category = _integer(annotation["category_id"], "category", self.path)
        if category not in self._categories:
            raise InputError(f"an annotation has the unknown category {category}", self.path)
        left, top, width, height = box
        return left, top, left + width, top + height, category, float(crowd == 1)

    def of_folder(self, folder: ImageFolder) -> None:
        """Select, for each file of an image folder, the labels of the image with the same name."""
        known = {str(image["file_name"]): image["id"] for image in self._images}
        for file, name in zip(folder.files, folder.names, strict=True):
            names = (name, file.name)
            found = [known[name] for name in names if name in known]
            if not found:
                raise InputError(f"has no image '{names[0]}' of {folder.folder}", self.path)
            self._samples.append((found[0], folder.placement(file)))

    def of_arrays(self, count: int, size: tuple[int, int]) -> None:
        """
        Assign the images of the label file to `count` samples in an `.npz` file, in order. The
        images must have `size`, the height and width of the input.
        """
        if len(self._images) != count:
            raise InputError(f"there are {len(self._images)} images for {count} samples", self.path)
        for image in self._images:
            if (image.get("height"), image.get("width")) != size:
                raise InputError(
                    f"image {image['id']} is not {size[0]}x{size[1]} as the input: the boxes of "
                    "samples in .npz files are in pixels of the input; use a folder of images",
                    self.path,
                )
            self._samples.append((image["id"], (1.0, 1.0, 0.0, 0.0)))

    def boxes(self, classes: int) -> list[NDArray[np.float64]]:
        """
        Return for each sample an array [objects, 6]: left, top, right and bottom in pixels of the
        input, class, and 1 if the box is a crowd. `classes` is the number of classes of the
        network.
        """
        first = self._first_category(classes)
        found: list[NDArray[np.float64]] = []
        for image, (x, y, left, top) in self._samples:
            table = np.array(self._rows.get(image, []), np.float64).reshape(-1, 6)
            table[:, :4] = table[:, :4] * (x, y, x, y) + (left, top, left, top)
            if first is None:
                table[:, 4] = np.searchsorted(self._categories, table[:, 4])
            else:
                table[:, 4] -= first
            found.append(table)
        return found

    def _first_category(self, classes: int) -> int | None:
        # The category of class 0 if ids are classes, gaps included; None if the order is.
        highest = self._categories[-1]
        if classes == len(self._categories):
            return None
        if classes in (highest, highest + 1):
            return highest + 1 - classes
        raise InputError(
            f"has {len(self._categories)} categories, and the network {classes} classes", self.path
        )


def _integer(value: object, name: str, path: str) -> int:
    if not isinstance(value, int):
        raise InputError(f"the id of a {name} must be an integer, got {value}", path)
    return value


def _tables(path: str) -> dict[str, Sequence[Entry]]:
    try:
        content: object = json.loads(read_text(path))
    except OSError as error:
        raise InputError(with_remedy(error, path), path) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", path) from None
    found: dict[str, Sequence[Entry]] = {}
    for table, keys in COCO_KEYS.items():
        rows = content.get(table) if isa(content, Entry) else None
        if not isa(rows, list[Entry]) or not all(k in row for row in rows for k in keys):
            raise InputError(f"not COCO's format: '{table}' must list {', '.join(keys)}", path)
        found[table] = rows
    if not found["categories"]:
        raise InputError("has no categories", path)
    return found
