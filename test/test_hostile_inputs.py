"""
Give commands files and options that an attacker or a careless user could write.

Each command must end in time with a documented status, a short diagnostic without control
characters, and no outputs. The cases are written by hand and share no code with `test/mutants`,
except for the child process in which a command runs.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from mutants import forked
from mutants.forked import Main, run
from onnx import TensorProto, helper, numpy_helper
from onnx_models import conv_model, model, node

from ceras_ir.backends.nnet.tool import main as nnet
from ceras_ir.driver.compile import main as compiling
from ceras_ir.driver.lists.boards import main as boards
from ceras_ir.driver.opt.tool import main as opt
from ceras_ir.driver.run import main as running
from ceras_ir.driver.verify.tool import main as verify
from ceras_ir.workbench.compare.tool import main as compare
from ceras_ir.workbench.explore.tool import main as explore
from ceras_ir.workbench.new.tool import main as new
from ceras_ir.workbench.plan import main as plan
from ceras_ir.workbench.reduce.tool import main as reduce
from ceras_ir.workbench.report.tool import main as report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Duplicate name"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it forks"),
]

HUGE = 10**18
MODEL, OUT = "m.onnx", "out"
TO_C = [MODEL, "-o", OUT, "--target", "c"]
RUN = [MODEL, "--outputs", "out.npz", "--inputs"]
Command = tuple[Main, list[str]]
Case = Callable[[Path], Command]

CASES: dict[str, Case] = {}


def case(build: Case) -> Case:
    """Add a case: a function that writes files to a folder and returns the command."""
    CASES[build.__name__] = build
    return build


def network() -> onnx.ModelProto:
    return conv_model((1, 3, 6, 6), 4, (3, 3))


def saved(folder: Path, proto: onnx.ModelProto) -> None:
    (folder / MODEL).write_bytes(proto.SerializeToString())


def valid(folder: Path) -> None:
    saved(folder, network())
    np.savez(folder / "x.npz", x=np.zeros((1, 3, 6, 6), np.float32))


def array_file(descr: str, shape: str, data: bytes = b"", order: str = "False") -> bytes:
    """Return the bytes of an `.npy` file with any header."""
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def archive(folder: Path, members: Sequence[tuple[str, bytes]], name: str = "x.npz") -> None:
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as file:
        for member, data in members:
            file.writestr(member, data)


# Models.


@case
def model_is_a_folder(folder: Path) -> Command:
    (folder / MODEL).mkdir()
    return compiling, TO_C


@case
def model_is_a_pipe_without_a_writer(folder: Path) -> Command:
    os.mkfifo(folder / MODEL)
    return compiling, TO_C


@case
def model_is_an_endless_device(folder: Path) -> Command:
    (folder / MODEL).symlink_to("/dev/zero")
    return compiling, TO_C


@case
def model_is_a_link_to_itself(folder: Path) -> Command:
    (folder / MODEL).symlink_to(MODEL)
    return opt, [MODEL]


@case
def model_is_sparse_and_huge(folder: Path) -> Command:
    with open(folder / MODEL, "wb") as stream:
        stream.truncate(1 << 40)
    return opt, [MODEL]


@case
def model_cannot_be_read(folder: Path) -> Command:
    (folder / MODEL).symlink_to("/proc/self/mem")
    return opt, [MODEL]


@case
def model_is_a_picture(folder: Path) -> Command:
    (folder / MODEL).write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    return opt, [MODEL]


@case
def model_ends_in_a_varint(folder: Path) -> Command:
    (folder / MODEL).write_bytes(network().SerializeToString()[:-5] + b"\xff" * 11)
    return opt, [MODEL]


@case
def subgraphs_nested_deeply(folder: Path) -> Command:
    body = helper.make_graph([], "b", [], [])
    for _ in range(90):
        step = helper.make_node("If", ["c"], ["o"], then_branch=body, else_branch=body)
        body = helper.make_graph([step], "b", [], [])
        if body.ByteSize() > 1 << 20:
            break
    saved(folder, helper.make_model(body))
    return opt, [MODEL]


@case
def messages_nested_10_000_deep(folder: Path) -> Command:
    """Graphs in attributes of nodes in graphs, as raw bytes."""
    data = b""
    for _ in range(10_000):
        for tag in (0x32, 0x2A, 0x0A):  # AttributeProto.g, NodeProto.attribute, GraphProto.node
            length, size = len(data), b""
            while length > 127:
                size, length = size + bytes([length & 127 | 128]), length >> 7
            data = bytes([tag]) + size + bytes([length]) + data
            if len(data) > 1 << 19:
                break
    (folder / MODEL).write_bytes(b"\x08\x08\x3a" + _varint(len(data)) + data)
    return opt, [MODEL]


def _varint(number: int) -> bytes:
    data = b""
    while number > 127:
        data, number = data + bytes([number & 127 | 128]), number >> 7
    return data + bytes([number])


@case
def functions_that_call_each_other(folder: Path) -> Command:
    proto = model([node("F", "x", "y", "call")], {"x": (1,)}, ["y"], infer=False)
    proto.graph.node[0].domain = "d"
    for name, other in (("F", "G"), ("G", "F")):
        call = helper.make_node(other, ["a"], ["b"], domain="d")
        opsets = [helper.make_opsetid("d", 1), helper.make_opsetid("", 13)]
        proto.functions.append(helper.make_function("d", name, ["a"], ["b"], [call], opsets))
    proto.opset_import.add(domain="d", version=1)
    saved(folder, proto)
    return opt, [MODEL]


@case
def functions_that_double_20_times(folder: Path) -> Command:
    """A bomb: each of 40 functions calls the next function twice."""
    proto = model([node("F0", "x", "y", "call")], {"x": (1,)}, ["y"], infer=False)
    proto.graph.node[0].domain = "d"
    opsets = [helper.make_opsetid("d", 1), helper.make_opsetid("", 13)]
    for i in range(40):
        calls = [helper.make_node(f"F{i + 1}", [a], [b], domain="d") for a, b in ("ab", "bc")]
        proto.functions.append(helper.make_function("d", f"F{i}", ["a"], ["c"], calls, opsets))
    last = helper.make_node("Relu", ["a"], ["c"])
    proto.functions.append(helper.make_function("d", "F40", ["a"], ["c"], [last], opsets))
    proto.opset_import.add(domain="d", version=1)
    saved(folder, proto)
    return opt, [MODEL]


@case
def a_dimension_of_10_to_the_18(folder: Path) -> Command:
    saved(folder, model([node("Relu", "x", "y")], {"x": (1, HUGE)}, ["y"], infer=False))
    return compiling, TO_C


@case
def a_shape_that_expands_to_10_to_the_18(folder: Path) -> Command:
    nodes = [node("Expand", "x s", "e", "grow"), node("Relu", "e", "y")]
    shape = np.array([10**9, 10**9], np.int64)
    saved(folder, model(nodes, {"x": (1, 1)}, ["y"], {"s": shape}, infer=False))
    return compiling, TO_C


@case
def a_constant_of_10_to_the_18(folder: Path) -> Command:
    nodes = [node("ConstantOfShape", "s", "c", "fill"), node("Add", "x c", "y")]
    saved(folder, model(nodes, {"x": (1,)}, ["y"], {"s": np.array([HUGE])}, infer=False))
    return compiling, TO_C


@case
def names_with_escapes_and_lines(folder: Path) -> Command:
    name = "\x1b[2J\x1b]0;owned\x07a\nm.onnx:1:1: note: all is well\r\x9b31m\u202e"
    saved(folder, model([node("Nothing", "x", "y", name)], {"x": (1,)}, ["y"], infer=False))
    return compiling, TO_C


@case
def operator_with_escapes(folder: Path) -> Command:
    proto = model([node("Relu", "x", "y", "n")], {"x": (1,)}, ["y"], infer=False)
    proto.graph.node[0].op_type = "\x1b[31mRelu\n\x1b[0m" + "x" * 10_000
    proto.graph.node[0].domain = "\x1b[5m"
    saved(folder, proto)
    return verify, [MODEL]


@case
def a_cycle_through_two_nodes(folder: Path) -> Command:
    nodes = [node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "a", "y")]
    saved(folder, model(nodes, {"x": (1,)}, ["y"], infer=False))
    return compiling, TO_C


@case
def external_data_outside(folder: Path) -> Command:
    return compiling, external(folder, "../../../../../../etc/passwd")


@case
def external_data_absolute(folder: Path) -> Command:
    return compiling, external(folder, "/etc/passwd")


@case
def external_data_through_a_link(folder: Path) -> Command:
    (folder / "weights").symlink_to("/etc")
    return compiling, external(folder, "weights/passwd")


@case
def external_data_is_a_pipe(folder: Path) -> Command:
    os.mkfifo(folder / "weights")
    return compiling, external(folder, "weights")


@case
def external_data_at_a_negative_offset(folder: Path) -> Command:
    (folder / "weights").write_bytes(bytes(1000))
    return compiling, external(folder, "weights", offset="-8", length="99999999999999999999")


@case
def external_data_is_sparse_and_huge(folder: Path) -> Command:
    with open(folder / "weights", "wb") as stream:
        stream.truncate(1 << 40)
    return compiling, external(folder, "weights", length=str(1 << 39))


def external(folder: Path, location: str, **fields: str) -> list[str]:
    proto = network()
    for tensor in proto.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **fields}.items():
            tensor.external_data.add(key=key, value=value)
    saved(folder, proto)
    return TO_C


@case
def weights_are_not_numbers(folder: Path) -> Command:
    proto = network()
    for tensor in proto.graph.initializer:
        array = np.full_like(numpy_helper.to_array(tensor), np.nan)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    saved(folder, proto)
    return compiling, [*TO_C, "--quantize", "int8"]


@case
def scales_are_infinite(folder: Path) -> Command:
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    constants = {"s": np.float32(np.inf), "z": np.int8(0)}
    saved(folder, model(nodes, {"x": (1, 4)}, ["y"], constants, infer=False))
    return compiling, TO_C


@case
def a_flat_buffer_of_itself(folder: Path) -> Command:
    """All offsets of a TensorFlow Lite file are equal."""
    (folder / "m.tflite").write_bytes(struct.pack("<I", 16) + b"TFL3" + struct.pack("<i", 4) * 500)
    return compiling, ["m.tflite", *TO_C[1:]]


@case
def a_flat_buffer_of_negative_offsets(folder: Path) -> Command:
    data = struct.pack("<I", 0x7FFFFFFF) + b"TFL3" + b"\xff" * 4000
    (folder / "m.tflite").write_bytes(data)
    return compiling, ["m.tflite", *TO_C[1:]]


@case
def a_program_of_torch_with_a_pickle(folder: Path) -> Command:
    pickle = b"cos\nsystem\n(S'touch out'\ntR."
    members = [("m/archive_format", b"pt2"), ("m/data.pkl", pickle), ("m/models/model.json", b"{")]
    archive(folder, members, "m.pt2")
    return compiling, ["m.pt2", *TO_C[1:]]


@case
def a_program_of_torch_that_is_a_bomb(folder: Path) -> Command:
    archive(folder, [("m/models/model.json", bytes(1 << 28))], "m.pt2")
    return compiling, ["m.pt2", *TO_C[1:]]


# IR text.


@case
def text_with_100_000_brackets(folder: Path) -> Command:
    (folder / "m.mlir").write_text("module attributes {a = " + "[" * 100_000)
    return opt, ["m.mlir"]


@case
def text_with_100_000_regions(folder: Path) -> Command:
    (folder / "m.mlir").write_text('"builtin.module"() ({' * 100_000)
    return opt, ["m.mlir"]


@case
def text_with_types_in_types(folder: Path) -> Command:
    (folder / "m.mlir").write_text("func.func @f(%a: " + "tuple<" * 20_000 + ") { func.return }")
    return opt, ["m.mlir"]


@case
def text_is_not_utf_8(folder: Path) -> Command:
    (folder / "m.mlir").write_bytes(b'func.func @main() { "\xff\xfe\x1b[31m"() : () -> () }')
    return opt, ["m.mlir"]


@case
def text_with_zero_bytes(folder: Path) -> Command:
    (folder / "m.mlir").write_bytes(b"func.func @main() {\0\0 func.return }")
    return opt, ["m.mlir"]


@case
def text_with_a_splat_of_10_to_the_18(folder: Path) -> Command:
    kind = f"tensor<{HUGE}xf32>"
    (folder / "m.mlir").write_text(
        f"func.func @main() -> {kind} {{\n%0 = graph.constant dense<1.0> : {kind}\n"
        f"func.return %0 : {kind}\n}}\n"
    )
    np.savez(folder / "x.npz")
    return running, ["m.mlir", "--inputs", "x.npz", "--outputs", "out.npz"]


@case
def text_with_a_long_number(folder: Path) -> Command:
    (folder / "m.mlir").write_text("module attributes {a = " + "9" * 200_000 + " : i64} {}")
    return opt, ["m.mlir"]


@case
def text_that_calls_itself(folder: Path) -> Command:
    (folder / "m.mlir").write_text(
        "func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {\n"
        "%y = func.call @main(%x) : (tensor<1xf32>) -> tensor<1xf32>\n"
        "func.return %y : tensor<1xf32>\n}\n"
    )
    np.savez(folder / "x.npz", x=np.zeros(1, np.float32), arg0=np.zeros(1, np.float32))
    return running, ["m.mlir", "--inputs", "x.npz", "--outputs", "out.npz"]


@case
def pipeline_with_braces(folder: Path) -> Command:
    (folder / "m.mlir").write_text("module {}")
    return opt, ["m.mlir", "-p", "fuse{" * 5000 + "a=" + "}" * 10]


# Arrays.


@case
def array_twice_in_an_archive(folder: Path) -> Command:
    valid(folder)
    array = array_file("'<f4'", "(1, 3, 6, 6)", bytes(4 * 108))
    archive(folder, [("x.npy", array), ("x.npy", array)])
    return running, [*RUN, "x.npz"]


@case
def array_with_10_to_the_18_samples(folder: Path) -> Command:
    valid(folder)
    archive(folder, [("x.npy", array_file("'<f4'", f"({HUGE}, 3, 6, 6)"))])
    return running, [*RUN, "x.npz"]


@case
def array_with_no_elements_of_huge_extents(folder: Path) -> Command:
    valid(folder)
    archive(folder, [("x.npy", array_file("'<f4'", f"(0, {HUGE}, {HUGE}, 6)"))])
    return compiling, [*TO_C, "--calibrate", "x.npz"]


@case
def array_is_a_bomb(folder: Path) -> Command:
    """A file of a few megabytes with a header for 16 GB of zeros."""
    valid(folder)
    count = 1 << 22
    with (
        zipfile.ZipFile(folder / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file,
        file.open("x.npy", "w", force_zip64=True) as stream,
    ):
        stream.write(array_file("'<f4'", f"({count}, 3, 6, 6)"))
        for _ in range(200):
            stream.write(bytes(1 << 20))
    return compiling, [*TO_C, "--calibrate", "x.npz"]


@case
def array_is_a_pickle(folder: Path) -> Command:
    valid(folder)
    pickle = b"cos\nsystem\n(S'touch out'\ntR."
    archive(folder, [("x.npy", array_file("'|O'", "(1, 3, 6, 6)", pickle))])
    return running, [*RUN, "x.npz"]


@case
def array_header_is_code(folder: Path) -> Command:
    valid(folder)
    header = "(__import__('os').system('touch out'), 3, 6, 6)"
    archive(folder, [("x.npy", array_file("'<f4'", header))])
    return running, [*RUN, "x.npz"]


@case
def array_with_nan_and_infinity(folder: Path) -> Command:
    valid(folder)
    np.savez(folder / "x.npz", x=np.full((4, 3, 6, 6), np.nan, np.float32))
    return compiling, [*TO_C, "--calibrate", "x.npz"]


@case
def archive_is_a_folder_of_a_pipe(folder: Path) -> Command:
    valid(folder)
    (folder / "images").mkdir()
    os.mkfifo(folder / "images" / "a.png")
    return compiling, [*TO_C, "--calibrate", "images"]


@case
def images_with_10_to_the_9_pixels(folder: Path) -> Command:
    """A picture that decodes to 3 GB."""
    valid(folder)
    (folder / "images").mkdir()
    header = struct.pack(">IIBBBBB", 1 << 15, 1 << 15, 8, 2, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    data += chunk(b"IDAT", zlib.compress(bytes(1 << 20))) + chunk(b"IEND", b"")
    (folder / "images" / "a.png").write_bytes(data)
    return compiling, [*TO_C, "--calibrate", "images"]


@case
def images_that_are_damaged(folder: Path) -> Command:
    valid(folder)
    (folder / "images").mkdir()
    (folder / "images" / "\x1b[31ma\n.png").write_bytes(b"GIF89a" + bytes(10))
    return compiling, [*TO_C, "--calibrate", "images"]


@case
def images_link_to_a_device(folder: Path) -> Command:
    valid(folder)
    (folder / "images").mkdir()
    (folder / "images" / "a.png").symlink_to("/dev/zero")
    return compiling, [*TO_C, "--calibrate", "images"]


@case
def inputs_are_an_endless_device(folder: Path) -> Command:
    valid(folder)
    return running, [*RUN, "/dev/zero"]


@case
def inputs_are_a_pipe(folder: Path) -> Command:
    valid(folder)
    os.mkfifo(folder / "p.npz")
    return running, [*RUN, "p.npz"]


@case
def labels_of_another_length(folder: Path) -> Command:
    valid(folder)
    np.savez(folder / "l.npz", labels=np.array([10**18, -1, 3]))
    data = ["--calibrate", "x.npz", "--inputs", "x.npz"]
    return compare, [MODEL, *data, "--labels", "l.npz"]


@case
def labels_of_json_that_is_nested(folder: Path) -> Command:
    valid(folder)
    (folder / "l.json").write_text("[" * 100_000)
    data = ["--calibrate", "x.npz", "--inputs", "x.npz"]
    return compare, [MODEL, *data, "--labels", "l.json", "--metric", "detection"]


@case
def names_of_classes_are_bytes(folder: Path) -> Command:
    valid(folder)
    (folder / "labels.txt").write_bytes(b"\xff\xfe\x1b[31m\n" * 3)
    return running, [MODEL, "--inputs", "x.npz", "--labels", "labels.txt"]


@case
def names_of_classes_are_endless(folder: Path) -> Command:
    valid(folder)
    return running, [MODEL, "--inputs", "x.npz", "--labels", "/dev/zero"]


# Boards, manifests, studies, nnet files, plugins.


@case
def board_with_a_key_twice(folder: Path) -> Command:
    valid(folder)
    (folder / "b.toml").write_text('title = "a"\ntitle = "b"\n')
    return compiling, [*TO_C, "--board", "b.toml"]


@case
def board_with_numbers_out_of_range(folder: Path) -> Command:
    valid(folder)
    lines = 'title = "\\u001b[31m"', "flash = nan", "sram = -inf", "clock = 1e999", ""
    (folder / "b.toml").write_text("\n".join(lines))
    return boards, ["b.toml"]


@case
def board_with_tables_100_000_deep(folder: Path) -> Command:
    valid(folder)
    (folder / "b.toml").write_text("a = " + "{a=" * 100_000)
    return boards, ["b.toml"]


@case
def board_with_a_dotted_key(folder: Path) -> Command:
    valid(folder)
    (folder / "b.toml").write_text("a" + ".a" * 100_000 + " = 1\n")
    return compiling, [*TO_C, "--board", "b.toml"]


@case
def board_of_vta_with_huge_logarithms(folder: Path) -> Command:
    valid(folder)
    fields = {f"LOG_{n}": 10**9 for n in ("INP_WIDTH", "BLOCK", "UOP_BUFF_SIZE", "ACC_BUFF_SIZE")}
    (folder / "b.json").write_text(json.dumps({"TARGET": "sim", **fields}))
    return compiling, [MODEL, "-o", OUT, "--target", "vta", "--board", "b.json"]


@case
def board_is_a_pipe(folder: Path) -> Command:
    valid(folder)
    os.mkfifo(folder / "b.toml")
    return compiling, [*TO_C, "--board", "b.toml"]


@case
def manifest_with_files_outside(folder: Path) -> Command:
    valid(folder)
    (folder / "c").mkdir()
    manifest = {"version": 1, "target": "c", "files": {"../../etc/passwd": "no"}}
    (folder / "c" / "manifest.json").write_text(json.dumps(manifest))
    return running, ["c", "--inputs", "x.npz", "--outputs", "out.npz"]


@case
def manifest_with_a_key_twice(folder: Path) -> Command:
    valid(folder)
    (folder / "c").mkdir()
    text = '{"version": 1, "target": "c", "target": "nnet", "files": {}, "inputs": NaN}'
    (folder / "c" / "manifest.json").write_text(text)
    return running, ["c", "--inputs", "x.npz", "--outputs", "out.npz"]


@case
def manifest_is_nested(folder: Path) -> Command:
    valid(folder)
    (folder / "c").mkdir()
    (folder / "c" / "manifest.json").write_text('{"a":' * 100_000)
    return report, ["c", "-o", "out.html"]


@case
def manifest_is_a_pipe(folder: Path) -> Command:
    (folder / "c").mkdir()
    os.mkfifo(folder / "c" / "manifest.json")
    return report, ["c", "-o", "out.html"]


@case
def output_folder_has_a_hostile_manifest(folder: Path) -> Command:
    """A manifest in the output folder claims files outside: none is removed."""
    valid(folder)
    (folder / "c").mkdir()
    (folder / "c" / "manifest.json").write_text('{"files": {"../m.onnx": 1}, "x": ' + "[" * 50_000)
    return compiling, [MODEL, "-o", "c", "--target", "c"]


@case
def study_with_a_key_twice(folder: Path) -> Command:
    valid(folder)
    (folder / "s.toml").write_text("name = 's'\n[targets.c]\n[targets.c]\n")
    return explore, ["s.toml"]


@case
def study_with_an_expression_of_powers(folder: Path) -> Command:
    valid(folder)
    (folder / "s.toml").write_text(
        "name = 's'\n[models.m]\nfile = 'm.onnx'\n[targets.c]\n[objectives]\n"
        "minimize = ['flash_bytes']\nconstraints = ['9**9**9**9 > flash']\n"
    )
    return explore, ["s.toml"]


@case
def study_with_code(folder: Path) -> Command:
    valid(folder)
    (folder / "s.toml").write_text(
        "name = '../../s'\n[models.m]\nfile = '/dev/zero'\n[targets.c]\n[objectives]\n"
        "minimize = ['flash_bytes']\nconstraints = [\"__import__('os').system('touch out') > 0\"]\n"
    )
    return explore, ["s.toml"]


@case
def where_with_deep_parentheses(folder: Path) -> Command:
    valid(folder)
    (folder / "s.toml").write_text(
        "name = 's'\n[models.m]\nfile = 'm.onnx'\n[targets.c]\n[objectives]\n"
        "minimize = ['flash_bytes']\n"
    )
    where = "(" * 50_000 + "flash" + ")" * 50_000 + " < 1"
    return explore, ["best", "s.toml", "--where", where, "-o", OUT]


@case
def nnet_with_sections_of_2_to_the_63(folder: Path) -> Command:
    sections = struct.pack("<IIQQ", 1, 9, (1 << 63) - 1, 1 << 62) * 9
    (folder / "f.nnet").write_bytes(b"NNET" + sections)
    return nnet, ["check", "f.nnet"]


@case
def nnet_is_empty(folder: Path) -> Command:
    (folder / "f.nnet").write_bytes(b"")
    return nnet, ["dump", "f.nnet"]


@case
def nnet_is_an_endless_device(_: Path) -> Command:
    return nnet, ["check", "/dev/zero"]


@case
def nnet_is_a_pipe(folder: Path) -> Command:
    os.mkfifo(folder / "f.nnet")
    return nnet, ["diff", "f.nnet", "f.nnet"]


@case
def plugin_with_a_wrong_declaration(folder: Path) -> Command:
    valid(folder)
    (folder / "p.py").write_text(
        "from dataclasses import dataclass\nfrom xdsl.passes import ModulePass\n"
        "@dataclass(frozen=True)\nclass P(ModulePass):\n    name = 'a b\\x1b[31m\\n'\n"
        "    option: 'no.such.type' = 1\n    def apply(self, ctx, op): pass\n"
    )
    return opt, [MODEL, "--load-pass-plugin", "p.py", "--list-passes"]


@case
def plugin_that_exits(folder: Path) -> Command:
    valid(folder)
    (folder / "p.py").write_text("import sys\nsys.exit(0)\n")
    return compiling, [*TO_C, "--load-target-plugin", "p.py"]


@case
def plugin_is_a_pipe(folder: Path) -> Command:
    valid(folder)
    os.mkfifo(folder / "p.py")
    return opt, [MODEL, "--load-pass-plugin", "p.py"]


@case
def plugin_that_recurses(folder: Path) -> Command:
    valid(folder)
    (folder / "p.py").write_text("def f(): f()\nf()\n")
    return opt, [MODEL, "--load-dialect-plugin", "p.py"]


@case
def plan_of_requests_of_10_to_the_30(folder: Path) -> Command:
    (folder / "r.csv").write_text(f"id,lower,upper,size\na,0,{10**30},{10**30}\nb,-5,nan,1e9\n")
    return plan, ["r.csv", "--capacity", str(10**40), "-o", "out.csv"]


@case
def plan_is_endless(_: Path) -> Command:
    return plan, ["/dev/zero", "--capacity", "1000", "-o", "out.csv"]


# Options.


@case
def a_shape_of_nothing(folder: Path) -> Command:
    saved(folder, model([node("Relu", "x", "y")], {"x": ("n", "m")}, ["y"], infer=False))
    return compiling, [*TO_C, "--shape", f"x={HUGE}x-1x", "--shape", "x="]


@case
def a_shape_of_10_to_the_18(folder: Path) -> Command:
    saved(folder, model([node("Relu", "x", "y")], {"x": ("n", "m")}, ["y"], infer=False))
    return compiling, [*TO_C, "--shape", f"x={HUGE}x{HUGE}"]


@case
def a_range_of_shapes(folder: Path) -> Command:
    saved(folder, model([node("Relu", "x", "y")], {"x": ("n", "m")}, ["y"], infer=False))
    return compiling, [*TO_C, "--shape", f"x=1x1..{HUGE}"]


@case
def an_input_set_to_no_number(folder: Path) -> Command:
    valid(folder)
    return compiling, [*TO_C, "--set", "x=nan,1e999,\x1b[31m", "--set", "=", "--set", "x"]


@case
def a_batch_of_10_to_the_30(folder: Path) -> Command:
    saved(folder, model([node("Relu", "x", "y")], {"x": ("n", 3)}, ["y"], infer=False))
    return compiling, [*TO_C, "--batch", str(10**30)]


@case
def a_condition_of_20_000_terms(folder: Path) -> Command:
    valid(folder)
    return compiling, [*TO_C, "--fail-if", "flash>" + "9" * 100_000 + "K"]


@case
def an_output_below_a_file(folder: Path) -> Command:
    valid(folder)
    return compiling, [MODEL, "-o", "x.npz/out/deeper", "--target", "c"]


@case
def an_output_name_of_5000_bytes(folder: Path) -> Command:
    valid(folder)
    return compiling, [MODEL, "-o", "o" * 5000, "--target", "c"]


@case
def manifest_of_a_pipe(folder: Path) -> Command:
    """The manifest is right, and names a file that never ends."""
    valid(folder)
    tensors = [{"name": "x", "shape": [HUGE, HUGE], "dtype": "float32"}]
    digests = {"model.c": "0" * 64}
    manifest = {"version": 1, "target": "c", "files": digests, "sha256": digests}
    (folder / "c").mkdir()
    os.mkfifo(folder / "c" / "model.c")
    text = json.dumps({**manifest, "inputs": tensors, "outputs": tensors})
    (folder / "c" / "manifest.json").write_text(text)
    return running, ["c", "--inputs", "x.npz", "--outputs", "out.npz"]


@case
def study_with_a_zero_byte(folder: Path) -> Command:
    (folder / "s.toml").write_text(
        "name = 's'\n[models.m]\nfile = 'a\\u0000b'\n[targets.c]\n".replace("'a", '"a').replace(
            "b'", 'b"'
        )
    )
    return explore, ["s.toml"]


@case
def an_output_that_is_a_device(folder: Path) -> Command:
    valid(folder)
    return running, [MODEL, "--inputs", "x.npz", "--outputs", "/dev/full"]


@case
def a_new_pass_outside(_: Path) -> Command:
    return new, ["pass", "../../out/x\x1b[31m", "-o", OUT]


@case
def a_reduction_of_a_pipe(folder: Path) -> Command:
    os.mkfifo(folder / "m.mlir")
    return reduce, ["m.mlir", "-o", "out.mlir", "--test", "true {input}"]


@pytest.mark.parametrize("name", CASES)
def test_one_diagnostic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(forked, "WAITING", 3)
    main, arguments = CASES[name](tmp_path)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    outcome = run(main, arguments, tmp_path)
    errors = outcome.errors
    assert outcome.status in (1, 2, 3), (outcome.status, errors[-3000:])
    assert "Traceback" not in errors and 0 < len(errors.splitlines()) <= 30, errors[-3000:]
    assert len(errors) < 4000, len(errors)
    controls = [c for c in errors if not c.isprintable() and c != "\n"]
    assert not controls, ascii(errors)
    assert "error" in errors, errors
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before
