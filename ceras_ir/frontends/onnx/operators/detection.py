"""Operators behind detectors."""

from math import inf

from ceras_ir.dialects.graph import Binary, SuppressOp
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import WHERE_COMPUTED, constant_operands, operator
from ceras_ir.frontends.onnx.values import Value

constant_operands(
    {"NonMaxSuppression": [2, 3, 4]},
    "the most boxes and both thresholds must be constants",
    WHERE_COMPUTED,
)


@operator("NonMaxSuppression")
def non_max_suppression(node: Node, emitter: Emitter) -> Value:
    """
    As many rows as the model says that there are, or else as there can be; those behind the last
    chosen box are -1.
    """
    compose = Composer(emitter)
    boxes, scores = emitter.shape(0), emitter.shape(1)
    if len(boxes) != 3 or len(scores) != 3 or boxes[2] != 4 or boxes[::2] != (scores[0], 4):
        raise node.wrong(f"boxes of {list(boxes)} and scores of {list(scores)}")
    most = emitter.integers(2)[0] if node.has_input(2) else 0
    if most < 1:
        raise node.unsupported("no boxes at all, which is a result without elements")
    overlap = float(emitter.floats(3).reshape(-1)[0]) if node.has_input(3) else 0.0
    least = float(emitter.floats(4).reshape(-1)[0]) if node.has_input(4) else -inf
    parts: list[Value] = [compose.part(emitter.value(0), 2, i, 1) for i in range(4)]
    if node.flag("center_point_box"):
        x, y, width, height = parts
        half = compose.number(0.5)
        ends = [(y, compose.mul(height, half)), (x, compose.mul(width, half))]
        parts = [*(compose.sub(*end) for end in ends), *(compose.add(*end) for end in ends)]
    lesser = [emitter.binary(Binary.MIN, parts[i], parts[i + 2]) for i in range(2)]
    greater = [emitter.binary(Binary.MAX, parts[i], parts[i + 2]) for i in range(2)]
    corners = emitter.materialize(compose.joined([*lesser, *greater], 2))
    declared = emitter.declared.get(node.outputs[0])
    most = min(most, boxes[1])
    rows = declared[0] if declared else scores[0] * scores[1] * most
    return emitter.emit(SuppressOp(corners, emitter.tensor(1), rows, most, (overlap, least)))
