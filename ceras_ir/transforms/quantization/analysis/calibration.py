"""
Calibration: run the float network on samples and record what its values were.

The interpreter runs one sample after the other and an observer per value looks on; nothing
of a sample is kept, so memory does not grow with their number.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ceras_ir.data.samples import is_finite
from ceras_ir.data.shards import count_samples, samples_at
from ceras_ir.dialects.graph import (
    BinaryOp,
    ConstantOp,
    Pool,
    Pool2dOp,
    SoftmaxOp,
    is_plain,
    shape_of,
)
from ceras_ir.interpreters.float_functions import for_statistics
from ceras_ir.interpreters.network import run, with_states
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import (
    input_names,
    inputs_with_missing_values,
    is_alias,
    keeps_scale,
    main_function,
    module_of,
    states_of,
)
from ceras_ir.network.storage import (
    WIDE,
    is_kept_in_float,
    set_affine,
    set_exponent,
    set_range,
    widen,
    width,
)
from ceras_ir.support.diagnostics import Finding, InputError, node_name
from ceras_ir.support.terminal import progress
from ceras_ir.transforms.pass_kinds import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.channel_factors import ChannelStatistics
from ceras_ir.transforms.quantization.analysis.function_forms import reading_of
from ceras_ir.transforms.quantization.analysis.observers import Extremes, Seen, make_observer
from ceras_ir.transforms.quantization.analysis.sensitivity import NEIGHBOURS, multiplications
from ceras_ir.transforms.quantization_options import ObserverName, SampleOptions
from ceras_ir.transforms.rebuilding import release_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ceras_ir.transforms.quantization.analysis.sensitivity import Sample

Array = NDArray[np.generic]

FEW, UNSURE = 16, 32
"""Samples below which nothing is clipped, and below which a network's ranges are chance."""

STRIDE = 8
"""How many steps of a sequence are run for each that is looked at: speech has pauses, and a look at
seconds of it costs little."""

LARGE_STEP = 100_000_000
"""Multiplications of a step from which that would cost minutes."""

LARGE_CONSTANTS = 1_000_000
"""Elements in all constants from which a look at everything that Python holds frees enough."""

APART = 0.05
"""Share of the values whose range may differ by more than an octave between halves of the data."""


def calibrate(
    module: ModuleOp,
    samples: Iterable[Mapping[str, Array]],
    values: Iterable[SSAValue],
    observer: ObserverName,
) -> str | None:
    """
    Run the network on `samples` and record range and exponent of `values`. The observer `auto`
    clips nothing of fewer than `FEW` samples: how rare an extreme is they cannot say. Nor does it
    clip what a softmax reads or makes. Returns what is doubtful about the samples, if anything.
    """
    chosen = list(values)
    found = observe(module, samples, chosen, observer)
    return record(main_function(module), chosen, found, observer)


class Observations:
    """What was seen of some values, in the order that they are in, of some samples."""

    def __init__(self, count: int, observer: ObserverName):
        self.observers: list[Extremes] = [make_observer(observer) for _ in range(count)]
        self.halves = [[0.0, 0.0] for _ in range(count)]
        """The peaks of every other sample, and of those between."""
        self.samples = 0

    def see(self, number: int, seen: Seen, value: SSAValue) -> None:
        half, side = self.halves[number], self.samples % 2
        self.observers[number].observe(seen)
        if not seen.is_finite:
            raise not_finite(value)
        half[side] = max(half[side], seen.magnitude)

    def merge(self, following: Self) -> None:
        """Take in what was seen of the samples behind these."""
        for mine, other in zip(self.observers, following.observers, strict=True):
            mine.merge(other)
        turned = self.samples % 2
        for half, other in zip(self.halves, following.halves, strict=True):
            half[:] = [max(half[i], other[i ^ turned]) for i in (0, 1)]
        self.samples += following.samples


def observe(
    module: ModuleOp,
    samples: Iterable[Mapping[str, Array]],
    values: Sequence[SSAValue],
    observer: ObserverName,
) -> Observations:
    """Run the network on `samples` and look at `values`."""
    numbers = {value: i for i, value in enumerate(values)}
    found = Observations(len(values), observer)
    readings = [reading_of(value) for value in values]

    def see(value: SSAValue, array: NDArray[np.float32]) -> None:
        if (number := numbers.get(value)) is not None:
            found.see(number, readings[number].seen(_without_masks(value, array)), value)

    for sample in samples:
        watch(module, [sample], see)
        found.samples += 1
    return found


def record(
    main: FuncOp, values: Sequence[SSAValue], found: Observations, observer: ObserverName
) -> str | None:
    """Write range and exponent of every value; what is doubtful about the samples, if anything."""
    # The greatest scores of a softmax are rare and decide; clipped probabilities sum to less.
    kept = set(values) if found.samples < FEW else _of_softmax(main)
    for value, seen in zip(values, found.observers, strict=True):
        set_range(value, seen.low, seen.high)
        seen.functions = reading_of(value).functions
        seen.alike = _clipped_alike(value)
        chosen = seen.choice(clips=observer != "auto" or value not in kept)
        set_exponent(value, chosen.exponent)
        set_affine(value, chosen.affine)
        if width(value) == WIDE:
            widen(value)
    if (constant := _constant_input(main, values, found)) is not None:
        return constant
    return _doubt(found.samples, found.halves)


