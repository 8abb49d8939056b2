"""
Estimate the noise that rounding of each value adds to the outputs of a network.

The float network runs on a sample, and all values are kept. A single backward pass from random
signs at the outputs shows how an error in any element changes them. Errors in different channels or
distant positions are taken as independent, so that their noise adds up. Neighboring elements of a
channel are often rounded in the same direction, as in a uniform part of an image, and then their
errors add up, see `noise_at_outputs`.
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
from ceras_ir.interpreters.batches import Batch, Batches
from ceras_ir.interpreters.float_functions import for_statistics
from ceras_ir.interpreters.layers import normalize
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
    decibels,
    mean_share,
    quantities_of,
)
from ceras_ir.transforms.quantization.analysis.scale_classes import source_of

# Gradients of the outputs of a float network with respect to all values.
#
# A backward pass over the values of a sample computes them in the time of about two inferences.
# They weigh noise and do not train:
#
# 1. For an operation without a rule, the power of the gradient is distributed evenly over the
#    operands, with random signs.
# 2. The gradient of a normalization is unbounded for a nearly constant row, but the results have a
#    mean square of at most 1. The divisor is therefore increased so far that a rounding error of
#    the row causes at most the noise that it can cause: no noise in the common part of the
#    elements, and at most twice that bound, the difference of two unrelated rows.

Array = NDArray[np.generic]
Floats = NDArray[np.float32]
RunOperation = Callable[[Operation, Sequence[Array]], Array]
"""Computes the result of an operation."""

UNRELATED_DISTANCE = np.float32(2**0.5)
"""The root mean square of the difference between two unrelated rows with a mean square of 1."""

DIFFERENCE_STEP = 1 / 64
"""The step of finite differences, as a share of the mean magnitude of the operand."""
MIN_MASK_MAGNITUDE = 1000.0
"""The magnitude from which a score is masked. Functions are flat or linear there."""


def gradients(
    main: FuncOp,
    known: Mapping[SSAValue, Array],
    seeds: Mapping[SSAValue, Floats],
    run: RunOperation,
) -> Iterator[tuple[SSAValue, Floats]]:
    """
    Yield the values of the network in reverse order, each with the gradient of a weighted sum of
    the outputs. `seeds` has the weights of the elements of each output, and `known` has the
    elements of each value.
    """
    pending = {value: seed.astype(np.float32) for value, seed in seeds.items()}
    for op in reversed([op for op in main.body.block.ops if op.results]):
        if (gradient := pending.pop(op.results[0], None)) is None:
            continue
        yield op.results[0], gradient
        arrays = [known[v] for v in op.operands]
        for value, part in _operand_gradients(op, arrays, known[op.results[0]], gradient, run):
            if not isinstance(value.owner, graph.ConstantOp):
                pending[value] = pending[value] + part if value in pending else part
    yield from pending.items()


def _operand_gradients(
    op: Operation, arrays: Sequence[Array], result: Array, gradient: Floats, run: RunOperation
) -> Iterator[tuple[SSAValue, Floats]]:
    match op:
        case graph.LinearOperation():
            gradient = _activation_gradient(op.activation, result, gradient)
            yield op.input, _linear_gradient(op, arrays, gradient)
            if not isinstance(op, graph.Conv2dOp) and not isinstance(
                op.weights.owner, graph.ConstantOp
            ):
                yield op.weights, gradient.T @ arrays[0].astype(np.float32)
            if op.residual is not None:
                yield op.residual, gradient
        case graph.Pool2dOp():
            yield op.input, _pool_gradient(op, arrays[0].astype(np.float32), result, gradient)
        case graph.BinaryOp() if op.function not in BITWISE_BINARIES:
            gradient = _activation_gradient(op.activation, result, gradient)
            for i, value in enumerate(op.operands):
                slope = _slope(
                    lambda x, i=i: run(op, [*arrays[:i], x, *arrays[i + 1 :]]), arrays[i]
                )
                yield value, _unbroadcast(gradient * slope, arrays[i].shape)
        case graph.SelectOp():
            condition = arrays[0].astype(np.bool_)
            yield op.lhs, _unbroadcast(gradient * condition, arrays[1].shape)
            yield op.rhs, _unbroadcast(gradient * ~condition, arrays[2].shape)
        case graph.UnaryOp():
            yield op.input, gradient * _slope(lambda x: run(op, [x]), arrays[0])
        case graph.SoftmaxOp():
            p, axis = result.astype(np.float32), op.axis.value.data
            yield op.input, p * (gradient - (gradient * p).sum(axis=axis, keepdims=True))
        case graph.NormalizeOp():
            x, scale = (array.astype(np.float32) for array in arrays[:2])
            yield op.input, _normalize_gradient(op, x, gradient * scale)
        case _ if keeps_scale(op):
            yield from _moved_gradients(op, arrays, gradient, run)
        case _:
            power, random = float(np.square(gradient, dtype=np.float64).sum()), default_rng(0)
            for value, array in zip(op.operands, arrays, strict=True):
                size = (power / max(array.size, 1)) ** 0.5
                yield value, (random.choice((-size, size), array.shape)).astype(np.float32)


def _normalize_gradient(op: graph.NormalizeOp, x: Floats, gradient: Floats) -> Floats:
    """
    Return the gradient with respect to the operand `x` of a normalization, from the gradient of the
    normalized elements. Mean and deviation depend on all elements of a row.
    """
    y, deviation = normalize(x, op.epsilon.value.data, centred=op.is_centred)
    error = _rounding(op.input, x)
    differing = error - error.mean(axis=-1, keepdims=True) if op.is_centred else error
    size = _root_mean_square(error)
    noise = np.minimum(_root_mean_square(differing) / deviation, UNRELATED_DISTANCE)
    deviation = np.where(size > 0, size / np.maximum(noise, np.float32(1e-6)), deviation)
    along = y * (gradient * y).mean(axis=-1, keepdims=True)
    mean = gradient.mean(axis=-1, keepdims=True) if op.is_centred else np.float32(0)
    return ((gradient - mean - along) / deviation).astype(np.float32)


def _rounding(value: SSAValue, x: Floats) -> Floats:
    """
    Return the error of rounding each element `x` of `value` to the scale; zeros if no scale was
    chosen for `value`.
    """
    known = exponent(source_of(value))
    step = np.float32(1.0 if known is None else ldexp(1.0, known))
    return np.zeros_like(x) if known is None else np.rint(x / step) * step - x


def _root_mean_square(rows: Floats) -> Floats:
    return np.sqrt(np.square(rows).mean(axis=-1, keepdims=True))


def _activation_gradient(
    function: graph.FunctionAttr | None, result: Array, gradient: Floats
) -> Floats:
    if function is None or (bounds := function.clip_range) is None:
        return gradient
    real = result.astype(np.float32, copy=False)
    return gradient * ((real > bounds[0]) & (real < bounds[1]))


def _linear_gradient(
    op: graph.LinearOperation, arrays: Sequence[Array], gradient: Floats
) -> Floats:
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
    return _without_padding(window, total)


def _pool_gradient(op: graph.Pool2dOp, x: Floats, result: Array, gradient: Floats) -> Floats:
    """
    Return the gradient with respect to the operand `x` of a pooling, from the gradient of the
    result. If a window has several equal maxima, they share the gradient equally.
    """
    window = Window.of_operation(op)
    if op.function is graph.Pool.MAX:
        shares = [tap == result for _, _, tap in window.taps(window.padded(x, -np.inf))]
        size = sum(share.astype(np.float32) for share in shares)
    else:
        shares = [np.True_] * int(np.prod(window.kernel))
        inside = counts(x.shape[1], x.shape[2], window)[None, :, :, None]
        size = np.float32(len(shares)) if op.includes_padding else inside.astype(np.float32)
    total = window.padded(np.zeros(x.shape, np.float32), 0)
    for (_, _, tap), share in zip(window.taps(total), shares, strict=True):
        tap += gradient / size * share
    return _without_padding(window, total)


def _without_padding(window: Window, padded: Floats) -> Floats:
    top, left, bottom, right = window.padding
    return padded[:, top : padded.shape[1] - bottom, left : padded.shape[2] - right]


def _slope(function: Callable[[Floats], Array], at: Array) -> Floats:
    """
    Return the slope of an elementwise function at each element of `at` by a central difference; 0
    if the slope is not finite.
    """
    x = at.astype(np.float32, copy=False)
    size = np.abs(x)
    # Masks of scores are infinite or very large, and would make the step too large.
    near = size < MIN_MASK_MAGNITUDE
    counted = near if near.any() else np.isfinite(x)
    mean = float(size.mean(where=counted, dtype=np.float64)) if counted.any() else 0.0
    h = np.float32(DIFFERENCE_STEP * max(mean, 1e-6))
    with np.errstate(over="ignore", invalid="ignore"):
        above, below = (function(moved).astype(np.float32) for moved in (x + h, x - h))
        slope = (above - below) / (2 * h)
    return np.where(np.isfinite(slope), slope, np.float32(0))


def _unbroadcast(gradient: Floats, shape: tuple[int, ...]) -> Floats:
    extra = gradient.ndim - len(shape)
    axes = [i for i in range(gradient.ndim) if i < extra or shape[i - extra] < gradient.shape[i]]
    return gradient.sum(axis=tuple(axes), keepdims=True).reshape(shape)


def _moved_gradients(
    op: Operation, arrays: Sequence[Array], gradient: Floats, run: RunOperation
) -> Iterator[tuple[SSAValue, Floats]]:
    """
    Yield the gradients of the operands of a data movement operation. `run` executes the operation
    on the numbers of the elements, which shows the origin of each result element. Number 0
    (padding) has no origin.
    """
    moved = [value in data_operands(op) for value in op.operands]
    bounds = np.cumsum(
        [0, *(array.size * moves for array, moves in zip(arrays, moved, strict=True))]
    )
    places = [
        np.arange(start + 1, start + array.size + 1, dtype=np.float64).reshape(array.shape)
        if moves
        else array
        for start, array, moves in zip(bounds, arrays, moved, strict=False)
    ]
    origins = run(op, places).astype(np.int64).reshape(-1)
    total = np.bincount(origins, gradient.reshape(-1), minlength=int(bounds[-1]) + 1)[1:]
    for value, start, array, moves in zip(op.operands, bounds, arrays, moved, strict=False):
        if moves:
            part = total[start : start + array.size]
            yield value, part.reshape(array.shape).astype(np.float32)


Sample = Mapping[str, Array]

MAX_MACS = 1_000_000_000
"""The number of multiplications per inference above which several samples would take minutes."""

MAX_GRADIENT = 2.0**64
"""The maximum magnitude of a gradient at an output, so that products of gradients fit float32."""

BLOCK_POSITIONS = 16
"""The positions along an axis of a feature map within which errors are dependent."""


def multiplications(main: FuncOp) -> int:
    """Return the number of multiplications of layers in an inference."""
    return sum(op.macs for op in main.body.block.ops if isinstance(op, graph.LinearOperation))


class SensitivityMeter:
    """
    Estimates and measures the noise at the outputs of a float network that errors in the values
    cause.

    In addition to graph outputs, the last results of integer operations before float operations,
    or sums of them with floats, count as outputs. All outputs have equal weights. The variances of
    the outputs are those of `samples`. With a single sample, weights are relative to the power of
    the outputs, and `measure` returns NaN.
    """

    def __init__(
        self,
        module: ModuleOp,
        samples: Iterable[Sample],
        seed: int = 0,
        outputs: Sequence[SSAValue] | None = None,
    ):
        self.module, self.main = module, main_function(module)
        self.interpreter = interpreter_of(module)
        self._batches = Batches(module)
        self.random = np.random.default_rng(seed)
        self.outputs: Sequence[SSAValue] = (
            outputs or _outputs(self.main) or result_values(self.main)
        )
        self.quantities = {output: quantities_of(self.main, output) for output in self.outputs}
        self.signals = {output: Moments() for output in self.outputs}
        self.exact: list[tuple[Sample, dict[SSAValue, Array]]] = []
        """The exact outputs on the samples."""
        with np.errstate(all="ignore"):
            every = list(samples)
            for sample, known in zip(every, self._forward(every, kept=self.outputs), strict=True):
                self.exact.append((sample, {output: known[output] for output in self.outputs}))
                for output, signal in self.signals.items():
                    signal.add(known[output][None])
        self.sizes = self._sizes()

    @property
    def varies(self) -> bool:
        """
        Whether any output varies over the samples. Otherwise there is no signal-to-noise ratio.
        """
        return any(signal.variance.any() for signal in self.signals.values())

    def _sizes(self) -> dict[SSAValue, NDArray[np.float32]]:
        powers = {output: signal.variance.reshape(-1) for output, signal in self.signals.items()}
        if not self.varies:
            powers = {output: np.square(s.mean).reshape(-1) for output, s in self.signals.items()}
        varying = sum(bool(power.any()) for power in powers.values())
        sizes: dict[SSAValue, NDArray[np.float32]] = {}
        for output, power in powers.items():
            groups = OutputNoise(self.quantities[output]).groups(power)
            sums = np.bincount(groups, power)
            counted = sums * max(np.count_nonzero(sums), 1) * max(varying, 1)
            size = np.divide(1.0, np.sqrt(counted), out=np.zeros(len(sums)), where=counted > 0)
            size = np.minimum(size, MAX_GRADIENT)
            shape = self.signals[output].mean.shape
            sizes[output] = size[groups].reshape(shape).astype(np.float32)
        return sizes

    def weigh(
        self, sample: Sample
    ) -> Iterator[tuple[SSAValue, Mapping[SSAValue, Array], NDArray[np.float32]]]:
        """
        Go backwards through the network, and yield each value that the outputs depend on, with two
        items: a dictionary with the elements of this value and of the values before it in the
        network, and the weights of its elements. The weights are gradients of the outputs with
        random signs, divided by the standard deviation of the outputs.

        `noise_at_outputs(weights, error)` is the noise-to-signal ratio at the outputs, a mean over
        the outputs, if `error` is added to the value. To save memory, the dictionary loses each
        value when the next value is yielded.
        """
        with np.errstate(all="ignore"):
            (known,) = self._forward([sample])
            seeds: dict[SSAValue, NDArray[np.float32]] = {}
            for output, size in self.sizes.items():
                signs = self.random.choice((-1.0, 1.0), size.shape)
                seeds[output] = (signs * size).astype(np.float32)
            previous: SSAValue | None = None
            for value, gradient in gradients(self.main, known, seeds, self._run):
                if previous is not None:
                    del known[previous]
                yield value, known, gradient
                previous = value

    def measure(
        self, samples: Iterable[Sample], rounded: Callable[[SSAValue, Array], Array]
    ) -> float:
        """
        Run the float network with `rounded(value, elements)` applied to each value, and return the
        noise-to-signal ratio, a mean over the outputs. Return NaN if no output varies.
        """
        return mean_share(self.shares(samples, rounded).values())

    def shares(
        self, samples: Iterable[Sample], rounded: Callable[[SSAValue, Array], Array]
    ) -> dict[SSAValue, float]:
        """
        Run the float network with `rounded(value, elements)` applied to each value, and return the
        noise-to-signal ratio of each output; NaN for an output that does not vary.
        """
        noise = self._noise()
        with np.errstate(all="ignore"):
            every = list(samples)
            for sample, noisy in zip(
                every, self._forward(every, rounded, self.outputs), strict=True
            ):
                exact = self._exact_outputs(sample)
                for output, each in noise.items():
                    each.add_noise(exact[output], noisy[output])
        return {output: each.share for output, each in noise.items()}

    def ratio_of(self, changed: "SensitivityMeter") -> float:
        """
        Return the signal-to-noise ratio in dB of the outputs of `changed`, the meter of a copy of
        the network with other constants, on the same samples; NaN if no output varies.
        """
        noise = self._noise()
        for (_, exact), (_, noisy) in zip(self.exact, changed.exact, strict=True):
            for output, other in zip(self.outputs, changed.outputs, strict=True):
                noise[output].add_noise(exact[output], noisy[other])
        return decibels(1.0, mean_share(each.share for each in noise.values()))

    def isolated(
        self, samples: Iterable[Sample], rounding: Mapping[SSAValue, Callable[[Array], Array]]
    ) -> dict[SSAValue, float]:
        """
        Return, for each value in `rounding`, the noise-to-signal ratio (a mean over the outputs) if
        only this value is rounded by the given function. Operations that do not depend on the value
        are not run again.
        """
        noise = {value: self._noise() for value in rounding}
        with np.errstate(all="ignore"):
            for sample in samples:
                (exact,) = self._forward([sample])
                for value, rounded in rounding.items():
                    changed = self._dependent(exact, value, rounded(exact[value]))
                    for output, each in noise[value].items():
                        each.add_noise(exact[output], changed.get(output, exact[output]))
        return {v: mean_share(each.share for each in n.values()) for v, n in noise.items()}

    def _noise(self) -> dict[SSAValue, OutputNoise]:
        return {
            output: OutputNoise(self.quantities[output], self.signals[output])
            for output in self.outputs
        }

    def _exact_outputs(self, sample: Sample) -> Mapping[SSAValue, Array]:
        for known, outputs in self.exact:
            if known is sample:
                return outputs
        return next(self._forward([sample], kept=self.outputs))

    def _dependent(
        self, exact: Mapping[SSAValue, Array], value: SSAValue, array: Array
    ) -> dict[SSAValue, Array]:
        """
        Replace `value` by `array`, compute all values that depend on it again, and return all of
        them.
        """
        changed = {value: array}
        for op in self.main.body.block.ops:
            if op.results and op.results[0] is not value and any(v in changed for v in op.operands):
                operands = [changed[v] if v in changed else exact[v] for v in op.operands]
                changed[op.results[0]] = self._run(op, operands)
        return changed

    def _forward(
        self,
        samples: Iterable[Sample],
        rounded: Callable[[SSAValue, Array], Array] | None = None,
        kept: Collection[SSAValue] | None = None,
    ) -> Iterator[dict[SSAValue, Array]]:
        """
        Run the float network on samples, and yield for each sample the elements of all values, or
        only of the values `kept`. If given, `rounded(value, elements)` replaces the elements
        [samples, *shape] of each value.
        """
        for batch in self._batches.divided(samples):
            known: dict[SSAValue, Batch] = {}
            found: list[dict[SSAValue, Array]] = [{} for _ in batch]
            with for_statistics():
                for _, value, elements in self._batches.run(batch, known):
                    if rounded is not None:
                        elements = elements._replace(array=rounded(value, elements.array))
                        known[value] = elements
                    if kept is None or value in kept:
                        for number, values in enumerate(found):
                            values[value] = elements.of(number)
            yield from found

    def _run(self, op: Operation, operands: Sequence[Array]) -> Array:
        with for_statistics():
            return self.interpreter.run_op(op, tuple(operands))[0]


def noise_at_outputs(weights: NDArray[np.float32], error: Array) -> float:
    """
    Return the noise-to-signal ratio at the outputs due to an `error` [positions, channels] of the
    elements of a value. `SensitivityMeter.weigh` yields the `weights` for the value.

    Each channel is summed over blocks of 16 positions (16x16 in feature maps) before it is squared.
    Over random signs, the mean of this square is the noise of the block, for any correlation of the
    errors.
    """
    # An element without effect may be infinite, such as the padding of a maximum pooling.
    with np.errstate(invalid="ignore"):
        moved = np.where(weights == 0, 0.0, weights * np.asarray(error, np.float64))
    for axis in range(max(moved.ndim - 3, 0), moved.ndim - 1):
        starts = range(0, moved.shape[axis], BLOCK_POSITIONS)
        moved = np.add.reduceat(moved, starts, axis=axis)
    return float(np.square(moved).sum())


def _outputs(main: FuncOp) -> list[SSAValue]:
    ops = [op for op in main.body.block.ops if op.results]
    before, after = set[Operation](quantized_operations(main)), set[Operation]()
    for op in ops:
        if op in before or any(value.owner in after for value in op.operands):
            after.add(op)
    for op in reversed(ops):
        if any(use.operation in before for use in op.results[0].uses):
            before.add(op)
    last = [
        op.results[0]
        for op in ops
        if op in before & after and any(u.operation not in before for u in op.results[0].uses)
    ]
    return list(dict.fromkeys(map(_after_sums, last)))


def _after_sums(value: SSAValue) -> SSAValue:
    """
    Follow `value` through moves and sums that remain in float, such as the sum with an enlarged
    image of which a network computes only the details: noise is a share of the sum.
    """
    while len(uses := list(value.uses)) == 1 and _is_sum_or_move(uses[0].operation):
        value = uses[0].operation.results[0]
    return value


def _is_sum_or_move(op: Operation) -> bool:
    if isinstance(op, graph.BinaryOp):
        return op.function in (graph.Binary.ADD, graph.Binary.SUB) and op.activation is None
    return keeps_scale(op) and len(data_operands(op)) == 1
