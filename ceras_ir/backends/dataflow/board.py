"""
Describe a board: multipliers, memories, lookup tables and clock, and the family of the chip.

A family describes how `yosys` maps a circuit. A memory is mapped to lookup tables if memory blocks
cost more. `benchmarks/dataflow_estimates.py` fits `Family.tables` to measured logic.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from xdsl.utils.str_enum import StrEnum

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.files import parse_toml
from ceras_ir.support.options import inherited, option, options
from ceras_ir.targets.capabilities import board_text
from ceras_ir.targets.shared_options import BoardOptions


class LogicPart(StrEnum):
    """A part of the logic of a block. The value names the unit in which it is counted."""

    CONTROL = "convolutions"
    SUM = "bits of accumulators"
    SELECT = "additional input bits of multiplexers before lanes"
    DRAIN = "additional input bits of multiplexers after lanes"
    FINISH = "bits of sums that are requantized in a cycle"
    MOVE = "bits of sums times bits of the extra shift"
    PHASE = "additional input bits of multiplexers before a window buffer"
    MAXIMUM = "bits that are compared"
    FUNCTION = "columns of lookups"


@dataclass(frozen=True)
class LutRam:
    """A memory made of lookup tables, with a write port and a read port."""

    words: int
    bits: int
    tables: int


@dataclass(frozen=True)
class Family:
    """A family of chips. A table is a lookup table (LUT) of the family."""

    paired: bool
    """Whether a multiplier can compute two products of int8."""
    product_bits: int
    """The minimum width of an address that is multiplied by a constant in a multiplier."""
    lut_rams: tuple[LutRam, ...]
    table_price: float
    """The cost of a table of a memory in `yosys`, relative to `block_price`."""
    block_price: int
    """The cost of a memory block of 18 kbit in `yosys`."""
    tables: Mapping[LogicPart, float]
    """The number of tables per unit of a part."""


CHIP_FAMILIES = {
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
"""The families by their names in `yosys`."""


DEFAULT_CHIP_BOARD = "zcu102"
"""The board of S5."""


@options
class ChipOptions(BoardOptions):
    """The options of the target and of the pass `allot-lanes`: the chip, and the usable part."""

    board: str = inherited(BoardOptions, "board", DEFAULT_CHIP_BOARD)
    dsp: int = option(0, metavar="N")
    """Use at most this number of multipliers of the chip; 0, all."""
    ram18: int = option(0, metavar="N")
    """Use at most this number of memories of 18 kbit; 0, all."""


CHIP = re.compile(r"\w+ \w+ \w+")
"""The size, package and speed grade of a chip."""


@dataclass(frozen=True)
class DataflowBoard:
    """The fields of the TOML file of a board: texts, and integers >= 1. `nextpnr` is optional."""

    title: str
    family: str
    """The name of the family in `yosys`: a key of `CHIP_FAMILIES`."""
    dsp: int
    """The number of multipliers."""
    ram18: int
    """The number of memories of 18 kbit."""
    lut: int
    clock_mhz: int
    port_bytes: int
    """The bytes per cycle of each port."""
    nextpnr: str = ""
    """The size, package and speed grade in nextpnr; empty if nextpnr does not support the chip."""

    @property
    def fabric(self) -> Family:
        return CHIP_FAMILIES[self.family]

    @property
    def pairs(self) -> bool:
        """Return whether a multiplier can compute two products of int8."""
        return self.fabric.paired


def load_board(name: str) -> DataflowBoard:
    """Return a board of this package by name, or the board that a TOML file describes."""
    return parse_board(board_text("dataflow", "ceras_ir.backends.dataflow", name), name)


def parse_board(text: str, file: str) -> DataflowBoard:
    """Return the board that the TOML `text` describes. Messages name `file`."""
    content = parse_toml(text, file)
    known = [field.name for field in fields(DataflowBoard)]
    optional = {"nextpnr"} - set(content)
    if wrong := sorted((set(content) ^ set(known)) - optional):
        raise InputError(f"unknown or missing '{wrong[0]}' (fields: {', '.join(known)})", file)
    for name, value in content.items():
        if name == "title" and isinstance(value, str):
            continue
        if name == "family" and isinstance(value, str):
            if value not in CHIP_FAMILIES:
                known_families = ", ".join(CHIP_FAMILIES)
                raise InputError(f"family must be one of {known_families}, got '{value}'", file)
            continue
        if name == "nextpnr":
            if not isinstance(value, str) or not CHIP.fullmatch(value):
                example = '"85k CABGA756 6"'
                raise InputError(f"nextpnr must be like {example}, got {value!r}", file)
            continue
        limit = 64 if name == "port_bytes" else 1 << 24
        if name in ("title", "family") or type(value) is not int or not 1 <= value <= limit:
            kind = "text" if name in ("title", "family") else f"an integer in [1, {limit}]"
            raise InputError(f"{name} must be {kind}, got {value!r}", file)
    return DataflowBoard(**content)
