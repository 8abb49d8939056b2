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
from ceras_ir.interpreters.network import check_inputs
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.interpreters.statistics_mode import for_statistics
from ceras_ir.network.function import main_function, result_values
from ceras_ir.network.quantizable import quantized_operations
from ceras_ir.transforms.quantization.analysis.gradients import gradients

Array = NDArray[np.generic]
Sample = Mapping[str, Array]

LARGE = 1_000_000_000
"""Multiplications per inference from which many samples at once would take minutes."""

NEIGHBOURS = 16
"""Positions along each axis of a map in which errors are not taken as independent."""

SAME = 1e-4
"""Share of an end's power below which int8 hardly shows what differs between its positions."""


def multiplications(main: FuncOp) -> int:
    """Of one inference."""
    return sum(op.macs for op in main.body.block.ops if isinstance(op, graph.LinearOperation))


class SensitivityMeter:
    """
    Weighs errors in the values of a float network by what they do at its ends: where integers end
    and the user's arithmetic begins, or at the outputs. Every end counts the same, less its mean.
    """

    def __init__(self, module: ModuleOp, seed: int = 0):
        self.module, self.main = module, main_function(module)
        self.interpreter = interpreter_of(module)
        self.random = np.random.default_rng(seed)
        self.ends: Sequence[SSAValue] = _ends(self.main) or result_values(self.main)

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
            seeds = {value: self._seed(known[value]) for value in dict.fromkeys(self.ends)}
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
        The noise in all samples over the signal in all, a mean over the ends, when every value is
        what `rounded` makes of it. A probability next to zero in one sample counts no more there.
        """
        noise, signal = dict.fromkeys(self.ends, 0.0), dict.fromkeys(self.ends, 0.0)
        with np.errstate(all="ignore"):
            for sample in samples:
                exact = self._forward(sample, kept=self.ends)
                noisy = self._forward(sample, rounded, self.ends)
                for end in noise:
                    noise[end] += _noise(noisy[end], exact[end])
                    signal[end] += _signal(exact[end])
        shares = [noise[end] / max(signal[end], 1e-30) for end in self.ends if signal[end] > 0.0]
        return sum(shares) / len(self.ends)

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

    def _seed(self, end: Array) -> NDArray[np.float32]:
        """Random signs, as large as one over the end's signal; nothing is relative to silence."""
        if (signal := _signal(end)) == 0.0:
            return np.zeros(end.shape, np.float32)
        power = max(signal, 1e-30) * len(self.ends)
        return (self.random.choice((-1.0, 1.0), end.shape) / power**0.5).astype(np.float32)


def noise_at_ends(weights: NDArray[np.float32], error: Array) -> float:
    """
    Noise over signal at the ends for an `error` of one value; `weights` are what `weigh` yields.

    The last axis has channels; before it are positions. Each channel is summed over blocks of 16
    positions, in maps 16 by 16, before it is squared: over random signs the mean of that is the
    noise of the whole block, however alike its errors are.
    """
    moved = np.asarray(weights * np.asarray(error, np.float64))
    for axis in range(max(moved.ndim - 3, 0), moved.ndim - 1):
        starts = range(0, moved.shape[axis], NEIGHBOURS)
        moved = np.add.reduceat(moved, starts, axis=axis)
    return float(np.square(moved).sum())


def _noise(noisy: Array, exact: Array) -> float:
    """
    The power of an error; equal infinities are none, and what rounding alone makes no number is an
    infinite one.
    """
    real, other = exact.astype(np.float64), noisy.astype(np.float64)
    same = (other == real) | (np.isnan(other) & np.isnan(real))
    power = float(np.square(np.where(same, 0.0, other - real)).sum())
    return np.inf if np.isnan(power) else power


def _signal(end: Array) -> float:
    """The power of what differs between positions; of all, where positions hardly differ."""
    rows = end.reshape(-1, end.shape[-1] if end.ndim else 1).astype(np.float64)
    whole = float(np.square(rows).sum())
    differing = float(np.square(rows - rows.mean(axis=0)).sum()) if len(rows) > 1 else whole
    return differing if differing > SAME * whole else whole


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
