"""Check sizes, addresses, memories and cycles of circuits without a run of Verilog."""

from pathlib import Path

import numpy as np
import pytest
from dataflow_circuits import addition, convolution, max_pool, plan_of, table

from ceras_ir.backends.dataflow.blocks import (
    Addend,
    Addition,
    Block,
    Convolution,
    Feature,
    Pipeline,
    Source,
)
from ceras_ir.backends.dataflow.board import CHIP_FAMILIES, DataflowBoard, load_board, parse_board
from ceras_ir.backends.dataflow.convolution_cycles import lane_cycles
from ceras_ir.backends.dataflow.cycles import model
from ceras_ir.backends.dataflow.lanes import Budget, choices, choose
from ceras_ir.backends.dataflow.latency import latency_cycles
from ceras_ir.backends.dataflow.plan import (
    BlockLanes,
    PipelinePlan,
    PlannedConvolution,
    batches,
    min_slots,
    sent_rows,
)
from ceras_ir.backends.dataflow.resources import Usage, estimate, total
from ceras_ir.backends.dataflow.storage import WindowBuffer
from ceras_ir.backends.dataflow.weights import (
    WeightEncoding,
    WeightMemory,
    delta_bits,
    encodings_of,
)
from ceras_ir.support.diagnostics import InputError, UnsupportedError


def random_layer(seed: int) -> Convolution:
    """Return a convolution with random strides, padding, dilations and groups."""
    rng = np.random.default_rng(seed)
    groups = int(rng.choice([1, 1, 2]))
    source = Source(
        "input", Feature(int(rng.integers(6, 14)), 2 * groups, int(rng.integers(6, 14)))
    )
    one, two = (int(v) for v in rng.integers(1, 4, 2))
    top, left, bottom, right = (int(v) for v in rng.integers(0, 2, 4))
    return convolution(
        source,
        4,
        (one, two),
        rng,
        strides=(int(rng.integers(1, 4)), int(rng.integers(1, 4))),
        padding=(top, left, bottom, right),
        dilations=(int(rng.integers(1, 3)), int(rng.integers(1, 3))),
        groups=groups,
        zeros=0.5,
    )


@pytest.mark.parametrize("seed", range(20))
def test_taps_meet_their_rows(seed: int):
    """
    A tap reads a window row at the position to which the padded row was written, for all rows.
    """
    layer = random_layer(seed)
    w, rows = layer.windows, layer.feature.rows
    for banks in range(1, min(5, rows) + 1):
        buffer = WindowBuffer(layer, banks, 64)
        for row in range(rows):
            group, place = divmod(row, banks)
            for j in range(w.kernel[0]):
                address, rotation = buffer.tap_row(j)
                carry, bank = divmod(place + rotation, banks)
                read = (group + carry) * buffer.slot_words + address
                padded = w.strides[0] * row + j * w.dilations[0]
                slot = padded // buffer.slot_rows
                expected_bank, at = buffer.row_position(padded)
                assert bank == expected_bank
                assert read == slot * buffer.slot_words + at % buffer.slot_words


