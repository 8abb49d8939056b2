"""Conditions of branches and loops: what is known of them, and what they choose."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

import numpy as np
import onnx

from ceras_ir.dialects.graph import Binary
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.node import Node, fix_with_set
from ceras_ir.frontends.onnx.values import Constant, Value
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError

V = TypeVar("V", bound=Value)


def known_condition(node: Node, emitter: Emitter, value: Value) -> bool | Value:
    """What a condition is, if that is known, else its one element, whatever its rank."""
    shape, dtype = shape_of_value(value), dtype_of_value(value)
    if prod(shape) != 1 or dtype != np.bool_:
        raise node.wrong(f"a condition of one truth value expected, got {list(shape)} of {dtype}")
    if isinstance(value, Constant):
        return bool(value.load().reshape(-1)[0])
    return emitter.reshaped(value, ()) if len(shape) > 1 else value


def both(emitter: Emitter, a: bool | Value, b: bool | Value) -> bool | Value:
    """Whether both hold, if that is known, else where it is computed."""
    if a is False or b is False:
        return False
    if a is True or b is True:
        return b if a is True else a
    return emitter.binary(Binary.AND, emitter.reshaped(a, ()), emitter.reshaped(b, ()))


def selected(node: Node, emitter: Emitter, condition: Value, a: Value, b: Value) -> Value:
    """`condition ? a : b` of values of one shape and type."""
    if a is b:
        return a
    check_alike(node, a, b)
    return Composer(emitter).select(condition, a, b)


def check_alike(node: Node, a: Value, b: Value) -> None:
    """Refuse values of different shapes or types if a computed condition selects one of them."""
    shapes, dtypes = zip(*((shape_of_value(v), dtype_of_value(v)) for v in (a, b)), strict=True)
    if shapes[0] == shapes[1] and dtypes[0] == dtypes[1]:
        return
    decided = node.deciding(0) if node.operator == "If" else ()
    raise node.unsupported(
        f"results of shapes {list(shapes[0])} and {list(shapes[1])} and of types {dtypes[0]} and "
        f"{dtypes[1]}, of which a computed condition selects one; {fix_with_set(decided)}"
        f"{'' if decided else ', or export the model with one branch'}"
    )


def taken_graphs(node: Node, emitter: Emitter) -> Sequence[onnx.GraphProto]:
    """The subgraphs of a node without the branch that a constant condition does not take."""
    graphs = node.subgraphs()
    if node.operator != "If" or not node.has_input(0):
        return graphs
    condition = emitter.values[node.inputs[0]]
    if not isinstance(condition, Constant) or prod(condition.shape) != 1:
        return graphs
    return [node.subgraph("then_branch" if condition.load().item() else "else_branch")]


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


def results_of_both(
    node: Node, then: Sequence[V] | InputError, other: Sequence[V] | InputError
) -> tuple[Sequence[V], Sequence[V]]:
    """
    The results of both branches of an If whose condition is computed. Raises what is wrong in
    them: unsupported if one branch can be imported, or if one is unsupported.
    """
    if not isinstance(then, InputError) and not isinstance(other, InputError):
        return then, other
    named = {"then": then, "else": other}
    errors = {name: e for name, e in named.items() if isinstance(e, InputError)}
    fine = next((name for name in named if name not in errors), "")
    found = [in_branch(f, node, name, fine) for name, e in errors.items() for f in e.findings]
    if fine or any(isinstance(e, UnsupportedError) for e in errors.values()):
        raise UnsupportedError([as_unsupported(finding) for finding in found])
    raise InputError(found)
