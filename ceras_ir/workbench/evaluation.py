"""
Evaluate a quantized network and the float network on many samples, as native programs.

1. The samples are divided into shards. Workers evaluate shards; the results are merged in the order
   of shards, so the figures do not depend on the number of workers. Unreadable shards are counted
   and named.
2. The networks are compiled by the native target, independently of the target for which they were
   quantized: all targets give equal integers, which `ceras-verify` checks.
"""

import io
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.array_archive import write_arrays
from ceras_ir.data.samples import Array, as_samples, require_finite
from ceras_ir.data.shards import BadShard, Labelled, Shard, count_samples, read_shard, shards_of
from ceras_ir.driver.target_options import native_target
from ceras_ir.network.artefacts import Artefact, TensorInfo
from ceras_ir.network.function import inputs_with_missing_values, main_function
from ceras_ir.pipeline.build import build_target, open_folder, read_manifest
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.files import ContentCache, key_of
from ceras_ir.support.workers import WorkerLost, Workers, in_order, shipped_paths
from ceras_ir.targets.capabilities import Compiled
from ceras_ir.transforms.quantization.analysis.output_noise import Quantities
from ceras_ir.workbench.metrics.choose import Judge, Judgement, judgement_of
from ceras_ir.workbench.metrics.figures import Measured, measured

MAX_OPEN_NETWORKS = 4
"""The number of compiled networks that a process keeps."""


@dataclass(frozen=True)
class NativeNetwork:
    """
    A network compiled for this machine, as files by path, so that it can be sent to a worker. `key`
    is a digest of the files.
    """

    key: str
    files: tuple[tuple[str, bytes], ...]
    inputs_with_nan: frozenset[str]
    """Inputs that may contain NaN."""

    def opened(self) -> "OpenNetwork":
        """
        Return the network ready to run. Each process compiles the C files a single time, and keeps
        the last networks open.
        """
        if self.key in _OPEN_NETWORKS:
            _OPEN_NETWORKS.move_to_end(self.key)
        else:
            _OPEN_NETWORKS[self.key] = OpenNetwork(self)
            while len(_OPEN_NETWORKS) > MAX_OPEN_NETWORKS:
                _OPEN_NETWORKS.popitem(last=False)
        return _OPEN_NETWORKS[self.key]


class OpenNetwork:
    """A compiled network in a temporary folder, which is removed with the object."""

    def __init__(self, network: NativeNetwork):
        self._folder = TemporaryDirectory(prefix="ceras-native-")
        folder = Path(self._folder.name)
        for name, content in network.files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.machine: Compiled = open_folder(folder)
        manifest = read_manifest(folder)
        self.inputs: list[TensorInfo] = manifest.inputs
        self.outputs: list[TensorInfo] = manifest.outputs


_OPEN_NETWORKS: OrderedDict[str, OpenNetwork] = OrderedDict()


def native_network(module: ModuleOp, options: BuildOptions) -> NativeNetwork:
    """
    Compile `module`, which is fused and, if requested, quantized, for this machine. The module is
    changed.
    """
    native = native_target()().for_host()
    inputs_with_nan = inputs_with_missing_values(main_function(module))
    build = build_target(module, replace(options, target=native, insertions=()))
    files = tuple(_contents(build.files()))
    key = key_of(*(part for name, data in files for part in (name, data)))
    return NativeNetwork(key, files, inputs_with_nan)


def _contents(artefacts: list[Artefact]) -> Iterator[tuple[str, bytes]]:
    for artefact in artefacts:
        stream = io.BytesIO()
        artefact.write(stream)
        yield artefact.path, stream.getvalue()


@dataclass(frozen=True)
class Data:
    """
    The inputs, labels, metric and number of samples of an evaluation, as given on the command line.
    """

    inputs: str
    labels: str | None = None
    metric: str | None = None
    samples: int | None = None
    files: tuple[tuple[str, str], ...] = ()
    """Paths and digests of the files that a cluster stores elsewhere."""

    def here(self) -> "Data":
        """Return the data with the paths that the files have on this worker of a cluster."""
        files = dict(self.files)
        labels = None if self.labels is None else shipped_paths(self.labels, files)
        return replace(self, inputs=shipped_paths(self.inputs, files), labels=labels, files=())


