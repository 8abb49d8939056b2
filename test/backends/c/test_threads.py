"""Test that threads share operations without products, with equal results."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from c_harness import SANITIZE, Values, check, constant, make_network
from c_tiles import source
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, TensorType, f32, i8
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function, FunctionAttr, Pool, Reduce
from ceras_ir.dialects.quant import RequantAttr, UniformType

ROWS, COLUMNS = 75, 260
"""The last part of the rows is shorter, and rows fill no vector."""
Q = UniformType(0.5)


def operations(x: SSAValue, image: SSAValue) -> Values:
    rng = np.random.default_rng(0)
    row = constant(rng.normal(size=COLUMNS).astype(np.float32))
    stored = graph.QuantizeOp(x, Q).result
    entries = rng.integers(-128, 128, 256).astype(np.int8)
    table = DenseIntOrFPElementsAttr(TensorType(i8, (256,)), BytesAttr(entries.tobytes()))
    return [
        graph.UnaryOp(x, FunctionAttr(Function.SIGMOID)).result,
        graph.BinaryOp(Binary.MUL, x, x, result_element=f32).result,
        graph.BinaryOp(Binary.ADD, x, row, result_element=f32).result,
        graph.SoftmaxOp(x, 1).result,
        graph.SoftmaxOp(x, 0).result,
        graph.NormalizeOp(x, row, row, epsilon=1e-5, centred=True).result,
        graph.ReduceOp(Reduce.SUM, x, [1]).result,
        graph.ConcatOp([x, x], 1).result,
        graph.DequantizeOp(graph.LookupOp(stored, table, Q).result).result,
        graph.Pool2dOp(Pool.MAX, image, (2, 2), result_element=f32).result,
    ]


@pytest.mark.parametrize("flags", [(), ("-fopenmp",)], ids=["alone", "threads"])
def test_operations_without_products(flags: Sequence[str]):
    inputs = [(f32, (ROWS, COLUMNS)), (f32, (1, 33, 33, 20))]
    module = make_network(inputs, operations)
    shared = re.findall(r"^ +MODEL_(?:THREADS|EACH)", source(module), re.MULTILINE)
    # Nine operations and both conversions of the lookup, without the softmax over rows.
    assert len(shared) == 11
    check(module, flags=(*SANITIZE, *flags))


def test_small_operations_use_a_single_thread():
    module = make_network([(f32, (7, 9))], lambda x: [graph.SoftmaxOp(x, 1).result])
    assert "MODEL_THREADS" not in source(module)


def test_a_strip_of_a_single_row_of_tiles_computes_each_panel_once():
    def build(x: SSAValue) -> Values:
        weights = np.random.default_rng(0).integers(-127, 128, (96, 4096)).astype(np.int8)
        requant = RequantAttr(12)
        return [graph.MatmulOp(x, constant(weights, Q), result_element=Q, requant=requant).result]

    text = source(make_network([(Q, (26, 4096))], build))
    for_arm = text.partition("#if MODEL_NEON\n    /* Strips")[2].partition("#else")[0]
    _, found, each_panel = for_arm.partition("panel = own.first; panel < own.end; panel += 1)")
    assert found and each_panel.count("tile_") == 1 and "for (" not in each_panel
