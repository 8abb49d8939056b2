"""
What rounding costs at the ends of a network, for all values at once.

The float network runs on a sample and every value is kept; one backward pass from random signs at
the ends says how an error in any element moves them. Errors in different channels, and in places
far from each other, are taken as independent, so that their noises add. Neighbours in one channel
are often rounded alike, as in a plain part of an image, and then their errors add, see
`noise_at_ends`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import ldexp

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.elementwise import BITWISE_BINARIES
from ceras_ir.interpreters.float_functions import for_statistics
from ceras_ir.interpreters.layers import normalize
from ceras_ir.interpreters.network import check_inputs
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.interpreters.windows import Window, counts
from ceras_ir.network.function import (
    data_operands,
    keeps_scale,
    main_function,
    quantized_operations,
    result_values,
)
from ceras_ir.network.storage import exponent
from ceras_ir.transforms.quantization.analysis.output_noise import (
    Moments,
    OutputNoise,
    mean_share,
    quantities_of,
)
from ceras_ir.transforms.quantization.analysis.scale_classes import source_of

# Gradients of a float network: how the ends of a network answer to a change of any value.
#
# One backward pass over the values of one sample gives them for all values at once, in the time of
# about two inferences. They serve to weigh noise, not to train:
#
# 1. Where an operation has no rule here, the power of the gradient goes on, spread evenly over its
#    operands with random signs.
# 2. A normalization of a nearly constant row has gradients without bound, and results with one:
#    their mean square is at most 1. What it divides by is taken to be so large that an error like
#    that of rounding the row makes as much noise as that does: none of what its elements have in
#    common, and no more than twice that bound, as between two rows with nothing in common.

Array = NDArray[np.generic]
Real = NDArray[np.float32]
Run = Callable[[Operation, Sequence[Array]], Array]
"""Computes an operation of one result."""

UNRELATED = np.float32(2**0.5)
"""The root of the mean square of the difference of two rows with one of 1 and nothing in common."""

STEP = 1 / 64
"""Of finite differences, as a share of the mean magnitude of what a function is applied to."""
HIDDEN = 1000.0
"""A magnitude that scores have only where a mask hides them: functions are flat or lines there."""


def gradients(
    main: FuncOp, known: Mapping[SSAValue, Array], seeds: Mapping[SSAValue, Real], run: Run
) -> Iterator[tuple[SSAValue, Real]]:
    """
    The gradient of `sum(seed * value)` over all seeds, by each value that it depends on, the last
    first; `known` has every value of the network.
    """
    waiting = {value: seed.astype(np.float32) for value, seed in seeds.items()}
    for op in reversed([op for op in main.body.block.ops if op.results]):
        if (gradient := waiting.pop(op.results[0], None)) is None:
            continue
        yield op.results[0], gradient
        arrays = [known[v] for v in op.operands]
        for value, part in _pulled_back(op, arrays, known[op.results[0]], gradient, run):
            if not isinstance(value.owner, graph.ConstantOp):
                waiting[value] = waiting[value] + part if value in waiting else part
    yield from waiting.items()


def _pulled_back(
    op: Operation, arrays: Sequence[Array], result: Array, gradient: Real, run: Run
) -> Iterator[tuple[SSAValue, Real]]:
    """What the gradient of an operation's result makes of those of its operands."""
    match op:
        case graph.LinearOperation():
            gradient = _through_activation(op.activation, result, gradient)
            yield op.input, _products(op, arrays, gradient)
            if not isinstance(op, graph.Conv2dOp) and not isinstance(
                op.weights.owner, graph.ConstantOp
            ):
                yield op.weights, gradient.T @ arrays[0].astype(np.float32)
            if op.residual is not None:
                yield op.residual, gradient
        case graph.Pool2dOp():
            yield op.input, _pooled(op, arrays[0].astype(np.float32), result, gradient)
        case graph.BinaryOp() if op.function not in BITWISE_BINARIES:
            gradient = _through_activation(op.activation, result, gradient)
            for i, value in enumerate(op.operands):
                slope = _slope(
                    lambda x, i=i: run(op, [*arrays[:i], x, *arrays[i + 1 :]]), arrays[i]
                )
                yield value, _unbroadcast(gradient * slope, arrays[i].shape)
        case graph.SelectOp():
            taken = arrays[0].astype(np.bool_)
            yield op.lhs, _unbroadcast(gradient * taken, arrays[1].shape)
            yield op.rhs, _unbroadcast(gradient * ~taken, arrays[2].shape)
        case graph.UnaryOp():
            yield op.input, gradient * _slope(lambda x: run(op, [x]), arrays[0])
        case graph.SoftmaxOp():
            p, axis = result.astype(np.float32), op.axis.value.data
            yield op.input, p * (gradient - (gradient * p).sum(axis=axis, keepdims=True))
        case graph.NormalizeOp():
            x, scale = (array.astype(np.float32) for array in arrays[:2])
            yield op.input, _normalized(op, x, gradient * scale)
        case _ if keeps_scale(op):
            yield from _moved(op, arrays, gradient, run)
        case _:
            power, random = float(np.square(gradient, dtype=np.float64).sum()), default_rng(0)
            for value, array in zip(op.operands, arrays, strict=True):
                size = (power / max(array.size, 1)) ** 0.5
                yield value, (random.choice((-size, size), array.shape)).astype(np.float32)


