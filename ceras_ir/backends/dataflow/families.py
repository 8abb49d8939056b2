"""
Families of chips: what their multipliers and memories are, and what parts of a circuit take.

How `yosys` decides is written down as it is: it takes tables for a memory where blocks cost more.
What it makes of logic is measured; `benchmarks/dataflow_estimates.py` fits `tables` to its counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.utils.str_enum import StrEnum


class Part(StrEnum):
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
    tables: Mapping[Part, float]
    """What each unit of a part takes."""


FAMILIES = {
    "xcup": Family(
        paired=True,
        product_bits=9,
        lut_rams=(LutRam(32, 14, 8), LutRam(64, 7, 8)),
        table_price=2.0,
        block_price=129,
        tables={
            Part.CONTROL: 416,
            Part.SUM: 1,
            Part.SELECT: 0.434,
            Part.DRAIN: 0.775,
            Part.FINISH: 3.46,
            Part.MOVE: 0.868,
            Part.PHASE: 1.53,
            Part.MAXIMUM: 1.69,
            Part.FUNCTION: 32,
        },
    ),
    "ecp5": Family(
        paired=False,
        product_bits=0,
        lut_rams=(LutRam(16, 4, 6),),
        table_price=4 / 6,
        block_price=128,
        tables={
            Part.CONTROL: 975,
            Part.SUM: 2,
            Part.SELECT: 0.749,
            Part.DRAIN: 1.78,
            Part.FINISH: 5.09,
            Part.MOVE: 1.88,
            Part.PHASE: 1.9,
            Part.MAXIMUM: 2.51,
            Part.FUNCTION: 150,
        },
    ),
}
"""By the names that `yosys` has for them."""
