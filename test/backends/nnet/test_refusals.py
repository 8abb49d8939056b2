"""The writer refuses files that the engine would refuse, and names the node."""

from pathlib import Path

import numpy as np
import pytest
from backends.nnet.networks import written
from graph_networks import Network, random_array
from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    Signedness,
    f32,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute

from ceras_ir.backends.nnet import emit, engine_rules
from ceras_ir.backends.nnet.engine import NnetModel
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import (
    Binary,
    Function,
    FunctionAttr,
    GraphOperation,
    Pool,
    shape_of,
)
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.support.diagnostics import InputError, UnsupportedError

DOCUMENT = Path(__file__).parents[3] / "docs/nnet-format.md"

INT8 = UniformType(0.5)
WIDE = UniformType(0.5, storage=i16)
WIDE_SHIFTED = UniformType(0.5, 3, storage=i16)
UINT16 = UniformType(0.5, storage=IntegerType(16, Signedness.UNSIGNED))
INT32 = UniformType(0.25, storage=i32)
UINT32 = IntegerType(32, Signedness.UNSIGNED)
REQUANT = RequantAttr(4)


def refused(net: Network, op: GraphOperation) -> str:
    module = net.module(net.add(op))
    with pytest.raises(UnsupportedError) as error:
        emit(module)
    assert all(f.message.startswith("unsupported: ") for f in error.value.findings)
    return str(error.value)


def product(x: Attribute = INT8, w: Attribute = INT8) -> str:
    net = Network([((2, 3), x)])
    weights = net.constant(random_array((4, 3), w, 0), w)
    op = graph.MatmulOp(net.inputs[0], weights, result_element=INT8, requant=REQUANT)
    return refused(net, op)


def test_sums():
    assert "an input of 8 bits, or of i16 without zero point" in product(x=WIDE_SHIFTED)
    assert "an input of 8 bits, or of i16 without zero point" in product(x=UINT16)
    assert "weights of at most 8 bits, got 16" in product(w=WIDE)


def test_quantizations():
    net = Network([((2, 3), f32)])
    narrow = UniformType(0.5, storage=IntegerType(4))
    assert "8 bits or more, got 4" in refused(net, graph.QuantizeOp(net.inputs[0], narrow))


def test_residuals():
    """All channels multiply the residual by the same factor; equal shifts are accepted."""
    net = Network([((2, 3), INT8), ((2, 4), INT8)])
    op = graph.MatmulOp(
        net.inputs[0],
        net.constant(random_array((4, 3), INT8, 0), INT8),
        residual=net.inputs[1],
        result_element=INT8,
        requant=REQUANT,
        residual_shift=(1, 2, 3, 4),
    )
    assert "multiplies the residual of all channels by the same factor, got" in refused(net, op)


def test_elementwise():
    net = Network([((3,), INT32), ((3,), INT8)])
    op = graph.BinaryOp(Binary.ADD, *net.inputs, result_element=INT8, requant=REQUANT)
    assert "operands of at most 16 bits, got 32" in refused(net, op)


def test_borders():
    net = Network([((3,), i64)])
    border = IntegerAttr(1 << 31, i64)
    op = graph.PadOp(graph.Pad.CONSTANT, net.inputs[0], (1,), (0,), value=border)
    assert "padding values of 32 bits, got 2147483648" in refused(net, op)


def test_recurrent_layers():
    net = Network([((2, 1, 4), f32), ((4, 4), f32), ((1, 4), f32)])
    x, weights, state = net.inputs
    op = graph.RecurrenceOp(graph.Cell.RNN, x, weights, state, [FunctionAttr(Function.TANH)])
    assert "constant weights of a recurrent layer" in refused(net, op)
    net = Network([((1, 1, 8192), f32), ((1, 8192), f32)])
    x, state = net.inputs
    weights = net.constant(np.zeros((8192, 8192), np.float32))
    op = graph.RecurrenceOp(graph.Cell.RNN, x, weights, state, [FunctionAttr(Function.TANH)])
    assert "at most 33554432 recurrent weights, got 67108864" in refused(net, op)


def test_storages():
    net = Network([((2, 3), UINT32)])
    op = graph.CastOp(net.inputs[0], f32)
    assert "a tensor is stored as uint32" in refused(net, op)


def test_rows_that_are_combined():
    net = Network([((5, 3), f32), ((4,), i64), ((4, 3), f32)])
    x, indices, rows = net.inputs
    op = graph.PutOp(x, indices, rows, graph.Reduce.MAX)
    assert "only replaces rows, got 'max' of old and new rows" in refused(net, op)


def test_sizes():
    net = Network([((1, 1, 40_000, 1), f32)])
    op = graph.Pool2dOp(Pool.MAX, net.inputs[0], (1, 40_000), result_element=f32)
    assert "at most 32768, got 40000" in refused(net, op)
    net = Network([((1 << 15, 1 << 15), f32)])
    assert "at most 2147483648 bytes" in refused(
        net, graph.UnaryOp(net.inputs[0], FunctionAttr(Function.RELU))
    )


def test_limits_are_read_from_the_engine():
    assert (engine_rules.MAX_WINDOW, engine_rules.MAX_ARENA_BYTES) == (32768, 2 << 30)
    assert f"at most {engine_rules.MAX_WINDOW}." in (engine_rules.sizes_fit.__doc__ or "")


def test_a_file_that_asks_for_years_is_refused(tmp_path: Path):
    """The file of 2 kB has some 10^13 products, because the kernel is also an input."""
    net = Network([((1, 4096, 4096, 1), f32), ((1, 1024, 1024, 1), f32)])
    x, weights = net.inputs
    path = tmp_path / "model.nnet"
    op = graph.Conv2dOp(x, weights, result_element=f32)
    path.write_bytes(written(net.module(net.add(op))))
    assert path.stat().st_size < 4096
    inputs = {f"input{i}": np.zeros(shape_of(v), np.float32) for i, v in enumerate((x, weights))}
    with pytest.raises(InputError, match="exceeds the work limit of this engine"):
        NnetModel(path).run(inputs)


def test_every_rule_is_in_the_document():
    text = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    for rule in engine_rules.ENGINE_RULES:
        assert f"- {' '.join((rule.__doc__ or '?').split())} " in text
