"""
Compute the signal-to-noise ratio of outputs, which all decisions and reports use.

1. The signal of an element is the variance over the samples. A constant carries no signal.
2. The noise of an element is the mean squared error.
3. Signal and noise are summed over the elements of a quantity. An output has the mean
   noise-to-signal ratio of the quantities; a network has the mean ratio of the outputs. Quantities
   and outputs that do not vary are ignored.
4. Without a second sample, or without variance, the ratio is NaN, printed as "n/a". All
   comparisons with NaN are false: a decision must not depend on it.

Errors are added within a quantity, a set of similar elements:

1. The operands of a concatenation, such as boxes and scores, are different quantities.
2. The channels of a layer are different quantities, such as temperature and pressure, if their
   standard deviations differ by more than `MIN_QUANTITY_RATIO`. Constants may be added to the
   channels or multiplied by them.
3. All other elements of a value are a single quantity: logits, pixels, the results of an activation
   or of a softmax. Channels of these may be almost constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, log10, nan
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DictionaryAttr, FloatAttr, IntegerAttr, ModuleOp, f32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from ceras_ir.dialects import graph
from ceras_ir.interpreters.network import in_turn
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.distinct import distinct
from ceras_ir.network.function import (
    data_operands,
    keeps_scale,
    main_function,
    module_of,
    output_names,
    result_values,
)

MIN_QUANTITY_RATIO = 16.0
"""The ratio of the standard deviations of two channels from which they are different quantities."""

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Quantities:
    """
    The division of the elements of a value into quantities: sets of similar elements, such as boxes
    or scores. The noise of each is measured separately.
    """

    labels: Labels
    """The index of each element, in row-major order."""
    families: Labels
    """The value of which each index is a channel, or the index itself."""

    def groups(self, variance: NDArray[np.float64]) -> Labels:
        """
        Return the index of the quantity of each element. `variance` has the variance of each
        element over samples; channels with very different variances become separate quantities.
        """
        count = len(self.families)
        sizes = np.maximum(np.bincount(self.labels, minlength=count), 1)
        means = np.bincount(self.labels, variance, count) / sizes
        max_means, min_means = np.zeros(count), np.full(count, np.inf)
        varying = means > 0
        np.maximum.at(max_means, self.families[varying], means[varying])
        np.minimum.at(min_means, self.families[varying], means[varying])
        is_split = (max_means > MIN_QUANTITY_RATIO**2 * min_means)[self.families]
        return np.where(is_split, np.arange(count), self.families)[self.labels]


def quantities_of_outputs(main: FuncOp) -> Mapping[str, Quantities]:
    """
    Return, by name of the graph output, the division of the elements into quantities (sets of
    similar elements, such as boxes or scores). Outputs with a single quantity are omitted.
    """
    named = zip(output_names(main), result_values(main), strict=True)
    found = {name: quantities_of(main, value) for name, value in named}
    return {name: each for name, each in found.items() if each is not None}


def quantities_of(main: FuncOp, value: SSAValue) -> Quantities | None:
    """
    Return the division of the elements of a value into quantities (sets of similar elements, such
    as boxes or scores), or `None` if there is a single quantity.
    """
    walk = _Labelling(main)
    labels = walk.labels(value).reshape(-1).astype(np.int64)
    if len(distinct(labels[labels > 0])) < 2:
        return None
    return Quantities(labels, np.array(walk.families))


class _Labelling:
    """
    Computes for each element of a value a label: the number of the operation (or of the channel of
    this operation) that computed the element, before data movement. Label 0 is a constant or
    padding.
    """

    def __init__(self, main: FuncOp) -> None:
        self.interpreter = interpreter_of(module_of(main))
        self.families = [0]
        self.known: dict[SSAValue, NDArray[np.float64]] = {}

    def labels(self, value: SSAValue) -> NDArray[np.float64]:
        """Return the label of the origin of each element, in the shape of `value`."""
        if value not in self.known:
            self.known[value] = self._labels(value)
        return self.known[value]

    def _labels(self, value: SSAValue) -> NDArray[np.float64]:
        op, shape = value.owner, graph.shape_of(value)
        match op:
            case graph.ConstantOp():
                return np.zeros(shape)
            case graph.QuantizeOp() | graph.DequantizeOp():
                return self.labels(op.operands[0])
            case Operation() if self._moves(op):
                return self._moved(op)
            case _:
                return self._origin(value, shape)

    def _moves(self, op: Operation) -> bool:
        if isinstance(op, graph.Pool2dOp | graph.ReduceOp | graph.ResizeOp):
            return False
        parameters = [v for v in op.operands if v not in data_operands(op)]
        is_float = all(graph.element_of(v) == f32 for v in (*data_operands(op), *op.results))
        constant = all(isinstance(v.owner, graph.ConstantOp) for v in parameters)
        return keeps_scale(op) and is_float and constant

    def _moved(self, op: Operation) -> NDArray[np.float64]:
        moved = data_operands(op)
        operands = tuple(
            self.labels(v) if v in moved else graph.known_array(v) for v in op.operands
        )
        return np.asarray(self.interpreter.run_op(op, operands)[0], np.float64)

    def _origin(self, value: SSAValue, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """
        Return new labels for a value that is computed, not moved: a label per channel if the
        channels may be different quantities, otherwise a single label.
        """
        first = len(self.families)
        axis = _channel_axis(value, shape)
        if axis is None:
            self.families.append(first)
            return np.full(shape, float(first))
        count = shape[axis]
        self.families += [first] * count
        along = [count if i == axis else 1 for i in range(len(shape))]
        return np.broadcast_to(np.arange(first, first + count, dtype=float).reshape(along), shape)


def _channel_axis(value: SSAValue, shape: tuple[int, ...]) -> int | None:
    layer = value.owner
    extents = [extent for extent in shape if extent > 1]
    if not extents or not _is_affine(layer):
        return None
    if isinstance(layer, graph.LinearOperation):
        return len(shape) - 1
    return shape.index(min(extents))


def _is_affine(op: object) -> bool:
    if isinstance(op, graph.LinearOperation):
        return op.activation is None
    if not isinstance(op, graph.BinaryOp) or op.activation is not None:
        return False
    computed = [v for v in op.operands if not isinstance(v.owner, graph.ConstantOp)]
    return len(computed) == 1 and (_scales_unequally(op) or _is_affine(_origin_of(computed[0])))


def _origin_of(value: SSAValue) -> object:
    owner = value.owner
    while isinstance(owner, Operation) and keeps_scale(owner) and len(data_operands(owner)) == 1:
        if isinstance(owner, graph.Pool2dOp | graph.ReduceOp):
            break
        owner = data_operands(owner)[0].owner
    return owner


def _scales_unequally(op: graph.BinaryOp) -> bool:
    if op.function not in (graph.Binary.MUL, graph.Binary.DIV):
        return False
    constants = [graph.known_array(v) for v in op.operands if isinstance(v.owner, graph.ConstantOp)]
    sizes = np.abs(constants[0][constants[0] != 0])
    return bool(sizes.size) and float(sizes.max()) > MIN_QUANTITY_RATIO * float(sizes.min())


Array = NDArray[np.generic]
Powers = NDArray[np.float64]
Outputs = Mapping[str, Array]

MAX_CONSTANT_DEVIATION = 2.0**-22
"""The relative standard deviation of a constant with float32 rounding errors."""


def decibels(signal: float, noise: float) -> float:
    """
    Return the ratio of signal power to noise power in dB. It is infinite if the noise is 0, and NaN
    if the signal is 0.
    """
    if not signal > 0 or isnan(noise):
        return nan
    if noise == 0:
        return float("inf")
    return 10 * (log10(signal) - log10(noise)) if isfinite(noise) else float("-inf")


def decibel_text(ratio: float, unit: str = " dB") -> str:
    """Return a ratio in dB as text with a digit after the point and `unit`, or "n/a" for NaN."""
    return "n/a" if isnan(ratio) else f"{ratio:.1f}{unit}"


class Moments:
    """The mean and the variance of each element of an output over samples."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Powers = np.zeros(())
        self._squares: Powers = np.zeros(())

    def add(self, rows: Array) -> None:
        """
        Add samples, which are the rows `rows` [samples, ...]. Elements that are not finite count as
        0.
        """
        real = rows.astype(np.float64)
        real = np.where(np.isfinite(real), real, 0.0)
        mean = real.mean(axis=0)
        self._include(len(real), mean, np.square(real - mean).sum(axis=0))

    def merge(self, other: Self) -> None:
        """Include the samples of `other`."""
        if other.count:
            self._include(other.count, other.mean, other._squares)

    def _include(self, count: int, mean: Powers, squares: Powers) -> None:
        total = self.count + count
        step = mean - self.mean
        between = np.square(step) * (self.count * count / total)
        self._squares = self._squares + squares + (between if self.count else 0.0)
        self.mean = self.mean + step * (count / total)
        self.count = total

    @property
    def variance(self) -> Powers:
        """
        The variance of each element over the samples, with divisor N - 1. It is 0 for fewer than
        two samples, and for elements that differ only by float32 rounding.
        """
        if self.count < 2:
            return np.zeros(self.mean.shape)
        variance = self._squares / (self.count - 1)
        return np.where(variance > np.square(MAX_CONSTANT_DEVIATION * self.mean), variance, 0.0)


