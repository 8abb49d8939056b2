"""
Order the nodes that the outputs of a model need, and refuse unsupported nodes at the beginning.

Each node follows the nodes that compute its operands. Only names and attributes are used, no
shapes: the values that are constants, and the rules of operators. A single run reports all
unsupported nodes. Nodes that no output needs are ignored. So are nodes in a branch if the condition
may be known at import, because the other branch may be chosen.
"""

from collections import ChainMap
from collections.abc import Container, Iterable, Iterator, MutableMapping, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

import onnx

from ceras_ir.frontends.onnx.emission.folding import NEVER_FOLDED, has_body
from ceras_ir.frontends.onnx.emission.registry import OPERATORS, refusals
from ceras_ir.frontends.onnx.model.model_file import initializer_names, text
from ceras_ir.frontends.onnx.model.node import Node, in_branch
from ceras_ir.support.diagnostics import Finding, InputError

VALUE_PRESERVING = frozenset({"Constant", "Shape", "Size", "Identity", "Dropout"}) | {
    "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "QuantizeLinear", "DequantizeLinear",
    "com.microsoft::QuantizeLinear", "com.microsoft::DequantizeLinear",
}  # fmt: skip
"""Operators with importers that return constants for constant operands (or, for shapes, any)."""

Origins: TypeAlias = MutableMapping[str, frozenset[str]]
"""The network inputs that decide the elements of each value, as in `Node.origins`."""


def ordered_nodes(
    graph: onnx.GraphProto,
    opset: int,
    known: set[str],
    constants: set[str],
    origins: Origins,
    outputs: Sequence[str],
) -> list[Node]:
    """
    Return the nodes of `graph` that the `outputs` need, each after the producers of the operands.
    Raise an error for an undefined name. The names of the results are added to `known`, to
    `constants` if they are known at import, and to `origins`, with the inputs that determine them.
    """
    produced = {text(name) for proto in graph.node for name in proto.output}
    nodes: list[Node] = []
    for node in _sorted([Node(proto, opset, constants) for proto in graph.node], known):
        _check_counts(node)
        for name in filter(None, node.inputs):
            if name in known:
                continue
            if name in produced:
                raise node.malformed(f"uses '{name}' before it is computed: the graph has a cycle")
            raise node.malformed(f"uses '{name}', which no node or input of the model defines")
        for name in filter(None, node.outputs):
            if name in known:
                raise node.malformed(f"computes '{name}', which exists already")
            known.add(name)
        constants.update(constant_outputs(node))
        _trace(node, origins)
        nodes.append(node)
    for name in outputs:
        if name not in known:
            raise InputError(f"output '{name}' is computed by no node; the file may be truncated")
    return list(_needed(nodes, outputs))


def _sorted(nodes: Sequence[Node], known: Container[str]) -> Iterator[Node]:
    """
    Yield `nodes` so that each follows the producers of the operands, otherwise in the given order.
    Nodes of cycles are last. ONNX requires such an order, but ONNX Runtime's converter to float16
    appends casts.
    """
    makers = {name: i for i, node in enumerate(nodes) for name in node.outputs if name}
    readers: dict[int, list[int]] = {}
    missing = [0] * len(nodes)
    for i, node in enumerate(nodes):
        read = {*node.inputs, *(node.captured() - node.defined())}
        for maker in {makers[name] for name in read if name in makers and name not in known}:
            readers.setdefault(maker, []).append(i)
            missing[i] += 1
    ready = [i for i, count in enumerate(missing) if count == 0]
    left = set(range(len(nodes)))
    while ready:
        i = heappop(ready)
        left.remove(i)
        yield nodes[i]
        for reader in readers.get(i, ()):
            missing[reader] -= 1
            if missing[reader] == 0:
                heappush(ready, reader)
    yield from (nodes[i] for i in sorted(left))


def _check_counts(node: Node) -> None:
    if not onnx.defs.has(node.operator):
        return
    schema = onnx.defs.get_schema(node.operator)
    inputs, outputs = schema.max_input, schema.max_output
    counts = ("operands", node.inputs, inputs), ("results", node.outputs, outputs)
    for kind, names, limit in counts:
        if any(names[limit:]):
            raise node.malformed(f"has {len(names)} {kind}, {node.operator} has at most {limit}")


def _trace(node: Node, origins: Origins) -> None:
    node.origins = origins
    # The shape of a value is known even if the elements are not.
    read = () if node.operator in ("Shape", "Size") else (*node.inputs, *node.captured())
    origins.update(dict.fromkeys(filter(None, node.outputs), node.origin(read)))


def is_folded(node: Node) -> bool:
    """
    Return whether the results of `node` are constants at import. In a subgraph this is an estimate:
    they may be.
    """
    if node.operator in ("Constant", "Shape", "Size", "SequenceEmpty", "SequenceLength"):
        return True
    operands = [i for i, name in enumerate(node.inputs) if name]
    if not all(node.is_constant(i) for i in operands) or not operands or node.subgraphs():
        return False
    is_known = node.operator in OPERATORS or onnx.defs.has(node.operator)
    return is_known and node.operator not in NEVER_FOLDED


LoopStates: TypeAlias = dict[tuple[str, ...], list[bool]]
"""
For each loop, identified by the names of its results: whether each carried state may be constant.
"""


