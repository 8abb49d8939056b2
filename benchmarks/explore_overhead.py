"""
Measure the cost of scheduling a study, with trials that sleep on a Dask cluster of many threads.

    python benchmarks/explore_overhead.py --trials 10000 --seconds 5 --workers 1000

Each thread is a worker. A trial lasts between half and one and a half times `--seconds`. The output
has four costs:

1. the time of the study, relative to the time without scheduling costs: each worker then starts the
   next trial as soon as it is idle;
2. the share of this time in which workers wait for their first trial, and between trials;
3. the processor time of the client and the scheduler for a trial, relative to the mean interval in
   which trials end (`seconds / workers`);
4. the time of the study in a simulation of events with the processor times of line 3: client and
   scheduler have a processor each, and workers have processors of their own.

The first two include the load of all workers, and of other programs, on this machine; the
simulation does not.
"""

import argparse
import os
import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush, heapreplace
from importlib import import_module
from itertools import islice, pairwise
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ceras_ir.support.workers import CALLS_PER_THREAD, GATHER_DELAY_S, DaskWorkers
from ceras_ir.workbench.evaluation import CacheAt
from ceras_ir.workbench.explore.calls import CallSizes, run_points
from ceras_ir.workbench.explore.exploration import Exploration
from ceras_ir.workbench.explore.storage import Trials
from ceras_ir.workbench.explore.study_file import SAMPLERS, ModelData, Objective, Study, StudyAxis
from ceras_ir.workbench.explore.trial import DONE, Outcome, Work

LAYERS = 30
"""The layers of the report; ResNet-8 has 13 on target c, with more figures."""

SPREAD = 0.5
"""The largest difference of the duration of a trial from the mean, relative to the mean."""

BEGIN, DURATION, PROCESS, THREAD = "begin", "duration", "process", "thread"
"""Figures of a trial: the clock when it begins, its seconds, and the identity of the worker."""


def sleeping(seconds: float, work: Work) -> Outcome:
    """Run a trial that uses no processor time, and return a report of usual size."""
    values = random.Random(repr(sorted(work.point.items())))
    duration = seconds * values.uniform(1 - SPREAD, 1 + SPREAD)
    # The clock of Linux is the same in all processes.
    worker = {
        BEGIN: time.monotonic(),
        DURATION: duration,
        PROCESS: float(os.getpid()),
        THREAD: float(threading.get_native_id()),
    }
    time.sleep(duration)
    goals = {goal.figure: values.random() for goal in work.study.objectives}
    totals = {f"figure_{i}": values.random() * 1e6 for i in range(20)}
    layers = [{f"field_{i}": values.random() for i in range(10)} for _ in range(LAYERS)]
    table = "\n".join("  ".join(f"{v:10.6f}" for v in layer.values()) for layer in layers)
    report: dict[str, object] = {"totals": totals, "layers": layers}
    return Outcome(
        DONE, work.point, goals | totals | worker, report=report, table=table, seconds=duration
    )


def cluster(processes: int, threads: int, pipe: Connection) -> None:
    """Run a scheduler in a separate process, as in practice, with workers of many threads."""
    make: Any = import_module("distributed").LocalCluster
    # The profiler of Dask would sample hundreds of threads of each process.
    import_module("dask").config.set({"distributed.worker.profile.enabled": False})
    # Otherwise, all processes would import the package at the same time, on this machine.
    made: Any = make(
        n_workers=processes,
        threads_per_worker=threads,
        processes=True,
        dashboard_address=None,
        preload=[run_points.__module__],
    )
    with made:
        pipe.send(made.scheduler_address)
        used = time.process_time()
        pipe.recv()
        pipe.send(time.process_time() - used)


