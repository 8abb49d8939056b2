"""Check the samplers of Optuna with kept state: equal or similar proposals, and resumption."""

from typing import Any

import pytest

from ceras_ir.workbench.explore.samplers import Sampler, directions
from ceras_ir.workbench.explore.study_file import Objective, Study, StudyAxis

optuna: Any = pytest.importorskip("optuna", reason="the samplers are those of Optuna")

DIGITS = {str(n): () for n in range(10)}
CATEGORICAL: Any = optuna.distributions.CategoricalDistribution
COMPLETE = optuna.trial.TrialState.COMPLETE
AXES = {"model": ("m",), "target": ("c",), "a": tuple(DIGITS), "b": tuple(DIGITS)}
DISTRIBUTIONS = {name: CATEGORICAL(choices) for name, choices in AXES.items()}


def study(sampler: str) -> Study:
    axes = tuple(StudyAxis(name, DIGITS) for name in "ab")
    goals = (Objective("good", True), Objective("cost", False))
    return Study("s", {}, ("c",), axes, goals, sampler=sampler, trials=400, seed=3)


def values(point: Any) -> list[float]:
    a, b = int(point["a"]), int(point["b"])
    return [float(a), (a - b) ** 2 / 7]


def test_nsga2_proposes_what_optuna_proposes():
    """With results that arrive later, as on a cluster."""
    ours = Sampler(study("nsga2"), DISTRIBUTIONS, [])
    theirs: Any = optuna.create_study(
        directions=directions(study("nsga2")), sampler=optuna.samplers.NSGAIISampler(seed=3)
    )
    running: list[Any] = []
    for _ in range(400):
        trial = theirs.ask()
        point = {n: trial.suggest_categorical(n, choices) for n, choices in AXES.items()}
        proposal = ours.ask()
        assert proposal.point == point
        running.append((proposal, trial))
        if len(running) > 20:
            proposal, trial = running.pop(0)
            kept = ours.tell(proposal, values(proposal.point), COMPLETE)
            told = theirs.tell(trial, values(proposal.point))
            assert kept == told.system_attrs


def tpe_points(running: int) -> list[Any]:
    sampler = Sampler(study("tpe"), DISTRIBUTIONS, [])
    waiting, points = list[Any](), list[Any]()
    for _ in range(300):
        waiting.append(sampler.ask())
        points.append(waiting[-1].point)
        if len(waiting) >= running:
            proposal = waiting.pop(0)
            sampler.tell(proposal, values(proposal.point), COMPLETE)
    return points


@pytest.mark.parametrize("running", [1, 20])
def test_tpe_finds_good_points(running: int):
    # Only a tenth of all points has equal choices, which cost nothing.
    assert sum(p["a"] == p["b"] for p in tpe_points(running)[-150:]) > 45


@pytest.mark.parametrize("name", ["nsga2", "tpe"])
def test_equal_seeds_give_equal_points(name: str):
    found: list[list[Any]] = []
    for _ in range(2):
        sampler = Sampler(study(name), DISTRIBUTIONS, [])
        found.append([])
        for _ in range(80):
            proposal = sampler.ask()
            sampler.tell(proposal, values(proposal.point), COMPLETE)
            found[-1].append(proposal.point)
    assert found[0] == found[1]


def test_the_next_process_continues():
    first = Sampler(study("nsga2"), DISTRIBUTIONS, [])
    finished = list[Any]()
    for _ in range(60):
        proposal = first.ask()
        attributes = first.tell(proposal, values(proposal.point), COMPLETE)
        finished.append(
            optuna.trial.create_trial(params=proposal.point, distributions=DISTRIBUTIONS,
                                      values=values(proposal.point), system_attrs=attributes)
        )  # fmt: skip
    second = Sampler(study("nsga2"), DISTRIBUTIONS, finished)
    proposal = second.ask()
    attributes = second.tell(proposal, values(proposal.point), COMPLETE)
    assert attributes["NSGAIISampler:generation"] == 1
