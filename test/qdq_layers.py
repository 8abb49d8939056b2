"""
Split a quantized model into a model per layer, from stored integers to stored integers.

A comparison layer by layer keeps a difference from spreading.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import helper
from onnx_models import Array, run_onnxruntime

STORED = (np.int8, np.uint8, np.int16, np.uint16)


def layers(
    model: onnx.ModelProto, inputs: Mapping[str, Array]
) -> Iterator[tuple[onnx.ModelProto, dict[str, Array]]]:
    """
    Build a model for the nodes between stored integers, and between integers and outputs.

    Each has the inputs that ONNX Runtime computes when the full model is run on `inputs`.
    """
    graph = model.graph
    producer = {name: node for node in graph.node for name in node.output if name}
    constants = {tensor.name for tensor in graph.initializer} | {""}
    for node in graph.node:
        if constants.issuperset(node.input):
            constants.update(node.output)
    values = {**inputs, **_values(model, list(producer), inputs)}
    stored = {n for n in producer if values[n].dtype.type in STORED and n not in constants}
    outputs = [value.name for value in graph.output if value.name not in stored]
    for last in (*(name for name in producer if name in stored), *outputs):
        nodes: set[str] = set()
        taken: dict[str, Array] = {}
        stack = [last]
        while stack:
            name = stack.pop()
            if name in inputs or (name in stored and name != last):
                taken[name] = values[name]
            elif name in producer and name not in nodes:
                nodes.update(producer[name].output)
                stack += producer[name].input
        if taken and nodes:
            yield _part(model, nodes, {n: values[n] for n in (*taken, last)}, last), taken


def _values(
    model: onnx.ModelProto, names: list[str], inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Compute the results of all nodes."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return run_onnxruntime(whole, inputs)


def _part(
    model: onnx.ModelProto, results: set[str], known: Mapping[str, Array], last: str
) -> onnx.ModelProto:
    """Build the nodes that compute `results`, from and to the values that are `known`."""
    nodes = [node for node in model.graph.node if results.issuperset(node.output)]
    used = {name for node in nodes for name in node.input}
    values = {
        name: helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in known.items()
    }
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in used]
    ends = [values[name] for name in known if name != last], [values[last]]
    graph = helper.make_graph(nodes, "layer", *ends, tensors)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)