class OutputNoise:
    """
    Collects the signal power and the noise power of a graph output over samples. If `signal` is
    given, it is the signal of other samples.
    """

    def __init__(self, quantities: Quantities | None = None, signal: Moments | None = None) -> None:
        self.quantities = quantities
        self.signal = Moments() if signal is None else signal
        self._noise: Powers = np.zeros(())
        self._count = 0

    def add(self, real: Array, actual: Array) -> float:
        """
        Add a sample: the output `real` of the float network, and the output `actual` of the
        quantized network. Return the sum of squared errors.
        """
        self.signal.add(real[None])
        return self.add_noise(real, actual)

    def add_noise(self, real: Array, actual: Array) -> float:
        """
        Add only the errors between `real` and `actual`, and not `real` as the signal. Return the
        sum of squared errors.
        """
        squares = squared_errors(real, actual)
        self._noise, self._count = self._noise + squares, self._count + 1
        return float(squares.sum())

    def merge(self, following: Self) -> None:
        """Add the samples of `following`, another measurement of the same output."""
        self.signal.merge(following.signal)
        if following._count:
            self._noise, self._count = (
                self._noise + following._noise,
                self._count + following._count,
            )

    def shares(self) -> Powers:
        """
        Return noise power divided by signal power for each quantity (set of similar elements) of
        the output. Quantities that do not vary are omitted.
        """
        variance = self.signal.variance.reshape(-1)
        groups = self.groups(variance)
        signal = np.bincount(groups, variance)
        noise = np.bincount(groups, (self._noise / max(self._count, 1)).reshape(-1))
        return noise[signal > 0] / signal[signal > 0]

    def groups(self, variance: Powers) -> NDArray[np.int64]:
        """
        Return the index of the quantity (set of similar elements) of each element of the output.
        `variance` has the variance of each element.
        """
        known = self.quantities
        if known is None or known.labels.size != variance.size:
            return np.zeros(variance.size, np.int64)
        return known.groups(variance)

    @property
    def share(self) -> float:
        """
        Noise power divided by signal power, as a mean over the quantities (sets of similar
        elements) of the output that vary; NaN if no quantity varies.
        """
        shares = self.shares()
        return float(shares.mean()) if shares.size else nan

    @property
    def ratio(self) -> float:
        """
        The signal-to-noise ratio of the output in dB; NaN if no quantity of the output varies.
        """
        return decibels(1.0, self.share)


