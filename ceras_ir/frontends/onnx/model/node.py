"""
A node of the model as operator importers use it: checked attributes, named operands, errors.

An attribute that no importer reads is an error (`unread`), so that none can be dropped silently.
The name of an operator has its domain, and operator sets have versions.
"""

from collections.abc import Container, Iterable, MutableMapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np
import onnx
from numpy.typing import NDArray

from ceras_ir.frontends.onnx.model.model_file import initializer_names, text
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError


def operator_name(domain: str, op_type: str) -> str:
    """Return the operator with its domain; `ai.onnx`, the default domain, is omitted."""
    if domain in ("", "ai.onnx"):
        return text(op_type)
    return f"{text(domain)}::{text(op_type)}"


def imported_versions(entries: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Return the version of each domain; the default domain is the empty string."""
    versions: dict[str, int] = {}
    for entry in entries:
        domain = "" if entry.domain == "ai.onnx" else text(entry.domain)
        if versions.setdefault(domain, entry.version) != entry.version:
            name = domain or "ai.onnx"
            raise InputError(f"two versions of operator set '{name}' are imported")
    return versions


def has_one_definition(operator: str, first: int, second: int) -> bool:
    """
    Return whether ONNX defines `operator` equally in two versions of the set of its domain: with
    the same operands, results, attributes and defaults. Element types may differ.
    """
    domain, _, kind = operator.rpartition("::")
    if not onnx.defs.has(kind, domain):
        return True  # Not an operator of ONNX.
    try:
        signatures = [_signature(kind, version, domain) for version in (first, second)]
    except onnx.defs.SchemaError:
        return False
    return signatures[0] == signatures[1]


def _signature(kind: str, version: int, domain: str) -> Sequence[object]:
    schema = onnx.defs.get_schema(kind, version, domain)
    attributes = schema.attributes.items()
    return [
        [(operand.name, operand.option) for operand in schema.inputs],
        [(result.name, result.option) for result in schema.outputs],
        [(name, a.type, a.required, a.default_value) for name, a in sorted(attributes)],
    ]


INTEGER_LIMIT = 1 << 31
"""Integers of attributes and shapes lie below this; no real network comes near it."""

DATA = ""
"""Stands for the inputs of the network that are too large to be fixed when it is imported."""


class MalformedError(InputError):
    """The model contradicts itself, or ONNX, for all shapes and values of the inputs."""


def fix_with_set(inputs: Sequence[str]) -> str:
    """The remedy that `--set` is, for inputs that may be known by name."""
    if not inputs:
        return "fix the input that decides with --set"
    names = " and ".join(f"'{name}'" for name in inputs)
    return f"fix input{'s' if inputs[1:] else ''} {names} with --set"


class Node:
    """A node, the opset it is written in, and which of its operands are constants."""

    def __init__(self, proto: onnx.NodeProto, opset: int, constants: Container[str] = ()):
        if proto.domain == "ai.onnx":  # The evaluator knows the default domain only as "".
            copy = onnx.NodeProto()
            copy.CopyFrom(proto)
            copy.domain, proto = "", copy
        self.proto = proto
        self.opset = opset
        self.inputs: Sequence[str] = tuple(map(text, proto.input))
        self.outputs: Sequence[str] = tuple(map(text, proto.output))
        self.constants = constants
        self.origins: MutableMapping[str, frozenset[str]] = {}
        """The inputs of the network that decide the elements of each value, or `DATA`."""
        self.operator = operator_name(proto.domain, proto.op_type)
        named = [name for name in self.outputs if name]
        self.name: str = text(proto.name) or (named[0] if named else self.operator)
        self._attributes = {text(a.name): a for a in proto.attribute}
        self._read: set[str] = set()
        if len(self._attributes) != len(proto.attribute):
            raise self.malformed("an attribute is given twice")

    def has_input(self, index: int) -> bool:
        """Whether an optional operand is given."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def has_output(self, index: int) -> bool:
        """Whether an optional result is asked for."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def drop_outputs(self, wanted: Container[str]) -> None:
        """Forget the names of results that nobody reads."""
        self.outputs = tuple(name if name in wanted else "" for name in self.outputs)

    def is_constant(self, index: int) -> bool:
        """Whether a given operand is known at import time."""
        return self.has_input(index) and self.inputs[index] in self.constants

    def origin(self, names: Iterable[str]) -> frozenset[str]:
        """The inputs of the network that decide the elements of the values called `names`."""
        return frozenset[str]().union(*(self.origins.get(name, ()) for name in names))

    def deciding(self, *operands: int) -> tuple[str, ...]:
        """The inputs that decide operands, sorted; none if data take part in the decision."""
        found = self.origin(self.inputs[i] for i in operands if self.has_input(i))
        return () if DATA in found else tuple(sorted(found))

    def wrong(self, message: str) -> InputError:
        """The error that shapes, types or values at this node do not fit together."""
        return InputError([Finding(self.name, self.operator, message)])

    def malformed(self, message: str) -> MalformedError:
        """The error that this node is wrong for all shapes and values of the inputs."""
        return MalformedError([Finding(self.name, self.operator, message)])

    def unsupported(self, message: str) -> UnsupportedError:
        """The error that this node is valid but not taken; `message` has rule and way out."""
        return UnsupportedError([self.refusal(message)])

    def refusal(self, message: str) -> Finding:
        """The finding of an `unsupported` error."""
        decided = [self.deciding(i) for i in range(len(self.inputs))]
        inputs = tuple(sorted({name for names in decided for name in names}))
        text = f"unsupported {self.operator}: {message}"
        return Finding(self.name, self.operator, text, inputs)

    def _attribute(
        self, name: str, kind: onnx.AttributeProto.AttributeType, what: str
    ) -> onnx.AttributeProto | None:
        self._read.add(name)
        attribute = self._attributes.get(name)
        if attribute is not None and attribute.type != kind:
            raise self.malformed(f"attribute '{name}' must be {what}")
        return attribute

    def has_attribute(self, name: str) -> bool:
        """Whether an attribute is given at all."""
        return name in self._attributes

    def ignore(self, *names: str) -> None:
        """Attributes that change nothing in inference."""
        self._read.update(names)

    def unread(self) -> list[str]:
        """Attributes that no importer asked for, which ONNX does not define for this operator."""
        return sorted(set(self._attributes) - self._read)

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        a = self._attribute(name, onnx.AttributeProto.INT, "an integer")
        return default if a is None else self._bounded(name, a.i)

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer attribute that is 0 or 1."""
        value = self.integer(name, int(default))
        if value not in (0, 1):
            raise self.wrong(f"attribute '{name}' must be 0 or 1, got {value}")
        return bool(value)

    def bounds(self, name: str) -> tuple[int, ...] | None:
        """As `integers`, for ends of ranges, where 2^63 - 1 stands for infinity."""
        a = self._attribute(name, onnx.AttributeProto.INTS, "a list of integers")
        return (
            None if a is None else tuple(min(max(i, -INTEGER_LIMIT), INTEGER_LIMIT) for i in a.ints)
        )

    def numbers64(self, name: str) -> NDArray[np.int64] | None:
        """An integer or a list of them, of any size: numbers that are data."""
        is_one = name in self._attributes and self._attributes[name].type == onnx.AttributeProto.INT
        kind = onnx.AttributeProto.INT if is_one else onnx.AttributeProto.INTS
        a = self._attribute(name, kind, "an integer or a list of integers")
        return None if a is None else np.array(a.i if is_one else a.ints, np.int64)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, None where it is absent."""
        a = self._attribute(name, onnx.AttributeProto.INTS, "a list of integers")
        return None if a is None else tuple(self._bounded(name, i) for i in a.ints)

    def per_dimension(
        self, name: str, rank: int, default: int = 1, least: int = 1
    ) -> tuple[int, ...]:
        """A list of integers with one for each spatial dimension."""
        values = self.integers(name)
        if values is None:
            return (default,) * rank
        if len(values) != rank or any(v < least for v in values):
            given = f"{rank} integers of at least {least}, got {list(values)}"
            raise self.wrong(f"attribute '{name}' must be {given}")
        return values

    def number(self, name: str, default: float) -> float:
        """A float attribute, which is finite."""
        value = self.bound(name, default)
        if not isfinite(value):
            raise self.wrong(f"attribute '{name}' must be finite, got {value}")
        return value

    def bound(self, name: str, default: float) -> float:
        """A float attribute that may be infinite."""
        a = self._attribute(name, onnx.AttributeProto.FLOAT, "a float")
        return default if a is None else a.f

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """A list of floats, None where it is absent."""
        a = self._attribute(name, onnx.AttributeProto.FLOATS, "a list of floats")
        return None if a is None else tuple(a.floats)

    def string(self, name: str, default: str) -> str:
        """A string attribute."""
        a = self._attribute(name, onnx.AttributeProto.STRING, "a string")
        return default if a is None else a.s.decode("utf-8", "replace")

    def subgraph(self, name: str) -> onnx.GraphProto:
        """A graph attribute, which must be there."""
        a = self._attribute(name, onnx.AttributeProto.GRAPH, "a graph")
        if a is None:
            raise self.malformed(f"attribute '{name}' is missing")
        return a.g

    def strings(self, name: str) -> tuple[str, ...] | None:
        """A list of strings, None where it is absent."""
        a = self._attribute(name, onnx.AttributeProto.STRINGS, "a list of strings")
        return None if a is None else tuple(s.decode("utf-8", "replace") for s in a.strings)

    def subgraphs(self) -> list[onnx.GraphProto]:
        """The graphs that the node has as attributes."""
        return [a.g for a in self.proto.attribute if a.type == onnx.AttributeProto.GRAPH]

    def _inner(self, graphs: Sequence[onnx.GraphProto] | None = None) -> list[onnx.GraphProto]:
        """Some of these graphs, all by default, and the graphs inside them."""
        graphs = self.subgraphs() if graphs is None else list(graphs)
        for graph in graphs:
            for proto in graph.node:
                graphs += [a.g for a in proto.attribute if a.type == onnx.AttributeProto.GRAPH]
        return graphs

    def has_loops(self) -> bool:
        """Whether there are loops in the subgraphs of the node."""
        return any(inner.op_type in ("Loop", "Scan") for g in self._inner() for inner in g.node)

    def captured(self, graphs: Sequence[onnx.GraphProto] | None = None) -> set[str]:
        """What subgraphs of the node, all by default, may read of the graph around it."""
        names: set[str] = set()
        for graph in self._inner(graphs):
            names.update(text(value.name) for value in graph.output)
            for inner in graph.node:
                names.update(text(name) for name in inner.input if name)
        return names

    def defined(self, graphs: Sequence[onnx.GraphProto] | None = None) -> set[str]:
        """What subgraphs of the node, all by default, make themselves."""
        names: set[str] = set()
        for graph in self._inner(graphs):
            names.update(text(value.name) for value in graph.input)
            names.update(initializer_names(graph))
            for inner in graph.node:
                names.update(map(text, inner.output))
        return names

    def tensor(self, name: str) -> onnx.TensorProto | None:
        """A tensor attribute, None where it is absent."""
        a = self._attribute(name, onnx.AttributeProto.TENSOR, "a tensor")
        return None if a is None else a.t

    def sparse_tensor(self, name: str) -> onnx.SparseTensorProto | None:
        """Return a sparse tensor attribute, if it is given."""
        a = self._attribute(name, onnx.AttributeProto.SPARSE_TENSOR, "a sparse tensor")
        return None if a is None else a.sparse_tensor

    def axis(self, value: int, rank: int, name: str = "axis") -> int:
        """`value` as a dimension of a tensor of `rank`, counted from the end if negative."""
        if not -rank <= value < rank:
            raise self.wrong(f"{name} must be in [{-rank}, {rank}), got {value}")
        return value % rank

    def _bounded(self, name: str, value: int) -> int:
        if not -INTEGER_LIMIT < value < INTEGER_LIMIT:
            raise self.wrong(f"attribute '{name}' must be below 2^31, got {value}")
        return value


def as_unsupported(finding: Finding) -> Finding:
    """A finding at a node that is valid for other shapes or values of the inputs."""
    if "unsupported" in finding.message:
        return finding
    message = f"unsupported {finding.operator} for these inputs: {finding.message}"
    return replace(finding, message=message)


def in_branch(finding: Finding, node: Node, branch: str, other: str = "") -> Finding:
    """
    A finding inside a branch (`then` or `else`) of the If `node`, whose condition is computed.
    `other` is the name of the other branch if that can be imported.
    """
    decided = node.deciding(0)
    remedy = fix_with_set(decided) if decided else "export the model with one branch"
    fine = f", and the {other} branch can be imported" if other else ""
    place = f"in the {branch} branch of If '{node.name}', whose condition is computed{fine}"
    return replace(
        finding,
        message=f"{finding.message}. This is {place}; {remedy}",
        inputs=tuple(sorted({*finding.inputs, *decided})),
    )
