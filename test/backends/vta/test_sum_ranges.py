"""A clamp is left out only if no input reaches it, as the extreme inputs confirm."""

import numpy as np
import pytest
from backends.vta_lowering.layers import INT8, Layer, check_all_levels, network, random_array
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block

from ceras_ir.backends.vta.machine.isa import Alu, AluOpcode
from ceras_ir.backends.vta.rules.admission import proven_clamps, stored_range
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr


def linear(weight: int, requant: RequantAttr, bias: int = 0) -> graph.LinearOperation:
    """Return a product of two lanes with constant weights."""
    w = np.full((1, 2), weight, np.int8)
    layer = Layer(np.zeros((1, 2), np.int8), w, np.array([bias], np.int32), requant=requant)
    (op,) = (o for o in layer.module().walk() if isinstance(o, graph.LinearOperation))
    return op


@pytest.mark.parametrize(
    ("weight", "requant", "bias", "proven"),
    [
        # Sums are from -256 to 254, and (254 + 1) / 2 rounds down to 127.
        (1, RequantAttr(1), 0, (True, True)),
        # 256 exceeds the range by one.
        (1, RequantAttr(1), 1, (True, False)),
        (1, RequantAttr(1), -2, (False, True)),
        (1, RequantAttr(1, low=-127), 0, (False, True)),
        (1, RequantAttr(0), 0, (False, False)),
        (-1, RequantAttr(1), 0, (True, False)),
    ],
)
def test_products(weight: int, requant: RequantAttr, bias: int, proven: tuple[bool, bool]):
    assert proven_clamps(linear(weight, requant, bias)) == proven


def addition(shift: int) -> tuple[Block, graph.BinaryOp]:
    kind = TensorType(INT8, (4, 20))
    block = Block(arg_types=[kind, kind])
    op = graph.BinaryOp(
        graph.Binary.ADD, *block.args, result_element=INT8, requant=RequantAttr(shift)
    )
    block.add_op(op)
    return block, op


@pytest.mark.parametrize(("shift", "clamps"), [(1, 0), (0, 2)])
def test_an_addition_is_exact_without_clamps(shift: int, clamps: int):
    """Check all extreme values of both operands at each level. Half of a sum of two is in range."""
    block, op = addition(shift)
    assert stored_range(op.lhs) == (-128, 127)
    rng = np.random.default_rng(shift)
    x, y = (random_array(rng, (4, 20), extremes=True) for _ in range(2))
    total = x.astype(np.int64) + y
    expected = np.clip((total + shift) >> shift, -128, 127)
    image = check_all_levels(network(block, op.result), {"input0": x, "input1": y}, expected)
    (launch,) = image.launches
    found = [i.opcode for i in launch.program.instructions if isinstance(i, Alu)]
    assert sum(kind in (AluOpcode.MIN, AluOpcode.MAX) for kind in found) == clamps


def test_what_a_producer_clamps_is_known():
    """After a clamp at zero, sums of positive weights are not negative."""
    op = linear(1, RequantAttr(0, low=0, high=60))
    assert stored_range(op.result) == (0, 60)