def _clipped_alike(value: SSAValue) -> float:
    """
    How many neighbours are taken to be clipped together, of what is large in one place: the root of
    the side of a map, 4 from 16 by 16 positions on, and one where there is one position. The last
    axis has channels.
    """
    positions = prod(shape_of(value)[:-1])
    return float(min(max(positions, 1), NEIGHBOURS**2)) ** 0.25


def _constant_input(main: FuncOp, values: Sequence[SSAValue], found: Observations) -> str | None:
    """What is doubtful about data in which no input of floats ever changes."""
    kept = {state.argument for state in states_of(main)}
    named = zip(main.body.block.args, input_names(main), strict=True)
    inputs: dict[SSAValue, str] = {v: name for v, name in named if v not in kept}
    seen = {v: o for v, o in zip(values, found.observers, strict=True) if v in inputs}
    if not seen or any(observer.low != observer.high for observer in seen.values()):
        return None
    if all(prod(shape_of(v)) <= 1 for v in seen):
        return None
    value, observer = next(iter(seen.items()))
    return (
        f"input '{inputs[value]}' is {observer.low:g} everywhere in the calibration data, from "
        "which no range can be learnt: give inputs that the network was made for"
    )


def _of_softmax(main: FuncOp) -> set[SSAValue]:
    """What a softmax makes, or reads, moved, with constants added or multiplied."""
    found: set[SSAValue] = set()
    for op in reversed(list(main.body.block.ops)):
        if isinstance(op, SoftmaxOp):
            found |= {op.input, op.result}
        elif not found.isdisjoint(op.results) and (keeps_scale(op) or _has_constant(op)):
            found.update(op.operands)
    return found


def _has_constant(op: Operation) -> bool:
    return isinstance(op, BinaryOp) and any(isinstance(v.owner, ConstantOp) for v in op.operands)


def _doubt(count: int, halves: Sequence[Sequence[float]]) -> str | None:
    """Why so many samples, with these peaks of every value in either half, say little."""
    if count < UNSURE:
        samples = "sample" if count == 1 else "samples"
        return f"only {count} calibration {samples}; {UNSURE} or more keep ranges from being chance"
    apart = sum(max(pair) > 2 * min(pair) for pair in halves)
    if apart > APART * len(halves):
        return (
            f"the ranges of {apart} of {len(halves)} values differ by more than a factor of two "
            f"between the halves of {count} calibration samples: give more of them"
        )
    return None


def calibration_samples(
    module: ModuleOp,
    path: str,
    limit: int,
    what: str = "calibrating",
    draw: int | None = None,
    most: int | None = None,
) -> Iterator[Mapping[str, Array]]:
    """
    The samples of `sample_numbers`, or `most` of them, one at a time, with a progress bar that says
    `what` is done.
    """
    main = main_function(module)
    inputs = network_inputs(main)
    try:
        numbers = sample_numbers(module, count_samples(path, inputs), limit, draw)
        if most is not None:
            numbers = [numbers[i] for i in sample_numbers(module, len(numbers), most)]
        yield from progress(chosen_samples(module, path, numbers), what, len(numbers))
    except InputError as error:
        error.file = error.file or path
        raise
    # The next runs find free what these left, and what the pass before them has replaced.
    constants = (op for op in main.body.block.ops if isinstance(op, ConstantOp))
    if sum(prod(shape_of(op.result)) for op in constants) >= LARGE_CONSTANTS:
        release_memory()


