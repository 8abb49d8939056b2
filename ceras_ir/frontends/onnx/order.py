"""
The nodes that a model's outputs need, checked to be in order, and which of their values are
constants. Everything here is known from names alone.
"""

from collections.abc import Iterator, Sequence

import onnx

from ceras_ir.frontends.onnx.folding import NEVER_FOLDED
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import OPERATORS
from ceras_ir.frontends.onnx.schema_functions import has_body
from ceras_ir.support.diagnostics import InputError

VIEWS = frozenset({"Constant", "Shape", "Size", "Identity", "Dropout"}) | {
    "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "QuantizeLinear", "DequantizeLinear",
    "com.microsoft::QuantizeLinear", "com.microsoft::DequantizeLinear",
}  # fmt: skip
"""Operators whose importers give constants for constant operands (or, for shapes, any)."""


def ordered_nodes(
    graph: onnx.GraphProto,
    opset: int,
    known: set[str],
    constants: set[str],
    outputs: Sequence[str],
) -> list[Node]:
    """The nodes that the outputs need, known to be in order and to name what exists."""
    produced = {name for proto in graph.node for name in proto.output}
    nodes: list[Node] = []
    for proto in graph.node:
        node = Node(proto, opset, constants)
        _check_counts(node)
        for name in filter(None, node.inputs):
            if name in known:
                continue
            if name in produced:
                raise node.wrong(
                    f"reads '{name}' before it is computed: "
                    "the graph has a cycle or its nodes are not sorted"
                )
            raise node.wrong(f"reads '{name}', which nothing in the model computes")
        for name in filter(None, node.outputs):
            if name in known:
                raise node.wrong(f"computes '{name}', which exists already")
            known.add(name)
        if is_folded(node) or may_be_constant(node):
            constants.update(filter(None, node.outputs))
        nodes.append(node)
    for name in outputs:
        if name not in known:
            raise InputError(f"output '{name}' is computed by no node; the file may be truncated")
    return list(_needed(nodes, outputs))


def _check_counts(node: Node) -> None:
    """Refuse more operands or results than ONNX gives an operator in any version."""
    if not onnx.defs.has(node.operator):
        return
    schema = onnx.defs.get_schema(node.operator)
    counts = (
        ("operands", node.inputs, schema.max_input),
        ("results", node.outputs, schema.max_output),
    )
    for what, names, most in counts:
        if any(names[most:]):
            raise node.wrong(f"has {len(names)} {what}, {node.operator} has at most {most}")


def is_folded(node: Node) -> bool:
    """Whether the results of a node are constants, or may be, where control flow makes operands."""
    if node.operator in ("Constant", "Shape", "Size"):
        return True
    operands = [i for i, name in enumerate(node.inputs) if name]
    if not all(node.is_constant(i) for i in operands) or not operands or node.subgraphs():
        return False
    return node.operator not in NEVER_FOLDED and (
        node.operator in OPERATORS or onnx.defs.has(node.operator)
    )


def may_be_constant(node: Node) -> bool:
    """Whether only emitting a node tells if its results are constants."""
    if node.operator == "CastLike":
        return node.is_constant(0)
    return bool(node.subgraphs()) or (node.operator not in OPERATORS and has_body(node))


def _needed(nodes: Sequence[Node], outputs: Sequence[str]) -> Iterator[Node]:
    """Those of `nodes` that the `outputs` depend on, in order."""
    wanted = set(outputs)
    kept: list[Node] = []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            node.drop_outputs(wanted)
            wanted.update(filter(None, node.inputs), node.captured())
            kept.append(node)
    return reversed(kept)
