"""
Multipliers, memories and tables of a pipeline, estimated without a synthesizer.

Multipliers are exact. Memories are counted as `yosys` maps them: in the aspect ratio with the
fewest blocks, or in tables where they are small. Tables (LUT) are a sum of what the parts of a
block cost per bit, fitted to what `yosys` counts; `benchmarks/sparse_fcn.py` prints both.
"""

from dataclasses import dataclass

from ceras_ir.backends.dataflow.blocks import Addition, Block, MaxPool, Table
from ceras_ir.backends.dataflow.encoding import Encoding
from ceras_ir.backends.dataflow.extraction import Pipeline
from ceras_ir.backends.dataflow.parameters import pool_windows
from ceras_ir.backends.dataflow.plan import Plan, PlannedConvolution
from ceras_ir.backends.dataflow.verilog import in_order, order_capacity
from ceras_ir.backends.dataflow.window import bits, ceiling

RATIOS = ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384))
"""Width and depth of a memory of 18 kbit with one port to write and one to read."""
LUT_RAM_DEPTH = 64
"""Words of one table used as memory; deeper memories are blocks."""
SUMS_DEPTH, SUMS_PER_8_LUTS = 32, 14
"""Sums of parts: words and bits of eight tables used as memory."""


@dataclass(frozen=True)
class Resources:
    """What a circuit takes of a chip."""

    dsp: int = 0
    ram18: int = 0
    lut: int = 0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(self.dsp + other.dsp, self.ram18 + other.ram18, self.lut + other.lut)

    def to_json(self) -> dict[str, int]:
        return {"dsp": self.dsp, "ram18": self.ram18, "lut": self.lut}


def memory(width: int, depth: int, *, rom: bool = False) -> Resources:
    """A memory of `depth` words."""
    if depth <= LUT_RAM_DEPTH and not rom:
        return Resources(lut=width)
    blocks = min(ceiling(width, w) * ceiling(depth, d) for w, d in RATIOS)
    return Resources(ram18=blocks)


def convolution(planned: PlannedConvolution) -> Resources:
    """One convolution without its ring."""
    buffer, layer, lanes = planned.buffer, planned.layer, planned.lanes
    bank = memory(8 * len(buffer.columns), buffer.depth)
    copies = planned.readers * buffer.banks
    total = Resources(planned.multipliers, copies * bank.ram18, copies * bank.lut)
    if not (layer.uniform and lanes.encoding is Encoding.DENSE):
        total += memory(planned.weights.width(buffer), planned.weights.entries, rom=True)
    selecting = ceiling(buffer.banks - 1, 2) + ceiling(buffer.most_shift, 2)
    columns = planned.readers * lanes.rows * buffer.part_columns
    per_lane = layer.sum_bits + (10 if planned.is_paired else 0)
    if lanes.parts > 1:
        # Those that run, and those that leave.
        tables = ceiling(lanes.parts, SUMS_DEPTH)
        per_lane += 2 * tables * ceiling(8 * layer.sum_bits, SUMS_PER_8_LUTS)
    draining = ceiling(lanes.rows * lanes.filters - 1, 3) * layer.sum_bits
    # A shifter of several places, where channels have shifts of their own.
    moving = layer.sum_bits * ceiling(layer.further_bits, 2)
    epilogue = buffer.part_columns * (draining + moving + 12)
    writing = 8 * len(buffer.columns) * ceiling(buffer.phases, 3)
    return total + Resources(
        lut=planned.lane_count * per_lane + columns * 8 * selecting + epilogue + writing + 250
    )


def ring(block: Block, capacity: int) -> Resources:
    """The rows in which the second operand of an addition waits."""
    second = block.feature
    return memory(8 * second.columns, capacity * second.channels)


def queue(block: Block, words: int) -> Resources:
    """The words in which the first operand of an addition waits."""
    first = block.input
    width = 8 * first.columns + bits(first.rows) + bits(first.channels)
    return memory(width, words) + Resources(lut=40)


def other(block: Block) -> Resources:
    """A block that multiplies nothing."""
    columns = block.feature.columns
    match block:
        case MaxPool():
            state = 8 * columns * pool_windows(block)
            kept = Resources(lut=state * ceiling(block.feature.channels, LUT_RAM_DEPTH))
            across = columns * (block.windows.kernel[1] - 1) * 14
            return kept + Resources(lut=across + 2 * state + 60)
        case Addition():
            return Resources(lut=columns * (block.sum_bits + 14) + 60)
        case Table():
            return Resources(lut=columns * 40)
        case _:
            return Resources()


def estimate(pipeline: Pipeline, plan: Plan) -> dict[Block, Resources]:
    """What every block takes, rings included; the ports are with the first and the last."""
    found: dict[Block, Resources] = {}
    for block in pipeline.blocks:
        planned = plan.convolutions.get(block)
        found[block] = convolution(planned) if planned is not None else other(block)
        if block in plan.capacities:
            found[block] += ring(block, plan.capacities[block])
        if block in plan.delays:
            found[block] += queue(block, plan.delays[block])
    last, result = pipeline.result, pipeline.result.feature
    found[last] += Resources(lut=8 * result.columns + 40)
    if not in_order(pipeline, plan):
        found[last] += memory(8 * result.columns, order_capacity(pipeline, plan) * result.channels)
    return found


def total(parts: dict[Block, Resources]) -> Resources:
    """The sum of all blocks."""
    return sum(parts.values(), Resources())
