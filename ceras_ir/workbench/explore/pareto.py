"""The points that no other is better than, and how much each choice matters."""

from collections.abc import Mapping, Sequence

import numpy as np

from ceras_ir.workbench.explore.expressions import resolved
from ceras_ir.workbench.explore.storage import Record
from ceras_ir.workbench.explore.study_file import Study
from ceras_ir.workbench.explore.trial import DONE


def goal_values(study: Study, record: Record) -> list[float]:
    """The figures of the objectives, in their order."""
    return [record.figures[resolved(goal.figure, record.figures)] for goal in study.objectives]


def pareto(study: Study, records: Sequence[Record]) -> list[Record]:
    """
    The records that have ended well and that no other dominates: as good in all objectives, and
    better in one. Best first, by the objectives in their order; of equal ones all are kept.
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
    Of each axis, the share of a figure's variance that is between the means of its choices. Points
    that have no such figure, or not this axis, do not count.
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
