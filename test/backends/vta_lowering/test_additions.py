"""Sums and differences of feature maps run on VTA."""

import numpy as np
import pytest
from backends.vta_lowering.layers import INT8, check_all_levels, network, random_array
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp, TensorType, i16
from xdsl.ir import Block

from ceras_ir.backends.vta.rules.admission import why_not
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType


def added(
    shape: tuple[int, ...],
    shifts: tuple[int, int],
    requant: RequantAttr,
    kind: Binary = Binary.ADD,
    other: tuple[int, ...] | None = None,
    result: UniformType = INT8,
) -> tuple[ModuleOp, graph.BinaryOp]:
    block = Block(arg_types=[TensorType(INT8, shape), TensorType(INT8, other or shape)])
    op = graph.BinaryOp(
        *(kind, block.args[0], block.args[1]),
        shifts=shifts if kind is not Binary.MUL else (0, 0),
        requant=requant,
        result_element=result,
    )
    block.add_op(op)
    return network(block, op.result), op


@pytest.mark.parametrize(
    "shape", first_fast(2, [(1, 5, 6, 20), (7, 50), (2, 3, 3, 40), (1, 1, 1, 3)])
)
@pytest.mark.parametrize("shifts", [(0, 0), (6, 0), (0, 7), (6, 20), (3, 2)])
@pytest.mark.parametrize("kind", [Binary.ADD, Binary.SUB])
def test_every_level(shape: tuple[int, ...], shifts: tuple[int, int], kind: Binary):
    rng = np.random.default_rng(sum(shape) + sum(shifts))
    requant = RequantAttr(max(shifts), low=-100)
    x, y = (random_array(rng, shape, extremes=rng.random() < 0.5) for _ in range(2))
    module, op = added(shape, shifts, requant, kind)
    assert why_not(op) is None
    lhs, rhs = x.astype(np.int64) << shifts[0], y.astype(np.int64) << shifts[1]
    total = lhs - rhs if kind is Binary.SUB else lhs + rhs
    half = 1 << max(shifts) >> 1
    expected = np.clip((total + half) >> max(shifts), -100, 127)
    check_all_levels(module, {"input0": x, "input1": y}, expected)


@pytest.mark.slow
def test_planes_longer_than_a_row_of_dram():
    """A transfer cannot step over that number of vectors, so each plane is a row."""
    shape = (1, 230, 150, 17)
    rng = np.random.default_rng(0)
    x, y = random_array(rng, shape), random_array(rng, shape)
    module, op = added(shape, (0, 0), RequantAttr(0))
    assert why_not(op) is None
    expected = np.clip(x.astype(np.int64) + y, -128, 127)
    check_all_levels(module, {"input0": x, "input1": y}, expected)


EVEN = RequantAttr(2, rounding=Rounding.HALF_EVEN)
INT16 = UniformType(1.0, storage=i16)
WORDS = RequantAttr(0, low=-(1 << 15), high=(1 << 15) - 1)


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (added((1, 2, 2, 4), (0, 0), RequantAttr(0), other=(1, 1, 1, 4))[1], "of equal shapes"),
        (added((4,), (0, 0), RequantAttr(0))[1], "of equal shapes"),
        (added((2, 4), (7, 9), RequantAttr(9))[1], "by shifts of one operand"),
        (added((2, 4), (0, 0), RequantAttr(0), Binary.MUL)[1], "'mul' of two tensors"),
        (added((2, 4), (0, 0), EVEN)[1], "got half_even"),
        (added((2, 4), (0, 22), RequantAttr(0, multiplier=4))[1], "which the sum may exceed"),
        (added((2, 4), (0, 8), WORDS, Binary.SUB, result=INT16)[1], "and the CPU joins them"),
        (added((2, 4), (0, 0), WORDS, result=INT16)[1], "stores 8 bits, but the result has 16"),
    ],
)
def test_refused(op: graph.BinaryOp, reason: str):
    assert reason in (why_not(op) or "")
