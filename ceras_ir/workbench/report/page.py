"""Write the page of a compile: costs, devices with reasons, layers, and provenance."""

from collections import Counter
from collections.abc import Callable, Sequence

from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.support.timeline import legend, timeline_picture
from ceras_ir.workbench.pages import (
    Card,
    Chip,
    Column,
    Line,
    Ratio,
    Split,
    StackShare,
    Table,
    TableCell,
    amount,
    decibels,
    duration,
    ratio_plot,
    render,
    size,
    some,
    together,
    whole,
)
from ceras_ir.workbench.report.content import Content, Entry, Row
from ceras_ir.workbench.report.graph_picture import DEVICE_COLOURS, devices_of, graph_picture
from ceras_ir.workbench.report.memory_picture import memory_picture
from ceras_ir.workbench.report.roofline import UNUSED_COLOUR, roofline
from ceras_ir.workbench.report.trade_off import trade_off_picture, trade_off_table

MAX_KINDS = 7
"""The maximum number of kinds of operations in a stack."""

MAX_DRAWN_TIMELINES = 24
"""The maximum number of drawn timelines, longest first."""

MAX_NAMED_LAYERS = 3
"""The maximum number of layers named per reason."""

REPORT_SECTIONS = {
    "overview": "Overview",
    "reasons": "Reasons",
    "graph": "Graph",
    "layers-section": "Layers",
    "memory": "Memory",
    "optimize": "Size and time",
    "timeline": "Timeline",
    "roofline": "Roofline",
    "noise": "Noise",
    "provenance": "Provenance",
}


def report_page(content: Content) -> str:
    """Return the HTML page of a compiled network."""
    colours = devices_of(content.layers)
    timed = sorted(content.timelines, key=lambda t: -t.cycles)[:MAX_DRAWN_TIMELINES]
    noise = _noise(content)
    plot = roofline(content.layers, content.devices, colours)
    reasons = _reasons(content)
    has = {"reasons": reasons.rows, "memory": content.plan, "timeline": timed}
    has |= {"roofline": plot, "noise": noise, "optimize": content.trade_off}
    rows = content.layers
    longest = max(rows, key=lambda row: (row.microseconds or 0.0, row.macs), default=None)
    return render(
        "report.html",
        {
            "title": content.title,
            "sections": [(k, v) for k, v in REPORT_SECTIONS.items() if has.get(k, True)],
            "chips": _chips(content, colours),
            "cards": _cards(content),
            "splits": _splits(content, colours),
            "missing": _missing(content),
            "reasons": reasons,
            "reasons_note": _reasons_note(content),
            "graph": graph_picture(rows, content.input_names, content.results),
            "layers": _layers(content, colours),
            "memory": None if content.plan is None else memory_picture(content.plan),
            "optimize": None
            if content.trade_off is None
            else {
                "picture": trade_off_picture(content.trade_off),
                "table": trade_off_table(content.trade_off),
            },
            "timelines": [
                {
                    "name": t.name,
                    "told": f"{t.cycles:,} cycles, {t.note}",
                    "picture": timeline_picture(t),
                }
                for t in timed
            ],
            "kinds": legend(timed[0]) if timed else {},
            "roofline": plot,
            "rooflines": {d.device: colours.get(d.device, UNUSED_COLOUR) for d in content.devices},
            "machine": content.machine,
            "noise": noise,
            "command": command_of(content),
            "provenance": _provenance(content),
            "files": _files(content),
            "facts": [_facts(row) for row in rows],
            "first": 0 if longest is None else longest.number,
        },
    )


def _chips(content: Content, colours: dict[str, str]) -> list[Chip]:
    counts = Counter(row.device for row in content.layers)
    board = [Chip(f"board {content.board}")] if content.board else []
    return [
        Chip(f"target {content.target}"),
        *board,
        *(Chip(f"{count} on {device}", colours[device]) for device, count in counts.items()),
    ]


LIMITED = (
    ("sram_bytes", "SRAM", "the board has left"),
    ("flash_bytes", "flash", "the board has left"),
    ("stack_bytes", "stack", "the board description reserves"),
)
"""Totals with a limit of the board: key, label and limit."""


