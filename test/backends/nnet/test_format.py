"""The file is written, read by a reader that shares no code, and refused if it was changed."""

import subprocess
from collections.abc import Iterator
from dis import get_instructions
from pathlib import Path
from types import CodeType, FunctionType

import numpy as np
import pytest
from backends.nnet.networks import SANITIZERS, resealed, written
from graph_networks import Network, random_array
from xdsl.dialects.builtin import IntegerType, ModuleOp, f32, i32
from xdsl.dialects.func import FuncOp

from ceras_ir.backends.nnet import emit, encoding
from ceras_ir.backends.nnet.encoding import Constants
from ceras_ir.backends.nnet.engine import build
from ceras_ir.backends.nnet.file import NnetFile
from ceras_ir.backends.nnet.layers import LAYER_KINDS
from ceras_ir.backends.nnet.reader import annotate, dump, read
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects import graph
from ceras_ir.dialects.mem import ARENA, BLOCK, PackOp
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.support.diagnostics import InputError, UnsupportedError

INT8, INT32 = UniformType(0.5), UniformType(0.25, storage=i32)
DOCUMENT = Path(__file__).parents[3] / "docs" / "nnet-format.md"


def example() -> ModuleOp:
    """Return the network of the document: a product on the FPGA with float inputs and outputs."""
    net = Network([((1, 4), f32)])
    weights = net.constant(random_array((2, 4), INT8, 1), INT8)
    bias = net.constant(np.array([300, -200], np.int32), INT32)
    q = net.add(graph.QuantizeOp(net.inputs[0], INT8))
    requant = RequantAttr(7, low=0)
    op = graph.MatmulOp(q, weights, bias, result_element=INT8, requant=requant)
    return net.module(net.add(graph.DequantizeOp(net.add(op, FPGA))))


