"""Build models of ONNX-ML with random trees, and evaluate them node by node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

Floats: TypeAlias = NDArray[np.float32]

ML = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@dataclass(frozen=True)
class Node:
    """A node of a tree, or a leaf, which has weights for some results."""

    tree: int
    name: int
    mode: str = "LEAF"
    feature: int = 0
    threshold: float = 0.0
    missing: int = 0
    true: int = 0
    false: int = 0
    weights: Sequence[tuple[int, float]] = ()


def random_trees(
    seed: int, *, trees: int, depth: int, features: int, targets: int, modes: Sequence[str] = MODES
) -> list[Node]:
    """Draw trees of any shape with few different thresholds, so that inputs are equal to some."""
    rng = np.random.default_rng(seed)
    nodes: list[Node] = []

    def grow(tree: int, left: int) -> int:
        name = sum(node.tree == tree for node in nodes)
        at = len(nodes)
        nodes.append(Node(tree, name))
        if left and rng.random() < 0.8:
            true, false = grow(tree, left - 1), grow(tree, left - 1)
            mode, missing = str(rng.choice(list(modes))), int(rng.integers(2))
            threshold = float(rng.integers(-2, 3)) / 2
            feature = int(rng.integers(features))
            nodes[at] = Node(tree, name, mode, feature, threshold, missing, true, false)
        else:
            # Some trees add to a single result, as in boosting, and some to all, as in forests.
            wanted = [tree % targets] if tree % 2 else range(targets)
            weights = [(t, float(np.float32(rng.normal()))) for t in wanted]
            nodes[at] = Node(tree, name, weights=weights)
        return name

    for tree in range(trees):
        grow(tree, depth)
    return nodes


def walked(nodes: Sequence[Node], x: Floats, targets: int) -> Floats:
    """Sum the leaves in the order of the trees, and round to float32 each time."""
    known = {(node.tree, node.name): node for node in nodes}
    result = np.zeros((len(x), targets), np.float32)
    for row, sums in zip(x, result, strict=True):
        for tree in dict.fromkeys(node.tree for node in nodes):
            node = known[tree, 0]
            while node.mode != "LEAF":
                value = row[node.feature]
                holds = {
                    "BRANCH_LEQ": value <= node.threshold,
                    "BRANCH_LT": value < node.threshold,
                    "BRANCH_GTE": value >= node.threshold,
                    "BRANCH_GT": value > node.threshold,
                    "BRANCH_EQ": value == node.threshold,
                    "BRANCH_NEQ": value != node.threshold,
                }[node.mode] or bool(node.missing and np.isnan(value))
                node = known[tree, node.true if holds else node.false]
            for target, weight in node.weights:
                sums[target] += np.float32(weight)
    return result


def inputs_for(seed: int, rows: int, features: int) -> Floats:
    """Draw rows with thresholds, the adjacent floats, infinities and NaN."""
    rng = np.random.default_rng(seed)
    x = (rng.integers(-3, 4, (rows, features)) / 2).astype(np.float32)
    x = np.where(rng.random(x.shape) < 0.2, np.nextafter(x, np.float32(9)), x)
    x = np.where(rng.random(x.shape) < 0.1, np.float32(np.nan), x)
    return np.where(rng.random(x.shape) < 0.05, np.float32(np.inf), x).astype(np.float32)


def node_attributes(nodes: Sequence[Node], kind: str) -> dict[str, object]:
    """Return the attributes of a classifier (`class`) or a regressor (`target`)."""
    leaves = [(node, target, weight) for node in nodes for target, weight in node.weights]
    return {
        "nodes_treeids": [node.tree for node in nodes],
        "nodes_nodeids": [node.name for node in nodes],
        "nodes_featureids": [node.feature for node in nodes],
        "nodes_values": [node.threshold for node in nodes],
        "nodes_modes": [node.mode for node in nodes],
        "nodes_missing_value_tracks_true": [node.missing for node in nodes],
        "nodes_truenodeids": [node.true for node in nodes],
        "nodes_falsenodeids": [node.false for node in nodes],
        f"{kind}_treeids": [node.tree for node, _, _ in leaves],
        f"{kind}_nodeids": [node.name for node, _, _ in leaves],
        f"{kind}_ids": [target for _, target, _ in leaves],
        f"{kind}_weights": [weight for _, _, weight in leaves],
    }


def ml_model(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int],
    outputs: Mapping[str, int],
    *,
    dtype: int = TensorProto.FLOAT,
    version: int = 3,
    constants: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    """Build a model of one input `x`; outputs have these element types and any shape."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        list(constants),
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def ml_node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: object
) -> onnx.NodeProto:
    """Build a node of ONNX-ML, named after the operator."""
    node = helper.make_node(operator, list(inputs), list(outputs), operator.lower(), domain=ML)
    node.attribute.extend(helper.make_attribute(k, v) for k, v in sorted(attributes.items()))
    return node


def assert_close(got: NDArray[np.generic], expected: object) -> None:
    """Check floats against a runtime that may add in another order."""
    np.testing.assert_allclose(
        np.asarray(got, np.float32), np.asarray(expected, np.float32), rtol=1e-6, atol=1e-5
    )