def _cards(content: Content) -> list[Card]:
    cards: list[Card] = []
    if content.microseconds is not None:
        number, unit = duration(content.microseconds)
        each = 1e6 / content.microseconds if content.microseconds else 0.0
        note = f"{together(amount(each))} inferences a second, as modelled for {content.machine}"
        cards.append(Card("predicted latency", number, unit, note))
    cards += _memory(content)
    for key, label, limit in LIMITED:
        used, has = content.total(key), content.total(f"board_{key}")
        if used is not None and has:
            note = f"{used:,} of {has:,} bytes that {limit}"
            cards.append(Card(label, *size(used), note, min(used / has, 1.0)))
    weights = content.total("weight_bytes")
    if weights is not None:
        note = "constants of the network as encoded, equal arrays once"
        if content.total("flash_bytes") is not None:
            note += "; flash adds padding, tables of kernels, and code"
        cards.append(Card("weights", *size(weights), note))
    macs = content.total("macs")
    if macs is not None:
        cards.append(Card("products", *amount(macs), "multiplications of one inference"))
    away = [row for row in content.layers if row.device != "cpu"]
    if away and macs:
        share = sum(row.macs for row in away) / macs
        note = f"{len(away)} of {len(content.layers)} layers"
        cards.append(Card("products on the accelerator", f"{share:.1%}", note=note, share=share))
    ratio = content.noise_total.get("output_db")
    if isinstance(ratio, int | float):
        samples = content.noise_total.get("samples")
        note = f"signal to noise at the outputs, {samples} samples"
        cards.append(Card("quantization", f"{ratio:.1f}", "dB", note))
    return cards


def _memory(content: Content) -> list[Card]:
    peak, bound = content.total("peak_bytes"), content.total("lower_bound_bytes")
    if peak is None:
        return []
    bound_text = "" if bound is None else f"no plan takes less than {bound:,} bytes"
    arena = content.total("arena_bytes")
    if arena is None:
        share = bound / peak if bound is not None and peak else None
        return [Card("memory for values", *size(peak), bound_text, share)]
    parts = [f"{peak:,} bytes of values" + (f" ({bound_text})" if bound_text else "")]
    for key, what in (("workspace_bytes", "workspace of kernels"), ("state_bytes", "states")):
        if count := content.total(key):
            parts.append(f"{count:,} of {what}")
    note = f"{', '.join(parts)}; inputs and outputs are the caller's"
    share = min(peak / arena, 1.0) if arena else None
    return [Card("arena", *size(arena), note, share)]


def _splits(content: Content, colours: dict[str, str]) -> list[Split]:
    timed = any(row.microseconds for row in content.layers)

    def weight(row: Row) -> float:
        return (row.microseconds or 0.0) if timed else float(row.macs)

    unit = "time" if timed else "products"
    splits: list[Split] = []
    if len(colours) > 1:
        parts = _parts(content.layers, weight, lambda row: row.device, colours)
        splits.append(Split(f"{unit} by device", parts))
    counted = Counter[str]()
    for row in content.layers:
        counted[row.op] += weight(row)  # pyright: ignore[reportArgumentType]
    kinds = [kind for kind, _ in counted.most_common(MAX_KINDS - 1)]
    palette = (*DEVICE_COLOURS, "#c2a83e")

    def kind(row: Row) -> str:
        return row.op if row.op in kinds else "others"

    by_kind = {name: palette[i % len(palette)] for i, name in enumerate([*kinds, "others"])}
    if sum(map(weight, content.layers)):
        parts = _parts(content.layers, weight, kind, by_kind)
        splits.append(Split(f"{unit} by operation", parts))
    return splits


def _parts(
    rows: Sequence[Row],
    weight: Callable[[Row], float],
    key: Callable[[Row], str],
    colours: dict[str, str],
) -> list[StackShare]:
    sums = dict.fromkeys(colours, 0.0)
    for row in rows:
        sums[key(row)] += weight(row)
    total = sum(sums.values()) or 1.0
    return [
        StackShare(name, value / total, f"{value / total:.1%}", colours[name])
        for name, value in sums.items()
        if value
    ]


