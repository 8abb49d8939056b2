"""
Record what the values of a float network were on sample data.

Calibration by several workers makes the network that one of them alone would make. The samples are
cut into chunks of `CHUNK`; what observers saw of each chunk is merged in the order of chunks, here
as there. A network of no more samples than one chunk is observed as it always was.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ceras_ir.data.shards import count_samples
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function, module_of, observed_values, states_of
from ceras_ir.network.integer import fitting_exponent
from ceras_ir.network.storage import exponent, interval, network_values, set_exponent
from ceras_ir.support.diagnostics import InputError, UsageError, remark
from ceras_ir.support.options import out_of_range
from ceras_ir.support.terminal import progress
from ceras_ir.support.workers import WorkerLost, Workers, in_order
from ceras_ir.transforms.pass_kinds import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.calibration import (
    Observations,
    chosen_samples,
    observe,
    sample_numbers,
)
from ceras_ir.transforms.quantization_options import ObserverName, ObserverOptions, SampleOptions

# Calibration by several workers, with the network that one of them alone would make.

CHUNK = 64
"""Samples; an even number, because every other one is compared with those between."""


class Carrier(Protocol):
    """How a network gets to a worker."""

    def pack(self, module: ModuleOp) -> bytes: ...

    def unpack(self, data: bytes) -> ModuleOp: ...


@dataclass(frozen=True)
class Sharing:
    """Who observes, and how the network gets there."""

    workers: Workers
    carrier: Carrier


@dataclass(frozen=True)
class ChunkTask:
    """Some samples to observe."""

    network: bytes
    carrier: Carrier
    path: str
    samples: Sequence[int]
    values: Sequence[int]
    observer: ObserverName


_SHARING: ContextVar[Sharing | None] = ContextVar("calibration_sharing", default=None)


@contextmanager
def calibrating_by(sharing: Sharing) -> Generator[None]:
    """Have calibration below be done by these workers."""
    token = _SHARING.set(sharing)
    try:
        yield
    finally:
        _SHARING.reset(token)


def observe_data(
    module: ModuleOp,
    path: str,
    limit: int,
    draw: int | None,
    values: Sequence[SSAValue],
    observer: ObserverName,
) -> Observations:
    """Look at `values` on the samples of `sample_numbers`."""
    inputs = network_inputs(main_function(module))
    numbers = sample_numbers(module, count_samples(path, inputs), limit, draw)
    chunks = [numbers[at : at + CHUNK] for at in range(0, len(numbers), CHUNK)]
    seen = _observed(module, path, chunks, values, observer)
    merged = Observations(len(values), observer)
    for found in progress(seen, "calibrating", len(chunks)):
        merged.merge(found)
    return merged


def _observed(
    module: ModuleOp,
    path: str,
    chunks: Sequence[Sequence[int]],
    values: Sequence[SSAValue],
    observer: ObserverName,
) -> Iterator[Observations]:
    """What was seen of each chunk, in their order."""
    sharing = _SHARING.get()
    if sharing is None or len(chunks) < 2 or states_of(main_function(module)):
        # One sequence through all chunks: the state of a network goes on from sample to sample.
        samples = chosen_samples(module, path, [number for chunk in chunks for number in chunk])
        for chunk in chunks:
            yield observe(module, islice(samples, len(chunk)), values, observer)
        return
    block = main_function(module).body.block
    numbers = {value: i for i, value in enumerate(network_values(block))}
    network, chosen = sharing.carrier.pack(module), [numbers[value] for value in values]
    tasks = (ChunkTask(network, sharing.carrier, path, chunk, chosen, observer) for chunk in chunks)
    for found in in_order(sharing.workers.run(observe_chunk, tasks)):
        if isinstance(found, WorkerLost):
            raise InputError(f"calibration: {found.reason}", path)
        yield found


def observe_chunk(task: ChunkTask) -> Observations:
    """In a worker: look at the values of one chunk."""
    module = _network(task.carrier, task.network)
    every = list(network_values(main_function(module).body.block))
    samples = chosen_samples(module, task.path, task.samples)
    return observe(module, samples, [every[number] for number in task.values], task.observer)


@lru_cache(maxsize=1)
def _network(carrier: Carrier, network: bytes) -> ModuleOp:
    """The network of all chunks, read once in each worker: reading takes as long as ten samples."""
    return carrier.unpack(network)


SYNTHETIC_SAMPLES = 6
"""Made-up samples say little, so that more of them would only take longer."""

UNFIT = (
    "the result is not finite on synthetic samples, which the network was not made for; give "
    "calibration data"
)


@dataclass(frozen=True)
class ObserveRangesPass(ObserverOptions, SampleOptions, FloatNetworkPass):
    """
    Record `graph.range` and `graph.exponent` of every value of a float network. The range is the
    least and greatest element. The exponent is the power of two of the step in which the value is
    stored. Where a zero point would take a tenth of the error or more, `graph.affine` is the best
    exponent and zero point.

    Errors are squared, of everything seen. Those of clipping count more: where a map is clipped
    neighbours are clipped to the same side, and such errors add up, where those of rounding cancel.
    They count as often as the root of the map's side says, 4 times from 16x16 positions on, and
    once in a vector. What one function alone reads, as SiLU its sum of products, is judged behind
    that function, channel by channel.

    Ranges come from these sources, in this order:

    1. the samples of `calibration`, read one at a time;
    2. ranges that the IR already holds;
    3. synthetic samples of `graph.input_range` of the inputs, default [0, 1]. A note on stderr says
       so.

    Changes no value. A quantized network is left alone.
    """

    name = "observe-ranges"

    def __post_init__(self) -> None:
        for name, limit in out_of_range(self):
            raise UsageError(f"option '{name}' of pass '{self.name}' {limit}")
        if self.seed < 0:
            raise UsageError(f"option 'seed' of pass '{self.name}' must not be negative")

    def change(self, main: FuncOp) -> None:
        if self.calibration is not None:
            self._from_file(main, self.calibration)
        else:
            self._from_ir(main)

    def _from_file(self, main: FuncOp, path: str) -> None:
        from ceras_ir.transforms.quantization.analysis.calibration import record

        try:
            values = list(observed_values(main))
            limit, draw = self.samples, self.draw
            found = observe_data(module_of(main), path, limit, draw, values, self.observer)
            doubt = record(main, values, found, self.observer)
        except InputError as error:
            error.file = error.file or path
            raise
        if doubt is not None:
            remark(f"{self.name}: warning: {doubt}")

    def _from_ir(self, main: FuncOp) -> None:
        missing = list[SSAValue]()
        for value in observed_values(main):
            known = interval(value)
            if exponent(value) is not None:
                continue
            if known is None:
                missing.append(value)
            else:
                set_exponent(value, fitting_exponent(max(-known[0], known[1])))
        if missing:
            self._synthetic(main, missing)

    def _synthetic(self, main: FuncOp, missing: list[SSAValue]) -> None:
        # The interpreter is loaded only when something runs.
        from ceras_ir.data.synthetic_samples import synthetic_samples
        from ceras_ir.interpreters.network import with_states
        from ceras_ir.support.terminal import progress
        from ceras_ir.transforms.quantization.analysis.calibration import calibrate

        count = min(self.samples, SYNTHETIC_SAMPLES)
        remark(
            f"{self.name}: note: no calibration data for {len(missing)} values; their ranges "
            f"come from {count} synthetic samples (seed {self.seed}) of the declared input "
            "range; give data for real ones (--calibrate FILE.npz)"
        )
        samples = synthetic_samples(main, count, self.seed)
        # Made-up samples have no rare extremes.
        observer = "mse" if self.observer == "auto" else self.observer
        module = module_of(main)
        steps = with_states(module, progress(samples, "calibrating"))
        try:
            calibrate(module, steps, missing, observer)
        except InputError as error:
            raise InputError([replace(f, message=UNFIT) for f in error.findings]) from None
