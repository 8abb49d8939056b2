"""`ceras-report`: write a page about a compiled folder, or about the differences of two."""

import argparse
from collections import defaultdict, deque
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import NoReturn

from ceras_ir.command.exit_status import EXIT_STATUS, run_tool
from ceras_ir.command.tool_parser import ToolParser, add_output
from ceras_ir.pipeline.schema import SCHEMA_NAMES, schema_text
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.workbench.pages import (
    Card,
    Column,
    Line,
    Ratio,
    Table,
    TableCell,
    amount,
    duration,
    ratio_plot,
    render,
    size,
    together,
    whole,
)
from ceras_ir.workbench.report.content import Content, Row, numbers
from ceras_ir.workbench.report.memory_picture import memory_picture
from ceras_ir.workbench.report.page import command_of, provenance_rows

CARDS = {
    "microseconds": ("predicted latency", duration),
    "arena_bytes": ("arena", size),
    "peak_bytes": ("memory for values", size),
    "flash_bytes": ("flash", size),
    "sram_bytes": ("SRAM", size),
    "stack_bytes": ("stack", size),
    "weight_bytes": ("weights", size),
    "macs": ("products", amount),
}
"""Totals in large letters for which less is better: label and format."""

COMPARISON_SECTIONS = {
    "overview": "Overview",
    "options": "Options",
    "layers-section": "Layers",
    "totals": "Totals",
    "memory": "Memory",
    "noise": "Noise",
}

MIN_PRINTED_FACTOR = 10
"""The factor from which a change is printed as a factor instead of percent."""

RowPair = tuple[Row | None, Row | None]


def difference_page(before: Content, after: Content, names: tuple[str, str]) -> str:
    """
    Return an HTML page that compares two compiled networks. `names` are the names of their folders.
    """
    pairs = matched(before, after)
    options = _options(before, after)
    memories = [
        {"name": name, "picture": memory_picture(content.plan)}
        for name, content in zip(names, (before, after), strict=True)
        if content.plan is not None
    ]
    noise = _noise(before, after)
    has = {"options": options.rows, "memory": memories, "noise": noise}
    common = sum(a is not None and b is not None for a, b in pairs)
    caption = (
        f"{common} layers are in both, {sum(b is None for _, b in pairs)} only in {names[0]}, "
        f"{sum(a is None for a, _ in pairs)} only in {names[1]}; matched by name and operation."
    )
    return render(
        "difference.html",
        {
            "title": f"{names[0]} \N{RIGHTWARDS ARROW} {names[1]}",
            "before": f"{names[0]} ({before.title} for {before.target})",
            "after": f"{names[1]} ({after.title} for {after.target})",
            "sections": [(k, v) for k, v in COMPARISON_SECTIONS.items() if has.get(k, True)],
            "cards": _cards(before, after),
            "options": options,
            "told": caption,
            "layers": _layers(pairs),
            "totals": _totals(before, after),
            "memories": memories,
            "noise": noise,
        },
    )


def matched(before: Content, after: Content) -> list[RowPair]:
    """
    Pair the layers of two networks with equal names and operators, in the order of `after`. A layer
    without a partner is paired with `None`; layers that only `before` has are at the end.
    """
    found: defaultdict[tuple[str, str], deque[Row]] = defaultdict(deque)
    for row in before.layers:
        found[row.name, row.op].append(row)
    pairs: list[RowPair] = []
    for row in after.layers:
        waiting = found[row.name, row.op]
        pairs.append((waiting.popleft() if waiting else None, row))
    pairs += [(row, None) for rows in found.values() for row in rows]
    return pairs


def _value(content: Content, key: str) -> float | None:
    return content.microseconds if key == "microseconds" else content.total(key)


def _cards(before: Content, after: Content) -> list[Card]:
    cards: list[Card] = []
    for key, (label, written) in CARDS.items():
        old, new = _value(before, key), _value(after, key)
        if old is None or new is None:
            continue
        number, unit = written(new)
        verdict = "better" if new < old else "worse" if new > old else ""
        note = f"was {together(written(old))}"
        cards.append(Card(label, number, unit, note, None, change(old, new), verdict))
    return cards


def change(old: float, new: float) -> str:
    """
    Return the change from `old` to `new` as text: `+12.5%`, `4 times`, `unchanged`, or the
    difference if one of them is 0.
    """
    if old == new:
        return "unchanged"
    if not old or not new:
        return f"{new - old:+,.6g}"
    factor = new / old
    return f"{factor:,.0f} times" if factor >= MIN_PRINTED_FACTOR else f"{factor - 1:+.1%}"


def _options(before: Content, after: Content) -> Table:
    rows = [provenance_rows(content) for content in (before, after)]
    for row, content in zip(rows, (before, after), strict=True):
        row |= {
            "target": content.target,
            "board": content.board or "",
            "command": command_of(content),
        }
    names = [
        name
        for name in dict.fromkeys([*rows[0], *rows[1]])
        if rows[0].get(name, "") != rows[1].get(name, "")
    ]
    columns = [Column("what", "text"), Column("before", "wide mono"), Column("after", "wide mono")]
    lines = [
        Line([TableCell(name), *(TableCell(row.get(name, "")) for row in rows)]) for name in names
    ]
    return Table("options-table", columns, lines)


