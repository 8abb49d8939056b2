"""
Find unsupported nodes before any node is emitted, by rules that need no shapes.

A single run reports all of them. Nodes that no output needs are ignored, and so are nodes in a
branch whose condition may be known when the model is imported: it may be the other branch.
"""

from collections.abc import Sequence

import onnx

from ceras_ir.frontends.onnx.conditions import in_branch
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.order import inner_nodes, is_folded
from ceras_ir.frontends.onnx.registry import OPERATORS, refusals
from ceras_ir.frontends.onnx.schema_functions import has_body
from ceras_ir.support.diagnostics import Finding


def early_refusals(nodes: Sequence[Node], outputs: Sequence[str]) -> Sequence[Finding]:
    """Return the refusals of the ordered `nodes` that `outputs` need."""
    return [f for node in _certainly_needed(nodes, outputs) for f in _refused(node)]


def _certainly_needed(nodes: Sequence[Node], outputs: Sequence[str]) -> Sequence[Node]:
    """Return the nodes that the outputs need, independent of the branches that constants choose."""
    wanted = set(outputs)
    kept: list[Node] = []
    for node in reversed(nodes):
        if wanted.intersection(filter(None, node.outputs)):
            captured = () if _takes_known_branch(node) else node.captured()
            wanted.update(filter(None, node.inputs), captured)
            kept.append(node)
    return kept[::-1]


def _refused(node: Node) -> Sequence[Finding]:
    """Return the refusals of a node and of the nodes in the subgraphs."""
    if is_folded(node) or (node.operator not in OPERATORS and has_body(node)):
        return ()
    found = list(refusals(node))
    if _takes_known_branch(node):
        return found
    for attribute in node.proto.attribute:
        if attribute.type != onnx.AttributeProto.GRAPH:
            continue
        inside: list[Finding] = []
        for inner in inner_nodes(node, attribute.g, set()):
            # Rules of operands wait until it is known what is bound to the graph's inputs.
            if inner.subgraphs() or inner.operator not in OPERATORS:
                inside += _refused(inner)
        if node.operator == "If":
            branch = attribute.name.removesuffix("_branch")
            inside = [in_branch(finding, node, branch) for finding in inside]
        found += inside
    return found


def _takes_known_branch(node: Node) -> bool:
    """
    Return whether a node is an If with a condition that may be known when it is imported. In the
    body of a loop that is unrolled, the condition can follow from the number of the step.
    """
    return node.operator == "If" and (node.is_constant(0) or not node.origin(node.inputs[:1]))
