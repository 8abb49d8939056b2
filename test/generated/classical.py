"""Build models of ai.onnx.ml: tree ensembles, linear and support vector models, scalers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from generated.builder import INT64, Array, Builder, Case, Value
from onnx import TensorProto, helper

ML = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@dataclass
class Forest:
    """Trees with few different thresholds, to which samples are exactly equal."""

    columns: int
    outputs: int
    tree: list[int] = field(default_factory=list[int])
    node: list[int] = field(default_factory=list[int])
    feature: list[int] = field(default_factory=list[int])
    mode: list[str] = field(default_factory=list[str])
    value: list[float] = field(default_factory=list[float])
    true: list[int] = field(default_factory=list[int])
    false: list[int] = field(default_factory=list[int])
    missing: list[int] = field(default_factory=list[int])
    leaves: list[tuple[int, int, int, float]] = field(
        default_factory=list[tuple[int, int, int, float]]
    )

    def grow(self, b: Builder, trees: int, depth: int, modes: tuple[str, ...]) -> None:
        for tree in range(trees):
            count = 0

            def add(level: int) -> int:
                nonlocal count
                number, count = count, count + 1
                at = len(self.tree)
                is_leaf = level == depth or (level > 0 and b.chance(0.2))
                self.tree.append(tree)  # noqa: B023
                self.node.append(number)
                self.feature.append(0 if is_leaf else b.size(0, self.columns - 1))
                self.mode.append("LEAF" if is_leaf else b.pick(*modes))
                self.value.append(0.0 if is_leaf else float(b.size(-4, 4)) / 2)
                self.missing.append(0 if is_leaf else b.pick(0, 1))
                self.true.append(0)
                self.false.append(0)
                if is_leaf:
                    first = not self.leaves or len({leaf[2] for leaf in self.leaves}) < self.outputs
                    for output in range(self.outputs):
                        if output == 0 or first or b.chance(0.7):
                            weight = float(np.float32(b.random.normal()))
                            self.leaves.append((tree, number, output, weight))  # noqa: B023
                else:
                    self.true[at] = add(level + 1)
                    self.false[at] = add(level + 1)
                return number

            add(0)

    def attributes(self) -> dict[str, list[int] | list[float] | list[str]]:
        """Return the attributes of the two older operators."""
        return {
            "nodes_treeids": self.tree,
            "nodes_nodeids": self.node,
            "nodes_featureids": self.feature,
            "nodes_modes": self.mode,
            "nodes_values": self.value,
            "nodes_truenodeids": self.true,
            "nodes_falsenodeids": self.false,
            "nodes_missing_value_tracks_true": self.missing,
        }


def around_thresholds(random: np.random.Generator, shape: tuple[int, ...], index: int) -> Array:
    """Draw values at thresholds, next to them, and between them, and missing values."""
    values = random.integers(-5, 6, shape) / 2
    values = np.asarray(values, np.float32)
    near = np.nextafter(values, random.choice(np.array([-9, 9], np.float32), shape))
    values = np.where(random.random(shape) < 0.3, near, values)
    return random.normal(size=shape) if index == 0 else values


def classical(b: Builder) -> Case:
    """Build an optional scaler, then an ensemble, a linear or a support vector model."""
    columns, rows = b.size(2, 5), b.size(1, 4)
    b.domains[ML] = b.pick(1, 2, 3)
    x = b.input((rows, columns), around_thresholds)
    if b.chance(0.4):
        x = prepared(b, x)
    kinds = [regressor, classifier, classifier, linear, linear_classifier, vectors]
    if b.opset >= 13:
        kinds.append(ensemble)
    b.pick(*kinds)(b, x)
    return b.case(samples=4)


def prepared(b: Builder, x: Value) -> Value:
    columns = x.shape[1]
    match b.size(0, 3):
        case 0:
            offset, scale = b.random.normal(size=columns), b.random.uniform(0.5, 2, columns)
            return b.emit("Scaler", x, domain=ML, offset=offset.tolist(), scale=scale.tolist())
        case 1:
            return b.emit("Normalizer", x, domain=ML, norm=b.pick("L1", "L2"))
        case 2:
            return b.emit("Binarizer", x, domain=ML, threshold=b.pick(0.0, 0.5))
        case _:
            return b.emit(
                "Imputer",
                x,
                domain=ML,
                replaced_value_float=0.5,
                imputed_value_floats=[float(b.size(-2, 2))],
            )


def forest(b: Builder, columns: int, outputs: int) -> Forest:
    made = Forest(columns, outputs)
    modes = (b.pick("BRANCH_LEQ", "BRANCH_LT"),) if b.chance(0.6) else MODES
    made.grow(b, b.size(1, 6), b.size(1, 4), modes)
    return made


def regressor(b: Builder, x: Value) -> None:
    outputs = b.size(1, 3)
    trees = forest(b, x.shape[1], outputs)
    tree, node, target, weight = (list(c) for c in zip(*trees.leaves, strict=True))
    more = {"base_values": b.random.normal(size=outputs).tolist()} if b.chance(0.5) else {}
    b.output(
        b.emit(
            "TreeEnsembleRegressor",
            x,
            shape=(x.shape[0], outputs),
            domain=ML,
            n_targets=outputs,
            target_treeids=tree,
            target_nodeids=node,
            target_ids=target,
            target_weights=weight,
            aggregate_function=b.pick("SUM", "AVERAGE", "SUM"),
            **trees.attributes(),
            **more,
        )
    )


def classifier(b: Builder, x: Value) -> None:
    classes = b.size(2, 4)
    # Runtimes differ for two classes that both have weights; exporters write weights of one class.
    trees = forest(b, x.shape[1], 1 if classes == 2 else classes)
    tree, node, target, weight = (list(c) for c in zip(*trees.leaves, strict=True))
    more = (
        {"base_values": b.random.normal(size=classes).tolist()}
        if b.chance(0.3) and classes > 2
        else {}
    )
    labels = (
        list(range(classes))
        if b.chance(0.6)
        else sorted(b.random.choice(20, classes, replace=False).tolist())
    )
    results = [((x.shape[0],), INT64), ((x.shape[0], classes), np.float32)]
    label, scores = b.emit_all(
        "TreeEnsembleClassifier",
        [x],
        results,
        domain=ML,
        classlabels_int64s=labels,
        class_treeids=tree,
        class_nodeids=node,
        class_ids=target,
        class_weights=weight,
        post_transform=b.pick("NONE", "LOGISTIC", "NONE" if classes == 2 else "SOFTMAX"),
        **trees.attributes(),
        **more,
    )
    b.output(label)
    b.output(scores)


def linear(b: Builder, x: Value) -> None:
    targets = b.size(1, 3)
    more = {"intercepts": b.random.normal(size=targets).tolist()} if b.chance(0.7) else {}
    b.output(
        b.emit(
            "LinearRegressor",
            x,
            shape=(x.shape[0], targets),
            domain=ML,
            targets=targets,
            coefficients=b.random.normal(size=targets * x.shape[1]).tolist(),
            **more,
        )
    )


def linear_classifier(b: Builder, x: Value) -> None:
    classes = b.size(2, 4)
    results = [((x.shape[0],), INT64), ((x.shape[0], classes), np.float32)]
    label, scores = b.emit_all(
        "LinearClassifier",
        [x],
        results,
        domain=ML,
        classlabels_ints=list(range(classes)),
        coefficients=b.random.normal(size=classes * x.shape[1]).tolist(),
        intercepts=b.random.normal(size=classes).tolist(),
        post_transform=b.pick("NONE", "SOFTMAX", "LOGISTIC"),
    )
    b.output(label)
    b.output(scores)


def kernel(b: Builder) -> dict[str, object]:
    name = b.pick("LINEAR", "RBF", "POLY", "SIGMOID")
    return {"kernel_type": name, "kernel_params": [b.pick(0.5, 0.1), b.pick(0.0, 1.0), 2.0]}


def vectors(b: Builder, x: Value) -> None:
    """Append a support vector regression."""
    count = b.size(2, 5)
    name = b.pick("LINEAR", "RBF", "POLY", "SIGMOID")
    b.output(
        b.emit(
            "SVMRegressor",
            x,
            shape=(x.shape[0], 1),
            domain=ML,
            n_supports=count,
            kernel_type=name,
            kernel_params=[b.pick(0.5, 0.1), b.pick(0.0, 1.0), 2.0],
            coefficients=b.random.normal(size=count).tolist(),
            rho=[float(b.random.normal())],
            support_vectors=b.random.normal(size=count * x.shape[1]).tolist(),
        )
    )


def ensemble(b: Builder, x: Value) -> None:
    """Append TreeEnsemble of ai.onnx.ml 5, with leaves in separate attributes."""
    b.domains[ML] = 5
    outputs = b.size(1, 3)
    columns = x.shape[1]
    features, modes, roots, ids = (list[int]() for _ in range(4))
    true, false, true_leaf, false_leaf = (list[int]() for _ in range(4))
    thresholds, weights = list[float](), list[float]()

    def leaf() -> int:
        ids.append(b.size(0, outputs - 1))
        weights.append(float(np.float32(b.random.normal())))
        return len(ids) - 1

    def add(level: int) -> int:
        at = len(features)
        features.append(b.size(0, columns - 1))
        thresholds.append(float(b.size(-4, 4)) / 2)
        modes.append(b.size(0, 5))
        for places, leaves in ((true, true_leaf), (false, false_leaf)):
            places.append(0)
            leaves.append(0)
        for places, leaves in ((true, true_leaf), (false, false_leaf)):
            leaves[at] = int(level == 0 or b.chance(0.2))
            places[at] = leaf() if leaves[at] else add(level - 1)
        return at

    for _ in range(b.size(1, 5)):
        roots.append(add(b.size(0, 3)))

    def tensor(values: Sequence[float], kind: int = TensorProto.FLOAT) -> TensorProto:
        return helper.make_tensor("", kind, [len(values)], values)

    b.output(
        b.emit(
            "TreeEnsemble",
            x,
            shape=(x.shape[0], outputs),
            domain=ML,
            n_targets=outputs,
            aggregate_function=b.pick(0, 1),
            post_transform=0,
            tree_roots=roots,
            nodes_featureids=features,
            nodes_splits=tensor(thresholds),
            nodes_modes=tensor(modes, TensorProto.UINT8),
            nodes_truenodeids=true,
            nodes_trueleafs=true_leaf,
            nodes_falsenodeids=false,
            nodes_falseleafs=false_leaf,
            leaf_targetids=ids,
            leaf_weights=tensor(weights),
        )
    )
