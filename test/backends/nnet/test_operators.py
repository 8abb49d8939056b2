"""Compare all operators of the engine with the interpreter, bit for bit, on corner cases."""

from operator import itemgetter
from typing import TypedDict, Unpack

import numpy as np
import pytest
from backends.nnet.networks import OTHER_PROCESSORS, SANITIZERS, agree
from graph_networks import Network, integer_normalize, integer_softmax, random_array
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    f32,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from ceras_ir.backends.nnet.arithmetic_layers import FLOAT_BINARIES
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import (
    Binary,
    Coordinates,
    Function,
    FunctionAttr,
    Nearest,
    Pad,
    Pool,
    Resize,
)
from ceras_ir.dialects.graph.elementwise import QUANTIZED_BINARIES
from ceras_ir.dialects.mem import CPU
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType

pytestmark = pytest.mark.usefixtures("apart")

INT8 = UniformType(0.5)
INT32 = UniformType(0.25, storage=i32)
UINT8 = UniformType(0.25, 128, storage=IntegerType(8, Signedness.UNSIGNED))
SHIFTED = UniformType(0.5, -7)
WIDE = UniformType(0.125, storage=i16)
ROUNDINGS = [
    RequantAttr(0),
    RequantAttr(7),
    RequantAttr(3, low=-100, high=0),
    RequantAttr(6, rounding=Rounding.HALF_AWAY),
    RequantAttr(6, rounding=Rounding.HALF_EVEN),
    RequantAttr(6, rounding=Rounding.FLOOR, zero_point=-5),
    RequantAttr(38, multiplier=1_234_567_891, rounding=Rounding.HALF_EVEN),
    RequantAttr(0, multiplier=4),
]


class Windows(TypedDict, total=False):
    """The windows of a convolution or pool."""

    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilations: tuple[int, int]


class Convolution(Windows, total=False):
    groups: int
    requant: RequantAttr
    residual: SSAValue
    residual_shift: int


def parameters(
    net: Network, shape: tuple[int, ...], weight_type: UniformType
) -> tuple[SSAValue, SSAValue]:
    """Return random weights of `shape` and a bias."""
    bias = random_array(shape[:1], WIDE, 5).astype(np.int32)
    weights = random_array(shape, weight_type, 3)
    return net.constant(weights, weight_type), net.constant(bias, INT32)


def convolve(
    net: Network,
    x: SSAValue,
    shape: tuple[int, ...],
    device: str = CPU,
    weight_type: UniformType = INT8,
    **options: Unpack[Convolution],
) -> SSAValue:
    weights, bias = parameters(net, shape, weight_type)
    options.setdefault("requant", RequantAttr(9))
    op = graph.Conv2dOp(x, weights, bias, result_element=INT8, **options)
    return net.add(op, device)


def multiply(
    net: Network, x: SSAValue, shape: tuple[int, ...], device: str, residual: SSAValue | None
) -> SSAValue:
    weights, bias = parameters(net, shape, INT8)
    shift = None if residual is None else 5
    op = graph.MatmulOp(
        x, weights, bias, residual, result_element=INT8, requant=RequantAttr(9),
        residual_shift=shift,
    )  # fmt: skip
    return net.add(op, device)


@pytest.mark.parametrize("requant", ROUNDINGS, ids=str)
def test_every_rescaling(requant: RequantAttr):
    net = Network([((3, 700), WIDE)])
    agree(net.module(net.add(graph.RequantizeOp(net.inputs[0], INT8, requant))))


@pytest.mark.parametrize("device", [CPU, FPGA])
@pytest.mark.parametrize(
    ("shape", "weights", "options"),
    [
        ((1, 5, 6, 3), (4, 3, 3, 3), {"padding": (1, 1, 1, 1)}),
        ((2, 9, 7, 17), (33, 3, 2, 17), {"strides": (2, 1), "padding": (2, 0, 1, 1)}),
        ((1, 9, 9, 4), (5, 3, 3, 4), {"dilations": (2, 3), "padding": (0, 3, 4, 0)}),
        ((1, 1, 1, 300), (7, 1, 1, 300), {"requant": RequantAttr(0, multiplier=2)}),
        ((1, 2, 2, 1), (1, 5, 5, 1), {"padding": (4, 4, 4, 4)}),
    ],
)
def test_convolution(
    device: str, shape: tuple[int, ...],
    weights: tuple[int, ...], options: Convolution,
):  # fmt: skip
    net = Network([(shape, INT8)])
    agree(net.module(convolve(net, net.inputs[0], weights, device, **options)))


