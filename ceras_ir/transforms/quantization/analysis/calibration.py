"""
Run the float network on samples and record the ranges of values.

The interpreter runs few samples at a time, and each value has an observer. No sample is kept, so
memory does not grow with the number of samples.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Self, TypeAlias

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
from ceras_ir.interpreters.batches import Batches
from ceras_ir.interpreters.float_functions import for_statistics
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
    NARROW,
    WIDE,
    is_kept_in_float,
    set_affine,
    set_exponent,
    set_range,
    widen,
    width,
)
from ceras_ir.support.diagnostics import Finding, InputError, node_name, progress
from ceras_ir.transforms.pass_kinds import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.channel_factors import ChannelStatistics
from ceras_ir.transforms.quantization.analysis.function_forms import reading_of
from ceras_ir.transforms.quantization.analysis.kept_states import KeptStates
from ceras_ir.transforms.quantization.analysis.observers import (
    Extremes,
    ObservedArray,
    make_observer,
)
from ceras_ir.transforms.quantization.analysis.sensitivity import BLOCK_POSITIONS, multiplications
from ceras_ir.transforms.quantization_options import ObserverName, SampleOptions

if TYPE_CHECKING:
    from ceras_ir.transforms.quantization.analysis.kept_run import Recorder
    from ceras_ir.transforms.quantization.analysis.sensitivity import Sample

Array = NDArray[np.generic]

MIN_CLIPPING_SAMPLES = 16
"""The minimum number of samples with which values are clipped."""

MIN_RELIABLE_SAMPLES = 32

MAX_STRIDE = 8
"""The maximum number of steps of a sequence per observed step. Running steps is fast, and a longer
part of a sequence, such as speech with pauses, is more representative."""

MAX_STEP_MACS = 100_000_000
"""The number of multiplications per step above which unobserved steps would take minutes."""

MAX_UNSTABLE_SHARE = 0.05
"""The maximum share of values whose range differs by an octave between halves of the data."""


class Observations:
    """
    The statistics of several values over the samples so far: an observer for each value, in the
    order of the values.
    """

    def __init__(self, count: int, observer: ObserverName):
        self.observers: list[Extremes] = [make_observer(observer) for _ in range(count)]
        self.halves = [[0.0, 0.0] for _ in range(count)]
        """The largest magnitudes of the even and of the odd samples."""
        self._added = [0] * count
        self.samples = 0

    def add(self, number: int, array: ObservedArray, value: SSAValue) -> None:
        half, side = self.halves[number], self._added[number] % 2
        self._added[number] += 1
        self.observers[number].observe(array)
        if not array.is_finite:
            raise not_finite(value)
        half[side] = max(half[side], array.magnitude)

    def merge(self, following: Self) -> None:
        """
        Add the statistics of the same values over later samples, which another process may have
        collected.
        """
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
    recorder: Recorder | None = None,
) -> Observations:
    """
    Run the float network on `samples`, and return the statistics of `values`. `observer` is the
    name of the rule that derives a range. `recorder` receives the elements of all values.
    """
    numbers = {value: i for i, value in enumerate(values)}
    found = Observations(len(values), observer)
    readings = [(reading_of(value), _masking(value)) for value in values]

    def add(value: SSAValue, array: NDArray[np.float32]) -> None:
        if recorder is not None:
            recorder.add(value, array)
        if (number := numbers.get(value)) is not None:
            reading, data = readings[number]
            found.add(number, reading.observed(data(array)), value)

    def counted() -> Iterator[Mapping[str, Array]]:
        for sample in samples:
            yield sample
            found.samples += 1

    watch(module, counted(), add)
    return found


def record(
    main: FuncOp, values: Sequence[SSAValue], found: Observations, observer: ObserverName
) -> str | None:
    """
    Record the observed range and the exponent of the scale of each value as attributes. `found` has
    the statistics of `values`. Return a warning about the samples, or `None`.

    The observer `auto` does not clip values if there are fewer than `MIN_CLIPPING_SAMPLES` samples,
    because they do not show how rare an extreme is. It also does not clip operands and results of a
    softmax.
    """
    # The largest scores of a softmax are rare but decide; clipped probabilities do not add up to 1.
    unclipped = set(values) if found.samples < MIN_CLIPPING_SAMPLES else _softmax_values(main)
    for value, observed in zip(values, found.observers, strict=True):
        set_range(value, observed.low, observed.high)
        observed.functions = reading_of(value).functions
        observed.clipping_weight = _clipping_weight(value)
        observed.bits = min(width(value), NARROW)
        chosen = observed.choice(clips=observer != "auto" or value not in unclipped)
        set_exponent(value, chosen.exponent)
        set_affine(value, chosen.affine)
        if width(value) == WIDE:
            widen(value)
    return _constant_input(main, values, found) or _doubt(found.samples, found.halves)


def _clipping_weight(value: SSAValue) -> float:
    """
    Return the weight of clipping errors compared with rounding errors. It is 1 for a single
    position and 4 for feature maps of 16x16 positions and more (the fourth root of the positions),
    because clipping errors of neighboring positions add up. The last axis is the channels.
    """
    positions = prod(shape_of(value)[:-1])
    return float(min(max(positions, 1), BLOCK_POSITIONS**2)) ** 0.25


def _constant_input(main: FuncOp, values: Sequence[SSAValue], found: Observations) -> str | None:
    states = {state.argument for state in states_of(main)}
    named = zip(main.body.block.args, input_names(main), strict=True)
    inputs: dict[SSAValue, str] = {v: name for v, name in named if v not in states}
    known = {v: o for v, o in zip(values, found.observers, strict=True) if v in inputs}
    if not known or any(observer.low != observer.high for observer in known.values()):
        return None
    if all(prod(shape_of(v)) <= 1 for v in known):
        return None
    value, observer = next(iter(known.items()))
    return (
        f"input '{inputs[value]}' is {observer.low:g} everywhere in the calibration data, which "
        "therefore has no range: give typical inputs of the network"
    )


def _softmax_values(main: FuncOp) -> set[SSAValue]:
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
    if count < MIN_RELIABLE_SAMPLES:
        samples = "sample" if count == 1 else "samples"
        return (
            f"only {count} calibration {samples}: give {MIN_RELIABLE_SAMPLES} or more for "
            "reliable ranges"
        )
    unstable = sum(max(pair) > 2 * min(pair) for pair in halves)
    if unstable > MAX_UNSTABLE_SHARE * len(halves):
        return (
            f"the ranges of {unstable} of {len(halves)} values differ by more than a factor of two "
            f"between the halves of {count} calibration samples: give more samples"
        )
    return None


def calibration_samples(
    module: ModuleOp,
    path: str,
    limit: int,
    title: str = "calibrating",
    draw: int | None = None,
    count: int | None = None,
) -> Iterator[Mapping[str, Array]]:
    """
    Yield calibration samples of the file or folder `path` with a progress bar called `title`: at
    most `limit` samples, selected as by `sample_numbers` with the seed `draw`. If `count` is given,
    yield at most `count` of these.
    """
    main = main_function(module)
    inputs = network_inputs(main)
    try:
        numbers = sample_numbers(module, count_samples(path, inputs), limit, draw)
        if count is not None:
            numbers = [numbers[i] for i in sample_numbers(module, len(numbers), count)]
        yield from progress(chosen_samples(module, path, numbers), title, len(numbers))
    except InputError as error:
        error.file = error.file or path
        raise


def sample_numbers(
    module: ModuleOp, total: int, limit: int, draw: int | None = None
) -> Sequence[int]:
    """
    Return the numbers of the calibration samples to use, in ascending order: at most `limit` of
    `total` samples, at equal distances or, with a seed `draw`, at random.

    Samples of a network with states are the steps of a sequence, and all steps up to the last
    selected step must run. The distances are then at most `MAX_STRIDE`, and 1 if a step has many
    multiplications.
    """
    count = min(limit, total)
    if draw is not None:
        chosen = np.random.default_rng(draw).choice(total, count, replace=False)
        return sorted(int(number) for number in chosen)
    main = main_function(module)
    if states_of(main):
        total = min(total, count if multiplications(main) > MAX_STEP_MACS else count * MAX_STRIDE)
    return [i * total // count for i in range(count)]


_KEPT_STATES = KeptStates()
"""The states that the last pass computed."""


def chosen_samples(
    module: ModuleOp, path: str, numbers: Sequence[int]
) -> Iterator[Mapping[str, Array]]:
    """
    Yield the samples of the file or folder `path` with the ascending `numbers`. An element that is
    not finite is an error, except NaN in an input for which NaN marks a missing value.

    For a network with states, the steps in between run too, and each sample includes the states
    before the step.
    """
    main = main_function(module)
    inputs, lacking = network_inputs(main), inputs_with_missing_values(main)
    if not states_of(main):
        yield from (finite(each, lacking) for each in samples_at(path, inputs, numbers))
        return
    before = range(max(numbers, default=-1) + 1)

    def steps() -> Iterator[Mapping[str, Array]]:
        return (finite(each, lacking) for each in samples_at(path, inputs, before))

    states = _KEPT_STATES.with_states(module, steps, numbers)
    for sample, known in zip(samples_at(path, inputs, numbers), states, strict=True):
        yield {**finite(sample, lacking), **known}


def finite(sample: Mapping[str, Array], lacking: Collection[str]) -> Mapping[str, Array]:
    """
    Return `sample`, or raise an `InputError` if an element is not finite. NaN is permitted in the
    inputs `lacking`, for which it marks a missing value.
    """
    for name, array in sample.items():
        if not is_finite(array, allow_nan=name in lacking):
            raise not_finite(name)
    return sample


def watch(
    module: ModuleOp,
    samples: Iterable[Mapping[str, Array]],
    observe: Callable[[SSAValue, NDArray[np.float32]], None],
) -> None:
    """
    Run the network on each sample, and call `observe` with each value (inputs and results) and the
    elements as float32, for one sample after the other. The order of values is arbitrary.
    """
    batches = Batches(module)
    for batch in batches.divided(samples):
        # An overflow, as of squares, becomes an error that names the operation.
        with np.errstate(all="ignore"), for_statistics():
            for _, value, found in batches.run(batch):
                for n in range(len(batch)):
                    observe(value, found.of(n).astype(np.float32, copy=False))


def channel_statistics(
    module: ModuleOp,
    samples: Iterable[Mapping[str, Array]],
    values: Iterable[SSAValue],
    *,
    powers: bool,
) -> dict[SSAValue, ChannelStatistics]:
    """
    Run the network on `samples`, and return the largest magnitudes of the channels of each value,
    with mean squares if `powers` is true. Raise an `InputError` for an element that is not finite.
    """
    wanted = {value: (reading_of(value), _masking(value)) for value in values}
    found: dict[SSAValue, ChannelStatistics] = {}

    def add(value: SSAValue, array: NDArray[np.float32]) -> None:
        if value not in wanted:
            return
        if value not in found:
            found[value] = ChannelStatistics(array.shape[-1] if array.ndim else 1)
        reading, data = wanted[value]
        observed = reading.observed(data(array))
        found[value].add(observed, powers=powers)
        if not observed.is_finite:
            raise not_finite(value)

    watch(module, samples, add)
    return found


Masking: TypeAlias = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def _masking(value: SSAValue) -> Masking:
    """
    Return a function of the elements of `value`, which replaces elements that do not represent data
    by 0: infinities of values that remain in float, such as masks of scores.

    NaN is also replaced if all consumers are float operations or conditions, for example a Where
    that selects other elements. -inf is also replaced if all consumers are maximum poolings.
    """
    rest = _other_masking(value)
    if not _only_pooled(value):
        return rest
    return lambda array: rest(np.where(np.isneginf(array), np.float32(0), array))


def _other_masking(value: SSAValue) -> Masking:
    if isinstance(value.owner, Operation) and not is_kept_in_float(value.owner):
        return lambda array: array
    users = [use.operation for use in value.uses]
    if all(op.results and (is_kept_in_float(op) or is_plain(op.results[0])) for op in users):
        return lambda array: np.where(np.isfinite(array), array, np.float32(0))
    if isinstance(value.owner, Block):
        return lambda array: array
    return lambda array: np.where(np.isinf(array), np.float32(0), array)


def _only_pooled(value: SSAValue) -> bool:
    users = [use.operation for use in value.uses]
    return bool(users) and all(
        (isinstance(op, Pool2dOp) and op.function is Pool.MAX)
        or (is_alias(op) and _only_pooled(op.results[0]))
        for op in users
    )


def not_finite(value: SSAValue | str) -> InputError:
    """
    Return (do not raise) the error that elements of a value, or of the calibration data of the
    input called `value`, are not finite.
    """
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


@dataclass(frozen=True)
class CalibratedPass(SampleOptions, FloatNetworkPass):
    """
    Base class of passes that change a float network based on calibration data. Without data they
    change no operation.
    """

    def change(self, main: FuncOp) -> None:
        if self.calibration is not None:
            self.improve(main)

    @abstractmethod
    def improve(self, main: FuncOp) -> None:
        pass

    def data(
        self, main: FuncOp, title: str = "calibrating", count: int | None = None
    ) -> Iterator[Sample]:
        """
        Yield calibration samples with a progress bar called `title`, at most `count` if it is
        given.
        """

        assert self.calibration is not None
        module = module_of(main)
        return calibration_samples(module, self.calibration, self.samples, title, self.draw, count)
