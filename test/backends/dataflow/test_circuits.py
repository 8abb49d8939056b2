"""
Compare circuits in Verilator with numpy, and the cycles of the model with Verilator.

Each circuit has a feature that no other has: windows with gaps, strides, padding on a single side,
groups, several filters and rows in parallel, weights as COO and deltas, per-channel shifts, forks,
rings, tables, and outputs with rows in batches.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataflow_circuits import (
    INT8,
    addition,
    average,
    concatenation,
    convolution,
    expected,
    max_pool,
    needs_verilator,
    plan_of,
    repetition,
    run_circuit,
    selection,
    table,
    write_circuit,
)

from ceras_ir.backends.dataflow.blocks import Addend, Block, Column, Feature, Pipeline, Source
from ceras_ir.backends.dataflow.circuit import Circuit
from ceras_ir.backends.dataflow.emit import CircuitSimulator
from ceras_ir.backends.dataflow.plan import BlockLanes
from ceras_ir.backends.dataflow.weights import WeightEncoding

pytestmark = [needs_verilator, pytest.mark.slow]


def test_chain(tmp_path: Path):
    """
    Check strides and padding on all sides, depthwise, residual, subtraction, average, and product.
    """
    rng = np.random.default_rng(1)
    source = Source("input", Feature(19, 3, 23))
    first = convolution(
        source, 8, (5, 5), rng, strides=(2, 2), padding=(2, 1, 2, 2), pad=3, zeros=0.6
    )
    pool = max_pool(first, 3, 2, (1, 1, 1, 1))
    depthwise = convolution(pool, 8, (3, 3), rng, padding=(1, 1, 1, 1), groups=8, pad=-5)
    narrow = convolution(depthwise, 6, (1, 1), rng)
    left = convolution(narrow, 6, (3, 3), rng, padding=(1, 1, 1, 1))
    right = convolution(left, 6, (3, 3), rng, padding=(1, 1, 1, 1), residual=narrow)
    function = table(right, rng)
    last = convolution(function, 6, (3, 3), rng, padding=(1, 1, 1, 1))
    total = addition(last, function, (Addend(2), Addend(1, -1)))
    mean = average(total, 1000, 15)
    scores = convolution(mean, 10, (1, 1), rng)
    blocks = [first, pool, depthwise, narrow, left, right, function, last, total, mean, scores]
    lanes: dict[Block, BlockLanes] = {
        first: BlockLanes(3, 1, WeightEncoding.COO),
        depthwise: BlockLanes(2, 1),
        narrow: BlockLanes(2, 3),
        right: BlockLanes(2, 2),
        last: BlockLanes(3, 1),
        scores: BlockLanes(1, 4),
    }
    run_circuit(blocks, lanes, tmp_path)


def test_sparse_in_batches(tmp_path: Path):
    """
    Check several filters with separate indices, rows in batches to the port, and an odd port width.
    """
    rng = np.random.default_rng(2)
    source = Source("input", Feature(11, 5, 9))
    first = convolution(source, 7, (3, 3), rng, padding=(1, 1, 1, 1), zeros=0.8)
    second = convolution(first, 5, (3, 2), rng, dilations=(2, 3), zeros=0.7)
    third = convolution(second, 4, (2, 2), rng, padding=(0, 1, 1, 0), zeros=0.5, pad=9)
    lanes: dict[Block, BlockLanes] = {
        first: BlockLanes(4, 2, WeightEncoding.COO),
        second: BlockLanes(2, 5, WeightEncoding.COO),
        third: BlockLanes(5, 3, WeightEncoding.COO),
    }
    run_circuit([first, second, third], lanes, tmp_path, port_bytes=3)


@pytest.mark.parametrize("shift", [0, 1, 4])
@pytest.mark.parametrize("ties", [1, 2])
def test_ties(ties: int, shift: int, tmp_path: Path):
    """Check even and odd ties, also with per-channel shifts, a residual, and shifts of 0 bits."""
    rng = np.random.default_rng([ties, shift])
    blocks: list[Block] = []
    value: Block = Source("input", Feature(6, 4, 5))
    for spread, has_residual in ((0, False), (3, False), (3, True), (0, True)):
        made = convolution(
            value, 4, (1, 1), rng, bits=2, spread=spread, residual=value if has_residual else None
        )
        scale = replace(made.scale, shift=shift, ties=ties)
        # Small products, which are ties often.
        value = replace(made, scale=scale, bias=rng.integers(-40, 40, 4), residual_shift=0)
        blocks.append(value)
    total = addition(value, blocks[1], (Addend(0), Addend(1, -1)))
    blocks.append(replace(total, scale=replace(total.scale, shift=shift, ties=ties)))
    run_circuit(blocks, {}, tmp_path, stalls=((1, 50),))


def test_deltas(tmp_path: Path):
    """Check gaps longer than a delta, filters without weights, strides and gaps between taps."""
    rng = np.random.default_rng(7)
    source = Source("input", Feature(9, 16, 8))
    first = convolution(
        source, 12, (3, 3), rng, strides=(2, 2), padding=(1, 1, 1, 1), zeros=0.8, pad=4
    )
    first.weights[3] = 0
    second = convolution(first, 6, (2, 3), rng, dilations=(1, 2), padding=(0, 2, 1, 2), zeros=0.97)
    third = convolution(second, 5, (1, 1), rng, zeros=0.5)
    lanes: dict[Block, BlockLanes] = {
        first: BlockLanes(2, 3, WeightEncoding.DELTA),
        second: BlockLanes(3, 6, WeightEncoding.DELTA),
        third: BlockLanes(1, 2, WeightEncoding.DELTA),
    }
    run_circuit([first, second, third], lanes, tmp_path)


def test_groups_and_overlapping_pools(tmp_path: Path):
    """
    Check groups of several channels, windows that overlap or skip rows, and one lane per
    multiplier.
    """
    rng = np.random.default_rng(3)
    source = Source("input", Feature(13, 4, 12))
    wide = max_pool(source, 3, 1, (1, 1, 1, 1))
    grouped = convolution(wide, 8, (3, 1), rng, strides=(1, 2), groups=2, zeros=0.3)
    skipping = max_pool(grouped, 2, 3)
    flat = convolution(skipping, 12, (skipping.feature.rows, skipping.feature.columns), rng)
    lanes: dict[Block, BlockLanes] = {grouped: BlockLanes(3, 2), flat: BlockLanes(1, 5)}
    run_circuit([wide, grouped, skipping, flat], lanes, tmp_path, port_bytes=1, paired=False)


def test_long_way_round(tmp_path: Path):
    """A residual that skips three layers with several rows needs only a small ring."""
    rng = np.random.default_rng(4)
    source = Source("input", Feature(12, 4, 7))
    start = convolution(source, 4, (1, 1), rng)
    one = convolution(start, 4, (5, 5), rng, padding=(2, 2, 2, 2))
    two = convolution(one, 4, (3, 3), rng, padding=(1, 1, 1, 1))
    three = convolution(two, 4, (3, 3), rng, padding=(1, 1, 1, 1), residual=start)
    lanes: dict[Block, BlockLanes] = {
        start: BlockLanes(5, 2),
        one: BlockLanes(4, 1),
        two: BlockLanes(6, 2),
        three: BlockLanes(3, 4),
    }
    run_circuit([start, one, two, three], lanes, tmp_path)


def test_rows_that_no_window_reads(tmp_path: Path):
    """A slot is free before the last row is written if windows are smaller than strides."""
    rng = np.random.default_rng(5)
    source = Source("input", Feature(6, 1, 3))
    skipping = convolution(source, 1, (1, 1), rng, strides=(2, 2))
    run_circuit([skipping], {}, tmp_path, frames=3)


def test_function_and_its_argument(tmp_path: Path):
    """
    Check words of several channels that are added to the result of a function, with rows in
    batches.
    """
    rng = np.random.default_rng(6)
    source = Source("input", Feature(5, 3, 4))
    first = convolution(source, 4, (1, 1), rng, padding=(1, 0, 0, 0))
    function = table(first, rng)
    total = addition(function, first, (Addend(1), Addend(0)))
    run_circuit([first, function, total], {first: BlockLanes(5, 4)}, tmp_path, port_bytes=4)


def test_channels_with_shifts_of_their_own(tmp_path: Path):
    """Check several filters and rows in parallel, an incomplete last block, and a residual."""
    rng = np.random.default_rng(8)
    source = Source("input", Feature(7, 5, 6))
    first = convolution(source, 5, (3, 3), rng, padding=(1, 1, 1, 1), zeros=0.6, spread=10)
    second = convolution(first, 5, (3, 3), rng, padding=(1, 1, 1, 1), residual=source, spread=4)
    depthwise = convolution(second, 5, (3, 3), rng, groups=5, spread=1)
    lanes: dict[Block, BlockLanes] = {
        first: BlockLanes(2, 3, WeightEncoding.COO),
        second: BlockLanes(3, 2),
        depthwise: BlockLanes(2, 1),
    }
    run_circuit([first, second, depthwise], lanes, tmp_path)


def test_narrow_weights(tmp_path: Path):
    """
    Check weights of 1 to 7 bits in exact memories: each width of a product in lookup tables, signs
    and few bits in multipliers, and sparse encodings.
    """
    rng = np.random.default_rng(16)
    last: Block = Source("input", Feature(6, 3, 5))
    blocks: list[Block] = []
    lanes: dict[Block, BlockLanes] = {}
    for bits, bipolar, in_tables, encoding, parts in (
        (1, False, True, WeightEncoding.DENSE, 1),
        (2, True, True, WeightEncoding.BY_ROW, 1),
        (2, True, False, WeightEncoding.DENSE, 2),
        (2, True, True, WeightEncoding.COO, 1),
        (3, False, True, WeightEncoding.DENSE, 3),
        (4, False, False, WeightEncoding.DELTA, 1),
        (5, False, True, WeightEncoding.COO, 1),
        (7, False, True, WeightEncoding.DENSE, 1),
    ):
        size = (3, 3) if len(blocks) % 2 else (1, 1)
        around = (1, 1, 1, 1) if len(blocks) % 2 else (0, 0, 0, 0)
        zeros = 0.5 if encoding.is_sparse and not bipolar else 0.0
        layer = convolution(
            last, 4, size, rng, padding=around, zeros=zeros, bits=bits, bipolar=bipolar
        )
        assert layer.is_bipolar == bipolar
        lanes[layer] = BlockLanes(1, 2, encoding, parts=parts, in_tables=in_tables)
        blocks.append(layer)
        last = layer
    run_circuit(blocks, lanes, tmp_path)


def unsigned(bits: int) -> Column:
    """Return columns of unsigned integers of `bits` bits."""
    return Column(bits, 1 << bits - 1)


BIPOLAR = Column(1, is_bipolar=True)


def test_pairs_of_filters(tmp_path: Path):
    """
    Check multipliers of two filters: odd numbers of filters, weights of 8 bits, of few bits and of
    -1 and 1, groups, columns in parts, and weights by row.
    """
    rng, around = np.random.default_rng(21), (1, 1, 1, 1)
    source = Source("input", Feature(5, 4, 6))
    parts = convolution(source, 6, (3, 3), rng, padding=around)
    grouped = convolution(parts, 6, (5, 6), rng, groups=2, result=unsigned(4))
    wide = convolution(grouped, 7, (1, 1), rng, bits=6)
    signs = convolution(wide, 9, (1, 1), rng, bits=2, bipolar=True, spread=2)
    lanes: dict[Block, BlockLanes] = {
        parts: BlockLanes(1, 4, parts=6),
        grouped: BlockLanes(1, 3),
        wide: BlockLanes(1, 7, WeightEncoding.BY_ROW),
        signs: BlockLanes(1, 5),
    }
    run_circuit([parts, grouped, wide, signs], lanes, tmp_path)


def test_terms(tmp_path: Path):
    """
    Check lanes that add products of several channels: signs, each width of a digit, groups, rows
    and parts, padding, strides, and weights by row that wait for channels.
    """
    rng, around = np.random.default_rng(20), (1, 1, 1, 1)
    source = Source("input", Feature(7, 8, 9))
    bits = convolution(
        source, 16, (3, 3), rng, result=BIPOLAR, compares=True, bits=3, padding=around
    )
    signs = convolution(
        bits, 8, (3, 3), rng, bits=2, bipolar=True, result=BIPOLAR, compares=True
    )  # no padding: 0 is not -1 or 1
    pool = max_pool(signs, 2, 1)
    grouped = convolution(pool, 8, (1, 2), rng, groups=2, bits=2, bipolar=True, result=unsigned(3))
    strided = convolution(
        grouped, 12, (3, 3), rng, strides=(2, 2), padding=around, bits=5, result=Column(6), pad=3
    )
    last = convolution(strided, 6, (2, 2), rng, padding=around, bits=2)
    lanes: dict[Block, BlockLanes] = {
        bits: BlockLanes(2, 3, in_tables=True, terms=8),
        signs: BlockLanes(1, 2, parts=3, in_tables=True, terms=16),
        grouped: BlockLanes(3, 2, WeightEncoding.BY_ROW, in_tables=True, terms=2),
        strided: BlockLanes(1, 4, WeightEncoding.BY_ROW, parts=2, in_tables=True, terms=4),
        last: BlockLanes(2, 6, in_tables=True, terms=4),
    }
    run_circuit([bits, signs, pool, grouped, strided, last], lanes, tmp_path)


@pytest.mark.parametrize(
    ("source", "steps"),
    [
        (
            unsigned(4),
            [(unsigned(2), 2, True), None, (Column(3), 3, True), (BIPOLAR, 1, True)],
        ),
        (INT8, [(BIPOLAR, 1, True), None, (BIPOLAR, 1, True), (INT8, 4, False)]),
        (BIPOLAR, [(unsigned(5), 8, False), (unsigned(1), 3, True), (unsigned(6), 3, True)]),
        (unsigned(8), [(unsigned(8), 8, False), (Column(2), 5, True)]),
    ],
    ids=["few", "bipolar", "more", "bytes"],
)
def test_narrow_streams(
    source: Column, steps: Sequence[tuple[Column, int, bool] | None], tmp_path: Path
):
    """
    Check streams of 1 to 8 bits between ports, convolutions and maxima: columns, bits of weights
    (1: -1 and 1), and whether lookup tables multiply. Results of at most 3 bits are comparisons.
    """
    rng = np.random.default_rng(18)
    last: Block = Source("input", Feature(6, 3, 6, source))
    blocks: list[Block] = []
    lanes: dict[Block, BlockLanes] = {}
    for n, step in enumerate(steps):
        if step is None:
            last = max_pool(last, 2, 1)
            blocks.append(last)
            continue
        result, bits, in_tables = step
        last = convolution(
            last, 4, (1, 1) if n % 2 else (3, 3), rng, bits=max(bits, 2),
            padding=(0, 0, 0, 0) if n % 2 else (1, 1, 1, 1), bipolar=bits == 1, result=result,
            compares=result.bits < 4, pad=int(rng.integers(-1, 1)),
        )  # fmt: skip
        encoding = list(WeightEncoding)[n] if n < 3 and bits > 1 else WeightEncoding.DENSE
        lanes[last] = BlockLanes(1 + n % 2, 2, encoding, in_tables=in_tables)
        blocks.append(last)
    run_circuit(blocks, lanes, tmp_path)


def test_narrow_operands(tmp_path: Path):
    """Check that sums, residuals, joined, repeated and selected streams can have few bits."""
    rng, around = np.random.default_rng(19), (1, 1, 1, 1)
    source = Source("input", Feature(6, 3, 6, unsigned(4)))
    first = convolution(source, 4, (3, 3), rng, padding=around, bits=3, result=unsigned(3))
    second = convolution(
        first, 4, (3, 3), rng, padding=around, bits=4, result=Column(5), residual=first
    )
    total = addition(second, first, (Addend(1), Addend(0)))
    joined = concatenation(total, second, second_is_lower=True)
    large = repetition(joined, 2, 1)
    part = selection(large, Feature(1, 2, 1), Feature(9, 5, 4))
    last = convolution(part, 2, (1, 1), rng, bits=2, result=unsigned(2), compares=True)
    lanes: dict[Block, BlockLanes] = {first: BlockLanes(2, 2, in_tables=True)}
    run_circuit(
        [first, second, total, joined, large, part, last], lanes, tmp_path, results=[last, total]
    )


def test_columns_in_parts(tmp_path: Path):
    """
    Check parts that do not divide the columns, strides and gaps, all encodings, and a residual.
    """
    rng = np.random.default_rng(9)
    source = Source("input", Feature(9, 4, 21))
    first = convolution(
        source, 6, (3, 3), rng, strides=(2, 2), padding=(1, 1, 1, 1), zeros=0.5, pad=7
    )
    second = convolution(
        first, 6, (3, 3), rng, dilations=(1, 2), padding=(1, 2, 1, 2), zeros=0.6, spread=3
    )
    third = convolution(second, 6, (3, 3), rng, padding=(1, 1, 1, 1), residual=first)
    depthwise = convolution(third, 6, (1, 3), rng, strides=(1, 2), groups=6)
    lanes: dict[Block, BlockLanes] = {
        first: BlockLanes(2, 2, WeightEncoding.COO, parts=4),
        second: BlockLanes(1, 3, WeightEncoding.DELTA, parts=2),
        third: BlockLanes(3, 2, parts=5),
        depthwise: BlockLanes(1, 1, parts=5),
    }
    run_circuit([first, second, third, depthwise], lanes, tmp_path)


def test_weights_by_row(tmp_path: Path):
    """
    Check weights that wait for rows and channels: all blocks of filters, batches of the producer,
    padding on all sides, gaps between the rows of a window, groups, parts, a residual and shifts.
    """
    rng, by_row = np.random.default_rng(11), WeightEncoding.BY_ROW
    source = Source("input", Feature(12, 5, 11))
    first = convolution(source, 7, (3, 3), rng, padding=(1, 1, 1, 1), spread=3)
    batched = convolution(first, 6, (3, 3), rng, strides=(2, 1), padding=(1, 1, 1, 1))
    gaps = convolution(batched, 6, (3, 2), rng, dilations=(2, 1), padding=(2, 1, 2, 0), pad=4)
    depthwise = convolution(gaps, 6, (3, 3), rng, padding=(1, 1, 1, 1), groups=6)
    residual = convolution(depthwise, 6, (3, 1), rng, padding=(1, 0, 1, 0), residual=gaps)
    grouped = convolution(residual, 8, (2, 2), rng, strides=(1, 2), groups=2)
    mean = average(grouped, 900, 14)
    scores = convolution(mean, 9, (1, 1), rng)
    blocks = [first, batched, gaps, depthwise, residual, grouped, mean, scores]
    lanes: dict[Block, BlockLanes] = {
        first: BlockLanes(1, 3, by_row, parts=4),
        batched: BlockLanes(2, 2, by_row),
        gaps: BlockLanes(1, 6, by_row),
        depthwise: BlockLanes(2, 1, by_row),
        residual: BlockLanes(1, 2, by_row, parts=3),
        grouped: BlockLanes(1, 2, by_row, parts=2),
        mean: BlockLanes(1, 1, by_row),
        scores: BlockLanes(1, 9, by_row),
    }
    run_circuit(blocks, lanes, tmp_path)


def test_products_take_channels_as_they_arrive(tmp_path: Path):
    """Products with all filters in parallel add channels while the producer sends them."""
    rng, by_row = np.random.default_rng(12), WeightEncoding.BY_ROW
    last: Block = Source("input", Feature(1, 40, 1))
    blocks: list[Block] = []
    lanes: dict[Block, BlockLanes] = {}
    for filters in (24, 24, 6, 40):
        last = convolution(last, filters, (1, 1), rng)
        blocks.append(last)
        lanes[last] = BlockLanes(1, filters, by_row)
    timing = run_circuit(blocks, lanes, tmp_path)
    # The input, and the words of each result; a product that waits for its input needs twice these.
    assert timing.latency < 40 + 24 + 24 + 6 + 40 + 4 * 15


def test_joined_repeated_and_selected_streams(tmp_path: Path):
    """
    Check both orders of joined channels with rows in batches, repetition, ranges in each dimension,
    tables per channel, and three output ports.
    """
    rng = np.random.default_rng(13)
    source = Source("input", Feature(10, 3, 8))
    first = convolution(source, 6, (3, 3), rng, padding=(1, 1, 1, 1))
    left = selection(first, Feature(0, 0, 0), Feature(10, 2, 8))
    right = selection(first, Feature(0, 2, 0), Feature(10, 4, 8))
    way = convolution(right, 4, (3, 3), rng, padding=(1, 1, 1, 1))
    upper = concatenation(way, left, second_is_lower=True)
    functions = table(upper, rng, 3)
    small = max_pool(functions, 2, 2)
    deep = convolution(small, 3, (3, 1), rng, padding=(1, 0, 1, 0))
    large = repetition(deep, 2, 2)
    lower = concatenation(large, functions, second_is_lower=False)
    parts = selection(lower, Feature(2, 1, 3), Feature(7, 7, 4))
    last = convolution(parts, 4, (2, 2), rng)
    blocks = [first, left, right, way, upper, functions, small, deep, large, lower, parts, last]
    lanes: dict[Block, BlockLanes] = {
        first: BlockLanes(3, 2),
        way: BlockLanes(2, 4, WeightEncoding.BY_ROW),
        deep: BlockLanes(2, 1),
        last: BlockLanes(2, 2),
    }
    run_circuit(blocks, lanes, tmp_path, port_bytes=3, results=[last, way, deep])


def test_a_fork_before_the_last_common_block(tmp_path: Path):
    """
    The ring of a sum holds the rows that a path needs which avoids the last common block. With
    fewer rows, the circuit stops.
    """
    rng = np.random.default_rng(14)
    source = Source("input", Feature(16, 2, 5))
    common = convolution(source, 2, (1, 1), rng)
    tall = convolution(source, 2, (9, 1), rng, padding=(4, 0, 4, 0))
    early = addition(tall, common, (Addend(1), Addend(0)))
    total = concatenation(early, common, second_is_lower=True)
    run_circuit([common, tall, early, total], {}, tmp_path)


@pytest.mark.parametrize(
    ("columns", "cut"),
    [(23, {0: 58, 1: 1, 3: 56, 4: 4, 6: 90}), (6, {1: 18, 2: 20, 4: 40})],
    ids=["three beats per word", "one beat per word"],
)
def test_a_packet_that_is_no_frame(columns: int, cut: dict[int, int], tmp_path: Path):
    """
    A packet of a wrong length is reported, and is a single frame of the output. All other frames
    are correct.
    """
    rng, size, frames = np.random.default_rng(3), 8, 8
    source = Source("input", Feature(19, 1, columns))
    layer = convolution(source, 4, (3, 3), rng, padding=(1, 1, 1, 1))
    pipeline = Pipeline(source, [layer])
    folder = tmp_path / "circuit"
    folder.mkdir()
    write_circuit(Circuit(pipeline, plan_of(pipeline, {layer: BlockLanes(2, 1)})), folder, size)
    f, out = source.feature, layer.feature
    x = rng.integers(-128, 128, (frames, f.rows, f.columns, f.channels)).astype(np.int8)
    wanted = expected(layer, [x.astype(np.int64)])
    whole = f.words * -(-f.columns // size)
    packets = [cut.get(n, whole) for n in range(frames)]
    simulator = CircuitSimulator(folder, f, [out], size)
    for seed, stall in ((0, 0), (1, 40), (2, 75)):
        run = simulator.run(x, seed=seed, stall=stall, packets=packets)
        assert run.errors == "input packets are too short and too long"
        # The first beats of a long packet are the frame.
        correct = [np.array_equal(run.results[0][n], wanted[n]) for n in range(frames)]
        assert correct == [beats >= whole for beats in packets]
