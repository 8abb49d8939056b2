"""All operators support columns of wider values, with other bytes between the rows."""

from collections.abc import Callable

import numpy as np
import pytest
from backends.nnet.networks import agree, written
from backends.nnet.test_operators import Convolution, convolve, multiply
from graph_networks import Network, integer_normalize, integer_softmax, random_array, recurrence
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
    UnitAttr,
    f32,
    i8,
    i16,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from ceras_ir.backends.nnet.reader import read
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import (
    Binary,
    Function,
    FunctionAttr,
    Pad,
    Pool,
    Resize,
    element_of,
    shape_of,
)
from ceras_ir.dialects.mem import CPU, block_of
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import run, run_in_arena
from ceras_ir.transforms.memory.check_blocks import check_plan

pytestmark = pytest.mark.usefixtures("apart")

INT8 = UniformType(0.5)
WIDE = UniformType(0.125, storage=i16)
SHAPE = (2, 5, 6, 4)

Operator = Callable[[Network, SSAValue], SSAValue]


def made(net: Network, x: SSAValue) -> SSAValue:
    """Return a copy of `x` in other memory."""
    shape = shape_of(x)
    return net.add(graph.SliceOp(x, (0,) * len(shape), shape, (1,) * len(shape)))


def widened(net: Network, x: SSAValue) -> SSAValue:
    """Return a concatenation in which `x` is the last columns."""
    shape, element = shape_of(x), element_of(x)
    others = net.constant(random_array((*shape[:-1], 3), element, 9), element)
    return net.add(graph.ConcatOp([others, x], len(shape) - 1))


def lookup(net: Network, x: SSAValue) -> SSAValue:
    table = DenseIntOrFPElementsAttr(TensorType(i8, (256,)), BytesAttr(bytes(range(255, -1, -1))))
    return net.add(graph.LookupOp(x, table, UniformType(2.0)))


def pool(kind: Pool, device: str = CPU) -> Operator:
    def add(net: Network, x: SSAValue) -> SSAValue:
        element = element_of(x)
        requant = None
        if kind is Pool.AVERAGE and isinstance(element, UniformType):
            requant = RequantAttr(20, multiplier=1 << 17, low=-128, high=127)
        padding = (1, 0, 1, 2) if device == CPU or kind is Pool.MAX else (0, 0, 0, 0)
        op = graph.Pool2dOp(
            kind, x, (3, 3), result_element=element, padding=padding, requant=requant
        )
        return net.add(op, device)

    return add


def binary(device: str, scalar: bool = False) -> Operator:
    def add(net: Network, x: SSAValue) -> SSAValue:
        y = net.constant(random_array((4,) if scalar else SHAPE, INT8, 4), INT8)
        other = y if scalar else made(net, y)
        op = graph.BinaryOp(Binary.ADD, x, other, result_element=INT8, requant=RequantAttr(1))
        return net.add(op, device)

    return add


