"""
Compare plain integers and booleans with the interpreter: arithmetic, truth, choice, conversion.
"""

import struct
from pathlib import Path

import numpy as np
import onnx_models as om
import pytest
from backends.nnet.networks import SANITIZERS, agree, resealed, written
from backends.nnet.test_format import offset_of, refuse
from graph_networks import Network, random_array
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    Signedness,
    f32,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from ceras_ir.backends.nnet.engine import build
from ceras_ir.backends.nnet.reader import read
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Reduce
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.dialects.mem import block_of
from ceras_ir.dialects.quant import UniformType
from ceras_ir.driver.verify.tool import main as verify_tool
from ceras_ir.support.diagnostics import InputError

pytestmark = pytest.mark.usefixtures("apart")

INT8 = UniformType(0.5, -7)
UINT16 = IntegerType(16, Signedness.UNSIGNED)
INTEGERS = [i1, i8, BYTE, i16, UINT16, i32, i64]
NUMBERS = [*INTEGERS, f32]
FLOATS = [
    *(0.0, -0.0, 0.4, -1.6, 127.9, -128.7, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 1e30),
    *(np.nan, np.inf, -np.inf, 65535.5, -1e-40),
]


def integers(*shapes: tuple[int, ...], element: Attribute) -> tuple[Network, list[SSAValue]]:
    """Return inputs and a constant of each size, including zeros."""
    net = Network([(shape, element) for shape in shapes])
    array = random_array(shapes[0], element, 9)
    array[..., 0] = 0
    return net, [*net.inputs, net.constant(array, element)]


@pytest.mark.parametrize("element", INTEGERS)
def test_arithmetic_wraps_around(element: Attribute):
    """
    Check broadcast operands, a constant with zeros as divisors, and the minimum divided by -1.
    """
    net, (x, y, constant) = integers((2, 3, 300), (3, 1), element=element)
    minus = net.constant(np.array([-1]).astype(graph.numpy_dtype(element)), element)
    pairs = [(x, y), (y, x), (x, constant), (constant, y), (x, minus)]
    ops = [graph.BinaryOp(k, a, b, result_element=element) for k in Binary for a, b in pairs]
    agree(net.module(*(net.add(op) for op in ops)))


@pytest.mark.parametrize("element", [*NUMBERS, INT8])
def test_comparison_and_choice(element: Attribute):
    net = Network([((2, 3, 300), element), ((3, 1), element), ((1, 3, 300), i1)])
    x, y, condition = net.inputs
    special = random_array((300,), element, 3)
    if element == f32:
        special[: len(FLOATS)] = FLOATS
    z = net.constant(special, element)
    pairs = [(x, y), (y, z), (z, z), (x, x)]
    truths = [net.add(graph.CompareOp(kind, a, b)) for kind in Compare for a, b in pairs]
    chosen = [net.add(graph.SelectOp(condition, a, b)) for a, b in pairs]
    chosen.append(net.add(graph.SelectOp(truths[0], y, z)))
    agree(net.module(*truths, *chosen))


@pytest.mark.parametrize("source", NUMBERS)
def test_conversion(source: Attribute):
    special = random_array((3, 300), source, 3)
    if source == f32:
        special[0, : len(FLOATS)] = FLOATS
    net = Network([((3, 300), source)])
    values = (net.inputs[0], net.constant(special, source))
    results = [net.add(graph.CastOp(v, to)) for to in NUMBERS if to != source for v in values]
    agree(net.module(*results))


@pytest.mark.parametrize("element", INTEGERS)
def test_reduction(element: Attribute):
    net = Network([((3, 4, 5), element)])
    ops = [graph.ReduceOp(kind, net.inputs[0], axes) for kind in Reduce for axes in ((1,), (0, 2))]
    agree(net.module(*(net.add(op) for op in ops)))


@pytest.mark.parametrize("element", [*NUMBERS[1:], INT8])
def test_where_the_extreme_is(element: Attribute):
    """The result is the first or the last of equal elements; NaN is the maximum."""
    special = random_array((16, 3), element, 3)
    if element == f32:
        special[:, 0] = FLOATS
    net = Network([((4, 5, 6), element)])
    values = (net.inputs[0], net.constant(special, element))
    ops = [
        graph.ArgOp(kind, value, axis, last=last)
        for value in values
        for kind in (Reduce.MAX, Reduce.MIN)
        for axis in range(len(graph.shape_of(value)))
        for last in (False, True)
    ]
    agree(net.module(*(net.add(op) for op in ops)))


