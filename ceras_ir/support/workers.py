"""
Calls of one function in this process, in local processes, or wherever else a `Workers` runs them.

Results come as they are ready, each with the number of its call. Arguments are taken only as
workers become free, so that their number may be unbounded and each may depend on results before it.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from typing import Protocol, TypeVar

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
