"""
Average precision of detectors as COCO defines it: the mean over classes and over overlaps of .5 to
.95, computed by pycocotools.

With true boxes both networks are judged by them; without, the quantized network by what the float
one detects with a score of at least `SURE`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ceras_ir.support.diagnostics import InputError
from ceras_ir.workbench.metrics.detection import Boxes, Heads, detections
from ceras_ir.workbench.metrics.figures import Chosen, Figure, Outputs, Reading

if TYPE_CHECKING:
    from ceras_ir.workbench.metrics.coco_labels import CocoLabels

SURE = 0.3
"""Score from which a detection of the float network counts as an object."""

BACKGROUND = 1e-3
"""By how much scores over all classes miss 1 at most, if one of them is the background."""


class AveragePrecision:
    """Boxes of both networks, a hundred of each sample."""

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
        """1 if the first class is the background, which SSD softmaxes with the others."""
        if self._first is None:
            sums = scores.sum(1)
            alike = self._heads.layout == "pair" and np.abs(sums - 1).max() < BACKGROUND
            self._first = int(alike and scores.shape[1] > 1)
        return self._first

    def merge(self, following: Self) -> None:
        for found, others in zip(self._found, following._found, strict=True):
            found += others

    def figures(self) -> list[Figure]:
        real, quantized = self._found
        against = [_sure(boxes) for boxes in real]
        found = [Figure("AP against the float network's", _precision(quantized, against))]
        if self._labels is not None:
            truth = self._labels.boxes(self._heads.classes - (self._first or 0))[: len(real)]
            pair = [_precision(boxes, truth) for boxes in (real, quantized)]
            found.insert(0, Figure("AP", pair[1], pair[0]))
        return found


def _sure(boxes: Boxes) -> NDArray[np.generic]:
    """Detections as true boxes: the last column says whether it is a crowd."""
    certain = boxes[(boxes[:, 5] >= 0) & (boxes[:, 4] >= SURE)]
    return np.concatenate((certain[:, :4], certain[:, 5:], np.zeros((len(certain), 1))), 1)


def _expect_pycocotools() -> None:
    if find_spec("pycocotools") is None:
        raise InputError("--metric detection needs pycocotools: pip install 'ceras-ir[detection]'")


def _precision(found: Sequence[Boxes], truth: Sequence[NDArray[np.generic]]) -> Reading:
    """
    Average precision on any choice of samples. What matches what in one image does not depend on
    the others, so that it is found once.
    """
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
