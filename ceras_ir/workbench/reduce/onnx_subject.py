"""
Reduce ONNX models. All candidates of valid models are valid.

Any nodes can be removed: results of removed nodes that have other consumers become inputs with
inferred types, and results that lose all consumers become outputs.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from math import prod
from typing import TypeVar

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference
from onnx.onnx_pb import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from ceras_ir.workbench.reduce.search import Smaller, smallest_subset

EXTENTS = (1, 2, 3, 4, 8, 16)
"""The extents that replace larger extents."""

CONSTANT_OPERATOR = "Constant"

Message = TypeVar("Message", ModelProto, NodeProto)


class OnnxSubject:
    """The ways to make an ONNX model in a single file smaller, for `ceras-reduce`."""

    def __init__(self, model: ModelProto):
        self._was_valid = is_valid(model)

    def write(self, input: ModelProto) -> bytes:
        return input.SerializeToString(deterministic=True)

    def size(self, input: ModelProto) -> tuple[int, int]:
        """
        Return the number of nodes without constants, and the number of elements of initializers,
        inputs and outputs. Smaller candidates are preferred.
        """
        values = (v.type.tensor_type.shape.dim for v in (*input.graph.input, *input.graph.output))
        shapes = [*([d.dim_value or 1 for d in dims] for dims in values)]
        shapes += [list(tensor.dims) for tensor in input.graph.initializer]
        nodes = sum(node.op_type != CONSTANT_OPERATOR for node in input.graph.node)
        return nodes, sum(map(prod, shapes))

    def reductions(self) -> Sequence[Callable[[ModelProto, Smaller[ModelProto]], None]]:
        return (
            self._leave_out_nodes,
            self._skip_nodes,
            self._flatten_initializers,
            self._shrink_shapes,
            self._drop_descriptions,
        )

    def _try(self, model: ModelProto, accepts: Smaller[ModelProto]) -> bool:
        return (not self._was_valid or is_valid(model)) and accepts(model)

    def _leave_out_nodes(self, model: ModelProto, accepts: Smaller[ModelProto]) -> None:
        types = _types(model)
        nodes = [i for i, n in enumerate(model.graph.node) if n.op_type != CONSTANT_OPERATOR]

        def only(kept: Collection[int]) -> bool:
            candidate = _with_nodes(model, [model.graph.node[i] for i in kept], types)
            return candidate is not None and self._try(candidate, accepts)

        smallest_subset(nodes, only)

    def _skip_nodes(self, model: ModelProto, accepts: Smaller[ModelProto]) -> None:
        # Replace the output of a node by the first input of the same type.
        best, i = model, 0
        while i < len(best.graph.node):
            types, node = _types(best), best.graph.node[i]
            same = (
                node.op_type != CONSTANT_OPERATOR
                and len(node.output) == 1
                and len(node.input) > 0
                and node.output[0] in types
                and types.get(node.input[0]) is not None
                and types[node.output[0]].type == types[node.input[0]].type
            )
            candidate = None
            if same:
                rest = [_copy(n) for j, n in enumerate(best.graph.node) if j != i]
                for each in rest:
                    for k, name in enumerate(each.input):
                        if name == node.output[0]:
                            each.input[k] = node.input[0]
                candidate = _with_nodes(best, rest, types)
            if candidate is not None and self._try(candidate, accepts):
                best = candidate
            else:
                i += 1

    def _flatten_initializers(self, model: ModelProto, accepts: Smaller[ModelProto]) -> None:
        names = [t.name for t in model.graph.initializer if _flattened(t) is not None]

        def only(kept: Collection[str]) -> bool:
            candidate = _copy(model)
            for tensor in candidate.graph.initializer:
                if tensor.name in names and tensor.name not in kept:
                    flat = _flattened(tensor)
                    assert flat is not None
                    tensor.CopyFrom(flat)
            return self._try(candidate, accepts)

        smallest_subset(names, only)

    def _shrink_shapes(self, model: ModelProto, accepts: Smaller[ModelProto]) -> None:
        # Replace all occurrences of an extent, the largest extent first.
        best, tried = model, set[int]()
        while left := sorted(_extents(best) - tried, reverse=True):
            extent = left[0]
            tried.add(extent)
            for smaller in EXTENTS:
                if smaller >= extent:
                    break
                candidate = _shrunk(best, extent, smaller)
                if self._try(candidate, accepts):
                    best = candidate
                    break

    def _drop_descriptions(self, model: ModelProto, accepts: Smaller[ModelProto]) -> None:
        # Remove descriptions of the origin of the model, and types that can be inferred.
        candidate = _copy(model)
        for name in ("doc_string", "domain", "metadata_props"):
            candidate.ClearField(name)
        for part in (candidate.graph, *candidate.graph.node):
            for name in ("doc_string", "metadata_props"):
                if name in part.DESCRIPTOR.fields_by_name:
                    part.ClearField(name)
        candidate.graph.ClearField("value_info")
        self._try(candidate, accepts)


def is_in_one_file(model: ModelProto) -> bool:
    """Return whether all tensors of the model are stored in the model file."""
    return not any(tensor.external_data for tensor in model.graph.initializer)


def is_valid(model: ModelProto) -> bool:
    """Return whether ONNX's checker and strict shape inference accept a model."""
    try:
        onnx.checker.check_model(model)  # pyright: ignore[reportUnknownMemberType]
        shape_inference.infer_shapes(model, strict_mode=True, check_type=True)
    # Errors of several classes, such as RuntimeError of shape inference.
    except Exception:
        return False
    return True


