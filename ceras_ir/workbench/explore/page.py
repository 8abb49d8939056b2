"""
Evaluate the results of a study, and write its page: an HTML file without external resources.

The page has plots of Plotly: a scatter plot of two objectives, parallel coordinates of all choices
and objectives, and the importance of each choice. A click on a point opens its report. The folder
of a point contains the report of the compilation, the measured values, and the command.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ceras_ir.command.output_files import REPORT, write_file
from ceras_ir.command.tool_parser import versions
from ceras_ir.pipeline.stage_cache import compiler_digest, digest_of
from ceras_ir.support.diagnostics import InputError, UsageError, aligned
from ceras_ir.workbench.explore.expressions import (
    UnknownFigure,
    identifier,
    parse_expression,
    resolved,
)
from ceras_ir.workbench.explore.storage import Record
from ceras_ir.workbench.explore.study_file import Study
from ceras_ir.workbench.explore.trial import DONE, Outcome


def goal_values(study: Study, record: Record) -> list[float]:
    """Return the figures of the objectives in their order."""
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
    Return for each axis the share of a figure's variance between the means of the choices. Points
    without the figure or the axis are ignored.
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
    """Return the best measured point that `where` admits, sorted first by the objective `by`."""
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
    """Return the Pareto front, the best point first, with the choices in which points differ."""
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
    """Return the reasons why points have no figures or were ruled out, the most frequent first."""
    counts = Counter(
        f"{record.state}: {record.diagnostic.partition(chr(10))[0][:MAX_REASON_LENGTH]}"
        for record in records
        if record.state != DONE
    )
    lines = [f"{count} {reason}" for reason, count in counts.most_common(MAX_REASONS)]
    rest = len(counts) - len(lines)
    return [*lines, *([f"... and {rest} more reasons, in points.csv"] if rest > 0 else [])]


def csv_table(records: Sequence[Record]) -> str:
    """Return all points with all choices and figures; equal results give equal text."""
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


POINT_REPORT = "report.html"

POINT_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }
pre { background: #f4f6f8; padding: 1em; overflow: auto; border-radius: 6px }
table { border-collapse: collapse } td { padding: .15em 1.2em .15em 0 } .soft { color: #5d6b7a }
"""


def point_folder(folder: Path, identity: str) -> Path:
    """Return the folder of the report of a point."""
    return folder / "points" / identity[:16]


def write_point(folder: Path, record: Record, outcome: Outcome, files: list[str]) -> None:
    """Write `report.html`, and `report.json` with the command, digests and versions."""
    place = point_folder(folder, record.identity)
    place.mkdir(parents=True, exist_ok=True)
    plain = [path.partition("?")[0] for path in files]
    content = {
        "state": record.state,
        "choices": record.point,
        "figures": record.figures,
        "diagnostic": record.diagnostic,
        "command": record.command,
        "versions": versions("ceras-explore"),
        "sha256": {path: digest_of(path) for path in plain} | {"compiler": compiler_digest()},
        **outcome.report,
    }
    write_file(str(place / REPORT), (json.dumps(content, indent=2) + "\n").encode())
    write_file(str(place / POINT_REPORT), _page(record, outcome).encode())


def _page(record: Record, outcome: Outcome) -> str:
    def rows(values: dict[str, object]) -> str:
        cells = (
            f"<tr><td>{escape(k)}</td><td>{escape(str(v))}</td></tr>" for k, v in values.items()
        )
        return f"<table>{''.join(cells)}</table>"

    message = f"<p><b>{escape(record.state)}</b></p>"
    if record.diagnostic:
        message += f"<pre>{escape(record.diagnostic)}</pre>"
    title = ", ".join(record.point.values())
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f"<title>{escape(title)}</title><style>{STUDY_STYLE}</style></head><body>",
            f'<p><a href="../../index.html">all points</a></p><h1>{escape(title)}</h1>{message}',
            f"<h2>Choices</h2>{rows({**record.point})}<h2>Figures</h2>{rows({**record.figures})}",
            f"<h2>Command</h2><pre>{escape(record.command)}</pre>",
            f"<h2>Report</h2><pre>{escape(outcome.table)}</pre></body></html>\n",
        ]
    )


