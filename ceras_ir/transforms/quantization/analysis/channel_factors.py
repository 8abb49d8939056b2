"""
Powers of two for channels: which ones let one scale per tensor serve all its channels best.

Channel c of a value is stored as `x * 2**-e[c]`. Finer is better for everything, until the
channel's values or its row of weights no longer fit the scale of its tensor. So per layer
one number is left to choose, how fine the weights are; it is the one with the least
noise behind the next layer, by the usual model of rounding as uniform noise.
"""

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import stored_in_integers, values_after_layers
from ceras_ir.transforms.quantization.analysis.function_forms import finer_bits, form_of, separates
from ceras_ir.transforms.quantization.analysis.observers import Seen
from ceras_ir.transforms.quantization.analysis.scale_classes import (
    ChannelSlots,
    absorbs,
    is_channel_scale,
)
from ceras_ir.transforms.rebuilding import spread_columns

Vector = NDArray[np.float64]

SPREAD = 8
"""Octaves that channels of one value may be apart."""
FEATURE_SPREAD = 24
"""The same of inputs, which may be features in units of their own."""
FEATURE_GAIN = 3
"""Octaves from which channels of inputs are raised. Nearer ones may be so by chance, and other
samples would be clipped."""
HEADROOM = 1
"""Bits that a channel keeps free when it is raised: what calibration saw little of, other data may
hold more of. Those are added by which two halves of the samples disagree, on it or on others."""
EXACT = 1
"""Bits that one unit of a sum is at least finer than a step of the result: a zero point may halve
the step."""
SWEEPS = 3
"""How often all layers are looked at: residuals make one slot of several producers."""
CANDIDATES = 12
"""How many scales of the weights are tried in each layer."""
LARGEST = float(np.finfo(np.float32).max)
"""The mean square of what is so large that squares overflow."""
NEVER = -1000.0
"""The exponent of what is always zero."""


class ChannelStatistics:
    """What was seen of the channels of one value."""

    def __init__(self, channels: int):
        self.peaks: Vector = np.zeros((2, channels))
        """Largest magnitude, in every other sample and in those between."""
        self.power: Vector = np.zeros(channels)
        """Mean square, if anybody asks for it."""
        self.count = 0
        """Of samples."""

    @property
    def halves(self) -> Vector:
        """`peaks`, where one sample alone stands for both halves."""
        return self.peaks if self.count > 1 else self.peaks[[0, 0]]

    def see(self, seen: Seen, *, powers: bool) -> None:
        half = self.peaks[self.count % 2]
        np.maximum(half, seen.channel_peaks, out=half)
        self.count += 1
        if not powers:
            return
        rows = seen.whole.reshape(-1, len(self.power))
        power = np.minimum(np.einsum("ij,ij->j", rows, rows) / len(rows), LARGEST)
        self.power = self.power + (power - self.power) / self.count


def fitting_exponents(magnitudes: Vector) -> Vector:
    """`fitting_exponent` of each; `NEVER` for zero."""
    mantissa, exponent = np.frexp(magnitudes)
    fits = exponent - 7.0 + (mantissa >= 127.5 / 128)
    return np.where(magnitudes > 0, fits, NEVER)


