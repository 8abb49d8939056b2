"""
The layers of a Q/DQ model as models of their own: from the integers that are dequantized to the
integers that come out. Comparing these one by one keeps a difference from spreading.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper, shape_inference

STORED = {np.dtype(np.int8): onnx.TensorProto.INT8, np.dtype(np.uint8): onnx.TensorProto.UINT8}


def layers(path: Path) -> Iterator[onnx.ModelProto]:
    """One model for each QuantizeLinear that has something to quantize, in order."""
    model = onnx.load_model_from_string(path.read_bytes())
    for value in (*model.graph.input, *model.graph.output):
        first = value.type.tensor_type.shape.dim[0]
        if first.dim_param:
            first.ClearField("dim_param")
            first.dim_value = 1
    model = shape_inference.infer_shapes(model)
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    producer = {name: node for node in graph.node for name in node.output}
    known = {v.name: v for v in (*graph.value_info, *graph.input, *graph.output)}
    for last in graph.node:
        if last.op_type != "QuantizeLinear" or last.input[0] not in producer:
            continue
        nodes = {last.output[0]: last}
        inputs: dict[str, None] = {}
        stack = [last.input[0]]
        while stack:
            node = producer[stack.pop()]
            if node.output[0] in nodes:
                continue
            nodes[node.output[0]] = node
            if node.op_type == "DequantizeLinear" and node.input[0] not in weights:
                inputs[node.input[0]] = None
                continue
            stack += [n for n in node.input if n and n not in weights]
        if len(nodes) == 2 or not inputs or any(name not in known for name in inputs):
            continue
        ordered = [node for node in graph.node if node.output[0] in nodes]
        used = {name for node in ordered for name in node.input}
        part = helper.make_graph(
            ordered,
            "layer",
            [known[name] for name in inputs],
            [helper.make_tensor_value_info(last.output[0], _type(last, weights), None)],
            [tensor for name, tensor in weights.items() if name in used],
        )
        yield helper.make_model(part, opset_imports=model.opset_import, ir_version=8)


def _type(node: onnx.NodeProto, weights: dict[str, onnx.TensorProto]) -> int:
    return STORED[numpy_helper.to_array(weights[node.input[2]]).dtype]


def random_inputs(
    model: onnx.ModelProto, generator: np.random.Generator
) -> dict[str, NDArray[np.generic]]:
    """Whole-range integers, in blocks, with extremes; one batch."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        data = generator.normal(0, 60, shape) + generator.integers(-80, 80)
        data[generator.random(shape) < 0.05] = 127
        data[generator.random(shape) < 0.05] = -128
        arrays[value.name] = np.clip(np.rint(data), -128, 127).astype(np.int8)
    return arrays
