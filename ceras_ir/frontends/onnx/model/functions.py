"""
Inline the functions that a model defines: a call becomes the nodes of the body of the function.

Each value of a body gets a name that no other value of the model has. An attribute that the caller
omits has the default of the function. If there is no default, the attribute is absent in the body.
A function may import other versions of operator sets than the model, if both versions define the
operators of the body equally. Attributes of all nodes are checked first: type and value must be
consistent, and only a node of a function may refer to an attribute of that function.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias

import onnx

from ceras_ir.frontends.onnx.model.model_file import initializer_names, text
from ceras_ir.frontends.onnx.model.node import (
    Node,
    has_one_definition,
    imported_versions,
    operator_name,
)
from ceras_ir.support.diagnostics import InputError

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
    """
    Raise an error for an attribute without a type, with a value of another type, or with a
    reference to an attribute of a function outside of that function.
    """
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
    """
    Replace references to attributes of a function, in `node` and the subgraphs, by the values that
    the call has `given`. An attribute without a value is removed.
    """
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
    return [attribute.g] if attribute.HasField("g") else attribute.graphs


def all_nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield `nodes` and the nodes of all their subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in graphs_of(attribute):
                yield from all_nodes(graph.node)


MAX_INLINED_NODES = 1 << 20
"""Maximum number of nodes after inlining. Calls in functions can multiply without bound."""

MAX_CALL_DEPTH = 64
"""Maximum number of functions that call each other in a chain."""

_FunctionKey: TypeAlias = tuple[str, str]


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """
    Return `model` with all calls inlined, or `model` itself if it defines no functions.

    A standard operator has precedence over a function with the same domain and name, as in ONNX
    Runtime. Raises `InputError` for recursion, for two functions with equal identifiers, and for
    calls that do not match their function.
    """
    if not model.functions:
        return model
    functions: dict[_FunctionKey, onnx.FunctionProto] = {}
    for function in model.functions:
        key = (operator_name(function.domain, function.name), text(function.overload))
        if key in functions:
            raise InputError(f"the model defines function '{key[0]}' twice; rename the second")
        functions[key] = function
    result = onnx.ModelProto()
    result.CopyFrom(model)
    result.ClearField("functions")
    versions = imported_versions(model.opset_import)
    _Inliner(functions, result.graph, versions).inline(result.graph)
    return result


class _Inliner:
    def __init__(
        self,
        functions: Mapping[_FunctionKey, onnx.FunctionProto],
        graph: onnx.GraphProto,
        versions: Mapping[str, int],
    ):
        self.functions = functions
        self.versions = versions
        self.taken = set(_names(graph))
        """All names of values in the result."""
        self.sizes: dict[_FunctionKey, int] = {}
        """The number of nodes that each function expands to."""
        if (total := sum(map(self._size, all_nodes(graph.node)))) > MAX_INLINED_NODES:
            raise InputError(f"functions expand to {total} nodes, at most {MAX_INLINED_NODES}")

    def inline(self, graph: onnx.GraphProto) -> None:
        """
        Replace calls of model functions in `graph` and the subgraphs by the nodes of their bodies.
        """
        nodes = [node for given in graph.node for node in self._expanded(given)]
        del graph.node[:]
        graph.node.extend(nodes)

    def _key(self, node: onnx.NodeProto) -> _FunctionKey | None:
        """
        Return the key of the model function that `node` calls, or `None` if it is an operator of
        ONNX.
        """
        name = operator_name(node.domain, node.op_type)
        domain, _, kind = name.rpartition("::")
        if onnx.defs.has(kind, self.versions.get(domain, 0), domain):
            return None
        if (key := (name, text(node.overload))) in self.functions:
            return key
        if overloads := [overload for known, overload in self.functions if known == name]:
            raise Node(node, 0).wrong(
                f"calls overload '{key[1]}' of the function, but the model defines only "
                + ", ".join(f"'{overload}'" for overload in overloads)
            )
        return None

    def _size(self, node: onnx.NodeProto, active: tuple[_FunctionKey, ...] = ()) -> int:
        """
        Return the number of nodes to which `node` expands when calls are inlined, to limit it. The
        subgraphs of `node` are not counted.
        """
        if (key := self._key(node)) is None:
            return 1
        if key in active or len(active) >= MAX_CALL_DEPTH:
            raise Node(node, 0).wrong(
                f"the function calls itself, or calls are nested more than {MAX_CALL_DEPTH} deep"
            )
        if key not in self.sizes:
            body = all_nodes(self.functions[key].node)
            self.sizes[key] = sum(self._size(inner, (*active, key)) for inner in body)
        return self.sizes[key]

    def _expanded(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        for attribute in node.attribute:
            for graph in graphs_of(attribute):
                self.inline(graph)
        if (key := self._key(node)) is None:
            yield node
            return
        for inner in self._body(node, self.functions[key]):
            yield from self._expanded(inner)

    def _body(self, call: onnx.NodeProto, function: onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
        """
        Return copies of the nodes of `function` with the operands, names and attributes of `call`.
        """
        node = Node(call, 0)
        if len(call.input) > len(function.input) or len(call.output) > len(function.output):
            raise node.wrong(
                f"has {len(call.input)} operands and {len(call.output)} results, the function has "
                f"{len(function.input)} and {len(function.output)}"
            )
        if len(set(function.input)) != len(function.input):
            raise node.wrong("two inputs of the function have the same name")
        self._check_versions(node, function)
        names = dict(zip_longest(function.input, call.input, fillvalue=""))
        copies: list[tuple[str, str]] = []
        for inside, outside in zip(function.output, call.output, strict=False):
            if inside in names and outside:
                copies.append((inside, outside))
            elif outside:
                names[inside] = outside
        scope = _Scope(self, node.name, names)
        # Names in graphs of the caller are known there. Names in default graphs are of the body.
        given = {text(a.name): scope.renamed(a) for a in function.attribute_proto}
        given.update({text(a.name): a for a in call.attribute})
        for inner in function.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(inner)
            scope.rename(copy)
            bind_attributes(copy, given)
            yield copy
        for inside, outside in copies:
            yield onnx.NodeProto(
                op_type="Identity", name=node.name, input=[names[inside]], output=[outside]
            )

    def _check_versions(self, call: Node, function: onnx.FunctionProto) -> None:
        """
        Raise an error if an operator in `function` has another definition in the operator sets of
        the model than in the operator sets of the function.
        """
        versions = imported_versions(function.opset_import)
        for inner in all_nodes(function.node):
            operator = operator_name(inner.domain, inner.op_type)
            domain = operator.rpartition("::")[0]
            if not domain and not versions.get(domain):
                raise call.wrong(
                    "the function imports no version of the operator set ai.onnx, which nodes of "
                    "the body belong to"
                )
            own, outer = versions.get(domain), self.versions.get(domain)
            if own and outer and not has_one_definition(operator, own, outer):
                raise call.unsupported(
                    f"the function imports version {own} of the operator set "
                    f"{domain or 'ai.onnx'}, the model version {outer}, and {operator} differs "
                    f"between them; export the function with version {outer}"
                )


class _Scope:
    """
    The mapping of names in a function body to unique names of the model, for a call or a subgraph
    of it.
    """

    def __init__(self, inliner: _Inliner, prefix: str, names: dict[str, str]):
        self.inliner, self.prefix, self.names = inliner, prefix, names

    def rename(self, node: onnx.NodeProto) -> None:
        """Replace the names in `node`, a copy from a function body, by names of the model."""
        node.name = f"{self.prefix}/{text(node.name) or ''.join(node.output[:1])}"
        for names in (node.input, node.output):
            renamed = [self._name(text(name)) for name in names]
            del names[:]
            names.extend(renamed)
        for attribute in node.attribute:
            for graph in graphs_of(attribute):
                self._rename_graph(graph)

    def renamed(self, attribute: onnx.AttributeProto) -> onnx.AttributeProto:
        """Return a copy of an attribute of the function, with names of the model in the graphs."""
        copy = onnx.AttributeProto()
        copy.CopyFrom(attribute)
        for graph in graphs_of(copy):
            self._rename_graph(graph)
        return copy

    def _rename_graph(self, graph: onnx.GraphProto) -> None:
        names = dict(self.names)
        inner = _Scope(self.inliner, self.prefix, names)
        for name in _defined(graph):
            names[name] = inner._fresh(name)
        for value in (*graph.input, *graph.output, *graph.value_info):
            value.name = inner._name(text(value.name))
        for tensor in (*graph.initializer, *(s.values for s in graph.sparse_initializer)):
            tensor.name = inner._name(text(tensor.name))
        for node in graph.node:
            inner.rename(node)

    def _name(self, name: str) -> str:
        """
        Return the name in the model for `name`, which is new at the first use; "" for an omitted
        operand.
        """
        if name and name not in self.names:
            self.names[name] = self._fresh(name)
        return self.names.get(name, "")

    def _fresh(self, name: str) -> str:
        given = wanted = f"{self.prefix}/{name}"
        count = 0
        while wanted in self.inliner.taken:
            count += 1
            wanted = f"{given}_{count}"
        self.inliner.taken.add(wanted)
        return wanted


def _defined(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (text(value.name) for value in graph.input)
    yield from initializer_names(graph)
    for node in graph.node:
        yield from (text(name) for name in node.output if name)


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    yield from _defined(graph)
    for node in graph.node:
        for attribute in node.attribute:
            for inner in graphs_of(attribute):
                yield from _names(inner)
