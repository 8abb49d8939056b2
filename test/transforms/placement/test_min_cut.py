"""Compare minimum cuts with all cuts of small graphs, and placements with all placements."""

import random

import pytest

from ceras_ir.transforms.placement import SINK_NODE, SOURCE_NODE, FlowGraph


def cost(edges: list[tuple[int, int, int]], side: set[int]) -> int:
    return sum(c for a, b, c in edges if a in side and b not in side)


@pytest.mark.parametrize("seed", range(60))
def test_no_cut_is_cheaper(seed: int):
    source = random.Random(seed)
    count = source.randint(2, 8)
    graph = FlowGraph()
    for _ in range(count - 2):
        graph.add_node()
    edges: list[tuple[int, int, int]] = []
    for _ in range(source.randint(1, 24)):
        a, b = source.randrange(count), source.randrange(count)
        edges.append((a, b, source.randint(0, 9)))
        graph.add_edge(*edges[-1])
    total, side = graph.cut()
    others = [n for n in range(count) if n not in (SOURCE_NODE, SINK_NODE)]
    every = (
        {SOURCE_NODE, *(n for i, n in enumerate(others) if bits >> i & 1)}
        for bits in range(1 << len(others))
    )
    assert SOURCE_NODE in side and SINK_NODE not in side
    assert total == cost(edges, side) == min(cost(edges, s) for s in every)
