"""
Convert the nodes of decision trees to the tables of `graph.tree_ensemble`.

All comparisons become `x <= threshold`, which is exact: for float32, `x < t` is equivalent to `x <=
p` with the largest float32 `p` below `t`. Equal leaves share a row. Errors are `ValueError`s, to
which the caller adds the node.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.frontends.onnx.model.model_file import MAX_TENSOR_ELEMENTS, Array

SPLIT_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
"""Comparisons `x mode threshold`, in the order of ONNX's numbers."""

Leaf: TypeAlias = Sequence[tuple[int, float]]
"""The leaf of a tree: pairs of an output column and the weight that is added to it."""


@dataclass(frozen=True)
class TreeSplit:
    """
    An inner node of a decision tree, which compares `x[feature]` with `threshold` by `mode`, such
    as LEQ. `true` and `false` are the keys of the next nodes.
    """

    feature: int
    threshold: float
    mode: str
    missing_is_true: bool
    """The result for NaN, for which no comparison except `NEQ` holds."""
    true: Hashable
    false: Hashable


Reader: TypeAlias = tuple[list[int], int]
"""A pair of children, and an index into it."""

TreeNodes: TypeAlias = Mapping[Hashable, TreeSplit | Leaf]


@dataclass(frozen=True)
class Threshold:
    """
    A comparison `x <= threshold`, with the keys of the next nodes: `left` if it holds, else
    `right`. NaN leads to `left` if `missing_is_left`.
    """

    threshold: np.float32
    missing_is_left: bool
    left: Hashable
    right: Hashable


SECOND = object()
"""The placeholder of the second of two comparisons."""


def steps_of(split: TreeSplit) -> list[Threshold]:
    """
    Return one or two comparisons `x <= threshold` that are equivalent to the comparison of the tree
    node `split`.
    """
    at_most, below = _at_most(split.threshold), _below(split.threshold)
    to_true, true, false = split.missing_is_true, split.true, split.false
    return {
        "LEQ": [Threshold(at_most, to_true, true, false)],
        "LT": [Threshold(below, to_true, true, false)],
        "GT": [Threshold(at_most, not to_true, false, true)],
        "GTE": [Threshold(below, not to_true, false, true)],
        "EQ": [Threshold(at_most, to_true, SECOND, false), Threshold(below, False, false, true)],
        # NaN differs from all numbers, so it always leads to `true`.
        "NEQ": [Threshold(at_most, False, SECOND, true), Threshold(below, False, true, false)],
    }[split.mode]


class _TableWriter:
    def __init__(self, nodes: TreeNodes, inputs: int, width: int):
        self.nodes, self.inputs, self.width = nodes, inputs, width
        self.features: list[int] = []
        self.thresholds: list[np.float32] = []
        self.children: list[list[int]] = []
        self.rows: dict[bytes, int] = {}

    def tree(self, root: Hashable, column: int) -> int:
        """
        Write the tree with this root, and return the index of the root in the tables. Column 0 of a
        leaf's row of values belongs to the output `column` of the ensemble.
        """
        start = [0]
        left: list[tuple[Hashable, list[Reader]]] = [(root, [(start, 0)])]
        while left:
            name, readers = left.pop()
            node = self.nodes[name]
            if isinstance(node, TreeSplit):
                at = len(self.children)
                left += reversed(self._split(node).items())
            else:
                at = -1 - self._leaf(node, column)
            for pair, side in readers:
                pair[side] = at
        return start[0]

    def _split(self, split: TreeSplit) -> dict[Hashable, list[Reader]]:
        """
        Write the table entries of an inner node. Return, for each key of a next node, the entries
        that must refer to it.
        """
        if not 0 <= split.feature < self.inputs:
            raise ValueError(f"a node tests feature {split.feature} of an input of {self.inputs}")
        waiting: dict[Hashable, list[Reader]] = {}
        for step in steps_of(split):
            pair = [len(self.children) + 1] * 2
            self.children.append(pair)
            self.features.append(-1 - split.feature if step.missing_is_left else split.feature)
            self.thresholds.append(step.threshold)
            for side, child in enumerate((step.left, step.right)):
                if child is not SECOND:
                    waiting.setdefault(child, []).append((pair, side))
        return waiting

    def _leaf(self, leaf: Leaf, column: int) -> int:
        row = np.zeros(self.width, np.float32)
        for target, weight in leaf:
            row[target - column] += np.float32(weight)
        return self.rows.setdefault(row.tobytes(), len(self.rows))