def squared_errors(real: Array, actual: Array) -> Powers:
    """
    Return the squared difference of each element in float64. Equal infinities, and NaN in both
    arrays, are no error. NaN in only one array is an infinite error.
    """
    expected, found = real.astype(np.float64), actual.astype(np.float64)
    same = (expected == found) | (np.isnan(expected) & np.isnan(found))
    with np.errstate(all="ignore"):
        squares = np.square(np.where(same, 0.0, found - expected))
    return np.where(np.isnan(squares), np.inf, squares)


def mean_share(shares: Iterable[float]) -> float:
    """
    Return the mean of noise-to-signal ratios of graph outputs. NaN, an output that does not vary,
    is ignored; if all are NaN, return NaN.
    """
    known = [share for share in shares if not isnan(share)]
    return sum(known) / len(known) if known else nan


def noise_of(
    expected: Sequence[Outputs],
    actual: Sequence[Outputs],
    quantities: Mapping[str, Quantities] | None = None,
) -> dict[str, OutputNoise]:
    """
    Return the signal and the noise of each graph output by name. `expected` and `actual` have the
    outputs of the float and of the quantized network for each sample. `quantities` has the
    quantities of outputs with more than a single quantity.
    """
    found = {name: OutputNoise((quantities or {}).get(name)) for name in expected[0]}
    for e, a in zip(expected, actual, strict=True):
        for name, noise in found.items():
            noise.add(e[name], a[name])
    return found


def network_ratio(noise: Mapping[str, OutputNoise]) -> float:
    """
    Return the signal-to-noise ratio of a network in dB, from the mean noise-to-signal ratio of the
    graph outputs; NaN if no output varies.
    """
    return decibels(1.0, mean_share(each.share for each in noise.values()))


def ratio_of(
    expected: Sequence[Outputs],
    actual: Sequence[Outputs],
    quantities: Mapping[str, Quantities] | None = None,
) -> float:
    """
    Return the signal-to-noise ratio of a network in dB, from the `expected` and the `actual`
    outputs for each sample; NaN if no output varies. `quantities` has the quantities (sets of
    similar elements) of outputs with more than a single quantity.
    """
    return network_ratio(noise_of(expected, actual, quantities))