def _missing(content: Content) -> str:
    lacking: list[str] = []
    if content.microseconds is None:
        lacking.append("no latency: the target has no model without --board")
    if not content.provenance:
        lacking.append("no provenance, noise or timeline: compile with --report")
    return "; ".join(lacking)


def _reasons_note(content: Content) -> str:
    """
    Return the heading of the table that explains why layers are in float or not on the accelerator.
    """
    reasons = [row for row in content.layers if row.reason is not None]
    in_float = [row for row in reasons if "float_reason" in row.facts]
    questions = ["not on the accelerator"] * (len(in_float) < len(reasons))
    questions += ["in float"] * bool(in_float)
    return f"Why layers are {' or '.join(questions)}: the rule and the remedy."


def _reasons(content: Content) -> Table:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in content.layers:
        if row.reason is not None:
            in_float = "float_reason" in row.facts
            where = f"{row.device}, in float" if in_float else row.device
            groups.setdefault((where, row.reason), []).append(row)
    total = sum(row.microseconds or 0.0 for row in content.layers)
    columns = [Column("layers"), Column("share of time"), Column("on", "text")]
    columns += [Column("reason", "wide"), Column("which", "wide")]
    lines: list[Line] = []
    for (where, reason), rows in sorted(groups.items(), key=lambda group: -len(group[1])):
        share = sum(row.microseconds or 0.0 for row in rows) / total if total else None
        names = ", ".join(row.name for row in rows[:MAX_NAMED_LAYERS])
        more = f" and {len(rows) - MAX_NAMED_LAYERS} more" if len(rows) > MAX_NAMED_LAYERS else ""
        shown = TableCell("") if share is None else TableCell(f"{share:.1%}", share)
        lines.append(
            Line([whole(len(rows)), shown, *map(TableCell, (where, reason, f"{names}{more}"))])
        )
    return Table("reasons-table", columns, lines)


OPTIONAL_COLUMNS: dict[str, tuple[str, str]] = {
    "bits": ("bits", "of the stored result"),
    "weight_bits": ("weights", "bits of stored weights"),
    "cycles": ("cycles", "of the accelerator"),
    "share_of_peak": ("of peak", "share of the products that the cycles would allow"),
    "instructions": ("instructions", "of the processor, or of the accelerator's stream"),
    "flash_bytes": ("flash", "bytes of constants and code"),
    "sram_bytes": ("SRAM", "bytes that hold something while it runs"),
    "multipliers": ("multipliers", "of the chip"),
    "memories": ("memories", "of the chip"),
}
"""Columns that are shown if a layer has the entry: heading and help."""


def _layers(content: Content, colours: dict[str, str]) -> Table:
    rows = content.layers
    timed = any(row.microseconds is not None for row in rows)
    longest = max((row.microseconds or 0.0 for row in rows), default=0.0) or 1.0
    facts = [row.facts for row in rows]
    extra = [key for key in OPTIONAL_COLUMNS if any(key in known for known in facts)]
    if all(known.get("weight_bits", BYTE_BITS) == BYTE_BITS for known in facts):
        extra = [key for key in extra if key != "weight_bits"]
    kernels = any(row.facts.get("kernel") for row in rows)
    noise = {(n.name, n.op): n for n in content.noise}
    columns = [Column("#"), Column("layer", "name"), Column("operation", "text")]
    columns += [Column("kernel", "text")] * kernels
    columns += [Column("device", "text"), Column("result", "text"), Column("products")]
    columns.append(Column("bytes", help="operands, constants and result"))
    columns += [Column("time, \N{MICRO SIGN}s", help="as modelled")] * timed
    columns += [Column(*_head(key)) for key in extra]
    if noise:
        columns += [Column("alone dB"), Column("accumulated dB")]
    lines: list[Line] = []
    for row in rows:
        cells = [TableCell(str(row.number), row.number), TableCell(row.name), TableCell(row.op)]
        cells += [TableCell(str(row.facts.get("kernel", "")))] * kernels
        cells.append(TableCell(row.device, colour=colours[row.device]))
        cells += [TableCell("x".join(map(str, row.shape))), some(row.macs), whole(row.bytes)]
        if timed:
            time = row.microseconds
            shown = (
                TableCell("") if time is None else TableCell(f"{time:,.1f}", time, time / longest)
            )
            cells.append(shown)
        cells += [_fact(key, row.facts.get(key)) for key in extra]
        if noise:
            found = noise.get((row.name, row.op))
            none = TableCell("")
            cells.append(none if found is None else decibels(found.alone))
            cells.append(none if found is None else decibels(found.accumulated))
        lines.append(Line(cells, row.number))
    return Table("layers", columns, lines, filtered=True)


