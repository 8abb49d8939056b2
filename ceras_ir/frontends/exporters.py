"""
Find the extension that exports a network object of another framework, such as a PyTorch module.

An extension registers a `NetworkExporter` in the group of hooks, under the name of the package that
defines the class of the object or a base class of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ceras_ir.support.extensions import find_hook

if TYPE_CHECKING:
    import onnx


class NetworkExporter(ABC):
    """
    Converts network objects of a framework, such as PyTorch modules, to ONNX. An extension
    implements it by the exporter of the framework.
    """

    @abstractmethod
    def model(self, network: object, example_inputs: Sequence[object] | None) -> onnx.ModelProto:
        """
        Return `network` as an ONNX model, in which nodes have the names of the layers of the
        network. `example_inputs` have the shapes and types of the inputs, in order.
        """

    @abstractmethod
    def title(self, network: object) -> str:
        """Return a name for `network` in reports."""


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
