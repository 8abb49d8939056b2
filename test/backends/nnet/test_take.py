"""Rows at computed indices and integers of 64 bits equal the interpreter."""

import struct
from pathlib import Path

import numpy as np
import onnx_models as om
import pytest
from backends.nnet.networks import SANITIZERS, agree, resealed, written
from backends.nnet.test_format import offset_of, refuse
from graph_networks import Network, random_array
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import IntegerType, Signedness, f32, i8, i16, i32, i64
from xdsl.ir import Attribute

from ceras_ir.backends.nnet.engine import build
from ceras_ir.backends.nnet.reader import read
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.dialects.mem import block_of
from ceras_ir.dialects.quant import UniformType
from ceras_ir.driver.verify.tool import main as verify_tool
from ceras_ir.support.diagnostics import InputError

pytestmark = pytest.mark.usefixtures("apart")

INT8, WIDE = UniformType(0.5, -7), UniformType(0.125, storage=i16)
UINT16 = UniformType(0.5, storage=IntegerType(16, Signedness.UNSIGNED))


@pytest.mark.parametrize("element", [f32, INT8, WIDE, UINT16])
def test_rows_of_every_storage(element: Attribute):
    """Rows of a value and of a constant are taken. Some indices are negative or out of range."""
    net = Network([((5, 3), element), ((40,), i64)])
    x, indices = net.inputs
    table = net.constant(random_array((7, 3), element, 4), element)
    agree(net.module(*(net.add(graph.TakeOp(rows, indices)) for rows in (x, table))))


@pytest.mark.parametrize("element", [f32, INT8, WIDE])
def test_rows_are_put(element: Attribute):
    """An index occurs twice, and some indices are ignored."""
    net = Network([((18, 3), element), ((40,), i64), ((40, 3), element)])
    x, indices, rows = net.inputs
    table = net.constant(random_array((18, 3), element, 4), element)
    agree(net.module(*(net.add(graph.PutOp(given, indices, rows)) for given in (x, table))))


@pytest.mark.parametrize("element", [i8, i16, i32, BYTE])
def test_indices_of_every_storage(element: Attribute):
    net = Network([((5, 3), f32)])
    given = np.array([0, 4, 5, 127, 2]) - (0 if element == BYTE else 3)
    dtype = graph.numpy_dtype(element)
    indices = net.constant(given.astype(dtype), element)
    agree(net.module(net.add(graph.TakeOp(net.inputs[0], indices))))


def test_gaps_between_rows():
    net = Network([((5, 3), INT8), ((2, 4), i64)])
    x, indices = net.inputs
    x = net.add(graph.SliceOp(x, (0, 0), (5, 3)))
    y = net.add(graph.TakeOp(x, net.add(graph.ReshapeOp(indices, (8,)))))
    joined = [net.add(graph.ConcatOp([v, v_], 1)) for v, v_ in ((x, net.inputs[0]), (y, y))]
    others = net.add(graph.PutOp(x, net.add(graph.ReshapeOp(indices, (8,))), y))
    joined.append(net.add(graph.ConcatOp([others, x], 1)))
    module = net.module(*joined, strategy="slices")
    block = block_of(x)
    assert block is not None and block.pitch.data
    agree(module)


def test_integers_of_64_bits_are_moved():
    net = Network([((2, 3, 4), i64), ((2, 1, 4), i64)])
    x, y = net.inputs
    x = net.add(graph.ConcatOp([x, y], 1))
    x = net.add(graph.TransposeOp(x, (2, 0, 1)))
    x = net.add(graph.SliceOp(x, (3, 0, 1), (4, 2, 2), (-1, 1, 2)))
    agree(net.module(net.add(graph.ReshapeOp(x, (4, 4))), x))