BLOCKS: list[tuple[tuple[int, ...], tuple[int, ...], Convolution]] = [
    ((1, 3, 300, 3), (20, 3, 3, 3), {"padding": (1, 1, 1, 1)}),
    ((1, 40, 9, 70), (17, 3, 3, 70), {"padding": (0, 1, 2, 1)}),
    ((2, 9, 15, 5), (270, 1, 1, 5), {}),
    ((1, 40, 100, 80), (2, 3, 3, 80), {"strides": (1, 2), "padding": (1, 0, 1, 0)}),
    ((1, 31, 100, 80), (3, 2, 2, 80), {"strides": (5, 4), "dilations": (3, 1)}),
]
"""
Layers with more pixels, products, channels and rows than a block of the FPGA's circuit.

They have parts of a row, K-blocks over several rows, a product of two images, a line buffer that
wraps around, and skipped rows.
"""


@pytest.mark.parametrize(("shape", "weights", "options"), BLOCKS)
def test_blocks_of_the_circuit(
    shape: tuple[int, ...],
    weights: tuple[int, ...], options: Convolution,
):  # fmt: skip
    net = Network([(shape, INT8)])
    agree(net.module(convolve(net, net.inputs[0], weights, FPGA, **options)))


@pytest.mark.slow
@pytest.mark.parametrize("flags", OTHER_PROCESSORS, ids=itemgetter(2))
def test_blocks_on_other_processors(flags: tuple[str, ...]):
    """The array differs for each set of instructions. Without any, it is plain loops."""
    for shape, weights, options in BLOCKS:
        net = Network([(shape, INT8)])
        y = convolve(net, net.inputs[0], weights, FPGA, **options)
        agree(net.module(y), flags=flags)


