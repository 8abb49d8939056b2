"""Test concatenations in C with all, some or no operands in place."""

import numpy as np
import pytest
from c_harness import compiled, make_network, place, random_inputs
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.emitter import build
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.program import Program
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.dialects.mem import BLOCK, BlockAttr, block_of
from ceras_ir.interpreters import network
from ceras_ir.support.diagnostics import InputError

RELU, EXP, SIGMOID = map(FunctionAttr, (Function.RELU, Function.EXP, Function.SIGMOID))


def applied(function: FunctionAttr, value: SSAValue) -> SSAValue:
    return graph.UnaryOp(value, function).result


def concat_of(module: ModuleOp) -> graph.ConcatOp:
    return next(op for op in module.walk() if isinstance(op, graph.ConcatOp))


def bytes_copied(module: ModuleOp) -> int:
    """Return the number of bytes that the C of the concatenation copies."""
    op = concat_of(module)
    layer = next(layer for layer in build(module, COptions()).layers if layer.op is op)
    copied = [v for v in op.operands if v not in layer.in_place]
    assert ("memcpy" in "".join(layer.lines)) is bool(copied)
    return sum(4 * int(np.prod(graph.shape_of(v))) for v in copied)


def assert_exact(module: ModuleOp) -> None:
    inputs = random_inputs(module)
    expected, got = network.run(module, inputs), compiled(module).run(inputs)
    for name, array in expected.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def test_copies_nothing_where_all_operands_are_made():
    module = make_network(
        [(f32, (1, 5)), (f32, (3, 5))],
        lambda x, y: [
            applied(
                SIGMOID,
                graph.ConcatOp([applied(RELU, x), applied(EXP, y), applied(EXP, x)], 0).result,
            )
        ],
    )
    place(module)
    assert bytes_copied(module) == 0
    assert_exact(module)


def test_copies_inputs_of_the_network_alone():
    module = make_network(
        [(f32, (1, 5)), (f32, (3, 5))],
        lambda x, y: [
            applied(SIGMOID, graph.ConcatOp([x, applied(RELU, y), applied(EXP, x)], 0).result)
        ],
    )
    place(module)
    assert bytes_copied(module) == 4 * 5
    assert_exact(module)


def test_copies_columns():
    module = make_network(
        [(f32, (3, 5))],
        lambda x: [applied(SIGMOID, graph.ConcatOp([applied(RELU, x), applied(EXP, x)], 1).result)],
    )
    place(module)
    assert bytes_copied(module) == 2 * 4 * 15
    assert_exact(module)


@pytest.mark.parametrize("io", [False, True])
def test_copies_into_the_memory_of_the_caller(io: bool):
    """A plan with outputs puts operands inside of an output, which C stores elsewhere."""
    module = make_network(
        [(f32, (3, 5))], lambda x: [graph.ConcatOp([applied(RELU, x), applied(EXP, x)], 0).result]
    )
    place(module, io=io)
    assert bytes_copied(module) == 2 * 4 * 15
    assert_exact(module)


def test_refuses_an_operand_elsewhere_in_the_result():
    """A repeated operand can be in place a single time, so the plan is refused."""
    module = make_network(
        [(f32, (3, 5))],
        lambda x: [applied(SIGMOID, graph.ConcatOp([made := applied(RELU, x), made], 0).result)],
    )
    place(module)
    op = concat_of(module)
    assert Program.of(module).operands_in_place(op) == frozenset()
    whole = block_of(op.result)
    assert whole is not None
    owner = op.operands[0].owner
    owner.attributes[BLOCK] = BlockAttr(9, whole.offset.data, 60)  # pyright: ignore
    with pytest.raises(InputError, match="overlaps an operand"):
        Program.of(module)