def refuse(program: Path, file: Path, data: bytes) -> str:
    """Check that the engine exits with status 1 and a line, and not by a signal or a sanitizer."""
    file.write_bytes(data)
    command = [program, file, "/dev/null", file.with_suffix(".out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(f"{file}: error: ") and done.stderr.count("\n") == 1
    return done.stderr


def offset_of(file: NnetFile, data: bytes, section: str) -> int:
    entry = 32 + 24 * list(file.sections).index(section)
    return int.from_bytes(data[entry + 8 : entry + 16], "little")


def test_the_file_is_hardly_larger_than_its_constants():
    """
    The file has at most 3% more than int8 weights and int32 biases of 49 layers of 64 channels.
    """
    net = Network([((1, 8, 8, 64), INT8)])
    (x,) = net.inputs
    constants = 0
    for i in range(49):
        weights = net.constant(random_array((64, 3, 3, 64), INT8, i), INT8)
        bias = net.constant(np.arange(64, dtype=np.int32) + i, INT32)
        op = graph.Conv2dOp(
            x, weights, bias, result_element=INT8, padding=(1, 1, 1, 1), requant=RequantAttr(12)
        )
        x = net.add(op, FPGA)
        constants += 64 * 9 * 64 + 4 * 64
    assert constants <= len(written(net.module(x))) <= 1.03 * constants


def test_round_trip():
    file = read(written(example()))
    assert [layer.opcode for layer in file.layers] == ["quantize", "matmul", "dequantize"]
    assert [layer.device for layer in file.layers] == ["cpu", "fpga", "cpu"]
    product = file.layers[1]
    weights, bias = (file.tensors[i] for i in product.operands[1:])
    assert (weights.storage, weights.shape, weights.scale) == ("i8", (2, 4), 0.5)
    assert file.data(weights) == random_array((2, 4), INT8, 1).tobytes()
    assert file.data(bias) == np.array([300, -200], "<i4").tobytes()
    assert product.requant is not None
    assert (product.requant.shift, product.requant.low, product.requant.high) == (7, 0, 127)
    assert (file.inputs, file.outputs[0][1]) == (((0, "input0"),), "output0")


def test_constants_of_one_section():
    """Weights begin at multiples of 64 bytes, and are stored in order."""
    net = Network([((1, 4), INT8)])
    (x,) = net.inputs
    for i in range(3):
        weights = net.constant(random_array((4, 4), INT8, i), INT8)
        x = net.add(graph.MatmulOp(x, weights, result_element=INT8, requant=RequantAttr(7)))
    file = read(written(net.module(x)))
    found = [file.tensors[layer.operands[1]] for layer in file.layers]
    assert [tensor.offset for tensor in found] == [0, 64, 128]
    for i, tensor in enumerate(found):
        assert file.data(tensor) == random_array((4, 4), INT8, i).tobytes()


def test_equal_constants_are_stored_once():
    """
    Weights of all steps of a loop are stored a single time, unless a type interprets the bytes
    differently.
    """
    offsets = Constants(alignment=64)
    array = random_array((20, 4), INT8, 1)
    wide = array.view(np.int32)
    ops = [graph.ConstantOp.from_array(a, e) for a, e in ((array, INT8), (wide, INT32))]
    again = graph.ConstantOp.from_array(array.copy(), UniformType(2.0))
    assert [offsets.add(op) for op in (*ops, again)] == [0, 128, 0]
    assert offsets.size == 208 and sum(map(len, offsets.chunks())) == 208
    # Rows of three and of five integers of 4 bits end with different unused bits.
    rows = np.arange(15, dtype=np.int8).reshape(5, 3) % 8
    narrow = UniformType(1.0, storage=IntegerType(4))
    packed = [graph.ConstantOp.from_array(a, narrow) for a in (rows, rows.reshape(3, 5), rows)]
    assert [offsets.add(op) for op in packed] == [256, 320, 256]
    assert bytes(list(offsets.chunks())[-3]) == bytes.fromhex("1002 4305 7600 2103 5406")


def test_bytes_are_deterministic():
    (artefact,) = emit(example())
    assert artefact.path == "model.nnet"
    assert written(example()) == written(example())


def test_document_shows_the_real_file():
    data = written(example())
    text = DOCUMENT.with_name("nnet-example.txt").read_text(encoding="utf-8")
    assert text == f"{dump(data)}\n{annotate(data)}"


def test_every_bit_flip_is_refused():
    data = written(example())
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InputError):
            read(bytes(changed))


def test_every_truncation_is_refused():
    data = written(example())
    for size in range(len(data)):
        with pytest.raises(InputError):
            read(data[:size])


def test_bytes_behind_the_last_section_are_refused():
    data = written(example())
    longer = resealed(data + bytes(1), 16, (len(data) + 1).to_bytes(8, "little"))
    with pytest.raises(InputError, match="bytes follow the last section"):
        read(longer)


# (section, byte in it, replacement, message of the reader)
CRAFTED = [
    ("network", 0, (16).to_bytes(8, "little"), "is not inside the arena"),
    ("network", 12, (99).to_bytes(4, "little"), "does not hold 99 entries"),
    ("blocks", 8, (2**64 - 8).to_bytes(8, "little"), "is not inside the arena"),
    ("tensors", 24, (2**40).to_bytes(8, "little"), "not inside the block"),
    ("tensors", 24, (4).to_bytes(8, "little"), "not inside the block"),
    ("tensors", 24, (1).to_bytes(8, "little"), "not aligned"),
    ("tensors", 32, b"\xff\xff\xff\xff\xff\xff\xff\xff", "not inside the block"),
    ("tensors", 5, b"\x09", "rank"),
    ("tensors", 128 + 12, (128).to_bytes(4, "little"), "zero point 128"),
    ("tensors", 16, (77).to_bytes(4, "little"), "no such block"),
    ("layers", 0, (99).to_bytes(2, "little"), "unknown opcode 99"),
    ("layers", 3, b"\x80", "unknown flags"),
    ("layers", 2, b"\x02", "unknown device"),
    ("layers", 8, (5).to_bytes(4, "little"), "do not follow"),
    ("layers", 12, (2**31).to_bytes(4, "little"), "outside section"),
    ("layers", 64 + 30, b"\x3f", "invalid multiplier or shift"),
    ("layers", 64 + 48, (-300).to_bytes(4, "little", signed=True), "invalid clamp range"),
    ("layers", 56, b"\0\0\0\0", "no such lookup table"),
    ("operands", 0, (1000).to_bytes(4, "little"), "a tensor does not exist"),
    ("operands", 4, (1).to_bytes(4, "little"), "float and quantized"),
    ("outputs", 0, (1000).to_bytes(4, "little"), "a tensor does not exist"),
    ("strings", 0, b"x", "start and end with a zero"),
]


@pytest.mark.parametrize(("section", "at", "value", "message"), CRAFTED)
def test_crafted_files_are_refused(
    tmp_path: Path, section: str, at: int, value: bytes, message: str
):
    """The reader and the engine refuse files with correct checksums and wrong content."""
    data = written(example())
    changed = resealed(data, offset_of(read(data), data, section) + at, value)
    with pytest.raises(InputError, match=message):
        read(changed)
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)


