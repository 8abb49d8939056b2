"""Test `examples/target`, a systolic array that uses only the protocol, and its page."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from ceras_systolic.board import Board, load_board
from ceras_systolic.check import StreamChecker, check_stream
from ceras_systolic.machine import Instruction, Op, simulate
from ceras_systolic.rules import SystolicArray
from ceras_systolic.stream import layer_stream, packed_constants
from ceras_systolic.tile_for_array import Layer
from conftest import Tool
from numpy.typing import NDArray
from xdsl.dialects import test
from xdsl.dialects.builtin import TensorType, i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.support.diagnostics import InputError

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples/target/ceras_systolic"
DIGITS = ROOT / "examples/digits/digits.onnx"
SHARED = ROOT.parent / "shared/models"
PLUGIN = f"--load-target-plugin={EXAMPLE / 'target.py'}"
BOARD = load_board(None)
Integers = NDArray[np.int64]


def verify(tool: Tool, model: Path, *options: str) -> list[str]:
    """Return the lines of `ceras-verify` for C and the array, which must all be exact."""
    done = tool(
        *("ceras-verify", model, PLUGIN, "--targets", "c,systolic", "--floor", "-100"), *options
    )
    assert done.status == 0, done.stdout + done.stderr
    lines = [x for x in done.stdout.splitlines() if x.startswith(("c: ", "systolic: "))]
    assert all(line.endswith(" exact") for line in lines), done.stdout
    return [line.partition("  ")[0] for line in lines]


def compiled(tool: Tool, model: Path, folder: Path, *options: str | Path) -> list[dict[str, str]]:
    """Return the layers of the report of a compiled network."""
    done = tool("ceras-compile", model, PLUGIN, "--target", "systolic", "-o", folder, *options)
    assert done.status == 0, done.stderr
    return json.loads((folder / "report.json").read_text())["layers"]


@pytest.mark.slow
def test_digits_is_exact_on_every_level(tool: Tool):
    assert verify(tool, DIGITS)[3:] == [
        "systolic: placed graph",
        "systolic: tiled graph",
        "systolic: memory",
        "systolic: machine",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["resnet8_float", "resnet8_int8_qdq"])
def test_resnet8_is_exact_with_all_its_products_on_the_array(
    tool: Tool, tmp_path: Path, model: str
):
    path = SHARED / f"{model}.onnx"
    if not path.exists():
        pytest.skip("needs ../shared")
    verify(tool, path)
    layers = compiled(tool, path, tmp_path / "out")
    products = [x["device"] for x in layers if x["op"] in ("conv2d", "matmul")]
    assert products == ["array"] * 10


@pytest.mark.slow
def test_a_board_weighs_and_what_it_leaves_says_why(tool: Tool, tmp_path: Path):
    free = compiled(tool, DIGITS, tmp_path / "free")
    assert [x["device"] for x in free if x["op"] in ("conv2d", "matmul")] == ["array"] * 4
    slow = (EXAMPLE / "boards/edge.toml").read_text().replace("_us = 2\n", "_us = 20\n")
    (tmp_path / "slow.toml").write_text(slow)
    board = "--board", tmp_path / "slow.toml"
    layers = compiled(tool, DIGITS, tmp_path / "out", *board)
    devices = [x["device"] for x in layers if x["op"] in ("conv2d", "matmul")]
    assert devices == ["array", "array", "array", "cpu"]
    assert "less total time on the CPU" in layers[-3]["reason"]
    assert "systolic: machine" in verify(tool, DIGITS, *map(str, board))


@pytest.mark.slow
def test_int8_inputs_are_copied_into_the_memory_of_the_array(tool: Tool, tmp_path: Path):
    border = "--io", "int8", "--quantize", "int8"
    compiled(tool, DIGITS, tmp_path / "array", *border)
    # Both use the quantization for the array; otherwise C could use per-channel shifts.
    model = tmp_path / "quantized.mlir"
    quantize = "--quantize=target=systolic tail=int8"
    done = tool("ceras-opt", DIGITS, PLUGIN, "--fuse", quantize, "-o", model)
    assert done.status == 0, done.stderr
    done = tool("ceras-compile", model, "--target", "c", *border, "-o", tmp_path / "c")
    assert done.status == 0, done.stderr
    image = np.random.default_rng(0).integers(-128, 128, (5, 1, 1, 8, 8), np.int8)
    np.savez(tmp_path / "in.npz", image=image)
    for name in ("array", "c"):
        outputs = "--outputs", f"{name}.npz"
        done = tool("ceras-run", tmp_path / name, PLUGIN, "--inputs", "in.npz", *outputs)
        assert done.status == 0, done.stderr
    found, expected = (np.load(tmp_path / f"{name}.npz") for name in ("array", "c"))
    for name in expected.files:
        np.testing.assert_array_equal(found[name], expected[name])


# Compare the instructions of a layer with integers computed here.


def value(shape: Sequence[int], element: Attribute) -> SSAValue:
    return test.TestOp(result_types=[TensorType(element, shape)]).results[0]


def conv(
    case: "Case", rng: np.random.Generator
) -> tuple[graph.Conv2dOp, Integers, Integers, Integers]:
    """Build a convolution with random constants; return weights, bias and zeros for the result."""
    n, h, w, c = case.input
    o, kh, kw = case.weights
    weights = rng.integers(-128, 128, (o, kh, kw, c), np.int8)
    bias = rng.integers(-2000, 2000, o, np.int32)
    made, added = (
        graph.ConstantOp.from_array(array, UniformType(1.0, storage=storage)).result
        for array, storage in ((weights, i8), (bias, i32))
    )
    rows = (h + sum(case.padding[::2]) - (kh - 1) * case.dilation - 1) // case.stride + 1
    columns = (w + sum(case.padding[1::2]) - (kw - 1) * case.dilation - 1) // case.stride + 1
    shape = n, rows, columns, o
    op = graph.Conv2dOp(
        value(case.input, UniformType(1.0, case.point)),
        made,
        added,
        value(shape, UniformType(1.0, -7)) if case.residual else None,
        result_element=UniformType(1.0),
        strides=(case.stride, case.stride),
        dilations=(case.dilation, case.dilation),
        padding=case.padding,
        requant=RequantAttr(case.shift, zero_point=3, low=-100, high=90),
        residual_shift=case.residual or None,
    )
    return op, weights.astype(np.int64), bias.astype(np.int64), np.zeros(shape, np.int64)


class Case:
    """A convolution that computes `rows` of the result at a time."""

    def __init__(
        self,
        input: tuple[int, int, int, int],
        weights: tuple[int, int, int],
        rows: int,
        *,
        padding: tuple[int, int, int, int] = (0, 0, 0, 0),
        stride: int = 1,
        dilation: int = 1,
        point: int = 0,
        residual: int = 0,
        shift: int = 9,
    ):
        self.input, self.weights, self.rows, self.padding = input, weights, rows, padding
        self.stride, self.dilation, self.point = stride, dilation, point
        self.residual, self.shift = residual, shift


CASES = [
    Case((1, 5, 5, 3), (4, 3, 3), 5, padding=(1, 1, 1, 1)),
    Case((2, 7, 11, 9), (17, 3, 2), 3, padding=(1, 0, 0, 1), point=-5),
    Case((1, 9, 9, 8), (8, 3, 3), 2, padding=(0, 1, 1, 1), stride=2, point=127),
    Case((1, 8, 20, 2), (3, 3, 3), 1, padding=(2, 2, 2, 2), dilation=2, point=3, residual=4),
    Case((1, 1, 3, 40), (10, 1, 1), 1, residual=6, shift=12),
    Case((1, 2, 2, 1), (1, 3, 3), 4, padding=(3, 3, 3, 3), point=-128, shift=0),
]


@pytest.mark.parametrize("case", CASES)
def test_a_layer_computes_the_integers_it_should(case: Case):
    rng = np.random.default_rng(1)
    op, weights, bias, expected = conv(case, rng)
    x = rng.integers(-128, 128, case.input, np.int8)
    residual = rng.integers(-128, 128, expected.shape, np.int8)
    top, left, bottom, right = case.padding
    padded = np.pad(x.astype(np.int64) - case.point, [(0, 0), (top, bottom), (left, right), (0, 0)])
    for n, y, z, o in np.ndindex(expected.shape):
        total = int(bias[o])
        for i, j in product(range(weights.shape[1]), range(weights.shape[2])):
            line, column = y * case.stride + i * case.dilation, z * case.stride + j * case.dilation
            total += int(padded[n, line, column] @ weights[o, i, j])
        if case.residual:
            total += (int(residual[n, y, z, o]) + 7) << case.residual
        half = 1 << (case.shift - 1) if case.shift else 0
        expected[n, y, z, o] = min(max(((total + half) >> case.shift) + 3, -100), 90)
    memory, at = bytearray(), list[int]()
    parts = [x, residual, np.full(expected.shape, 0x55, np.int8), *packed_constants(op, BOARD.size)]
    for part in parts:
        memory.extend(bytes(-len(memory) % 16))
        at.append(len(memory))
        memory.extend(part.tobytes())
    stream = [*layer_stream(op, case.rows, at, BOARD.size)]
    data, image = b"".join(i.encode() for i in stream), np.frombuffer(memory, np.uint8).copy()
    sizes = BOARD.size, BOARD.scratchpad_rows, BOARD.accumulator_rows
    check_stream(data, StreamChecker(len(image), at[3], *sizes), "stream")
    simulate(data, image, *sizes)
    result = image[at[2] : at[2] + expected.size].view(np.int8).reshape(expected.shape)
    np.testing.assert_array_equal(result, expected)
    cycles = sum(i.cycles(BOARD) for i in stream)
    assert cycles / 2 < Layer.of(op).cycles(case.rows, BOARD) < 2 * cycles


# Rules.


def linear(
    *,
    element: Attribute | None = None,
    weights: Attribute | None = None,
    requant: RequantAttr | None = None,
    constant: bool = True,
    groups: int = 1,
    channels: int = 4,
) -> graph.Conv2dOp:
    kind = weights or UniformType(1.0)
    shape = 4, 3, 3, channels // groups
    made = graph.ConstantOp.from_array(np.ones(shape, np.int8), kind).result
    return graph.Conv2dOp(
        value((1, 8, 8, channels), element or UniformType(1.0)),
        made if constant else value(shape, kind),
        result_element=UniformType(1.0),
        requant=requant or RequantAttr(4),
        groups=groups,
    )


def test_the_array_takes_a_layer_of_int8():
    assert SystolicArray(None).why_not(linear()) is None
    assert SystolicArray(None).why_not(linear(requant=RequantAttr(4, multiplier=2))) is None


@pytest.mark.parametrize(
    "op, reason",
    [
        (linear(element=UniformType(1.0, storage=i16)), "computes on int8, got !quant.uniform<i16"),
        (linear(weights=UniformType(1.0, 5)), "no zero point of weights"),
        (linear(weights=UniformType([1.0] * 4, axis=0)), "has one scale"),
        (linear(constant=False), "needs constant weights"),
        (linear(groups=2), "has no groups, got 2"),
        (linear(requant=RequantAttr(4, multiplier=3)), "by one shift"),
        (linear(requant=RequantAttr(4, multiplier=[1, 2, 4, 8])), "by one shift"),
        (linear(requant=RequantAttr(40)), "at most 31"),
        (linear(requant=RequantAttr(0, multiplier=2)), "at most 31"),
        (linear(requant=RequantAttr(4, rounding=Rounding.HALF_EVEN)), "rounds half up"),
        (linear(channels=4096), "is too small, 1 rows of the result take 49152 of scratchpad"),
        (graph.SoftmaxOp(value((1, 4), UniformType(1.0)), 1), "multiplies matrices"),
    ],
)
def test_what_the_array_does_not_take_has_a_reason(op: graph.GraphOperation, reason: str):
    assert reason in (SystolicArray(None).why_not(op) or "")


def test_a_tile_that_does_not_fit_is_refused_with_its_layer(tool: Tool):
    text = (ROOT / "test/lit/examples/target.mlir").read_text()
    for rows in ("0", "200"):
        changed = text.replace("rows = 3 : i64} :", f"rows = {rows} : i64}} :")
        assert changed != text
        done = tool("ceras-opt", PLUGIN, "--tile-for-array", stdin=changed)
        assert done.status == 1 and f"{rows} rows of the result take" in done.stderr


@pytest.mark.parametrize(
    "change, message",
    [
        (("size = 8", "size = 0"), "size must be an integer in [1, 256], got 0"),
        (("size = 8", "size = true"), "got True"),
        (("size = 8", "sizes = 8"), "a board has no field 'sizes'; did you mean 'size'"),
        (("size = 8", "size ="), "not TOML"),
    ],
)
def test_a_board_that_is_none_is_refused(tmp_path: Path, change: tuple[str, str], message: str):
    file = tmp_path / "board.toml"
    file.write_text((EXAMPLE / "boards/edge.toml").read_text().replace(*change, 1))
    with pytest.raises(InputError, match=re.escape(message)):
        load_board(str(file))
    with pytest.raises(InputError, match="no board of the array"):
        load_board("nosuch")


# Reject invalid streams.

CONFIG = Instruction(Op.CONFIG, (0, 4, 0, -128, 127))
LOADED = [
    CONFIG,
    Instruction(Op.MVIN, (0, 8, 0, 0, 16, 0, 8)),
    Instruction(Op.PRELOAD, (64, 0, 8)),
]


@pytest.mark.parametrize(
    "last, message",
    [
        (Instruction(Op.MVIN, (1000, 8, 0, 0, 4, 0, 8)), "[1000, 1032) leaves the 1024"),
        (Instruction(Op.MVIN, (-8, 8, 0, 0, 4, 0, 8)), "dram must be in [0, "),
        (Instruction(Op.MVIN, (0, 8, 30, 2, 1, 0, 8)), "[30, 33) leaves the 32 of the scratchpad"),
        (Instruction(Op.MVIN, (0, 8, 0, 0, 4, 0, 9)), "cols must be in [0, 8], got 9"),
        (Instruction(Op.PRELOAD, (64, 10, 8)), "[10, 18) leaves the 16 of the accumulators"),
        (Instruction(Op.PRELOAD, (64, 0, 0)), "there are no rows"),
        (Instruction(Op.ADD, (0, 8, 0, 8, 8, 24)), "left must be in [0, 23], got 24"),
        (Instruction(Op.COMPUTE, (12, 1, 0, 0, 8)), "scratchpad from 12 are read before"),
        (Instruction(Op.COMPUTE, (0, 1, 10, 0, 8)), "scratchpad from 10 are read before"),
        (Instruction(Op.COMPUTE, (0, 1, 0, 8, 8)), "accumulators from 8 are read before"),
        (Instruction(Op.COMPUTE, (0, 1, 0, 0, 9)), "the array has 8 rows"),
        (Instruction(Op.COMPUTE, (0, 0, 0, 0, 8)), "no step of 0"),
        (Instruction(Op.MVOUT, (480, 8, 0, 8, 8)), "[480, 544) leaves the 512 of the memory"),
        (Instruction(Op.MVOUT, (0, 8, 4, 8, 8)), "accumulators from 4 are read before"),
        (Instruction(Op.CONFIG, (0, 32, 0, -128, 127)), "shift must be in [0, 31], got 32"),
        (Instruction(Op.CONFIG, (0, 3, 0, 5, 4)), "the clamp range is empty"),
    ],
)
def test_a_hostile_stream_is_refused(last: Instruction, message: str):
    stream = b"".join(i.encode() for i in [*LOADED, last])
    with pytest.raises(InputError, match=re.escape(message)):
        check_stream(stream, StreamChecker(1024, 512, 8, 32, 16), "stream")


def test_what_is_no_stream_is_refused():
    for data, message in (
        (b"\0" * 31, "ends within an instruction"),
        (b"\7" * 32, "no instruction of the array has opcode"),
        (LOADED[1].encode(), "begins with CONFIG"),
    ):
        with pytest.raises(InputError, match=message):
            check_stream(data, StreamChecker(1024, 512, 8, 32, 16), "stream")


@pytest.mark.slow
def test_whatever_passes_the_check_runs_and_writes_only_the_arena():
    small = replace(BOARD, scratchpad_rows=200, accumulator_rows=32)
    rng = np.random.default_rng(2)
    op, *_, result = conv(CASES[0], rng)
    at, sizes = (0, 0, 128, 512, 1024), (small.size, small.scratchpad_rows, small.accumulator_rows)
    good = [*layer_stream(op, 5, at, small.size)]
    data = np.frombuffer(b"".join(i.encode() for i in good), "<i4")
    assert result.size <= 128
    passed = 0
    for _ in range(400):
        words = data.copy()
        words[rng.integers(len(words), size=2)] = rng.choice([-1, 0, 1, 2, 7, 31, 100, 1 << 20], 2)
        stream, memory = words.tobytes(), np.zeros(1100, np.uint8)
        try:
            check_stream(stream, StreamChecker(len(memory), 256, *sizes), "stream")
        except InputError:
            continue
        passed += 1
        simulate(stream, memory, *sizes)
        assert not memory[256:].any()
    assert 0 < passed < 400


@pytest.mark.slow
def test_a_damaged_image_is_not_run(tool: Tool, tmp_path: Path):
    folder = tmp_path / "out"
    compiled(tool, DIGITS, folder)
    inputs = DIGITS.with_name("digits_test.npz")
    run = ("ceras-run", folder, PLUGIN, "--inputs", inputs, "--outputs", "o.npz")
    assert tool(*run).status == 0
    manifest = json.loads((folder / "manifest.json").read_text())
    short = manifest | {"systolic": manifest["systolic"] | {"streams": []}}
    (folder / "manifest.json").write_text(json.dumps(short))
    done = tool(*run)
    assert done.status == 1 and "no stream for launch 0 in the manifest" in done.stderr
    (folder / "manifest.json").write_text(json.dumps(manifest))
    image = bytearray((folder / "array.bin").read_bytes())
    # This is the first word of the second instruction: the address of an input row.
    image[manifest["systolic"]["streams"][0] + 39] = 0x7F
    (folder / "array.bin").write_bytes(image)
    done = tool(*run)
    assert done.status == 1 and "array.bin: error: differs from the compiled file" in done.stderr
    # With a matching digest, the instruction itself is rejected.
    manifest["sha256"]["array.bin"] = sha256(image).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    done = tool(*run)
    assert done.status == 1 and "array.bin: error: instruction 1 (mvin dram=" in done.stderr
    manifest["systolic"]["sizes"][1] = 1 << 30
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert "no array has the sizes" in tool(*run).stderr


# The package.


def test_it_is_written_against_the_protocol_alone():
    allowed = (
        *("ceras_ir.targets", "ceras_ir.dialects", "ceras_ir.network", "ceras_ir.support"),
        *("ceras_ir.transforms", "ceras_ir.backends.c"),
    )
    for path in EXAMPLE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ceras_ir"):
                assert f"{node.module}.".startswith(tuple(f"{a}." for a in allowed)), path


def test_it_is_small():
    lines = [line for path in EXAMPLE.glob("*.py") for line in path.read_text().splitlines()]
    assert sum(bool(line.strip()) for line in lines) <= 600


def test_nothing_of_the_compiler_names_it():
    for path in (ROOT / "ceras_ir").rglob("*.py"):
        assert "systolic" not in path.read_text(), path


def test_the_page_quotes_the_code():
    page = (ROOT / "docs/new-target.md").read_text()
    quoted = re.findall(r"^```(?:python|toml)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    files = [f for f in (ROOT / "examples/target").rglob("*") if f.suffix in (".py", ".toml")]
    texts = [path.read_text() for path in files]
    assert len(quoted) >= 5
    for block in quoted:
        assert any(block in text for text in texts), f"no file of the example has\n{block}"
    assert len(page.splitlines()) <= 250


def verify_installed(*path: Path) -> None:
    """Check that the entry point finds the target; `path` is the folder of the packages."""
    done = subprocess.run(
        [Path(sys.executable).with_name("ceras-verify"), DIGITS, "--targets=systolic"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"systolic: machine +exact", done.stdout)


@pytest.mark.slow
def test_its_entry_point_is_found(tmp_path: Path):
    project = tomllib.loads((EXAMPLE.parent / "pyproject.toml").read_text())["project"]
    ((name, points),) = project["entry-points"].items()
    info = tmp_path / f"ceras_systolic-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: ceras-systolic\nVersion: 0.1.0\n")
    lines = (f"{key} = {value}\n" for key, value in points.items())
    (info / "entry_points.txt").write_text(f"[{name}]\n{''.join(lines)}")
    verify_installed(tmp_path, EXAMPLE.parent)


@pytest.mark.slow
def test_installed_by_pip_it_needs_no_option(tmp_path: Path):
    source = shutil.copytree(EXAMPLE.parent, tmp_path / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*pip, "--target", tmp_path / "site", source], capture_output=True, text=True, check=False
    )
    if "setuptools>=77" in done.stderr:
        pytest.skip("needs a package index, for setuptools")
    assert done.returncode == 0, done.stderr
    verify_installed(tmp_path / "site")


def test_a_plugin_of_one_file_has_no_boards(tool: Tool, tmp_path: Path):
    text = '''from dataclasses import dataclass
from ceras_ir.targets import Target

@dataclass(frozen=True)
class Alone(Target):
    """One file."""

    name = "alone"
'''
    (tmp_path / "alone.py").write_text(text)
    plugin = f"--load-target-plugin={tmp_path / 'alone.py'}"
    done = tool("ceras-opt", plugin, "--allocate-blocks=board=nosuch", DIGITS)
    assert done.status == 1 and "nosuch" in done.stderr and "Traceback" not in done.stderr


def test_numbers_of_a_board_have_units():
    assert Board.dma(BOARD, 64) == 4 + 8
