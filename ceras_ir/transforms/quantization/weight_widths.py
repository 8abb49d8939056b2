"""
Choose the widths of weights within a limit of bytes, so that rounding adds minimum noise.

A backward pass estimates, for each layer and width, the noise that rounding the weights to the
nearest integer adds to the outputs. The noise of layers adds up. The widths with the minimum sum
are a knapsack problem, which is solved exactly in units of bytes. The result is measured on other
samples, and compared with equal widths of all layers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
from ceras_ir.network.function import main_function
from ceras_ir.network.integer import row_exponents_within, scales_of_parts
from ceras_ir.targets.protocol import ROW_SPREAD
from ceras_ir.transforms.quantization.analysis.sensitivity import (
    Sample,
    SensitivityMeter,
    noise_at_outputs,
)
from ceras_ir.transforms.quantization.round_weights import round_to_nearest
from ceras_ir.transforms.rebuilding import replace_constant

Floats = NDArray[np.float32]

MAX_UNITS = 1 << 14
"""The number of units into which the knapsack divides the limit."""


@dataclass
class WeightGroup:
    """Layers with equal constant weights, which are stored a single time in a common width."""

    layers: list[graph.LinearOperation]
    widths: Sequence[int]
    """The widths that may be chosen, in ascending order."""
    noise: dict[int, float] = field(default_factory=dict[int, float])
    """The estimated noise-to-signal ratio at the outputs by width."""

    def bytes_of(self, bits: int) -> int:
        """Return the bytes of the weights in `bits` bits, packed."""
        element = UniformType(1.0, storage=IntegerType(bits))
        return element.packed_bytes(graph.shape_of(self.layers[0].weights))


def grouped(
    layers: Iterable[graph.LinearOperation],
    fixed: Mapping[graph.LinearOperation, int],
    widths: Sequence[int],
) -> list[WeightGroup]:
    """
    Divide `layers` into groups with equal weights. Layers in `fixed` keep the given width; the
    other layers may have any of `widths`.
    """
    found: defaultdict[SSAValue, list[graph.LinearOperation]] = defaultdict(list)
    for op in layers:
        found[op.weights].append(op)
    groups: list[WeightGroup] = []
    for members in found.values():
        given = [fixed[op] for op in members if op in fixed]
        groups.append(WeightGroup(members, given[-1:] or widths))
    return groups


def rounded_weights(weights: Floats, bits: int, parts: int) -> Floats:
    """
    Round weights, of which the first axis is the output channels, to integers of `bits` bits times
    the scale of the channel with the minimum squared error, of `parts` scales per octave.
    """
    rows = weights.reshape(len(weights), -1)
    exponents = row_exponents_within(rows, ROW_SPREAD, bits, parts)
    if exponents is None:
        return weights
    steps = scales_of_parts(np.array(exponents), parts)[:, None]
    return (
        round_to_nearest(rows.astype(np.float64), steps, bits)
        .reshape(weights.shape)
        .astype(np.float32)
    )


def estimate_noise(
    module: ModuleOp, samples: Sequence[Sample], groups: Iterable[WeightGroup], parts: int
) -> None:
    """
    Estimate the noise of each group at the outputs, for each width, as a mean over `samples`. Each
    octave has `parts` scales.
    """
    meter = SensitivityMeter(module, samples)
    of_result = {op.output: (op, group) for group in groups for op in group.layers}
    for _, group in of_result.values():
        group.noise = dict.fromkeys(group.widths, 0.0)

    @cache
    def weights_of(value: SSAValue, bits: int) -> Floats:
        return rounded_weights(graph.known_array(value).astype(np.float32), bits, parts)

    for sample in samples:
        for value, known, gradient in meter.weigh(sample):
            if value not in of_result:
                continue
            op, group = of_result[value]
            for bits in group.widths:
                operands = tuple(
                    weights_of(v, bits) if v is op.weights else known[v] for v in op.operands
                )
                error = meter.interpreter.run_op(op, operands)[0] - known[value]
                group.noise[bits] += noise_at_outputs(gradient, error) / len(samples)


def least_noise(groups: Sequence[WeightGroup], limit: int) -> list[int]:
    """
    Return the width of each group with the minimum sum of noise, for which the weights have at most
    `limit` bytes. If no widths fit, return the smallest. The sizes of groups are rounded up
    to units, of which the limit has at most `MAX_UNITS`.
    """
    unit = max(-(-limit // MAX_UNITS), 1)
    capacity = max(limit, 0) // unit
    best: NDArray[np.float64] = np.zeros(capacity + 1)
    chosen: list[NDArray[np.int64]] = []
    for group in groups:
        total, widths = np.full(capacity + 1, inf), np.zeros(capacity + 1, np.int64)
        # The widest is first, so that it remains if the noise is equal.
        for bits in reversed(group.widths):
            cost = -(-group.bytes_of(bits) // unit)
            if cost > capacity:
                continue
            sums = best[: capacity + 1 - cost] + group.noise[bits]
            better = sums < total[cost:]
            total[cost:][better], widths[cost:][better] = sums[better], bits
        best = total
        chosen.append(widths)
    if best[capacity] == inf:
        return [min(group.widths) for group in groups]
    found, left = list[int](), capacity
    for group, widths in zip(reversed(groups), reversed(chosen), strict=True):
        found.append(int(widths[left]))
        left -= -(-group.bytes_of(found[-1]) // unit)
    return found[::-1]


def equal_widths(groups: Sequence[WeightGroup], limit: int) -> list[int] | None:
    """
    Return the largest width that all groups can have (or their smallest above it), for which the
    weights have at most `limit` bytes; `None` if no width fits.
    """
    for bits in range(BYTE_BITS, 0, -1):
        found = [max((w for w in g.widths if w <= bits), default=min(g.widths)) for g in groups]
        if sum(g.bytes_of(w) for g, w in zip(groups, found, strict=True)) <= limit:
            return found
    return None


def measured_ratios(
    module: ModuleOp,
    samples: Sequence[Sample],
    groups: Sequence[WeightGroup],
    choices: Sequence[Sequence[int]],
    parts: int,
) -> list[float]:
    """
    Return, for each of `choices` (a width per group), the signal-to-noise ratio of the outputs in
    dB on `samples` with rounded weights, see `SensitivityMeter`.
    """
    reference = SensitivityMeter(module, samples)
    numbers = {op: i for i, op in enumerate(main_function(module).body.block.ops)}
    found: list[float] = []
    for choice in choices:
        # The operations of a copy are in the same order.
        copy = module.clone()
        ops = list(main_function(copy).body.block.ops)
        for group, bits in zip(groups, choice, strict=True):
            for layer in group.layers:
                op = ops[numbers[layer]]
                assert isinstance(op, graph.LinearOperation)
                weights = graph.known_array(op.weights).astype(np.float32)
                replace_constant(op, op.weights, rounded_weights(weights, bits, parts))
        found.append(reference.ratio_of(SensitivityMeter(copy, samples)))
    return found
