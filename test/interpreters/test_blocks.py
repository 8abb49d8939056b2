"""Compare products and lookups with weights in blocks with Python integers, element by element."""

import numpy as np
import pytest
from blocks_by_hand import Case, integer_of, quantized_by_hand
from c_harness import Array, Values, constant, make_network
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import BlockTakeOp
from ceras_ir.dialects.graph.blocks import UI8
from ceras_ir.interpreters.blocks import quantized_blocks
from ceras_ir.interpreters.network import run


def result_of(case: Case) -> Array:
    (result,) = run(case.network(), {"input0": case.x}).values()
    return result


@pytest.mark.parametrize(("bits", "size"), [(4, 8), (4, 16), (4, 32), (2, 16), (8, 4), (8, 64)])
@pytest.mark.parametrize("seed", range(6))
def test_products_equal_sums_by_hand(seed: int, bits: int, size: int):
    case = Case(seed, bits, size)
    np.testing.assert_array_equal(result_of(case), case.by_hand())


@pytest.mark.parametrize(
    "block",
    [
        np.zeros(8),
        np.array([1, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127]),  # Ties.
        np.full(8, -0.0),
        np.array([2.0**-100, 0, -(2.0**-101), 1e-38, 0, 0, 0, 0]),
        np.full(8, 2.0**-101),
        np.array([3.4e38, -3.4e38, 1, 0, 1e30, 0, 0, 0]),
        np.array([np.inf, 1, 0, 0, 0, 0, 0, 0]),
        np.array([1, -np.nan, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_blocks_of_the_input(block: Array):
    values = block.astype(np.float32)
    integers, scales = quantized_blocks(values[None], 8)
    expected, scale = quantized_by_hand(values)
    assert integers.reshape(-1).tolist() == expected
    np.testing.assert_array_equal(scales, [[scale]])
    case = Case(1, 4, 8, m=1)
    case.x[0, 8:16] = values
    np.testing.assert_array_equal(result_of(case), case.by_hand())


def test_every_magnitude_becomes_127():
    """The rounded reciprocal never leads to 128."""
    rng = np.random.default_rng(0)
    values = np.exp2(rng.uniform(-90, 100, 20_000)).astype(np.float32)
    integers, _ = quantized_blocks(values[:, None], 4)
    assert (integers[:, 0, 0] == 127).all()


@pytest.mark.parametrize(("bits", "size"), [(4, 8), (2, 16), (8, 4)])
@pytest.mark.parametrize("has_points", [False, True])
def test_lookups(bits: int, size: int, has_points: bool):
    case = Case(1, bits, size, n=7)
    at = np.array([0, 6, -1, 3, 100, -100], np.int32)

    def build(indices: SSAValue) -> Values:
        points = constant(case.points, UI8) if has_points and case.points is not None else None
        table, scales = constant(case.weights, UI8), constant(case.scales)
        return [
            BlockTakeOp(table, indices, scales, points, columns=40, bits=bits, block=size).result
        ]

    (found,) = run(make_network([(i32, at.shape)], build), {"input0": at}).values()
    for row, taken in zip([0, 6, 6, 3, 6, 0], found, strict=True):
        for i, value in enumerate(taken):
            point = 1 << bits - 1
            if has_points and case.points is not None:
                point = int(case.points[row, i // size])
            q = integer_of(case.weights[row], i, bits)
            assert value == np.float32(q - point) * case.scales[row, i // size]
