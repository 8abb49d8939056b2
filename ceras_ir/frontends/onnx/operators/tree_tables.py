"""
From ONNX's lists of nodes to the tables of `graph.tree_ensemble`.

Every comparison becomes `x <= threshold`, exactly: between float32 numbers `x < t` says that `x`
is at most the number before `t`. Equal leaves are one leaf. The errors are `ValueError`s, to which
the caller adds the node.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.frontends.onnx.model.model_file import MAX_ELEMENTS, Array

SPLIT_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
"""Comparisons `x mode threshold`, in the order of ONNX's numbers for them."""

Leaf: TypeAlias = Sequence[tuple[int, float]]
"""What is added to which column."""


@dataclass(frozen=True)
class TreeSplit:
    """A node that asks for `x[feature] mode threshold`; `true` and `false` name what follows."""

    feature: int
    threshold: float
    mode: str
    missing_is_true: bool
    """Where NaN goes, which no comparison but `NEQ` holds for."""
    true: Hashable
    false: Hashable


Reader: TypeAlias = tuple[list[int], int]
"""A pair of children, and which of the two is meant."""

TreeNodes: TypeAlias = Mapping[Hashable, TreeSplit | Leaf]


@dataclass(frozen=True)
class Comparison:
    """`x <= threshold`: to `left`, else to `right`; NaN goes left if `missing_is_left`."""

    threshold: np.float32
    missing_is_left: bool
    left: Hashable
    right: Hashable


SECOND = object()
"""What stands for the second of two steps."""


def steps_of(split: TreeSplit) -> list[Comparison]:
    """The comparisons by `<=` that a node is, one or two."""
    at_most, below = _at_most(split.threshold), _below(split.threshold)
    to_true, true, false = split.missing_is_true, split.true, split.false
    match split.mode:
        case "LEQ":
            return [Comparison(at_most, to_true, true, false)]
        case "LT":
            return [Comparison(below, to_true, true, false)]
        case "GT":
            return [Comparison(at_most, not to_true, false, true)]
        case "GTE":
            return [Comparison(below, not to_true, false, true)]
        case "EQ":
            return [
                Comparison(at_most, to_true, SECOND, false),
                Comparison(below, False, false, true),
            ]
        case _:
            # NaN differs from every number, so that it always goes to `true`.
            return [Comparison(at_most, False, SECOND, true), Comparison(below, False, true, false)]


class _TableWriter:
    """Tables that grow node by node."""

    def __init__(self, nodes: TreeNodes, inputs: int, width: int):
        self.nodes, self.inputs, self.width = nodes, inputs, width
        self.features: list[int] = []
        self.thresholds: list[np.float32] = []
        self.children: list[list[int]] = []
        self.rows: dict[bytes, int] = {}

    def tree(self, root: Hashable, column: int) -> int:
        """Write a tree whose leaves add from `column` on; where its root is."""
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
        """Write a node; which entries are to refer to its children."""
        if not 0 <= split.feature < self.inputs:
            raise ValueError(
                f"a node asks for feature {split.feature} of an input of {self.inputs}"
            )
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
    """The operands of `graph.tree_ensemble` behind its input."""
    seen: set[Hashable] = set()
    trees = [_leaves_of(nodes, root, seen) for root in roots]
    spans = [_span(leaves, targets) for leaves in trees]
    lost = [
        name for name, node in nodes.items() if isinstance(node, TreeSplit) and name not in seen
    ]
    if lost:
        raise ValueError(f"node {lost[0]} is in no tree")
    width = max(last - first + 1 for first, last in spans)
    if width * sum(map(len, trees)) > MAX_ELEMENTS:
        raise ValueError(f"leaves of {width} numbers are too large")
    columns = [min(first, targets - width) for first, _ in spans]
    writer = _TableWriter(nodes, inputs, width)
    starts = [writer.tree(root, column) for root, column in zip(roots, columns, strict=True)]
    if not writer.children:
        # Constants have elements: a node that no tree begins at.
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
    """The same integers in as few bytes as hold them."""
    for dtype in (np.int8, np.int16):
        if np.iinfo(dtype).min <= values.min() and values.max() <= np.iinfo(dtype).max:
            return values.astype(dtype)
    return values.astype(np.int32)


def _leaves_of(nodes: TreeNodes, root: Hashable, seen: set[Hashable]) -> list[Leaf]:
    """All leaves of a tree, which must be one: no node of any is `seen` twice."""
    found: list[Leaf] = []
    left = [root]
    while left:
        name = left.pop()
        if name not in nodes:
            raise ValueError(f"node {name} is named and not there")
        node = nodes[name]
        if not isinstance(node, TreeSplit):
            found.append(node)
            continue
        if name in seen:
            raise ValueError(f"node {name} is reached twice; a tree has one way to each node")
        seen.add(name)
        left += dict.fromkeys((node.false, node.true))
    return found


def _span(leaves: Sequence[Leaf], targets: int) -> tuple[int, int]:
    """The first and the last column that the leaves of a tree add to."""
    found = {target for leaf in leaves for target, _ in leaf} or {0}
    if min(found) < 0 or max(found) >= targets:
        wrong = min(found) if min(found) < 0 else max(found)
        raise ValueError(f"a leaf adds to result {wrong} of {targets}")
    return min(found), max(found)


def _at_most(threshold: float) -> np.float32:
    """The greatest float32 that is not above a threshold, which may have 64 bits."""
    if isnan(threshold):
        raise ValueError("thresholds must be numbers, got nan")
    with np.errstate(over="ignore"):
        nearest = np.float32(threshold)
    return nearest if float(nearest) <= threshold else np.nextafter(nearest, np.float32(-np.inf))


def _below(threshold: float) -> np.float32:
    """The greatest float32 that is below a threshold."""
    if threshold == -inf:
        raise ValueError("nothing is below a threshold of -inf")
    found = _at_most(threshold)
    return found if float(found) < threshold else np.nextafter(found, np.float32(-np.inf))