@pytest.mark.parametrize("element", [*NUMBERS[1:], INT8])
def test_which_are_the_first(element: Attribute):
    """Equal elements keep their order, and NaN is last."""
    special = random_array((3, 16), element, 3)
    if element == f32:
        special[0] = FLOATS
    net = Network([((4, 5, 33), element)])
    values = (net.inputs[0], net.constant(special, element))
    ops = [
        graph.TopKOp(kind, value, count)
        for value in values
        for kind in (Reduce.MAX, Reduce.MIN)
        for count in (1, 5, 16)
    ]
    agree(net.module(*(net.add(op) for op in ops)))


@pytest.mark.parametrize("element", [*NUMBERS, INT8])
def test_elements_are_repeated_anywhere(element: Attribute):
    """Check constant indices along each axis, and padding on all sides for all ranks."""
    net = Network([((2, 3, 5), element), ((4,), element)])
    x, y = net.inputs
    ops: list[graph.GraphOperation] = [
        graph.GatherOp(x, 0, (1, 0, 1)),
        graph.GatherOp(x, 2, (4, 4, 0, 2, 1, 3)),
        graph.GatherOp(y, 0, (3,)),
        graph.PadOp(graph.Pad.EDGE, x, (0, 7, 1), (1, 0, 2)),
        graph.PadOp(graph.Pad.REFLECT, x, (1, 2, 0), (0, 2, 4)),
        graph.PadOp(graph.Pad.WRAP, x, (0, 3, 5), (2, 1, 0)),
        graph.PadOp(graph.Pad.REFLECT, y, (3,), (2,)),
    ]
    agree(net.module(*(net.add(op) for op in ops)))


@pytest.mark.parametrize("value", [0, -1, 2**31 - 1])
def test_constant_borders_of_64_bits(value: int):
    net = Network([((2, 3), i64)])
    border = IntegerAttr(value, i64)
    op = graph.PadOp(graph.Pad.CONSTANT, net.inputs[0], (1, 0), (0, 2), value=border)
    agree(net.module(net.add(op)))


def test_rows_of_64_bits():
    net = Network([((5, 3), i64), ((4,), i64), ((4, 3), i64)])
    x, at, rows = net.inputs
    agree(net.module(net.add(graph.TakeOp(x, at)), net.add(graph.PutOp(x, at, rows))))


def test_gaps_between_rows():
    """Operands and results are columns of concatenations."""
    net = Network([((4, 3), i64), ((4, 3), i64), ((4, 3), i1)])
    x, y, c = net.inputs
    x = net.add(graph.BinaryOp(Binary.ADD, x, y, result_element=i64))
    joined = net.add(graph.ConcatOp([x, y], 1))
    chosen = net.add(graph.SelectOp(c, x, y))
    less = net.add(graph.CompareOp(Compare.LESS, x, y))
    turned = net.add(graph.GatherOp(x, 1, (2, 1, 0)))
    ends = [net.add(graph.ConcatOp([v, v_], 1)) for v, v_ in ((chosen, turned), (less, c))]
    at = net.add(graph.ArgOp(Reduce.MAX, x, 1))
    ends.append(net.add(graph.ConcatOp([at, net.add(graph.CastOp(x, i64))], 1)))
    module = net.module(joined, *ends, strategy="slices")
    block = block_of(x)
    assert block is not None and block.pitch.data
    agree(module)


