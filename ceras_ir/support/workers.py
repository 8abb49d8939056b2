"""
Run calls of a function in this process, in local processes, or on a Dask cluster.

Results are returned as they are completed, each with the index of the call. Arguments are requested
only when a worker is free, so that their number can be unbounded and they can depend on earlier
results.

A cluster is identified by the address of the scheduler. The configuration of Dask decides about TLS
and lost workers. Files are sent a single time to each worker, also to workers that join later, and
are stored there under their digests. `joblib` runs calls in several processes if it is installed.
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
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar, TypeVarTuple

from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.extras import install_command

T = TypeVar("T")
R = TypeVar("R")

MAX_DEATHS = 3
"""Worker processes that may die during a call; then the call has failed."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that limit each process to a single thread, as there is a process for each core."""


SAFE_PATH = "PYTHONSAFEPATH"
"""
The variable with which Python imports nothing from the current folder. Without it, a file such as
`struct.py` in the folder of a stranger would run when a worker starts.
"""


@dataclass(frozen=True)
class WorkerLost:
    """The result of a call if each worker that tried it died. `reason` explains it to the user."""

    reason: str


class Workers(Protocol):
    """Interface to run function calls in parallel."""

    def __len__(self) -> int:
        """Return the number of calls that can run at the same time."""
        ...

    def run(
        self, function: Callable[[T], R], arguments: Iterable[T]
    ) -> Iterator[tuple[int, R | WorkerLost]]:
        """
        Call `function` for each of `arguments` in parallel. Yield the index of the argument and the
        result, in the order of completion. `function` must be defined in a module; arguments and
        results must be picklable. An exception of a call is raised here.
        """
        ...


class ThisProcess:
    """`Workers` without parallelism: the calls run in sequence in this process."""

    def __len__(self) -> int:
        return 1

    def run(
        self, function: Callable[[T], R], arguments: Iterable[T]
    ) -> Iterator[tuple[int, R | WorkerLost]]:
        for number, argument in enumerate(arguments):
            yield number, function(argument)


