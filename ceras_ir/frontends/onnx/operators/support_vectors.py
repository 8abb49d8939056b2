"""
Import support vector machines: a kernel of each row and support vector, then a matrix product.

A support vector machine remains in float, like an ensemble of trees, because it compares distances
of the original inputs.

Probabilities of classes are derived from pairs. A logistic function of the sum of a pair is the
probability of the first class against the second, `r[i, j]`. The probabilities `p` of all classes
minimize `p Q p`, where `Q[i, i]` is the sum of the squares of `r[j, i]`, and `Q[i, j] = -r[i, j] *
r[j, i]` (Wu, Lin and Weng, Probability estimates for multi-class classification by pairwise
coupling, 2004). Sweeps over the classes compute them. The convergence test affects the third digit,
so the number of sweeps of each row is that of ONNX Runtime.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import ArgOp, Compare, Function, Reduce
from ceras_ir.frontends.onnx.emission.builder import emit_loop, outlined
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import operator, rule
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.classical_models import class_labels, labelled, rows_of

SVM_CLASSIFIER, SVM_REGRESSOR = "ai.onnx.ml::SVMClassifier", "ai.onnx.ml::SVMRegressor"

MAX_DEGREE = 8
"""Maximum degree of a polynomial kernel, which is emitted as products."""


@rule(SVM_CLASSIFIER, SVM_REGRESSOR)
def plain_scores(node: Node) -> str | None:
    """post_transform must be NONE"""
    post = node.string("post_transform", "NONE")
    return None if post == "NONE" else f"got '{post}'; convert the model without it"


@operator(SVM_REGRESSOR)
def svm_regressor(node: Node, emitter: Emitter) -> Value:
    """
    Import SVMRegressor: a weighted sum over support vectors; with `one_class`, 1 for a positive
    sum, else -1.
    """
    count = node.integer("n_supports", 0)
    coefficients, rho = _list(node, "coefficients"), _list(node, "rho")
    # Without support vectors, the coefficients are a single vector.
    vectors = _list(node, "support_vectors") if count else coefficients
    if (count and coefficients.size != count) or rho.size != 1:
        raise node.wrong(f"{coefficients.size} coefficients and {rho.size} sums")
    factors = coefficients.reshape(1, -1) if count else np.ones((1, 1))
    with emitter.in_float():
        total = _sums(node, emitter, vectors, count or 1, factors, rho)
        if not node.flag("one_class"):
            return total
        above = emitter.compare(Compare.LESS, emitter.number(0), total)
        return emitter.select(above, emitter.number(1), emitter.number(-1))


@operator(SVM_CLASSIFIER)
def svm_classifier(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import SVMClassifier: the label with the most votes, and the scores. Scores are probabilities if
    the model has `prob_a` and `prob_b`, otherwise the sum for each pair of classes.
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
        raise node.wrong(f"{logistic[0].size} 'prob_a' and {logistic[1].size} 'prob_b'")
    # A pair sums the vectors of both classes, with the coefficients against the other class.
    offsets = np.cumsum([0, *counts])
    given, matrix = coefficients.reshape(classes - 1, every), np.zeros((len(pairs), every))
    for row, (i, j) in zip(matrix, pairs, strict=True):
        for own, other in ((i, j - 1), (j, i)):
            row[offsets[own] : offsets[own + 1]] = given[other, offsets[own] : offsets[own + 1]]
    with emitter.in_float():
        vectors = _list(node, "support_vectors")
        sums = _sums(node, emitter, vectors, every, matrix, rho)
        first = emitter.cast(emitter.compare(Compare.LESS, emitter.number(0), sums), f32)
        votes = np.zeros((classes, len(pairs)))
        for pair, (i, j) in enumerate(pairs):
            votes[i, pair], votes[j, pair] = 1, -1
        counted = _product(emitter, first, votes, np.maximum(-votes, 0).sum(1))
        scores: Value = sums
        if logistic[0].size:
            scores = coupled(emitter, sums, classes, *logistic)
        elif classes == 2:
            scores = emitter.joined([emitter.sub(emitter.number(0), sums), sums], 1)
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
    """
    Return, for each input row and each row of `factors`, the sum over support vectors of factor
    times kernel value, plus `bias`. `numbers` has the elements of `count` support vectors.
    """
    rows = rows_of(emitter)
    width = shape_of_value(rows)[1]
    if numbers.size != count * width:
        raise node.wrong(f"{numbers.size} numbers, expected {count} times {width}")
    vectors = numbers.reshape(count, width).astype(np.float64)
    gamma, offset, degree = (*(node.numbers("kernel_params") or ()), 0.0, 0.0, 0.0)[:3]
    match node.string("kernel_type", "LINEAR"):
        case "LINEAR":
            return _product(emitter, rows, factors.astype(np.float64) @ vectors, bias)
        case "RBF":
            # Center the vectors, because large squares would cancel.
            centre = vectors.mean(0)
            vectors -= centre
            rows = emitter.sub(rows, emitter.constant(centre.astype(np.float32), "centre"))
            squares = emitter.reduce(Reduce.SUM, emitter.mul(rows, rows), [1])
            near = _product(emitter, rows, 2 * gamma * vectors, -gamma * (vectors**2).sum(1))
            far = emitter.mul(squares, emitter.number(gamma))
            kernel = emitter.unary(Function.EXP, emitter.sub(near, far))
        case "SIGMOID":
            inner = _product(emitter, rows, gamma * vectors, np.full(count, offset))
            kernel = emitter.unary(Function.TANH, inner)
        case "POLY":
            if degree not in range(1, MAX_DEGREE + 1):
                raise node.unsupported(f"degree {degree:g}, expected 1 to {MAX_DEGREE}")
            inner = _product(emitter, rows, gamma * vectors, np.full(count, offset))
            kernel = inner
            for _ in range(int(degree) - 1):
                kernel = emitter.mul(kernel, inner)
        case kind:
            raise node.wrong(f"a kernel of type '{kind}'")
    return _product(emitter, kernel, factors, bias)


def _product(
    emitter: Emitter, rows: Value, matrix: NDArray[np.floating], bias: NDArray[np.floating] | None
) -> Value:
    weights = emitter.constant(matrix.astype(np.float32), "weights")
    added = None if bias is None else emitter.constant(bias.astype(np.float32), "bias")
    return emitter.product(rows, weights, added)


def _list(node: Node, name: str) -> NDArray[np.float32]:
    return np.array(node.numbers(name) or (), np.float32)


MAX_SWEEPS = 100
MAX_SWEEP_DIFFERENCE = 0.005
"""The difference for convergence of a row, times the number of classes."""
MIN_PAIR_PROBABILITY = 1e-7
"""Minimum probability of a class against another."""


def coupled(
    emitter: Emitter,
    sums: Value,
    classes: int,
    slopes: NDArray[np.float32],
    offsets: NDArray[np.float32],
) -> Value:
    """
    Return the probabilities of the classes, [rows, classes], from `sums`, one for each pair of
    classes (ordered as `itertools.combinations`). `slopes` and `offsets` define the logistic
    function of each pair. The module docstring has the algorithm.
    """
    rows = shape_of_value(sums)[0]
    scaled = emitter.mul(sums, emitter.constant(-slopes, "slopes"))
    logits = emitter.add(scaled, emitter.constant(-offsets, "offsets"))
    sigmoid = emitter.unary(Function.SIGMOID, logits)
    highest = float(np.float32(1) - np.float32(MIN_PAIR_PROBABILITY))
    sigmoid = emitter.unary(Function.CLIP, sigmoid, MIN_PAIR_PROBABILITY, highest)
    weights = _weights(emitter, sigmoid, classes)
    start = np.full((rows, classes), 1 / classes, np.float32)
    carried = [
        emitter.materialize(emitter.constant(array, name))
        for array, name in ((start, "even"), (np.ones((rows, 1), np.float32), "active"))
    ]

    def step(_: SSAValue, state: Sequence[SSAValue], __: Sequence[SSAValue]) -> list[Value]:
        before, active = state
        products, total, error = _distance(emitter, weights, before, classes)
        limit = emitter.number(MAX_SWEEP_DIFFERENCE / classes)
        far = emitter.compare(Compare.LESS_OR_EQUAL, limit, error)
        remaining = emitter.mul(active, emitter.cast(far, f32))
        is_active = emitter.compare(Compare.LESS, emitter.number(0), remaining)
        swept = _swept(emitter, weights, before, products, total, classes)
        after = emitter.select(is_active, swept, before)
        any_active = emitter.reduce(Reduce.MAX, remaining, [0])
        again = emitter.compare(Compare.LESS, emitter.number(0), any_active)
        return [emitter.reshaped(again, ()), after, remaining]

    body = outlined(emitter, carried, [], step)
    condition = emitter.materialize(emitter.constant(np.array(True), "going"))
    return emit_loop(emitter, body, MAX_SWEEPS, carried, condition=condition)[0]


def _weights(emitter: Emitter, first: Value, classes: int) -> Value:
    """
    Return the matrix `Q` [rows, classes, classes] of pairwise coupling (see the module docstring).
    `first` contains `r[i, j]` for all pairs with `i < j`.
    """
    pairs = list(combinations(range(classes), 2))
    second = emitter.sub(emitter.number(1), first)
    against = np.zeros((classes, 2 * len(pairs)), np.float32)
    for pair, (i, j) in enumerate(pairs):
        against[i, len(pairs) + pair] = against[j, pair] = 1
    squares = emitter.joined([emitter.mul(v, v) for v in (first, second)], 1)
    diagonal = emitter.product(squares, emitter.constant(against, "against"))
    other = emitter.mul(emitter.mul(first, second), emitter.number(-1))
    places = np.zeros((classes, classes), int)
    for pair, (i, j) in enumerate(pairs):
        places[i, j] = places[j, i] = pair
    np.fill_diagonal(places, len(pairs) + np.arange(classes))
    entries = emitter.gathered(emitter.joined([other, diagonal], 1), 1, places.reshape(-1).tolist())
    return emitter.reshaped(entries, (shape_of_value(first)[0], classes, classes))


def _distance(
    emitter: Emitter, weights: Value, given: Value, classes: int
) -> tuple[Value, Value, Value]:
    """
    Return `Q p` of each row, `p Q p`, and the largest difference between them. `weights` is `Q` and
    `given` is `p`.
    """
    rows = shape_of_value(given)[0]
    terms = emitter.mul(weights, emitter.reshaped(given, (rows, 1, classes)))
    products = emitter.reshaped(emitter.reduce(Reduce.SUM, terms, [2]), (rows, classes))
    total = emitter.reduce(Reduce.SUM, emitter.mul(given, products), [1])
    distance = emitter.unary(Function.ABS, emitter.sub(products, total))
    return products, total, emitter.reduce(Reduce.MAX, distance, [1])


def _swept(
    emitter: Emitter, weights: Value, given: Value, products: Value, total: Value, classes: int
) -> Value:
    """
    Return the probabilities `p` after a sweep of pairwise coupling, which updates and normalizes
    them for each class in turn.

    `weights` is `Q`, `given` is `p` before the sweep, `products` is `Q p`, and `total` is `p Q p`.
    """
    rows = shape_of_value(given)[0]
    for i in range(classes):
        row = emitter.reshaped(emitter.part(weights, 1, i, 1), (rows, classes))
        own, product = (emitter.part(v, 1, i, 1) for v in (row, products))
        more = emitter.div(emitter.sub(total, product), own)
        denominator = emitter.add(more, emitter.number(1))
        here = emitter.constant(np.eye(classes, dtype=np.float32)[i : i + 1], f"class{i}")
        given = emitter.div(emitter.add(given, emitter.mul(more, here)), denominator)
        rise = emitter.add(emitter.mul(more, own), emitter.mul(product, emitter.number(2)))
        total = emitter.add(total, emitter.mul(more, rise))
        total = emitter.div(emitter.div(total, denominator), denominator)
        products = emitter.div(emitter.add(products, emitter.mul(more, row)), denominator)
    return given
