"""What `ceras-explore` prints of a study, and the table of all points as a file."""

import csv
import io
from collections import Counter
from collections.abc import Sequence

from ceras_ir.support.terminal import aligned
from ceras_ir.workbench.explore.expressions import resolved
from ceras_ir.workbench.explore.pareto import pareto
from ceras_ir.workbench.explore.storage import Record
from ceras_ir.workbench.explore.study_file import Study
from ceras_ir.workbench.explore.trial import DONE

REASON = 300
"""Characters of a reason that are printed: a path and a sentence."""

REASONS = 8
"""How many different reasons are printed why points have no figures."""


def pareto_table(study: Study, records: Sequence[Record]) -> list[str]:
    """The Pareto front, best first, only with the choices in which points differ."""
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
    """Why points have no figures or were ruled out, the most frequent reasons first."""
    counts = Counter(
        f"{record.state}: {record.diagnostic.partition(chr(10))[0][:REASON]}"
        for record in records
        if record.state != DONE
    )
    lines = [f"{count} {reason}" for reason, count in counts.most_common(REASONS)]
    rest = len(counts) - len(lines)
    return [*lines, *([f"... and {rest} more reasons, in points.csv"] if rest > 0 else [])]


def csv_table(records: Sequence[Record]) -> str:
    """All points with all choices and figures; the same text for the same results."""
    axes = list(dict.fromkeys(n for record in records for n in record.point))
    figures = sorted({n for record in records for n in record.figures})
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*axes, "state", *figures, "diagnostic", "command"])
    for record in records:
        values = [repr(record.figures[n]) if n in record.figures else "" for n in figures]
        said = record.diagnostic.partition("\n")[0]
        cells = [record.point.get(n, "") for n in axes]
        writer.writerow([*cells, record.state, *values, said, record.command])
    return stream.getvalue()
