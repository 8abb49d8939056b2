"""
Boxes from the outputs of common detectors.

Detections of one sample are an array [DETECTIONS, 6]: left, top, right, bottom in pixels of the
input, score, class; rows behind the last one have class -1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ceras_ir.support.diagnostics import InputError
from ceras_ir.workbench.metrics.figures import Outputs

Boxes = NDArray[np.float32]

DETECTIONS = 100
"""At most so many of a sample, as COCO counts them."""

CANDIDATES = 1000
"""So many of the highest scores are looked at."""

LOWEST, OVERLAP = 0.001, 0.65
"""Scores below are none; of one class, boxes that overlap more are one. Customary for COCO."""

STRIDES = (8, 16, 32, 64)
"""Of the grids of boxes that the network leaves to its user to decode."""

Layout = Literal["rows", "columns", "pair"]


@dataclass(frozen=True)
class Heads:
    """Which outputs hold what."""

    layout: Layout
    boxes: str
    scores: str
    classes: int

    @classmethod
    def find(cls, shapes: Mapping[str, tuple[int, ...]]) -> "Heads":
        """
        By shape: [1, boxes, 5 + classes] as of YOLOv5 and YOLOX, [1, 4 + classes, boxes] as of
        YOLOv8, or [1, boxes, 4] and [1, boxes, classes] as of SSD.
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
            "--metric detection reads [1, boxes, 5 + classes], [1, 4 + classes, boxes], or "
            f"[1, boxes, 4] with [1, boxes, classes]; the outputs are {listed}: give "
            "--metric FILE.py:FUNCTION"
        )

    def read(self, outputs: Outputs, size: tuple[int, int]) -> tuple[Boxes, Boxes]:
        """Left, top, right, bottom of all boxes in pixels, and their scores by class."""
        boxes = outputs[self.boxes][0].astype(np.float32)
        if self.layout == "columns":
            return _corners(boxes[:4].T), boxes[4:].T
        if self.layout == "rows":
            scores = boxes[:, 5:] * boxes[:, 4:5]
            # Sizes that are decoded are not negative; their logarithms are.
            raw = boxes[:, 2:4].min(initial=0) < 0
            return _corners(_decoded(boxes[:, :4], size) if raw else boxes[:, :4]), scores
        scores = outputs[self.scores][0].astype(np.float32)
        # Corners as shares of the image, as exporters of SSD write them, or in pixels.
        height, width = size
        scale = (width, height, width, height) if np.abs(boxes).max(initial=0) <= 2 else 1
        return (boxes * np.array(scale, np.float32)).astype(np.float32), scores


def _corners(boxes: Boxes) -> Boxes:
    """From centres and sizes."""
    centres, halves = boxes[:, :2], boxes[:, 2:4] / 2
    return np.concatenate((centres - halves, centres + halves), 1).astype(np.float32)


def _decoded(boxes: Boxes, size: tuple[int, int]) -> Boxes:
    """Centres and sizes of YOLOX: offsets in cells of grids, and logarithms of sizes in cells."""
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
        "decoded, and are not those of grids of strides 8, 16, 32, 64: give --metric "
        "FILE.py:FUNCTION"
    )


def detections(boxes: Boxes, scores: Boxes) -> Boxes:
    """The best boxes of each class that do not overlap, by falling score."""
    flat = np.where(np.isfinite(scores), scores, 0).ravel()
    # Of two million scores a few hundred are worth sorting.
    likely = np.flatnonzero(flat > LOWEST)
    order = likely[np.argsort(-flat[likely], kind="stable")][:CANDIDATES]
    rows, classes = np.divmod(order, scores.shape[1])
    found = np.concatenate(
        (boxes[rows], flat[order, None], classes[:, None].astype(np.float32)), 1
    ).astype(np.float32)
    kept = np.full((DETECTIONS, 6), -1, np.float32)
    left, number = found[np.isfinite(found).all(1)], 0
    while len(left) and number < DETECTIONS:
        kept[number] = best = left[0]
        number += 1
        left = left[1:]
        left = left[(left[:, 5] != best[5]) | (overlaps(best, left) <= OVERLAP)]
    return kept


def overlaps(box: Boxes, others: Boxes) -> Boxes:
    """Intersection over union of a box with each of the others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:4], others[:, 2:4])
    inside = np.clip(high - low, 0, None).prod(1)
    areas = [np.clip(b[..., 2:4] - b[..., :2], 0, None).prod(-1) for b in (box, others)]
    union = np.maximum(areas[0] + areas[1] - inside, np.float32(1e-12))
    return (inside / union).astype(np.float32)