def constant_outputs(node: Node, loops: LoopStates | None = None) -> Sequence[str]:
    """
    Return the names of the results of `node` that are constants at import, or may be: whether a
    result of control flow is constant is known only after emission. Functions that ONNX defines
    have no constant results if an operand is not constant. `loops` caches, for inner loops, the
    carried values that earlier calls, with fewer known constants, found to be constant; they remain
    constant, so the search continues with them.
    """
    outputs, loops = node.outputs, {} if loops is None else loops
    if is_folded(node) or (node.operator == "CastLike" and node.is_constant(0)):
        return [name for name in outputs if name]
    match node.operator:
        case "If":
            branches = [_constant_results(node, graph, (), loops) for graph in node.subgraphs()]
            # Both branches may return the same outer constant.
            chosen = any if node.is_constant(0) else all
            found = [chosen(pair) for pair in zip(*branches, strict=False)]
        case "Loop":
            found = _repeated(node, loops, skipped=2, conditions=1)
        case "Scan":
            found = _repeated(node, loops, skipped=0, conditions=0)
        case _:
            found = [bool(node.subgraphs())] * len(outputs)
    return [name for name, known in zip(outputs, found, strict=False) if name and known]


def inner_nodes(
    node: Node, graph: onnx.GraphProto, constants: set[str], loops: LoopStates | None = None
) -> Iterator[Node]:
    """
    Yield the nodes of `graph`, a subgraph of `node`, in order. The names of constant results are
    added to `constants`.
    """
    constants.update(initializer_names(graph))
    every = _Either(constants, node.constants)
    origins = inner_origins(node, [text(value.name) for value in graph.input])
    for proto in graph.node:
        inner = Node(proto, node.opset, every)
        constants.update(constant_outputs(inner, loops))
        _trace(inner, origins)
        yield inner


def inner_origins(node: Node, bound: Iterable[str], *, sees_outer: bool = True) -> Origins:
    """
    Return the origins (network inputs that determine a value) of the values at the beginning of a
    subgraph. The inputs `bound` may be any operand of `node`, except the first input of a Loop, the
    number of the step. With `sees_outer`, outer values are accessible; they are not in the body of
    a function.
    """
    own = dict.fromkeys(bound, node.origin(node.inputs))
    if node.operator == "Loop":
        own.update(dict.fromkeys([*own][:1], frozenset[str]()))
    return ChainMap(own, node.origins) if sees_outer else own


def _constant_results(
    node: Node, graph: onnx.GraphProto, given: Iterable[str], loops: LoopStates
) -> list[bool]:
    """
    Return, for each output of the subgraph `graph` of `node`, whether it may be constant if the
    inputs `given` are constants.
    """
    constants = set(given)
    for _ in inner_nodes(node, graph, constants, loops):
        pass
    names = [text(value.name) for value in graph.output]
    return [name in constants or name in node.constants for name in names]


def _repeated(node: Node, loops: LoopStates, *, skipped: int, conditions: int) -> list[bool]:
    """
    Return, for each result of a loop, whether it may be constant. The first `skipped` inputs of the
    body (such as the step number) and the first `conditions` outputs do not belong to operands and
    results of `node`.
    """
    graphs = node.subgraphs()
    if len(graphs) != 1:
        return []
    names = [text(value.name) for value in graphs[0].input]
    known = [node.is_constant(i) for i in range(skipped, len(names))]
    states = len(known) - (0 if skipped else node.integer("num_scan_inputs", 0))
    # Continue with the states found last. Starting anew for each visit of the outer loop would
    # take exponential time in nested loops.
    before = loops.get(tuple(node.outputs), [])
    known[: len(before)] = [a or b for a, b in zip(known, before, strict=False)]
    while True:
        pairs = zip(names[skipped:], known, strict=True)
        given = [*names[:skipped], *(name for name, constant in pairs if constant)]
        found = _constant_results(node, graphs[0], given, loops)[conditions:]
        # Without a step, a state keeps its initial value.
        after = [a or b for a, b in zip(known[:states], found, strict=False)]
        if after == known[: len(after)]:
            loops[tuple(node.outputs)] = after
            return [*after, *found[states:]]
        known[: len(after)] = after


class _Either:
    def __init__(self, first: Container[str], second: Container[str]):
        self.first, self.second = first, second

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self.first or name in self.second)


def _needed(nodes: Sequence[Node], outputs: Sequence[str]) -> Iterator[Node]:
    wanted = set(outputs)
    kept: list[Node] = []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            node.drop_outputs(wanted)
            wanted.update(filter(None, node.inputs), node.captured())
            kept.append(node)
    return reversed(kept)


def early_refusals(nodes: Sequence[Node], outputs: Sequence[str]) -> Sequence[Finding]:
    """
    Return the findings about unsupported nodes, among the ordered `nodes` that `outputs` need,
    whichever branches are chosen.
    """
    return [f for node in _certainly_needed(nodes, outputs) for f in _refused(node)]


def _certainly_needed(nodes: Sequence[Node], outputs: Sequence[str]) -> Sequence[Node]:
    """
    Return the nodes that the outputs need, whichever branches an If with a constant condition
    chooses.
    """
    wanted = set(outputs)
    kept: list[Node] = []
    for node in reversed(nodes):
        if wanted.intersection(filter(None, node.outputs)):
            captured = () if _takes_known_branch(node) else node.captured()
            wanted.update(filter(None, node.inputs), captured)
            kept.append(node)
    return kept[::-1]


def _refused(node: Node) -> Sequence[Finding]:
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
            # Rules of operands need the values of the inputs, which are known only later.
            if inner.subgraphs() or inner.operator not in OPERATORS:
                inside += _refused(inner)
        if node.operator == "If":
            branch = attribute.name.removesuffix("_branch")
            inside = [in_branch(finding, node, branch) for finding in inside]
        found += inside
    return found


def _takes_known_branch(node: Node) -> bool:
    """
    Return whether `node` is an If with a condition that may be known at import. In an unrolled
    loop, the condition can follow from the number of the step.
    """
    return node.operator == "If" and (node.is_constant(0) or not node.origin(node.inputs[:1]))