def _head(key: str) -> tuple[str, str, str]:
    title, help = OPTIONAL_COLUMNS[key]
    return title, "", help


def _fact(key: str, value: object) -> TableCell:
    if not isinstance(value, int | float):
        return TableCell("")
    if key == "share_of_peak":
        return TableCell(f"{value:.1%}", value, min(value, 1.0))
    return whole(value)


def _facts(row: Row) -> dict[str, object]:
    facts = [("operation", row.op), ("device", row.device)]
    if row.shape:
        facts.append(("result", "x".join(map(str, row.shape))))
    if row.macs:
        facts.append(("products", f"{row.macs:,}"))
    facts.append(("bytes", f"{row.bytes:,}"))
    if row.microseconds is not None:
        facts.append(("time", together(duration(row.microseconds))))
    if row.macs and row.bytes:
        facts.append(("products a byte", f"{row.macs / row.bytes:,.1f}"))
    facts += [(key.replace("_", " "), text_of_value(value)) for key, value in row.facts.items()]
    return {"title": row.name, "facts": facts}


def text_of_value(value: object) -> str:
    """Format a value of a report, such as a list or dictionary, as text."""
    if isinstance(value, dict):
        pairs: dict[object, object] = value  # pyright: ignore[reportUnknownVariableType]
        return ", ".join(f"{key} {text_of_value(each)}" for key, each in pairs.items())
    if isinstance(value, list):
        each: list[object] = value  # pyright: ignore[reportUnknownVariableType]
        return ", ".join(map(text_of_value, each))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _noise(content: Content) -> dict[str, str] | None:
    if not content.noise:
        return None
    layers = [Ratio(n.name, n.op, n.accumulated, n.alone, n.share) for n in content.noise]
    count = content.noise_total.get("samples")
    plural = "sample" if count == 1 else "samples"
    caption = f"Measured on {count} {plural} of the calibration data, against the float network."
    return {"picture": ratio_plot(layers, ("accumulated", "alone")), "told": caption}


def command_of(content: Content) -> str:
    """Return the command that compiled the network, or "" if it is not recorded."""
    command = content.provenance.get("command")
    return command if isinstance(command, str) else ""


def provenance_rows(content: Content) -> dict[str, str]:
    """Return the versions, options and digests of a compilation as texts, by name."""
    found: dict[str, str] = {}

    def add(entry: Entry, prefix: str) -> None:
        for key, value in entry.items():
            if isinstance(value, dict):
                inner: Entry = value  # pyright: ignore[reportUnknownVariableType]
                add(inner, f"{prefix}{key} ")
            else:
                found[f"{prefix}{key}".replace("_", " ")] = text_of_value(value)

    add({k: v for k, v in content.provenance.items() if k not in ("command", "board")}, "")
    return found


def _provenance(content: Content) -> Table:
    rows = [Line([TableCell(k), TableCell(v)]) for k, v in provenance_rows(content).items()]
    return Table("provenance-table", [Column("", "text"), Column("", "wide mono")], rows)


def _files(content: Content) -> Table:
    manifest: Entry = {} if content.manifest is None else dict(content.manifest.content)
    files, digests = manifest.get("files"), manifest.get("sha256")
    columns = [Column("file", "text"), Column("what it is", "wide"), Column("SHA-256", "wide mono")]
    if not isinstance(files, dict):
        return Table("files", columns)
    known: Entry = files  # pyright: ignore[reportUnknownVariableType]
    sums: Entry = digests if isinstance(digests, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    rows = [
        Line([TableCell(name), TableCell(str(text)), TableCell(str(sums.get(name, "")))])
        for name, text in sorted(known.items())
    ]
    return Table("files", columns, rows)