@pytest.mark.parametrize(
    ("element", "weight_type"), [(UINT8, INT8), (SHIFTED, UINT8), (WIDE, INT8), (INT8, SHIFTED)]
)
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_convolution_of_other_types(
    element: UniformType,
    weight_type: UniformType, groups: int,
):  # fmt: skip
    net = Network([((1, 6, 5, 6), element)])
    requant = RequantAttr(14, zero_point=3)
    shape = (6 if groups == 6 else 4, 3, 3, 6 // groups)
    y = convolve(
        net, net.inputs[0], shape, CPU, weight_type, padding=(1, 2, 1, 0), groups=groups,
        requant=requant,
    )  # fmt: skip
    agree(net.module(y))


@pytest.mark.parametrize("device", [CPU, FPGA])
@pytest.mark.parametrize("rows", [1, 21])
def test_product_with_residual(device: str, rows: int):
    net = Network([((rows, 37), INT8), ((rows, 19), INT8)])
    x, residual = net.inputs
    y = multiply(net, x, (19, 37), device, residual)
    agree(net.module(multiply(net, y, (3, 19), device, None)))


def test_float_convolution_is_close():
    net = Network([((2, 7, 8, 6), f32), ((2, 4, 4, 4), f32)])
    weights = net.constant(random_array((4, 3, 3, 3), f32, 1))
    bias = net.constant(random_array((4,), f32, 2))
    y = net.add(
        graph.Conv2dOp(
            net.inputs[0],
            weights,
            bias,
            net.inputs[1],
            result_element=f32,
            strides=(2, 2),
            padding=(1, 1, 1, 1),
            groups=2,
            activation=FunctionAttr(Function.CLIP, (-2.0, 3.0)),
        )
    )
    flat = net.add(graph.ReshapeOp(y, (2, 64)))
    z = net.add(
        graph.MatmulOp(flat, net.constant(random_array((5, 64), f32, 3)), result_element=f32)
    )
    agree(net.module(z), tolerance=1e-4)


WINDOWS: list[tuple[tuple[int, int], Windows]] = [
    ((2, 2), {"strides": (2, 2)}),
    ((3, 3), {"strides": (2, 1), "padding": (1, 1, 1, 1)}),
    ((3, 2), {"dilations": (2, 3), "padding": (2, 0, 0, 3)}),
    ((7, 6), {}),
]


@pytest.mark.parametrize("device", [CPU, FPGA])
@pytest.mark.parametrize(("kernel", "window"), WINDOWS)
def test_pools(kernel: tuple[int, int], window: Windows, device: str):
    net = Network([((2, 7, 6, 19), INT8)])
    (x,) = net.inputs
    taps = kernel[0] * kernel[1]
    y = net.add(graph.Pool2dOp(Pool.MAX, x, kernel, result_element=INT8, **window), device)
    outputs = [y]
    requant = graph.reciprocal_requant(taps, x, 0.25)
    for include in (True, False):
        padded = "padding" in window and not include
        op = graph.Pool2dOp(
            Pool.AVERAGE, x, kernel, result_element=UniformType(0.25), requant=requant,
            count_include_pad=include, **window,
        )  # fmt: skip
        outputs.append(net.add(op, CPU if padded else device))
    agree(net.module(*outputs))


@pytest.mark.parametrize(("kernel", "window"), WINDOWS)
@pytest.mark.parametrize("element", [f32, SHIFTED, UINT8, WIDE])
def test_pools_of_other_types(kernel: tuple[int, int], window: Windows, element: Attribute):
    net = Network([((1, 7, 6, 300), element)])
    (x,) = net.inputs
    maximum = net.add(graph.Pool2dOp(Pool.MAX, x, kernel, result_element=element, **window))
    requant = RequantAttr(20, multiplier=54321, zero_point=1)
    op = graph.Pool2dOp(
        Pool.AVERAGE, x, kernel, result_element=f32 if element == f32 else INT8,
        requant=None if element == f32 else requant, **window,
    )  # fmt: skip
    average = net.add(op)
    agree(net.module(maximum, average))


@pytest.mark.parametrize("kind", list(FLOAT_BINARIES))
@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ((2, 3, 4, 5), (2, 3, 4, 5)),
        ((2, 3, 4, 5), (5,)),
        ((2, 1, 4, 1), (3, 1, 5)),
        ((300,), ()),
        ((1, 1), (4, 700)),
    ],
)
def test_binaries(kind: Binary, lhs: tuple[int, ...], rhs: tuple[int, ...]):
    net = Network([(lhs, INT8), (rhs, UINT8), (lhs, f32), (rhs, f32)])
    a, b, c, d = net.inputs
    activation = FunctionAttr(Function.LEAKY_RELU, (0.1,))
    results = [graph.BinaryOp(kind, c, d, result_element=f32, activation=activation)]
    if kind in QUANTIZED_BINARIES:
        shifts = (0, 0) if kind is Binary.MUL else (5, 2)
        requant = RequantAttr(4, rounding=Rounding.HALF_AWAY)
        op = graph.BinaryOp(kind, a, b, result_element=INT8, shifts=shifts, requant=requant)
        results.append(op)
    agree(net.module(*(net.add(op) for op in results)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [k for k in FLOAT_BINARIES if k not in QUANTIZED_BINARIES])
def test_float_binaries_at_the_edges(kind: Binary):
    """
    Check all pairs of zeros of both signs, infinities, NaN, and values that overflow or underflow.
    """
    edges = np.array([0.0, -0.0, 1e-45, -3, 7, 3e38, np.inf, -np.inf, np.nan], np.float32)
    net = Network([])
    lhs, rhs = net.constant(edges[:, None]), net.constant(edges)
    bounded = net.add(graph.BinaryOp(kind, lhs, rhs, result_element=f32))
    # 1 / x distinguishes the zeros.
    one = net.constant(np.ones(1, np.float32))
    op = graph.BinaryOp(Binary.DIV, one, bounded, result_element=f32)
    agree(net.module(net.add(op), bounded))


def test_addition_in_the_fpga():
    net = Network([((2, 3, 4, 5), INT8), ((2, 3, 4, 5), INT8)])
    op = graph.BinaryOp(
        Binary.ADD, *net.inputs, result_element=INT8, shifts=(22, 0), requant=RequantAttr(18)
    )
    agree(net.module(net.add(op, FPGA)))


FUNCTIONS = [
    FunctionAttr(Function.CLIP, (-1.5, float("inf"))),
    *(FunctionAttr(f, (0.2, 0.5)[: len(f.facts.parameters)]) for f in Function),
]
EXTREMES = np.array(
    [
        0,
        -0.0,
        1e-40,
        -1e-40,
        88.376,
        88.3763,
        -87.336,
        -87.34,
        1e30,
        -1e30,
        np.inf,
        -np.inf,
        np.nan,
    ],
    np.float32,
)


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions(function: FunctionAttr):
    """
    Check functions of a constant too, so that extremes and NaN occur; and functions in vectors.
    """
    net = Network([((1000,), f32)])
    many = np.linspace(-100, 100, 4001, dtype=np.float32)
    corner = net.constant(np.concatenate([EXTREMES, many]))
    ends = [net.add(graph.UnaryOp(x, function)) for x in (*net.inputs, corner)]
    module = net.module(*ends)
    for flags in (SANITIZERS, ()):
        agree(module, flags=flags)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(axis: int):
    net = Network([((3, 40, 37), f32)])
    module = net.module(net.add(graph.SoftmaxOp(net.inputs[0], axis)))
    for flags in (SANITIZERS, ()):
        agree(module, flags=flags)


@pytest.mark.parametrize("element", [INT8, SHIFTED, WIDE], ids=str)
@pytest.mark.parametrize("n", [1, 33, 700])
def test_rows_of_integers(element: UniformType, n: int):
    net = Network([((5, 3, n), element)])
    (x,) = net.inputs
    outputs = [integer_softmax(net, x, axis) for axis in (1, 2)]
    outputs += [integer_normalize(net, x, e, centred=e < 1 << 20) for e in (1 << 10, 1 << 40)]
    agree(net.module(*outputs))


def test_normalize():
    net = Network([((5, 3, 33), f32)])
    scale, bias = (net.constant(random_array((33,), f32, seed)) for seed in (1, 2))
    outputs = [
        net.add(graph.NormalizeOp(net.inputs[0], scale, b, epsilon=1e-5, centred=c))
        for c in (True, False)
        for b in (None, bias)
    ]
    agree(net.module(*outputs))


@pytest.mark.parametrize("kind", list(graph.Reduce))
@pytest.mark.parametrize("axes", [(2,), (0,), (0, 2), (0, 1, 2), ()], ids=str)
def test_reduce(kind: graph.Reduce, axes: tuple[int, ...]):
    net = Network([((3, 40, 5), f32), ((3, 40, 5), INT8), ((3, 40, 5), WIDE)])
    floats, *integers = net.inputs
    values = [floats, *(integers if kind in (graph.Reduce.MAX, graph.Reduce.MIN) else ())]
    agree(net.module(*[net.add(graph.ReduceOp(kind, x, axes)) for x in values]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("element", [INT8, UINT8, SHIFTED, WIDE, INT32], ids=str)
def test_quantize_and_back(element: UniformType):
    net = Network([((2000,), f32)])
    corner = net.constant(np.concatenate([EXTREMES, np.linspace(-40, 40, 641, dtype=np.float32)]))
    outputs: list[SSAValue] = []
    for x in (*net.inputs, corner):
        q = net.add(graph.QuantizeOp(x, element))
        outputs += [q, net.add(graph.DequantizeOp(q))]
    agree(net.module(*outputs))


def test_lookup():
    net = Network([((1000,), INT8)])
    kind = TensorType(i8, (256,))
    tables = [
        DenseIntOrFPElementsAttr(kind, BytesAttr(data))
        for data in (bytes(range(255, -1, -1)), b"\x85")
    ]
    ends = [net.add(graph.LookupOp(net.inputs[0], t, UniformType(2.0))) for t in tables]
    agree(net.module(*ends))


@pytest.mark.parametrize("element", [INT8, WIDE, f32], ids=str)
def test_moving_elements(element: Attribute):
    net = Network([((2, 3, 4, 5), element), ((2, 3, 1, 5), element)])
    x, y = net.inputs
    moved = net.add(graph.TransposeOp(x, (3, 0, 2, 1)))
    joined = net.add(
        graph.ConcatOp([y, x, net.constant(random_array((2, 3, 2, 5), element), element)], 2)
    )
    agree(net.module(moved, net.add(graph.ReshapeOp(moved, (30, 4))), joined))


@pytest.mark.parametrize("mode", list(Coordinates))
@pytest.mark.parametrize("rounding", list(Nearest))
def test_resizing(mode: Coordinates, rounding: Nearest):
    net = Network([((2, 4, 5, 3), INT8), ((1, 4, 5, 3), f32)])
    size, scales = (7, 11), (7 / 4, 2.2)
    nearest = graph.ResizeOp(Resize.NEAREST, net.inputs[0], size, scales, mode, rounding)
    linear = graph.ResizeOp(Resize.LINEAR, net.inputs[1], size, scales, mode, rounding)
    agree(net.module(net.add(nearest), net.add(linear)))


@pytest.mark.parametrize("strategy", ["offsets", "colouring"])
def test_shared_memory(strategy: str):
    """
    Check a residual that is live across two layers, an output that is also read, and a constant
    output.
    """
    net = Network([((1, 8, 8, 16), INT8)])
    (x,) = net.inputs
    a = convolve(net, x, (16, 3, 3, 16), FPGA, padding=(1, 1, 1, 1))
    b = convolve(net, a, (16, 3, 3, 16), padding=(1, 1, 1, 1))
    c = convolve(net, b, (16, 1, 1, 16), FPGA, residual=a, residual_shift=3)
    flat = net.add(graph.ReshapeOp(c, (1, 1024)))
    d = net.add(graph.SoftmaxOp(net.add(graph.DequantizeOp(flat)), 1))
    agree(net.module(d, flat, b, net.constant(random_array((3,), INT8), INT8), strategy=strategy))


@pytest.mark.parametrize("element", [f32, SHIFTED, WIDE])
@pytest.mark.parametrize(
    ("shape", "starts", "sizes", "strides"),
    [
        ((2, 5, 6, 7), (0, 0, 0, 0), (2, 5, 6, 7), (1, 1, 1, 1)),
        ((2, 5, 6, 7), (1, 4, 1, 6), (1, 3, 2, 4), (1, -2, 3, -2)),
        ((9,), (8,), (9,), (-1,)),
        ((3, 8), (2, 3), (1, 5), (-7, 1)),
        ((), (), (), ()),
    ],
)
def test_slices(
    element: Attribute,
    shape: tuple[int, ...],
    starts: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
):
    net = Network([(shape, element)])
    agree(net.module(net.add(graph.SliceOp(net.inputs[0], starts, sizes, strides))))


@pytest.mark.parametrize("element", [f32, SHIFTED, WIDE])
@pytest.mark.parametrize(
    ("shape", "low", "high", "interior"),
    [
        ((2, 3, 4, 5), (0, 1, 2, 0), (0, 2, 1, 0), (0, 0, 0, 0)),
        ((2, 3, 4, 5), (1, 0, 0, 3), (0, 0, 2, 1), (1, 2, 0, 3)),
        ((7,), (0,), (0,), (0,)),
        ((1,), (2,), (0,), (9,)),
    ],
)
def test_padding(
    element: Attribute,
    shape: tuple[int, ...],
    low: tuple[int, ...],
    high: tuple[int, ...],
    interior: tuple[int, ...],
):
    net = Network([(shape, element)])
    value = FloatAttr(-2.5, f32) if element == f32 else IntegerAttr(-7, i64)
    op = graph.PadOp(Pad.CONSTANT, net.inputs[0], low, high, interior=interior, value=value)
    agree(net.module(net.add(op)))


@pytest.mark.parametrize("element", [f32, SHIFTED])
@pytest.mark.parametrize("kind", [k for k in Pad if k is not Pad.CONSTANT])
@pytest.mark.parametrize(
    ("low", "high"), [((0, 1, 2, 0), (0, 2, 3, 0)), ((0, 2, 0, 0), (0, 0, 3, 0))]
)
def test_borders_that_repeat(
    element: Attribute, kind: Pad, low: tuple[int, ...], high: tuple[int, ...]
):
    net = Network([((2, 3, 4, 5), element)])
    agree(net.module(net.add(graph.PadOp(kind, net.inputs[0], low, high))))
