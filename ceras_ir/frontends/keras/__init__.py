"""
Export Keras models by the ONNX exporter of the Keras backend.

With PyTorch as the backend, a Keras model is a PyTorch module and is exported as one. Its layers
are not in the module tree, so nodes get the names of the layers whose weights they use. With other
backends, `Model.export` writes a file in a temporary folder. Keras is imported by the user, never
by this module.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ceras_ir.frontends.exporters import Export, NetworkExporter, rename_nodes
from ceras_ir.frontends.formats import ONNX
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.extensions import find_hook

if TYPE_CHECKING:
    import onnx


class KerasExporter(NetworkExporter):
    """Converts models of Keras 3 to ONNX."""

    def exports(self, network: object, example_inputs: Sequence[object] | None) -> Sequence[Export]:
        inputs = _inputs(network, example_inputs)
        # The backend was chosen when the user imported Keras.
        backend = str(cast(Any, sys.modules["keras"]).config.backend())
        if backend != "torch":
            return [partial(_exported, network, inputs, backend)]
        exporter = find_hook("torch", NetworkExporter)
        if exporter is None:
            raise UsageError("Keras models on PyTorch need the extension pytorch of ceras_ir")
        exports = exporter().exports(_inference(network), inputs)
        return [partial(_named, export, network) for export in exports]

    def title(self, network: object) -> str:
        return str(getattr(network, "name", type(network).__name__))


def _inference(network: object) -> object:
    """
    Return a PyTorch module that calls `network` for inference: layers for augmentation otherwise
    change their input. Several inputs are passed in the structure that a functional model declares.
    """
    module: Any = cast(Any, import_module("torch")).nn.Module
    tree = cast(Any, sys.modules["keras"]).tree
    declared: object = getattr(network, "input", None)
    call = cast(Any, network)

    class Inference(module):
        def __init__(self) -> None:
            module.__init__(self)
            self.network = network

        def forward(self, *args: object) -> object:
            if declared is not None:
                args = (tree.pack_sequence_as(declared, list(args)),)
            return call(*args, training=False)

    return Inference()


def _named(export: Export, network: object) -> onnx.ModelProto:
    model = export()
    name_layers(model, network)
    return model


def _layers_of_weights(network: object) -> dict[tuple[tuple[int, ...], bytes], str]:
    """
    Map the shape and the bytes of each weight tensor to the name of the layer, or to "" if several
    layers have equal weights.
    """
    found: dict[tuple[tuple[int, ...], bytes], str] = {}
    variables: Sequence[Any] = getattr(network, "variables", ())
    for each in variables:
        array, layer = np.asarray(each.numpy()), str(each.path).rpartition("/")[0]
        key = array.shape, array.tobytes()
        found[key] = layer if found.get(key, layer) == layer else ""
    return found


def name_layers(model: onnx.ModelProto, network: object) -> None:
    """
    Rename each node of `model` after the layer of the Keras model `network` from which the weights
    originate; the weights may be transposed or reshaped first. Layers are found by the values of
    the weights, since the exporter of PyTorch does not keep names. Equal weights of several layers
    give no name.
    """
    from onnx import numpy_helper

    layers, owners = _layers_of_weights(network), dict[str, str]()
    for each in model.graph.initializer:
        array = numpy_helper.to_array(each)
        owners[each.name] = layers.get((array.shape, array.tobytes()), "")
    names = list[str]()
    for node in model.graph.node:
        found = {owners.get(name, "") for name in node.input} - {""}
        layer = found.pop() if len(found) == 1 else ""
        is_constant = all(name in owners for name in node.input if name)
        if is_constant:
            owners.update(dict.fromkeys(node.output, layer))
        names.append("" if is_constant else layer)
    rename_nodes(model, names)


def _inputs(network: object, example_inputs: Sequence[object] | None) -> list[object]:
    """
    Return the example inputs for the export: the inputs of the caller, or zeros in the declared
    shapes with a batch of 1. Raise a `UsageError` if another declared extent is unknown.
    """
    if example_inputs is not None:
        return list(example_inputs)
    declared: Sequence[Any] = getattr(network, "inputs", None) or ()
    if not declared:
        raise UsageError(
            "a Keras model without declared inputs needs example inputs: ceras.load(model, "
            "example_inputs), a tuple of arrays with the shapes and types of the inputs"
        )
    found = list[object]()
    for each in declared:
        batch, *shape = each.shape
        if None in shape:
            raise UsageError(
                f"input '{each.name}' of shape {[batch, *shape]} has no fixed size: "
                "ceras.load(model, example_inputs) with arrays of the size to compile"
            )
        found.append(np.zeros([batch or 1, *shape], str(each.dtype)))
    return found


def _exported(network: Any, inputs: Sequence[Any], backend: str) -> onnx.ModelProto:
    from ceras_ir.frontends.onnx.model.model_file import read_model

    spec = cast(Any, sys.modules["keras"]).InputSpec
    signature = [spec(shape=each.shape, dtype=str(each.dtype)) for each in inputs]
    with tempfile.TemporaryDirectory(prefix="ceras-keras-") as folder:
        path = Path(folder, "model.onnx")
        try:
            network.export(
                str(path), format=ONNX.removeprefix("."), input_signature=signature, verbose=False
            )
        except ImportError as error:
            raise UsageError(
                f"the ONNX exporter of Keras on {backend} needs another package: {error}"
            ) from None
        return read_model(path)
