"""The point of a study that a user asks for."""

from collections.abc import Sequence
from dataclasses import replace

from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.workbench.explore.expressions import (
    UnknownFigure,
    identifier,
    parse_expression,
    resolved,
)
from ceras_ir.workbench.explore.pareto import pareto
from ceras_ir.workbench.explore.storage import Record
from ceras_ir.workbench.explore.study_file import Study
from ceras_ir.workbench.explore.trial import DONE


def best_record(study: Study, records: Sequence[Record], where: str, by: str | None) -> Record:
    """Of the measured points that `where` admits the best, first by the objective `by`."""
    done = [record for record in records if record.state == DONE]
    if not done:
        raise InputError("no point of the study was measured to the end: run ceras-explore first")
    condition = None if where == "True" else parse_expression(where)
    admitted: list[Record] = []
    unknown: UnknownFigure | None = None
    for record in done:
        choices = {identifier(axis): label for axis, label in record.point.items()}
        try:
            if condition is None or condition.holds({**choices, **record.figures}):
                admitted.append(record)
        except UnknownFigure as error:
            # Targets differ in what they report.
            unknown = error
    if not admitted:
        if unknown is not None:
            raise UsageError(f"--where: {unknown}")
        raise InputError(f"none of {len(done)} points has {where}")
    goals = study.objectives
    if by is not None:
        name = resolved(by, done[0].figures)
        first = [g for g in goals if resolved(g.figure, done[0].figures) == name]
        if not first:
            listed = ", ".join(goal.figure for goal in goals)
            raise UsageError(f"--by {by} is no objective of the study (they are {listed})")
        goals = (*first, *(g for g in goals if g not in first))
    return pareto(replace(study, objectives=goals), admitted)[0]
