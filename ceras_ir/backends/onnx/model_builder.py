"""An ONNX model in the making: nodes, initializers, names, and the opset that they need."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array: TypeAlias = NDArray[np.generic]
Attribute: TypeAlias = int | float | str | Sequence[int]

LEAST_OPSET = 13
"""The first with a scale per channel."""
SHARED = 16
"""Constants of up to so many elements are written once for all who read them."""


def tensor_kind(dtype: np.dtype[np.generic]) -> int:
    """ONNX's number of a numpy type."""
    return helper.np_dtype_to_tensor_dtype(dtype)


class ModelBuilder:
    """Collects nodes in the order they run."""

    def __init__(self, title: str):
        self.title = title
        self.opset = LEAST_OPSET
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.known: list[onnx.ValueInfoProto] = []
        self.tensors: set[str] = set()
        self.names: set[str] = set()
        self.shared: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def tensor(self, wanted: str) -> str:
        """A name that no tensor has yet."""
        return _unused(wanted, self.tensors)

    def constant(self, array: Array, wanted: str) -> str:
        """An initializer; small ones are shared by all that are equal."""
        key = (array.dtype.name, array.shape, array.tobytes() if array.size <= SHARED else b"")
        if array.size <= SHARED and key in self.shared:
            return self.shared[key]
        name = self.tensor(wanted)
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        # ascontiguousarray makes vectors of scalars.
        self.initializers[-1].dims[:] = array.shape
        if array.size <= SHARED:
            self.shared[key] = name
        return name

    def integers(self, values: Iterable[int], wanted: str) -> str:
        """A vector of 64-bit integers, as shapes and positions are given."""
        return self.constant(np.array(list(values), np.int64), wanted)

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        name: str,
        dtype: np.dtype[np.generic],
        shape: Sequence[int],
        *,
        attributes: Mapping[str, Attribute] | None = None,
        since: int = LEAST_OPSET,
        unused: int = 0,
    ) -> str:
        """
        Append a node that makes a tensor of this type and shape, behind others that nothing reads;
        the tensor's name.
        """
        self.opset = max(self.opset, since)
        chosen = _unused(name, self.names)
        result = self.tensor(f"{chosen}_output")
        others = [self.tensor(f"{chosen}_unused") for _ in range(unused)]
        node = helper.make_node(operator, inputs, [*others, result], chosen)
        for key, value in sorted((attributes or {}).items()):
            node.attribute.append(helper.make_attribute(key, value))
        self.nodes.append(node)
        self.known.append(helper.make_tensor_value_info(result, tensor_kind(dtype), list(shape)))
        return result

    def rename(self, old: str, new: str) -> None:
        """Call the tensor `old`, which a node makes, `new`."""
        for node in self.nodes:
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    if name == old:
                        names[i] = new
        self.known = [info for info in self.known if info.name != old]

    def model(
        self, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]
    ) -> onnx.ModelProto:
        """The finished model."""
        graph = helper.make_graph(
            self.nodes, self.title, inputs, outputs, self.initializers, value_info=self.known
        )
        opset = helper.make_opsetid("", self.opset)
        return helper.make_model(
            graph,
            opset_imports=[opset],
            ir_version=helper.find_min_ir_version_for([opset]),
            producer_name="ceras_ir",
            producer_version=version("ceras-ir"),
        )


def _unused(wanted: str, taken: set[str]) -> str:
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name