@dataclass(frozen=True)
class Cost:
    """The cost of some trials, in seconds."""

    elapsed: float
    ideal: float
    """The elapsed time without scheduling costs."""
    first: float
    """The mean time until a worker starts its first trial."""
    between: float
    """The mean time that a worker waits between its trials, all intervals together."""
    client: float
    """The processor time of the process that requests the trials."""
    scheduler: float
    simulated: float
    """The elapsed time in the simulation."""


def without_cost(durations: Sequence[float], workers: int) -> float:
    """Return the time in which workers complete trials that start in order, without any cost."""
    ends = [0.0] * workers
    for duration in durations:
        heapreplace(ends, ends[0] + duration)
    return max(ends)


class Threads:
    """A number of threads that run no calls, for the sizes of calls."""

    def __init__(self, count: int):
        self._count = count

    def __len__(self) -> int:
        return self._count

    def run(
        self, function: Callable[[Any], Any], arguments: Iterable[Any]
    ) -> Iterator[tuple[int, Any]]:
        raise NotImplementedError


class Server:
    """A process that serves events in the order in which they arrive."""

    def __init__(self, seconds: float):
        self.seconds, self._idle = seconds, 0.0

    def serve(self, time: float) -> float:
        """Return the end of the service of an event that arrives at `time`."""
        self._idle = max(self._idle, time) + self.seconds
        return self._idle


class Simulation:
    """
    The events of a study. Each call passes the client and the scheduler, and waits until a worker
    is idle. Its result passes the scheduler to the client, which collects results for a time before
    it sends the next call.
    """

    def __init__(self, durations: Sequence[float], workers: int, client: float, scheduler: float):
        """`client` and `scheduler` are the processor times of a call, in seconds."""
        self._durations = iter(durations)
        self._sizes = CallSizes(len(durations), Threads(workers))
        self._client, self._scheduler = Server(client), Server(scheduler / 2)
        self._waiting = deque[list[float]]()
        self._workers, self._idle = workers, workers
        self._events = list[tuple[float, int, Callable[[float], None]]]()
        self._added = 0
        self.calls = 0

    def _at(self, time: float, event: Callable[[float], None]) -> None:
        # Events at the same time occur in the order in which they were added.
        self._added += 1
        heappush(self._events, (time, self._added, event))

    def _send(self, time: float) -> None:
        call = list(islice(self._durations, self._sizes.following()))
        if call:
            self.calls += 1
            self._at(self._client.serve(time), partial(self._dispatch, call))

    def _dispatch(self, call: list[float], time: float) -> None:
        self._at(self._scheduler.serve(time), partial(self._arrive, call))

    def _arrive(self, call: list[float], time: float) -> None:
        self._waiting.append(call)
        self._start(time)

    def _start(self, time: float) -> None:
        if self._idle and self._waiting:
            self._idle -= 1
            call = self._waiting.popleft()
            self._at(time + sum(call), partial(self._complete, call))

    def _complete(self, call: list[float], time: float) -> None:
        self._idle += 1
        self._start(time)
        returned = self._scheduler.serve(time) + GATHER_DELAY_S
        self._at(returned, partial(self._collect, call))

    def _collect(self, call: list[float], time: float) -> None:
        for duration in call:
            self._sizes.add(duration)
        self._send(time)

    def elapsed(self) -> float:
        """Run all events; return the time of the last result."""
        for _ in range(CALLS_PER_THREAD * self._workers):
            self._send(0.0)
        time = 0.0
        while self._events:
            time, _, event = heappop(self._events)
            event(time)
        return time


def simulated(durations: Sequence[float], workers: int, client: float, scheduler: float) -> float:
    """
    Return the elapsed time of the simulation, where `client` and `scheduler` are the processor
    times of all calls together.
    """
    trial = Simulation(durations, workers, 0.0, 0.0)
    trial.elapsed()
    costs = client / trial.calls, scheduler / trial.calls
    return Simulation(durations, workers, *costs).elapsed()