def test_values_that_are_not_there_are_refused():
    """Only the reader finds a value that is not written yet, and two inputs in the same bytes."""
    net = Network([((1, 4), f32), ((1, 4), f32)])
    data = written(
        net.module(net.add(graph.BinaryOp(graph.Binary.ADD, *net.inputs, result_element=f32)))
    )
    file = read(data)
    later = file.outputs[0][0].to_bytes(4, "little")
    with pytest.raises(InputError, match="operand 1 is not in memory"):
        read(resealed(data, offset_of(file, data, "operands") + 4, later))
    records = [offset_of(file, data, "tensors") + 64 * id for id, _ in file.inputs]
    changed = data
    for at, size in ((16, 4), (24, 8)):  # The block, and the offset.
        changed = resealed(changed, records[1] + at, data[records[0] + at :][:size])
    with pytest.raises(InputError, match="two inputs overlap"):
        read(changed)


def test_overlap_is_refused(tmp_path: Path):
    """The result of the product may not overlap its operand, and sections may not overlap."""
    data = written(example())
    file = read(data)
    result, operand = file.layers[1].result, file.layers[1].operands[0]
    record = offset_of(file, data, "tensors") + 64 * result
    place = data[offset_of(file, data, "tensors") + 64 * operand :]
    changed = resealed(data, record + 16, place[16:20])
    changed = resealed(changed, record + 24, place[24:32])
    with pytest.raises(InputError, match="overlaps the result"):
        read(changed)
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)
    entry = 32 + 24 * list(file.sections).index("floats")
    changed = resealed(data, entry + 8, data[entry - 24 + 8 : entry - 24 + 16])
    with pytest.raises(InputError, match="has the wrong offset"):
        read(changed)
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)


def test_overflowing_accumulator_is_refused(tmp_path: Path):
    """The bias leaves no room for the products. The engine proves sums before it runs."""
    data = written(example())
    at = offset_of(read(data), data, "biases")
    changed = resealed(data, at, (2**31 - 1).to_bytes(4, "little"))
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)


def test_what_the_writer_refuses():
    net = Network([((1, 4, 4, 16), INT8)])
    module = net.module(net.add(PackOp(net.inputs[0], (16,))))
    with pytest.raises(UnsupportedError, match="no such operation"):
        emit(module)

    module = example()
    main = module.body.block.first_op
    assert isinstance(main, FuncOp)
    product = next(op for op in main.walk() if isinstance(op, graph.MatmulOp))
    product.properties["requant"] = RequantAttr(7, multiplier=3)
    with pytest.raises(InputError, match="requantizes by a shift, got the multiplier 3"):
        emit(module)
    product.properties["requant"] = RequantAttr(7)
    del product.attributes[BLOCK]
    with pytest.raises(InputError, match=r"no 'mem\.block'"):
        emit(module)
    del main.attributes[ARENA]
    with pytest.raises(InputError, match=r"no 'mem\.arena'"):
        emit(module)


def test_the_document_lists_every_kind():
    text = DOCUMENT.read_text()
    assert sorted(LAYER_KINDS) == list(range(1, len(LAYER_KINDS) + 1))
    for kind in LAYER_KINDS.values():
        assert f"| {kind.number} | {kind.name} | " in text


def _names(code: CodeType) -> Iterator[str]:
    """Return the globals of a function, including those of comprehensions."""
    yield from (i.argval for i in get_instructions(code) if i.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _used(function: FunctionType) -> Iterator[object]:
    """
    Return the external objects of a function, and of the functions of the same module that it
    calls.
    """
    for name in _names(function.__code__):
        yield (value := function.__globals__.get(name))
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            yield from _used(value)


def test_checks_use_nothing_of_the_writer():
    """A check is declared next to the encoder of the operation, but must not use it."""
    for kind in LAYER_KINDS.values():
        for function in (kind.check, kind.kept, kind.requant):
            assert isinstance(function, FunctionType)
            for value in _used(function):
                home = getattr(value, "__module__", None) or getattr(value, "__name__", "")
                assert home != encoding.__name__ and "dialects" not in home, (kind.name, value)
