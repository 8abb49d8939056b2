"""Which of many boxes are chosen."""

import numpy as np
from numpy.typing import NDArray
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls

from ceras_ir.dialects import graph


def chosen_boxes(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], most: int, overlap: np.float32
) -> list[int]:
    """The boxes [N, 4] of one image and class that are chosen, in their order; -inf is no score."""
    left = scores.copy()
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], np.float32(0))
    areas = sides[:, 0] * sides[:, 1]
    found: list[int] = []
    while len(found) < most and left.max() > -np.inf:
        best = int(left.argmax())
        found.append(best)
        first = np.maximum(boxes[:, :2], boxes[best, :2])
        last = np.minimum(boxes[:, 2:], boxes[best, 2:])
        shared = np.maximum(last - first, np.float32(0)).prod(axis=1, dtype=np.float32)
        union = areas[best] + areas - shared
        counts = (shared > 0) & (areas > 0) & (areas[best] > 0) & (union > 0)
        left[counts & (shared / union > overlap)] = -np.inf
        left[best] = -np.inf
    return found


@register_impls
class DetectionFunctions(InterpreterFunctions):
    """`graph.suppress`."""

    @impl(graph.SuppressOp)
    def suppress(self, interpreter: Interpreter, op: graph.SuppressOp, args: PythonValues):
        boxes, scores = args
        least, overlap = np.float32(op.least.value.data), np.float32(op.overlap.value.data)
        most = op.most.value.data
        rows = [
            (image, kind, box)
            for image, kinds in enumerate(np.where(scores > least, scores, -np.inf))
            for kind, of_kind in enumerate(kinds)
            for box in chosen_boxes(boxes[image], of_kind.astype(np.float32), most, overlap)
        ]
        result = np.full(graph.shape_of(op.result), -1, np.int64)
        kept = rows[: len(result)]
        if kept:
            result[: len(kept)] = kept
        return (result,)
