"""Linear classifiers and regressors: one matrix product, whose weights are attributes."""

from collections.abc import Sequence

import numpy as np

from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.matrix import product_of
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.scores import (
    class_labels,
    classified,
    known_transform,
    rows_of,
    transformed,
)
from ceras_ir.frontends.onnx.values import Value

CLASSIFIER = "ai.onnx.ml::LinearClassifier"
REGRESSOR = "ai.onnx.ml::LinearRegressor"

rule(CLASSIFIER, REGRESSOR)(known_transform)


@operator(CLASSIFIER)
def linear_classifier(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    The label of every row and its scores. Labels that are strings are numbers in the order of
    their list, which the output is said to have.
    """
    node.ignore("multi_class")
    labels = class_labels(node, "classlabels_ints")
    count = len(node.numbers("intercepts") or ()) or len(labels)
    if count != len(labels) and (count, len(labels)) != (1, 2):
        raise node.wrong(f"{count} intercepts for {len(labels)} labels")
    scores = _scores(node, emitter, count)
    return classified(emitter, scores, labels, node.string("post_transform", "NONE"))


@operator(REGRESSOR)
def linear_regressor(node: Node, emitter: Emitter) -> Value:
    """A product and a sum for every target."""
    scores = _scores(node, emitter, node.integer("targets", 1))
    return transformed(emitter, scores, node.string("post_transform", "NONE"))


def _scores(node: Node, emitter: Emitter, count: int) -> Value:
    rows = rows_of(emitter)
    width = shape_of_value(rows)[1]
    weights, bias = node.numbers("coefficients") or (), node.numbers("intercepts")
    if len(weights) != count * width or len(bias or ()) not in (0, count):
        raise node.wrong(
            f"{len(weights)} coefficients and {len(bias or ())} intercepts, expected {count} "
            f"times {width} and {count}"
        )
    matrix = emitter.constant(np.array(weights, np.float32).reshape(count, width), "coefficients")
    added = emitter.constant(np.array(bias, np.float32), "intercepts") if bias else None
    return product_of(emitter, rows, matrix, added)
