"""
Support vector machines: a kernel of every row and every support vector, then one matrix product.

A support vector machine stays in float whatever is quantized, as an ensemble of trees does: what it
compares are distances of inputs as they are.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32

from ceras_ir.dialects.graph import ArgOp, Compare, Function, Reduce
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.coupled_probabilities import coupled
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.matrix import product_of
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.scores import class_labels, labelled, rows_of
from ceras_ir.frontends.onnx.values import Value

CLASSIFIER, REGRESSOR = "ai.onnx.ml::SVMClassifier", "ai.onnx.ml::SVMRegressor"

MAX_DEGREE = 8
"""Of a polynomial, which is products."""


@rule(CLASSIFIER, REGRESSOR)
def plain_scores(node: Node) -> str | None:
    """post_transform must be NONE"""
    post = node.string("post_transform", "NONE")
    return None if post == "NONE" else f"got '{post}'; convert the model without it"


@operator(REGRESSOR)
def svm_regressor(node: Node, emitter: Emitter) -> Value:
    """A sum over support vectors; with `one_class`, 1 where it is positive and -1 elsewhere."""
    compose, count = Composer(emitter), node.integer("n_supports", 0)
    coefficients, rho = _list(node, "coefficients"), _list(node, "rho")
    # Without support vectors the coefficients are the one there is.
    vectors = _list(node, "support_vectors") if count else coefficients
    if (count and coefficients.size != count) or rho.size != 1:
        raise node.wrong(f"{coefficients.size} coefficients and {rho.size} sums")
    factors = coefficients.reshape(1, -1) if count else np.ones((1, 1))
    with emitter.in_float():
        total = _sums(node, emitter, vectors, count or 1, factors, rho)
        if not node.flag("one_class"):
            return total
        above = compose.compare(Compare.LESS, compose.number(0), total)
        return compose.select(above, compose.number(1), compose.number(-1))


@operator(CLASSIFIER)
def svm_classifier(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    The label with the most votes of pairs of classes, and the sums of all pairs, or probabilities
    where there are `prob_a` and `prob_b`. Labels that are strings are numbers in the order of their
    list.
    """
    labels, counts = class_labels(node, "classlabels_ints"), node.integers("vectors_per_class")
    if not counts:
        raise node.unsupported("no support vectors; train LinearSVC, which is a linear model")
    classes, every = len(labels), sum(counts)
    pairs = list(combinations(range(classes), 2))
    coefficients, rho = _list(node, "coefficients"), _list(node, "rho")
    if len(counts) != classes or coefficients.size != (classes - 1) * every:
        raise node.wrong(f"{coefficients.size} coefficients of {list(counts)} vectors")
    if rho.size != len(pairs):
        raise node.wrong(f"{rho.size} sums for {len(pairs)} pairs of classes")
    logistic = _list(node, "prob_a"), _list(node, "prob_b")
    if any(v.size not in (0, len(pairs)) for v in logistic) or logistic[0].size != logistic[1].size:
        raise node.wrong(f"{logistic[0].size} 'prob_a' and {logistic[1].size} 'prob_b' for as many")
    # The sum of a pair is of the vectors of both classes, by the coefficients against the other.
    ends = np.cumsum([0, *counts])
    given, matrix = coefficients.reshape(classes - 1, every), np.zeros((len(pairs), every))
    for row, (i, j) in zip(matrix, pairs, strict=True):
        for own, other in ((i, j - 1), (j, i)):
            row[ends[own] : ends[own + 1]] = given[other, ends[own] : ends[own + 1]]
    compose = Composer(emitter)
    with emitter.in_float():
        vectors = _list(node, "support_vectors")
        sums = _sums(node, emitter, vectors, every, matrix, rho)
        first = compose.cast(compose.compare(Compare.LESS, compose.number(0), sums), f32)
        votes = np.zeros((classes, len(pairs)))
        for pair, (i, j) in enumerate(pairs):
            votes[i, pair], votes[j, pair] = 1, -1
        counted = _product(emitter, first, votes, np.maximum(-votes, 0).sum(1))
        scores: Value = sums
        if logistic[0].size:
            scores = coupled(emitter, sums, classes, *logistic)
        elif classes == 2:
            scores = compose.joined([compose.sub(compose.number(0), sums), sums], 1)
        index = emitter.emit(ArgOp(Reduce.MAX, emitter.materialize(counted), 1))
    rows = shape_of_value(sums)[0]
    return [labelled(emitter, emitter.reshaped(index, (rows,)), labels), scores]


def _sums(
    node: Node,
    emitter: Emitter,
    numbers: NDArray[np.float32],
    count: int,
    factors: NDArray[np.floating],
    bias: NDArray[np.floating],
) -> Value:
    """One sum for a row of factors, over the kernel of every row and each vector."""
    compose, rows = Composer(emitter), rows_of(emitter)
    width = shape_of_value(rows)[1]
    if numbers.size != count * width:
        raise node.wrong(f"{numbers.size} numbers, expected {count} times {width}")
    vectors = numbers.reshape(count, width).astype(np.float64)
    gamma, offset, degree = (*(node.numbers("kernel_params") or ()), 0.0, 0.0, 0.0)[:3]
    match node.string("kernel_type", "LINEAR"):
        case "LINEAR":
            return _product(emitter, rows, factors.astype(np.float64) @ vectors, bias)
        case "RBF":
            # Products of what is centred: squares of the whole would cancel.
            centre = vectors.mean(0)
            vectors -= centre
            rows = compose.sub(rows, emitter.constant(centre.astype(np.float32), "centre"))
            squares = compose.reduce(Reduce.SUM, compose.mul(rows, rows), [1])
            near = _product(emitter, rows, 2 * gamma * vectors, -gamma * (vectors**2).sum(1))
            far = compose.mul(squares, compose.number(gamma))
            kernel = compose.unary(Function.EXP, compose.sub(near, far))
        case "SIGMOID":
            inner = _product(emitter, rows, gamma * vectors, np.full(count, offset))
            kernel = compose.unary(Function.TANH, inner)
        case "POLY":
            if degree not in range(1, MAX_DEGREE + 1):
                raise node.unsupported(
                    f"degree {degree:g}; whole ones up to {MAX_DEGREE} are taken"
                )
            inner = _product(emitter, rows, gamma * vectors, np.full(count, offset))
            kernel = inner
            for _ in range(int(degree) - 1):
                kernel = compose.mul(kernel, inner)
        case kind:
            raise node.wrong(f"a kernel of type '{kind}'")
    return _product(emitter, kernel, factors, bias)


def _product(
    emitter: Emitter,
    rows: Value,
    matrix: NDArray[np.floating],
    bias: NDArray[np.floating] | None,
) -> Value:
    weights = emitter.constant(matrix.astype(np.float32), "weights")
    added = None if bias is None else emitter.constant(bias.astype(np.float32), "bias")
    return product_of(emitter, rows, weights, added)


def _list(node: Node, name: str) -> NDArray[np.float32]:
    return np.array(node.numbers(name) or (), np.float32)
