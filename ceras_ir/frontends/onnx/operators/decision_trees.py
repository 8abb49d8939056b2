"""Import ensembles of decision trees as `graph.tree_ensemble`, and transform the sums."""

from collections.abc import Hashable, Sequence
from itertools import zip_longest

import numpy as np
import onnx
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import TreeEnsembleOp
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import operator, rule
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.model_file import tensor_array
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.classical_models import (
    class_labels,
    classified,
    known_transform,
    rows_of,
    transformed,
)
from ceras_ir.frontends.onnx.operators.tree_tables import (
    SPLIT_MODES,
    Leaf,
    TreeNodes,
    TreeSplit,
    tables_of,
)

TREE_CLASSIFIER = "ai.onnx.ml::TreeEnsembleClassifier"
TREE_REGRESSOR = "ai.onnx.ml::TreeEnsembleRegressor"
TREE_ENSEMBLE = "ai.onnx.ml::TreeEnsemble"

AGGREGATES = ("AVERAGE", "SUM")
ENSEMBLE_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The transforms in the order of the numbers of `TreeEnsemble`."""

SUM = 1
"""The number of `TreeEnsemble` for sums; averages are 0."""

rule(TREE_CLASSIFIER, TREE_REGRESSOR)(known_transform)


@rule(TREE_REGRESSOR)
def sum_or_average(node: Node) -> str | None:
    """results of trees must be summed or averaged"""
    aggregate = node.string("aggregate_function", "SUM")
    return None if aggregate in AGGREGATES else f"got '{aggregate}'; train an ensemble of sums"


@operator(TREE_CLASSIFIER)
def tree_ensemble_classifier(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import TreeEnsembleClassifier: the label of each row, and the scores of the classes. Labels that
    are text become indices into the list of labels.
    """
    labels = class_labels(node, "classlabels_int64s")
    ids, weights = _targets(node, "class")
    if len(labels) > 2 and max(ids) >= len(labels):
        raise node.wrong(f"a leaf votes for class {max(ids)} of {len(labels)}")
    is_mirrored = len(labels) == 2 and any(ids)
    if is_mirrored and not _are_opposite(node):
        raise node.unsupported(
            "two classes with weights for both, for which runtimes return different labels; "
            "convert the model again, with one weight per leaf as skl2onnx writes it"
        )
    targets = 1 if len(labels) == 2 else len(labels)
    scores = _sums(node, emitter, "class", targets, is_mirrored=is_mirrored)
    scores = _with_base(node, emitter, scores, is_mirrored=is_mirrored)
    # Weights that are not negative are votes, and a class needs more than half of them.
    threshold, total = (0.5, 1.0) if min(weights) >= 0 else (0.0, 0.0)
    post = node.string("post_transform", "NONE")
    return classified(emitter, scores, labels, post, threshold=threshold, total=total)


@operator(TREE_REGRESSOR)
def tree_ensemble_regressor(node: Node, emitter: Emitter) -> Value:
    """
    Import TreeEnsembleRegressor: for each target, the sum or average of the leaves of all trees,
    plus the base value.
    """
    sums = _sums(node, emitter, "target", node.integer("n_targets", 1))
    if node.string("aggregate_function", "SUM") == "AVERAGE":
        trees = len(set(node.integers("nodes_treeids") or ()))
        sums = emitter.div(sums, emitter.number(trees))
    sums = _with_base(node, emitter, sums)
    return transformed(emitter, sums, node.string("post_transform", "NONE"))


