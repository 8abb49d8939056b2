"""
Calls on a Dask cluster, which is found by its scheduler's address.

Whether it is reached by TLS, and what counts as lost, is for Dask's own configuration to say. Files
travel once to each worker, also to those that come later, and lie there under their digests.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.workers import WorkerLost

T = TypeVar("T")
R = TypeVar("R")

TIMEOUT = 10
"""Seconds until a scheduler must have answered."""

AHEAD = 2
"""Calls for each thread of the cluster that are handed over, so that none waits for the next."""

REFRESH = 1.0
"""Seconds for which the number of threads is taken to be what it was."""

GATHERING = 0.02
"""Seconds for which results that come together are waited for: a message costs more than a result,
and every thread has its next call already."""

_SHIPPED: dict[str, str] = {}
"""In a worker: digest of a file -> where it lies here."""


class DaskWorkers:
    """The threads of all workers of one cluster."""

    def __init__(self, address: str, files: Mapping[str, str] | None = None):
        """`files` are those that calls read: digest -> path on this machine."""
        try:
            self._dask: Any = import_module("distributed")
        except ImportError:
            raise UsageError(
                "--scheduler needs Dask: pip install 'ceras-ir[explore]', or leave it out"
            ) from None
        try:
            # A client that never was one would say so once more when it is collected.
            self._dask.comm.get_address_host_port(address)
            self._client: Any = self._dask.Client(address, timeout=TIMEOUT, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else "no answer"
            raise InputError(
                f"no Dask scheduler answers ({reason}); start one by 'dask scheduler' and "
                f"'dask worker {address}', or leave out --scheduler",
                address,
            ) from None
        self._asked, self._threads = -REFRESH, 1
        if files:
            contents = {d: (Path(p).name, Path(p).read_bytes()) for d, p in files.items()}
            self._client.register_plugin(_shipping(self._dask, contents))

    def __len__(self) -> int:
        # Asking costs more than a call, and workers come and go slowly.
        if time.monotonic() > self._asked + REFRESH:
            self._asked = time.monotonic()
            self._threads = max(sum(self._client.nthreads().values()), 1)
        return self._threads

    def run(
        self, function: Callable[[T], R], arguments: Iterable[T]
    ) -> Iterator[tuple[int, R | WorkerLost]]:
        """As `Workers.run`; the scheduler runs the calls of a worker that died again."""
        numbered = enumerate(arguments)
        completed: Any = self._dask.as_completed(loop=self._client.loop)
        running: dict[Any, int] = {}

        def fill() -> None:
            calls = list(islice(numbered, max(AHEAD * len(self) - len(running), 0)))
            # Many at once, in one message to the scheduler.
            futures = self._client.map(function, [argument for _, argument in calls], pure=False)
            for (number, _), future in zip(calls, futures, strict=True):
                running[future] = number
            completed.update(futures)

        try:
            fill()
            while running:
                batch = list(completed.next_batch(block=True))
                time.sleep(GATHERING)
                batch += completed.next_batch(block=False)
                numbers = [running.pop(future) for future in batch]
                fill()
                yield from zip(numbers, self._results(batch), strict=True)
        finally:
            self._client.cancel(list(running), force=True)

    def _results(self, futures: list[Any]) -> Iterator[Any]:
        """What calls that have ended gave, fetched by one message."""
        done = [future for future in futures if future.status == "finished"]
        try:
            found = dict(zip(done, self._client.gather(done), strict=True))
        except self._dask.KilledWorker:
            found = dict[Any, Any]()  # It had ended and its worker died: each by itself below.
        for future in futures:
            if future in found:
                yield found[future]
            elif isinstance(error := future.exception(), self._dask.KilledWorker):
                yield WorkerLost(str(error).splitlines()[0])
            else:
                yield future.result()

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        self._client.close()


def shipped(digest: str, path: str) -> str:
    """Where the file of this digest lies: in a worker what was sent there, else `path`."""
    return _SHIPPED.get(digest, path)


def shipped_paths(text: str, files: Mapping[str, str]) -> str:
    """Paths, commas between them and options behind `?`; of `files`, path -> digest, those here."""

    def place(part: str) -> str:
        path, mark, options = part.partition("?")
        return f"{shipped(files[path], path) if path in files else path}{mark}{options}"

    return ",".join(map(place, text.split(",")))


def _shipping(dask: Any, contents: Mapping[str, tuple[str, bytes]]) -> Any:
    class ShipFiles(dask.WorkerPlugin):
        """Writes files where a worker keeps its own, when it starts."""

        name = "ceras-ir files " + " ".join(sorted(contents))

        def setup(self, worker: Any) -> None:
            receive(contents, worker.local_directory)

    return ShipFiles()


def receive(contents: Mapping[str, tuple[str, bytes]], folder: str) -> None:
    """Write files below `folder`, where `shipped` finds them."""
    for digest, (name, content) in contents.items():
        place = Path(folder) / "ceras-ir" / digest
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
        _SHIPPED[digest] = str(place / name)
