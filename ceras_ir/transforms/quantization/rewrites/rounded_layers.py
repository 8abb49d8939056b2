"""Write what data says about rounding back into the weights of layers, and their biases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from hashlib import sha256

import numpy as np

from ceras_ir.dialects import graph
from ceras_ir.network.storage import row_exponents, weight_exponent
from ceras_ir.transforms.quantization.analysis.accumulator_bounds import holds
from ceras_ir.transforms.quantization.analysis.input_moments import InputMoments
from ceras_ir.transforms.quantization.analysis.rounded_weights import (
    Real,
    compensated,
    nearest,
)
from ceras_ir.transforms.quantization.analysis.scale_classes import value_exponent
from ceras_ir.transforms.rebuilding import replace_constant

AT_ONCE = 1 << 20
"""About how many products of pairs are looked at at once, several times in double precision."""


def _by_group(moments: InputMoments) -> Real:
    """The weights as [groups, outputs of the group, K]."""
    weights = graph.known_array(moments.op.weights)
    return weights.astype(np.float64).reshape(moments.groups, len(weights) // moments.groups, -1)


def _exponent(op: graph.LinearOperation) -> int:
    chosen = weight_exponent(op)
    assert chosen is not None
    return chosen


def steps_by_row(op: graph.LinearOperation) -> Real:
    """The steps of the weights as [outputs, 1]."""
    rows = np.array(row_exponents(op) or (0,) * graph.shape_of(op.weights)[0])
    return np.exp2(rows + float(_exponent(op)))[:, None]


def _steps(moments: InputMoments) -> Real:
    """The steps of the weights as [groups, outputs of the group, 1]."""
    return steps_by_row(moments.op).reshape(moments.groups, -1, 1)


def with_equal_weights(
    layers: Iterable[graph.LinearOperation],
) -> list[list[graph.LinearOperation]]:
    """
    Layers in groups with equal weights in equal steps, as the steps of a loop and what shares
    weights otherwise: rounded together they stay equal, and are stored once.
    """
    groups: defaultdict[Hashable, list[graph.LinearOperation]] = defaultdict(list)
    for op in layers:
        weights = graph.known_array(op.weights)
        count = op.group_count if isinstance(op, graph.Conv2dOp) else 1
        digests = (sha256(a.tobytes()).digest() for a in (weights, steps_by_row(op)))
        groups[op.name, weights.shape, count, *digests].append(op)
    return list(groups.values())


def round_weights(moments: InputMoments) -> None:
    """
    Replace the weights by rounded ones that change the outputs least. Where the layer has a bias,
    that takes up what the outputs change by on average, and deviations from it count.
    """
    layers = moments.op, *moments.others
    weights, bias = _by_group(moments), _biases(layers)
    steps = _steps(moments)
    rounded, change = nearest(weights, steps), np.zeros(())
    if moments.are_finite:
        parts, by_part = moments.by_part(weights), np.repeat(steps, moments.parts, axis=0)
        rounded_parts, step = np.empty_like(parts), max(1, AT_ONCE // parts.shape[2] ** 2)
        for few in (slice(i, i + step) for i in range(0, len(parts), step)):
            rounded_parts[few] = compensated(
                parts[few], moments.products(few, centred=bias is not None), by_part[few]
            )
        rounded = moments.joined(rounded_parts)
        change = np.einsum("gok,gk->go", rounded - weights, moments.mean).reshape(-1)
    _replace(layers, rounded, None if bias is None else [old - change for old in bias])
    if not all(holds(each, value_exponent) for each in layers):
        # Weights that were moved by more than a half may make larger sums than foreseen.
        _replace(layers, nearest(weights, steps), bias)


def _biases(layers: Sequence[graph.LinearOperation]) -> list[Real] | None:
    """The biases of layers if all have one."""
    found = [graph.known_array(op.bias).astype(np.float64) for op in layers if op.bias is not None]
    return found if len(found) == len(layers) else None


def _replace(
    layers: Sequence[graph.LinearOperation],
    weights: Real,
    biases: Sequence[Real] | None,
) -> None:
    for i, op in enumerate(layers):
        shape = graph.shape_of(op.weights)
        replace_constant(op, op.weights, weights.reshape(shape).astype(np.float32))
        if biases is not None and op.bias is not None:
            replace_constant(op, op.bias, biases[i].astype(np.float32))
