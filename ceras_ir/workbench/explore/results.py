"""Evaluate the results of a study: the Pareto front, the importance of choices, and tables."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ceras_ir.support.diagnostics import InputError, UsageError, aligned
from ceras_ir.support.figure_names import UnknownFigure, identifier, resolved
from ceras_ir.workbench.explore.expressions import parse_expression
from ceras_ir.workbench.explore.storage import Record
from ceras_ir.workbench.explore.study_file import Study
from ceras_ir.workbench.explore.trial import DONE


def goal_values(study: Study, record: Record) -> list[float]:
    """
    Return the figures of `record` that are objectives of the study, in the order of the objectives.
    """
    return [record.figures[resolved(goal.figure, record.figures)] for goal in study.objectives]


def pareto(study: Study, records: Sequence[Record]) -> list[Record]:
    """
    Return the completed records that no other record dominates, sorted by the objectives. A record
    dominates another if it is as good in all objectives and better in some objective. Equal records
    are all returned.
    """
    done = [record for record in records if record.state == DONE]
    if not done:
        return []
    signs = np.array([-1.0 if goal.maximize else 1.0 for goal in study.objectives])
    costs = np.array([goal_values(study, record) for record in done]) * signs
    kept: list[int] = []
    for i, cost in enumerate(costs):
        no_worse = (costs <= cost).all(axis=1)
        if not (no_worse & (costs < cost).any(axis=1)).any():
            kept.append(i)
    kept.sort(key=lambda i: (*costs[i].tolist(), i))
    return [done[i] for i in kept]


def importance(records: Sequence[Record], figure: str) -> Mapping[str, float]:
    """
    Return for each axis (choice of the study) the share of the variance of `figure` that it causes,
    from 0 to 1: the variance between the means of the labels, divided by the total variance.
    Results without the figure are ignored.
    """
    found: dict[str, float] = {}
    known = [record for record in records if figure in record.figures]
    for axis in dict.fromkeys(name for record in known for name in record.point):
        groups: dict[str, list[float]] = {}
        for record in known:
            if axis in record.point:
                groups.setdefault(record.point[axis], []).append(record.figures[figure])
        values = np.array([v for group in groups.values() for v in group])
        spread = float(np.square(values - values.mean()).sum())
        between = sum(len(g) * (np.mean(g) - values.mean()) ** 2 for g in groups.values())
        if len(groups) > 1:
            found[axis] = float(between) / spread if spread else 0.0
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def best_record(study: Study, records: Sequence[Record], where: str, by: str | None) -> Record:
    """
    Return the best result for which the expression `where` holds: the first of the Pareto front,
    sorted by the objectives in their order, or first by the figure `by`.
    """
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
            # Targets report different figures.
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


MAX_REASON_LENGTH = 300
"""Characters of a printed reason: a path and a sentence."""

MAX_REASONS = 8
"""Different reasons for missing figures that are printed."""


def pareto_table(study: Study, records: Sequence[Record]) -> list[str]:
    """
    Return the lines of a text table of the Pareto front, the best point first: the objectives, and
    the choices in which points of the study differ.
    """
    best = pareto(study, records)
    if not best:
        return ["no point was measured to the end"]
    goals = [resolved(goal.figure, best[0].figures) for goal in study.objectives]
    names = list(dict.fromkeys(n for record in best for n in record.point))
    axes = [n for n in names if len({record.point.get(n) for record in records}) > 1]
    rows = [[*goals, *axes]]
    for record in best:
        values = [f"{record.figures[name]:.6g}" for name in goals]
        rows.append([*values, *(record.point.get(name, "") for name in axes)])
    return aligned(rows, right=range(len(goals)))


def reasons(records: Sequence[Record]) -> list[str]:
    """
    Return lines with the reasons why points of a study failed or violate a constraint, each with
    the number of points, the most frequent first.
    """
    counts = Counter(
        f"{record.state}: {record.diagnostic.partition(chr(10))[0][:MAX_REASON_LENGTH]}"
        for record in records
        if record.state != DONE
    )
    lines = [f"{count} {reason}" for reason, count in counts.most_common(MAX_REASONS)]
    rest = len(counts) - len(lines)
    return [*lines, *([f"... and {rest} more reasons, in points.csv"] if rest > 0 else [])]


def csv_table(records: Sequence[Record]) -> str:
    """
    Return a CSV table with a row for each point: choices, figures, diagnostic and command. Equal
    results give equal text.
    """
    axes = list(dict.fromkeys(n for record in records for n in record.point))
    figures = sorted({n for record in records for n in record.figures})
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*axes, "state", *figures, "diagnostic", "command"])
    for record in records:
        values = [repr(record.figures[n]) if n in record.figures else "" for n in figures]
        message = record.diagnostic.partition("\n")[0]
        cells = [record.point.get(n, "") for n in axes]
        writer.writerow([*cells, record.state, *values, message, record.command])
    return stream.getvalue()
