"""
Attributes of nodes in protobuf form: consistency of type and value, and references of functions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import onnx

from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.tensors import text

Attributes: TypeAlias = Mapping[str, onnx.AttributeProto]

VALUE_FIELDS: dict[int, str] = {
    onnx.AttributeProto.FLOAT: "f",
    onnx.AttributeProto.INT: "i",
    onnx.AttributeProto.STRING: "s",
    onnx.AttributeProto.TENSOR: "t",
    onnx.AttributeProto.GRAPH: "g",
    onnx.AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    onnx.AttributeProto.TYPE_PROTO: "tp",
    onnx.AttributeProto.FLOATS: "floats",
    onnx.AttributeProto.INTS: "ints",
    onnx.AttributeProto.STRINGS: "strings",
    onnx.AttributeProto.TENSORS: "tensors",
    onnx.AttributeProto.GRAPHS: "graphs",
    onnx.AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    onnx.AttributeProto.TYPE_PROTOS: "type_protos",
}
"""The field that has the value of an attribute of each type."""

MESSAGES = frozenset({"t", "g", "sparse_tensor", "tp"})
"""Fields that are messages. Writers of proto3 omit other fields, if the value is 0 or empty."""


def check_attributes(model: onnx.ModelProto) -> None:
    """Refuse attributes without a type, with a value of another type, or with a wrong reference."""
    for node in all_nodes(model.graph.node):
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                raise Node(node, 0).wrong(
                    f"attribute '{text(attribute.name)}' refers to attribute "
                    f"'{text(attribute.ref_attr_name)}' of a function, but the node is in the graph"
                )
            _check_value(node, attribute)
    for function in model.functions:
        for node in all_nodes(function.node):
            for attribute in node.attribute:
                _check_value(node, attribute)


def _check_value(node: onnx.NodeProto, attribute: onnx.AttributeProto) -> None:
    name, field = text(attribute.name), VALUE_FIELDS.get(attribute.type)
    given = {descriptor.name for descriptor, _ in attribute.ListFields()}
    given &= set(VALUE_FIELDS.values())
    if field is None:
        raise Node(node, 0).wrong(f"attribute '{name}' has type {attribute.type}, expected 1 to 14")
    expected = set[str]() if attribute.ref_attr_name else {field}
    if given - expected or (field in MESSAGES and given != expected):
        kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
        raise Node(node, 0).wrong(
            f"attribute '{name}' of type {kind} has a value in {', '.join(sorted(given)) or 'no'} "
            f"field, expected {field}"
        )


def bind_attributes(node: onnx.NodeProto, given: Attributes) -> None:
    """Replace references to attributes of a function, in subgraphs too, by the `given` values."""
    attributes = list(node.attribute)
    del node.attribute[:]
    for attribute in attributes:
        if reference := text(attribute.ref_attr_name):
            if (value := given.get(reference)) is None:
                continue
            if attribute.type not in (value.type, onnx.AttributeProto.UNDEFINED):
                kinds = onnx.AttributeProto.AttributeType
                raise Node(node, 0).wrong(
                    f"attribute '{text(attribute.name)}' is of type {kinds.Name(attribute.type)}, "
                    f"but '{reference}' of the function is {kinds.Name(value.type)}"
                )
            name = attribute.name
            attribute.CopyFrom(value)
            attribute.name = name
        else:
            for graph in graphs_of(attribute):
                for inner in graph.node:
                    bind_attributes(inner, given)
        node.attribute.append(attribute)


def graphs_of(attribute: onnx.AttributeProto) -> Sequence[onnx.GraphProto]:
    """Return the graphs of an attribute."""
    return [attribute.g] if attribute.HasField("g") else attribute.graphs


def all_nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Return `nodes` and the nodes of all subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in graphs_of(attribute):
                yield from all_nodes(graph.node)
