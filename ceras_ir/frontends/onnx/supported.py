"""List the supported and the refused ONNX operators, for the page and for `ceras-operators`."""

from functools import cache

from onnx import NodeProto
from onnx.defs import get_all_schemas

from ceras_ir.frontends.onnx.emission.folding import FOLDABLE, has_body
from ceras_ir.frontends.onnx.emission.registry import (
    DEFAULT_REMEDY,
    OPERATOR_REMEDIES,
    OPERATOR_RULES,
    OPERATORS,
)
from ceras_ir.frontends.onnx.importer import NEWEST_OPSET
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators import load_operators
from ceras_ir.support.options import docstring


def imported_operators() -> list[str]:
    """Return the operators with an importer, sorted."""
    load_operators()
    return sorted(OPERATORS)


def rules_of(operator: str) -> list[str]:
    """Return the rules that a node of `operator` must satisfy, as sentences."""
    load_operators()
    return [" ".join(docstring(rule).split()) for rule in OPERATOR_RULES.get(operator, ())]


@cache
def function_operators() -> tuple[str, ...]:
    """
    Return the ONNX operators that have no importer but are defined by ONNX as functions, so that
    the body is imported.
    """
    names = {s.name for s in get_all_schemas() if not s.domain} - set(imported_operators())
    nodes = (Node(NodeProto(op_type=name), NEWEST_OPSET) for name in sorted(names))
    return tuple(node.operator for node in nodes if has_body(node))


def refused_operators() -> dict[str, str]:
    """
    Return the ONNX operators that cannot be imported, each with the remedy that an error names.
    """
    names = {s.name for s in get_all_schemas() if not s.domain}
    names -= {*imported_operators(), *FOLDABLE, *function_operators()}
    return {name: OPERATOR_REMEDIES.get(name, DEFAULT_REMEDY) for name in sorted(names)}
