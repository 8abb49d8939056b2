"""
Propose points that depend on earlier results, with the samplers of Optuna.

1. The samplers use a study in memory, because a database needs several transactions for each
   proposal. It contains all completed trials, and the running trials of this process.
2. Both samplers read all trials for each proposal. `Generations` and `ChoiceTables` keep what does
   not change between results, so that the cost of a proposal does not limit a large cluster. If a
   version of Optuna does not call the replaced methods, only the cost is higher.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceras_ir.workbench.explore.study_file import MODEL_AXIS, TARGET_AXIS, Point, Study, StudyAxis


@dataclass(frozen=True)
class Proposal:
    """A point of the study that the sampler proposes to compute."""

    point: Point
    trial: Any
    """The trial of Optuna."""


def directions(study: Study) -> list[str]:
    """Return "minimize" or "maximize" for each objective, as Optuna expects."""
    return ["maximize" if goal.maximize else "minimize" for goal in study.objectives]


class Generations:
    """
    The sampler NSGA-II of Optuna with equal proposals in less time: the generation of each trial
    and the search space are kept between proposals.
    """

    def __init__(self, optuna: Any, seed: int):
        self.sampler: Any = optuna.samplers.NSGAIISampler(seed=seed)
        self._complete: Any = optuna.trial.TrialState.COMPLETE
        self._last, self._count = 0, 0
        self._selected: dict[int, Any] = {}
        self._space: dict[str, Any] | None = None
        self.sampler.infer_relative_search_space = self._common
        if hasattr(self.sampler, "get_trial_generation"):
            self._key: str = self.sampler._get_generation_key()
            self.sampler.get_trial_generation = self._generation
            self._select: Any = self.sampler.get_parent_population
            self.sampler.get_parent_population = self._parents

    def add(self, trial: Any, running: int) -> None:
        """Add a completed trial. `running` is the number of trials that still run."""
        if trial.state != self._complete:
            return
        space = trial.distributions if self._space is None else self._space
        self._space = {name: d for name, d in space.items() if name in trial.distributions}
        generation: int = trial.system_attrs.get(getattr(self, "_key", ""), -1)
        if generation >= self._last:
            self._count = self._count + 1 if generation == self._last else 1
            self._last = generation

    def _common(self, study: Any, trial: Any) -> dict[str, Any]:
        # The axes of all completed trials; Optuna also passes over all running trials.
        space = self._space or {}
        return {name: space[name] for name in sorted(space) if not space[name].single()}

    def _generation(self, study: Any, trial: Any) -> int:
        known: int | None = trial.system_attrs.get(self._key)
        if known is not None:
            return known
        generation = self._last + (self._count >= self.sampler.population_size)
        study._storage.set_trial_system_attr(trial._trial_id, self._key, generation)
        return generation

    def _parents(self, study: Any, generation: int) -> Any:
        if generation in self._selected:
            return self._selected[generation]
        found = self._select(study, generation)
        # The first call returns the order of the selection, and all others that of the trials.
        before = {g: trials for g, trials in self._selected.items() if g == generation - 1}
        self._selected = {**before, generation: self._select(study, generation)}
        return found


REFIT_SHARE = 0.1
"""
`tpe` fits the densities again after new results for this share of the running trials. A single
worker uses all earlier results for each proposal; a cluster lacks those of running trials anyway.
"""

CANDIDATES = 24
"""Samples from which `tpe` takes the best, the default of Optuna."""


class ChoiceTables:
    """
    The sampler TPE of Optuna in less time. It samples each choice from a table of probabilities.
    Optuna computes these for each proposal, in time proportional to the number of results; here
    they are computed again after several results.
    """

    def __init__(self, optuna: Any, seed: int):
        # A joint density of all axes has no small table.
        self.sampler: Any = optuna.samplers.TPESampler(seed=seed, multivariate=False)
        self._random = np.random.default_rng(seed)
        self._new = 0
        self._sizes: dict[str, int] = {}
        self._tables: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self._sample: Any = self.sampler.sample_independent
        self._acquired: Any = self.sampler._compute_acquisition_func
        self.sampler.sample_independent = self._sampled
        self.sampler._compute_acquisition_func = self._keep

    def add(self, trial: Any, running: int) -> None:
        """
        Add a completed trial. The tables are computed again after a share of `running`, the number
        of trials that still run.
        """
        self._new += 1
        if self._new >= REFIT_SHARE * running:
            self._new = 0
            self._tables.clear()

    def _sampled(self, study: Any, trial: Any, name: str, distribution: Any) -> str:
        self._sizes[name] = len(distribution.choices)
        if name not in self._tables:
            return self._sample(study, trial, name, distribution)
        good, gain = self._tables[name]
        candidates = self._random.choice(len(good), CANDIDATES, p=good)
        return distribution.choices[candidates[np.argmax(gain[candidates])]]

    def _keep(self, samples: Mapping[str, Any], good: Any, bad: Any) -> Any:
        for name in samples:
            choices = {name: np.arange(self._sizes[name])}
            densities = good.log_pdf(choices), bad.log_pdf(choices)
            probabilities = np.exp(densities[0])
            self._tables[name] = probabilities / probabilities.sum(), densities[0] - densities[1]
        return self._acquired(samples, good, bad)


class Sampler:
    """Proposes points of a study with a sampler of Optuna."""

    def __init__(self, study: Study, distributions: Mapping[str, Any], finished: Sequence[Any]):
        """
        Create a sampler for `study`. `distributions` are the choices of each axis as Optuna expects
        them, and `finished` are completed trials of earlier processes.
        """
        optuna: Any = import_module("optuna")
        self._study, self._distributions = study, distributions
        make = {"nsga2": Generations, "tpe": ChoiceTables}[study.sampler]
        # A sampler with the same seed would propose the points of the last process again.
        self._own = make(optuna, study.seed + len(finished))
        self._trials: Any = optuna.create_study(
            storage=optuna.storages.InMemoryStorage(),
            directions=directions(study),
            sampler=self._own.sampler,
        )
        self._trials.add_trials(finished)
        for trial in finished:
            self._own.add(trial, 0)
        self._running = 0

    def ask(self) -> Proposal:
        trial: Any = self._trials.ask()
        self._running += 1

        def choose(name: str) -> str:
            return trial.suggest_categorical(name, self._distributions[name].choices)

        point = {MODEL_AXIS: choose(MODEL_AXIS), TARGET_AXIS: choose(TARGET_AXIS)}
        axes: list[StudyAxis] = self._study.axes_of(point[TARGET_AXIS])
        return Proposal(point | {axis.name: choose(axis.name) for axis in axes}, trial)

    def tell(
        self, proposal: Proposal, values: Sequence[float] | None, state: Any
    ) -> Mapping[str, object]:
        """
        Give the sampler the result of a proposal: the `values` of the objectives, or `None` after a
        failure. Return the attributes that must be stored with the trial.
        """
        trial: Any = self._trials.tell(proposal.trial, values, state=state)
        self._running -= 1
        self._own.add(trial, self._running)
        return trial.system_attrs
