"""
What rounding costs at the ends of a network, for all values at once.

The float network runs on a sample and every value is kept; one backward pass from random signs at
the ends says how an error in any element moves them. Errors in different channels, and in places
far from each other, are taken as independent, so that their noises add. Neighbours in one channel
are often rounded alike, as in a plain part of an image, and then their errors add, see
`noise_at_ends`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.float_functions import for_statistics
from ceras_ir.interpreters.network import check_inputs
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import main_function, result_values
from ceras_ir.network.quantizable import quantized_operations
from ceras_ir.transforms.quantization.analysis.gradients import gradients
from ceras_ir.transforms.quantization.analysis.output_noise import (
    Moments,
    OutputNoise,
    mean_share,
)
from ceras_ir.transforms.quantization.analysis.quantities import quantities_of

Array = NDArray[np.generic]
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