def sample_numbers(
    module: ModuleOp, total: int, limit: int, draw: int | None = None
) -> Sequence[int]:
    """
    Which samples are looked at, in ascending order: `limit` at most of `total` with even distances,
    or those that the seed `draw` chooses. Samples of a network with states are its steps, all of
    which are run up to the last: distances are at most `STRIDE`, and 1 where steps are large.
    """
    count = min(limit, total)
    if draw is not None:
        chosen = np.random.default_rng(draw).choice(total, count, replace=False)
        return sorted(int(number) for number in chosen)
    main = main_function(module)
    if states_of(main):
        total = min(total, count if multiplications(main) > LARGE_STEP else count * STRIDE)
    return [i * total // count for i in range(count)]


def chosen_samples(
    module: ModuleOp, path: str, numbers: Sequence[int]
) -> Iterator[Mapping[str, Array]]:
    """
    The samples in `path` of these ascending numbers, all of them finite, but for NaN that the
    network replaces. A network with states runs through what lies before them, and its states there
    are a part of them.
    """
    main = main_function(module)
    inputs, lacking = network_inputs(main), inputs_with_missing_values(main)
    if not states_of(main):
        yield from (finite(each, lacking) for each in samples_at(path, inputs, numbers))
        return
    before = samples_at(path, inputs, range(max(numbers, default=-1) + 1))
    steps = (finite(each, lacking) for each in before)
    wanted = set(numbers)
    for number, sample in enumerate(with_states(module, steps)):
        if number in wanted:
            yield sample


def finite(sample: Mapping[str, Array], lacking: Collection[str]) -> Mapping[str, Array]:
    """`sample`, unless something in it is not finite; inputs `lacking` may have NaN."""
    for name, array in sample.items():
        if not is_finite(array, allow_nan=name in lacking):
            raise not_finite(name)
    return sample


def watch(
    module: ModuleOp,
    samples: Iterable[Mapping[str, Array]],
    see: Callable[[SSAValue, NDArray[np.float32]], None],
) -> None:
    """Show `see` every value of the network as floats, arguments included, on every sample."""
    main = main_function(module)

    def look(op: Operation, results: tuple[Array, ...]) -> None:
        for value, array in zip(op.results, results, strict=True):
            see(value, array.astype(np.float32, copy=False))

    for sample in samples:
        # What overflows, as squares do, becomes an error that names the operation.
        with np.errstate(all="ignore"), for_statistics():
            for name, argument in zip(input_names(main), main.body.block.args, strict=True):
                see(argument, sample[name].astype(np.float32, copy=False))
            run(module, sample, look)


def channel_statistics(
    module: ModuleOp,
    samples: Iterable[Mapping[str, Array]],
    values: Iterable[SSAValue],
    *,
    powers: bool,
) -> dict[SSAValue, ChannelStatistics]:
    """Magnitudes of the channels of `values`; what is not finite is an error."""
    wanted = {value: reading_of(value) for value in values}
    found: dict[SSAValue, ChannelStatistics] = {}

    def see(value: SSAValue, array: NDArray[np.float32]) -> None:
        if value not in wanted:
            return
        if value not in found:
            found[value] = ChannelStatistics(array.shape[-1] if array.ndim else 1)
        seen = wanted[value].seen(_without_masks(value, array))
        found[value].see(seen, powers=powers)
        if not seen.is_finite:
            raise not_finite(value)

    watch(module, samples, see)
    return found


def _without_masks(value: SSAValue, array: NDArray[np.float32]) -> NDArray[np.float32]:
    """
    `array`, with 0 for infinities if it stays in float, as masks of scores do; for NaN too if only
    floats and conditions are made of it, as where a later choice leaves out what has no logarithm,
    or what an input lacks. If only maximum poolings use the value, -inf becomes 0 too.
    """
    if _only_pooled(value):
        array = np.where(np.isneginf(array), np.float32(0), array)
    if isinstance(value.owner, Operation) and not is_kept_in_float(value.owner):
        return array
    readers = [use.operation for use in value.uses]
    if all(op.results and (is_kept_in_float(op) or is_plain(op.results[0])) for op in readers):
        return np.where(np.isfinite(array), array, np.float32(0))
    if isinstance(value.owner, Block):
        return array
    return np.where(np.isinf(array), np.float32(0), array)


def _only_pooled(value: SSAValue) -> bool:
    """Whether all users of a value are maximum poolings, directly or through moves."""
    readers = [use.operation for use in value.uses]
    return bool(readers) and all(
        (isinstance(op, Pool2dOp) and op.function is Pool.MAX)
        or (is_alias(op) and _only_pooled(op.results[0]))
        for op in readers
    )


def not_finite(value: SSAValue | str) -> InputError:
    """What is wrong when a value of the network, or the data of an input, is not finite."""
    if isinstance(value, OpResult):
        op = value.op
        message = "the result is not finite on the calibration samples; check their scale and type"
        return InputError([Finding(node_name(op), op.name, message)])
    if isinstance(value, BlockArgument):
        main = value.block.parent_op()
        assert isinstance(main, FuncOp)
        value = input_names(main)[value.index]
    return InputError(
        f"the calibration data for input '{value}' has NaN or infinite elements: replace them, for "
        "example by np.nan_to_num. An attention mask can use -10000 instead of -inf. NaN for a "
        "missing value is accepted only if the network replaces it (IsNaN and Where, Imputer, "
        "trees)"
    )


# What the passes of `quantize` that learn from calibration data have in common.


@dataclass(frozen=True)
class CalibratedPass(SampleOptions, FloatNetworkPass):
    """
    Change a float network so that its integers become better, as `samples` samples of `calibration`
    show. Without data nothing is done. `improve` is the change that a pass makes.
    """

    def change(self, main: FuncOp) -> None:
        if self.calibration is not None:
            self.improve(main)

    @abstractmethod
    def improve(self, main: FuncOp) -> None:
        """Change `main`, of which there is data."""

    def data(
        self, main: FuncOp, what: str = "calibrating", most: int | None = None
    ) -> Iterator[Sample]:
        """The samples, `most` at most, one by one, with a progress bar that says `what` is done."""

        assert self.calibration is not None
        module = module_of(main)
        return calibration_samples(module, self.calibration, self.samples, what, self.draw, most)
