"""Convert a Q/DQ model of 8-bit activations to 16 bits for some, signed or not."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

ENDS = ("QuantizeLinear", "DequantizeLinear")


def widened(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """
    Divide a random half of the activation scales by 256.

    The stored values cover the same range with 256 times as many steps. ONNX Runtime's custom Q and
    DQ
    support this at any opset.
    """
    random = np.random.default_rng(seed)
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    tensors = {tensor.name: tensor for tensor in wide.graph.initializer}
    nodes = [node for node in wide.graph.node if node.op_type in ENDS]
    weights = {node.input[1] for node in nodes if node.input[0] in tensors}
    scales = {node.input[1]: node.input[2] for node in nodes if node.input[1] not in weights}
    chosen = {name for name in scales if random.random() < 0.5}
    for name in chosen:
        point = numpy_helper.to_array(tensors[scales[name]])
        scale = numpy_helper.to_array(tensors[name]) / np.float32(256)
        kept = point.astype(np.int32) - np.iinfo(point.dtype).min
        kind = np.dtype((np.int16, np.uint16)[int(random.integers(2))])
        moved = (kept * 256 + np.iinfo(kind).min).astype(kind)
        tensors[name].CopyFrom(numpy_helper.from_array(scale, name))
        tensors[scales[name]].CopyFrom(numpy_helper.from_array(moved, scales[name]))
    for node in nodes:
        if node.input[1] in chosen:
            node.domain = "com.microsoft"
    del wide.graph.value_info[:]
    if "com.microsoft" not in {entry.domain for entry in wide.opset_import}:
        wide.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return wide