@dataclass(frozen=True)
class CacheAt:
    """The folder and the size limit in bytes of a cache, sent to a worker, which opens it."""

    folder: str
    limit: int

    def open(self) -> ContentCache:
        return ContentCache(Path(self.folder), self.limit)


@dataclass(frozen=True)
class ShardEvaluation:
    """
    The task of a worker: to run the float and the quantized network on a shard (consecutive samples
    of a file) and compare the outputs.
    """

    shard: Shard
    data: Data
    total: int
    """The number of samples of all shards, for the check of labels."""
    real: NativeNetwork
    quantized: NativeNetwork
    cache: CacheAt | None = None
    """The cache of outputs of the float network, which is used for all quantized networks."""
    data_key: str = ""
    quantities: Mapping[str, Quantities] = field(default_factory=dict[str, Quantities])
    """
    For each output of the float network, the division of the elements into quantities, such as
    coordinates and scores, of which the noise is measured separately.
    """


@dataclass(frozen=True)
class Judged:
    """
    The metrics over all shards that could be loaded, the number of their samples, and the shards
    that could not be loaded.
    """

    measured: list[Measured]
    ratio: float
    """The signal-to-noise ratio of all outputs in decibels; NaN if no output varies."""
    count: int
    bad: list[BadShard]


def judge_shard(task: ShardEvaluation) -> "Judge | BadShard":
    """
    Run both networks on a shard and compare their outputs. Return the result, which can be merged
    with the results of other shards, or the reason why the shard cannot be loaded.
    """
    real, quantized = task.real.opened(), task.quantized.opened()
    data = task.data.here()
    path = shipped_paths(task.shard.path, dict(task.data.files))
    try:
        samples = list(read_shard(replace(task.shard, path=path), real.inputs))
        arrays = (each.sample for each in samples)
        require_finite(arrays, task.shard.path, task.shard.first, task.real.inputs_with_nan)
    except InputError as error:
        return BadShard(task.shard, str(error))
    judgement = _judgement(data, task.total, tuple(real.inputs))
    judgement = judgement.part(task.shard.start, task.shard.count)
    labels = [each.label for each in samples]
    if task.data.labels is None and None not in labels and task.data.metric != "detection":
        judgement = judgement.with_labels(np.array(labels, np.int64))
    judge = Judge(judgement, task.quantities)
    inputs = [_stored(each.sample, quantized.inputs) for each in samples]
    results = quantized.machine.run(inputs)
    for real_outputs, outputs in zip(_real_outputs(task, samples), results, strict=True):
        pair = real_outputs, _real(outputs, quantized.outputs)
        judge.add(*(as_samples(each, batched=True) for each in pair))
    return judge


def _stored(sample: Mapping[str, Array], inputs: Sequence[TensorInfo]) -> dict[str, Array]:
    # Quantize the inputs of a network with integer inputs, as `graph.quantize` does.
    found = dict(sample)
    for tensor in inputs:
        array, dtype = sample[tensor.name], np.dtype(tensor.dtype)
        if tensor.scale is not None and array.dtype.kind == "f" and dtype.kind == "i":
            bounds = np.iinfo(dtype.name)
            rounded = np.rint(array.astype(np.float32) / np.float32(tensor.scale))
            shifted = rounded.astype(np.float64) + tensor.zero_point
            found[tensor.name] = np.clip(shifted, bounds.min, bounds.max).astype(dtype)
    return found


def _real(outputs: Mapping[str, Array], tensors: Sequence[TensorInfo]) -> dict[str, Array]:
    # Dequantize integer outputs.
    found = dict(outputs)
    for tensor in tensors:
        if tensor.scale is not None:
            centred = outputs[tensor.name].astype(np.int64) - tensor.zero_point
            found[tensor.name] = centred.astype(np.float32) * np.float32(tensor.scale)
    return found


@lru_cache(maxsize=4)
def _judgement(data: Data, total: int, inputs: tuple[TensorInfo, ...]) -> Judgement:
    return judgement_of(data.metric, data.labels, data.inputs, total, list(inputs))