def test_a_mask_is_computed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Run attention with an integer mask, from the model to the engine."""
    rng = np.random.default_rng(0)
    end = helper.make_tensor_value_info
    inputs = [end(name, TensorProto.INT64, [1, 6]) for name in ("ids", "mask")]
    weights = {name: rng.normal(0, 0.5, (8, 8)).astype(np.float32) for name in ("wq", "wk")}
    weights["table"] = rng.normal(0, 1, (20, 8)).astype(np.float32)
    weights |= {"low": np.array(-1e4, np.float32), "zero": np.array(0, np.float32)}
    numbers = {"one": np.array(1, np.int64), "axes": np.array([1])}
    nodes = [
        om.node("Gather", "table ids", "x"),
        om.node("MatMul", "x wq", "q"),
        om.node("MatMul", "x wk", "k"),
        om.node("Transpose", "k", "t", perm=[0, 2, 1]),
        om.node("MatMul", "q t", "s"),
        om.node("Equal", "mask one", "on"),
        om.node("Unsqueeze", "on axes", "on3"),
        om.node("Where", "on3 zero low", "m"),
        om.node("Add", "s m", "sm"),
        om.node("Softmax", "sm", "p", axis=-1),
        om.node("MatMul", "p x", "y"),
        om.node("ArgMax", "y", "best", axis=-1, keepdims=0),
    ]
    constants = [numpy_helper.from_array(v, n) for n, v in (weights | numbers).items()]
    outputs = [end("y", TensorProto.FLOAT, [1, 6, 8]), end("best", TensorProto.INT64, [1, 6])]
    made = helper.make_graph(nodes, "g", inputs, outputs, constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    data = str(tmp_path / "in.npz")
    lengths = rng.integers(2, 7, (32, 1))
    mask = (np.arange(6)[None] < lengths).astype(np.int64)
    np.savez(data, ids=rng.integers(0, 20, (32, 6)), mask=mask)
    options = ["--inputs", data, "--calibrate", data, "--targets", "nnet"]
    assert verify_tool([str(tmp_path / "model.onnx"), *options]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["nnet:", "machine", "exact"]


def layers() -> bytes:
    """Return a layer of each operation, in this order of names."""
    net = Network([((2, 3), i64), ((2, 3), i1)])
    x, c = net.inputs
    net.add(graph.BinaryOp(Binary.ADD, x, x, result_element=i64))
    net.add(graph.CompareOp(Compare.LESS, x, x))
    net.add(graph.SelectOp(c, x, x))
    net.add(graph.CastOp(x, f32))
    net.add(graph.ArgOp(Reduce.MAX, x, 1))
    net.add(graph.GatherOp(x, 1, (2, 0)))
    ends = [op.results[0] for op in net.block.ops]
    return written(net.module(*ends))


NAMES = ("binary", "compare", "select", "cast", "arg", "gather")
SCALE, STORAGE, SHAPE = 8, 4, 32
TENSORS = [
    ("binary", "result", STORAGE, b"\x05", "must have the type of the operands"),
    ("binary", "result", SHAPE, struct.pack("<2I", 3, 2), "do not broadcast"),
    ("binary", "operand", SCALE, struct.pack("<f", 2.0), "scale 1, no zero point"),
    ("compare", "result", STORAGE, b"\x01", "a result of booleans"),
    ("compare", "result", SHAPE, struct.pack("<2I", 3, 2), "do not broadcast"),
    ("select", "operand", STORAGE, b"\x01", "a condition of booleans"),
    ("select", "result", STORAGE, b"\x05", "different types"),
    ("cast", "result", SHAPE, struct.pack("<2I", 3, 2), "the shapes differ"),
    ("arg", "result", STORAGE, b"\x05", "integers of 64 bits expected"),
    ("arg", "result", SHAPE, struct.pack("<2I", 1, 2), "the wrong shape"),
    ("gather", "result", SHAPE, struct.pack("<2I", 1, 2), "wrong shape"),
    ("gather", "result", SHAPE, struct.pack("<2I", 2, 1), "wrong number of attributes"),
]
WORDS = [
    ("binary", 0, 10, "unknown attribute"),
    ("compare", 0, 3, "unknown attribute"),
    ("arg", 0, 2, "unknown attribute"),
    ("arg", 1, 2, "the axis does not exist"),
    ("arg", 2, 2, "unknown attribute"),
    ("gather", 0, 4, "unknown attribute"),
    ("gather", 0, 3, "an index is outside"),
    ("gather", 0, 0, "wrong shape"),
    ("gather", 1, 3, "an index is outside"),
]


@pytest.mark.parametrize(("name", "which", "at", "value", "message"), TENSORS)
def test_crafted_tensors_are_refused(
    tmp_path: Path, name: str, which: str, at: int, value: bytes, message: str
):
    data = layers()
    file = read(data)
    layer = file.layers[NAMES.index(name)]
    number = layer.result if which == "result" else layer.operands[0]
    refused(tmp_path, data, offset_of(file, data, "tensors") + 64 * number + at, value, message)


@pytest.mark.parametrize("kind", [6, 8, 10])
def test_floats_have_no_bits(tmp_path: Path, kind: int):
    """Numbers of integer functions between the numbers of float functions are refused."""
    net = Network([((3,), f32)])
    op = graph.BinaryOp(Binary.POW, *net.inputs, *net.inputs, result_element=f32)
    data = written(net.module(net.add(op)))
    place = offset_of(read(data), data, "attributes")
    refused(tmp_path, data, place, struct.pack("<I", kind), "unknown attribute")


@pytest.mark.parametrize(("name", "at", "value", "message"), WORDS)
def test_crafted_attributes_are_refused(
    tmp_path: Path, name: str, at: int, value: int, message: str
):
    data = layers()
    file = read(data)
    index = NAMES.index(name)
    before = sum(len(layer.attributes) for layer in file.layers[:index])
    place = offset_of(file, data, "attributes") + 4 * (before + at)
    refused(tmp_path, data, place, struct.pack("<I", value), message)


def refused(tmp_path: Path, data: bytes, at: int, value: bytes, message: str) -> None:
    """Check that the reader refuses the file with a message, and that the engine refuses it."""
    changed = resealed(data, at, value)
    with pytest.raises(InputError, match=message):
        read(changed)
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)
