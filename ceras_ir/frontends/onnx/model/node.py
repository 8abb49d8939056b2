"""
Represent a node of the model for importers: checked attributes, operands, errors.

An attribute that the importer does not use is an error (`unread`), so that attributes are not
dropped silently. The name of an operator includes the domain, and operator sets have versions.
"""

from collections.abc import Container, Iterable, MutableMapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray

from ceras_ir.frontends.onnx.model.model_file import (
    element_type,
    initializer_names,
    tensor_array,
    text,
)
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError

DEFAULT_DOMAINS = ("", "ai.onnx", "PACTOps")
"""The domains of operators without a prefix. quantlib writes `PACTOps`, or no domain."""


def operator_name(domain: str, op_type: str) -> str:
    """
    Return the name of an operator with the domain, `com.microsoft::Gelu`. Default domains are
    omitted: `Conv`.
    """
    if domain in DEFAULT_DOMAINS:
        return text(op_type)
    return f"{text(domain)}::{text(op_type)}"


def imported_versions(entries: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """
    Return the version of each operator set (domain) that a model or function imports; the default
    domain is "".
    """
    versions: dict[str, int] = {}
    for entry in entries:
        domain = "" if entry.domain == "ai.onnx" else text(entry.domain)
        if (known := versions.setdefault(domain, entry.version)) != entry.version:
            name = domain or "ai.onnx"
            raise InputError(
                f"two versions of operator set '{name}' are imported, {known} and {entry.version}; "
                "keep the one for which the nodes were written"
            )
    return versions


def has_one_definition(operator: str, first: int, second: int) -> bool:
    """
    Return whether ONNX defines `operator` in the same way in the versions `first` and `second` of
    the operator set, except for the permitted element types.
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
"""The bound of integers in attributes and shapes."""

DATA = ""
"""The origin of inputs that are too large to be fixed at import."""


class MalformedError(InputError):
    """
    An error of a model that contradicts itself or ONNX, whatever the shapes and values of the
    inputs.
    """


STATE_MAXIMUM = "state the maximum"
"""The remedy for a value with extents that data decide."""


def fix_with_set(inputs: Sequence[str]) -> str:
    """
    Return the remedy to fix `inputs` with `--set`. If they are empty, the inputs are not known.
    """
    if not inputs:
        return "fix the input that decides with --set"
    names = " and ".join(f"'{name}'" for name in inputs)
    return f"fix input{'s' if inputs[1:] else ''} {names} with --set"


_Kind: TypeAlias = onnx.AttributeProto.AttributeType

_KIND_NAMES: dict[_Kind, str] = {
    onnx.AttributeProto.INT: "an integer",
    onnx.AttributeProto.INTS: "a list of integers",
    onnx.AttributeProto.FLOAT: "a float",
    onnx.AttributeProto.FLOATS: "a list of floats",
    onnx.AttributeProto.STRING: "a string",
    onnx.AttributeProto.STRINGS: "a list of strings",
    onnx.AttributeProto.GRAPH: "a graph",
    onnx.AttributeProto.TENSOR: "a tensor",
    onnx.AttributeProto.SPARSE_TENSOR: "a sparse tensor",
}


class Node:
    """
    An ONNX node during the import, with the opset of the graph and the names of values that are
    constants.
    """

    def __init__(self, proto: onnx.NodeProto, opset: int, constants: Container[str] = ()):
        if (
            proto.domain and proto.domain in DEFAULT_DOMAINS
        ):  # The evaluator knows the default domain only as "".
            copy = onnx.NodeProto()
            copy.CopyFrom(proto)
            copy.domain, proto = "", copy
        self.proto = proto
        self.opset = opset
        self.inputs: Sequence[str] = tuple(map(text, proto.input))
        self.outputs: Sequence[str] = tuple(map(text, proto.output))
        self.constants = constants
        self.origins: MutableMapping[str, frozenset[str]] = {}
        """The network inputs that decide the elements of each value, or `DATA`."""
        self.operator = operator_name(proto.domain, proto.op_type)
        named = [name for name in self.outputs if name]
        self.name: str = text(proto.name) or (named[0] if named else self.operator)
        self._attributes = {text(a.name): a for a in proto.attribute}
        self._read: set[str] = set()
        if len(self._attributes) != len(proto.attribute):
            raise self.malformed("an attribute is given twice")

    def has_input(self, index: int) -> bool:
        """Return whether operand `index`, which may be optional, is given."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def has_output(self, index: int) -> bool:
        """Return whether result `index` has a name, so that it can be used."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def drop_outputs(self, wanted: Container[str]) -> None:
        """Remove the names of results that are not in `wanted`, since no node uses them."""
        self.outputs = tuple(name if name in wanted else "" for name in self.outputs)

    def is_constant(self, index: int) -> bool:
        """Return whether operand `index` is given and known at import time."""
        return self.has_input(index) and self.inputs[index] in self.constants

    def origin(self, names: Iterable[str]) -> frozenset[str]:
        """
        Return the network inputs from which the values `names` are computed. `DATA` represents
        inputs that are too large for `--set`.
        """
        return frozenset[str]().union(*(self.origins.get(name, ()) for name in names))

    def deciding_inputs(self, *operands: int) -> tuple[str, ...]:
        """
        Return the names, sorted, of the inputs that `--set` can fix and that alone determine the
        operands with these indices. Return () if other data determine them, too.
        """
        found = self.origin(self.inputs[i] for i in operands if self.has_input(i))
        return () if DATA in found else tuple(sorted(found))

    def computed(self, index: int, remedy: str) -> str:
        """
        Return the message that operand `index` is computed at run time, although it must be a
        constant. `remedy` is used unless inputs that `--set` can fix determine the operand.
        """
        decided = self.deciding_inputs(index)
        return f"'{self.inputs[index]}' is computed; {fix_with_set(decided) if decided else remedy}"

    def wrong(self, message: str) -> InputError:
        """Return an error: shapes, types or values at this node do not fit together."""
        return InputError([Finding(self.name, self.operator, message)])

    def malformed(self, message: str) -> MalformedError:
        """Return an error: this node is wrong for all shapes and values of the inputs."""
        return MalformedError([Finding(self.name, self.operator, message)])

    def unsupported(self, message: str) -> UnsupportedError:
        """Return an error: this node is valid but not supported."""
        return UnsupportedError([self.refusal(message)])

    def refusal(self, message: str) -> Finding:
        """Return the finding for an `UnsupportedError` about this node."""
        decided = [self.deciding_inputs(i) for i in range(len(self.inputs))]
        inputs = tuple(sorted({name for names in decided for name in names}))
        text = f"unsupported {self.operator}: {message}"
        return Finding(self.name, self.operator, text, inputs)

    def _attribute(self, name: str, kind: _Kind) -> onnx.AttributeProto | None:
        self._read.add(name)
        attribute = self._attributes.get(name)
        if attribute is not None and attribute.type != kind:
            raise self.malformed(f"attribute '{name}' must be {_KIND_NAMES[kind]}")
        return attribute

    def has_attribute(self, name: str) -> bool:
        return name in self._attributes

    def ignore(self, *names: str) -> None:
        """
        Accept the attributes `names`, which have no effect in inference. Other attributes that the
        importer does not read are errors.
        """
        self._read.update(names)

    def unread(self) -> list[str]:
        """Return the attributes of the node that the importer has neither read nor ignored."""
        return sorted(set(self._attributes) - self._read)

    def integer(self, name: str, default: int) -> int:
        a = self._attribute(name, onnx.AttributeProto.INT)
        return default if a is None else self._bounded(name, a.i)

    def whole(self, name: str) -> int:
        """
        Return the required attribute `name`, an integer that may be stored as a float or as a
        tensor of a single element.
        """
        self._read.add(name)
        if (a := self._attributes.get(name)) is None:
            raise self.malformed(f"attribute '{name}' is missing")
        kinds, number = onnx.AttributeProto, np.nan
        if a.type in (kinds.INT, kinds.FLOAT):
            number = a.i if a.type == kinds.INT else a.f
        elif a.type == kinds.TENSOR and element_type(a.t.data_type) is not None:
            try:
                number = float(tensor_array(a.t, None).item())
            except ValueError as e:
                raise self.malformed(f"attribute '{name}': {e}") from None
        if not isfinite(number) or number != int(number):
            raise self.malformed(f"attribute '{name}' must be a single integer")
        return self._bounded(name, int(number))

    def flag(self, name: str, default: bool = False) -> bool:
        """Return the attribute `name`, an integer that must be 0 or 1, as a boolean."""
        value = self.integer(name, int(default))
        if value not in (0, 1):
            raise self.wrong(f"attribute '{name}' must be 0 or 1, got {value}")
        return bool(value)

    def bounds(self, name: str) -> tuple[int, ...] | None:
        """
        Return the integers of the attribute `name`, limited to the range of the IR. They are bounds
        of slices, in which 2^63 - 1 means the end. Return `None` without the attribute.
        """
        a = self._attribute(name, onnx.AttributeProto.INTS)
        if a is None:
            return None
        return tuple(min(max(i, -INTEGER_LIMIT), INTEGER_LIMIT) for i in a.ints)

    def numbers64(self, name: str) -> NDArray[np.int64] | None:
        """
        Return the attribute `name`, an integer or a list of 64-bit integers, as an array; `None`
        without the attribute.
        """
        is_one = name in self._attributes and self._attributes[name].type == onnx.AttributeProto.INT
        a = self._attribute(name, onnx.AttributeProto.INT if is_one else onnx.AttributeProto.INTS)
        return None if a is None else np.array(a.i if is_one else a.ints, np.int64)

    def integers(self, name: str) -> tuple[int, ...] | None:
        a = self._attribute(name, onnx.AttributeProto.INTS)
        return None if a is None else tuple(self._bounded(name, i) for i in a.ints)

    def per_dimension(
        self, name: str, rank: int, default: int = 1, minimum: int = 1
    ) -> tuple[int, ...]:
        """
        Return the attribute `name`, a list of `rank` integers, one for each spatial dimension, with
        the smallest permitted value `minimum`. Without the attribute, all are `default`.
        """
        values = self.integers(name)
        if values is None:
            return (default,) * rank
        if len(values) != rank or any(v < minimum for v in values):
            expected = f"{rank} integers >= {minimum}"
            raise self.wrong(f"attribute '{name}' must be {expected}, got {list(values)}")
        return values

    def number(self, name: str, default: float) -> float:
        """Return the float attribute `name`, which must be finite."""
        value = self.bound(name, default)
        if not isfinite(value):
            raise self.wrong(f"attribute '{name}' must be finite, got {value}")
        return value

    def bound(self, name: str, default: float) -> float:
        """Return the float attribute `name`, which may be infinite."""
        a = self._attribute(name, onnx.AttributeProto.FLOAT)
        return default if a is None else a.f

    def numbers(self, name: str) -> tuple[float, ...] | None:
        a = self._attribute(name, onnx.AttributeProto.FLOATS)
        return None if a is None else tuple(a.floats)

    def string(self, name: str, default: str) -> str:
        a = self._attribute(name, onnx.AttributeProto.STRING)
        return default if a is None else a.s.decode("utf-8", "replace")

    def subgraph(self, name: str) -> onnx.GraphProto:
        """Return the subgraph in the attribute `name`, which must exist."""
        a = self._attribute(name, onnx.AttributeProto.GRAPH)
        if a is None:
            raise self.malformed(f"attribute '{name}' is missing")
        return a.g

    def strings(self, name: str) -> tuple[str, ...] | None:
        a = self._attribute(name, onnx.AttributeProto.STRINGS)
        return None if a is None else tuple(s.decode("utf-8", "replace") for s in a.strings)

    def subgraphs(self) -> list[onnx.GraphProto]:
        return [a.g for a in self.proto.attribute if a.type == onnx.AttributeProto.GRAPH]

    def _inner(self, graphs: Sequence[onnx.GraphProto] | None = None) -> list[onnx.GraphProto]:
        """Return `graphs`, by default all subgraphs of the node, and all graphs nested in them."""
        graphs = self.subgraphs() if graphs is None else list(graphs)
        for graph in graphs:
            for proto in graph.node:
                graphs += [a.g for a in proto.attribute if a.type == onnx.AttributeProto.GRAPH]
        return graphs

    def has_loops(self) -> bool:
        """Return whether a subgraph of the node contains a Loop or Scan."""
        return any(inner.op_type in ("Loop", "Scan") for g in self._inner() for inner in g.node)

    def captured(self, graphs: Sequence[onnx.GraphProto] | None = None) -> set[str]:
        """
        Return the names that nodes in `graphs` use, including outer values. `graphs` are by default
        all subgraphs.
        """
        names: set[str] = set()
        for graph in self._inner(graphs):
            names.update(text(value.name) for value in graph.output)
            for inner in graph.node:
                names.update(text(name) for name in inner.input if name)
        return names

    def defined(self, graphs: Sequence[onnx.GraphProto] | None = None) -> set[str]:
        """
        Return the names of inputs, initializers and results in `graphs`, by default all subgraphs.
        """
        names: set[str] = set()
        for graph in self._inner(graphs):
            names.update(text(value.name) for value in graph.input)
            names.update(initializer_names(graph))
            for inner in graph.node:
                names.update(map(text, inner.output))
        return names

    def tensor(self, name: str) -> onnx.TensorProto | None:
        a = self._attribute(name, onnx.AttributeProto.TENSOR)
        return None if a is None else a.t

    def sparse_tensor(self, name: str) -> onnx.SparseTensorProto | None:
        a = self._attribute(name, onnx.AttributeProto.SPARSE_TENSOR)
        return None if a is None else a.sparse_tensor

    def axis(self, value: int, rank: int, name: str = "axis") -> int:
        """
        Return the dimension `value` of a tensor of `rank`, from 0; negative values count from the
        end. `name` is the name of the attribute in the error for a value out of range.
        """
        if not -rank <= value < rank:
            raise self.wrong(f"{name} must be in [{-rank}, {rank}), got {value}")
        return value % rank

    def _bounded(self, name: str, value: int) -> int:
        if not -INTEGER_LIMIT < value < INTEGER_LIMIT:
            raise self.wrong(f"attribute '{name}' must be below 2^31, got {value}")
        return value


def as_unsupported(finding: Finding) -> Finding:
    """
    Return a finding with the word `unsupported`, for an error that occurs only with these shapes or
    values of the inputs.
    """
    if "unsupported" in finding.message:
        return finding
    message = f"unsupported {finding.operator} for these inputs: {finding.message}"
    return replace(finding, message=message)


def in_branch(finding: Finding, node: Node, branch: str, other: str = "") -> Finding:
    """
    Return `finding` with the addition that it is in the branch `branch` of the If `node`. `other`
    is the name of the other branch if that branch can be imported.
    """
    decided = node.deciding_inputs(0)
    remedy = fix_with_set(decided) if decided else "export the model without the If"
    fine = f", and the {other} branch can be imported" if other else ""
    place = f"in the {branch} branch of If '{node.name}' with a computed condition{fine}"
    return replace(
        finding,
        message=f"{finding.message}. This is {place}; {remedy}",
        inputs=tuple(sorted({*finding.inputs, *decided})),
    )
