"""
Describe a board: multipliers, memories, lookup tables and clock, and the family of the chip.

A family describes how `yosys` maps a circuit. A memory is mapped to lookup tables if memory blocks
cost more. `benchmarks/dataflow_estimates.py` fits `Family.tables` to measured logic.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from xdsl.utils.str_enum import StrEnum

from ceras_ir.support.block_design import PROCESSORS
from ceras_ir.support.files import parse_toml
from ceras_ir.support.options import inherited, option, options
from ceras_ir.targets.board_files import BoardSummary, board_field, board_text, read_fields
from ceras_ir.targets.shared_options import BoardOptions


class LogicPart(StrEnum):
    """
    A kind of logic in a block, for the estimate of the lookup tables (LUTs) that the logic needs.
    The value names the unit in which it is counted.
    """

    CONTROL = "convolutions"
    SUM = "bits of accumulators"
    SELECT = "additional input bits of multiplexers before lanes"
    DRAIN = "additional input bits of multiplexers after lanes"
    FINISH = "bits of sums that are requantized in a cycle"
    MOVE = "bits of sums times bits of the extra shift"
    LIMIT = "bits of sums times further limits with which they are compared"
    PHASE = "additional input bits of multiplexers before a window buffer"
    MAXIMUM = "bits that are compared"
    FUNCTION = "columns of lookups"
    PRODUCT = "bits of a multiple by which lookup tables begin a product"
    DIGIT = "bits of a multiple that lookup tables add for two bits of a factor"
    LAST_DIGIT = "bits of a multiple that lookup tables add for a last bit of a factor"
    COUNT = "products of signs that lookup tables count, and 4 for each sum"


@dataclass(frozen=True)
class LutRam:
    """
    A kind of memory that is built from `tables` lookup tables of the FPGA: `words` words of `bits`
    bits, with a write port and a read port.
    """

    words: int
    bits: int
    tables: int


@dataclass(frozen=True)
class Family:
    """
    The properties of a family of FPGAs on which estimates of resources depend. A table is a lookup
    table (LUT) of the FPGA.
    """

    paired: bool
    """Whether a multiplier can compute two products of int8."""
    product_bits: int
    """
    The minimum width of an address that `yosys` multiplies by a constant in a multiplier; it uses
    lookup tables for narrower addresses.
    """
    lut_rams: tuple[LutRam, ...]
    table_price: float
    """The cost of a table of a memory in `yosys`, relative to `block_price`."""
    block_price: int
    """The cost of a memory block of 18 kbit in `yosys`."""
    tables: Mapping[LogicPart, float]
    """The number of tables per unit of a part."""


AMD_TABLES: Mapping[LogicPart, float] = {
    LogicPart.CONTROL: 416,
    LogicPart.SUM: 1,
    LogicPart.SELECT: 0.434,
    LogicPart.DRAIN: 0.775,
    LogicPart.FINISH: 3.46,
    LogicPart.MOVE: 0.868,
    LogicPart.LIMIT: 0.9,
    LogicPart.PHASE: 1.53,
    LogicPart.MAXIMUM: 1.69,
    LogicPart.FUNCTION: 32,
    LogicPart.PRODUCT: 1,
    LogicPart.DIGIT: 1.13,
    LogicPart.LAST_DIGIT: 1,
    LogicPart.COUNT: 2.06,
}
"""The tables per unit of a part in families of AMD, fitted to UltraScale+."""

CHIP_FAMILIES = {
    "xcup": Family(
        paired=True,
        product_bits=9,
        lut_rams=(LutRam(32, 14, 8), LutRam(64, 7, 8)),
        table_price=2.0,
        block_price=129,
        tables=AMD_TABLES,
    ),
    "xc7": Family(
        paired=True,
        product_bits=9,
        lut_rams=(LutRam(32, 6, 4), LutRam(64, 3, 4)),
        table_price=2.0,
        block_price=129,
        tables=AMD_TABLES,
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
            LogicPart.LIMIT: 0.8,
            LogicPart.PHASE: 1.9,
            LogicPart.MAXIMUM: 2.51,
            LogicPart.FUNCTION: 150,
            LogicPart.PRODUCT: 1.23,
            LogicPart.DIGIT: 3.5,
            LogicPart.LAST_DIGIT: 2.25,
            LogicPart.COUNT: 3.0,
        },
    ),
}
"""The families by their names in `yosys`."""


Objective = Literal["throughput", "latency"]
"""The quantity that the choice of lanes optimizes."""

DEFAULT_CHIP_BOARD = "zcu102"
"""The name of the board of the paper S5 (see `docs/papers.md`)."""


@options
class ChipOptions(BoardOptions):
    """The options of the target and of the pass `allot-lanes`: the chip, and the usable part."""

    board: str = inherited(BoardOptions, "board", DEFAULT_CHIP_BOARD)
    dsp: int = option(0, metavar="N")
    """Use at most this number of multipliers of the chip; 0, all."""
    ram18: int = option(0, metavar="N")
    """Use at most this number of memories of 18 kbit; 0, all."""
    objective: Objective = option("throughput")
    """
    Choose lanes for the most frames per second (throughput), or for the shortest time of a frame
    (latency).
    """


MAX_COUNT = 1 << 24


NO_PROCESSOR = "none"


@dataclass(frozen=True)
class DataflowBoard:
    """A chip. Estimates and circuits use no more than the given resources."""

    title: str = board_field(example='"My board"')
    """The name of the board in reports."""
    family: str = board_field(choices=CHIP_FAMILIES)
    """The name of the chip family in `yosys`."""
    dsp: int = board_field(minimum=1, maximum=MAX_COUNT, example="2520")
    """The number of multipliers."""
    ram18: int = board_field(minimum=1, maximum=MAX_COUNT, example="1824")
    """The number of memories of 18 kbit."""
    lut: int = board_field(minimum=1, maximum=MAX_COUNT, example="274080")
    """The number of lookup tables."""
    clock_mhz: int = board_field(minimum=1, maximum=MAX_COUNT, example="100")
    """The clock of the circuit, from which frames per second follow."""
    port_bytes: int = board_field(minimum=1, maximum=64, example="8")
    """The bytes per cycle of each port."""
    part: str = board_field("", example='"xczu7ev-ffvc1156-2-e"')
    """The name of the chip for the tools of the vendor."""
    processor: str = board_field(NO_PROCESSOR, choices=(NO_PROCESSOR, *PROCESSORS))
    """
    The processor on the chip. With a processor, the target writes a block design and a Linux
    driver.
    """
    board_files: str = board_field("", example='"xilinx.com:zcu104"')
    """The vendor and the name of the board in Vivado, without the version."""
    nextpnr: str = board_field("", pattern=r"\w+ \w+ \w+", example='"85k CABGA756 6"')
    """The size, package and speed grade in nextpnr, if nextpnr supports the chip."""

    @property
    def summary(self) -> BoardSummary:
        part = f"{self.family}, {self.dsp:,} DSP, {self.clock_mhz} MHz"
        return BoardSummary(self.title, part, f"{self.ram18:,} x 18 kbit")

    @property
    def fabric(self) -> Family:
        return CHIP_FAMILIES[self.family]

    @property
    def pairs(self) -> bool:
        """
        Whether a multiplier of the FPGA can compute two int8 products with a common factor in a
        cycle.
        """
        return self.fabric.paired


def load_board(name: str) -> DataflowBoard:
    """Return a packaged board by name, or the board that a TOML file describes."""
    return parse_board(board_text("dataflow", "ceras_ir.backends.dataflow", name), name)


def parse_board(text: str, file: str) -> DataflowBoard:
    """Return the board that the TOML `text` describes. Error messages name `file`."""
    return read_fields(DataflowBoard, parse_toml(text, file), file)
