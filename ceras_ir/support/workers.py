"""
Calls of one function in this process, in local processes, or on a Dask cluster.

Results come as they are ready, each with the number of its call. Arguments are taken only when
workers become free, so that their number may be unbounded and each may depend on earlier results.

A cluster is found by the address of its scheduler. The configuration of Dask decides about TLS and
about lost workers. Files are sent once to each worker, also to workers that come later, and are
stored there under their digests. `joblib` runs calls in several processes where it is installed.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar, TypeVarTuple

from ceras_ir.support.diagnostics import InputError, UsageError

T = TypeVar("T")
R = TypeVar("R")

DEATHS = 3
"""A call that so many workers died of has failed."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""One process for each core leaves one thread to each."""


@dataclass(frozen=True)
class WorkerLost:
    """What stands for the result of a call that no worker survived."""

    reason: str


class Workers(Protocol):
    """Where calls run."""

    def __len__(self) -> int:
        """How many run at once."""
        ...

    def run(
        self, function: Callable[[T], R], arguments: Iterable[T]
    ) -> Iterator[tuple[int, R | WorkerLost]]:
        """
        The result of each call with its number, as they come. `function` is one of a module, and
        arguments and results can be pickled. What a call raises is raised here.
        """
        ...


class ThisProcess:
    """One call after the other."""

    def __len__(self) -> int:
        return 1

    def run(
        self, function: Callable[[T], R], arguments: Iterable[T]
    ) -> Iterator[tuple[int, R | WorkerLost]]:
        for number, argument in enumerate(arguments):
            yield number, function(argument)


class LocalProcesses:
    """Processes on this machine, which are kept from one `run` to the next."""

    def __init__(self, count: int):
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    def __len__(self) -> int:
        return self._count

    def run(
        self, function: Callable[[T], R], arguments: Iterable[T]
    ) -> Iterator[tuple[int, R | WorkerLost]]:
        numbered = enumerate(arguments)
        waiting: list[tuple[int, T, int]] = []  # To be run again, with how often a worker died.
        running: dict[Future[R], tuple[int, T, int]] = {}
        alone = False  # Who killed the worker shows when each suspect runs by itself.
        try:
            while True:
                while len(running) < (1 if alone else self._count):
                    if not waiting:
                        alone = False
                        waiting += [
                            (number, argument, 0) for number, argument in islice(numbered, 1)
                        ]
                    if not waiting:
                        break
                    call = waiting.pop(0)
                    running[self._submit(function, call[1])] = call
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                broken = False
                for future in sorted(done, key=lambda f: running[f][0]):
                    number, argument, deaths = running[future]
                    try:
                        result = future.result()
                    except BrokenProcessPool:
                        broken = True
                        continue
                    del running[future]
                    yield number, result
                if broken:
                    self._forget()
                    lost, suspects = sorted(running.values(), key=lambda c: c[0]), len(running)
                    running.clear()
                    for number, argument, deaths in lost:
                        # With others beside it, it may have been one of those.
                        deaths += suspects == 1
                        if deaths >= DEATHS:
                            yield number, WorkerLost(f"{DEATHS} worker processes died of it")
                        else:
                            waiting.append((number, argument, deaths))
                    alone = bool(waiting)
        finally:
            for future in running:
                future.cancel()

    def close(self) -> None:
        """End the processes, also those that are still at work."""
        pool = self._pool
        self._forget()
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, function: Callable[[T], R], argument: T) -> Future[R]:
        try:
            return self._started().submit(function, argument)
        except BrokenProcessPool:
            # It broke while nobody was looking: nothing is lost.
            self._forget()
            return self._started().submit(function, argument)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._count,
                mp_context=get_context("spawn"),
                initializer=_begin,
                initargs=(os.getpid(), list(sys.path)),
            )
            with _one_thread_each():
                # All are started here, with the environment that is set meanwhile.
                wait([self._pool.submit(os.getpid) for _ in range(self._count)])
        return self._pool

    def _forget(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list(getattr(pool, "_processes", None) or {}).copy():
                _end(process)


def _end(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


@contextmanager
def _one_thread_each() -> Generator[None]:
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _begin(parent: int, path: list[str]) -> None:
    """Start a worker: an interrupt is the parent's matter, and without it the worker ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = path
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def in_order(results: Iterable[tuple[int, R]]) -> Iterator[R]:
    """Results in the order of their calls; those that are early wait."""
    early: dict[int, R] = {}
    following = 0
    for number, result in results:
        early[number] = result
        while following in early:
            yield early.pop(following)
            following += 1


_CURRENT: ContextVar[Workers | None] = ContextVar("workers", default=None)


def current_workers() -> Workers:
    """Those that the command was given; this process without any."""
    return _CURRENT.get() or ThisProcess()


@contextmanager
def with_workers(workers: Workers) -> Generator[None]:
    """Have everything below run its calls there."""
    token = _CURRENT.set(workers)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def cores() -> int:
    """How many processes this machine can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


Ts = TypeVarTuple("Ts")


def parallel(function: Callable[[*Ts], T], arguments: Iterable[tuple[*Ts]], jobs: int) -> list[T]:
    """
    `function` of each of `arguments`, in their order. The function is one of a module, arguments
    and results can be pickled.
    """
    try:
        joblib = import_module("joblib")
    except ImportError:
        raise UsageError(
            "several jobs need joblib: pip install 'ceras-ir[parallel]', or leave out --jobs"
        ) from None
    return joblib.Parallel(n_jobs=jobs)((function, a, {}) for a in arguments)
