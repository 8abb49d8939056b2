"""
Measure the cost of scheduling a study, with trials that sleep on a Dask cluster of many threads.

    python benchmarks/explore_overhead.py --trials 5000 --seconds 5 --workers 1000

Each thread is a worker. The cost is printed twice: the time that the study needs in addition to the
trials, which includes the load of all workers on this machine; and the processor time of the client
and the scheduler for a trial, relative to the time in which a trial ends (`seconds / workers`).
"""

import argparse
import random
import time
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ceras_ir.support.workers import DaskWorkers
from ceras_ir.workbench.evaluation import CacheAt
from ceras_ir.workbench.explore.exploration import Exploration
from ceras_ir.workbench.explore.storage import Trials
from ceras_ir.workbench.explore.study_file import SAMPLERS, ModelData, Objective, Study, StudyAxis
from ceras_ir.workbench.explore.trial import DONE, Outcome, Work

LAYERS = 30
"""The layers of the report; ResNet-8 has 13 on target c, with more figures."""


def sleeping(seconds: float, work: Work) -> Outcome:
    """Run a trial that uses no processor time, and return a report of usual size."""
    time.sleep(seconds)
    values = random.Random(repr(sorted(work.point.items())))
    goals = {goal.figure: values.random() for goal in work.study.objectives}
    totals = {f"figure_{i}": values.random() * 1e6 for i in range(20)}
    layers = [{f"field_{i}": values.random() for i in range(10)} for _ in range(LAYERS)]
    table = "\n".join("  ".join(f"{v:10.6f}" for v in layer.values()) for layer in layers)
    report: dict[str, object] = {"totals": totals, "layers": layers}
    return Outcome(DONE, work.point, goals | totals, report=report, table=table, seconds=seconds)


def cluster(processes: int, threads: int, pipe: Connection) -> None:
    """Run a scheduler in a separate process, as in practice, with workers of many threads."""
    make: Any = import_module("distributed").LocalCluster
    # The profiler of Dask would sample hundreds of threads of each process.
    import_module("dask").config.set({"distributed.worker.profile.enabled": False})
    made: Any = make(
        n_workers=processes, threads_per_worker=threads, processes=True, dashboard_address=None
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
    client: float
    """The processor time of the process that requests the trials."""
    scheduler: float


def explored(study: Study, seconds: float, processes: int, threads: int, *, remote: bool) -> Cost:
    """Return the cost of a study; with `remote`, workers cannot access the folder."""
    here, there = Pipe()
    process = get_context("spawn").Process(target=cluster, args=(processes, threads, there))
    process.start()
    workers = DaskWorkers(here.recv())
    with TemporaryDirectory() as folder:
        trials = Trials(study, f"sqlite:///{Path(folder) / 'study.db'}")
        work = Work(study, CacheAt(folder, 1))
        trial = partial(sleeping, seconds)
        exploration = Exploration(study, trials, Path(folder), work, trial=trial, remote=remote)
        started, used = time.perf_counter(), time.process_time()
        count = exploration.run(workers)
        elapsed, used = time.perf_counter() - started, time.process_time() - used
        assert count == study.trials
    here.send(None)
    scheduler: float = here.recv()
    workers.close()
    process.join()
    return Cost(elapsed, used, scheduler)


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
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=100, help="threads of all processes")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--sampler", choices=SAMPLERS, default="random")
    parser.add_argument("--remote", action="store_true", help="the client writes the pages")
    arguments = parser.parse_args()
    trials, seconds, count = arguments.trials, arguments.seconds, arguments.workers
    study = study_of(trials, arguments.sampler, __file__)
    threads = count // arguments.processes
    cost = explored(study, seconds, arguments.processes, threads, remote=arguments.remote)
    ideal = -(-trials // count) * seconds
    client, scheduler = (time / trials * 1e3 for time in (cost.client, cost.scheduler))
    interval = seconds / count * 1e3
    print(
        f"{trials} trials of {seconds:g} s on {count} workers, {arguments.sampler}: "
        f"{cost.elapsed:.2f} s instead of {ideal:.2f} s ({cost.elapsed / ideal - 1:.1%} more); "
        f"processor time for a trial: client {client:.2f} ms, scheduler {scheduler:.2f} ms, "
        f"{client / interval:.1%} and {scheduler / interval:.1%} of the {interval:g} ms in which a "
        "trial ends"
    )


if __name__ == "__main__":
    main()
