"""Linear classifiers and regressors, and the scores and labels of all classifiers of ONNX-ML."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import f32, i64

from ceras_ir.dialects.graph import ArgOp, Compare, Function, Reduce, SoftmaxOp
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import operator, rule
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.support.options import docstring

ClassLabels: TypeAlias = Sequence[int] | Sequence[str]

SCORE_TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX")


def known_transform(node: Node) -> str | None:
    """post_transform must be NONE, LOGISTIC or SOFTMAX"""
    post = node.string("post_transform", "NONE")
    return None if post in SCORE_TRANSFORMS else f"got '{post}'; convert the model without it"


def class_labels(node: Node, integers: str) -> ClassLabels:
    """The labels of a classifier, from its attribute of `integers` or that of strings."""
    numbers = node.integers(integers) or ()
    texts = node.strings("classlabels_strings") or ()
    if bool(numbers) == bool(texts):
        raise node.wrong(f"needs labels in either '{integers}' or 'classlabels_strings'")
    if len(labels := numbers or texts) < 2:
        raise node.unsupported("one class; a model that always answers the same needs no code")
    return labels


def rows_of(emitter: Emitter) -> Value:
    """The first operand as rows of floats; one of one dimension is one row."""
    value = emitter.value(0)
    shape = shape_of_value(value)
    if len(shape) not in (1, 2):
        raise emitter.node.wrong(f"operand of shape {list(shape)}, expected rows of features")
    if len(shape) == 1:
        value = emitter.reshaped(value, (1, *shape))
    return value if emitter.is_float(value) else emitter.cast(value, f32)


def transformed(emitter: Emitter, scores: Value, post: str) -> Value:
    """What `post_transform` makes of rows of scores."""
    match post:
        case "NONE":
            return scores
        case "LOGISTIC":
            return emitter.unary(Function.SIGMOID, scores)
        case "SOFTMAX":
            return emitter.emit(SoftmaxOp(emitter.materialize(scores), 1))
        case _:
            raise emitter.node.unsupported(f"{docstring(known_transform)}; got '{post}'")


def classified(
    emitter: Emitter,
    scores: Value,
    labels: ClassLabels,
    post: str,
    *,
    threshold: float = 0.0,
    whole: float = 1.0,
) -> Sequence[Value]:
    """
    The label and the transformed scores of every row of `scores`. One score is that of the second
    of two classes, which a row is of where it is above `threshold`; both scores add up to `whole`,
    as in ONNX Runtime, unless they are made probabilities.
    """
    rows, columns = shape_of_value(scores)
    if columns > 1:
        index: Value = emitter.emit(ArgOp(Reduce.MAX, emitter.materialize(scores), 1))
        found = transformed(emitter, scores, post)
    else:
        index = emitter.cast(emitter.compare(Compare.LESS, emitter.number(threshold), scores), i64)
        is_logistic = post == "LOGISTIC"
        other: Value = emitter.sub(emitter.number(0.0 if is_logistic else whole), scores)
        if is_logistic:
            other, scores = (transformed(emitter, v, post) for v in (other, scores))
        found = emitter.joined([other, scores], 1)
    return [labelled(emitter, emitter.reshaped(index, (rows,)), labels), found]


def labelled(emitter: Emitter, index: Value, labels: ClassLabels) -> Value:
    """The labels at computed indices; of strings the indices, marked with their names."""
    value = emitter.materialize(index)
    texts = [label for label in labels if isinstance(label, str)]
    if texts:
        return emitter.named(value, texts)
    numbers = [label for label in labels if not isinstance(label, str)]
    if numbers == list(range(len(numbers))):
        return value
    shape = shape_of_value(value)
    table = emitter.constant(np.array(numbers, np.int64).reshape(-1, 1), "labels")
    return emitter.reshaped(emitter.taken(table, value), shape)


LINEAR_CLASSIFIER = "ai.onnx.ml::LinearClassifier"
LINEAR_REGRESSOR = "ai.onnx.ml::LinearRegressor"

rule(LINEAR_CLASSIFIER, LINEAR_REGRESSOR)(known_transform)


@operator(LINEAR_CLASSIFIER)
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


@operator(LINEAR_REGRESSOR)
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
    return emitter.product(rows, matrix, added)