STUDY_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 2em 1.5em 4em;
  max-width: 80em; color: #1d2733 } .soft { color: #5d6b7a }
  .scroll { overflow: auto; max-height: 36em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } tr:hover td { background:
  #f4f6f8 } td, th { padding: .2em .9em; text-align: left; border-bottom: 1px solid #dde3ea;
  white-space: nowrap } a { color: #2f6fb5; text-decoration: none } pre { white-space: pre-wrap }
"""
OPEN = """
document.getElementById('{id}').on('plotly_click', function (found) {{
  var place = found.points[0].customdata; if (place) window.open(place, '_blank'); }});
"""
TOP_MARGIN_PIXELS = 60
"""The margin above a plot, for the names of parallel coordinates."""

COLOUR, BEST_COLOUR, SIZE = "#9db7d5", "#d9822b", 9


def study_page(study: Study, records: Sequence[Record]) -> str:
    """Return the text of the page; raise a `UsageError` if Plotly is not installed."""
    try:
        plots: Any = import_module("plotly.graph_objects")
        offline: Any = import_module("plotly.offline")
    except ImportError:
        raise UsageError(
            "the page of a study needs Plotly: pip install 'ceras-ir[explore]'"
        ) from None
    done = [record for record in records if record.state == DONE]
    best = pareto(study, records)
    excluded = [record for record in records if record.state != DONE]
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(study.name)}</title><style>{STUDY_STYLE}</style>",
        f"<script>{offline.get_plotlyjs()}</script></head><body><h1>{escape(study.name)}</h1>",
        f'<p class="soft">{len(records)} points: {len(done)} measured, {len(best)} of them on the '
        f"Pareto front, {len(excluded)} without figures or ruled out. A click on a point opens its "
        "report.</p>",
    ]
    if done:
        scatter, parallel = _scatter(study, done, best, plots), _parallel(study, done, plots)
        parts += [
            "<h2>Objectives</h2>",
            _drawn(scatter, "scatter") + f"<script>{OPEN.format(id='scatter')}</script>",
            "<h2>Choices and objectives</h2>",
            '<p class="soft">Drag along an axis to keep a range of it.</p>',
            _drawn(parallel, "parallel"),
            "<h2>Importance of each choice</h2>",
            '<p class="soft">The share of a figure\'s variance between the means of the choices.'
            "</p>",
            _drawn(_importance(study, done, plots), "importance"),
            f"<h2>Pareto front</h2>{_table(study, best)}",
        ]
    parts.append(f"<h2>All points</h2>{_table(study, records)}</body></html>\n")
    return "\n".join(parts)


def _drawn(figure: Any, name: str) -> str:
    figure.update_layout(template="plotly_white", margin={"t": TOP_MARGIN_PIXELS, "r": 20})
    return figure.to_html(full_html=False, include_plotlyjs=False, div_id=name)


def _place(record: Record) -> str:
    return f"points/{record.identity[:16]}/{POINT_REPORT}"


def _described(study: Study, record: Record) -> str:
    goals = zip(study.objectives, goal_values(study, record), strict=True)
    lines = [f"<b>{escape(goal.figure)} {value:.6g}</b>" for goal, value in goals]
    return "<br>".join([*lines, *(f"{escape(k)}: {escape(v)}" for k, v in record.point.items())])


def _scatter(study: Study, done: Sequence[Record], best: Sequence[Record], plots: Any) -> Any:
    # The first two objectives, or a single objective over the index of the point.
    names = [goal.figure for goal in study.objectives]
    front = {id(record) for record in best}
    rest = [record for record in done if id(record) not in front]
    figure = plots.Figure()
    for title, group, colour in (
        ("other points", rest, COLOUR),
        ("Pareto front", best, BEST_COLOUR),
    ):
        values = [goal_values(study, record) for record in group]
        numbers = [done.index(record) for record in group]
        figure.add_trace(
            plots.Scatter(
                x=[v[1] for v in values] if len(names) > 1 else numbers,
                y=[v[0] for v in values],
                mode="markers",
                name=title,
                marker={"color": colour, "size": SIZE},
                text=[_described(study, record) for record in group],
                hoverinfo="text",
                customdata=[_place(record) for record in group],
            )
        )
    figure.update_xaxes(title=names[1] if len(names) > 1 else "point")
    figure.update_yaxes(title=names[0])
    return figure


def _parallel(study: Study, done: Sequence[Record], plots: Any) -> Any:
    dimensions: list[dict[str, object]] = []
    for name in dict.fromkeys(n for record in done for n in record.point):
        labels = sorted({record.point.get(name, "") for record in done})
        if len(labels) > 1:
            values = [labels.index(record.point.get(name, "")) for record in done]
            ticks = {"tickvals": list(range(len(labels))), "ticktext": labels}
            dimensions.append({"label": name, "values": values, **ticks})
    goals = list(zip(*(goal_values(study, record) for record in done), strict=True))
    for goal, values in zip(study.objectives, goals, strict=True):
        dimensions.append({"label": goal.figure, "values": list(values)})
    line = {"color": list(goals[0]), "colorscale": "Viridis", "showscale": True}
    return plots.Figure(plots.Parcoords(dimensions=dimensions, line=line))


def _importance(study: Study, done: Sequence[Record], plots: Any) -> Any:
    figure = plots.Figure()
    for goal in study.objectives:
        shares = importance(done, resolved(goal.figure, done[0].figures))
        figure.add_trace(plots.Bar(x=list(shares), y=list(shares.values()), name=goal.figure))
    figure.update_yaxes(title="share of variance", range=[0, 1])
    return figure


def _table(study: Study, records: Sequence[Record]) -> str:
    axes = list(dict.fromkeys(n for record in records for n in record.point))
    figures = list(dict.fromkeys(n for record in records for n in record.figures))
    goals = [resolved(goal.figure, figures) for goal in study.objectives] if figures else []
    head = "".join(f"<th>{escape(name)}</th>" for name in ["", *axes, *goals, ""])
    rows: list[str] = []
    for number, record in enumerate(records, 1):
        cells = [escape(record.point.get(name, "")) for name in axes]
        cells += [f"{record.figures[n]:.6g}" if n in record.figures else "" for n in goals]
        message = "" if record.state == DONE else f"{record.state}: {record.diagnostic}"
        cells.append(escape(message if len(message) < 90 else f"{message[:87]}..."))
        link = f"<a href={json.dumps(_place(record))}>{number}</a>"
        rows.append(f"<tr><td>{link}</td>{''.join(f'<td>{c}</td>' for c in cells)}</tr>")
    joined = "\n".join(rows)
    return f'<div class="scroll"><table><tr>{head}</tr>\n{joined}</table></div>'
