"""
Choose powers of two for channels, so that a scale per tensor represents all channels well.

Channel c of a value is stored as `x * 2**-e[c]`. Finer is better, until the values of the channel
or the corresponding weights no longer fit the scale of the tensor. This leaves a single choice for
each layer, the scale of the weights. The chosen scale has the least noise after the next layer,
with rounding modelled as uniform noise.
"""

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import stored_in_integers, values_after_layers
from ceras_ir.transforms.quantization.analysis.function_forms import finer_bits, form_of, separates
from ceras_ir.transforms.quantization.analysis.observers import ObservedArray
from ceras_ir.transforms.quantization.analysis.scale_classes import (
    ChannelSlots,
    absorbs,
    is_channel_scale,
)
from ceras_ir.transforms.rebuilding import spread_columns

Vector = NDArray[np.float64]

MAX_SPREAD_OCTAVES = 8
"""The maximum octaves between the channels of a value."""
MAX_FEATURE_SPREAD_OCTAVES = 24
"""The maximum octaves between the channels of an input with several units."""
MIN_FEATURE_GAIN_OCTAVES = 3
"""The minimum octaves by which channels of inputs are raised, because a few samples are inexact."""
CHANNEL_HEADROOM_BITS = 1
"""
The unused bits of a raised channel, because other data may have a larger range. The bits by which
two halves of the samples disagree, on the channel or on other channels, are added.
"""
MIN_SUM_BITS = 1
"""The minimum bits by which a sum is finer than the result. A zero point uses one of them."""
SWEEPS = 3
"""
The number of iterations over all layers. With residual connections a slot has several producers.
"""
SCALE_CANDIDATES = 12
"""The number of weight scales that are compared for each layer."""
MAX_MEAN_SQUARE = float(np.finfo(np.float32).max)
"""A substitute for the mean square of values with infinite squares."""
ZERO_EXPONENT = -1000.0
"""The exponent of a channel that is always zero."""


class ChannelStatistics:
    """The largest magnitude and the mean square of each channel of a value over samples."""

    def __init__(self, channels: int):
        self.peaks: Vector = np.zeros((2, channels))
        """The largest magnitudes in the even and in the odd samples."""
        self.power: Vector = np.zeros(channels)
        """The mean square, if it is requested."""
        self.count = 0

    @property
    def halves(self) -> Vector:
        """
        The largest magnitude of each channel in each half of the samples, [2, channels]. A
        difference between the halves shows that the samples are not representative. A single sample
        counts for both halves.
        """
        return self.peaks if self.count > 1 else self.peaks[[0, 0]]

    def add(self, array: ObservedArray, *, powers: bool) -> None:
        half = self.peaks[self.count % 2]
        np.maximum(half, array.channel_peaks, out=half)
        self.count += 1
        if not powers:
            return
        rows = array.clipped.reshape(-1, len(self.power))
        power = np.minimum(np.einsum("ij,ij->j", rows, rows) / len(rows), MAX_MEAN_SQUARE)
        self.power = self.power + (power - self.power) / self.count


def fitting_exponents(magnitudes: Vector) -> Vector:
    """
    Return, for each magnitude, the smallest exponent e of a scale 2^e with which int8 can store it.
    It is `ZERO_EXPONENT` for a magnitude of 0.
    """
    mantissa, exponent = np.frexp(magnitudes)
    fits = exponent - 7.0 + (mantissa >= 127.5 / 128)
    return np.where(magnitudes > 0, fits, ZERO_EXPONENT)


