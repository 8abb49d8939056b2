"""Check the calls of a study: their sizes, lost workers, and pages."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ceras_ir.support.workers import WorkerLost
from ceras_ir.workbench.evaluation import CacheAt
from ceras_ir.workbench.explore.calls import CallSizes
from ceras_ir.workbench.explore.exploration import Exploration
from ceras_ir.workbench.explore.storage import Trials
from ceras_ir.workbench.explore.study_file import ModelData, Objective, Study, StudyAxis
from ceras_ir.workbench.explore.trial import DONE, FAILED, Outcome, Work

T = TypeVar("T")
R = TypeVar("R")

BAD = "7"
"""The choice for which all workers die."""


class FragileWorkers:
    """Several workers that die during each call with the bad point."""

    def __init__(self, count: int):
        self.count, self.sizes = count, list[int]()

    def __len__(self) -> int:
        return self.count

    def run(
        self, function: Callable[[T], R], arguments: Iterable[T]
    ) -> Iterator[tuple[int, R | WorkerLost]]:
        for number, call in enumerate(arguments):
            points: Any = getattr(call, "points")  # noqa: B009
            self.sizes.append(len(points))
            lost = any(point["axis"] == BAD for _, point in points)
            yield number, WorkerLost("died") if lost else function(call)


def quick(work: Work) -> Outcome:
    return Outcome(DONE, work.point, {"good": 1.0}, table="the layers", seconds=0.01)


def explored(tmp_path: Path, workers: FragileWorkers, *, remote: bool = False) -> Exploration:
    pytest.importorskip("optuna", reason="studies are kept by Optuna")
    axis = StudyAxis("axis", {str(n): (f"--n={n}",) for n in range(40)})
    models = {"m": ModelData(__file__)}
    study = Study("s", models, ("c",), (axis,), (Objective("good", True),))
    trials = Trials(study, f"sqlite:///{tmp_path / 'study.db'}")
    work = Work(study, CacheAt(str(tmp_path), 1))
    exploration = Exploration(study, trials, tmp_path, work, trial=quick, remote=remote)
    assert exploration.run(workers) == 40
    return exploration


@pytest.mark.parametrize("remote", [False, True])
def test_a_point_that_kills_workers_fails_alone(tmp_path: Path, remote: bool):
    workers = FragileWorkers(4)
    records = explored(tmp_path, workers, remote=remote).records()
    assert max(workers.sizes) > 1
    failed = [record for record in records if record.state == FAILED]
    assert [record.point["axis"] for record in failed] == [BAD]
    assert failed[0].diagnostic == "died"
    assert len(list((tmp_path / "points").glob("*/report.json"))) == len(records) == 40
    texts = [page.read_text() for page in (tmp_path / "points").glob("*/report.html")]
    assert sum("the layers" in text for text in texts) == 39
    assert not (tmp_path / ".token").exists()


def test_a_single_worker_takes_single_points(tmp_path: Path):
    workers = FragileWorkers(1)
    explored(tmp_path, workers)
    assert workers.sizes == [1] * 40


def sizes_of(total: int, workers: int, seconds: float) -> list[int]:
    sizes, found = CallSizes(total, FragileWorkers(workers)), list[int]()
    sizes.add(seconds)
    while sum(found) < total:
        found.append(sizes.following())
    return found


def test_calls_are_rare_enough_and_small_at_the_end():
    found = sizes_of(20_000, 1000, 5.0)
    # 1000 workers complete 200 trials of 5 s per second, in at most 20 calls.
    assert found[0] == 10 and sum(found) == 20_000
    assert found == sorted(found, reverse=True) and found[-1000:] == [1] * 1000


def test_long_trials_run_in_single_calls():
    assert set(sizes_of(5000, 1000, 60.0)) == {1}