def explored(study: Study, seconds: float, workers: int, processes: int, *, remote: bool) -> Cost:
    """Return the cost of a study; with `remote`, workers cannot access the folder."""
    here, there = Pipe()
    arguments = (processes, workers // processes, there)
    process = get_context("spawn").Process(target=cluster, args=arguments)
    process.start()
    connected = DaskWorkers(here.recv())
    with TemporaryDirectory() as folder:
        trials = Trials(study, f"sqlite:///{Path(folder) / 'study.db'}")
        work = Work(study, CacheAt(folder, 1))
        trial = partial(sleeping, seconds)
        exploration = Exploration(study, trials, Path(folder), work, trial=trial, remote=remote)
        started, used = time.monotonic(), time.process_time()
        count = exploration.run(connected)
        elapsed, used = time.monotonic() - started, time.process_time() - used
        assert count == study.trials
        figures = [record.figures for record in exploration.records()]
    here.send(None)
    scheduler: float = here.recv()
    connected.close()
    process.join()
    of_worker = defaultdict[tuple[float, float], list[tuple[float, float]]](list)
    for each in figures:
        interval = each[BEGIN], each[BEGIN] + each[DURATION]
        of_worker[each[PROCESS], each[THREAD]].append(interval)
    busy = [sorted(intervals) for intervals in of_worker.values()]
    starts = [intervals[0][0] - started for intervals in busy]
    # If trials are short, some workers have no trial.
    starts += [elapsed] * (workers - len(busy))
    first = sum(starts) / workers
    gaps = [after[0] - before[1] for intervals in busy for before, after in pairwise(intervals)]
    durations = [each[DURATION] for each in figures]
    ideal = without_cost(durations, workers)
    without_load = simulated(durations, workers, used, scheduler)
    return Cost(elapsed, ideal, first, sum(gaps) / workers, used, scheduler, without_load)


def study_of(trials: int, sampler: str, model: str) -> Study:
    """Return a study with 5 axes of 10 choices and three objectives."""
    digits = {str(n): (f"--figure={n}",) for n in range(10)}
    axes = tuple(StudyAxis(f"axis{i}", digits) for i in range(5))
    goals = (Objective("top_1", True), Objective("flash", False), Objective("sram", False))
    return Study("overhead", {"m": ModelData(model)}, ("c",), axes, goals, sampler=sampler,
                 trials=trials)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1.0, help="the mean time of a trial")
    parser.add_argument("--workers", type=int, default=100, help="threads of all processes")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--sampler", choices=SAMPLERS, default="random")
    parser.add_argument("--remote", action="store_true", help="the client writes the pages")
    arguments = parser.parse_args()
    trials, seconds, workers = arguments.trials, arguments.seconds, arguments.workers
    study = study_of(trials, arguments.sampler, __file__)
    load = os.getloadavg()[0]
    cost = explored(study, seconds, workers, arguments.processes, remote=arguments.remote)
    client, scheduler = (time / trials * 1e3 for time in (cost.client, cost.scheduler))
    interval = seconds / workers * 1e3
    print(
        f"{trials} trials of {seconds:g} s on {workers} workers, {arguments.sampler}: "
        f"{cost.elapsed:.2f} s instead of {cost.ideal:.2f} s ({cost.elapsed / cost.ideal - 1:.1%} "
        f"more); workers wait {cost.first:.2f} s for the first trial "
        f"({cost.first / cost.elapsed:.1%}) and {cost.between:.2f} s between trials "
        f"({cost.between / cost.elapsed:.1%}); processor time for a trial: client {client:.2f} ms, "
        f"scheduler {scheduler:.2f} ms, {client / interval:.1%} and {scheduler / interval:.1%} of "
        f"the {interval:g} ms in which a trial ends; simulated with these times: "
        f"{cost.simulated:.2f} s ({cost.simulated / cost.ideal - 1:.1%} more); "
        f"load average before: {load:.1f}"
    )


if __name__ == "__main__":
    main()