def _layers(pairs: list[RowPair]) -> Table:
    columns = [Column("layer", "name"), Column("operation", "text"), Column("device", "text")]
    for what in ("time, \N{MICRO SIGN}s", "bytes", "bits"):
        columns += [Column(f"{what} before"), Column("after"), Column("change")]
    lines: list[Line] = []
    for old, new in pairs:
        row = new or old
        assert row is not None
        devices = [side.device if side else "\N{EM DASH}" for side in (old, new)]
        arrow = " \N{RIGHTWARDS ARROW} "
        device = devices[1] if devices[0] == devices[1] else arrow.join(devices)
        grade = "" if devices[0] == devices[1] else "fair"
        cells = [TableCell(row.name), TableCell(row.op), TableCell(device, grade=grade)]
        cells += _three(old and old.microseconds, new and new.microseconds, "{:,.1f}")
        cells += _three(old and old.bytes, new and new.bytes, "{:,.0f}")
        cells += _three(_bits(old), _bits(new), "{:.0f}")
        lines.append(Line(cells))
    return Table("layers", columns, lines, filtered=True)


def _bits(row: Row | None) -> float | None:
    bits = None if row is None else row.facts.get("bits")
    return bits if isinstance(bits, int) else None


def _three(old: float | None, new: float | None, form: str) -> list[TableCell]:
    cells = [TableCell("") if v is None else TableCell(form.format(v), v) for v in (old, new)]
    if old is None or new is None or old == new:
        return [*cells, TableCell("", 0.0 if old == new else None)]
    return [
        *cells,
        TableCell(change(old, new), new - old, grade="better" if new < old else "worse"),
    ]


def _totals(before: Content, after: Content) -> Table:
    olds, news = dict(numbers(before)), dict(numbers(after))
    columns = [Column("total", "text"), Column("before"), Column("after"), Column("change")]
    lines: list[Line] = []
    for key in dict.fromkeys([*olds, *news]):
        old, new = olds.get(key), news.get(key)
        known = old is not None and new is not None
        said = (
            TableCell(change(old, new), new - old)
            if known and old is not None and new is not None
            else TableCell("")
        )
        lines.append(Line([TableCell(key.replace("_", " ")), whole(old), whole(new), said]))
    return Table("totals-table", columns, lines)


def _noise(before: Content, after: Content) -> str | None:
    if not before.noise or not after.noise:
        return None
    olds = {(n.name, n.op): n.accumulated for n in before.noise}
    layers = [Ratio(n.name, n.op, n.accumulated, olds.get((n.name, n.op))) for n in after.noise]
    if not any(isfinite(layer.first or 0.0) for layer in layers):
        return None
    return ratio_plot(layers, ("after", "before"))


COMPARISON_PAGE = "report.html"


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-report", _report, argv)


def make_parser() -> ToolParser:
    """Return the command line of `ceras-report`."""
    parser = ToolParser(
        "ceras-report",
        description="Write a page about a folder that ceras-compile wrote: graph, devices with "
        "reasons, layers, memory, predicted times, provenance. With two folders, the page has "
        "the differences. It needs no other files.",
        epilog=EXIT_STATUS,
        examples=("model_c -o page.html", "before after -o differences.html"),
    )
    parser.add_argument("folder", metavar="DIR", help="a folder that ceras-compile wrote")
    parser.add_argument(
        "other", metavar="OTHER", nargs="?", help="a second folder, to compare with"
    )
    add_output(
        parser,
        "OUT.html",
        "the page (default: %(default)s in the current folder)",
        default=COMPARISON_PAGE,
    )
    parser.add_argument(
        "--trace",
        metavar="OUT.json",
        help="also write the predicted inference as a trace for Perfetto",
    )
    parser.add_argument(
        "--schema",
        action=_PrintSchema,
        choices=SCHEMA_NAMES,
        help="print the JSON schema of report.json or manifest.json, with the unit of each number, "
        "and exit",
    )
    return parser


class _PrintSchema(argparse.Action):
    """Print a JSON schema and exit; no folder is needed."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: object, name: object, *__: object
    ) -> NoReturn:
        print(schema_text("manifest" if name == "manifest" else "report"), end="")
        parser.exit()


def _report(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    if arguments.other is not None and arguments.trace is not None:
        raise UsageError("--trace requires a single folder")

    from ceras_ir.command.output_files import open_output
    from ceras_ir.workbench.report.content import read_folder

    content = read_folder(arguments.folder)
    if arguments.other is None:
        from ceras_ir.workbench.report.page import report_page

        page = report_page(content)
    else:
        names = Path(arguments.folder).resolve().name, Path(arguments.other).resolve().name
        page = difference_page(content, read_folder(arguments.other), names)
    written = [(arguments.output, page)]
    if arguments.trace is not None:
        from ceras_ir.workbench.report.trace import perfetto_trace

        written.append((arguments.trace, perfetto_trace(content)))
    for path, text in written:
        with open_output(path) as stream:
            stream.write(text)
    return 0