def _normalized(op: graph.NormalizeOp, x: Real, gradient: Real) -> Real:
    """By rows: what changes mean or deviation changes all of them."""
    y, deviation = normalize(x, op.epsilon.value.data, centred=op.is_centred)
    error = _rounding(op.input, x)
    differing = error - error.mean(axis=-1, keepdims=True) if op.is_centred else error
    size = _root_mean_square(error)
    noise = np.minimum(_root_mean_square(differing) / deviation, UNRELATED)
    deviation = np.where(size > 0, size / np.maximum(noise, np.float32(1e-6)), deviation)
    along = y * (gradient * y).mean(axis=-1, keepdims=True)
    mean = gradient.mean(axis=-1, keepdims=True) if op.is_centred else np.float32(0)
    return ((gradient - mean - along) / deviation).astype(np.float32)


def _rounding(value: SSAValue, x: Real) -> Real:
    """What rounding adds to a value; nothing if its steps are not known."""
    known = exponent(source_of(value))
    step = np.float32(1.0 if known is None else ldexp(1.0, known))
    return np.zeros_like(x) if known is None else np.rint(x / step) * step - x


def _root_mean_square(rows: Real) -> Real:
    return np.sqrt(np.square(rows).mean(axis=-1, keepdims=True))


def _through_activation(function: graph.FunctionAttr | None, result: Array, gradient: Real) -> Real:
    """Nothing passes where a clip holds the result."""
    if function is None or (bounds := function.clip_range) is None:
        return gradient
    real = result.astype(np.float32, copy=False)
    return gradient * ((real > bounds[0]) & (real < bounds[1]))