def _copy(message: Message) -> Message:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _types(model: ModelProto) -> dict[str, ValueInfoProto]:
    # The types of all tensors with a known shape.
    try:
        graph = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:
        graph = model.graph
    found = {v.name: v for v in (*graph.input, *graph.value_info, *graph.output)}
    return {name: v for name, v in found.items() if v.type.tensor_type.HasField("shape")}


def _inputs(node: NodeProto) -> Iterator[str]:
    # The inputs of a node, including tensors that subgraphs use.
    yield from filter(None, node.input)
    for attribute in node.attribute:
        graphs = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
        for graph in graphs:
            yield from _free_in(graph)


def _free_in(graph: GraphProto) -> Iterator[str]:
    own = {t.name for t in (*graph.input, *graph.initializer)}
    for node in graph.node:
        yield from (name for name in _inputs(node) if name not in own)
        own.update(node.output)
    yield from (value.name for value in graph.output if value.name not in own)


def _with_nodes(
    model: ModelProto, kept: Sequence[NodeProto], types: dict[str, ValueInfoProto]
) -> ModelProto | None:
    # The model with these nodes and the constants that they use, if all types are known.
    graph = model.graph
    used = dict.fromkeys(name for node in kept for name in _inputs(node))
    constants = [n for n in graph.node if n.op_type == CONSTANT_OPERATOR and n.output[0] in used]
    results = {name for node in (*kept, *constants) for name in node.output}
    initializers = [t for t in graph.initializer if t.name in used]
    sparse = [t for t in graph.sparse_initializer if t.values.name in used]
    known = results | {t.name for t in initializers} | {t.values.name for t in sparse}
    inputs = [name for name in used if name not in known]
    consumed = {name for node in graph.node for name in _inputs(node)}
    consumed |= {value.name for value in graph.output}
    outputs = [
        name for node in kept for name in node.output if name in consumed and name not in used
    ]
    if not all(name in types for name in (*inputs, *outputs)):
        return None
    result = _copy(model)
    for field in ("node", "initializer", "sparse_initializer", "input", "output", "value_info"):
        result.graph.ClearField(field)
    wanted = {id(node) for node in (*kept, *constants)}
    # Nodes of the graph keep the order; copies have the order of `kept`.
    ordered = [n for n in graph.node if id(n) in wanted]
    result.graph.node.extend(ordered if len(ordered) == len(wanted) else [*constants, *kept])
    result.graph.initializer.extend(initializers)
    result.graph.sparse_initializer.extend(sparse)
    result.graph.input.extend(types[name] for name in inputs)
    result.graph.output.extend(types[name] for name in outputs)
    return result


def _flattened(tensor: onnx.TensorProto) -> onnx.TensorProto | None:
    # Replace all elements by the first; None if the tensor is not float or would not change.
    if tensor.data_type != onnx.TensorProto.FLOAT or tensor.external_data:
        return None
    array = numpy_helper.to_array(tensor)
    if array.size < 2 or (array == array.flat[0]).all():
        return None
    return numpy_helper.from_array(np.full_like(array, array.flat[0]), tensor.name)


def _dimensions(model: ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        yield from value.type.tensor_type.shape.dim


def _extents(model: ModelProto) -> set[int]:
    found = {d.dim_value for d in _dimensions(model) if d.HasField("dim_value")}
    return {e for e in found.union(*(t.dims for t in model.graph.initializer)) if e > 1}


def _shrunk(model: ModelProto, extent: int, smaller: int) -> ModelProto:
    # Replace `extent` in types, initializers and attributes.
    result = _copy(model)
    result.graph.ClearField("value_info")
    for dimension in _dimensions(result):
        if dimension.dim_value == extent:
            dimension.dim_value = smaller
    for tensor in result.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if extent in array.shape:
            part = array[tuple(slice(smaller if e == extent else e) for e in array.shape)]
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(part), tensor.name))
        elif tensor.data_type == onnx.TensorProto.INT64 and extent in array:
            shapes = np.where(array == extent, smaller, array)
            tensor.CopyFrom(numpy_helper.from_array(shapes, tensor.name))
    for node in result.graph.node:
        for attribute in node.attribute:
            if attribute.name == "kernel_shape":
                attribute.ints[:] = [smaller if e == extent else e for e in attribute.ints]
    # Shapes of outputs are inferred, because windows change extents.
    for value in result.graph.output:
        value.type.tensor_type.ClearField("shape")
    types = _types(result)
    for value in result.graph.output:
        if value.name in types:
            value.CopyFrom(types[value.name])
    return result
