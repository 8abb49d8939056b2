"""
Chips: multipliers, memories, lookup tables and clock of a board, and the family of the chip.

A family describes how `yosys` maps a circuit: tables for a memory if blocks cost more. The logic
that parts of a circuit need is measured; `benchmarks/dataflow_estimates.py` fits `tables` to it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from xdsl.utils.str_enum import StrEnum

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.files import parse_toml
from ceras_ir.targets.capabilities import board_text


class LogicPart(StrEnum):
    """Logic of a block, by what it is counted in."""

    CONTROL = "convolutions"
    SUM = "bits of sums"
    SELECT = "bits beyond the first that are chosen from on the way to a lane"
    DRAIN = "bits beyond the first that are chosen from on the way out"
    FINISH = "bits of sums that become results at once"
    MOVE = "bits of sums times bits of how far they go right"
    PHASE = "bits beyond the first that are chosen from on the way into a buffer"
    MAXIMUM = "bits that are compared"
    FUNCTION = "columns that look up a function"


@dataclass(frozen=True)
class LutRam:
    """Tables that are a memory with one port to write and one to read at once."""

    words: int
    bits: int
    tables: int


@dataclass(frozen=True)
class Family:
    """One family; tables are the LUT that it is made of."""

    paired: bool
    """Whether a multiplier is wide enough for two products of int8."""
    product_bits: int
    """Bits of an address from which it is multiplied by a constant in a multiplier."""
    lut_rams: tuple[LutRam, ...]
    table_price: float
    """What `yosys` takes a table of a memory for, where a block of 18 kbit is `block_price`."""
    block_price: int
    tables: Mapping[LogicPart, float]
    """What each unit of a part takes."""


FAMILIES = {
    "xcup": Family(
        paired=True,
        product_bits=9,
        lut_rams=(LutRam(32, 14, 8), LutRam(64, 7, 8)),
        table_price=2.0,
        block_price=129,
        tables={
            LogicPart.CONTROL: 416,
            LogicPart.SUM: 1,
            LogicPart.SELECT: 0.434,
            LogicPart.DRAIN: 0.775,
            LogicPart.FINISH: 3.46,
            LogicPart.MOVE: 0.868,
            LogicPart.PHASE: 1.53,
            LogicPart.MAXIMUM: 1.69,
            LogicPart.FUNCTION: 32,
        },
    ),
    "ecp5": Family(
        paired=False,
        product_bits=0,
        lut_rams=(LutRam(16, 4, 6),),
        table_price=4 / 6,
        block_price=128,
        tables={
            LogicPart.CONTROL: 975,
            LogicPart.SUM: 2,
            LogicPart.SELECT: 0.749,
            LogicPart.DRAIN: 1.78,
            LogicPart.FINISH: 5.09,
            LogicPart.MOVE: 1.88,
            LogicPart.PHASE: 1.9,
            LogicPart.MAXIMUM: 2.51,
            LogicPart.FUNCTION: 150,
        },
    ),
}
"""By the names that `yosys` has for them."""


CHIP = re.compile(r"\w+ \w+ \w+")
"""Size, package and speed grade of a chip."""


@dataclass(frozen=True)
class DataflowBoard:
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


def load_board(name: str) -> DataflowBoard:
    """A board of this package by name, or one described in a TOML file."""
    return parse_board(board_text("dataflow", "ceras_ir.backends.dataflow", name), name)


def parse_board(text: str, file: str) -> DataflowBoard:
    """The board that the TOML `text` describes; `file` is named in messages."""
    content = parse_toml(text, file)
    known = [field.name for field in fields(DataflowBoard)]
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
    return DataflowBoard(**content)
