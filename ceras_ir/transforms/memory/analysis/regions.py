"""
Memories with hard caps that a network may use together, in the order of preference.

Given as text (`bram:1048576,ddr:4194304`) or by the `[[memory.region]]` tables of a board.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

from xdsl.dialects.func import FuncOp
from xdsl.utils.hints import isa

from ceras_ir.dialects.mem import regions_of
from ceras_ir.support.diagnostics import InputError, UnsupportedError, UsageError
from ceras_ir.support.user_files import parse_toml
from ceras_ir.targets.registry import all_targets

FIELDS = ("name", "bytes", "bytes_per_us")
MOST_BYTES = 1 << 48


@dataclass(frozen=True)
class Region:
    """A memory of `capacity` bytes; `bytes_per_us` is its bandwidth, if that is known."""

    name: str
    capacity: int
    bytes_per_us: float | None = None


def parse_regions(texts: Sequence[str]) -> list[Region]:
    """Regions spelled `NAME:BYTES` or `NAME:BYTES:BYTES_PER_US`, the preferred one first."""
    found: list[Region] = []
    for text in texts:
        name, *numbers = text.split(":")
        try:
            if not 1 <= len(numbers) <= 2:
                raise ValueError
            rate = float(numbers[1]) if len(numbers) == 2 else None
            found.append(Region(name, int(numbers[0]), rate))
        except ValueError:
            raise UsageError(
                f"regions: one is NAME:BYTES or NAME:BYTES:BYTES_PER_US, got '{text}'"
            ) from None
    if (wrong := _problem(found)) is not None:
        raise UsageError(f"regions: {wrong}")
    return found


def refuse_regions(main: FuncOp, target: str) -> None:
    """Refuse a plan of several regions, for a target whose memory is one."""
    if regions := regions_of(main):
        names = ", ".join(region.region.data for region in regions)
        raise UnsupportedError(
            f"unsupported: target {target} has one arena, but the plan is for the regions {names}; "
            "run --allocate-blocks without regions"
        )


def board_regions(name: str) -> list[Region]:
    """The regions of a board of this package by name, or of one described in a TOML file."""
    try:
        if name.endswith(".toml"):
            text = Path(name).read_text(encoding="utf-8")
        else:
            text = _board_file(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the board: {error}", name) from None
    memory = parse_toml(text, name).get("memory")
    tables = memory.get("region") if isa(memory, dict[str, object]) else None
    if not isa(tables, list[dict[str, object]]) or not tables:
        raise InputError("the board has no tables [[memory.region]]", name)
    found = [_region(table, name) for table in tables]
    if (wrong := _problem(found)) is not None:
        raise InputError(wrong, name)
    return found


def _board_file(name: str) -> Traversable:
    """The description of a board that some target has."""
    for target in all_targets():
        if name in (boards := target.boards()):
            return boards[name]
    raise FileNotFoundError(2, "no such board", name)


def _region(table: dict[str, object], file: str) -> Region:
    for field in table:
        if field not in FIELDS:
            known = ", ".join(FIELDS)
            raise InputError(f"memory.region has no field '{field}' (fields: {known})", file)
    name, capacity, rate = (table.get(field) for field in FIELDS)
    if not isinstance(name, str):
        raise InputError(f"name of a memory.region must be text, got {name!r}", file)
    if not isinstance(capacity, int) or isinstance(capacity, bool):
        raise InputError(f"bytes of region '{name}' must be an integer, got {capacity!r}", file)
    match rate:
        case None:
            return Region(name, capacity)
        case int() | float() if not isinstance(rate, bool):
            return Region(name, capacity, float(rate))
        case _:
            raise InputError(f"bytes_per_us of '{name}' must be a number, got {rate!r}", file)


def _problem(regions: Sequence[Region]) -> str | None:
    """What is wrong with the values, wherever they came from."""
    for i, region in enumerate(regions):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", region.name):
            return f"a region needs a name of letters, digits and _, got '{region.name}'"
        # In C they are macros, which are upper case.
        if any(region.name.lower() == other.name.lower() for other in regions[:i]):
            return f"two regions are called '{region.name}'"
        if not 1 <= region.capacity <= MOST_BYTES:
            return f"region '{region.name}' must have 1 to 2^48 bytes, got {region.capacity}"
        if region.bytes_per_us is not None and not 0 < region.bytes_per_us < 1e12:
            return f"bytes_per_us of region '{region.name}' must be above 0"
    return None
