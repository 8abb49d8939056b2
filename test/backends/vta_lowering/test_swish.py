"""The shift swish in the output stage of a product is exact on all kinds of 16-bit sums."""

import numpy as np
import pytest
from backends.vta_lowering.layers import INT8, check_all_levels, network, random_array
from numpy.typing import NDArray
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp, TensorType, i16
from xdsl.ir import Block

from ceras_ir.backends.vta.machine.isa import Alu
from ceras_ir.backends.vta.rules.admission import why_not
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, UniformType

WIDE = UniformType(0.125, storage=i16)


def swished(
    rows: int,
    weights: NDArray[np.int8],
    bends: NDArray[np.int64],
    sums: RequantAttr,
    last: RequantAttr,
    *,
    also_returned: bool = False,
) -> tuple[ModuleOp, graph.ShiftSwishOp]:
    block = Block(arg_types=[TensorType(INT8, (rows, weights.shape[1]))])
    block.add_op(constant := graph.ConstantOp.from_array(weights, INT8))
    product = graph.MatmulOp(block.args[0], constant.result, result_element=WIDE, requant=sums)
    block.add_op(product)
    swish = graph.ShiftSwishOp(product.result, bends.reshape(-1).tolist(), INT8, last)
    block.add_op(swish)
    also = (product.result,) if also_returned else ()
    return network(block, swish.result, *also), swish


def expected(q: NDArray[np.int64], bends: NDArray[np.int64], last: RequantAttr):
    """Compute the result in numpy, from the docstring of `graph.shift_swish`."""
    k0, k1, k2, k3, k4 = bends.T
    p, m = np.maximum(q, -q), np.minimum(q, -q)
    tail = np.minimum.reduce([(p >> 3) - k2, (p >> 4) - k3, (p >> 6) - k4, 0 * p])
    dip = np.maximum.reduce([m >> 1, (m >> 2) - k0, -k1 + 0 * m, tail])
    shift = last.shift.data
    result = (np.maximum(q, 0) + dip + (1 << shift >> 1)) >> shift
    return np.clip(result, last.low.data, last.high.data)


@pytest.mark.parametrize("shift", first_fast(1, [7, 0, 15]))
@pytest.mark.parametrize("bends", [(52, 267, 492, 332, 112), (0, 0, 0, 0, 0), (32767,) * 5])
def test_sums_of_16_bits(shift: int, bends: tuple[int, ...]):
    """Check both bounds, all values around zero, and some between."""
    rng = np.random.default_rng(shift)
    ends = [np.arange(-32768, -32740), np.arange(-600, 600), np.arange(32740, 32768)]
    q = np.concatenate([*ends, rng.integers(-32768, 32768, 500)])
    s, b = (q + 32) // 64, (q + 32) % 64 - 32
    x = np.clip(np.stack([(s + i) // 4 for i in range(4)] + [b], axis=1), -128, 127)
    weights = np.array([[64, 64, 64, 64, 1]], np.int8)
    sums = RequantAttr(0, low=-32768, high=32767)
    table, last = np.array(bends, np.int64), RequantAttr(shift)
    module, swish = swished(len(q), weights, table, sums, last)
    assert why_not(swish) is None
    total = np.clip(x @ weights.T.astype(np.int64), -32768, 32767)
    image = check_all_levels(module, {"input0": x.astype(np.int8)}, expected(total, table, last))
    (launch,) = image.launches
    assert any(isinstance(i, Alu) and i.imm == -bends[1] for i in launch.program.instructions)


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [3, 16, 37])
def test_constants_of_each_channel(outputs: int):
    rng = np.random.default_rng(outputs)
    x, weights = random_array(rng, (50, 40)), random_array(rng, (outputs, 40))
    table = rng.integers(0, 3000, (outputs, 5))
    sums, last = RequantAttr(4, low=-9000, high=9000), RequantAttr(6, low=-20)
    module, _ = swished(50, weights, table, sums, last)
    total = (x.astype(np.int64) @ weights.T.astype(np.int64) + 8) >> 4
    q = np.clip(total, -9000, 9000)
    check_all_levels(module, {"input0": x}, expected(q, table, last))


def test_refused():
    weights, bends = np.ones((2, 3), np.int8), np.ones(5, np.int64)
    sums = RequantAttr(0, low=-32768, high=32767)
    _, read = swished(4, weights, bends, sums, RequantAttr(3), also_returned=True)
    assert "no other consumer of the sum" in (why_not(read) or "")
    _, far = swished(4, weights, bends, sums, RequantAttr(16))
    assert "at most 15, got 16" in (why_not(far) or "")
    product = far.input.owner
    assert isinstance(product, graph.MatmulOp)
    assert "at most 15, got 16" in (why_not(product) or "")