def outputs_of(module: ModuleOp, samples: Iterable[Mapping[str, Array]]) -> list[Outputs]:
    """
    Run the network on each sample, and return the graph outputs. States are carried from sample to
    sample. Overflow is not reported.
    """
    with np.errstate(all="ignore"):
        return list(in_turn(module, samples))


def output_ratio(
    reference: ModuleOp, module: ModuleOp, samples: Sequence[Mapping[str, Array]]
) -> float:
    """
    Run both networks on `samples`, and return the signal-to-noise ratio in dB of the outputs of
    `module`, with the outputs of `reference` as the exact results.
    """
    quantities = quantities_of_outputs(main_function(reference))
    return ratio_of(outputs_of(reference, samples), outputs_of(module, samples), quantities)


REQUANTIZATIONS = "graph.requantizations"
"""Attribute of the function: requantizations at run time before and after alignment."""

NOISE = "graph.stored_noise"
"""
Attribute of the function: the signal-to-noise ratio of stored values in decibels, measured before
values got 16 bits, and estimated and measured afterwards.
"""


WEIGHT_NOISE = "graph.weight_noise"
"""
Attribute of the function: the signal-to-noise ratio of the outputs in decibels if only the weights
are rounded.
"""


def note(main: FuncOp, name: str, **numbers: float) -> None:
    """
    Record numbers as the attribute `name` of a function, a dictionary, for the report. Without
    `numbers`, remove the attribute.
    """
    if not numbers:
        main.attributes.pop(name, None)
        return
    main.attributes[name] = DictionaryAttr(
        {
            key: IntegerAttr(number, i64) if isinstance(number, int) else FloatAttr(number, f32)
            for key, number in numbers.items()
        }
    )


def alignment(main: FuncOp) -> tuple[int, int] | None:
    """
    Return the recorded number of requantizations at run time before and after scale alignment, or
    `None` if the function has no record.
    """
    counts = _noted(main, REQUANTIZATIONS)
    return (int(counts["before"]), int(counts["after"])) if counts else None


def stored_noise(main: FuncOp) -> dict[str, float]:
    """
    Return the recorded signal-to-noise ratios of a network in dB: `before` (before values got 16
    bits), `after` (an estimate of the ratio afterwards) and `measured` (afterwards). Empty without
    a record.
    """
    return _noted(main, NOISE)


def weight_noise(main: FuncOp) -> float | None:
    """
    Return the recorded signal-to-noise ratio of the outputs in dB if only the weights are rounded,
    or `None` without a record.
    """
    known = main.attributes.get(WEIGHT_NOISE)
    return known.value.data if isinstance(known, FloatAttr) else None


def _noted(main: FuncOp, name: str) -> dict[str, float]:
    known = main.attributes.get(name)
    if not isa(known, DictionaryAttr):
        return {}
    return {
        key: number.value.data
        for key, number in known.data.items()
        if isinstance(number, IntegerAttr | FloatAttr)
    }


Vector: TypeAlias = NDArray[np.float64]

MIN_EXPLAINED_POWER = 0.5
"""The minimum share of the power of a channel that a multiple of another channel explains."""

MIN_FACTOR_NOISE_RATIO = 4.0
"""The minimum ratio of the effect of a factor to the noise of the other channels."""


def channel_ratios(wanted: NDArray[np.floating], found: NDArray[np.floating]) -> Vector:
    """
    Return, for each channel (last axis), the power of two by which `found` must be multiplied to
    match `wanted`. `equalize-channels` creates such factors. It is 1 for channels that differ in
    another way, or only by noise.
    """
    axes = tuple(range(wanted.ndim - 1))
    mine = (found.astype(np.float64) ** 2).sum(axis=axes)
    theirs = (wanted.astype(np.float64) ** 2).sum(axis=axes)
    both = (found.astype(np.float64) * wanted).sum(axis=axes)
    ratio = both / np.where(mine > 0, mine, 1)
    known = (ratio > 0) & (both**2 > MIN_EXPLAINED_POWER * mine * theirs)
    factors = np.exp2(np.where(known, np.rint(np.log2(np.where(known, ratio, 1))), 0))

    def error(by: Vector | float) -> Vector:
        return np.sqrt(np.maximum(theirs - 2 * by * both + by**2 * mine, 0))

    # A channel with a single element near zero may match any multiple of the other channel.
    noise = np.median(error(factors)[theirs > 0]) if (theirs > 0).any() else 0.0
    return np.where(error(1.0) > MIN_FACTOR_NOISE_RATIO * noise, factors, 1.0)