@pytest.mark.parametrize("seed", range(20))
def test_coo_has_every_weight_once(seed: int):
    """
    Entries decode to the weights: address, rotation and shift identify a single tap and channel.
    """
    layer = random_layer(seed)
    buffer = WindowBuffer(layer, 2, 8)
    per_group, depth = len(layer.weights) // layer.groups, layer.weights.shape[3]
    where: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    for j in range(layer.windows.kernel[0]):
        for i in range(layer.windows.kernel[1]):
            for c in range(layer.input.channels):
                (address, rotation), (phase, shift) = buffer.tap_row(j), buffer.tap_column(i)
                key = (address + c * buffer.phases + phase, rotation, shift)
                assert where.setdefault(key, (j, i, c)) == (j, i, c)
    found = np.zeros_like(layer.weights)
    filters = 3
    stored = WeightMemory(layer, filters, WeightEncoding.COO)
    words, block = [*stored.words(buffer)], 0
    assert len(words) == stored.entries == sum(stored.lengths())
    width = (stored.width(buffer) - 1) // filters
    for word in words:
        for n in range(filters):
            entry = word >> n * width & (1 << width) - 1
            weight = (entry & 255) - (256 if entry & 128 else 0)
            number = block * filters + n
            if weight == 0:
                continue
            entry >>= 8
            shift = entry & (1 << buffer.shift_bits) - 1
            entry >>= buffer.shift_bits
            rotation = entry & (1 << buffer.rotation_bits) - 1
            j, i, c = where[entry >> buffer.rotation_bits, rotation, shift]
            found[number, j, i, c - number // per_group * depth] += weight
        block += word >> filters * width
    assert np.array_equal(found, layer.weights)
    assert block == stored.blocks


@pytest.mark.parametrize("zeros", [0.3, 0.9, 0.97, 1.0])
def test_deltas_have_every_weight_once(zeros: float):
    """
    Positions are sums of deltas. Entries without a weight bridge long gaps, or complete a filter.
    """
    source = Source("input", Feature(9, 17, 8))
    layer = convolution(source, 5, (3, 2), np.random.default_rng(9), zeros=zeros)
    layer.weights[2] = 0
    buffer, filters = WindowBuffer(layer, 2, 8), 2
    stored = WeightMemory(layer, filters, WeightEncoding.DELTA)
    words, size = [*stored.words(buffer)], delta_bits(layer) + 8
    assert 1 << delta_bits(layer) <= 17
    assert len(words) == stored.entries == sum(stored.lengths())
    assert stored.width(buffer) == filters * size + 1
    found = np.zeros((6, layer.taps), np.int64)
    at, block = [0, 0], 0
    for word in words:
        for n in range(filters):
            entry = word >> n * size & (1 << size) - 1
            at[n] += entry >> 8
            found[block * filters + n, at[n]] += (entry & 255) - (256 if entry & 128 else 0)
        if word >> filters * size:
            at, block = [0, 0], block + 1
    assert np.array_equal(found[:5].reshape(layer.weights.shape), layer.weights)
    assert not found[5].any() and block == stored.blocks


def test_deltas_are_offered_where_they_pay():
    """
    Deltas need a single group with several channels; very sparse weights need too many bridges.
    """
    rng = np.random.default_rng(10)
    source = Source("input", Feature(5, 64, 5))
    ninety = convolution(source, 64, (3, 3), rng, zeros=0.9)
    assert encodings_of(ninety) == [WeightEncoding.DENSE, WeightEncoding.COO, WeightEncoding.DELTA]
    assert delta_bits(ninety) == 6
    board = load_board("zcu102")
    by_encoding = {
        e: WeightMemory(ninety, 1, e).width(PlannedConvolution(ninety, BlockLanes(), True).buffer)
        for e in (WeightEncoding.COO, WeightEncoding.DELTA)
    }
    assert by_encoding[WeightEncoding.DELTA] == 15 < by_encoding[WeightEncoding.COO]
    few = Budget.of(board, 0, 20)
    planned = choose(Pipeline(source, [ninety]), board, few).convolutions[ninety]
    assert planned.lanes.encoding is WeightEncoding.DELTA
    sparse = convolution(source, 64, (3, 3), rng, zeros=0.99)
    assert WeightEncoding.DELTA not in encodings_of(sparse)
    grouped = convolution(source, 64, (3, 3), rng, zeros=0.9, groups=2)
    assert WeightEncoding.DELTA not in encodings_of(grouped) and not delta_bits(grouped)


def chain() -> Pipeline:
    """Return two layers with maximum pooling between them."""
    rng = np.random.default_rng(5)
    source = Source("input", Feature(16, 3, 16))
    first = convolution(source, 8, (3, 3), rng, padding=(1, 1, 1, 1), zeros=0.9)
    pool = max_pool(first, 2, 2)
    last = convolution(pool, 8, (3, 3), rng, padding=(1, 1, 1, 1), zeros=0.9)
    return Pipeline(source, [first, pool, last])


def test_more_multipliers_are_faster_until_the_ports_are_the_limit():
    pipeline, board = chain(), load_board("zcu102")
    times: list[int] = []
    for dsp in (12, 24, 48, 96, 400):
        plan = choose(pipeline, board, Budget.of(board, dsp, 0))
        assert total(estimate(pipeline, plan, board.fabric)).dsp <= dsp
        timing = model(pipeline, plan, board.port_bytes)
        slowest = max(lane_cycles(planned) for planned in plan.convolutions.values())
        assert timing.per_frame >= slowest
        times.append(timing.per_frame)
    assert times == sorted(times, reverse=True) and times[0] > 3 * times[-1]


@pytest.mark.parametrize("dsp", [12, 48])
def test_the_objective_latency(dsp: int):
    """
    The first frame is earlier in the exact model, or as early if no other lanes fit. The estimate
    of whole rows is longer for frames of a few hundred cycles, because words of a row overlap.
    """
    pipeline, board = chain(), load_board("zcu102")
    budget, port = Budget.of(board, dsp, 0), board.port_bytes
    plans = [choose(pipeline, board, budget, o) for o in ("throughput", "latency")]
    assert all(budget.holds(total(estimate(pipeline, p, board.fabric))) for p in plans)
    latencies = [model(pipeline, p, port).latency for p in plans]
    assert latencies[1] <= (0.9 if dsp == 48 else 1) * latencies[0]
    guess = latency_cycles(pipeline, plans[1].convolutions, port)
    assert latencies[1] <= guess < 1.15 * latencies[1]


def test_wide_rows_fit_few_multipliers():
    """Parts of the columns share lanes. The time of a layer includes writing them."""
    rng = np.random.default_rng(6)
    source, board = Source("input", Feature(8, 3, 1280)), load_board("ecp5-85f")
    wide = convolution(source, 4, (3, 3), rng, strides=(2, 2), padding=(1, 1, 1, 1))
    plan = choose(Pipeline(source, [wide]), board, Budget.of(board, 40, 0))
    planned = plan.convolutions[wide]
    assert planned.lanes.parts > 1 and planned.multipliers <= 40
    # Two words of each input row for each part: a word for each residue of columns.
    writing = planned.buffer.padded_rows * 3 * 2 * planned.lanes.parts
    assert lane_cycles(planned) >= writing
    thinner = PlannedConvolution(wide, BlockLanes(parts=32, filters=4), board.pairs)
    assert thinner.multipliers == 4 * 20


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_parts_store_what_their_windows_read(parts: int):
    """Stored column `x + shift` of a part and phase is the padded column of that window's tap."""
    for seed in range(20):
        layer = random_layer(seed)
        buffer, w = WindowBuffer(layer, 1, 4, parts), layer.windows
        for column in range(layer.feature.columns):
            part, x = divmod(column, buffer.part_columns)
            for i in range(w.kernel[1]):
                phase, shift = buffer.tap_column(i)
                start = buffer.starts[part * len(buffer.residues) + phase]
                assert x + shift in buffer.columns
                taken = start + w.strides[1] * (x + shift)
                assert taken == w.strides[1] * column + i * w.dilations[1] - w.before[1]


def test_zeros_cost_nothing():
    """With 90% zeros, weights are COO, and only nonzero weights need cycles."""
    pipeline, board = chain(), load_board("zcu102")
    plan = choose(pipeline, board, Budget.of(board, 16, 0))
    for planned in plan.convolutions.values():
        assert planned.lanes.encoding is WeightEncoding.COO
        dense = PlannedConvolution(
            planned.layer, BlockLanes(planned.lanes.rows, planned.lanes.filters), planned.paired
        )
        assert lane_cycles(planned) < lane_cycles(dense) / 2


def test_batches_go_through_pools():
    pipeline = chain()
    first, pool, last = pipeline.blocks
    plan = plan_of(pipeline, {first: BlockLanes(3, 1), last: BlockLanes(2, 1)})
    assert [len(b) for b in batches(first, plan.convolutions)] == [3] * 5 + [1]
    assert [len(b) for b in batches(pool, plan.convolutions)] == [1, 2, 1, 2, 1, 1]
    assert sent_rows(batches(pool, plan.convolutions), 2) == 3


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_with_fewer_slots_it_would_stop(rows: int):
    """The model runs with the minimum number of slots, and stops with one slot less."""
    rng = np.random.default_rng(6)
    source = Source("input", Feature(12, 2, 6))
    first = convolution(source, 3, (1, 1), rng)
    second = convolution(first, 3, (3, 3), rng, padding=(1, 1, 1, 1))
    pipeline = Pipeline(source, [first, second])
    for at_once in (1, 2, 4):
        planned: dict[Block, PlannedConvolution] = {
            first: PlannedConvolution(first, BlockLanes(rows, 1), True)
        }
        buffer = WindowBuffer(second, at_once, 1)
        least = min_slots(buffer, batches(first, planned))
        planned[second] = PlannedConvolution(second, BlockLanes(at_once, 1, slots=least), True)
        assert model(pipeline, PipelinePlan(planned, {}, {}), 8).per_frame > 0
        if least > 1:
            fewer = BlockLanes(at_once, 1, slots=least - 1)
            planned[second] = PlannedConvolution(second, fewer, True)
            with pytest.raises(AssertionError, match="has stopped"):
                model(pipeline, PipelinePlan(planned, {}, {}), 8)


def test_rings_hold_what_runs_ahead():
    """The model runs with the planned ring on the longer path, and stops with a quarter."""
    rng = np.random.default_rng(7)
    source = Source("input", Feature(24, 2, 5))
    start = convolution(source, 2, (1, 1), rng)
    way: Block = start
    for _ in range(3):
        way = convolution(way, 2, (5, 5), rng, padding=(2, 2, 2, 2))
    total_ = Addition("sum", start.feature, (way, start), (Addend(0), Addend(0)))
    blocks: list[Block] = [start]
    while way is not start:
        blocks.insert(1, way)
        way = way.inputs[0]
    pipeline = Pipeline(source, [*blocks, total_])
    plan = plan_of(pipeline, {})
    assert not plan.delays
    assert model(pipeline, plan, 8).per_frame > 0
    with pytest.raises(AssertionError, match="has stopped"):
        few: dict[Block, int] = {total_: plan.capacities[total_] // 4}
        model(pipeline, PipelinePlan(plan.convolutions, few, {}), 8)


def test_a_short_way_waits_for_the_ring():
    """A function between the operands stores a word, and the ring provides only complete rows."""
    source = Source("input", Feature(4, 3, 2))
    rng = np.random.default_rng(8)
    function = table(source, rng)
    total_ = addition(function, source, (Addend(0), Addend(0)))
    pipeline = Pipeline(source, [function, total_])
    plan = plan_of(pipeline, {})
    assert plan.delays == {total_: 6}
    assert model(pipeline, plan, 8).per_frame > 0
    with pytest.raises(AssertionError, match="has stopped"):
        model(pipeline, PipelinePlan(plan.convolutions, plan.capacities, {}), 8)


@pytest.mark.parametrize(
    ("rows", "at_once"), [(9, (3, 3, 3, 3)), (9, (1, 3, 3, 1)), (7, (2, 2, 2, 1))]
)
def test_rings_keep_the_rate(rows: int, at_once: tuple[int, ...]):
    """
    The ring has room for the rows that two convolutions compute, so no layer waits for another.
    """
    rng = np.random.default_rng(11)
    source = Source("input", Feature(rows, 8, 4))
    start = convolution(source, 8, (3, 3), rng, padding=(1, 1, 1, 1))
    one = convolution(start, 8, (3, 3), rng, padding=(1, 1, 1, 1))
    two = convolution(one, 8, (3, 3), rng, padding=(1, 1, 1, 1))
    last = convolution(two, 8, (3, 3), rng, padding=(1, 1, 1, 1), residual=start)
    blocks: list[Block] = [start, one, two, last]
    lanes = {block: BlockLanes(r) for block, r in zip(blocks, at_once, strict=True)}
    pipeline, plan = Pipeline(source, blocks), plan_of(Pipeline(source, blocks), lanes)
    bound = max(lane_cycles(planned) for planned in plan.convolutions.values())
    assert bound <= model(pipeline, plan, 8, frames=9).per_frame <= 1.01 * bound
    tight: dict[Block, int] = {last: plan.capacities[last] // 2}
    halved = PipelinePlan(plan.convolutions, tight, plan.delays)
    assert model(pipeline, halved, 8, frames=9).per_frame > 1.05 * bound


def test_narrow_weights_are_multiplied_in_tables():
    """Tables replace missing multipliers; memories have exact widths. 8 bits need multipliers."""
    rng, board = np.random.default_rng(17), load_board("pynq_z2")
    source, around = Source("input", Feature(16, 32, 16)), (1, 1, 1, 1)
    few = Budget.of(board, 4, 0)
    times: dict[int, int] = {}
    for bits in (2, 3, 8):
        layer = convolution(source, 32, (3, 3), rng, padding=around, bits=bits, bipolar=bits == 2)
        pipeline = Pipeline(source, [layer])
        planned = choose(pipeline, board, few).convolutions[layer]
        assert planned.lanes.in_tables == (planned.dsp == 0) == (bits < 8)
        dense = WeightMemory(layer, 5, WeightEncoding.DENSE)
        assert dense.width(planned.buffer) == 5 * {2: 1, 3: 3, 8: 8}[bits]
        times[bits] = lane_cycles(planned)
    assert times[2] <= times[3] < times[8] / 10
    assert planned.lanes.terms == planned.products // planned.lane_count == 1
    layer = convolution(source, 32, (1, 1), rng, bits=7)
    table = choices(layer, board.fabric)
    assert {choice.planned.lanes.in_tables for choice in table} == {False, True}
    assert all(choice.resources.dsp for choice in table if not choice.planned.lanes.in_tables)


def test_memories():
    def blocks(width: int, depth: int, family: str = "xcup") -> int:
        used = Usage(CHIP_FAMILIES[family])
        used.memory(width, depth)
        return used.ram18

    assert blocks(36, 512) == 1
    assert blocks(37, 512) == 2
    assert blocks(9, 2049) == 2
    assert blocks(8, 16384) == 8
    # Tables are cheaper for small depths; tables of ECP5 have 16 words.
    assert blocks(64, 64) == 0 and blocks(48, 80) == 0 and blocks(88, 96) == 3
    assert blocks(64, 64, "ecp5") == 2 and blocks(64, 16, "ecp5") == 0


def test_no_chip_is_large_enough():
    """The message names the layer, the resource, and the remedy."""
    pipeline, board = chain(), load_board("zcu102")
    with pytest.raises(UnsupportedError, match=r"2 multipliers, 1 of them.*may use 1.*with 2"):
        choose(pipeline, board, Budget.of(board, 1, 0))
    small = DataflowBoard("toy", "xcup", 100, 1, 100000, 100, 8)
    with pytest.raises(UnsupportedError, match=r"memories of 18 kbit.*more zero weights"):
        choose(pipeline, small, Budget.of(small))


GOOD = (Path(__file__).parents[3] / "ceras_ir/backends/dataflow/boards/zcu102.toml").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the board has no field 'title': add title = "),
        (GOOD + "\nx = 1\n", r"a board has no field 'x' \(fields: title, family, "),
        (GOOD + '\nnextpnr = "--run x"\n', "nextpnr must be like"),
        (GOOD.replace("2520", "0"), r"dsp must be an integer in \[1, 16777216\], got 0"),
        (GOOD.replace('"xcup"', '"ice40"'), "family must be one of xcup, xc7, ecp5"),
        (GOOD.replace('"AMD ZCU102"', "3"), 'title must be text such as "My board", got 3'),
    ],
)
def test_boards_are_checked(text: str, message: str):
    with pytest.raises(InputError, match=message):
        parse_board(text, "board.toml")


def test_every_board_loads():
    boards = [load_board(name) for name in ("zcu102", "zcu104", "ecp5-85f")]
    assert [board.pairs for board in boards] == [True, True, False]
    with pytest.raises(InputError, match="has no board"):
        load_board("none")
