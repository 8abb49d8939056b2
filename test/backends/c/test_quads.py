"""
Test sums of two and of four products in 16 bits: the order of steps, and the generated C.

The order is checked with sums of all extremes of the inputs, computed for each lane.
"""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from c_harness import Values, check, constant, make_network
from c_tiles import BUILDS, X86, source
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, Signedness, i8
from xdsl.ir import SSAValue

from ceras_ir.backends.c.quads import (
    HEADER,
    MAX_DISTANCE,
    has_quads,
    ordered_places,
    ordered_weights,
    quad_order,
    step_places,
)
from ceras_ir.backends.c.register_tiles import Tile, Walk
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, UniformType

u8 = IntegerType(8, Signedness.UNSIGNED)
OUT = UniformType(1.0)

WITHIN = [(64, 64), (127, 1), (-128, 0), (-1, -127), (127, -128), (-64, 64), (0, 0)]
OUTSIDE = [(65, 64), (127, 2), (-128, -1), (-100, -29), (127, 127), (-128, -128)]
"""Pairs of weights: sums of products with inputs of 255 do and do not fit 16 bits."""


def fits(*weights: int) -> bool:
    """Return whether sums of products with any inputs from 0 to 255 fit 16 bits."""
    sums = [sum(x) for x in product(*((0, 255 * w) for w in weights))]
    return min(sums) >= -(1 << 15) and max(sums) < 1 << 15


def lanes(packed: NDArray[np.int8], vector: int, step: int) -> list[tuple[int, int]]:
    """Return the pairs of weights of a step for a vector of 8 outputs, in panel 0."""
    rows = packed[0, step, 8 * vector : 8 * (vector + 1)].reshape(-1, 2).tolist()
    return [(int(a), int(b)) for a, b in rows]


def test_bounds_of_pairs():
    assert all(fits(*pair) for pair in WITHIN)
    assert not any(fits(*pair) for pair in OUTSIDE)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 30), st.sampled_from([16, 32]), st.integers(1, 127))
def test_order(seed: int, steps: int, width: int, most: int):
    rng = np.random.default_rng(seed)
    packed = rng.integers(-most - 1, most, (1, steps, width, 4), endpoint=True).astype(np.int8)
    # Most weights are small, as in trained networks.
    packed[rng.random(packed.shape) < 0.9] //= 4
    order, counts = quad_order(packed)
    assert order.shape == (width // 8, steps)
    places = rng.permutation(steps)
    written = ordered_weights(packed, order).reshape(width // 8, steps, -1, 2)
    listed = ordered_places(order, counts, places)
    assert (listed[:, :HEADER] == counts).all()
    assert (listed[:, HEADER:] == places[order]).all()
    for vector, listed in enumerate(order.tolist()):
        quads, pairs = counts[vector].tolist()
        for step, pair_list in zip(listed, written[vector].tolist(), strict=True):
            assert lanes(packed, vector, step) == [tuple(pair) for pair in pair_list]
        assert sorted(listed) == list(range(steps)) and quads % 2 == 0 and quads <= pairs
        for a, b in zip(listed[:quads:2], listed[1:quads:2], strict=True):
            assert 0 < b - a <= MAX_DISTANCE
            both = zip(lanes(packed, vector, a), lanes(packed, vector, b), strict=True)
            assert all(fits(*one, *other) for one, other in both)
        for step in listed[quads:pairs]:
            assert all(fits(*pair) for pair in lanes(packed, vector, step))
        for step in listed[pairs:]:
            assert not all(fits(*pair) for pair in lanes(packed, vector, step))
        # The best partner at a distance of 1 is never left.
        alone = sorted(listed[quads:pairs])
        for a, b in pairwise(alone):
            both = zip(lanes(packed, vector, a), lanes(packed, vector, b), strict=True)
            assert b - a > 1 or not all(fits(*one, *other) for one, other in both)


@pytest.mark.parametrize(
    ("pair", "is_within"), [*((p, True) for p in WITHIN), *((p, False) for p in OUTSIDE)]
)
def test_bounds_select_the_order(pair: tuple[int, int], is_within: bool):
    packed = np.zeros((1, 4, 16, 4), np.int8)
    packed[0, 2, 7, 2:] = pair
    order, counts = quad_order(packed)
    expected = ([4, 4], [0, 1, 2, 3]) if is_within else ([2, 3], [0, 1, 3, 2])
    assert (counts[0].tolist(), order[0].tolist()) == expected


def test_places():
    walk = Walk(Tile(1, 4, 1), 2, 3, 100, 400, 8, pieces=2, piece=30)
    assert step_places(walk, 4).tolist() == [0, 4, 8, 30, 34, 38, 100, 104, 108, 130, 134, 138]
    assert has_quads(walk, 4)
    assert not has_quads(replace(walk, pitch=1 << 16), 4)


def quad_weights(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    """Return pairs of weights just within, and rarely just outside of the bounds."""
    pairs = np.array([*WITHIN, *OUTSIDE], np.int8)
    size = int(np.prod(shape))
    rare = np.where(rng.random(size) < 0.02, len(pairs), len(WITHIN))
    flat = pairs[rng.integers(0, rare)].reshape(-1)[:size]
    flat[rng.random(size) < 0.6] = 0
    return flat.reshape(shape)


@pytest.mark.slow
@pytest.mark.skipif(not X86, reason="instructions of x86")
@pytest.mark.parametrize("build", ["avx2", "vex"])
@pytest.mark.parametrize("storage", [i8, u8])
def test_extremes(build: str, storage: IntegerType):
    """Inputs of 0 and of the maximum, with weights at the bounds of sums, in all forms of tiles."""
    element = UniformType(1.0, 0 if storage == i8 else 128, storage=storage)
    ways = [
        # input, outputs, kernel, padding, dilation, groups
        ((1, 6, 7, 64), 32, (1, 1), 0, 1, 1),
        ((1, 1, 1, 300), 40, (1, 1), 0, 1, 1),
        ((2, 6, 7, 20), 48, (3, 3), 1, 1, 1),
        ((1, 9, 8, 32), 32, (3, 3), 2, 2, 2),
        ((1, 8, 5, 3), 17, (3, 2), 1, 1, 1),
    ]
    rng = np.random.default_rng(4)

    def layers(*inputs: SSAValue) -> Values:
        results: list[SSAValue] = []
        for x, (shape, outputs, kernel, padding, dilation, groups) in zip(
            inputs, ways, strict=True
        ):
            weights = quad_weights(rng, (outputs, *kernel, shape[3] // groups))
            convolution = graph.Conv2dOp(
                x, constant(weights, OUT), result_element=UniformType(1.0, storage=IntegerType(16)),
                padding=(padding,) * 4, dilations=(dilation, dilation), groups=groups,
                requant=RequantAttr(6, low=-32768, high=32767),
            )  # fmt: skip
            results.append(convolution.result)
        return results

    module = make_network([(element, way[0]) for way in ways], layers)
    assert "DOT_QUADS_256" in source(module, "model_kernels.h")
    for ends in (
        [element.high],
        [element.low, element.high],
        [element.low, -1, 0, 1, element.high],
    ):
        numbers = {
            f"input{i}": rng.choice(np.maximum(ends, element.low), way[0]).astype(
                graph.numpy_dtype(element)
            )
            for i, way in enumerate(ways)
        }
        check(module, numbers, flags=BUILDS[build])
