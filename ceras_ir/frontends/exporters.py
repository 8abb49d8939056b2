"""
Find the extension that exports a network object of another framework, such as a PyTorch module.

An extension registers a `NetworkExporter` in the group of hooks, under the name of the package that
defines the class of the object or a base class of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from ceras_ir.support.diagnostics import InputError, UnsupportedError, UsageError
from ceras_ir.support.extensions import find_hook

if TYPE_CHECKING:
    import onnx
    from xdsl.dialects.builtin import ModuleOp

Export: TypeAlias = "Callable[[], onnx.ModelProto]"
"""Exports a network. Raises an `UnsupportedError` if the framework cannot."""


class NetworkExporter(ABC):
    """
    Converts network objects of a framework, such as PyTorch modules, to ONNX. An extension
    implements it by the exporter of the framework.
    """

    @abstractmethod
    def exports(self, network: object, example_inputs: Sequence[object] | None) -> Sequence[Export]:
        """
        Return functions that export `network`; the next one is a remedy if a model is not imported.
        Nodes have the names of the layers of the network. `example_inputs` have the shapes and
        types of the inputs, in order.
        """

    @abstractmethod
    def title(self, network: object) -> str:
        """Return a name for `network` in reports."""


def import_exported(
    exporter: NetworkExporter,
    network: object,
    example_inputs: Sequence[object] | None,
    *,
    batch: int,
    shapes: Mapping[str, Sequence[int]] | None,
    values: Mapping[str, Sequence[float]] | None,
    name: str,
) -> ModuleOp:
    """
    Import `network` from the first export that can be imported; options are those of
    `ceras_ir.frontends.onnx.import_model`. Otherwise raise the error of the first export. A model
    that contradicts ONNX is an error of the exporter, so it is `unsupported`.
    """
    from ceras_ir.frontends.onnx import import_model

    first: InputError | None = None
    for export in exporter.exports(network, example_inputs):
        try:
            return import_model(export(), batch=batch, shapes=shapes, values=values, name=name)
        except UsageError:
            raise
        except InputError as error:
            first = first or error
    assert first is not None
    if first.findings and not isinstance(first, UnsupportedError):
        found = [replace(each, message=INVALID.format(each.message)) for each in first.findings]
        raise UnsupportedError(found, name) from first
    raise first


INVALID = (
    "unsupported, because the exporter of the framework wrote an invalid model: {}; compute this "
    "layer with other operations, or use another version of the framework"
)


def exporter_of(network: object) -> NetworkExporter | None:
    """
    Return the exporter for `network`, or `None` if no extension exports objects of this class.
    """
    packages = [cls.__module__.partition(".")[0] for cls in type(network).__mro__]
    for name in dict.fromkeys(packages):
        if (found := find_hook(name, NetworkExporter)) is not None:
            return found()
    return None


def rename_nodes(model: onnx.ModelProto, parts: Sequence[str]) -> None:
    """
    Rename each node of `model` after the layer that computes it. `parts` has the name of the layer
    for each node; nodes with an empty entry keep their names. If a layer has several nodes, the
    operator and, if necessary, a number are appended: `layer1/Conv`, `layer1/Add_2`.
    """
    counts, used = Counter(parts), set[str]()
    for node, part in zip(model.graph.node, parts, strict=True):
        if not part:
            used.add(node.name)
            continue
        name = base = part if counts[part] == 1 else f"{part}/{node.op_type}"
        number = 1
        while name in used:
            number += 1
            name = f"{base}_{number}"
        used.add(name)
        node.name = name