class LocalProcesses:
    """
    `Workers` that are processes on this machine, and are kept from one `run` to the next. Each
    process calls `prepare` when it starts.
    """

    def __init__(self, count: int, prepare: Callable[[], None] | None = None):
        self._count, self._prepare = count, prepare
        self._pool: ProcessPoolExecutor | None = None

    def __len__(self) -> int:
        return self._count

    def run(
        self, function: Callable[[T], R], arguments: Iterable[T]
    ) -> Iterator[tuple[int, R | WorkerLost]]:
        numbered = enumerate(arguments)
        waiting: list[tuple[int, T, int]] = []  # Calls to repeat: index, argument, worker deaths.
        running: dict[Future[R], tuple[int, T, int]] = {}
        one_at_a_time = False  # After a death, single calls identify the cause.
        try:
            while True:
                while len(running) < (1 if one_at_a_time else self._count):
                    if not waiting:
                        one_at_a_time = False
                        waiting += [(*call, 0) for call in islice(numbered, 1)]
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
                        # If several calls were running, another call may be the cause.
                        deaths += suspects == 1
                        if deaths >= MAX_DEATHS:
                            yield (
                                number,
                                WorkerLost(f"{MAX_DEATHS} worker processes died during the call"),
                            )
                        else:
                            waiting.append((number, argument, deaths))
                    one_at_a_time = bool(waiting)
        finally:
            for future in running:
                future.cancel()

    def close(self) -> None:
        """Stop the processes, without waiting for calls that are running."""
        pool = self._pool
        self._forget()
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, function: Callable[[T], R], argument: T) -> Future[R]:
        try:
            return self._started().submit(function, argument)
        except BrokenProcessPool:
            # The pool broke between two calls, so that no call is lost.
            self._forget()
            return self._started().submit(function, argument)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            with _environment_of_workers():
                self._pool = ProcessPoolExecutor(
                    self._count,
                    mp_context=get_context("spawn"),
                    initializer=_begin,
                    initargs=(os.getpid(), list(sys.path), self._prepare),
                )
                # All processes are started here, so that they inherit the environment.
                wait([self._pool.submit(os.getpid) for _ in range(self._count)])
        return self._pool

    def _forget(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list(getattr(pool, "_processes", None) or {}):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


@contextmanager
def _environment_of_workers() -> Generator[None]:
    changed = {**dict.fromkeys(THREAD_VARIABLES, "1"), SAFE_PATH: "1"}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _begin(parent: int, path: list[str], prepare: Callable[[], None] | None) -> None:
    # The parent handles interrupts, and the worker terminates with the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = path
    # Scripts of the user that a worker starts import from their folders.
    os.environ.pop(SAFE_PATH, None)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if prepare is not None:
        prepare()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def in_order(results: Iterable[tuple[int, R]]) -> Iterator[R]:
    """
    Yield the results of `Workers.run`, pairs of an index and a result, in the order of the indices.
    """
    early: dict[int, R] = {}
    following = 0
    for number, result in results:
        early[number] = result
        while following in early:
            yield early.pop(following)
            following += 1


def cores() -> int:
    """Return the number of processes that this machine can run at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


SCHEDULER_TIMEOUT_S = 10
"""Seconds within which a scheduler must answer."""

CALLS_PER_THREAD = 2
"""Calls that are submitted for each thread of the cluster, so that no thread waits."""

THREAD_COUNT_REFRESH_S = 1.0
"""Seconds for which the number of threads is cached."""

GATHER_DELAY_S = 0.1
"""
Seconds for which further results are collected: a message costs more than a result, and each thread
already has the next call.
"""

_SHIPPED: dict[str, str] = {}
"""The local path of each file that this worker has received, by digest."""


class DaskWorkers:
    """`Workers` that are the threads of all workers of a Dask cluster."""

    def __init__(self, address: str, files: Mapping[str, str] | None = None):
        """
        Connect to the scheduler of a Dask cluster at `address`, such as `tcp://host:8786`. `files`
        maps digests of input files to local paths; these files are sent to each worker.
        """
        try:
            self._dask: Any = import_module("distributed")
        except ImportError:
            raise UsageError(
                f"--scheduler needs Dask: {install_command('explore')}, or leave it out"
            ) from None
        _expect_security(self._dask, address)
        try:
            # A client that failed to connect would print a second error when it is collected.
            self._dask.comm.get_address_host_port(address)
            self._client: Any = self._dask.Client(
                address, timeout=SCHEDULER_TIMEOUT_S, set_as_default=False
            )
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else "no answer"
            raise InputError(
                f"no Dask scheduler answers ({reason}); start one by 'dask scheduler' and "
                f"'dask worker {address}', or leave out --scheduler",
                address,
            ) from None
        self._asked, self._threads = -THREAD_COUNT_REFRESH_S, 1
        if files:
            contents = {d: (Path(p).name, Path(p).read_bytes()) for d, p in files.items()}
            self._client.register_plugin(_shipping(self._dask, contents))

    def __len__(self) -> int:
        # A query costs more than a call, and the number of workers changes slowly.
        if time.monotonic() > self._asked + THREAD_COUNT_REFRESH_S:
            self._asked = time.monotonic()
            self._threads = max(sum(self._client.nthreads().values()), 1)
        return self._threads

    def run(
        self, function: Callable[[T], R], arguments: Iterable[T]
    ) -> Iterator[tuple[int, R | WorkerLost]]:
        """Run calls as `Workers.run` does. The scheduler repeats a call if the worker dies."""
        numbered = enumerate(arguments)
        completed: Any = self._dask.as_completed(loop=self._client.loop)
        running: dict[Any, int] = {}

        def fill() -> None:
            # The scheduler receives a call for each thread in one message. Threads without a call
            # start before the second call of each thread is sent.
            threads = len(self)
            while missing := max(CALLS_PER_THREAD * threads - len(running), 0):
                calls = list(islice(numbered, min(missing, threads)))
                if not calls:
                    return
                futures = self._client.map(function, [value for _, value in calls], pure=False)
                running.update(zip(futures, (number for number, _ in calls), strict=True))
                completed.update(futures)

        try:
            fill()
            while running:
                batch = list(completed.next_batch(block=True))
                time.sleep(GATHER_DELAY_S)
                batch += completed.next_batch(block=False)
                numbers = [running.pop(future) for future in batch]
                fill()
                yield from zip(numbers, self._results(batch), strict=True)
        finally:
            self._client.cancel(list(running), force=True)

    def _results(self, futures: list[Any]) -> Iterator[Any]:
        # The results of all calls are fetched by a single message.
        done = [future for future in futures if future.status == "finished"]
        try:
            found = dict(zip(done, self._client.gather(done), strict=True))
        except self._dask.KilledWorker:
            found = dict[Any, Any]()  # A worker died after the call: fetch each result below.
        for future in futures:
            if future in found:
                yield found[future]
            elif isinstance(error := future.exception(), self._dask.KilledWorker):
                yield WorkerLost(str(error).splitlines()[0])
            else:
                yield future.result()

    def close(self) -> None:
        """Disconnect from the cluster, which continues to run."""
        self._client.close()


def _expect_security(dask: Any, address: str) -> None:
    """
    Raise an `InputError` if the address asks for TLS and Dask has no certificates, or if the
    configuration of Dask requires TLS and the address does not use TLS.
    """
    configured, is_encrypted = dask.Security(), address.startswith("tls://")
    remedy = "set distributed.comm.tls.ca-file, .client.cert and .client.key in its configuration"
    try:
        context = configured.get_connection_args("client")["ssl_context"]
    except OSError as error:  # without the name of the file
        reason = error.strerror or str(error)
        raise InputError(f"Dask cannot load its certificates ({reason}); {remedy}") from None
    if is_encrypted and context is None:
        raise InputError(
            f"Dask has no certificates for TLS; {remedy}, see docs/explore.md", address
        )
    if configured.require_encryption and not is_encrypted:
        raise InputError(
            "the configuration of Dask requires encryption: use the tls:// address of the cluster",
            address,
        )


def shipped(digest: str, path: str) -> str:
    """
    Return `path`, the local path of the file with this digest. In a worker of a cluster, return the
    path of the copy that was sent to it.
    """
    return _SHIPPED.get(digest, path)


def shipped_paths(text: str, files: Mapping[str, str]) -> str:
    """
    Replace each path in `text`, a list such as `a.npz,b?size=8`, by the path of the copy that was
    sent to this worker. `files` maps the original paths to digests; other paths do not change.
    """

    def place(part: str) -> str:
        path, mark, options = part.partition("?")
        return f"{shipped(files[path], path) if path in files else path}{mark}{options}"

    return ",".join(map(place, text.split(",")))


def _shipping(dask: Any, contents: Mapping[str, tuple[str, bytes]]) -> Any:
    class ShipFiles(dask.WorkerPlugin):
        """Write files to the folder of a worker when it starts."""

        name = "ceras-ir files " + " ".join(sorted(contents))

        def setup(self, worker: Any) -> None:
            receive(contents, worker.local_directory)

    return ShipFiles()


def receive(contents: Mapping[str, tuple[str, bytes]], folder: str) -> None:
    """
    Store files that were sent to this worker below `folder`, and record their paths for `shipped`.
    `contents` maps the digest of each file to the name and bytes.
    """
    for digest, (name, content) in contents.items():
        place = Path(folder) / "ceras-ir" / digest
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
        _SHIPPED[digest] = str(place / name)


Ts = TypeVarTuple("Ts")


def parallel(function: Callable[[*Ts], T], arguments: Iterable[tuple[*Ts]], jobs: int) -> list[T]:
    """
    Return the results of `function(*each)` for `each` in `arguments`, in their order, computed in
    `jobs` processes. `function` must be defined in a module; arguments and results must be
    picklable.
    """
    try:
        joblib = import_module("joblib")
    except ImportError:
        raise UsageError(
            f"several jobs need joblib: {install_command('parallel')}, or leave out --jobs"
        ) from None
    with _environment_of_workers():
        return joblib.Parallel(n_jobs=jobs)((function, a, {}) for a in arguments)
