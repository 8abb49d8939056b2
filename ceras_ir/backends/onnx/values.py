"""
Build an ONNX model, and map the values of a network to tensors of the model.

Feature maps are NHWC in the network and NCHW in ONNX. A value is therefore a tensor and an order:
dimension i of the tensor is dimension `order[i]` of the value. A transposition only changes the
order. A Transpose node is added if operands of an operation have different orders. A quantized
value is a tensor of integers between QuantizeLinear and DequantizeLinear. Operations on real values
use the result of DequantizeLinear.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
from ceras_ir.network.storage import TIES_KEY
from ceras_ir.support.diagnostics import node_name
from ceras_ir.support.extensions import DISTRIBUTION

Array: TypeAlias = NDArray[np.generic]
Attribute: TypeAlias = int | float | str | Sequence[int]

MIN_OPSET = 13
"""The first opset with per-channel scales."""
MAX_SHARED_ELEMENTS = 16
"""Equal constants with at most this number of elements are stored a single time."""


def tensor_kind(dtype: np.dtype[np.generic]) -> int:
    """Return the number of an element type in ONNX (`TensorProto.DataType`): float32 is 1."""
    return helper.np_dtype_to_tensor_dtype(dtype)


class ModelBuilder:
    """
    An ONNX model under construction, with nodes in the order of execution. `opset` becomes the
    smallest version that has all operators of the nodes.
    """

    def __init__(self, title: str):
        self.title = title
        self.opset = MIN_OPSET
        self.nodes: list[onnx.NodeProto] = []
        self.even: list[str] = []
        """The names of QuantizeLinear nodes that keep even ties, see `TIES_KEY`."""
        self.initializers: list[onnx.TensorProto] = []
        self.known: list[onnx.ValueInfoProto] = []
        self.tensors: set[str] = set()
        self.names: set[str] = set()
        self.shared: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def tensor(self, wanted: str) -> str:
        """
        Reserve and return an unused tensor name: `wanted`, or `wanted_2`, `wanted_3` and so on if
        it is used.
        """
        return _unused(wanted, self.tensors)

    def constant(self, array: Array, wanted: str) -> str:
        """
        Add an initializer with the elements of `array`, and return its name: `wanted`, with a
        number if it is used. A small constant that equals an earlier one is not added again.
        """
        is_shared = array.size <= MAX_SHARED_ELEMENTS
        key = (array.dtype.name, array.shape, array.tobytes() if is_shared else b"")
        if is_shared and key in self.shared:
            return self.shared[key]
        name = self.tensor(wanted)
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        # ascontiguousarray converts scalars to vectors.
        self.initializers[-1].dims[:] = array.shape
        if is_shared:
            self.shared[key] = name
        return name

    def integers(self, values: Iterable[int], wanted: str) -> str:
        """
        Add a vector of 64-bit integers, such as a shape or indices, and return the name as
        `constant` does.
        """
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
        since: int = MIN_OPSET,
        unused: int = 0,
    ) -> str:
        """
        Append a node called `name`, or a similar unused name, and return the name of its result,
        which has type `dtype` and `shape`. The result is preceded by `unused` results without
        consumers, as of TopK. `since` is the first opset that has the operator.
        """
        self.opset = max(self.opset, since)
        chosen = _unused(name, self.names)
        result = self.tensor(f"{chosen}_output")
        outputs = [*(self.tensor(f"{chosen}_unused") for _ in range(unused)), result]
        node = helper.make_node(operator, inputs, outputs, chosen)
        for key, value in sorted((attributes or {}).items()):
            node.attribute.append(helper.make_attribute(key, value))
        self.nodes.append(node)
        self.known.append(helper.make_tensor_value_info(result, tensor_kind(dtype), list(shape)))
        return result

    def rename(self, old: str, new: str) -> None:
        """Rename the tensor `old`, which must be a result of a node, in all nodes."""
        for node in self.nodes:
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    if name == old:
                        names[i] = new
        self.known = [info for info in self.known if info.name != old]

    def model(
        self,
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[onnx.ValueInfoProto],
    ) -> onnx.ModelProto:
        """Return the complete model, with descriptions of the graph inputs and graph outputs."""
        graph = helper.make_graph(
            self.nodes, self.title, inputs, outputs, self.initializers, value_info=self.known
        )
        opset = helper.make_opsetid("", self.opset)
        model = helper.make_model(
            graph,
            opset_imports=[opset],
            ir_version=helper.find_min_ir_version_for([opset]),
            producer_name="ceras_ir",
            producer_version=version(DISTRIBUTION),
        )
        if self.even:
            helper.set_model_props(model, {TIES_KEY: "\n".join(self.even)})
        return model


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
"""
The two forms of a quantized value: real values, or stored integers. Other values are only "real".
"""

FEATURES: Order = (0, 3, 1, 2)
"""The order that makes an NHWC value an NCHW tensor."""

OPSETS = {2: 25, 4: 21, 8: MIN_OPSET, 16: 21, 32: MIN_OPSET}
"""The bits of integers that ONNX quantizes, and the first opset that has them."""


def stored_width(element: UniformType) -> int:
    """Return the bits of the integers of ONNX in which `element` is stored."""
    has_pairs = "INT2" in onnx.TensorProto.DataType.keys()  # noqa: SIM118
    return min(w for w in OPSETS if w >= element.width and (w > 2 or has_pairs))


def stored_dtype(element: UniformType) -> np.dtype[np.generic]:
    """Return the numpy type of the integers of `element` in a model."""
    if (width := stored_width(element)) >= BYTE_BITS:
        return graph.numpy_dtype(element)
    import ml_dtypes  # A second import would load it, see `lazy_modules.py`.

    return np.dtype(getattr(ml_dtypes, f"{'' if element.is_signed else 'u'}int{width}"))


def unchanged(value: SSAValue) -> Order:
    """
    Return the order of a tensor with the dimensions of `value` as in the network: (0, 1, 2, 3) for
    rank 4.
    """
    return tuple(range(len(graph.shape_of(value))))


def broadcast(numbers: NDArray[Number], order: Order) -> NDArray[Number]:
    """
    Permute an array, which broadcasts to a value of the network, so that it broadcasts to the
    tensor of the value in `order`: [C] becomes [C, 1, 1] for NCHW. Leading extents of 1 are
    removed.
    """
    if not numbers.ndim:
        return numbers
    numbers = numbers.reshape((1,) * (len(order) - numbers.ndim) + numbers.shape).transpose(order)
    leading = next((i for i, extent in enumerate(numbers.shape) if extent > 1), numbers.ndim - 1)
    return numbers.reshape(numbers.shape[leading:])


class Values:
    """
    The ONNX tensors of the values of a network. Q/DQ pairs and Transpose nodes are added when an
    operation needs them.
    """

    def __init__(self, builder: ModelBuilder):
        self.builder = builder
        self.defined: dict[tuple[SSAValue, Side], tuple[str, Order]] = {}
        self.arranged: dict[tuple[SSAValue, Side, Order], str] = {}
        self.dequantized: dict[SSAValue, tuple[SSAValue, Order]] = {}

    def define(self, value: SSAValue, tensor: str, order: Order, side: Side = "real") -> None:
        """
        Register the tensor that has the elements of `value` in `order`. `side` specifies whether
        these are real values or stored integers.
        """
        self.defined[value, side] = tensor, order

    def quantize(self, value: SSAValue, real: str, order: Order) -> None:
        """
        Add QuantizeLinear after the float tensor `real`, which has the real values of the quantized
        `value` in `order`, and register the result.
        """
        element = graph.stored_element(value)
        name, shape = name_of(value), self.shape(value, order)
        stored = self._through("Quantize", real, name, element, order, shape)
        self.define(value, stored, order, "stored")

    def stored_between(
        self, real: str, name: str, element: UniformType, order: Order, shape: Sequence[int]
    ) -> str:
        """
        Add QuantizeLinear and DequantizeLinear of type `element` after the float tensor `real`, and
        return the name of the result. They separate several data movement nodes that compute a
        single operation.
        """
        stored = self._through("Quantize", real, name, element, order, shape)
        return self._through("Dequantize", stored, name, element, order, shape)

    def dequantize(self, value: SSAValue, source: SSAValue) -> None:
        """
        Register that `value` has the real values of the quantized `source`. No node is added yet.
        """
        self.dequantized[value] = source, unchanged(value)

    def alias(self, value: SSAValue, source: SSAValue, permutation: Sequence[int]) -> None:
        """
        Register that `value` is `source` transposed: dimension i of `value` is dimension
        `permutation[i]` of `source`. No node is added.
        """
        if source in self.dequantized:
            quantized, order = self.dequantized[source]
            self.dequantized[value] = quantized, tuple(order[d] for d in permutation)
            return
        tensor, order = self.defined[source, side := side_of(source)]
        self.define(value, tensor, tuple(permutation.index(d) for d in order), side)

    def order(self, value: SSAValue) -> Order | None:
        """
        Return the order in which a tensor has `value`, so that operations can use it without
        Transpose; `None` for a constant, which is stored in any order.
        """
        if isinstance(value.owner, graph.ConstantOp):
            return None
        if value in self.dequantized:
            source, order = self.dequantized[value]
            stored = self.order(source)
            return None if stored is None else tuple(order.index(d) for d in stored)
        return self.defined[value, side_of(value)][1]

    def get(self, value: SSAValue, order: Order, side: Side = "real") -> str:
        """
        Return the name of a tensor with `value` in `order`: real values, or stored integers for the
        side "stored". Transpose, DequantizeLinear or the constant is added if it does not exist
        yet.
        """
        if value in self.dequantized:
            source, own = self.dequantized[value]
            return self.get(source, tuple(own[d] for d in order))
        element = graph.quantized_element(value)
        if element is None:
            side = "real"
        key = value, side, order
        if key not in self.arranged:
            if element is not None and side == "real":
                # The integers are transposed, so that Q and DQ remain adjacent.
                stored = self.get(value, order, "stored")
                name, shape = name_of(value), self.shape(value, order)
                tensor = self._through("Dequantize", stored, name, element, order, shape)
            elif isinstance(value.owner, graph.ConstantOp):
                array = value.owner.array().transpose(order)
                if element is not None:
                    array = array.astype(stored_dtype(element), copy=False)
                tensor = self.builder.constant(array, name_of(value))
            else:
                tensor = self._transposed(value, side, order)
            self.arranged[key] = tensor
        return self.arranged[key]

    def _transposed(self, value: SSAValue, side: Side, order: Order) -> str:
        tensor, defined = self.defined[value, side]
        if defined == order:
            return tensor
        dtype, shape = graph.numpy_dtype(graph.element_of(value)), self.shape(value, order)
        attributes = {"perm": [defined.index(d) for d in order]}
        name = f"{name_of(value)}/transpose"
        return self.builder.node("Transpose", [tensor], name, dtype, shape, attributes=attributes)

    def _through(
        self,
        kind: Literal["Quantize", "Dequantize"],
        x: str,
        name: str,
        element: UniformType,
        order: Order,
        shape: Sequence[int],
    ) -> str:
        axis = {"axis": order.index(element.axis.data)} if isinstance(element.axis, IntAttr) else {}
        return self.builder.node(
            f"{kind}Linear",
            [x, *self._scale(element)],
            f"{name}/{kind.lower()}",
            stored_dtype(element) if kind == "Quantize" else np.dtype(np.float32),
            shape,
            attributes=axis,
            since=OPSETS[stored_width(element)],
        )

    @staticmethod
    def shape(value: SSAValue, order: Order) -> list[int]:
        """Return the shape of a tensor that has `value` in `order`."""
        shape = graph.shape_of(value)
        return [shape[d] for d in order]

    def _scale(self, element: UniformType) -> list[str]:
        # ONNX has no zero points for 32 bits.
        scales = np.array([s.data for s in element.scales], np.float32)
        points = np.array([z.data for z in element.zero_points]).astype(stored_dtype(element))
        if not element.is_per_axis:
            scales, points = scales.reshape(()), points.reshape(())
        names = [self.builder.constant(scales, "scale")]
        if element.width <= 16:
            names.append(self.builder.constant(points, "zero_point"))
        return names


def side_of(value: SSAValue) -> Side:
    """
    Return the side of the tensor that the nodes of an operation define: "stored" if `value` is
    quantized, otherwise "real".
    """
    return "real" if graph.quantized_element(value) is None else "stored"


def name_of(value: SSAValue) -> str:
    """Return the name of the node that defines `value`, or of the graph input."""
    if isinstance(value.owner, Operation):
        return node_name(value.owner)
    return value.name_hint or "input"
