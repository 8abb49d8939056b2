"""Test several memories with hard caps: random requests, and networks in arenas."""

import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from graph_networks import Network
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, f32
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function, FunctionAttr, shape_of
from ceras_ir.dialects.mem import (
    BLOCK,
    REGIONS,
    BlockAttr,
    RegionAttr,
    block_of,
    regions_of,
)
from ceras_ir.interpreters.network import run, run_in_arena
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import InputError, UnsupportedError, UsageError
from ceras_ir.support.native import has_compiler
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
from ceras_ir.transforms.memory.check_blocks import check_plan
from ceras_ir.transforms.memory.liveness import analyse, steps
from ceras_ir.transforms.memory.offsets import Span, max_live_bytes, misplaced
from ceras_ir.transforms.memory.regions import (
    Region,
    Traffic,
    board_regions,
    choose,
    min_capacity,
    parse_regions,
    plan_regions,
    traffic_of,
)

Instance = tuple[list[Span], list[int], list[int]]


def random_instance(seed: int, most: int) -> Instance:
    source = random.Random(seed)
    spans: list[Span] = []
    for _ in range(source.randint(2, most)):
        lower = source.randint(0, 7)
        spans.append(Span(source.randint(1, 6), lower, lower + source.randint(1, 5)))
    traffic = [source.randint(0, 9) for _ in spans]
    alive = max_live_bytes(spans)
    capacities = [source.randint(1, max(alive // 2, 1)) for _ in range(source.randint(1, 2))]
    return spans, traffic, [*capacities, source.randint(alive // 2, alive)]


def fits(own: list[Span], capacity: int) -> bool:
    """Return whether requests fit, by a search through all offsets."""

    def place(n: int, offsets: list[int]) -> bool:
        if n == len(own):
            return True
        for offset in range(capacity - own[n].size + 1):
            clash = any(
                own[n].overlaps(own[j]) and offset < o + own[j].size and o < offset + own[n].size
                for j, o in enumerate(offsets)
            )
            if not clash and place(n + 1, [*offsets, offset]):
                return True
        return False

    return place(0, [])


def best_by_trying(
    spans: list[Span], traffic: list[int], capacities: list[int], *, offsets: bool
) -> Traffic | None:
    best: Traffic | None = None
    for places in product(range(len(capacities)), repeat=len(spans)):
        sets = [
            [s for s, p in zip(spans, places, strict=True) if p == r]
            for r in range(len(capacities))
        ]
        moved = tuple(
            sum(t for t, p in zip(traffic, places, strict=True) if p == r)
            for r in range(len(capacities))
        )
        if best is not None and moved <= best:
            continue
        pairs = list(zip(sets, capacities, strict=True))
        if all(max_live_bytes(own) <= c for own, c in pairs) and (
            not offsets or all(fits(own, c) for own, c in pairs)
        ):
            best = moved
    return best


@pytest.mark.skipif(not has_compiler(), reason="the exact search needs a C++ compiler")
@pytest.mark.parametrize("first", range(0, 120, 40))
def test_the_best_of_all_choices(first: int):
    """Compare with a search through all regions and offsets, for at most seven requests."""
    outcomes: set[bool] = set()
    for seed in range(first, first + 40):
        spans, traffic, capacities = random_instance(seed, 7)
        expected = best_by_trying(spans, traffic, capacities, offsets=True)
        plan = plan_regions(spans, traffic, capacities, 1)
        outcomes.add(plan is None)
        assert (plan and plan.choice.traffic) == expected, seed
        if plan is None:
            continue
        assert plan.choice.proven
        assert plan.bound is not None and plan.bound >= plan.choice.traffic
        for region, capacity in enumerate(capacities):
            own = [i for i, place in enumerate(plan.choice.places) if place == region]
            found = [spans[i] for i in own]
            assert not misplaced(own, found, plan.plans[region].offsets, capacity), seed
            assert max_live_bytes(found) <= plan.plans[region].bound <= plan.plans[region].peak
    assert outcomes == {False, True}


def test_what_the_largest_region_needs():
    """With a byte less, no choice remains; `choose` finds the optimum for live bytes."""
    for seed in range(60):
        spans, traffic, capacities = random_instance(seed, 7)
        everywhere = [tuple(range(len(capacities)))] * len(spans)
        choice = choose(spans, traffic, capacities, everywhere)
        expected = best_by_trying(spans, traffic, capacities, offsets=False)
        assert (choice and choice.traffic) == expected, seed
        needed = min_capacity(spans, capacities, len(capacities) - 1, 1)
        for size in {needed, max(needed - 1, 0)}:
            tried = best_by_trying(spans, traffic, [*capacities[:-1], size], offsets=False)
            assert (tried is not None) == (size == needed), seed


TIGHT = [
    Span(*request)
    for request in (
        *((3, 5, 6), (2, 3, 5), (1, 1, 2), (3, 0, 3), (2, 4, 6)),
        *((2, 0, 1), (1, 2, 5), (1, 1, 4), (1, 3, 4)),
    )
]
"""The size, lower, upper of requests: at most five bytes are live, but no plan has five bytes."""


@pytest.mark.slow
@pytest.mark.skipif(not has_compiler(), reason="the exact search needs a C++ compiler")
def test_choices_that_bytes_alive_allow_but_offsets_do_not():
    assert max_live_bytes(TIGHT) == 5 and not fits(TIGHT, 5)
    for seed in range(6):
        source = random.Random(seed)
        traffic = [source.randint(1, 9) for _ in TIGHT]
        plan = plan_regions(TIGHT, traffic, [5, 3], 1)
        assert plan is not None and plan.bound is not None
        assert plan.choice.proven and plan.choice.traffic[0] < plan.bound[0] == sum(traffic)
        assert plan.choice.traffic == best_by_trying(TIGHT, traffic, [5, 3], offsets=True)
    assert plan_regions(TIGHT, [1] * len(TIGHT), [5], 1) is None


def random_network(seed: int) -> ModuleOp:
    source = random.Random(seed)
    net = Network([((2, 6), f32), ((1, 6), f32)])
    values = list(net.inputs)
    for _ in range(source.randint(4, 12)):
        x = source.choice(values)
        match source.randrange(4):
            case 0:
                parts = [v for v in values if len(shape_of(v)) == 2]
                new: graph.GraphOperation = graph.ConcatOp(
                    [source.choice(parts) for _ in range(source.randint(1, 3))], 0
                )
            case 1:
                flat = len(shape_of(x)) == 2
                rows = shape_of(x)[0]
                new = graph.ReshapeOp(x, (rows * 6,) if flat else (rows // 6, 6))
            case 2:
                new = graph.UnaryOp(x, FunctionAttr(Function.RELU))
            case _:
                new = graph.BinaryOp(Binary.ADD, x, x, result_element=f32)
        values.append(net.add(new))
    return net.module(*source.sample(values[2:], min(2, len(values) - 2)))


@pytest.mark.slow
def test_random_networks_in_their_regions():
    """Each region is a separate byte array; the check agrees, and the caps hold."""
    used = 0
    for seed in range(80):
        module = random_network(seed)
        main = main_function(module)
        alive = analyse(main, include_io=True).lower_bound(16)
        texts = (f"fast:{alive // 3}", f"slow:{alive // 2}", "rest:65536")
        AllocateBlocksPass(io=True, regions=texts).apply(Context(), module)
        module.verify()
        assert not check_plan(main)
        regions = regions_of(main)
        used += all(region.size.data for region in regions)
        assert all(region.size.data <= region.capacity.data for region in regions)
        source = np.random.default_rng(seed)
        inputs = {
            f"input{i}": source.standard_normal(shape_of(a)).astype(np.float32)
            for i, a in enumerate(main.body.block.args)
        }
        expected, actual = run(module, inputs), run_in_arena(module, inputs)
        for name, array in expected.items():
            np.testing.assert_array_equal(actual[name], array, str(seed))
    assert used > 20


def chain() -> ModuleOp:
    net = Network([((4, 4), f32)])
    a = net.add(graph.UnaryOp(net.inputs[0], FunctionAttr(Function.RELU)))
    b = net.add(graph.ConcatOp([a, net.inputs[0]], 0))
    return net.module(net.add(graph.BinaryOp(Binary.ADD, b, b, result_element=f32)))


def test_traffic_is_what_operations_read_and_write():
    main = main_function(chain())
    liveness = analyse(main, include_io=True)
    # The argument is loaded twice, relu is written and loaded; the sum replaces the concatenation.
    assert traffic_of(main, liveness) == [64 * 2, 64 * 2, 128 * 3]


def test_the_check_sees_wrong_regions():
    def broken(regions: list[RegionAttr], region: str, offset: int = 0) -> list[str]:
        module = chain()
        AllocateBlocksPass(io=True, regions=("fast:128", "slow:4096")).apply(Context(), module)
        main = main_function(module)
        assert not check_plan(main)
        relu = steps(main)[0]
        block = block_of(relu.results[0])
        assert isinstance(relu, Operation) and block is not None
        relu.attributes[BLOCK] = BlockAttr(9, offset, block.size.data, region)
        main.attributes[REGIONS] = ArrayAttr(regions)
        return [f.message for f in check_plan(main)]

    fast, slow = RegionAttr(128, 128, "fast"), RegionAttr(128, 4096, "slow")
    for name in ("nowhere", ""):
        assert broken([fast, slow], name) == [f"there is no region '{name}'"]
    assert broken([RegionAttr(128, 64, "fast"), slow], "fast") == [
        "region fast: 128 bytes exceed 64"
    ]
    assert broken([fast, fast], "fast")[0] == "several regions have the name fast"
    assert broken([fast, RegionAttr(64, 64, "slow")], "slow") == [
        "regions of 192 bytes make an arena of 256"
    ]
    assert "bytes to 192 in region fast of 128" in broken([fast, slow], "fast", 128)
    # In the first region it is in the wrong half of the concatenation; in the other half the
    # argument is in a half, and the other half is unused.
    assert any("overlaps an operand" in f for f in broken([fast, slow], "fast", 64))
    assert {bool(broken([fast, slow], "slow", offset)) for offset in (0, 64)} == {False, True}


@pytest.mark.needs("nnet")
def test_targets_of_one_arena_refuse():
    from backends.nnet.networks import written

    module = chain()
    AllocateBlocksPass(io=True, regions=("fast:128", "slow:4096")).apply(Context(), module)
    with pytest.raises(UnsupportedError, match="a single arena, but the plan has the regions fast"):
        written(module)


def test_a_network_that_computes_nothing_holds_its_arguments():
    net = Network([((4, 4), f32)])
    module = net.module(net.inputs[0])
    AllocateBlocksPass(io=True, regions=("fast:64",)).apply(Context(), module)
    assert [r.size.data for r in regions_of(main_function(module))] == [64]
    with pytest.raises(InputError, match="'fast' of 63 bytes is too small: it needs at least 64"):
        AllocateBlocksPass(io=True, regions=("fast:63",)).apply(Context(), module)


@pytest.mark.needs("nnet")
def test_boards(tmp_path: Path):
    assert [region.name for region in board_regions("ceras_zcu104")] == ["uram", "ddr"]
    board = tmp_path / "board.toml"
    board.write_text(
        '[[memory.region]]\nname = "a"\nbytes = 64\n[[memory.region]]\nname = "b"\nbytes = 4096\n'
        "bytes_per_us = 8\n"
    )
    assert board_regions(str(board)) == [Region("a", 64), Region("b", 4096, 8.0)]
    assert parse_regions(["a:64", "b:4096:8"]) == board_regions(str(board))
    module = chain()
    AllocateBlocksPass(io=True, board=str(board)).apply(Context(), module)
    assert [r.region.data for r in regions_of(main_function(module))] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no tables"),
        ("memory = 3", "no tables"),
        ("x = ", "not TOML"),
        ("[[memory.region]]\nbytes = 3", "has no field 'name': add name = "),
        ('[[memory.region]]\nname = "a b"\nbytes = 3', "needs a name of letters"),
        ('[[memory.region]]\nname = "a"\nbytes = true', "must be an integer in .*, got True"),
        ('[[memory.region]]\nname = "a"\nbytes = 0', "bytes must be an integer in .1, "),
        ('[[memory.region]]\nname = "a"\nbytes = 8\nsize = 1', "no field 'size'"),
        (
            '[[memory.region]]\nname = "a"\nbytes = 8\nbytes_per_us = nan',
            "bytes_per_us must be a number > 0, got nan",
        ),
    ],
)
def test_bad_boards(tmp_path: Path, text: str, message: str):
    board = tmp_path / "board.toml"
    board.write_text(text)
    with pytest.raises(InputError, match=message):
        board_regions(str(board))


@pytest.mark.parametrize("text", ["a", "a:b", "a:1:2:3", "a:-4", ":4", "a:4:0"])
def test_bad_regions(text: str):
    with pytest.raises(UsageError):
        parse_regions([text])
    with pytest.raises(InputError, match="cannot read the board"):
        board_regions("no_such_board")
