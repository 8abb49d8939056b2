"""Check trials in a storage: a batch has the rows that Optuna would write."""

from pathlib import Path
from typing import Any

import pytest

from ceras_ir.support.diagnostics import InputError
from ceras_ir.workbench.explore import storage
from ceras_ir.workbench.explore.storage import Record, Trials, ended
from ceras_ir.workbench.explore.study_file import ModelData, Objective, Study, StudyAxis
from ceras_ir.workbench.explore.trial import DONE, FAILED, RULED_OUT

pytestmark = pytest.mark.slow
optuna: Any = pytest.importorskip("optuna", reason="studies are kept by Optuna")

DIGITS = {str(n): () for n in range(10)}
STUDY = Study(
    "s",
    {"m": ModelData("m")},
    ("t",),
    (StudyAxis("axis", DIGITS), StudyAxis("t.other", DIGITS, "t")),
    (Objective("good", True), Objective("bytes", False)),
)


def record(number: int, state: str = DONE) -> Record:
    point = {"model": "m", "target": "t", "axis": str(number), "t.other": "3"}
    figures = {"good": number / 3, "bytes": float("inf") if number == 4 else 10.0**number}
    return Record(str(number), state, point, figures, "" if state == DONE else "why", "ceras-x")


RECORDS = [*map(record, range(6)), record(6, FAILED), record(7, RULED_OUT)]


def rows(url: str) -> list[tuple[object, ...]]:
    """Return all data that a client of Optuna, such as the dashboard, loads."""
    (name,) = optuna.get_all_study_names(url)
    trials = optuna.load_study(study_name=name, storage=url).get_trials()
    return [(t.number, t.state, t.values, t.params, t.distributions, t.user_attrs) for t in trials]


def test_many_at_once_are_what_optuna_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ours, theirs = (f"sqlite:///{tmp_path / name}.db" for name in ("ours", "theirs"))
    together = Trials(STUDY, ours)
    for each in RECORDS:
        together.add(ended(STUDY, each))
    together.flush()
    monkeypatch.setattr(storage, "SCHEMA_VERSION", -1)
    one_by_one = Trials(STUDY, theirs)
    for each in RECORDS:
        one_by_one.add(ended(STUDY, each))
        one_by_one.flush()
    assert rows(ours) == rows(theirs)
    assert [number for number, *_ in rows(ours)] == list(range(len(RECORDS)))
    assert Trials(STUDY, ours).records() == RECORDS == Trials(STUDY, theirs).records()


def test_what_is_added_later_goes_on(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    first = Trials(STUDY, url)
    first.add(ended(STUDY, RECORDS[0]))
    first.flush()
    second = Trials(STUDY, url)
    second.add(ended(STUDY, RECORDS[1]))
    second.flush()
    assert [number for number, *_ in rows(url)] == [0, 1]


def test_a_storage_that_cannot_be_written(tmp_path: Path):
    trials = Trials(STUDY, f"sqlite:///{tmp_path / 'study.db'}")
    for path in tmp_path.iterdir():
        path.unlink()
    trials.add(ended(STUDY, RECORDS[0]))
    with pytest.raises(InputError, match="the storage of the study cannot be used"):
        trials.flush()


def test_a_storage_that_is_none(tmp_path: Path):
    with pytest.raises(InputError, match="the storage of the study cannot be used"):
        Trials(STUDY, f"sqlite:///{tmp_path / 'no' / 'study.db'}")
