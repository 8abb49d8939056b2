"""What one chip has for blocks: multipliers, memories, tables, and a clock."""

import re
from dataclasses import dataclass, fields

from ceras_ir.backends.dataflow.families import FAMILIES, Family
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.toml_text import parse_toml
from ceras_ir.targets.boards import board_text

CHIP = re.compile(r"\w+ \w+ \w+")
"""Size, package and speed grade of a chip."""

DEFAULT = "zcu102"
"""The board of S5."""


@dataclass(frozen=True)
class Board:
    """
    The fields of a board's TOML file: integers of at least 1, and texts. `nextpnr` may be left out.
    """

    title: str
    family: str
    """What `yosys` calls the family: a key of `FAMILIES`."""
    dsp: int
    """Multipliers."""
    ram18: int
    """Memories of 18 kbit."""
    lut: int
    clock_mhz: int
    port_bytes: int
    """Bytes that each port moves in a cycle."""
    nextpnr: str = ""
    """Size, package and speed grade as nextpnr calls them; none if it does not know the chip."""

    @property
    def fabric(self) -> Family:
        """What the chip is made of."""
        return FAMILIES[self.family]

    @property
    def pairs(self) -> bool:
        """Whether one multiplier makes two products of int8."""
        return self.fabric.paired


def load_board(name: str) -> Board:
    """A board of this package by name, or one described in a TOML file."""
    return parse_board(board_text("dataflow", "ceras_ir.backends.dataflow", name), name)


def parse_board(text: str, file: str) -> Board:
    """The board that the TOML `text` describes; `file` is named in messages."""
    content = parse_toml(text, file)
    known = [field.name for field in fields(Board)]
    optional = {"nextpnr"} - set(content)
    if wrong := sorted((set(content) ^ set(known)) - optional):
        raise InputError(f"unknown or missing '{wrong[0]}' (fields: {', '.join(known)})", file)
    for name, value in content.items():
        if name == "title" and isinstance(value, str):
            continue
        if name == "family" and isinstance(value, str):
            if value not in FAMILIES:
                raise InputError(
                    f"family must be one of {', '.join(FAMILIES)}, got '{value}'", file
                )
            continue
        if name == "nextpnr":
            if not isinstance(value, str) or not CHIP.fullmatch(value):
                example = '"85k CABGA756 6"'
                raise InputError(f"nextpnr must be like {example}, got {value!r}", file)
            continue
        most = 64 if name == "port_bytes" else 1 << 24
        if name in ("title", "family") or type(value) is not int or not 1 <= value <= most:
            kind = "text" if name in ("title", "family") else f"an integer in [1, {most}]"
            raise InputError(f"{name} must be {kind}, got {value!r}", file)
    return Board(**content)
