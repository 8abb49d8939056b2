"""Run the points of a study that are not completed, and store each result."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join

from ceras_ir.pipeline.stage_cache import compiler_digest, spelled
from ceras_ir.support.diagnostics import progress
from ceras_ir.support.files import key_of
from ceras_ir.support.workers import WorkerLost, Workers
from ceras_ir.workbench.explore.expressions import Expression
from ceras_ir.workbench.explore.page import write_point
from ceras_ir.workbench.explore.storage import Record, Trials
from ceras_ir.workbench.explore.study_file import (
    MODEL_AXIS,
    Point,
    Study,
    arguments_of,
    grid,
    random_points,
)
from ceras_ir.workbench.explore.trial import FAILED, Outcome, Work, run_trial


@dataclass
class Exploration:
    """A study, the storage of the trials, and the folder of the reports."""

    study: Study
    trials: Trials
    folder: Path
    work: Work
    retry: bool = False
    """Whether failed trials run again."""

    def records(self) -> list[Record]:
        """
        Return the records of the completed points of the present study, in the order of the points.
        """
        latest = {record.identity: record for record in self.trials.records()}
        if self.study.sampler not in ("grid", "random"):
            known = {identity(self.study, r.point) for r in latest.values()}
            return [record for record in latest.values() if record.identity in known]
        names = [identity(self.study, point) for point in self._listed()]
        return [latest[name] for name in names if name in latest]

    def _listed(self) -> Iterator[Point]:
        return grid(self.study) if self.study.sampler == "grid" else random_points(self.study)

    def missing(self) -> list[Point]:
        """Return the points of a grid, or random points, that are not completed."""
        ended = {r.identity for r in self.records() if not (self.retry and r.state == FAILED)}
        found = [p for p in self._listed() if identity(self.study, p) not in ended]
        if self.study.sampler == "grid" and self.study.trials is not None:
            return found[: max(self.study.trials - len(ended), 0)]
        return found

    def run(self, workers: Workers) -> int:
        """Run the missing points, and return the number of trials."""
        if self.study.sampler in ("grid", "random"):
            points = self.missing()
            outcomes = workers.run(run_trial, (replace(self.work, point=p) for p in points))
            count = 0
            try:
                for number, outcome in progress(outcomes, "exploring", len(points)):
                    self.trials.add(self._kept(points[number], outcome))
                    count += 1
            finally:
                self.trials.flush()
            return count
        return self._run_proposed(workers)

    def _run_proposed(self, workers: Workers) -> int:
        # A point depends on the previous results.
        proposed: list[tuple[int, Point]] = []
        finished = len(self.trials.records())

        def works() -> Iterator[Work]:
            for number, point in self.trials.asked(finished):
                proposed.append((number, point))
                yield replace(self.work, point=point)

        total = max((self.study.trials or 0) - finished, 0)
        count = 0
        for call, outcome in progress(workers.run(run_trial, works()), "exploring", total):
            number, point = proposed[call]
            self.trials.tell(number, self._kept(point, outcome))
            count += 1
        return count

    def _kept(self, point: Point, outcome: Outcome | WorkerLost) -> Record:
        if isinstance(outcome, WorkerLost):
            outcome = Outcome(FAILED, point, diagnostic=outcome.reason)
        outcome.point = point
        outcome.command = command_of(self.study, point)
        record = Record.of(identity(self.study, point), outcome)
        write_point(self.folder, record, outcome, self.study.models[point[MODEL_AXIS]].files())
        return record


def command_of(study: Study, point: Point) -> str:
    """Return the command that compiles a point."""
    return join(["ceras-compile", *arguments_of(study, point), "-o", "DIR"])


def identity(study: Study, point: Point) -> str:
    """Return the digest of all data that the figures of a point depend on."""
    model = study.models[point[MODEL_AXIS]]
    arguments = [spelled(part) for a in arguments_of(study, point) for part in a.split("=", 1)]
    data = [spelled(v) for v in (model.inputs, model.labels, model.metric, model.samples)]
    judged = [o.figure for o in study.objectives], [c.text for c in study.constraints]
    own = {k: v.text if isinstance(v, Expression) else v for k, v in study.figures.items()}
    chosen = sorted(point.items()) if own or study.constraints else []
    parts = *arguments, "data", *data, repr(judged), repr(own), repr(chosen)
    return key_of(compiler_digest(), *parts)
