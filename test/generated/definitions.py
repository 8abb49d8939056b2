"""
Define operators that ONNX's reference implementation lacks or computes incorrectly.

Each is written from the definition, in NumPy and in float64: loops without a condition or without
steps, scans along any axis, gathers of fewer rows, DequantizeLinear before operator set 19, tree
ensembles and linear and support vector regressions of ai.onnx.ml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from generated.builder import Array
from generated.noise import current
from onnx.reference.op_run import OpRun


class DequantizeLinear(OpRun):
    def _run(
        self,
        x: Array,
        scale: Array,
        zero: Array | None = None,
        axis: int = 1,
        block_size: int = 0,
        output_dtype: int | None = None,
    ) -> tuple[Array]:
        steps = x.astype(np.int64)
        if zero is not None:
            steps = steps - spread(zero, x.shape, axis, block_size).astype(np.int64)
        return (steps * spread(scale, x.shape, axis, block_size),)


def spread(array: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """Return a scale or zero point for each element."""
    if array.size == 1:
        return array.reshape(())
    if block:
        return np.repeat(array, block, axis)
    return array.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


class GatherElements(OpRun):
    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        places: list[Any] = list(np.indices(indices.shape))
        places[axis] = np.where(indices < 0, indices + data.shape[axis], indices)
        return (data[tuple(places)],)


class OneHot(OpRun):
    def _run(self, indices: Array, depth: Array, values: Array, axis: int = -1) -> tuple[Array]:
        count = int(np.ravel(depth)[0])
        places = np.where(indices < 0, indices + count, indices)
        hot = np.expand_dims(places, axis) == np.moveaxis(
            np.arange(count).reshape([count] + [1] * indices.ndim), 0, axis
        )
        return (values[hot.astype(np.int64)],)


class Loop(OpRun):
    def need_context(self) -> bool:
        return True

    def _run(
        self,
        trips: Array | None,
        condition: Array | None,
        *carried: Array,
        context: Mapping[str, Any] | None = None,
        body: Any = None,
        attributes: Any = None,
        **_: Any,
    ) -> tuple[Array, ...]:
        states, rows, step = list(carried), list[list[Array]](), 0
        going = condition is None or bool(condition)
        while going and (trips is None or step < int(trips)):
            feed = dict(context or {})
            feed.update(
                zip(
                    body.input_names,
                    (np.array(step, np.int64), np.array(True), *states),
                    strict=True,
                )
            )
            proceeds, *results = body.run(None, feed)
            states, stacked = results[: len(carried)], results[len(carried) :]
            rows.append(stacked)
            going, step = bool(proceeds), step + 1
        return (*states, *(np.stack(column) for column in zip(*rows, strict=True)))


class Scan(OpRun):
    def need_context(self) -> bool:
        return True

    def _run(
        self,
        *given: Array,
        context: Mapping[str, Any] | None = None,
        body: Any = None,
        num_scan_inputs: int = 1,
        scan_input_axes: Any = None,
        scan_input_directions: Any = None,
        scan_output_axes: Any = None,
        scan_output_directions: Any = None,
        attributes: Any = None,
        **_: Any,
    ) -> tuple[Array, ...]:
        count = len(given) - num_scan_inputs
        states, scanned = list(given[:count]), given[count:]
        axes = scan_input_axes or [0] * num_scan_inputs
        backward = scan_input_directions or [0] * num_scan_inputs
        sequences = [
            np.moveaxis(a, axis, 0)[:: -1 if back else 1]
            for a, axis, back in zip(scanned, axes, backward, strict=True)
        ]
        rows: list[list[Array]] = []
        for elements in zip(*sequences, strict=True):
            feed = {
                **(context or {}),
                **dict(zip(body.input_names, (*states, *elements), strict=True)),
            }
            results = body.run(None, feed)
            states, stacked = results[:count], results[count:]
            rows.append(stacked)
        columns = list(zip(*rows, strict=True))
        axes = scan_output_axes or [0] * len(columns)
        backward = scan_output_directions or [0] * len(columns)
        return (
            *states,
            *(
                np.moveaxis(np.stack(column[:: -1 if back else 1]), 0, axis)
                for column, axis, back in zip(columns, axes, backward, strict=True)
            ),
        )


COMPARE = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}
MODES = tuple(COMPARE)


def sums(x: Array, prefix: str, outputs: int, given: Mapping[str, Any]) -> tuple[Array, Array]:
    """Sum the leaf weights for each row, and the magnitudes of these weights."""
    nodes: dict[str, list[Any]] = {k[6:]: v for k, v in given.items() if k.startswith("nodes_")}
    keys: list[tuple[int, int]] = list(zip(nodes["treeids"], nodes["nodeids"], strict=True))
    place = {key: i for i, key in enumerate(keys)}
    leaves: dict[tuple[int, int], list[tuple[int, float]]] = {}
    fields: list[list[Any]] = [
        given[f"{prefix}_{k}"] for k in ("treeids", "nodeids", "ids", "weights")
    ]
    for tree, node, output, weight in zip(*fields, strict=True):
        leaves.setdefault((tree, node), []).append((output, float(weight)))
    total, size = np.zeros((len(x), outputs)), np.zeros((len(x), outputs))
    roots = [i for i, key in enumerate(keys) if key[0] not in {k[0] for k in keys[:i]}]
    for row, sum_, magnitude in zip(x, total, size, strict=True):
        for at in roots:
            while nodes["modes"][at] != "LEAF":
                compare = COMPARE[nodes["modes"][at]]
                holds = compare(row[nodes["featureids"][at]], nodes["values"][at])
                after = nodes["truenodeids" if holds else "falsenodeids"][at]
                at = place[keys[at][0], after]
            for output, weight in leaves.get(keys[at], ()):
                sum_[output] += weight
                magnitude[output] += abs(weight)
    total /= len(roots) if given.get("aggregate_function") == "AVERAGE" else 1
    base = np.asarray(given.get("base_values") or [0.0], np.float64)
    return total + base, size + np.abs(base)


class TreeEnsembleRegressor(OpRun):
    def _run(self, x: Array, **attributes: Any) -> tuple[Array]:
        return (rounded(*sums(x, "target", attributes["n_targets"], attributes)),)


class TreeEnsembleClassifier(OpRun):
    """
    Return labels of the maximum score.

    For two classes, all leaves have an id of 0 and the score of the second class. It is selected by
    a
    score above 1/2 if all weights are nonnegative, and above 0 otherwise.
    """

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, Array]:
        labels = np.array(attributes["classlabels_int64s"])
        scores = rounded(*sums(x, "class", len(labels), attributes))
        transform = attributes.get("post_transform")
        if len(labels) == 2:
            score = scores[:, 0]
            is_share = min(attributes["class_weights"]) >= 0
            found = labels[(score > (0.5 if is_share else 0)).astype(int)]
            one = 1 if is_share and transform != "LOGISTIC" else 0
            scores = np.stack([one - score, score], 1)
        else:
            found = labels[scores.argmax(1)]
        match transform:
            case "SOFTMAX":
                powers = np.exp(scores - scores.max(1, keepdims=True))
                scores = powers / powers.sum(1, keepdims=True)
            case "LOGISTIC":
                scores = 1 / (1 + np.exp(-scores))
            case _:
                pass
        return found, scores


class LinearRegressor(OpRun):
    def _run(
        self,
        x: Array,
        coefficients: Any = None,
        intercepts: Any = None,
        targets: int = 1,
        post_transform: str = "NONE",
    ) -> tuple[Array]:
        matrix = np.asarray(coefficients, np.float64).reshape(targets, -1).T
        base = np.asarray(intercepts or [0.0], np.float64)
        return (rounded(x @ matrix + base, np.abs(x) @ np.abs(matrix) + np.abs(base)),)


class SVMRegressor(OpRun):
    def _run(
        self,
        x: Array,
        coefficients: Any = None,
        kernel_params: Any = None,
        kernel_type: str = "LINEAR",
        n_supports: int = 0,
        rho: Any = None,
        support_vectors: Any = None,
        **_: Any,
    ) -> tuple[Array]:
        vectors = np.asarray(support_vectors, np.float64).reshape(n_supports, -1)
        gamma, offset, degree = kernel_params
        products = x @ vectors.T
        match kernel_type:
            case "LINEAR":
                kernel = products
            case "POLY":
                kernel = (gamma * products + offset) ** degree
            case "SIGMOID":
                kernel = np.tanh(gamma * products + offset)
            case _:
                kernel = np.exp(-gamma * ((x[:, None] - vectors) ** 2).sum(2))
        factors = np.asarray(coefficients, np.float64)[:, None]
        size = np.abs(x) @ np.abs(vectors.T) if kernel_type == "LINEAR" else np.abs(kernel)
        total = size @ np.abs(factors) + abs(rho[0])
        return (rounded(kernel @ factors + rho[0], total),)


class TreeEnsemble(OpRun):
    def _run(
        self,
        x: Array,
        *,
        nodes_featureids: Any,
        nodes_splits: Array,
        nodes_modes: Array,
        nodes_truenodeids: Any,
        nodes_trueleafs: Any,
        nodes_falsenodeids: Any,
        nodes_falseleafs: Any,
        tree_roots: Any,
        leaf_targetids: Any,
        leaf_weights: Array,
        n_targets: int,
        aggregate_function: int = 1,
        **_: Any,
    ) -> tuple[Array]:
        total, size = np.zeros((len(x), n_targets)), np.zeros((len(x), n_targets))
        for row, sum_, magnitude in zip(x, total, size, strict=True):
            for root in tree_roots:
                at, is_leaf = root, False
                while not is_leaf:
                    mode = MODES[int(nodes_modes[at])]
                    holds = COMPARE[mode](row[nodes_featureids[at]], nodes_splits[at])
                    is_leaf = bool((nodes_trueleafs if holds else nodes_falseleafs)[at])
                    at = (nodes_truenodeids if holds else nodes_falsenodeids)[at]
                sum_[leaf_targetids[at]] += leaf_weights[at]
                magnitude[leaf_targetids[at]] += abs(leaf_weights[at])
        return (rounded(total / (len(tree_roots) if aggregate_function == 0 else 1), size),)


def rounded(scores: Array, size: Array) -> Array:
    """Return scores with the rounding error of a sum of numbers of these magnitudes."""
    noise = current()
    if noise is None:
        return scores
    return scores + (noise.changed(size, 4.0) - size)


DEFINITIONS: list[type[OpRun]] = [
    DequantizeLinear,
    GatherElements,
    OneHot,
    Loop,
    Scan,
    TreeEnsembleRegressor,
    TreeEnsembleClassifier,
    TreeEnsemble,
    LinearRegressor,
    SVMRegressor,
]
"""Replacements of operators of ONNX's reference implementation."""

for _each in DEFINITIONS[-5:]:
    _each.op_domain = "ai.onnx.ml"