@operator(TREE_ENSEMBLE)
def tree_ensemble(node: Node, emitter: Emitter) -> Value:
    """
    Import TreeEnsemble of opset 5 of ONNX-ML: sums or averages of leaves. Comparisons with sets
    (`MEMBER`), minima and maxima are not supported.
    """
    node.ignore("nodes_hitrates")
    if node.has_attribute("membership_values"):
        raise node.unsupported("nodes of mode MEMBER; encode categories as numbers to compare")
    names = ("featureids", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    lists = [node.integers(f"nodes_{name}") or () for name in names]
    missing = node.integers("nodes_missing_value_tracks_true") or ()
    modes = _tensor(node, "nodes_modes")
    splits = _like_features(node, emitter, _tensor(node, "nodes_splits"))
    if len({*map(len, lists), len(modes), len(splits)}) != 1:
        raise node.wrong("the lists of nodes differ in length")
    targets, weights = node.integers("leaf_targetids") or (), _tensor(node, "leaf_weights")
    if len(targets) != len(weights):
        raise node.wrong(f"{len(targets)} targets of leaves and {len(weights)} weights")
    nodes: dict[Hashable, TreeSplit | Leaf] = {
        (True, i): [(int(t), float(w))]
        for i, (t, w) in enumerate(zip(targets, weights, strict=True))
    }
    for i, (f, yes, yes_leaf, no, no_leaf) in enumerate(zip(*lists, strict=True)):
        if not 0 <= (mode := int(modes[i])) < len(SPLIT_MODES):
            raise node.unsupported(f"mode {mode} of a node, expected a comparison, 0 to 5")
        is_missing = i < len(missing) and bool(missing[i])
        children = (bool(yes_leaf), yes), (bool(no_leaf), no)
        nodes[False, i] = TreeSplit(f, float(splits[i]), SPLIT_MODES[mode], is_missing, *children)
    roots = [(False, i) for i in node.integers("tree_roots") or ()]
    sums = _emitted(node, emitter, nodes, roots, node.integer("n_targets", 1))
    aggregate = node.integer("aggregate_function", SUM)
    if aggregate not in (0, SUM):
        raise node.unsupported("results of trees are summed or averaged; got a minimum or maximum")
    if aggregate != SUM:
        sums = emitter.div(sums, emitter.number(len(roots)))
    post = node.integer("post_transform", 0)
    if not 0 <= post < len(ENSEMBLE_TRANSFORMS):
        raise node.wrong(f"attribute 'post_transform' must be in [0, 5), got {post}")
    return transformed(emitter, sums, ENSEMBLE_TRANSFORMS[post])


def _are_opposite(node: Node) -> bool:
    """
    Return whether the weights of two classes are opposite in each leaf, as CatBoost writes them. A
    single sum then determines both scores.
    """
    ids, weights = _targets(node, "class")
    places = [node.integers(f"class_{name}") or () for name in ("treeids", "nodeids")]
    base = dict(enumerate(_floats(node, "base_values"))) or {0: 0.0, 1: 0.0}
    leaves: dict[tuple[int, ...], dict[int, float]] = {}
    for *place, target, weight in zip(*places, ids, weights, strict=False):
        leaves.setdefault(tuple(place), {})[target] = weight
    pairs = [base, *leaves.values()]
    return all(pair.keys() == {0, 1} and pair[0] == -pair[1] for pair in pairs)


def _sums(
    node: Node, emitter: Emitter, kind: str, targets: int, *, is_mirrored: bool = False
) -> Value:
    """
    Emit the sum of the leaves of all trees for each target. `kind` is the prefix of the attributes,
    `class` or `target`. With `is_mirrored`, emit only the sum of the second of two classes.
    """
    names = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
    lists = [node.integers(f"nodes_{name}") or () for name in names]
    modes = node.strings("nodes_modes") or ()
    values = _like_features(node, emitter, _floats(node, "nodes_values"))
    node.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
    missing = node.integers("nodes_missing_value_tracks_true") or ()
    if len({*map(len, lists), len(modes), len(values)}) != 1 or not modes:
        raise node.wrong("the lists of nodes are empty or differ in length")
    if missing and len(missing) != len(modes):
        raise node.wrong(f"nodes_missing_value_tracks_true has {len(missing)} of {len(modes)}")
    ids, weights = _targets(node, kind)
    leaves: dict[tuple[int, int], list[tuple[int, float]]] = {}
    places = [node.integers(f"{kind}_{name}") or () for name in ("treeids", "nodeids")]
    if any(len(place) != len(ids) for place in places):
        raise node.wrong("the lists of leaves differ in length")
    for tree, leaf, target, weight in zip(*places, ids, weights, strict=True):
        if target or not is_mirrored:
            leaves.setdefault((tree, leaf), []).append((target - is_mirrored, weight))
    nodes: dict[Hashable, TreeSplit | Leaf] = {}
    reached: set[tuple[int, int]] = set()
    for row in zip_longest(*lists, modes, values, missing, fillvalue=0):
        tree, name, feature, true, false, mode, value, is_missing = row
        key = (int(tree), int(name))
        if key in nodes:
            raise node.wrong(f"node {name} of tree {tree} is given twice")
        if mode == "LEAF":
            nodes[key] = leaves.get(key, [])
            continue
        if (short := str(mode).removeprefix("BRANCH_")) not in SPLIT_MODES:
            raise node.unsupported(f"mode '{mode}' of a node, expected a comparison of ONNX")
        children = [(int(tree), int(child)) for child in (true, false)]
        reached.update(children)
        nodes[key] = TreeSplit(int(feature), float(value), short, bool(is_missing), *children)
    roots = [key for key in zip(*lists[:2], strict=True) if key not in reached]
    trees = set(lists[0])
    if len(roots) != len(trees) or {tree for tree, _ in roots} != trees:
        raise node.wrong("each tree must have one root")
    return _emitted(node, emitter, nodes, roots, targets)


def _like_features(node: Node, emitter: Emitter, thresholds: Sequence[float]) -> Sequence[float]:
    """
    Round thresholds of 64 bits to float32 if the features were rounded to float32, so that equal
    numbers remain equal.
    """
    if not isinstance(x := emitter.value(0), SSAValue) or x not in emitter.rounded:
        return thresholds
    with np.errstate(over="ignore"):
        return [float(np.float32(t)) for t in thresholds]


def _emitted(
    node: Node, emitter: Emitter, nodes: TreeNodes, roots: Sequence[Hashable], targets: int
) -> Value:
    rows = rows_of(emitter)
    if not roots:
        raise node.wrong("has no tree")
    try:
        tables = tables_of(nodes, roots, shape_of_value(rows)[1], targets)
    except ValueError as e:
        raise node.wrong(str(e)) from None
    names = ("features", "thresholds", "children", "roots", "columns", "leaves")
    operands = [
        emitter.materialize(emitter.constant(table, name))
        for table, name in zip(tables, names, strict=True)
    ]
    return emitter.emit(TreeEnsembleOp(emitter.materialize(rows), operands, targets))


def _targets(node: Node, kind: str) -> tuple[Sequence[int], Sequence[float]]:
    ids, weights = node.integers(f"{kind}_ids") or (), _floats(node, f"{kind}_weights")
    if len(ids) != len(weights) or not ids:
        raise node.wrong("the lists of leaves are empty or differ in length")
    return ids, weights


def _with_base(node: Node, emitter: Emitter, sums: Value, *, is_mirrored: bool = False) -> Value:
    base, targets = _floats(node, "base_values"), shape_of_value(sums)[1]
    base = base[1:] if is_mirrored else base
    if not len(base):
        return sums
    if len(base) != targets:
        raise node.unsupported(f"{len(base)} base values for {targets} results; give one for each")
    array = np.array(base, np.float32).reshape(1, targets)
    return emitter.add(sums, emitter.constant(array, "base"))


def _floats(node: Node, name: str) -> Sequence[float]:
    return node.numbers(name) or _tensor(node, f"{name}_as_tensor")


def _tensor(node: Node, name: str) -> Sequence[float]:
    tensor = node.tensor(name)
    if tensor is None:
        return ()
    kinds = onnx.TensorProto
    if tensor.data_type not in (kinds.FLOAT, kinds.DOUBLE, kinds.FLOAT16, kinds.UINT8):
        raise node.wrong(f"attribute '{name}' has elements of another type")
    try:
        return tensor_array(tensor, None).reshape(-1).astype(np.float64).tolist()
    except ValueError as e:
        raise node.wrong(f"attribute '{name}': {e}") from None
