"""
Operators that ONNX defines as functions of others: their bodies, for operands of known types.

An operator without an importer is imported as its body, so that every such operator of every opset
is taken as far as the operators of its body are.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import onnx

from ceras_ir.frontends.onnx.attributes import bind_attributes
from ceras_ir.frontends.onnx.emitter import dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.values import Value

RANDOM = frozenset({"Bernoulli"})
"""Bodies that draw numbers: no network that is run twice has them."""


@runtime_checkable
class FunctionSchema(Protocol):
    """What is used of ONNX's definition of an operator that may be a function."""

    has_function: bool
    has_context_dependent_function: bool
    function_opset_versions: list[int]
    context_dependent_function_opset_versions: list[int]
    attributes: dict[str, onnx.defs.OpSchema.Attribute]

    def get_function_with_opset_version(self, version: int, /) -> bytes: ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: list[bytes], /
    ) -> bytes: ...


def has_body(node: Node) -> bool:
    """Whether ONNX defines the operator of a node as a function."""
    return _schema(node) is not None


def body_of(
    node: Node, operands: Sequence[Value | None]
) -> tuple[onnx.GraphProto, int, Mapping[str, Value]] | None:
    """
    The body of the function that an operator is, with those outputs that the node asks for; the
    opset it is written in, and what its inputs are. None without a body for these types.
    """
    schema = _schema(node)
    if schema is None:
        return None
    if schema.has_function:
        data = schema.get_function_with_opset_version(_version(schema, node))
    else:
        types = [_type(operand).SerializeToString() for operand in operands]
        data = schema.get_context_dependent_function_with_opset_version(
            _version(schema, node), node.proto.SerializeToString(), types
        )
    if not data:
        return None
    function = onnx.FunctionProto.FromString(data)
    bound = dict(zip(function.input, operands, strict=False))
    absent = {name for name in function.input if bound.get(name) is None}
    graph = onnx.GraphProto(name=node.name)
    given = {a.name: a for a in function.attribute_proto}
    given.update({a.name: a for a in schema_defaults(schema)})
    given.update({a.name: a for a in node.proto.attribute})
    for inner in function.node:
        copy = graph.node.add()
        copy.CopyFrom(inner)
        copy.name = f"{node.name}/{inner.name or ''.join(inner.output[:1])}"
        _omit(copy, absent)
        bind_attributes(copy, given)
    asked = zip(function.output, node.outputs, strict=False)
    graph.output.extend(onnx.ValueInfoProto(name=inner) for inner, name in asked if name)
    opset = next((o.version for o in function.opset_import if not o.domain), node.opset)
    return graph, opset, {name: v for name, v in bound.items() if v is not None}


def schema_defaults(schema: FunctionSchema) -> Sequence[onnx.AttributeProto]:
    """The attributes that an operator has where a node does not give them."""
    return [a.default_value for a in schema.attributes.values() if a.default_value.name]


def _omit(proto: onnx.NodeProto, absent: set[str]) -> None:
    """Remove the names of omitted inputs of the function from the operands of a node."""
    names = ["" if name in absent else name for name in proto.input]
    del proto.input[:]
    proto.input.extend(names)
    for attribute in proto.attribute:
        for inner in attribute.g.node:
            _omit(inner, absent)


def _schema(node: Node) -> FunctionSchema | None:
    domain, _, name = node.operator.rpartition("::")
    if name in RANDOM:
        return None
    try:
        schema: object = onnx.defs.get_schema(name, node.opset if not domain else 1, domain)
    except onnx.defs.SchemaError:
        return None
    assert isinstance(schema, FunctionSchema)
    return schema if schema.has_function or schema.has_context_dependent_function else None


def _version(schema: FunctionSchema, node: Node) -> int:
    """The newest version of the body that the node's opset knows."""
    versions = (
        schema.function_opset_versions
        if schema.has_function
        else schema.context_dependent_function_opset_versions
    )
    return max((v for v in versions if v <= node.opset), default=min(versions))


def _type(value: Value | None) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    number = onnx.helper.np_dtype_to_tensor_dtype(dtype_of_value(value))
    return onnx.helper.make_tensor_type_proto(number, shape_of_value(value))