class ChannelFactors:
    """
    Chooses the exponent of the factor 2^e of each slot of a network. A slot is a set of channels
    that must have the same factor (see `ChannelSlots`).
    """

    def __init__(
        self, main: FuncOp, slots: ChannelSlots, statistics: dict[SSAValue, ChannelStatistics]
    ):
        self.main, self.slots, self.statistics = main, slots, statistics
        count = len(self.slots)
        halves, offset = np.zeros((2, count)), np.full(count, ZERO_EXPONENT)
        # Values between float operations have no scale to share.
        stored = list(filter(stored_in_integers(main), self.statistics))
        for value in stored:
            peaks = self.statistics[value].halves
            for half, found in zip(halves, peaks, strict=True):
                np.maximum.at(half, self.slots[value], found * 2.0 ** -_extra_bits(value))
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
                np.isfinite(self.slots.cap), np.ceil(np.log2(peak / self.slots.cap)), ZERO_EXPONENT
            )
        lowest = np.maximum(fitting_exponents(peak) - offset, bounded)
        bits = _disagreement(halves)
        own = lowest + CHANNEL_HEADROOM_BITS + np.maximum(np.rint(bits), self._shared_bits(bits))
        features = self._features()
        own = np.where(features & (own > -MIN_FEATURE_GAIN_OCTAVES), 0.0, own)
        own = np.maximum(own, np.where(features, -MAX_FEATURE_SPREAD_OCTAVES, -MAX_SPREAD_OCTAVES))
        self.min_exponents = np.where(self.slots.pinned, 0.0, np.minimum(own, 0.0))
        self.fixed = self.slots.pinned | np.isfinite(self.slots.cap)
        self.exponents = self.min_exponents.copy()
        self.layers = [
            op
            for op in self.main.body.block.ops
            if isinstance(op, graph.LinearOperation) and absorbs(op)
        ]
        self.sensitivity = self._sensitivity()

    def choose(self, *, rows: bool = False) -> Vector:
        """
        Return the exponent of the factor of each slot (a set of channels with a common factor).
        With `rows`, each output channel has a separate weight scale, so that weights set no limit,
        and each exponent is as small as the observed ranges permit.
        """
        if rows:
            self._bound_by_sums()
            return self.exponents
        required: dict[Operation, Vector] = {}
        for _ in range(SWEEPS):
            for op in self.layers:
                required[op] = self._required_exponents(op)
                ids = self.slots[op.result]
                raised = self.min_exponents.copy()
                for layer, exponents in required.items():
                    np.maximum.at(raised, self.slots[layer.results[0]], exponents)
                self.exponents[ids] = np.where(self.slots.pinned[ids], 0.0, raised[ids])
        return self.exponents

    def _bound_by_sums(self) -> None:
        """
        Raise exponents of factors that are so small that a unit of the accumulator would be more
        than half a unit of the result. Otherwise the scale of the entire result would have to
        become larger.
        """
        changed = True
        while changed:
            before = self.exponents.copy()
            for op in self.layers:
                inputs, ids = self.slots[op.input], self.slots[op.result]
                weights = np.abs(_weights(op)) * np.exp2(spread_columns(op, self.exponents[inputs]))
                units = fitting_exponents(weights.reshape(len(weights), -1).max(axis=1))
                units = units + self.offset[inputs].max() - self.offset[ids].max()
                bounds = np.minimum(units + MIN_SUM_BITS, 0.0)
                free = ~self.slots.pinned[ids]
                np.maximum.at(self.exponents, ids[free], bounds[free])
            changed = bool((self.exponents != before).any())

    def _shared_bits(self, bits: Vector) -> Vector:
        """
        Return, for each slot, the bits that all channels of the value leave unused as a margin for
        other data. `bits` are the octaves by which the ranges of both halves of the samples differ,
        for each slot. The margin is twice the root mean square over the channels, because the
        halves of a single channel may agree by chance.
        """
        result = np.zeros(len(self.slots))
        for value in self.statistics:
            ids = self.slots[value]
            known = bits[ids][bits[ids] < -ZERO_EXPONENT]
            shared = np.floor(2 * np.sqrt(np.mean(known**2))) if len(known) else 0.0
            np.maximum.at(result, ids, shared)
        return result

    def _features(self) -> NDArray[np.bool_]:
        """
        Return a mask of slots that is true for the channels of scaled inputs: products of an input
        with a constant per channel, before all layers.
        """
        found, after = np.zeros(len(self.slots), np.bool_), values_after_layers(self.main)
        for op in self.main.body.block.ops:
            if is_channel_scale(op) and op.result not in after:
                found[self.slots[op.result]] = True
        return found

    def _sensitivity(self) -> Vector:
        """
        Return, for each slot, the noise power at the results of the layers that consume the
        channels, if the channels have a noise power of 1.
        """
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
            # Functions have slopes of at most about 1.
            if (isinstance(op, graph.UnaryOp) and separates(op)) or is_channel_scale(op):
                np.add.at(total, self.slots[op.operands[0]], total[self.slots[op.results[0]]])
        return total

    def _required_exponents(self, op: graph.LinearOperation) -> Vector:
        """
        Return, for each channel of the result of a layer, the smallest exponent of the factor for
        which int8 can store the weights at the best weight scale. Of several weight scales, the
        scale with the least noise is chosen.
        """
        inputs, ids = self.slots[op.input], self.slots[op.result]
        columns = spread_columns(op, self.exponents[inputs])
        weights = np.abs(_weights(op)) * np.exp2(columns)
        rows = fitting_exponents(weights.reshape(len(weights), -1).max(axis=1))
        min_exponents, fixed = self.min_exponents[ids], self.fixed[ids]
        power = self.statistics[op.input].power * np.exp2(-2 * self.exponents[inputs])
        taps = int(np.prod(weights.shape[1:-1]))
        arriving = np.broadcast_to(spread_columns(op, power), (len(weights), *weights.shape[1:]))
        arriving = arriving.reshape(len(weights), taps, -1)[:, 0].sum(axis=1) * taps
        weight = self.sensitivity[ids]
        weight = weight if weight.any() else np.ones_like(weight)
        # The scale must fit the weights of channels with fixed exponents.
        floor = float(np.where(fixed, rows, ZERO_EXPONENT).max(initial=ZERO_EXPONENT))
        live = rows > ZERO_EXPONENT
        if not live.any():
            return min_exponents
        coarsest = float((rows - min_exponents)[live].max())
        best, chosen = np.inf, min_exponents
        for step in range(SCALE_CANDIDATES):
            scale = max(coarsest - step, floor)
            exponents = np.where(live, np.maximum(min_exponents, rows - scale), min_exponents)
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
    Return, for each slot, the octaves by which the largest magnitudes in both halves of the samples
    differ. `halves` is [2, slots]. A channel that is zero in a half gets a very large number,
    because the network may use it for other inputs.
    """
    low, high = halves.min(axis=0), halves.max(axis=0)
    known = low > 0
    ratio = np.divide(high, low, out=np.ones_like(high), where=known)
    return np.where(known, np.log2(ratio), -ZERO_EXPONENT)


def _extra_bits(value: SSAValue) -> int:
    return max((finer_bits(form_of(use.operation)) for use in value.uses), default=0)


def _weights(op: graph.LinearOperation) -> Vector:
    weights = graph.known_array(op.weights)
    return weights.astype(np.float64)