def _products(op: graph.LinearOperation, arrays: Sequence[Array], gradient: Real) -> Real:
    """By the input of a convolution or product: what every tap has given to its sums."""
    x, weights = arrays[0], arrays[1].astype(np.float32, copy=False)
    if not isinstance(op, graph.Conv2dOp):
        return gradient @ weights
    window, groups = Window.of_operation(op), op.group_count
    o, kh, kw, per_group = weights.shape
    split = weights.reshape(groups, o // groups, kh, kw, per_group)
    lanes = gradient.reshape(*gradient.shape[:3], groups, o // groups)
    total = window.padded(np.zeros(x.shape, np.float32), 0)
    for i, j, tap in window.taps(total):
        kernel = split[:, :, i, j]
        if o == groups:
            part = gradient[..., None] * kernel[:, 0]
        elif groups == 1:
            part = gradient.reshape(-1, o) @ kernel[0]
        else:
            part = np.einsum("nyxgo,goc->nyxgc", lanes, kernel)
        tap += part.reshape(tap.shape)
    return _inside(window, total)


def _pooled(op: graph.Pool2dOp, x: Real, result: Array, gradient: Real) -> Real:
    """By the input of a pooling: equal maxima share what there is."""
    window = Window.of_operation(op)
    if op.function is graph.Pool.MAX:
        shares = [seen == result for _, _, seen in window.taps(window.padded(x, -np.inf))]
        size = sum(share.astype(np.float32) for share in shares)
    else:
        shares = [np.True_] * int(np.prod(window.kernel))
        inside = counts(x.shape[1], x.shape[2], window)[None, :, :, None]
        size = np.float32(len(shares)) if op.includes_padding else inside.astype(np.float32)
    total = window.padded(np.zeros(x.shape, np.float32), 0)
    for (_, _, tap), share in zip(window.taps(total), shares, strict=True):
        tap += gradient / size * share
    return _inside(window, total)


def _inside(window: Window, padded: Real) -> Real:
    top, left, bottom, right = window.padding
    return padded[:, top : padded.shape[1] - bottom, left : padded.shape[2] - right]


def _slope(function: Callable[[Real], Array], at: Array) -> Real:
    """Of a function of single elements, by a central difference; 0 where that is not finite."""
    x = at.astype(np.float32, copy=False)
    size = np.abs(x)
    # Masks of scores are infinite, or so large that they would make steps of what they hide.
    near = size < HIDDEN
    counted = near if near.any() else np.isfinite(x)
    mean = float(size.mean(where=counted, dtype=np.float64)) if counted.any() else 0.0
    h = np.float32(STEP * max(mean, 1e-6))
    with np.errstate(over="ignore", invalid="ignore"):
        above, below = (function(moved).astype(np.float32) for moved in (x + h, x - h))
        slope = (above - below) / (2 * h)
    return np.where(np.isfinite(slope), slope, np.float32(0))


def _unbroadcast(gradient: Real, shape: tuple[int, ...]) -> Real:
    """Summed over what was repeated."""
    extra = gradient.ndim - len(shape)
    axes = [i for i in range(gradient.ndim) if i < extra or shape[i - extra] < gradient.shape[i]]
    return gradient.sum(axis=tuple(axes), keepdims=True).reshape(shape)


def _moved(
    op: Operation, arrays: Sequence[Array], gradient: Real, run: Run
) -> Iterator[tuple[SSAValue, Real]]:
    """By what an operation moves: it moves the numbers of places too; 0 is where nothing was."""
    moved = [value in data_operands(op) for value in op.operands]
    ends = np.cumsum([0, *(array.size * moves for array, moves in zip(arrays, moved, strict=True))])
    places = [
        np.arange(start + 1, start + array.size + 1, dtype=np.float64).reshape(array.shape)
        if moves
        else array
        for start, array, moves in zip(ends, arrays, moved, strict=False)
    ]
    origins = run(op, places).astype(np.int64).reshape(-1)
    total = np.bincount(origins, gradient.reshape(-1), minlength=int(ends[-1]) + 1)[1:]
    for value, start, array, moves in zip(op.operands, ends, arrays, moved, strict=False):
        if moves:
            part = total[start : start + array.size]
            yield value, part.reshape(array.shape).astype(np.float32)


Sample = Mapping[str, Array]

LARGE = 1_000_000_000
"""Multiplications per inference from which many samples at once would take minutes."""

MAX_SIZE = 2.0**64
"""Maximum magnitude of a gradient at an end, so that products of gradients fit float32."""

NEIGHBOURS = 16
"""Positions along each axis of a map in which errors are not taken as independent."""


def multiplications(main: FuncOp) -> int:
    """Of one inference."""
    return sum(op.macs for op in main.body.block.ops if isinstance(op, graph.LinearOperation))


class SensitivityMeter:
    """
    Weighs errors in the values of a float network by their effect on the ends. An end is a value at
    which integers end and the arithmetic of the user begins, or an output. All quantities of an end
    and all ends have equal weights, see `output_noise.py`.

    The variances of the ends come from `samples`. Without a second sample the weights are relative
    to the power of the ends, and `measure` returns NaN.
    """

    def __init__(
        self,
        module: ModuleOp,
        samples: Iterable[Sample],
        seed: int = 0,
        ends: Sequence[SSAValue] | None = None,
    ):
        self.module, self.main = module, main_function(module)
        self.interpreter = interpreter_of(module)
        self.random = np.random.default_rng(seed)
        self.ends: Sequence[SSAValue] = ends or _ends(self.main) or result_values(self.main)
        self.quantities = {end: quantities_of(self.main, end) for end in self.ends}
        self.signals = {end: Moments() for end in self.ends}
        with np.errstate(all="ignore"):
            for sample in samples:
                known = self._forward(sample, kept=self.ends)
                for end, signal in self.signals.items():
                    signal.add(known[end][None])
        self.sizes = self._sizes()

    @property
    def varies(self) -> bool:
        """Whether an end varies over the samples. Otherwise, no signal-to-noise ratio is known."""
        return any(signal.variance.any() for signal in self.signals.values())

    def _sizes(self) -> dict[SSAValue, NDArray[np.float32]]:
        """Return the magnitudes of the gradients at the ends; zero for an end that is constant."""
        powers = {end: signal.variance.reshape(-1) for end, signal in self.signals.items()}
        if not self.varies:
            powers = {end: np.square(s.mean).reshape(-1) for end, s in self.signals.items()}
        varying = sum(bool(power.any()) for power in powers.values())
        sizes: dict[SSAValue, NDArray[np.float32]] = {}
        for end, power in powers.items():
            groups = OutputNoise(self.quantities[end]).groups(power)
            sums = np.bincount(groups, power)
            counted = sums * max(np.count_nonzero(sums), 1) * max(varying, 1)
            size = np.divide(1.0, np.sqrt(counted), out=np.zeros(len(sums)), where=counted > 0)
            size = np.minimum(size, MAX_SIZE)
            shape = self.signals[end].mean.shape
            sizes[end] = size[groups].reshape(shape).astype(np.float32)
        return sizes

    def weigh(
        self, sample: Sample
    ) -> Iterator[tuple[SSAValue, Mapping[SSAValue, Array], NDArray[np.float32]]]:
        """
        Every value that the ends depend on, the last first, with the weights of its elements, and
        with the values before it, because others are forgotten. `noise_at_ends` of them and of an
        error is the noise over the signal, a mean over the ends.
        """
        with np.errstate(all="ignore"):
            known = self._forward(sample)
            seeds = {end: self._seed(size) for end, size in self.sizes.items()}
            done: SSAValue | None = None
            for value, gradient in gradients(self.main, known, seeds, self._run):
                if done is not None:
                    del known[done]
                yield value, known, gradient
                done = value

    def measure(
        self, samples: Iterable[Sample], rounded: Callable[[SSAValue, Array], Array]
    ) -> float:
        """
        Return the noise-to-signal ratio, a mean over the ends, if `rounded` replaces every value;
        NaN if no end varies.
        """
        noise = {end: OutputNoise(self.quantities[end], self.signals[end]) for end in self.ends}
        with np.errstate(all="ignore"):
            for sample in samples:
                exact = self._forward(sample, kept=self.ends)
                noisy = self._forward(sample, rounded, self.ends)
                for end, each in noise.items():
                    each.add_noise(exact[end], noisy[end])
        return mean_share(each.share for each in noise.values())

    def _forward(
        self,
        sample: Sample,
        rounded: Callable[[SSAValue, Array], Array] | None = None,
        kept: Collection[SSAValue] | None = None,
    ) -> dict[SSAValue, Array]:
        """Every value of the network; those of `kept` alone, if others may be forgotten."""
        known: dict[SSAValue, Array] = {}

        def keep(value: SSAValue, array: Array) -> None:
            known[value] = array if rounded is None else rounded(value, array)

        for argument, array in zip(
            self.main.body.block.args, check_inputs(self.main, sample), strict=True
        ):
            keep(argument, array)
        ops = list(self.main.body.block.ops)
        last = {value: op for op in ops for value in op.operands}
        for op in ops:
            if not op.results:
                continue
            keep(op.results[0], self._run(op, [known[v] for v in op.operands]))
            if kept is not None:
                for value in {v for v in op.operands if last[v] is op and v not in kept}:
                    del known[value]
        return known

    def _run(self, op: Operation, operands: Sequence[Array]) -> Array:
        with for_statistics():
            return self.interpreter.run_op(op, tuple(operands))[0]

    def _seed(self, size: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return random signs of the given magnitudes."""
        signs = self.random.choice((-1.0, 1.0), size.shape)
        return (signs * size).astype(np.float32)


def noise_at_ends(weights: NDArray[np.float32], error: Array) -> float:
    """
    Noise over signal at the ends for an `error` of one value; `weights` are what `weigh` yields.

    The last axis has channels; before it are positions. Each channel is summed over blocks of 16
    positions, in maps 16 by 16, before it is squared: over random signs the mean of that is the
    noise of the whole block, however alike its errors are.
    """
    # An element that no end depends on may be infinite, as padding of a maximum pooling.
    with np.errstate(invalid="ignore"):
        moved = np.where(weights == 0, 0.0, weights * np.asarray(error, np.float64))
    for axis in range(max(moved.ndim - 3, 0), moved.ndim - 1):
        starts = range(0, moved.shape[axis], NEIGHBOURS)
        moved = np.add.reduceat(moved, starts, axis=axis)
    return float(np.square(moved).sum())


def _ends(main: FuncOp) -> list[SSAValue]:
    """What depends on integers, and goes to the caller, or to floats that lead to no integers."""
    ops = [op for op in main.body.block.ops if op.results]
    before, behind = set[Operation](quantized_operations(main)), set[Operation]()
    for op in ops:
        if op in before or any(value.owner in behind for value in op.operands):
            behind.add(op)
    for op in reversed(ops):
        if any(use.operation in before for use in op.results[0].uses):
            before.add(op)
    return [
        op.results[0]
        for op in ops
        if op in before & behind and any(u.operation not in before for u in op.results[0].uses)
    ]
