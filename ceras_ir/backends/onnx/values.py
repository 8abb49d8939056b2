"""
An ONNX model while it is built, and where it has the values of a network.

Inside feature maps are NHWC, ONNX computes on NCHW. A value is therefore a tensor and an order:
dimension i of the tensor is dimension `order[i]` of the value. A transposition is another order
of the same tensor, so that nodes for it appear only where two orders meet. A quantized value is a
tensor of integers between QuantizeLinear and DequantizeLinear, and operations on real numbers read
the result of the latter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.support.diagnostics import node_name

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


Number = TypeVar("Number", bound=np.generic)
Order: TypeAlias = tuple[int, ...]
Side: TypeAlias = Literal["real", "stored"]
"""Of a quantized value: the numbers it stands for, or its integers. Others have one side."""

FEATURES: Order = (0, 3, 1, 2)
"""NCHW for a value in NHWC."""

WIDE_SINCE = 21
"""The opset from which 16 bits can be quantized."""


def unchanged(value: SSAValue) -> Order:
    """The value's own order."""
    return tuple(range(len(graph.shape_of(value))))


def broadcast(numbers: NDArray[Number], order: Order) -> NDArray[Number]:
    """What broadcasts to a value, so that it does so in `order`, without leading ones."""
    if not numbers.ndim:
        return numbers
    numbers = numbers.reshape((1,) * (len(order) - numbers.ndim) + numbers.shape).transpose(order)
    leading = next((i for i, extent in enumerate(numbers.shape) if extent > 1), numbers.ndim - 1)
    return numbers.reshape(numbers.shape[leading:])


@dataclass(frozen=True)
class Placed:
    """A tensor of the model that holds a value."""

    tensor: str
    order: Order


class Values:
    """All values so far; what is missing of them is made when it is asked for."""

    def __init__(self, builder: ModelBuilder):
        self.builder = builder
        self.placed: dict[tuple[SSAValue, Side], Placed] = {}
        self.arranged: dict[tuple[SSAValue, Side, Order], str] = {}
        self.dequantized: dict[SSAValue, tuple[SSAValue, Order]] = {}

    def define(self, value: SSAValue, tensor: str, order: Order, side: Side = "real") -> None:
        """`tensor` holds `value`."""
        self.placed[value, side] = Placed(tensor, order)

    def quantize(self, value: SSAValue, real: str, order: Order) -> None:
        """`real` holds the numbers that the quantized `value` rounds."""
        element = graph.stored_element(value)
        name, shape = name_of(value), self.shape(value, order)
        self.define(
            value, self._through("Quantize", real, name, element, order, shape), order, "stored"
        )

    def stored_between(
        self, real: str, name: str, element: UniformType, order: Order, shape: Sequence[int]
    ) -> str:
        """`real`, which has only moved what is stored as `element`, through Q and DQ."""
        stored = self._through("Quantize", real, name, element, order, shape)
        return self._through("Dequantize", stored, name, element, order, shape)

    def dequantize(self, value: SSAValue, source: SSAValue) -> None:
        """`value` has the real numbers of the quantized `source`."""
        self.dequantized[value] = source, unchanged(value)

    def alias(self, value: SSAValue, source: SSAValue, permutation: Sequence[int]) -> None:
        """Dimension i of `value` is dimension `permutation[i]` of `source`."""
        if source in self.dequantized:
            quantized, order = self.dequantized[source]
            self.dequantized[value] = quantized, tuple(order[d] for d in permutation)
            return
        placed = self.placed[source, side := side_of(source)]
        order = tuple(permutation.index(d) for d in placed.order)
        self.define(value, placed.tensor, order, side)

    def order(self, value: SSAValue) -> Order | None:
        """The order that `value` is in; None for a constant, which takes any."""
        if isinstance(value.owner, graph.ConstantOp):
            return None
        if value in self.dequantized:
            source, order = self.dequantized[value]
            stored = self.order(source)
            return None if stored is None else tuple(order.index(d) for d in stored)
        return self.placed[value, side_of(value)].order

    def get(self, value: SSAValue, order: Order, side: Side = "real") -> str:
        """The tensor that holds `value` in `order`."""
        if value in self.dequantized:
            source, own = self.dequantized[value]
            return self.get(source, tuple(own[d] for d in order))
        element = graph.quantized_element(value)
        if element is None:
            side = "real"
        key = value, side, order
        if key not in self.arranged:
            if element is not None and side == "real":
                # Of a quantized value integers are moved, so that Q and DQ stay neighbours.
                stored = self.get(value, order, "stored")
                name, shape = name_of(value), self.shape(value, order)
                self.arranged[key] = self._through(
                    "Dequantize", stored, name, element, order, shape
                )
            elif isinstance(value.owner, graph.ConstantOp):
                array = value.owner.array().transpose(order)
                self.arranged[key] = self.builder.constant(array, name_of(value))
            else:
                self.arranged[key] = self._moved(value, side, order)
        return self.arranged[key]

    def _moved(self, value: SSAValue, side: Side, order: Order) -> str:
        placed = self.placed[value, side]
        if placed.order == order:
            return placed.tensor
        return self.builder.node(
            "Transpose",
            [placed.tensor],
            f"{name_of(value)}/transpose",
            graph.numpy_dtype(graph.element_of(value)),
            self.shape(value, order),
            attributes={"perm": [placed.order.index(d) for d in order]},
        )

    def _through(
        self,
        kind: Literal["Quantize", "Dequantize"],
        x: str,
        name: str,
        element: UniformType,
        order: Order,
        shape: Sequence[int],
    ) -> str:
        """`x` behind a QuantizeLinear or a DequantizeLinear."""
        is_stored = kind == "Quantize"
        return self.builder.node(
            f"{kind}Linear",
            [x, *self._scale(element)],
            f"{name}/{kind.lower()}",
            graph.numpy_dtype(element) if is_stored else np.dtype(np.float32),
            shape,
            attributes=_axis(element, order),
            since=_since(element),
        )

    @staticmethod
    def shape(value: SSAValue, order: Order) -> list[int]:
        """The shape of the tensor that holds `value` in `order`."""
        shape = graph.shape_of(value)
        return [shape[d] for d in order]

    def _scale(self, element: UniformType) -> list[str]:
        """Initializers of scale and zero point; 32 bits have no zero point in ONNX."""
        scales = np.array([s.data for s in element.scales], np.float32)
        points = np.array([z.data for z in element.zero_points], graph.numpy_dtype(element))
        if not element.is_per_axis:
            scales, points = scales.reshape(()), points.reshape(())
        names = [self.builder.constant(scales, "scale")]
        if element.storage.width.data <= 16:
            names.append(self.builder.constant(points, "zero_point"))
        return names


def side_of(value: SSAValue) -> Side:
    """The side on which operations make a value."""
    return "real" if graph.quantized_element(value) is None else "stored"


def name_of(value: SSAValue) -> str:
    """What the network calls the node that makes `value`."""
    if isinstance(value.owner, Operation):
        return node_name(value.owner)
    return value.name_hint or "input"


def _since(element: UniformType) -> int:
    return WIDE_SINCE if element.storage.width.data == 16 else 13


def _axis(element: UniformType, order: Order) -> dict[str, int]:
    return {"axis": order.index(element.axis.data)} if isinstance(element.axis, IntAttr) else {}