def _real_outputs(
    task: ShardEvaluation, samples: Sequence[Labelled]
) -> Iterable[Mapping[str, Array]]:
    inputs = [each.sample for each in samples]
    if task.cache is None:
        return task.real.opened().machine.run(inputs)

    def compute() -> bytes:
        results = list(task.real.opened().machine.run(inputs))
        stream = io.BytesIO()
        write_arrays(stream, {n: np.stack([r[n] for r in results]) for n in results[0]})
        return stream.getvalue()

    shard = task.shard
    key = key_of("outputs", task.real.key, task.data_key, f"{shard.start} {shard.count}")
    with np.load(io.BytesIO(task.cache.open().computed(key, compute))) as file:
        arrays: dict[str, Array] = {name: file[name] for name in file.files}
    return ({name: array[i] for name, array in arrays.items()} for i in range(len(samples)))


def tasks_of(
    data: Data,
    real: NativeNetwork,
    quantized: NativeNetwork,
    cache: CacheAt | None = None,
    data_key: str = "",
    quantities: Mapping[str, Quantities] | None = None,
) -> tuple[list[ShardEvaluation], list[BadShard]]:
    """
    Divide `data` into shards. Return the evaluation of each, and the files that cannot be read.
    `data_key` and `cache` are for the outputs of the float network.
    """
    bad = list[BadShard]()
    shards = shards_of(data.inputs, real.opened().inputs, data.samples, bad)
    total = sum(shard.count for shard in [*shards, *(each.shard for each in bad)])
    if data.samples is not None and data.labels is not None:
        total = count_samples(data.inputs, real.opened().inputs)
    if data.labels is not None and (unknown := [b for b in bad if not b.shard.count]):
        raise InputError(
            f"{unknown[0].reason}; the number of labels for this file is unknown, so the other "
            "labels cannot be assigned: remove the file and the labels of its samples",
            unknown[0].shard.path,
        )
    known = dict(quantities or {})
    tasks = [
        ShardEvaluation(s, data, total, real, quantized, cache, data_key, known) for s in shards
    ]
    return tasks, bad


def merged(
    results: Iterable["Judge | BadShard | WorkerLost"], tasks: Sequence[ShardEvaluation]
) -> Judged:
    """Merge the results of all shards, which are in the order of `tasks`."""
    judge = Judge(_judgement_here(tasks[0]), tasks[0].quantities) if tasks else None
    bad, count = list[BadShard](), 0
    for task, result in zip(tasks, results, strict=True):
        match result:
            case BadShard():
                bad.append(result)
            case WorkerLost(reason):
                bad.append(BadShard(task.shard, reason))
            case Judge():
                count += task.shard.count
                assert judge is not None
                judge.merge(result)
    if judge is None or not count:
        why = f": {bad[0].shard.path}: {bad[0].reason}" if bad else ""
        raise InputError(f"no shard of the data could be read{why}")
    return Judged(measured(judge.figures(), count), judge.ratio(), count, bad)


def _judgement_here(task: ShardEvaluation) -> Judgement:
    # The metric is not sent, because it can be a function of the user.
    return _judgement(task.data, task.total, tuple(task.real.opened().inputs))


def judge_all(
    tasks: Sequence[ShardEvaluation],
    workers: Workers,
    bad: Sequence[BadShard] = (),
    *,
    stop: bool = False,
) -> Judged:
    """
    Evaluate all `tasks` on `workers`, and merge the results. `bad` are shards that could not be
    loaded before. With `stop`, a shard that cannot be loaded is an error.
    """
    found = merged(_stopping(in_order(workers.run(judge_shard, tasks)), stop=stop), tasks)
    return replace(found, bad=[*bad, *found.bad])


def _stopping(
    results: Iterable["Judge | BadShard | WorkerLost"], *, stop: bool
) -> Iterator["Judge | BadShard | WorkerLost"]:
    for result in results:
        if stop and isinstance(result, BadShard):
            raise InputError(result.reason, str(result.shard))
        yield result