def test_tokens_are_looked_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Run an embedding and a product, from the model to the engine."""
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, 6])
    rng = np.random.default_rng(0)
    table, weights = (rng.normal(0, 1, shape).astype(np.float32) for shape in ((50, 8), (8, 4)))
    made = helper.make_graph(
        [om.node("Gather", "table tokens", "e"), om.node("MatMul", "e w", "y")],
        "g",
        [tokens],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 4])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    data = str(tmp_path / "in.npz")
    np.savez(data, tokens=rng.integers(0, 50, (32, 6)))
    options = ["--inputs", data, "--calibrate", data, "--targets", "nnet"]
    assert verify_tool([str(tmp_path / "model.onnx"), *options]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["nnet:", "machine", "exact"]


def test_a_cache_of_rows_is_a_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """
    In a step of a decoder, a row is stored at a position that is an input, and all rows are used.
    """
    whole, real = TensorProto.INT64, TensorProto.FLOAT
    rng = np.random.default_rng(0)
    shapes = {"table": (50, 8), "wk": (8, 8), "wq": (8, 8)}
    weights = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        om.node("Gather", "table token", "x"),
        om.node("MatMul", "x wk", "k"),
        om.node("ScatterND", "rows place k", "next"),
        om.node("MatMul", "x wq", "q"),
        om.node("Transpose", "next", "turned", perm=[1, 0]),
        om.node("MatMul", "q turned", "scores"),
        om.node("Softmax", "scores", "p", axis=-1),
        om.node("MatMul", "p next", "y"),
    ]
    end = helper.make_tensor_value_info
    inputs = [end("token", whole, [1]), end("place", whole, [1, 1]), end("rows", real, [6, 8])]
    outputs = [end("y", real, [1, 8]), end("next", real, [6, 8])]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    made = helper.make_graph(nodes, "g", inputs, outputs, constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    places = (np.arange(16) % 6 - 6 * (np.arange(16) % 2)).reshape(16, 1, 1)
    data = str(tmp_path / "in.npz")
    np.savez(data, token=rng.integers(0, 50, (16, 1)), place=places)
    options = ["--inputs", data, "--calibrate", data, "--targets", "nnet", "--state", "rows=next"]
    assert verify_tool([str(tmp_path / "model.onnx"), *options]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["nnet:", "machine", "exact"]


def taking() -> bytes:
    net = Network([((5, 3), INT8), ((4,), i64)])
    return written(net.module(net.add(graph.TakeOp(*net.inputs))))


def putting() -> bytes:
    net = Network([((5, 3), INT8), ((4,), i64), ((4, 3), INT8)])
    x, indices, rows = net.inputs
    return written(net.module(net.add(graph.PutOp(x, indices, rows))))


# (tensor, byte of the record, replacement, message of the reader)
TENSORS = [
    ("indices", 8, struct.pack("<f", 2.0), "scale 1, no zero point"),
    ("indices", 12, struct.pack("<i", 1), "scale 1, no zero point"),
    ("indices", 4, b"\x00", "has no scale"),
    ("indices", 4, b"\x07", "indices of scale 1"),
    ("indices", 4, b"\x08", "unknown storage 8"),
    ("indices", 24, struct.pack("<Q", 4), "not aligned|not inside"),
    ("rows", 8, struct.pack("<f", 2.0), "different types"),
    ("rows", 32, struct.pack("<2I", 3, 5), "wrong shape"),
    ("result", 32, struct.pack("<2I", 3, 4), "wrong shape"),
]
PUT = [
    ("indices", 8, struct.pack("<f", 2.0), "scale 1, no zero point"),
    ("rows", 8, struct.pack("<f", 2.0), "different types"),
    ("rows", 32, struct.pack("<2I", 3, 5), "wrong shape"),
    ("put", 8, struct.pack("<f", 2.0), "different types"),
    ("put", 32, struct.pack("<2I", 3, 4), "rows: wrong shape"),
    ("put", 32, struct.pack("<2I", 2, 6), "rows: wrong shape"),
    ("result", 8, struct.pack("<f", 2.0), "different types"),
    ("result", 32, struct.pack("<2I", 3, 5), "result: wrong shape"),
]
CASES = [("take", *case) for case in TENSORS] + [("put", *case) for case in PUT]


@pytest.mark.parametrize(("opcode", "tensor", "at", "value", "message"), CASES)
def test_crafted_tensors_are_refused(
    tmp_path: Path, opcode: str, tensor: str, at: int, value: bytes, message: str
):
    data = putting() if opcode == "put" else taking()
    file = read(data)
    (layer,) = file.layers
    names = ("rows", "indices", *(["put"] if opcode == "put" else []), "result")
    number = (*layer.operands, layer.result)[names.index(tensor)]
    changed = resealed(data, offset_of(file, data, "tensors") + 64 * number + at, value)
    with pytest.raises(InputError, match=message):
        read(changed)
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)


def test_other_layers_take_no_integers_of_64_bits(tmp_path: Path):
    """Requantizations, and moves in the FPGA's circuits, refuse integers of 64 bits."""
    net = Network([((5, 4), i64)])
    data = written(net.module(net.add(graph.ReshapeOp(net.inputs[0], (4, 5)))))
    layers = offset_of(read(data), data, "layers")
    changed = resealed(data, layers, struct.pack("<H", 13))
    with pytest.raises(InputError, match="no integers of 64 bits"):
        read(changed)
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)
    moved = resealed(data, layers + 2, b"\x01")
    said = refuse(build(SANITIZERS), tmp_path / "bad.nnet", moved)
    assert "no integers of 64 bits" in said