def conv(shape: tuple[int, ...], device: str, residual: bool = False) -> Operator:
    def add(net: Network, x: SSAValue) -> SSAValue:
        border = shape[1] // 2
        options = Convolution(padding=(border, border, border, border), groups=4 // shape[3])
        if residual:
            options |= Convolution(residual=made(net, x), residual_shift=3)
        return convolve(net, x, shape, device, **options)

    return add


def float_conv(net: Network, x: SSAValue) -> SSAValue:
    weights = net.constant(random_array((5, 3, 3, 4), f32, 2))
    op = graph.Conv2dOp(x, weights, result_element=f32, padding=(1, 1, 1, 1))
    op.properties["ordered"] = UnitAttr()
    return net.add(op)


def normalize(net: Network, x: SSAValue) -> SSAValue:
    scale = net.constant(random_array(shape_of(x)[-1:], f32, 8))
    return net.add(graph.NormalizeOp(x, scale, None, epsilon=1e-5, centred=True))


def simple(build: Callable[[SSAValue], graph.GraphOperation]) -> Operator:
    return lambda net, x: net.add(build(x))


OPERATORS: list[tuple[str, Attribute, Operator]] = [
    ("conv", INT8, conv((7, 3, 3, 4), CPU)),
    ("conv with residual", INT8, conv((4, 3, 3, 4), CPU, residual=True)),
    ("conv of 16 bits", WIDE, conv((7, 3, 3, 4), CPU)),
    ("grouped conv", INT8, conv((6, 3, 3, 2), CPU)),
    ("depthwise conv", INT8, conv((4, 3, 3, 1), CPU)),
    ("conv in the FPGA", INT8, conv((4, 3, 3, 4), FPGA, residual=True)),
    ("product in the FPGA", INT8, conv((20, 1, 1, 4), FPGA)),
    ("float conv", f32, float_conv),
    ("maximum", WIDE, pool(Pool.MAX)),
    ("average", INT8, pool(Pool.AVERAGE)),
    ("float average", f32, pool(Pool.AVERAGE)),
    ("maximum in the FPGA", INT8, pool(Pool.MAX, FPGA)),
    ("average in the FPGA", INT8, pool(Pool.AVERAGE, FPGA)),
    ("binary", INT8, binary(CPU)),
    ("binary with broadcasting", INT8, binary(CPU, scalar=True)),
    ("add in the FPGA", INT8, binary(FPGA)),
    ("lookup", INT8, lookup),
    ("unary", f32, simple(lambda x: graph.UnaryOp(x, FunctionAttr(Function.SWISH)))),
    ("requantize", WIDE, simple(lambda x: graph.RequantizeOp(x, INT8, RequantAttr(9)))),
    ("quantize", f32, simple(lambda x: graph.QuantizeOp(x, INT8))),
    ("dequantize", INT8, simple(graph.DequantizeOp)),
    ("transpose", WIDE, simple(lambda x: graph.TransposeOp(x, (0, 2, 3, 1)))),
    ("slice", INT8, simple(lambda x: graph.SliceOp(x, (1, 0, 5, 2), (1, 3, 3, 2), (1, 2, -2, 1)))),
    (
        "pad",
        WIDE,
        simple(
            lambda x: graph.PadOp(
                Pad.CONSTANT,
                x,
                (0, 1, 0, 1),
                (0, 0, 2, 0),
                interior=(0, 1, 0, 1),
                value=IntegerAttr(-7, i64),
            )
        ),
    ),
    (
        "float pad",
        f32,
        simple(
            lambda x: graph.PadOp(
                Pad.CONSTANT,
                x,
                (0, 1, 0, 1),
                (0,) * 4,
                interior=(0,) * 4,
                value=FloatAttr(-2.5, f32),
            )
        ),
    ),
    ("nearest", WIDE, simple(lambda x: graph.ResizeOp(Resize.NEAREST, x, (7, 11), (1.4, 1.9)))),
    ("linear", f32, simple(lambda x: graph.ResizeOp(Resize.LINEAR, x, (7, 11), (1.4, 1.9)))),
    ("softmax", f32, simple(lambda x: graph.SoftmaxOp(x, 3))),
    ("normalize", f32, normalize),
    ("integer normalize", WIDE, lambda net, x: integer_normalize(net, x, centred=True)),
    ("integer softmax", INT8, lambda net, x: integer_softmax(net, x, 3)),
    ("integer softmax over rows", WIDE, lambda net, x: integer_softmax(net, x, 1)),
    ("reduce", f32, simple(lambda x: graph.ReduceOp(graph.Reduce.SUM, x, (1,)))),
    ("reduce bytes", INT8, simple(lambda x: graph.ReduceOp(graph.Reduce.MAX, x, (0, 2)))),
    ("softmax over rows", f32, simple(lambda x: graph.SoftmaxOp(x, 1))),
    ("reshape", WIDE, simple(lambda x: graph.ReshapeOp(x, (60, 4)))),
]


@pytest.mark.parametrize(
    ("element", "operator"),
    [pytest.param(element, op, id=name) for name, element, op in OPERATORS],
)
def test_operators(element: Attribute, operator: Operator):
    """The operand and the result are columns of concatenations."""
    net = Network([(SHAPE, element)])
    x = made(net, net.inputs[0])
    y = operator(net, x)
    outputs = [widened(net, x), widened(net, y)]
    module = net.module(*outputs, strategy="slices")
    for value in (x, y):
        block = block_of(value)
        assert block is not None and block.pitch.data
    agree(module)


def test_products_of_matrices():
    for device in (CPU, FPGA):
        net = Network([((9, 37), INT8), ((9, 19), INT8)])
        x, residual = (made(net, value) for value in net.inputs)
        y = multiply(net, x, (19, 37), device, residual)
        outputs = [widened(net, value) for value in (x, residual, y)]
        agree(net.module(*outputs, strategy="slices"))


def test_recurrent_layers():
    """Input, both states and result are columns."""
    net = Network([((3, 2, 28), f32), ((2, 7), f32), ((2, 7), f32)])
    x, state, cell = (made(net, value) for value in net.inputs)
    y = recurrence(net, graph.Cell.LSTM, x, state, cell=cell)
    values = (x, state, cell, y)
    module = net.module(*(widened(net, value) for value in values), strategy="slices")
    for value in values:
        block = block_of(value)
        assert block is not None and block.pitch.data
    agree(module)


def test_columns_of_columns_of_runs():
    """
    Check the head of a detector: columns that are reshaped, joined as rows, joined as columns
    again, and a value that two concatenations share because one is a part of the other.
    """
    net = Network([((1, 4, 4, 5), INT8), ((1, 2, 2, 5), INT8)])
    heads: list[SSAValue] = []
    for x, rows in zip(net.inputs, (16, 4), strict=True):
        parts = [lookup(net, made(net, x)), lookup(net, x)]
        inner = net.add(graph.ConcatOp(parts, 3))
        outer = net.add(graph.ConcatOp([*parts, lookup(net, made(net, x))], 3))
        heads += [made(net, inner), net.add(graph.ReshapeOp(outer, (1, rows, 15)))]
    joined = net.add(graph.ConcatOp(heads[1::2], 1))
    whole = widened(net, joined)
    module = net.module(whole, *heads[::2], strategy="slices")
    main = module.body.block.first_op
    assert isinstance(main, FuncOp)
    # Only the constant of `widened` is copied.
    assert sum("mem.copied" in op.attributes for op in main.body.block.ops) == 1
    agree(module)


def test_a_value_between_the_rows_of_another_is_seen():
    """The checker and the reader find a value that is written over live columns."""
    net = Network([(SHAPE, INT8)])
    x = made(net, net.inputs[0])
    y = lookup(net, x)
    module = net.module(widened(net, x), widened(net, y), strategy="slices")
    main = module.body.block.first_op
    assert isinstance(main, FuncOp) and not check_plan(main)
    block, other = block_of(x), block_of(y)
    assert block is not None and other is not None
    data = written(module)
    assert any(t.pitch for t in read(data).tensors)
    inputs = {"input0": random_array(SHAPE, INT8)}
    expected = run(module, inputs)
    for name, array in run_in_arena(module, inputs).items():
        np.testing.assert_array_equal(array, expected[name])
