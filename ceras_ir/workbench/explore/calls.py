"""
Run points in workers, several points in a call if trials are short.

A worker also renders the pages of its points, and writes them if it can access the folder of the
study. Otherwise it returns them with the trials.
"""

import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from secrets import token_hex

from ceras_ir.command.output_files import write_file
from ceras_ir.pipeline.stage_cache import compiler_digest, digest_of
from ceras_ir.support.workers import Workers
from ceras_ir.workbench.explore.identity import command_of
from ceras_ir.workbench.explore.page import point_pages, tool_versions, write_pages
from ceras_ir.workbench.explore.storage import Ended, Record, ended
from ceras_ir.workbench.explore.study_file import MODEL_AXIS, Point
from ceras_ir.workbench.explore.trial import Outcome, Work, run_trial

TOKEN = ".token"
"""The file in the folder of a study by which a worker recognizes the folder."""

Pages = Mapping[str, bytes]
"""Name -> content of the files of a point."""


@dataclass(frozen=True)
class Shared:
    """The data of a study that all workers need, sent to each a single time."""

    work: Work
    folder: Path
    trial: Callable[[Work], Outcome] = run_trial
    token: str = field(default_factory=token_hex)
    versions: str = field(default_factory=tool_versions)
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path -> digest of the files of all models."""

    @classmethod
    def of(cls, work: Work, folder: Path, trial: Callable[[Work], Outcome] = run_trial) -> "Shared":
        files = [path for model in work.study.models.values() for path in model.files()]
        digests = {path: digest_of(path) for path in (f.partition("?")[0] for f in files)}
        return cls(work, folder, trial, digests=digests | {"compiler": compiler_digest()})

    def mark(self) -> None:
        """
        Write a random token to the folder of the study, from which a process can check that it has
        access.
        """
        write_file(str(self.folder / TOKEN), self.token.encode())

    def unmark(self) -> None:
        (self.folder / TOKEN).unlink(missing_ok=True)

    def is_accessible(self) -> bool:
        """Return whether this process can access the folder of the study: the token is there."""
        try:
            return (self.folder / TOKEN).read_text(encoding="utf-8") == self.token
        except OSError:
            return False

    def ended(self, identity: str, point: Point, outcome: Outcome) -> tuple[Ended, Pages]:
        """
        Return the result of a completed point, as it is stored, and the files of the report page.
        `identity` is the digest of all data on which the point depends.
        """
        study = self.work.study
        outcome.point, outcome.command = point, command_of(study, point)
        record = Record.of(identity, outcome)
        files = [path.partition("?")[0] for path in study.models[point[MODEL_AXIS]].files()]
        digests = {name: self.digests[name] for name in (*files, "compiler")}
        pages = point_pages(record, outcome, self.versions, digests)
        return ended(study, record), pages


@dataclass(frozen=True)
class Call:
    """
    Points (configurations of a study) that a worker computes in a single call, each with the
    identity. `shared` is a pickled `Shared`; each worker unpickles it a single time.
    """

    shared: bytes
    points: Sequence[tuple[str, Point]]


def run_points(call: Call) -> list[tuple[Ended, Pages]]:
    """
    Compile and measure the points (configurations) of a call in a worker. Return for each point the
    result, and the files of the report page that the caller must write; they are empty if the
    worker has written them into the folder of the study.
    """
    shared, writes = _read(call.shared)
    found = list[tuple[Ended, Pages]]()
    for identity, point in call.points:
        outcome = shared.trial(replace(shared.work, point=point))
        trial, pages = shared.ended(identity, point, outcome)
        if writes:
            write_pages(shared.folder, identity, pages)
        found.append((trial, {} if writes else pages))
    return found


@lru_cache(maxsize=2)
def _read(data: bytes) -> tuple[Shared, bool]:
    shared = pickle.loads(data)
    assert isinstance(shared, Shared)
    return shared, shared.is_accessible()


MAX_CALLS_PER_SECOND = 20
"""The calls of all workers together; the client and the scheduler need about 1 ms for a call."""


class CallSizes:
    """
    Choose the number of points (configurations of a study) that a worker process computes in a
    single call. A call has more points if trials are shorter or if there are more workers, and a
    single point at the end of a study, so that all workers remain busy.
    """

    def __init__(self, total: int, workers: Workers):
        self._left, self._workers = total, workers
        self._seconds, self._trials = 0.0, 0

    def add(self, seconds: float) -> None:
        """Add the duration of a completed trial, in seconds."""
        self._seconds, self._trials = self._seconds + seconds, self._trials + 1

    def following(self) -> int:
        """
        Return the number of points for the next call. It increases if the previous trials were
        short, so that all workers together need at most `MAX_CALLS_PER_SECOND` calls per second.
        """
        count, size = len(self._workers), 1
        # A single worker takes single points, so that samplers see all earlier results.
        if self._trials and count > 1:
            seconds = max(self._seconds / self._trials, 1e-3)
            size = math.ceil(count / (seconds * MAX_CALLS_PER_SECOND))
        size = max(min(size, self._left // count), 1)
        self._left -= size
        return size
