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
    """Exports network objects of a framework by the exporter of the framework."""

    @abstractmethod
    def model(self, network: object, example_inputs: Sequence[object] | None) -> onnx.ModelProto:
        """
        Return `network` as an ONNX model. Nodes have the names of the parts of the network.
        `example_inputs` have the shapes and types of the inputs, in order.
        """

    @abstractmethod
    def title(self, network: object) -> str:
        """Return a name of the network, for reports."""


def exporter_of(network: object) -> NetworkExporter | None:
    """Return the exporter of an object, or `None` if no extension exports it."""
    packages = [cls.__module__.partition(".")[0] for cls in type(network).__mro__]
    for name in dict.fromkeys(packages):
        if (found := find_hook(name, NetworkExporter)) is not None:
            return found()
    return None


def rename_nodes(model: onnx.ModelProto, parts: Sequence[str]) -> None:
    """
    Give each node the name of a part of the network, with the operator and a number if the part has
    several nodes. Nodes with an empty name in `parts` keep theirs.
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
