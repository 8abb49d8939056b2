"""
Probabilities of classes from those of their pairs, as support vector machines have them.

A logistic function of the sum of a pair says how probable its first class is against the second,
`r[i, j]`. Probabilities `p` of all classes make `p Q p` least, where `Q[i, i]` is the sum of the
squares of `r[j, i]`, and `Q[i, j] = -r[i, j] * r[j, i]` (Wu, Lin and Weng, Probability estimates
for multi-class classification by pairwise coupling, 2004). They are found by sweeps over the
classes, which end when `p` is near enough. That decides about the third digit of a row, so that
each row ends where it does in ONNX Runtime.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Compare, Function, MatmulOp, Reduce
from ceras_ir.frontends.onnx.calls import emit_loop, outlined
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.values import Value

MAX_SWEEPS = 100
NEAR = 0.005
"""Over the number of classes: which difference ends the sweeps of a row."""
LEAST = 1e-7
"""Probability of a class against another."""


def coupled(
    emitter: Emitter,
    sums: Value,
    classes: int,
    slopes: NDArray[np.float32],
    offsets: NDArray[np.float32],
) -> Value:
    """Probabilities [rows, classes] from the sums of all pairs, in the order of `combinations`."""
    compose, rows = Composer(emitter), shape_of_value(sums)[0]
    scaled = compose.mul(sums, emitter.constant(-slopes, "slopes"))
    logits = compose.add(scaled, emitter.constant(-offsets, "offsets"))
    sigmoid = compose.unary(Function.SIGMOID, logits)
    highest = float(np.float32(1) - np.float32(LEAST))
    weights = _weights(compose, compose.unary(Function.CLIP, sigmoid, LEAST, highest), classes)
    start = np.full((rows, classes), 1 / classes, np.float32)
    carried = [
        emitter.materialize(emitter.constant(array, name))
        for array, name in ((start, "even"), (np.ones((rows, 1), np.float32), "active"))
    ]

    def step(_: SSAValue, state: Sequence[SSAValue], __: Sequence[SSAValue]) -> list[Value]:
        before, active = state
        products, total, error = _distance(compose, weights, before, classes)
        far = compose.compare(Compare.LESS_OR_EQUAL, compose.number(NEAR / classes), error)
        still = compose.mul(active, compose.cast(far, f32))
        is_active = compose.compare(Compare.LESS, compose.number(0), still)
        after = compose.select(
            is_active, _swept(compose, weights, before, products, total, classes), before
        )
        any_active = compose.reduce(Reduce.MAX, still, [0])
        again = compose.compare(Compare.LESS, compose.number(0), any_active)
        return [emitter.reshaped(again, ()), after, still]

    body = outlined(emitter, carried, [], step)
    going = emitter.materialize(emitter.constant(np.array(True), "going"))
    return emit_loop(emitter, body, MAX_SWEEPS, carried, going=going)[0]


def _weights(compose: Composer, first: Value, classes: int) -> Value:
    """`Q` of every row, [rows, classes, classes], from the `r[i, j]` of all pairs with `i < j`."""
    emitter, pairs = compose.emitter, list(combinations(range(classes), 2))
    second = compose.sub(compose.number(1), first)
    against = np.zeros((classes, 2 * len(pairs)), np.float32)
    for pair, (i, j) in enumerate(pairs):
        against[i, len(pairs) + pair] = against[j, pair] = 1
    squares = compose.joined([compose.mul(v, v) for v in (first, second)], 1)
    diagonal = emitter.emit(
        MatmulOp(
            emitter.materialize(squares),
            emitter.materialize(emitter.constant(against, "against")),
            result_element=f32,
        )
    )
    other = compose.mul(compose.mul(first, second), compose.number(-1))
    places = np.zeros((classes, classes), int)
    for pair, (i, j) in enumerate(pairs):
        places[i, j] = places[j, i] = pair
    np.fill_diagonal(places, len(pairs) + np.arange(classes))
    entries = compose.gathered(compose.joined([other, diagonal], 1), 1, places.reshape(-1).tolist())
    return emitter.reshaped(entries, (shape_of_value(first)[0], classes, classes))


def _distance(
    compose: Composer, weights: Value, given: Value, classes: int
) -> tuple[Value, Value, Value]:
    """`Q p` of every row, `p Q p`, and the largest difference between them."""
    emitter, rows = compose.emitter, shape_of_value(given)[0]
    terms = compose.mul(weights, emitter.reshaped(given, (rows, 1, classes)))
    products = emitter.reshaped(compose.reduce(Reduce.SUM, terms, [2]), (rows, classes))
    total = compose.reduce(Reduce.SUM, compose.mul(given, products), [1])
    away = compose.unary(Function.ABS, compose.sub(products, total))
    return products, total, compose.reduce(Reduce.MAX, away, [1])


def _swept(
    compose: Composer, weights: Value, given: Value, products: Value, total: Value, classes: int
) -> Value:
    """`p` after each class in turn was given what is best for it, and all were scaled to 1."""
    emitter, rows = compose.emitter, shape_of_value(given)[0]
    for i in range(classes):
        row = emitter.reshaped(compose.part(weights, 1, i, 1), (rows, classes))
        own, product = (compose.part(v, 1, i, 1) for v in (row, products))
        more = compose.div(compose.sub(total, product), own)
        whole = compose.add(more, compose.number(1))
        here = emitter.constant(np.eye(classes, dtype=np.float32)[i : i + 1], f"class{i}")
        given = compose.div(compose.add(given, compose.mul(more, here)), whole)
        rise = compose.add(compose.mul(more, own), compose.mul(product, compose.number(2)))
        total = compose.add(total, compose.mul(more, rise))
        total = compose.div(compose.div(total, whole), whole)
        products = compose.div(compose.add(products, compose.mul(more, row)), whole)
    return given
