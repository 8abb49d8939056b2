"""Run the points of a study that are not completed, and store each result."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from ceras_ir.support.diagnostics import progress
from ceras_ir.support.workers import WorkerLost, Workers
from ceras_ir.workbench.explore.calls import Call, CallSizes, Pages, Shared, run_points
from ceras_ir.workbench.explore.identity import Identities
from ceras_ir.workbench.explore.page import write_pages
from ceras_ir.workbench.explore.samplers import Proposal
from ceras_ir.workbench.explore.storage import Ended, Record, Trials
from ceras_ir.workbench.explore.study_file import Point, Study, grid, random_points
from ceras_ir.workbench.explore.trial import FAILED, Outcome, Work, run_trial


@dataclass(frozen=True)
class _Chosen:
    """A point (configuration) to compute, and the sampler's proposal if a sampler chose it."""

    point: Point
    identities: Identities
    proposal: Proposal | None = None

    @cached_property
    def identity(self) -> str:
        # The first calls of a study do not wait for the identities of all points.
        return self.identities.of(self.point)


@dataclass
class Exploration:
    """A study that runs: the storage of the results, and the folder of the reports."""

    study: Study
    trials: Trials
    folder: Path
    work: Work
    retry: bool = False
    """Whether failed trials run again."""
    trial: Callable[[Work], Outcome] = run_trial
    remote: bool = False
    """Whether workers return the pages although they could write them."""

    @cached_property
    def _identities(self) -> Identities:
        return Identities(self.study)

    @cached_property
    def _listed(self) -> list[_Chosen] | None:
        # All points of a grid, or all random points; `None` if they depend on results.
        if self.study.sampler not in ("grid", "random"):
            return None
        points = grid(self.study) if self.study.sampler == "grid" else random_points(self.study)
        return [_Chosen(point, self._identities) for point in points]

    def records(self) -> list[Record]:
        """
        Return the results of completed points that the study file still contains, in the order of
        the study.
        """
        latest = {record.identity: record for record in self.trials.records()}
        if not latest:
            return []
        if self._listed is None:
            known = {self._identities.of(r.point) for r in latest.values()}
            return [record for record in latest.values() if record.identity in known]
        return [latest[each.identity] for each in self._listed if each.identity in latest]

    def _missing(self, listed: Sequence[_Chosen]) -> Sequence[_Chosen]:
        ended = {r.identity for r in self.records() if not (self.retry and r.state == FAILED)}
        found = [each for each in listed if each.identity not in ended] if ended else listed
        if self.study.sampler == "grid" and self.study.trials is not None:
            return found[: max(self.study.trials - len(ended), 0)]
        return found

    def run(self, workers: Workers) -> int:
        """
        Compute the points (configurations) of the study that are not completed, store the results,
        and return their number.
        """
        if self._listed is not None:
            missing = self._missing(self._listed)
            total, chosen = len(missing), iter(missing)
        else:
            total = self.trials.unproposed()
            proposals = islice(self.trials.proposals(), total)
            chosen = (_Chosen(p.point, self._identities, p) for p in proposals)
        count = 0
        try:
            for each, trial in progress(self._ended(workers, chosen, total), "exploring", total):
                self.trials.add(trial, each.proposal)
                count += 1
        finally:
            self.trials.flush()
        return count

    def _ended(
        self, workers: Workers, chosen: Iterator[_Chosen], total: int
    ) -> Iterator[tuple[_Chosen, Ended]]:
        shared = Shared.of(self.work, self.folder, self.trial)
        sizes = CallSizes(total, workers)
        lost = list[_Chosen]()

        def groups() -> Iterator[list[_Chosen]]:
            while group := list(islice(chosen, sizes.following())):
                yield group

        if not self.remote:
            shared.mark()
        try:
            for group, result in _called(workers, shared, groups()):
                if isinstance(result, WorkerLost) and len(group) > 1:
                    lost += group
                    continue
                for each, trial in self._results(shared, group, result):
                    sizes.add(trial.seconds)
                    yield each, trial
            # A single point of these calls is the cause: each point runs in a separate call.
            for group, result in _called(workers, shared, ([each] for each in lost)):
                yield from self._results(shared, group, result)
        finally:
            shared.unmark()

    def _results(
        self,
        shared: Shared,
        group: Sequence[_Chosen],
        result: Sequence[tuple[Ended, Pages]] | WorkerLost,
    ) -> Iterator[tuple[_Chosen, Ended]]:
        if isinstance(result, WorkerLost):
            failed = [Outcome(FAILED, each.point, diagnostic=result.reason) for each in group]
            result = [
                shared.ended(each.identity, each.point, outcome)
                for each, outcome in zip(group, failed, strict=True)
            ]
        for each, (trial, pages) in zip(group, result, strict=True):
            if pages:
                write_pages(self.folder, each.identity, pages)
            yield each, trial


def _called(
    workers: Workers, shared: Shared, groups: Iterator[list[_Chosen]]
) -> Iterator[tuple[list[_Chosen], list[tuple[Ended, Pages]] | WorkerLost]]:
    """
    Compute groups of points, each group in a single call of a worker. Yield each group with the
    results, in the order of completion.
    """
    data = pickle.dumps(shared)
    running: dict[int, list[_Chosen]] = {}

    def calls() -> Iterator[Call]:
        for number, group in enumerate(groups):
            running[number] = group
            yield Call(data, [(each.identity, each.point) for each in group])

    for number, result in workers.run(run_points, calls()):
        yield running.pop(number), result
