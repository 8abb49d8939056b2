"""
Measure the cost of scheduling a study, with trials that sleep on a Dask cluster of many threads,
and the trials per second that an Optuna storage accepts.

    python benchmarks/explore_overhead.py --trials 1000 --seconds 1 --threads 100
"""

import argparse
import time
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ceras_ir.support.workers import DaskWorkers
from ceras_ir.workbench.explore.storage import Record, Trials
from ceras_ir.workbench.explore.study_file import ModelData, Objective, Study, StudyAxis
from ceras_ir.workbench.explore.trial import DONE


def sleep(task: tuple[int, float]) -> int:
    """Run a trial that uses no processor time."""
    number, seconds = task
    time.sleep(seconds)
    return number


@dataclass(frozen=True)
class Cost:
    """The cost of some trials, in seconds."""

    elapsed: float
    client: float
    """The processor time of the process that requests the trials."""
    scheduler: float


def cluster(threads: int, pipe: Connection) -> None:
    """Run a scheduler in a separate process, as in practice, with a worker of many threads."""
    make: Any = import_module("distributed").LocalCluster
    with make(1, threads_per_worker=threads, processes=True, dashboard_address=None) as made:
        pipe.send(made.scheduler_address)
        used = time.process_time()
        pipe.recv()
        pipe.send(time.process_time() - used)


def scheduled(trials: int, seconds: float, threads: int) -> Cost:
    """Return the cost of the trials."""
    here, there = Pipe()
    process = get_context("spawn").Process(target=cluster, args=(threads, there))
    process.start()
    workers = DaskWorkers(here.recv())
    started, used = time.perf_counter(), time.process_time()
    found = [number for number, _ in workers.run(sleep, ((n, seconds) for n in range(trials)))]
    elapsed, used = time.perf_counter() - started, time.process_time() - used
    assert sorted(found) == list(range(trials))
    here.send(None)
    scheduler: float = here.recv()
    workers.close()
    process.join()
    return Cost(elapsed, used, scheduler)


def stored(trials: int) -> tuple[float, float]:
    """
    Return the trials per second that the storage accepts, and milliseconds of processor time for
    each.
    """
    digits = {str(n): () for n in range(10)}
    axes = tuple(StudyAxis(f"axis{i}", digits) for i in range(3))
    models, goals = {"m": ModelData("m")}, (Objective("figure", False),)
    study = Study("overhead", models, ("t",), axes, goals)
    with TemporaryDirectory() as folder:
        kept = Trials(study, f"sqlite:///{Path(folder) / 'study.db'}")
        started, used = time.perf_counter(), time.process_time()
        for n in range(trials):
            point = {"model": "m", "target": "t"}
            point |= {f"axis{i}": str(n // 10**i % 10) for i in range(3)}
            kept.add(Record(str(n), DONE, point, {"figure": float(n)}))
        kept.flush()
        elapsed, used = time.perf_counter() - started, time.process_time() - used
        return trials / elapsed, used / trials * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=100)
    arguments = parser.parse_args()
    trials, seconds, threads = arguments.trials, arguments.seconds, arguments.threads
    cost = scheduled(trials, seconds, threads)
    ideal = -(-trials // threads) * seconds
    client, scheduler = (time / trials * 1e3 for time in (cost.client, cost.scheduler))
    print(
        f"{trials} trials of {seconds} s on {threads} threads: {cost.elapsed:.2f} s, {ideal:.2f} s "
        f"of sleep, overhead {cost.elapsed / max(ideal, 1e-3) - 1:.1%}, "
        f"{trials / cost.elapsed:.0f} trials a second; processor time for a trial: client "
        f"{client:.2f} ms, scheduler {scheduler:.2f} ms"
    )
    rate, own = stored(min(trials, 300))
    print(f"storage: {rate:.0f} trials a second; {own:.2f} ms of processor time for a trial")


if __name__ == "__main__":
    main()