def tables_of(
    nodes: TreeNodes, roots: Sequence[Hashable], inputs: int, targets: int
) -> tuple[Array, ...]:
    """
    Return the operands of `graph.tree_ensemble` after the input: tables of all trees. `nodes` has
    the nodes by key, `roots` the keys of the roots, `inputs` is the number of features, and
    `targets` that of outputs.
    """
    visited: set[Hashable] = set()
    trees = [_leaves_of(nodes, root, visited) for root in roots]
    spans = [_span(leaves, targets) for leaves in trees]
    for name, node in nodes.items():
        if isinstance(node, TreeSplit) and name not in visited:
            raise ValueError(f"node {name} is in no tree")
    width = max(last - first + 1 for first, last in spans)
    if width * sum(map(len, trees)) > MAX_TENSOR_ELEMENTS:
        raise ValueError(f"leaves of {width} numbers are too large")
    columns = [min(first, targets - width) for first, _ in spans]
    writer = _TableWriter(nodes, inputs, width)
    starts = [writer.tree(root, column) for root, column in zip(roots, columns, strict=True)]
    if not writer.children:
        # A constant must have elements, so an unused node is added.
        writer.children, writer.features, writer.thresholds = [[-1, -1]], [0], [np.float32(0)]
    return (
        narrowest(np.array(writer.features)),
        np.array(writer.thresholds, np.float32),
        narrowest(np.array(writer.children)),
        narrowest(np.array(starts)),
        narrowest(np.array(columns)),
        np.frombuffer(b"".join(writer.rows), np.float32).reshape(-1, width),
    )


def narrowest(values: NDArray[np.int64]) -> Array:
    """Return `values` in the smallest of int8, int16 and int32 that holds them."""
    for dtype in (np.int8, np.int16):
        if np.iinfo(dtype).min <= values.min() and values.max() <= np.iinfo(dtype).max:
            return values.astype(dtype)
    return values.astype(np.int32)


def _leaves_of(nodes: TreeNodes, root: Hashable, visited: set[Hashable]) -> list[Leaf]:
    found: list[Leaf] = []
    left = [root]
    while left:
        name = left.pop()
        if name not in nodes:
            raise ValueError(f"node {name} does not exist")
        node = nodes[name]
        if not isinstance(node, TreeSplit):
            found.append(node)
            continue
        if name in visited:
            raise ValueError(f"node {name} has two parents in the tree")
        visited.add(name)
        left += dict.fromkeys((node.false, node.true))
    return found


def _span(leaves: Sequence[Leaf], targets: int) -> tuple[int, int]:
    found = {target for leaf in leaves for target, _ in leaf} or {0}
    span = min(found), max(found)
    if outside := [target for target in span if not 0 <= target < targets]:
        raise ValueError(f"a leaf adds to result {outside[0]} of {targets}")
    return span


def _at_most(threshold: float) -> np.float32:
    """Return the largest float32 that is not above `threshold`, a number of 64 bits."""
    if isnan(threshold):
        raise ValueError("thresholds must be numbers, got nan")
    with np.errstate(over="ignore"):
        nearest = np.float32(threshold)
    return nearest if float(nearest) <= threshold else np.nextafter(nearest, np.float32(-np.inf))


def _below(threshold: float) -> np.float32:
    """Return the largest float32 that is below `threshold`, a number of 64 bits."""
    if threshold == -inf:
        raise ValueError("no number is below a threshold of -inf")
    found = _at_most(threshold)
    return found if float(found) < threshold else np.nextafter(found, np.float32(-np.inf))
