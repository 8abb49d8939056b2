"""
Calibration by several workers, with the network that one of them alone would make.

The samples are cut into chunks of `CHUNK`; what observers saw of each chunk is merged in the order
of chunks, here as there. A network of no more samples than one chunk is observed as it always was.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ceras_ir.data.shards import count_samples
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function, states_of
from ceras_ir.network.storage import network_values
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.terminal import progress
from ceras_ir.support.workers import WorkerLost, Workers, in_order
from ceras_ir.transforms.quantization.analysis.calibration import (
    Observations,
    chosen_samples,
    observe,
    sample_numbers,
)
from ceras_ir.transforms.quantization.options import ObserverName

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
