"""
Write the pages of a study: HTML files without external resources.

The page of the study has plots of Plotly: a scatter plot of two objectives, parallel coordinates of
all choices and objectives, and the importance of each choice. A click on a point opens a report.
The folder of a point contains the report of the compilation, the measured values, and the command.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from ceras_ir.command.output_files import REPORT
from ceras_ir.command.tool_parser import versions
from ceras_ir.support.diagnostics import UsageError, cannot_write
from ceras_ir.support.extras import install_command
from ceras_ir.support.figure_names import resolved
from ceras_ir.support.labels import end_of_name, text_width
from ceras_ir.workbench.explore.results import goal_values, importance, pareto
from ceras_ir.workbench.explore.storage import Record
from ceras_ir.workbench.explore.study_file import Study
from ceras_ir.workbench.explore.trial import DONE, Outcome
from ceras_ir.workbench.pages import Column, Line, Table, TableCell, render

POINT_REPORT = "report.html"


def point_folder(folder: Path, identity: str) -> Path:
    """
    Return the folder for the report of the point with this identity, below the `folder` of the
    study.
    """
    return folder / "points" / identity[:16]


def point_pages(
    record: Record, outcome: Outcome, versions: str, digests: Mapping[str, str]
) -> dict[str, bytes]:
    """
    Return the files of a point's report by name: the page, and a JSON file with figures, command,
    `digests` of the input files, and `versions` of the tools.
    """
    content = {
        "state": record.state,
        "choices": record.point,
        "figures": record.figures,
        "diagnostic": record.diagnostic,
        "command": record.command,
        "versions": versions,
        "sha256": digests,
        **outcome.report,
    }
    return {
        REPORT: (json.dumps(content, indent=2) + "\n").encode(),
        POINT_REPORT: point_page(record, outcome.table).encode(),
    }


def write_pages(folder: Path, identity: str, pages: Mapping[str, bytes]) -> None:
    """
    Write the files of a point's report. If the process is killed, a file can be incomplete: the
    point is then not stored, and the files are written again.
    """
    place = point_folder(folder, identity)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, content in pages.items():
            (place / name).write_bytes(content)
    except OSError as error:
        raise cannot_write(error, str(place)) from None


def tool_versions() -> str:
    """Return the versions of the compiler and of xDSL as text, for reports."""
    return versions("ceras-explore")


def point_page(record: Record, layers: str) -> str:
    """
    Return the HTML page of a point. `layers` is the table of layers that `ceras-compile` prints.
    """
    columns = [Column("name", "text"), Column("value", "wide")]
    tables = [("Choices", {**record.point}), ("Figures", {**record.figures})]
    return render(
        "point.html",
        {
            "title": ", ".join(record.point.values()),
            "state": record.state,
            "diagnostic": record.diagnostic,
            "tables": [
                {
                    "title": title,
                    "table": Table(
                        title.lower(),
                        columns,
                        [Line([TableCell(k), TableCell(_text(v))]) for k, v in values.items()],
                    ),
                }
                for title, values in tables
            ],
            "command": record.command,
            "layers": layers,
        },
    )


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:,.6g}" if value % 1 else f"{value:,.0f}"


COLOUR, BEST_COLOUR, SIZE = "#9db7d5", "#d9822b", 9
LINE_COLOURS = ["#5b8def", "#e08a3c"]
"""The colours of the smallest and the largest value, visible on light and dark pages."""
TOP_MARGIN_PIXELS, RIGHT_MARGIN_PIXELS, BOTTOM_MARGIN_PIXELS = 60, 20, 50
MIN_LEFT_MARGIN_PIXELS = 30
"""The margins of a plot; above are the names of parallel coordinates."""
PLOT_FONT_SIZE = 12
AXIS_PIXELS = 110
"""The minimum distance of parallel coordinates."""
MAX_CHOICE_CHARACTERS = 18
MAX_UNFILTERED_ROWS = 12
MAX_MESSAGE_CHARACTERS = 90
AXIS_PADDING = 0.05
"""The part of an axis before the smallest and after the largest value."""

SECTIONS = {
    "objectives": "Objectives",
    "choices": "Choices",
    "importance": "Importance",
    "front": "Pareto front",
    "points": "All points",
}


def study_page(study: Study, records: Sequence[Record]) -> str:
    """
    Return the HTML page of a study with plots and a table of the results. Raise a `UsageError` if
    Plotly is not installed.
    """
    try:
        plots: Any = import_module("plotly.graph_objects")
        offline: Any = import_module("plotly.offline")
    except ImportError:
        raise UsageError(
            f"the page of a study needs Plotly: {install_command('explore')}"
        ) from None
    done = [record for record in records if record.state == DONE]
    best = pareto(study, records)
    values: dict[str, object] = {
        "title": study.name,
        "sections": [(k, v) for k, v in SECTIONS.items() if done or k == "points"],
        "told": f"{len(records)} points: {len(done)} measured, {len(best)} of them on the Pareto "
        f"front, {len(records) - len(done)} without figures or ruled out. A click on a point opens "
        "its report.",
        "plotly": offline.get_plotlyjs() if done else "",
        "drawn": bool(done),
        "points": _table("all-points", study, records),
    }
    if done:
        parallel = _parallel(study, done, plots)
        values |= {
            "parallel_width": AXIS_PIXELS * len(parallel.data[0].dimensions),
            "scatter": _drawn(_scatter(study, done, best, plots), "scatter"),
            "parallel": _drawn(parallel, "parallel"),
            "importance": _drawn(_importance(study, done, plots), "importances"),
            "front": _table("pareto-front", study, best),
        }
    return render("study.html", values)


def _drawn(figure: Any, name: str) -> str:
    # The script of the page sets the colours of the theme.
    margin = {"t": TOP_MARGIN_PIXELS, "r": RIGHT_MARGIN_PIXELS, "b": BOTTOM_MARGIN_PIXELS}
    figure.update_layout(template="plotly_white", margin=margin, font={"size": PLOT_FONT_SIZE})
    return figure.to_html(full_html=False, include_plotlyjs=False, div_id=name)


def _place(record: Record) -> str:
    return f"points/{record.identity[:16]}/{POINT_REPORT}"


def _described(study: Study, record: Record) -> str:
    goals = zip(study.objectives, goal_values(study, record), strict=True)
    lines = [f"<b>{escape(goal.figure)} {value:.6g}</b>" for goal, value in goals]
    return "<br>".join([*lines, *(f"{escape(k)}: {escape(v)}" for k, v in record.point.items())])


def axis_range(values: Sequence[float]) -> tuple[float, float]:
    """
    Return the lower and upper end of the axis of a plot: the range of `values` with a margin. The
    margin does not cross 0 if no value is negative, nor 1 if no value exceeds 1, because such
    figures are usually shares.
    """
    low, high = min(values), max(values)
    padding = AXIS_PADDING * (high - low or abs(high) or 1.0)
    start = max(low - padding, 0.0) if low >= 0 else low - padding
    return start, min(high + padding, 1.0) if high <= 1 else high + padding


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
                # A point at the end of an axis is drawn completely.
                cliponaxis=False,
                text=[_described(study, record) for record in group],
                hoverinfo="text",
                customdata=[_place(record) for record in group],
            )
        )
    every = list(zip(*(goal_values(study, record) for record in done), strict=True))
    if len(names) > 1:
        figure.update_xaxes(title=names[1], range=axis_range(every[1]))
    else:
        figure.update_xaxes(title="point")
    figure.update_yaxes(title=names[0], range=axis_range(every[0]))
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    return figure


def _parallel(study: Study, done: Sequence[Record], plots: Any) -> Any:
    dimensions: list[dict[str, object]] = []
    first_labels: list[str] = []
    for name in dict.fromkeys(n for record in done for n in record.point):
        labels = sorted({record.point.get(name, "") for record in done})
        if len(labels) > 1:
            values = [labels.index(record.point.get(name, "")) for record in done]
            shown = [end_of_name(label, MAX_CHOICE_CHARACTERS) for label in labels]
            first_labels = first_labels or [name, *shown]
            ticks = {"tickvals": list(range(len(labels))), "ticktext": shown}
            dimensions.append({"label": name, "values": values, **ticks})
    goals = list(zip(*(goal_values(study, record) for record in done), strict=True))
    spans = [(min(v), max(v)) if min(v) < max(v) else axis_range(v) for v in goals]
    for goal, values, span in zip(study.objectives, goals, spans, strict=True):
        dimensions.append({"label": goal.figure, "values": list(values), "range": list(span)})
    low, high = spans[0]
    line = {"color": list(goals[0]), "colorscale": LINE_COLOURS, "cmin": low, "cmax": high,
            "showscale": True}  # fmt: skip
    figure = plots.Figure(plots.Parcoords(dimensions=dimensions, line=line))
    # Labels are at the left of their axis.
    left = max((text_width(label, PLOT_FONT_SIZE) for label in first_labels), default=0.0)
    figure.update_layout(margin_l=MIN_LEFT_MARGIN_PIXELS + left)
    return figure


def _importance(study: Study, done: Sequence[Record], plots: Any) -> Any:
    figure = plots.Figure()
    for goal in study.objectives:
        shares = importance(done, resolved(goal.figure, done[0].figures))
        figure.add_trace(plots.Bar(x=list(shares), y=list(shares.values()), name=goal.figure))
    figure.update_yaxes(title="share of variance", range=[0, 1])
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    return figure


def _table(name: str, study: Study, records: Sequence[Record]) -> Table:
    axes = list(dict.fromkeys(n for record in records for n in record.point))
    figures = list(dict.fromkeys(n for record in records for n in record.figures))
    goals = [resolved(goal.figure, figures) for goal in study.objectives] if figures else []
    columns = [Column("point"), *(Column(axis, "text") for axis in axes)]
    columns += [*(Column(goal) for goal in goals), Column("reason", "wide")]
    has_reasons = any(record.state != DONE for record in records)
    rows: list[Line] = []
    for number, record in enumerate(records, 1):
        cells = [TableCell(str(number), number, link=_place(record))]
        cells += [TableCell(record.point.get(axis, "")) for axis in axes]
        for goal in goals:
            value = record.figures.get(goal)
            cells.append(TableCell("" if value is None else f"{value:,.6g}", value))
        if has_reasons:
            text = "" if record.state == DONE else f"{record.state}: {record.diagnostic}"
            cells.append(TableCell(text[:MAX_MESSAGE_CHARACTERS]))
        rows.append(Line(cells))
    return Table(
        name,
        columns if has_reasons else columns[:-1],
        rows,
        filtered=len(rows) > MAX_UNFILTERED_ROWS,
    )
