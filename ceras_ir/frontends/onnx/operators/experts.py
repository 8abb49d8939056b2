"""
Import mixtures of experts of ONNX Runtime.

Each expert is two dense layers. All experts compute all rows, and a row is the sum of their results
with weights, which are 0 except for the `k` experts with the highest scores.
"""

from math import prod

import numpy as np

from ceras_ir.dialects.graph import Compare, Function, Reduce, SoftmaxOp, TopKOp
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import (
    DEFAULT_REMEDY,
    MICROSOFT,
    constant_operands,
    operator,
    rule,
)
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node

EXPERTS = f"{MICROSOFT}MoE"

FUNCTIONS = {
    "relu": Function.RELU,
    "gelu": Function.GELU_TANH,
    "silu": Function.SWISH,
    "identity": None,
}
"""The functions between the layers of an expert. ONNX Runtime approximates GELU by tanh."""

constant_operands({EXPERTS: [2, 3, 4, 5]}, "weights of experts are constants", DEFAULT_REMEDY)


@rule(EXPERTS)
def plain_experts(node: Node) -> str | None:
    """experts have two layers with relu, gelu, silu or identity between them"""
    kind = node.string("activation_type", "relu")
    if kind in FUNCTIONS and not any(map(node.has_input, range(6, len(node.inputs)))):
        return None
    return DEFAULT_REMEDY


@operator(EXPERTS)
def mixture_of_experts(node: Node, emitter: Emitter) -> Value:
    """
    Import MoE: `sum over experts e of g[e] * (f(x @ w1[e].T + b1[e]) @ w2[e].T +
    b2[e])`. `g` is the softmax of all scores or, with `normalize_routing_weights`, of the selected
    scores; it is 0 for experts that are not selected.
    """
    # The other parameters of functions and of their fusion apply to swiglu only.
    node.ignore("activation_alpha", "activation_beta", "swiglu_fusion", "swiglu_limit")
    if node.flag("use_sparse_mixer"):
        raise node.unsupported(f"use_sparse_mixer=1; {DEFAULT_REMEDY}")
    shape, scores = emitter.shape(0), emitter.value(1)
    first, second = emitter.floats(2), emitter.floats(4)
    biases = [emitter.optional_array(i) for i in (3, 5)]
    width = shape[-1]
    if first.ndim != 3 or second.shape != (len(first), width, first.shape[1]):
        raise node.wrong(f"weights of {list(first.shape)} and {list(second.shape)}")
    if first.shape[2] != width or shape_of_value(scores) != (prod(shape[:-1]), len(first)):
        raise node.wrong(
            f"input of {list(shape)} and scores of {list(shape_of_value(scores))} for "
            f"{len(first)} experts of {first.shape[2]} inputs"
        )
    shares = _shares(node, emitter, scores, len(first))
    rows = emitter.reshaped(emitter.value(0), (prod(shape[:-1]), width))
    function = FUNCTIONS[node.string("activation_type", "relu")]
    total: Value | None = None
    for expert in range(len(first)):
        result: Value = rows
        for name, weights, bias in zip(("fc1", "fc2"), (first, second), biases, strict=True):
            added = None if bias is None else emitter.constant(bias[expert], f"{name}_bias")
            matrix = emitter.constant(weights[expert], f"{name}_weights")
            result = emitter.product(result, matrix, added)
            if name == "fc1" and function is not None:
                result = emitter.unary(function, result)
        part = emitter.mul(result, emitter.part(shares, 1, expert, 1))
        total = part if total is None else emitter.add(total, part)
    assert total is not None
    return emitter.reshaped(total, shape)


def _shares(node: Node, emitter: Emitter, scores: Value, experts: int) -> Value:
    """
    Return the weight of each expert for each row, [rows, experts], from `scores`. It is 0 for
    experts that are not among the `k` best.
    """
    count = node.integer("k", 1)
    if not 1 <= count <= experts:
        raise node.wrong(f"attribute 'k' must be in [1, {experts}], got {count}")
    rows = shape_of_value(scores)[0]
    # Of equal scores, ONNX Runtime selects the last.
    turned = emitter.materialize(emitter.reversed(scores, 1))
    best = emitter.emit(TopKOp(Reduce.MAX, turned, count))
    numbers = emitter.constant(np.arange(experts, dtype=np.int64)[::-1].copy(), "experts")
    hits = emitter.compare(Compare.EQUAL, emitter.reshaped(best, (rows, count, 1)), numbers)
    ones = emitter.select(hits, emitter.number(1.0), emitter.number(0.0))
    mask = emitter.reshaped(emitter.reduce(Reduce.SUM, ones, [1]), (rows, experts))
    shares = emitter.mul(emitter.emit(SoftmaxOp(emitter.materialize(scores), 1)), mask)
    if not node.flag("normalize_routing_weights"):
        return shares
    return emitter.div(shares, emitter.reduce(Reduce.SUM, shares, [1]))
