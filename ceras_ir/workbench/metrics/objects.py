"""Find the objects in the outputs of a detector, for `ceras-run`."""

import numpy as np

from ceras_ir.data.samples import Array
from ceras_ir.driver.answers import FoundObject, ObjectFinder, ObjectsOfSample
from ceras_ir.support.diagnostics import InputError
from ceras_ir.workbench.metrics.detection import (
    MIN_OBJECT_SCORE,
    Boxes,
    Heads,
    background_classes,
    detections,
)
from ceras_ir.workbench.metrics.figures import Outputs


class DetectedObjects(ObjectFinder):
    """
    Finds objects in the outputs of detectors, for the answers of `ceras-run`.

    Outputs of other networks can have the same shapes. The network is therefore taken for a
    detector only if all scores are between 0 and 1. Objects have a score of `MIN_OBJECT_SCORE` or
    more.
    """

    def objects(self, outputs: Outputs, size: tuple[int, int]) -> ObjectsOfSample | None:
        """
        Return the objects in an image of the height and width `size`; `None` if the network is not
        a detector.
        """
        try:
            heads = Heads.find({name: array.shape for name, array in outputs.items()})
            boxes, scores = heads.read(outputs, size)
        except InputError:
            return None
        if not _are_shares(scores):
            return None
        first = background_classes(heads, scores)
        found = detections(boxes, scores[:, first:])
        sure = found[(found[:, 5] >= 0) & (found[:, 4] >= MIN_OBJECT_SCORE)]
        objects = [_object(row) for row in sure]
        return ObjectsOfSample(heads.classes - first, objects)


def _are_shares(scores: Array) -> bool:
    return bool(np.isfinite(scores).all() and scores.min() >= 0 and scores.max() <= 1)


def _object(row: Boxes) -> FoundObject:
    left, top, right, bottom, score, category = map(float, row)
    return FoundObject(int(category), score, (left, top, right, bottom))
