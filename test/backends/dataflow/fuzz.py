"""
Compare random small circuits in Verilator with numpy, under random stalls, and their cycles with
the model.

    python test/backends/dataflow/fuzz.py [--count 300] [--first 0]

The script prints the seed of a chain with a different result, of a chain that stops, or of a chain
with a wrong number of modelled cycles.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from dataflow_circuits import (
    addition,
    average,
    concatenation,
    convolution,
    max_pool,
    repetition,
    run_circuit,
    selection,
    table,
)

from ceras_ir.backends.dataflow.blocks import (
    Addend,
    Block,
    Column,
    Convolution,
    Feature,
    Source,
)
from ceras_ir.backends.dataflow.cycles import PipelineTiming
from ceras_ir.backends.dataflow.plan import BlockLanes
from ceras_ir.backends.dataflow.weights import WeightEncoding, delta_bits
from ceras_ir.support.diagnostics import InputError

WIDTHS = (8, 8, 8, 1, 2, 3, 4, 5, 6, 7)
"""The bits of weights that chains have."""
KINDS = (
    "convolution", "convolution", "depthwise", "residual", "pool", "other", "join", "repeat",
    "select",
)  # fmt: skip


def random_column(rng: np.random.Generator) -> Column:
    """Return columns of 8 bits, or of 1 to 8 bits in a third of the streams."""
    if rng.integers(3):
        return Column()
    bits = int(rng.integers(1, 9))
    return Column(bits, int(rng.integers(2)) << bits - 1)


def random_chain(rng: np.random.Generator) -> tuple[list[Block], dict[Block, BlockLanes]]:
    """
    Return a chain of one to four steps, some with a residual connection, and the lanes for them.
    """

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    # In a quarter of the chains, all channels have equal shifts.
    spread = pick(0, 3) and pick(1, 10)

    source = Source("input", Feature(pick(1, 7), pick(1, 5), pick(1, 6), random_column(rng)))
    blocks: list[Block] = []
    lanes: dict[Block, BlockLanes] = {}
    last: Block = source
    for _ in range(pick(1, 4)):
        f = last.feature
        kind = rng.choice(KINDS)
        if f.column != Column() and kind != "pool":
            # Other blocks have streams of int8.
            kind = rng.choice(["convolution", "depthwise"])
        if kind == "pool":
            kernel = pick(1, min(3, f.rows, f.columns))
            padding = [pick(0, kernel - 1) for _ in range(4)]
            last = max_pool(
                last, kernel, pick(1, 3), (padding[0], padding[1], padding[2], padding[3])
            )
        elif kind == "other" and blocks:
            last = _other(int(rng.choice(3)), blocks, rng)
        elif kind == "join":
            way = convolution(last, pick(1, 4), (3, 3), rng, padding=(1, 1, 1, 1), spread=spread)
            blocks.append(way)
            last = concatenation(way, last, second_is_lower=bool(pick(0, 1)))
        elif kind == "repeat" and max(f.rows, f.columns) < 8:
            last = repetition(last, pick(1, 3), pick(1, 2))
        elif kind == "select":
            start = Feature(pick(0, f.rows - 1), pick(0, f.channels - 1), pick(0, f.columns - 1))
            rows = pick(1, f.rows - start.rows)
            channels = pick(1, f.channels - start.channels)
            size = Feature(rows, channels, pick(1, f.columns - start.columns))
            last = selection(last, start, size)
        elif kind == "residual":
            way = convolution(
                last,
                f.channels,
                (3, 3),
                rng,
                padding=(1, 1, 1, 1),
                zeros=float(rng.choice([0, 0.7])),
                spread=spread,
                bits=int(rng.choice(WIDTHS)),
            )
            blocks.append(way)
            around = (1, 0, 1, 0)
            last = convolution(
                way, f.channels, (3, 1), rng, padding=around, residual=last, spread=spread
            )
        else:
            depthwise = kind == "depthwise"
            kernel = (pick(1, min(3, f.rows)), pick(1, min(3, f.columns)))
            last = convolution(
                last,
                f.channels * pick(1, 2) if depthwise else pick(1, 6),
                kernel,
                rng,
                strides=(pick(1, 3), pick(1, 3)),
                padding=(pick(0, 2), pick(0, 2), pick(0, 2), pick(0, 2)),
                groups=f.channels if depthwise else 1,
                zeros=float(rng.choice([0, 0.5, 0.9])),
                pad=pick(-f.column.reach, f.column.reach - 1),
                spread=spread,
                result=(result := random_column(rng)),
                compares=result.bits < 4,
                bits=(bits := int(rng.choice(WIDTHS))),
                bipolar=bits == 2 and bool(pick(0, 1)),
            )
        blocks.append(last)
    for block in blocks:
        if isinstance(block, Convolution):
            lanes[block] = _lanes(block, rng)
    return blocks, lanes


def random_results(
    blocks: list[Block], lanes: dict[Block, BlockLanes], rng: np.random.Generator
) -> list[Block]:
    """
    Append up to two convolutions of earlier values to `blocks`, with their lanes. Return the blocks
    at output ports: all that no other block reads, and in half of the chains a third of the others.
    """
    for _ in range(int(rng.choice([0, 0, 1, 2]))):
        source = blocks[int(rng.integers(len(blocks)))]
        strides = (int(rng.integers(1, 3)), 1)
        around = (1, 1, 1, 1)
        head = convolution(
            source, int(rng.integers(1, 5)), (3, 3), rng, strides=strides, padding=around
        )
        blocks.append(head)
        lanes[head] = _lanes(head, rng)
    read = {operand for block in blocks for operand in block.inputs}
    share = float(rng.choice([0, 0.3]))
    found = [block for block in blocks if block not in read or rng.random() < share]
    return [found[n] for n in rng.permutation(len(found))]


def _other(kind: int, blocks: list[Block], rng: np.random.Generator) -> Block:
    last = blocks[-1]
    if kind == 0:
        return table(last, rng, int(rng.integers(1, 4)))
    if kind == 1 and last.feature.rows * last.feature.columns <= 64:
        return average(last, 700, 15)
    # One path has a function; the other leads directly to the sum.
    way = table(last, rng)
    blocks.append(way)
    return addition(
        way, last, (Addend(int(rng.integers(0, 3))), Addend(1, int(rng.choice([-1, 1]))))
    )


def _lanes(block: Convolution, rng: np.random.Generator) -> BlockLanes:
    rows = int(rng.integers(1, block.feature.rows + 1))
    per_group = len(block.weights) // block.groups
    # Verilator compiles each lane, so few lanes keep the test fast.
    most = min(4, per_group)
    counts = [n for n in range(1, most + 1) if block.groups == 1 or per_group % n == 0]
    known = [e for e in WeightEncoding if e is not WeightEncoding.DELTA or delta_bits(block)]
    encoding = WeightEncoding.DENSE if block.uniform else WeightEncoding(str(rng.choice(known)))
    parts = int(rng.integers(1, block.feature.columns + 1)) if rng.integers(2) else 1
    in_tables = (block.is_narrow or block.input.bits < 8) and bool(rng.integers(2))
    terms, depth = 1, block.weights.shape[3]
    while in_tables and not encoding.is_sparse and depth % (2 * terms) == 0 and rng.integers(3):
        terms *= 2
    filters = int(rng.choice(counts))
    return BlockLanes(
        min(rows, 3), filters, encoding, parts=parts, in_tables=in_tables, terms=terms
    )


def run_seed(seed: int) -> PipelineTiming:
    """Run the chain of a seed, and return its cycles. An `AssertionError` reports a difference."""
    rng = np.random.default_rng(seed)
    blocks, lanes = random_chain(rng)
    results = random_results(blocks, lanes, np.random.default_rng([seed, 1]))
    with tempfile.TemporaryDirectory() as folder:
        return run_circuit(
            blocks,
            lanes,
            Path(folder),
            port_bytes=int(rng.choice([1, 2, 3, 4, 8])),
            frames=5,
            stalls=((seed, int(rng.integers(5, 90))),),
            paired=bool(rng.choice([True, False])),
            seed=seed,
            results=results,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    wrong = 0
    for seed in range(arguments.first, arguments.first + arguments.count):
        try:
            timing = run_seed(seed)
        except (AssertionError, InputError) as error:
            # A circuit that stops is an error of the simulation.
            wrong += 1
            print(f"seed {seed}: {error}", flush=True)
        else:
            print(f"seed {seed}: exact, {timing}", flush=True)
    print(f"{arguments.count} chains, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
