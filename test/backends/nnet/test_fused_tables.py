"""
Tables after convolutions and products, and lookups and copies of the FPGA, are exact bit for bit.
"""

import numpy as np
import pytest
from backends.nnet.drawn import function_tables
from backends.nnet.networks import agree, resealed, written
from graph_networks import Network, random_array
from xdsl.dialects.builtin import Float32Type, f32, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.nnet.reader import read
from ceras_ir.backends.nnet.rules import FPGA, why_not
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import FunctionAttr, Resize, integers
from ceras_ir.dialects.graph.attributes import Function
from ceras_ir.dialects.mem import CPU
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.support.diagnostics import InputError
from ceras_ir.transforms.rebuilding import rebuild_linear

INT8, INT32 = UniformType(0.5), UniformType(0.25, storage=i32)
SHIFTED = UniformType(0.5, -7)
ROWS = (1, 0, 2, 2, 1, 0, 0, 1, 2, 0, 1, 1, 2, 0, 0, 1, 2)


def fused(
    net: Network, op: graph.LinearOperation, made: Float32Type | None, rows: tuple[int, ...] | None
) -> graph.LinearOperation:
    rng = np.random.default_rng(4)
    table = function_tables(rng, None if rows is None else 3, made)
    listed = None if rows is None else integers(rows)
    new = rebuild_linear(op, {"table": table, "rows": listed}, element=made)
    op.drop_all_references()
    return new


def layers(net: Network, x: SSAValue, made: Float32Type | None, rows: tuple[int, ...] | None):
    """Return a convolution with a residual and a product, of 17 channels each, with tables."""
    weights = net.constant(random_array((17, 3, 3, 17), INT8, 3), INT8)
    bias = net.constant(np.arange(17, dtype=np.int32) * 99, INT32)
    convolution = graph.Conv2dOp(
        x, weights, bias, x, result_element=SHIFTED, padding=(1,) * 4,
        residual_shift=[7 - i % 5 for i in range(17)],
        requant=RequantAttr(9, multiplier=[1 << i % 5 for i in range(17)], zero_point=-7),
    )  # fmt: skip
    yield fused(net, convolution, made, rows)
    flat = net.add(graph.ReshapeOp(x, (30, 17)))
    weights = net.constant(random_array((17, 17), INT8, 5), INT8)
    product = graph.MatmulOp(flat, weights, result_element=INT8, requant=RequantAttr(6, low=-50))
    yield fused(net, product, made, rows)


@pytest.mark.parametrize("rows", [None, ROWS], ids=["one", "channels"])
@pytest.mark.parametrize("made", [None, f32], ids=["int8", "float"])
@pytest.mark.parametrize("device", [CPU, FPGA])
def test_fused(device: str, made: Float32Type | None, rows: tuple[int, ...] | None) -> None:
    net = Network([((1, 5, 6, 17), SHIFTED)])
    ends = [net.add(op, device) for op in layers(net, net.inputs[0], made, rows)]
    # The results are columns of wider values.
    joined = [net.add(graph.ConcatOp([v, v], len(graph.shape_of(v)) - 1), device) for v in ends]
    agree(net.module(*joined, strategy="slices"))


@pytest.mark.parametrize("made", [None, f32], ids=["int8", "float"])
def test_lookups_on_the_fpga(made: Float32Type | None) -> None:
    net = Network([((2, 5, 70, 17), INT8)])
    rng, (x,) = np.random.default_rng(7), net.inputs
    element = made or SHIFTED
    ends: list[SSAValue] = []
    for rows in (None, ROWS):
        table = function_tables(rng, None if rows is None else 3, made)
        op = graph.LookupOp(x, table, element, rows)
        assert why_not(op) is None
        ends.append(net.add(op, FPGA))
    agree(net.module(net.add(graph.ConcatOp(ends, 3), FPGA), strategy="slices"))


@pytest.mark.parametrize("strategy", ["slices", "offsets"])
@pytest.mark.parametrize("made", [None, f32], ids=["int8", "float"])
def test_movers(made: Float32Type | None, strategy: str) -> None:
    """
    Check each operation on the FPGA, on bytes and on the floats of a table, with and without gaps.
    """
    net = Network([((2, 6, 5, 3), INT8)])
    rng, (x,) = np.random.default_rng(7), net.inputs
    table = function_tables(rng, None, made)
    x = net.add(graph.LookupOp(x, table, made or INT8), FPGA)

    def add(op: graph.GraphOperation) -> SSAValue:
        assert why_not(op) is None
        return net.add(op, FPGA)

    sliced = add(graph.SliceOp(x, (0, 5, 1, 2), (2, 3, 2, 3), (1, -2, 3, -1)))
    ends = [
        sliced,
        add(graph.TransposeOp(x, (3, 0, 2, 1))),
        add(graph.ResizeOp(Resize.NEAREST, x, (12, 15), (2.0, 3.0))),
        add(graph.ReshapeOp(sliced, (6, 6))),
        add(graph.ConcatOp([x, x], 1)),
        add(graph.ConcatOp([x, add(graph.SliceOp(x, (0,) * 4, (2, 6, 5, 3), (1,) * 4))], 3)),
    ]
    agree(net.module(*ends, strategy=strategy))


def example() -> bytes:
    """Return a product on the FPGA with a table for each of two channels."""
    net = Network([((3, 4), INT8)])
    weights = net.constant(random_array((2, 4), INT8, 5), INT8)
    op = graph.MatmulOp(net.inputs[0], weights, result_element=INT8, requant=RequantAttr(6))
    op = fused(net, op, None, (2, 1))
    op.attributes["graph.function"] = FunctionAttr(Function.SWISH)
    return written(net.module(net.add(op, FPGA)))


def test_the_file_says_layer_and_table() -> None:
    (layer,) = read(example()).layers
    assert (layer.opcode, layer.device, layer.function, layer.fused) == (
        "matmul", "fpga", "swish", True,
    )  # fmt: skip
    assert layer.attributes == (2, 1)
    assert layer.table == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (3, b"\x01", "wrong lookup table|attributes expected"),
        (56, b"\xff\xff\xff\xff", "wrong lookup table"),
        (56, b"\x01\0\0\0", "not that of the first channel"),
        (3, b"\x31", "unknown flags"),
        (48, b"\x00\xff\xff\xff", "invalid clamp range"),
    ],
)
def test_wrong_tables_are_refused(field: int, value: bytes, message: str) -> None:
    data = example()
    entry = 32 + 24 * 5
    layers = int.from_bytes(data[entry + 8 : entry + 16], "little")
    with pytest.raises(InputError, match=message):
        read(resealed(data, layers + field, value))


def test_an_older_version_is_named() -> None:
    with pytest.raises(InputError, match="version 2 is from an older compiler; compile"):
        read(resealed(example(), 8, b"\x02"))
