"""Constants of few bits are packed in the file, and give the integers of the interpreter."""

from math import prod
from pathlib import Path

import pytest
from backends.nnet.networks import SANITIZERS, agree, resealed, written
from backends.nnet.test_format import offset_of, refuse
from graph_networks import Network, random_array
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i64

from ceras_ir.backends.nnet.engine import build
from ceras_ir.backends.nnet.file import NnetFile
from ceras_ir.backends.nnet.reader import dump, read
from ceras_ir.backends.nnet.rules import FPGA, why_not
from ceras_ir.dialects import graph
from ceras_ir.dialects.mem import CPU
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.support.diagnostics import InputError

INT8 = UniformType(0.5)
WIDTHS = range(1, 9)


def narrow(width: int, point: int = 0) -> UniformType:
    """Return the signed type of `width` bits, or the unsigned type of 1 bit."""
    signed = Signedness.SIGNLESS if width > 1 else Signedness.UNSIGNED
    return UniformType(0.5, point, storage=IntegerType(width, signed))


def layers(width: int, device: str) -> ModuleOp:
    """Return a convolution, a depthwise convolution and a product with weights of `width` bits."""
    net = Network([((1, 5, 6, 7), INT8)])
    (x,) = net.inputs
    kind = narrow(width)
    for shape, groups in (((7, 3, 3, 1), 7), ((21, 1, 3, 7), 1)):
        weights = net.constant(random_array(shape, kind, groups), kind)
        op = graph.Conv2dOp(
            x, weights, result_element=INT8, requant=RequantAttr(width), groups=groups,
            padding=(shape[1] // 2, 1, shape[1] // 2, 1),
        )  # fmt: skip
        assert (why_not(op) is None) == kind.is_signed
        x = net.add(op, device if kind.is_signed else CPU)
    flat = net.add(graph.ReshapeOp(x, (6, 105)), device)
    weights = net.constant(random_array((19, 105), kind, 3), kind)
    op = graph.MatmulOp(flat, weights, result_element=INT8, requant=RequantAttr(width + 2))
    return net.module(net.add(op, device if kind.is_signed else CPU))


@pytest.mark.parametrize("width", WIDTHS)
def test_results_equal_those_of_the_interpreter(width: int):
    for device in (CPU, FPGA):
        agree(layers(width, device))


@pytest.mark.parametrize("width", WIDTHS)
def test_bytes_of_the_file(width: int):
    """Weights of at most 4 bits are packed; files without them have the older version."""
    file = read(written(layers(width, FPGA)))
    bits = {1: 2, 2: 2, 3: 4, 4: 4}.get(width, 0)
    weights = [file.tensors[layer.operands[1]] for layer in file.layers if len(layer.operands) > 1]
    assert [tensor.bits for tensor in weights] == [bits] * 3
    assert file.version == (5 if bits else 4)
    for tensor in weights:
        rows, row = tensor.shape[0], prod(tensor.shape[1:])
        assert tensor.stored_bytes == rows * -(-row * (bits or 8) // 8)


def test_a_version_without_packed_constants_is_accepted(tmp_path: Path):
    """A file of version 5 need not have a packed constant."""
    data = resealed(written(layers(8, FPGA)), 8, (5).to_bytes(4, "little"))
    assert read(data).version == 5
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", data[:-1])


def test_constants_of_other_layers():
    """Rows of a table, operands of a sum, and outputs of the network are constants of few bits."""
    net = Network([((5,), i64), ((3, 7), INT8)])
    indices, x = net.inputs
    tables, added = narrow(4, -3), narrow(2)
    table = net.constant(random_array((9, 5), tables, 1), tables)
    taken = net.add(graph.DequantizeOp(net.add(graph.TakeOp(table, indices))))
    addend = net.constant(random_array((3, 7), added, 2), added)
    for device in (CPU, FPGA):
        op = graph.BinaryOp(
            graph.Binary.ADD, x, addend, result_element=INT8, requant=RequantAttr(1)
        )
        x = net.add(op, device)
    agree(net.module(taken, x, table))


def test_equal_bytes_of_rows_of_other_lengths(tmp_path: Path):
    """Tensors that share an address in a file are expanded by their own shapes."""
    net = Network([((1, 4), INT8)])
    weights = net.constant(random_array((6, 4), narrow(4), 1), narrow(4))
    op = graph.MatmulOp(net.inputs[0], weights, result_element=INT8, requant=RequantAttr(3))
    data = written(net.module(net.add(op), weights))
    (tmp_path / "model.nnet").write_bytes(data)
    assert "6x4 i8 in 4 bits" in dump(data)
    file, id = only_weights(data)
    # Three columns leave four unused bits in each row, which are not zero.
    record = offset_of(file, data, "tensors") + 64 * id
    changed = resealed(data, record + 36, (3).to_bytes(4, "little"))
    changed = resealed(changed, offset_of(file, data, "tensors") + 36, (3).to_bytes(4, "little"))
    refused(tmp_path, changed, "unused bits of a packed row are not zero")


def only_weights(data: bytes) -> tuple[NnetFile, int]:
    file = read(data)
    (id,) = (i for i, tensor in enumerate(file.tensors) if tensor.location == "weights")
    return file, id


def refused(folder: Path, data: bytes, message: str) -> None:
    """Check that the reader refuses a file with `message`, and that the engine refuses it."""
    with pytest.raises(InputError, match=message):
        read(data)
    refuse(build(SANITIZERS), folder / "bad.nnet", data)


def product(columns: int = 5) -> bytes:
    """Return a file with weights [3, columns] of 4 bits, at the start of their section."""
    net = Network([((1, columns), INT8)])
    kind = narrow(4)
    weights = net.constant(random_array((3, columns), kind, 1), kind)
    op = graph.MatmulOp(net.inputs[0], weights, result_element=INT8, requant=RequantAttr(3))
    return written(net.module(net.add(op, FPGA)))


FIELDS = [
    (7, b"\3", "packed in 2 or 4 bits"),
    (7, b"\1", "packed in 2 or 4 bits"),
    (7, b"\x84", "packed in 2 or 4 bits"),
    (7, b"\0", "the end of 'weights' is exceeded"),
    (4, b"\0", "scale|float"),
    (4, b"\3", "integers of 8 bits, packed|belongs into"),
    (6, b"\0", "not packed"),
    (6, b"\2", "belongs into"),
    (20, b"\x08", "gaps"),
    (24, b"\1", "the end of 'weights' is exceeded"),
    (24, b"\xff" * 8, "the end of 'weights' is exceeded"),
    (32, b"\4", "the end of 'weights' is exceeded"),
    (32, b"\xff" * 4, "the end of 'weights' is exceeded"),
    (36, b"\7", "the end of 'weights' is exceeded"),
    (36, b"\xff" * 4, "the end of 'weights' is exceeded"),
    (5, b"\1", "rank and extents disagree"),
]
"""Offsets in the record of packed weights, bytes that are written there, and the refusal."""


@pytest.mark.parametrize(("at", "value", "message"), FIELDS)
def test_damaged_records_are_refused(tmp_path: Path, at: int, value: bytes, message: str):
    data = product()
    file, id = only_weights(data)
    record = offset_of(file, data, "tensors") + 64 * id
    refused(tmp_path, resealed(data, record + at, value), message)


def test_the_older_version_has_no_packed_constants(tmp_path: Path):
    refused(tmp_path, resealed(product(), 8, b"\4"), "reserved bytes are not zero")


def test_unused_bits_are_zero(tmp_path: Path):
    """Rows of five integers of 4 bits leave the upper half of the third byte."""
    data = product()
    file, _ = only_weights(data)
    start = offset_of(file, data, "weights")
    for row in range(3):
        at = start + 3 * row + 2
        changed = resealed(data, at, bytes([data[at] | 0x10]))
        refused(tmp_path, changed, "unused bits of a packed row are not zero")
    assert read(product(6)).sections["weights"] != read(data).sections["weights"]
