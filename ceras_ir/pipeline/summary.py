"""
Print the figures of a compiled network that a user compares with the machine.

The lines are multiplications, time, flash, SRAM and stack, each with the limit of the board if the
report has one. A line without figures is omitted. All other totals are in `report.json`.
"""

from collections.abc import Mapping

from xdsl.utils.hints import isa

from ceras_ir.targets.capabilities import MICROSECONDS

BOUNDED = {"flash": "flash_bytes", "SRAM": "sram_bytes"}
"""The figures in bytes: label -> total. The limit is the total with the prefix `board_`."""

ORDER = ("MACs", "time", *BOUNDED, "stack")
"""The labels in the order of the lines; labels of a target follow."""


def summary(content: Mapping[str, object], figures: Mapping[str, str]) -> list[str]:
    """
    Return the lines of the summary, such as `flash  1,024 bytes`. `content` is the report.
    `figures` maps a label to a text of the target, which replaces or adds the line.
    """
    totals = content["totals"]
    assert isa(totals, dict[str, object])
    found = _numbers(totals)
    lines: dict[str, str] = {}
    if found.get("macs"):
        lines["MACs"] = f"{found['macs']:,}"
    if (time := _time(content)) is not None:
        lines["time"] = time
    parts = {"flash": _flash_parts(found), "SRAM": _sram_parts(found)}
    for label, key in BOUNDED.items():
        if key in found:
            lines[label] = used_bytes(found[key], found.get(f"board_{key}")) + parts[label]
    lines |= figures
    # The place of a line does not depend on the target.
    shown = [label for label in dict.fromkeys([*ORDER, *figures]) if label in lines]
    width = max(map(len, shown), default=0)
    return [f"{label.ljust(width)}  {lines[label]}" for label in shown]


def duration(microseconds: float) -> str:
    """Format a time: as `12.3 us` below a millisecond, otherwise as `1.23 ms`."""
    if microseconds < 1000:
        return f"{microseconds:,.1f} us"
    return f"{microseconds / 1000:,.2f} ms"


def _numbers(totals: Mapping[str, object]) -> dict[str, int]:
    return {key: value for key, value in totals.items() if isinstance(value, int)}


def _time(content: Mapping[str, object]) -> str | None:
    prediction = content.get("prediction")
    if not isa(prediction, dict[str, object]):
        return None
    time = prediction.get(MICROSECONDS)
    if not isinstance(time, float):
        return None
    return f"{duration(time)}, predicted for {prediction.get('machine')}"


def used_bytes(count: int, limit: int | None) -> str:
    """
    Return a number of bytes as text; if there is a limit, with the limit and the percentage used.
    """
    if not limit:
        return f"{count:,} bytes"
    return f"{count:,} of {limit:,} bytes ({100 * count / limit:.0f}%)"


def _flash_parts(totals: Mapping[str, int]) -> str:
    """
    Return the text that follows the bytes of flash: the parts for constants and code. Without an
    estimate of the code, flash is constants only.
    """
    code = totals.get("code_bytes")
    if code is None:
        return " of constants"
    return f": constants {totals['flash_bytes'] - code:,}, code {code:,}"


def _sram_parts(totals: Mapping[str, int]) -> str:
    """
    Return the text that follows the bytes of SRAM: the parts for the arena, inputs and outputs.
    Targets without an arena have only values.
    """
    arena = totals.get("arena_bytes")
    if arena is None:
        return " of values"
    names = {"values": "peak_bytes", "workspace": "workspace_bytes", "states": "state_bytes"}
    parts = [f"{name} {totals[key]:,}" for name, key in names.items() if totals.get(key)]
    text = f": arena {arena:,}" + (f" ({', '.join(parts)})" if parts[1:] else "")
    rest = totals.get("sram_bytes", arena) - arena
    return text + (f", inputs and outputs {rest:,}" if rest else "")