class ChannelFactors:
    """Chooses exponents for all slots of a network."""

    def __init__(
        self, main: FuncOp, slots: ChannelSlots, statistics: dict[SSAValue, ChannelStatistics]
    ):
        self.main, self.slots, self.statistics = main, slots, statistics
        count = len(self.slots)
        halves, offset = np.zeros((2, count)), np.full(count, NEVER)
        # What only floats make and read has no scale that it could share.
        stored = list(filter(stored_in_integers(main), self.statistics))
        for value in stored:
            seen = self.statistics[value].halves
            for half, found in zip(halves, seen, strict=True):
                np.maximum.at(half, self.slots[value], found * 2.0 ** -_spare_bits(value))
        peak = halves.max(axis=0)
        changed = True
        while changed:
            before = offset.copy()
            for value in stored:
                ids = self.slots[value]
                largest = max(fitting_exponents(peak[ids]).max(), offset[ids].max())
                np.maximum.at(offset, ids, largest)
            changed = bool((offset != before).any())
        self.offset = offset
        with np.errstate(divide="ignore"):
            bounded = np.where(
                np.isfinite(self.slots.cap), np.ceil(np.log2(peak / self.slots.cap)), NEVER
            )
        seen = np.maximum(fitting_exponents(peak) - offset, bounded)
        apart = _disagreement(halves)
        own = seen + HEADROOM + np.maximum(np.rint(apart), self._shared(apart))
        features = self._features()
        own = np.where(features & (own > -FEATURE_GAIN), 0.0, own)
        own = np.maximum(own, np.where(features, -FEATURE_SPREAD, -SPREAD))
        self.least = np.where(self.slots.pinned, 0.0, np.minimum(own, 0.0))
        self.fixed = self.slots.pinned | np.isfinite(self.slots.cap)
        self.exponents = self.least.copy()
        self.layers = [
            op
            for op in self.main.body.block.ops
            if isinstance(op, graph.LinearOperation) and absorbs(op)
        ]
        self.sensitivity = self._sensitivity()

    def choose(self, *, rows: bool = False) -> Vector:
        """
        The exponents, by slot; with `rows`, where every row of weights has a scale of its own, as
        fine as what was seen of a channel allows, because weights ask for nothing then.
        """
        if rows:
            self._bound_by_sums()
            return self.exponents
        needs: dict[Operation, Vector] = {}
        for _ in range(SWEEPS):
            for op in self.layers:
                needs[op] = self._need(op)
                ids = self.slots[op.result]
                raised = self.least.copy()
                for other, need in needs.items():
                    np.maximum.at(raised, self.slots[other.results[0]], need)
                self.exponents[ids] = np.where(self.slots.pinned[ids], 0.0, raised[ids])
        return self.exponents

    def _bound_by_sums(self) -> None:
        """
        Raise no channel further than until its sums of products are exact in half a step of the
        result. Weights that are raised on make one unit of the sum larger than a step, and the
        whole result would have to take that as its step.
        """
        changed = True
        while changed:
            before = self.exponents.copy()
            for op in self.layers:
                inputs, ids = self.slots[op.input], self.slots[op.result]
                weights = np.abs(_weights(op)) * np.exp2(spread_columns(op, self.exponents[inputs]))
                units = fitting_exponents(weights.reshape(len(weights), -1).max(axis=1))
                units = units + self.offset[inputs].max() - self.offset[ids].max()
                bounds = np.minimum(units + EXACT, 0.0)
                free = ~self.slots.pinned[ids]
                np.maximum.at(self.exponents, ids[free], bounds[free])
            changed = bool((self.exponents != before).any())

    def _shared(self, apart: Vector) -> Vector:
        """
        Bits that all channels of a value keep free, because halves of few samples agree on some
        of them by chance: twice the root mean square of what they are apart by.
        """
        bits = np.zeros(len(self.slots))
        for value in self.statistics:
            ids = self.slots[value]
            seen = apart[ids][apart[ids] < -NEVER]
            np.maximum.at(bits, ids, np.floor(2 * np.sqrt(np.mean(seen**2))) if len(seen) else 0.0)
        return bits

    def _features(self) -> NDArray[np.bool_]:
        """The slots that multiplications by constants make of inputs, without a layer between."""
        found, behind = np.zeros(len(self.slots), np.bool_), values_after_layers(self.main)
        for op in self.main.body.block.ops:
            if is_channel_scale(op) and op.result not in behind:
                found[self.slots[op.result]] = True
        return found

    def _sensitivity(self) -> Vector:
        """How much noise power behind the readers one unit in a slot makes."""
        total = np.zeros(len(self.slots))
        for op in self.layers:
            squares = np.square(_weights(op))
            ids = self.slots[op.input]
            if isinstance(op, graph.Conv2dOp):
                groups = op.group_count
                shape = (groups, squares.shape[0] // groups, -1, squares.shape[3])
                per_channel = squares.reshape(shape).sum(axis=(1, 2)).reshape(-1)
            else:
                per_channel = squares.sum(axis=0)
            np.add.at(total, ids, per_channel)
        for op in reversed(list(self.main.body.block.ops)):
            # Functions have slopes of about one, or less.
            if (isinstance(op, graph.UnaryOp) and separates(op)) or is_channel_scale(op):
                np.add.at(total, self.slots[op.operands[0]], total[self.slots[op.results[0]]])
        return total

    def _need(self, op: graph.LinearOperation) -> Vector:
        """The exponents that the result's channels need for this layer's weights to be stored."""
        inputs, ids = self.slots[op.input], self.slots[op.result]
        columns = spread_columns(op, self.exponents[inputs])
        weights = np.abs(_weights(op)) * np.exp2(columns)
        rows = fitting_exponents(weights.reshape(len(weights), -1).max(axis=1))
        least, fixed = self.least[ids], self.fixed[ids]
        power = self.statistics[op.input].power * np.exp2(-2 * self.exponents[inputs])
        taps = int(np.prod(weights.shape[1:-1]))
        arriving = np.broadcast_to(spread_columns(op, power), (len(weights), *weights.shape[1:]))
        arriving = arriving.reshape(len(weights), taps, -1)[:, 0].sum(axis=1) * taps
        weight = self.sensitivity[ids]
        weight = weight if weight.any() else np.ones_like(weight)
        # A channel that cannot be made coarser must find room for its weights.
        floor = float(np.where(fixed, rows, NEVER).max(initial=NEVER))
        live = rows > NEVER
        if not live.any():
            return least
        coarsest = float((rows - least)[live].max())
        best, chosen = np.inf, least
        for step in range(CANDIDATES):
            scale = max(coarsest - step, floor)
            exponents = np.where(live, np.maximum(least, rows - scale), least)
            exponents = np.where(fixed, np.minimum(exponents, 0.0), exponents)
            noise = (
                np.exp2(2 * (self.offset[ids] + exponents))
                + np.exp2(2 * (scale + exponents)) * arriving
            )
            total = float((weight * noise)[live].sum())
            if total < best:
                best, chosen = total, exponents
        return chosen


def _disagreement(halves: Vector) -> Vector:
    """
    By how many bits the peaks of two halves of the samples are apart. Channels that only one half
    saw, or none, are so by all bits: the network may need what no sample showed.
    """
    least, most = halves.min(axis=0), halves.max(axis=0)
    seen = least > 0
    ratio = np.divide(most, least, out=np.ones_like(most), where=seen)
    return np.where(seen, np.log2(ratio), -NEVER)


def _spare_bits(value: SSAValue) -> int:
    """How many bits more than int8 has a value is stored in: the argument of a function."""
    return max((finer_bits(form_of(use.operation)) for use in value.uses), default=0)


def _weights(op: graph.LinearOperation) -> Vector:
    weights = graph.known_array(op.weights)
    return weights.astype(np.float64)
