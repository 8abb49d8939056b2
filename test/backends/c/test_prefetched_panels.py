"""Test the order of loops and the prefetches of float matrix products and convolutions."""

import re

import numpy as np
import pytest
from c_harness import check, constant, make_network
from c_tiles import FLAGS, X86
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.sums import Geometry
from ceras_ir.backends.c.tile_functions import CACHE_LINE
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.dialects.graph import Conv2dOp, MatmulOp

SHAPES = [(197, 192, 768), (197, 768, 192), (128, 1536, 384), (9, 64, 300), (3, 512, 64)]
"""Rows, products per sum, and outputs of matrix products."""

CALL = re.compile(r"\+ (\d+)U \+ \(uintptr_t\)\(r \* (\d+)(?: \+ c \* (\d+))?\), (\d+)$")


def product(rows: int, k: int, outputs: int) -> ModuleOp:
    weights = np.random.default_rng(k).normal(0, k**-0.5, (outputs, k)).astype(np.float32)
    return make_network(
        [(f32, (rows, k))],
        lambda x: [MatmulOp(x, constant(weights), result_element=f32).result],
    )


def convolution(v: SSAValue) -> Conv2dOp:
    weights = np.random.default_rng(1).normal(0, 0.05, (48, 3, 3, 40)).astype(np.float32)
    return Conv2dOp(v, constant(weights), result_element=f32, strides=(2, 2), padding=(1, 1, 1, 1))


def nest_of(op: MatmulOp | Conv2dOp) -> Nest:
    return Nest.of(op, Geometry.of(op), 4, 1 << 16, in_place=True)


def fetched(nest: Nest) -> set[int]:
    """Return the cache lines that the tiles of a panel prefetch, from the start of the next."""
    found = CALL.search(nest.next_part("w"))
    assert found is not None
    start, row, column, ahead = (int(number or 0) for number in found.groups())
    assert start == nest.panel_bytes
    t, steps = nest.tile, nest.walk(1).all_steps
    return {
        (min(r, nest.strip - t.rows) * row + min(c, nest.columns - t.columns) * column + i * ahead)
        // CACHE_LINE
        for r in range(0, nest.strip, t.rows)
        for c in range(0, nest.columns, t.columns)
        for i in range(steps)
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_the_tiles_of_a_panel_prefetch_all_of_the_next(shape: tuple[int, int, int]):
    ops = [op for op in product(*shape).walk() if isinstance(op, MatmulOp)]
    nest = nest_of(ops[0])
    assert nest.fetches_next == (shape[0] > 9)
    if nest.fetches_next:
        assert fetched(nest) >= set(range(nest.panel_bytes // CACHE_LINE))


def test_the_tiles_of_a_convolution_prefetch_the_next_panel():
    module = make_network([(f32, (1, 40, 40, 40))], lambda v: [convolution(v).result])
    (op,) = (op for op in module.walk() if isinstance(op, Conv2dOp))
    nest = nest_of(op)
    assert nest.fetches_next and nest.columns > 1
    assert fetched(nest) >= set(range(nest.panel_bytes // CACHE_LINE))
    if X86:
        check(module, flags=FLAGS, tolerance=1e-5)


@pytest.mark.parametrize(
    ("shape", "is_panel_first"),
    [((128, 1536, 384), True), ((3136, 64, 256), False), ((3136, 256, 128), False)],
)
def test_order_of_panels_and_strips(shape: tuple[int, int, int], is_panel_first: bool):
    """The loop that reads fewer bytes again from the second-level cache, or beyond, is outside."""
    (op,) = (op for op in product(*shape).walk() if isinstance(op, MatmulOp))
    assert (nest_of(op).strip == shape[0]) == is_panel_first
