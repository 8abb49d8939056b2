"""
Import mixtures of experts of ONNX Runtime.

Each expert is two dense layers, or three with a gate (`swiglu`). All experts compute all rows, and
a row is the sum of their results with weights, which are 0 except for the `k` experts with the
highest scores.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isnan, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Binary, Compare, Function, Reduce, SoftmaxOp, TopKOp
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

SWIGLU = "swiglu"
"""A function of two layers: `clamp(g) * sigmoid(alpha * clamp(g)) * (clamp(l) + beta)`."""

SEPARATE, INTERLEAVED, CONCATENATED = range(3)
"""The storage of both layers of `swiglu`: the third layer, every second row, or the second half."""

constant_operands({EXPERTS: [*range(2, 8)]}, "weights of experts are constants", DEFAULT_REMEDY)


@rule(EXPERTS)
def known_function(node: Node) -> str | None:
    """experts must have relu, gelu, silu, identity or swiglu, and only swiglu has a third layer"""
    kind = node.string("activation_type", "relu")
    has_third = any(map(node.has_input, range(6, len(node.inputs))))
    if kind == SWIGLU or (kind in FUNCTIONS and not has_third):
        return None
    return DEFAULT_REMEDY


@dataclass(frozen=True)
class _Layer:
    """
    A dense layer of all experts: weights [experts, outputs, inputs], biases [experts, outputs], and
    the name of its constants.
    """

    weights: NDArray[np.float32]
    biases: NDArray[np.float32] | None
    name: str

    def of(self, emitter: Emitter, expert: int, rows: Value) -> SSAValue:
        """
        Emit the layer of expert number `expert` for `rows` [N, inputs], and return [N, outputs].
        """
        bias = None if self.biases is None else self.biases[expert]
        added = None if bias is None else emitter.constant(bias, f"{self.name}_bias")
        matrix = emitter.constant(self.weights[expert], f"{self.name}_weights")
        return emitter.product(rows, matrix, added)

    def rows(self, chosen: slice, name: str) -> "_Layer":
        """Return a layer that has only the outputs `chosen`."""
        biases = None if self.biases is None else np.ascontiguousarray(self.biases[:, chosen])
        return _Layer(np.ascontiguousarray(self.weights[:, chosen]), biases, name)


@operator(EXPERTS)
def mixture_of_experts(node: Node, emitter: Emitter) -> Value:
    """
    Import MoE: `sum over experts e of g[e] * (f(x @ w1[e].T + b1[e]) @ w2[e].T +
    b2[e])`. `g` is the softmax of all scores or, with `normalize_routing_weights`, of the selected
    scores; it is 0 for experts that are not selected. The function `swiglu` has two layers in place
    of the first.
    """
    if node.flag("use_sparse_mixer"):
        raise node.unsupported(f"use_sparse_mixer=1; {DEFAULT_REMEDY}")
    shape, scores = emitter.shape(0), emitter.value(1)
    layers, function = _first_layers(node, emitter)
    second = _layer(node, emitter, 4, "fc2")
    width, (experts, hidden, _) = shape[-1], layers[0].weights.shape
    if second.weights.shape != (experts, width, hidden):
        raise node.wrong(
            f"weights of {list(layers[0].weights.shape)} and {list(second.weights.shape)}"
        )
    if layers[0].weights.shape[2] != width or shape_of_value(scores) != (
        prod(shape[:-1]),
        experts,
    ):
        raise node.wrong(
            f"input of {list(shape)} and scores of {list(shape_of_value(scores))} for "
            f"{experts} experts of {layers[0].weights.shape[2]} inputs"
        )
    shares = _shares(node, emitter, scores, experts)
    rows = emitter.reshaped(emitter.value(0), (prod(shape[:-1]), width))
    total: Value | None = None
    for expert in range(experts):
        inner = function([layer.of(emitter, expert, rows) for layer in layers])
        result = second.of(emitter, expert, inner)
        part = emitter.mul(result, emitter.part(shares, 1, expert, 1))
        total = part if total is None else emitter.add(total, part)
    assert total is not None
    return emitter.reshaped(total, shape)


def _layer(node: Node, emitter: Emitter, index: int, name: str) -> _Layer:
    weights = emitter.floats(index)
    biases = emitter.floats(index + 1) if node.has_input(index + 1) else None
    if weights.ndim != 3 or (biases is not None and biases.shape != weights.shape[:2]):
        shown = [] if biases is None else list(biases.shape)
        raise node.wrong(f"weights of {list(weights.shape)} and biases of {shown}")
    return _Layer(weights, biases, name)


def _first_layers(
    node: Node, emitter: Emitter
) -> tuple[Sequence[_Layer], Callable[[Sequence[SSAValue]], SSAValue]]:
    """
    Return the layers before the activation, and a function that computes the activation of their
    results.
    """
    kind, first = node.string("activation_type", "relu"), _layer(node, emitter, 2, "fc1")
    alpha, beta = node.number("activation_alpha", 1.0), node.number("activation_beta", 0.0)
    limit, fusion = node.bound("swiglu_limit", inf), node.integer("swiglu_fusion", SEPARATE)
    if kind != SWIGLU:
        plain = FUNCTIONS[kind]
        return [first], lambda r: r[0] if plain is None else emitter.unary(plain, r[0])
    layers = _gated_layers(node, emitter, first, fusion)
    if isnan(limit) or limit <= 0:
        raise node.wrong(f"attribute 'swiglu_limit' must be positive, got {limit}")

    def swiglu(results: Sequence[SSAValue]) -> SSAValue:
        gate, linear = results
        if limit < inf:
            gate = emitter.binary(Binary.MIN, gate, emitter.number(limit))
            linear = emitter.unary(Function.CLIP, linear, -limit, limit)
        scaled = gate if alpha == 1.0 else emitter.mul(gate, emitter.number(alpha))
        opened = emitter.mul(gate, emitter.unary(Function.SIGMOID, scaled))
        return emitter.mul(opened, emitter.add(linear, emitter.number(beta)) if beta else linear)

    return layers, swiglu


def _gated_layers(node: Node, emitter: Emitter, first: _Layer, fusion: int) -> Sequence[_Layer]:
    """
    Return the gate layer and the linear layer of `swiglu`. They are separate operands, or are
    interleaved or concatenated in `first`, as the attribute `fusion` states.
    """
    outputs = first.weights.shape[1]
    if fusion == SEPARATE and node.has_input(6):
        third = _layer(node, emitter, 6, "fc3")
        if third.weights.shape != first.weights.shape:
            raise node.wrong(
                f"weights of {list(first.weights.shape)} and {list(third.weights.shape)}"
            )
        return [first, third]
    if fusion not in (INTERLEAVED, CONCATENATED) or outputs % 2:
        raise node.wrong(f"attribute 'swiglu_fusion' is {fusion}, with {outputs} outputs of fc1")
    half = outputs // 2
    parts = slice(None, half), slice(half, None)
    if fusion == INTERLEAVED:
        parts = slice(0, None, 2), slice(1, None, 2)
    return [first.rows(part, name) for part, name in zip(parts, ("gate", "linear"), strict=True)]


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
