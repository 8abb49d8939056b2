"""Export to ONNX opset 13 for a compiler: without folding or machine paths, with named nodes.

Batch normalization remains a separate node, so that the compiler has to fold it.
"""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import warnings
from pathlib import Path

import onnx
import torch
from torch import nn


def export_onnx(network: nn.Module, path: Path) -> None:
    """Write `softmax(network(image))` to `path`, with a symbolic first dimension named `batch`."""
    model = nn.Sequential()
    for name, module in network.named_children():
        model.add_module(name, module)
    model.add_module("softmax", nn.Softmax(dim=1))
    model.eval()
    with warnings.catch_warnings():
        # The newer exporter folds batch normalization and needs onnxscript.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            model,
            (torch.zeros(1, 1, 8, 8),),
            path,
            input_names=["image"],
            output_names=["probabilities"],
            dynamic_axes={"image": {0: "batch"}, "probabilities": {0: "batch"}},
            opset_version=13,
            dynamo=False,
            # Use evaluation mode, but without the exporter's fusion of BatchNormalization into
            # Conv.
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
        )
    proto = onnx.ModelProto.FromString(path.read_bytes())
    rename_values(proto.graph)
    strip_traces(proto)
    onnx.checker.check_model(proto, full_check=True)
    path.write_bytes(proto.SerializeToString(deterministic=True))


def rename_values(graph: onnx.GraphProto) -> None:
    """Drop the leading `/` of node names, and name each inner value after its node."""
    final = {value.name for value in graph.output}
    names: dict[str, str] = {}
    for node in graph.node:
        node.name = node.name.removeprefix("/")
        for index, value in enumerate(node.input):
            node.input[index] = names.get(value, value)
        (output,) = node.output
        if output not in final:
            names[output] = node.name
            node.output[0] = node.name
    # Shapes of inner values are inferable, and would still have the old names.
    del graph.value_info[:]


def strip_traces(proto: onnx.ModelProto) -> None:
    """Remove documentation strings and metadata, which hold source paths of the machine."""
    graph = proto.graph
    graph.name = "digits"
    for part in (proto, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
