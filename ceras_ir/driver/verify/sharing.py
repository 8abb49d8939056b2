"""
Run samples in files on workers, a shard at a time.

Inputs are loaded where they are used, and never all at once. Outputs are in the order of samples,
so the first difference does not depend on the number of workers. A network is sent as text, a
machine as its compiled files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import overload

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.samples import Array, require_finite
from ceras_ir.data.shards import Shard, read_shard, samples_at, shards_of
from ceras_ir.interpreters.network import in_turn
from ceras_ir.network.artefacts import TensorInfo, network_inputs
from ceras_ir.network.function import inputs_with_missing_values, main_function, states_of
from ceras_ir.pipeline.build import read_manifest
from ceras_ir.pipeline.parsing import TextCarrier
from ceras_ir.pipeline.stage_cache import digest_of
from ceras_ir.support.diagnostics import InputError, UsageError, progress
from ceras_ir.support.files import key_of
from ceras_ir.support.workers import WorkerLost, Workers, in_order, shipped
from ceras_ir.targets.capabilities import Executable, NotEmulated
from ceras_ir.targets.protocol import Target

Sample = Mapping[str, Array]
Outputs = dict[str, Array]


@dataclass(frozen=True)
class SharedMachine:
    """The files of a compiled folder, sent to workers, and the target that runs them."""

    target: Target
    files: tuple[tuple[str, bytes], ...]
    other: str | None = None
    """
    The name of the machine if it is not the main machine of the target, such as an emulated core.
    """


@dataclass(frozen=True)
class ShardTask:
    """
    The task of a worker: a shard (consecutive samples of a file), and the network that runs it.
    `runs` is the IR as text, or a compiled folder.
    """

    runs: bytes | SharedMachine
    shard: Shard
    inputs: tuple[TensorInfo, ...]
    digest: str
    """
    The digest of the file of the shard, because a cluster stores the file under another path; ""
    for a folder.
    """
    nullable: frozenset[str]
    """Inputs that may have NaN."""


def run_task(task: ShardTask) -> list[Outputs] | str:
    """
    Return the outputs of each sample of the shard, or the reason why the shard cannot be loaded.
    """
    try:
        shard = replace(task.shard, path=shipped(task.digest, task.shard.path))
        samples = [each.sample for each in read_shard(shard, task.inputs)]
        require_finite(samples, task.shard.path, task.shard.first, task.nullable)
    except InputError as error:
        return str(error)
    if isinstance(task.runs, SharedMachine):
        return list(_opened(task.runs)[1].run(samples))
    return list(in_turn(_parsed(task.runs), samples))


@lru_cache(maxsize=1)
def _parsed(text: bytes) -> ModuleOp:
    return TextCarrier().unpack(text)


_OPEN_MACHINES: dict[str, tuple[TemporaryDirectory[str], Executable]] = {}


def _opened(machine: SharedMachine) -> tuple[TemporaryDirectory[str], Executable]:
    """
    Return the compiled network of `machine`, ready to run, and the temporary folder. The last
    network remains open for further shards.
    """
    parts = (part for name, content in machine.files for part in (name, content))
    key = key_of(repr(machine.target), machine.other or "", *parts)
    if key not in _OPEN_MACHINES:
        _OPEN_MACHINES.clear()
        folder = TemporaryDirectory(prefix="ceras-verify-")
        place = Path(folder.name)
        for name, content in machine.files:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
        manifest = read_manifest(place)
        opened: Executable
        if machine.other is None:
            opened = machine.target.open(place, manifest)
        else:
            other = dict(machine.target.other_machines(place, manifest))[machine.other]
            # A worker can lack a tool of the computer that sends the samples.
            if isinstance(other, NotEmulated):
                raise InputError(f"{machine.other} is not emulated: {other.reason}; {other.remedy}")
            opened = other
        _OPEN_MACHINES[key] = folder, opened
    return _OPEN_MACHINES[key]


class SharedSamples(Sequence[Sample]):
    """
    The first `limit` samples of files and folders (all if `None`). Networks are run on them by
    `workers`, a shard (consecutive samples of a file) at a time.
    """

    def __init__(self, workers: Workers, paths: str, module: ModuleOp, limit: int | None):
        if states_of(main_function(module)):
            raise UsageError("a network with states needs the samples in order: remove --workers")
        self.inputs = tuple(network_inputs(main_function(module)))
        self.nullable = inputs_with_missing_values(main_function(module))
        self.paths, self.workers = paths, workers
        self.shards = shards_of(paths, self.inputs, limit)
        files = {shard.path for shard in self.shards}
        self._digests = {path: digest_of(path) for path in files if Path(path).is_file()}

    def __len__(self) -> int:
        return sum(shard.count for shard in self.shards)

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        if isinstance(index, slice):
            return list(samples_at(self.paths, self.inputs, range(len(self))[index]))
        return next(samples_at(self.paths, self.inputs, [index]))

    def interpret(self, module: ModuleOp, level: str) -> list[Outputs]:
        """
        Return the outputs of the interpreter for all samples on `module`. `level` is the text of
        the progress bar.
        """
        return self._run(TextCarrier().pack(module), level)

    def execute(self, target: Target, folder: Path, label: str, other: str | None) -> list[Outputs]:
        """
        Return the outputs of the compiled network in `folder` for all samples. `other` names the
        machine if it is not the main machine of `target`.
        """
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        files = tuple((str(path.relative_to(folder)), path.read_bytes()) for path in found)
        return self._run(SharedMachine(target, files, other), label)

    def _run(self, runs: bytes | SharedMachine, label: str) -> list[Outputs]:
        tasks = [
            ShardTask(runs, shard, self.inputs, self._digests.get(shard.path, ""), self.nullable)
            for shard in self.shards
        ]
        return list(progress(self._outputs(tasks), label, len(self)))

    def _outputs(self, tasks: Sequence[ShardTask]) -> Iterator[Outputs]:
        results = in_order(self.workers.run(run_task, tasks))
        for task, found in zip(tasks, results, strict=True):
            match found:
                case WorkerLost(reason):
                    raise InputError(reason, str(task.shard))
                case str():
                    raise InputError(found, str(task.shard))
                case list():
                    yield from found
