"""
Observe the ranges of the values of a float network on sample data.

The samples are divided into chunks of `CHUNK_SAMPLES`. The observations of the chunks are merged in
order, with or without worker processes, so the result does not depend on the number of workers.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import SSAValue

from ceras_ir.data.samples import Array
from ceras_ir.data.shards import count_samples
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function, module_of, observed_values, states_of
from ceras_ir.network.storage import (
    exponent,
    fitting_value_exponent,
    interval,
    network_values,
    set_exponent,
)
from ceras_ir.support.diagnostics import (
    InputError,
    UnsupportedError,
    UsageError,
    progress,
    remark,
)
from ceras_ir.support.options import out_of_range
from ceras_ir.support.workers import WorkerLost, Workers, in_order
from ceras_ir.transforms.pass_kinds import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.calibration import (
    Observations,
    chosen_samples,
    observe,
    sample_numbers,
)
from ceras_ir.transforms.quantization.analysis.kept_run import SHARED_SAMPLES, Recorder
from ceras_ir.transforms.quantization.other_lengths import at_length
from ceras_ir.transforms.quantization_options import ObserverName, ObserverOptions, SampleOptions

CHUNK_SAMPLES = 64
"""The number of samples in a chunk. It is even, because even and odd samples are compared."""


class Carrier(Protocol):
    """Serializes a network for a worker process, and restores it there."""

    def pack(self, module: ModuleOp) -> bytes: ...

    def unpack(self, data: bytes) -> ModuleOp: ...


@dataclass(frozen=True)
class Sharing:
    """
    The worker processes for calibration (`workers`), and the conversion of the network to bytes for
    them (`carrier`).
    """

    workers: Workers
    carrier: Carrier


@dataclass(frozen=True)
class ChunkTask:
    """
    The work of a worker process: observe `values` (numbers of values) of the serialized `network`
    on `samples` (numbers of samples) of the file or folder `path`.
    """

    network: bytes
    carrier: Carrier
    path: str
    samples: Sequence[int]
    values: Sequence[int]
    observer: ObserverName


_SHARING: ContextVar[Sharing | None] = ContextVar("calibration_sharing", default=None)


@contextmanager
def calibrating_by(sharing: Sharing) -> Generator[None]:
    """Inside the `with` block, distribute calibration to the worker processes of `sharing`."""
    token = _SHARING.set(sharing)
    try:
        yield
    finally:
        _SHARING.reset(token)


@dataclass(frozen=True)
class OtherLengths:
    """
    Further lengths at which ranges are observed: the fused network at the length of the samples,
    and at each other length. Shorter samples are the beginnings of the samples.
    """

    base: ModuleOp
    others: Sequence[ModuleOp]

    def observe(
        self,
        found: Observations,
        module: ModuleOp,
        samples: Callable[[], Iterable[Mapping[str, Array]]],
        values: Sequence[SSAValue],
        observer: ObserverName,
    ) -> None:
        """Add the observations of the values of `module` at the other lengths to `found`."""
        count = found.samples
        numbers = {v: i for i, v in enumerate(network_values(main_function(module).body.block))}
        for other in self.others:
            shorter = at_length(module, self.base, other)
            every = list(network_values(main_function(shorter).body.block))
            inputs = network_inputs(main_function(shorter))
            # States have the same shape at each length.
            parts = (
                {**sample, **{t.name: beginning(sample[t.name], t.shape) for t in inputs}}
                for sample in samples()
            )
            found.merge(observe(shorter, parts, [every[numbers[v]] for v in values], observer))
        # The number of different samples decides whether rare values are known.
        found.samples = count


def beginning(array: Array, shape: Sequence[int]) -> Array:
    """Return the first elements of each dimension of an array, of this shape."""
    return np.ascontiguousarray(array[tuple(slice(extent) for extent in shape)])


_LENGTHS: ContextVar[OtherLengths | None] = ContextVar("calibration_lengths", default=None)


@contextmanager
def observing_lengths(lengths: OtherLengths) -> Generator[None]:
    """Observe ranges in this context also at other lengths of an input."""
    token = _LENGTHS.set(lengths)
    try:
        yield
    finally:
        _LENGTHS.reset(token)


def observe_data(
    module: ModuleOp,
    path: str,
    limit: int,
    draw: int | None,
    values: Sequence[SSAValue],
    observer: ObserverName,
    *,
    keeps: bool = False,
) -> Observations:
    """
    Run the network on samples of the file or folder `path`, and return the statistics of `values`.
    At most `limit` samples are used, selected at equal distances or by the seed `draw`. `observer`
    is the name of the rule that derives a range. With `keeps`, facts for later passes are kept.
    """
    inputs = network_inputs(main_function(module))
    numbers = sample_numbers(module, count_samples(path, inputs), limit, draw)
    chunks = [numbers[at : at + CHUNK_SAMPLES] for at in range(0, len(numbers), CHUNK_SAMPLES)]
    shared = sample_numbers(module, len(numbers), SHARED_SAMPLES)
    recorder = Recorder(module, shared) if keeps else None
    observations = _observe_chunks(module, path, chunks, values, observer, recorder)
    merged = Observations(len(values), observer)
    for found in progress(observations, "calibrating", len(chunks)):
        merged.merge(found)
    if recorder is not None:
        recorder.finish()
    if (lengths := _LENGTHS.get()) is not None:
        every = partial(chosen_samples, module, path, numbers)
        lengths.observe(merged, module, every, values, observer)
    return merged


def _observe_chunks(
    module: ModuleOp,
    path: str,
    chunks: Sequence[Sequence[int]],
    values: Sequence[SSAValue],
    observer: ObserverName,
    recorder: Recorder | None,
) -> Iterator[Observations]:
    sharing = _SHARING.get()
    if sharing is None or len(chunks) < 2 or states_of(main_function(module)):
        # A single generator serves all chunks: states continue from sample to sample.
        samples = chosen_samples(module, path, [number for chunk in chunks for number in chunk])
        if recorder is not None:
            samples = recorder.seen(samples)
        for chunk in chunks:
            yield observe(module, islice(samples, len(chunk)), values, observer, recorder)
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
    """Observe the values of a network on a part of the samples. It runs in a worker process."""
    module = _network(task.carrier, task.network)
    every = list(network_values(main_function(module).body.block))
    samples = chosen_samples(module, task.path, task.samples)
    return observe(module, samples, [every[number] for number in task.values], task.observer)


@lru_cache(maxsize=1)
def _network(carrier: Carrier, network: bytes) -> ModuleOp:
    """
    Return the parsed network. A worker process parses it only a single time, because this is as
    slow as ten samples.
    """
    return carrier.unpack(network)


MAX_SYNTHETIC_SAMPLES = 6
"""The maximum number of synthetic samples. More samples take longer without better ranges."""

NOT_FINITE = (
    "the result is not finite on synthetic samples, which may be unlike real inputs; give "
    "calibration data"
)


@dataclass(frozen=True)
class ObserveRangesPass(ObserverOptions, SampleOptions, FloatNetworkPass):
    """
    Record `graph.range` and `graph.exponent` of each value of a float network.

    The range is the minimum and the maximum element. The exponent is that of the scale. If a zero
    point removes at least a tenth of the error, `graph.affine` holds the best exponent and zero
    point.

    The error is the sum of squared errors over all observed elements, with two refinements:

    1. Clipping errors have a higher weight, because neighboring elements of a feature map are
       clipped to the same side and their errors add up, while rounding errors cancel. The weight is
       the root of the side length of the feature map, at most 4 (16x16 positions), and 1 in a
       vector.
    2. If a value has a single consumer that is a function, such as SiLU after a product, the error
       is measured after the function, for each channel.

    Ranges have these sources, in this order:

    1. the samples of `calibration`, loaded one at a time;
    2. ranges that are already in the IR;
    3. synthetic samples of `graph.input_range` of the inputs, [0, 1] by default. A note on stderr
       reports them.

    The pass changes no value, and does not change a quantized network.

    Before:

        func.func @main(%x: tensor<2xf32> {graph.range = array<f32: -3.0, 3.0>}) -> tensor<2xf32> {
          %y = graph.unary <sigmoid> %x {graph.range = array<f32: 0.0, 1.0>} : tensor<2xf32>
          func.return %y : tensor<2xf32>
        }

    After:

        func.func @main(%x: tensor<2xf32> {graph.range = array<f32: -3.0, 3.0>,
            graph.exponent = -5 : i64}) -> tensor<2xf32> {
          %y = graph.unary <sigmoid> %x {graph.range = array<f32: 0.0, 1.0>,
              graph.exponent = -6 : i64} : tensor<2xf32>
          func.return %y : tensor<2xf32>
        }
    """

    name = "observe-ranges"

    keeps: bool = False
    """Keep facts about the samples that `check-outputs` and `round-weights` need."""

    def __post_init__(self) -> None:
        for name, limit in out_of_range(self):
            raise UsageError(f"option '{name}' of pass '{self.name}' {limit}")
        if self.seed < 0:
            raise UsageError(f"option 'seed' of pass '{self.name}' must not be negative")

    def change(self, main: FuncOp) -> None:
        # Other commands inline a network when they read it.
        if any(isinstance(op, CallOp) for op in main.walk()):
            remark(f"{self.name}: warning: called functions remain in float: add --inline before")
        if self.calibration is not None:
            self._from_file(main, self.calibration)
        else:
            self._from_ir(main)

    def _from_file(self, main: FuncOp, path: str) -> None:
        from ceras_ir.transforms.quantization.analysis.calibration import record

        try:
            values = list(observed_values(main))
            limit, draw = self.samples, self.draw
            module = module_of(main)
            found = observe_data(module, path, limit, draw, values, self.observer, keeps=self.keeps)
            doubt = record(main, values, found, self.observer)
        except UnsupportedError:
            raise  # Another length has other operations; the file is not the cause.
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
                set_exponent(value, fitting_value_exponent(value, known))
        if missing:
            self._synthetic(main, missing)

    def _synthetic(self, main: FuncOp, missing: list[SSAValue]) -> None:
        # Import the interpreter only if a network is run.
        from ceras_ir.data.sample_stream import synthetic_samples
        from ceras_ir.interpreters.network import with_states
        from ceras_ir.transforms.quantization.analysis.calibration import record

        count = min(self.samples, MAX_SYNTHETIC_SAMPLES)
        remark(
            f"{self.name}: warning: no calibration data for {len(missing)} values; their ranges "
            f"are those of {count} synthetic samples (seed {self.seed}) of the declared input "
            "range; give real samples (--calibrate FILE.npz; calibration=FILE.npz in ceras-opt)"
        )
        samples = synthetic_samples(main, count, self.seed)
        # Synthetic samples have no rare extremes.
        observer = "mse" if self.observer == "auto" else self.observer
        module = module_of(main)
        steps = with_states(module, progress(samples, "calibrating"))
        try:
            found = observe(module, steps, missing, observer)
            if (lengths := _LENGTHS.get()) is not None:
                every = partial(with_states, module, samples)
                lengths.observe(found, module, every, missing, observer)
            record(main, missing, found, observer)
        except UnsupportedError:
            raise  # Another length has other operations; the samples are not the cause.
        except InputError as error:
            raise InputError([replace(f, message=NOT_FINITE) for f in error.findings]) from None
