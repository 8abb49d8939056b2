"""
What the scheduling of a study costs: trials that sleep, on a Dask cluster of many threads, and how
many trials an Optuna storage takes a second.

    python benchmarks/explore_overhead.py --trials 1000 --seconds 1 --threads 100
"""

import argparse
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ceras_ir.driver.explore.storage import Record, Trials
from ceras_ir.driver.explore.study_file import Axis, ModelData, Objective, Study
from ceras_ir.driver.explore.trial import DONE
from ceras_ir.support.dask_workers import DaskWorkers


def sleep(task: tuple[int, float]) -> int:
    """A trial that takes no processor time."""
    number, seconds = task
    time.sleep(seconds)
    return number


def scheduled(trials: int, seconds: float, threads: int) -> float:
    """Wall-clock seconds of the trials, beside the fewest that they can take."""
    make: Any = import_module("distributed").LocalCluster
    cluster = make(n_workers=1, threads_per_worker=threads, processes=True, dashboard_address=None)
    workers = DaskWorkers(cluster.scheduler_address)
    started = time.perf_counter()
    found = [number for number, _ in workers.run(sleep, ((n, seconds) for n in range(trials)))]
    elapsed = time.perf_counter() - started
    assert sorted(found) == list(range(trials))
    workers.close()
    cluster.close()
    return elapsed


def stored(trials: int) -> tuple[float, float]:
    """Trials that the storage takes a second, and milliseconds of processor time for each."""
    digits = {str(n): () for n in range(10)}
    axes = tuple(Axis(f"axis{i}", digits) for i in range(3))
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
    used = time.process_time()
    elapsed = scheduled(trials, seconds, threads)
    used = time.process_time() - used
    ideal = -(-trials // threads) * seconds
    print(
        f"{trials} trials of {seconds} s on {threads} threads: {elapsed:.2f} s, {ideal:.2f} s of "
        f"sleep, overhead {elapsed / ideal - 1:.1%}; {used / trials * 1e3:.2f} ms of processor "
        "time for a trial"
    )
    rate, own = stored(min(trials, 300))
    print(f"storage: {rate:.0f} trials a second; {own:.2f} ms of processor time for a trial")


if __name__ == "__main__":
    main()
