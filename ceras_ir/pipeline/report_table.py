"""The short table of a report that `ceras-compile` prints: layers, reasons and totals."""

from collections.abc import Sequence

from xdsl.utils.hints import isa

from ceras_ir.pipeline.report import Entry
from ceras_ir.support.text_table import aligned
from ceras_ir.targets.protocol import Emission

MAX_NAMED = 3
"""Up to so many layers share a line of the table's explanations by name."""

NAME_WIDTH = 40
"""Characters of a name in a line of the table; what is longer goes on in the next."""


def explanations(entries: Sequence[Entry]) -> list[str]:
    """Why layers are not on the accelerator, or float: a line per reason, most frequent first."""
    groups: dict[tuple[str, object], list[str]] = {}
    for entry in entries:
        # What is float on purpose is on no accelerator for that reason alone.
        key = "float_reason" if "float_reason" in entry else "reason"
        if key in entry:
            where = f"{'in float ' if key == 'float_reason' else ''}on the {entry['device']}"
            groups.setdefault((where, entry[key]), []).append(str(entry["name"]))
    return [
        f"{_listed(names)} {where}: {reason}"
        for (where, reason), names in sorted(groups.items(), key=lambda group: -len(group[1]))
    ]


def _listed(names: Sequence[str]) -> str:
    """Few layers by name, many by number; `report.json` has the reason of every layer."""
    return ", ".join(names) if len(names) <= MAX_NAMED else f"{len(names)} layers"


def table(content: Entry, target: str, emission: Emission | None) -> str:
    """
    The layers that matter and the totals, as `ceras-compile` prints them; without the `emission`
    also without what only the target's table shows.
    """
    emission = emission or Emission([])
    columns = emission.columns
    entries, totals = content["layers"], content["totals"]
    assert isa(entries, list[Entry]) and isa(totals, Entry)
    shown = [key for key in columns if any(key in entry for entry in entries)]
    rows = [["layer", "operation", "on", "MACs", "bytes", *(columns[key][0] for key in shown)]]
    for entry in entries:
        text = str(entry["name"])
        name, *rest = (text[at : at + NAME_WIDTH] for at in range(0, len(text) or 1, NAME_WIDTH))
        rows.append(
            [
                name,
                f"{entry['op']} {entry.get('kernel', '')}".rstrip(),
                str(entry["device"]),
                f"{entry['macs']:,}" if entry["macs"] else "",
                f"{entry['bytes']:,}",
                *(columns[key][1].format(entry[key]) for key in shown if key in entry),
            ]
        )
        rows += [[text] for text in rest]
    lines = [f"compiled for {target}", *aligned(rows, right=range(3, len(rows[0])))]
    lines += [*emission.notes, *explanations(entries)]
    words = ", ".join(
        f"{name.replace('_', ' ')} {value:,}"
        for name, value in totals.items()
        if isinstance(value, int | float)
    )
    if isa(chosen := content.get("quantization"), Entry):
        lines.append(
            f"quantized: {chosen['requantizations_before']} "
            "requantizations at run time before scales were aligned, "
            f"{chosen['requantizations_after']} after"
        )
    return "\n".join([*lines, f"total: {words}"])
