"""Test `--shape` with several lengths: accepted and refused specifications, and their results."""

import json
from pathlib import Path

import numpy as np
import onnx_models as om
import pytest
from conftest import Tool
from length_networks import NETWORKS

from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.network.length_table import LengthTable
from ceras_ir.network.lengths import MAX_LENGTHS, lengths_of, listed, parse_shapes
from ceras_ir.support.diagnostics import UsageError


def test_specifications():
    assert parse_shapes("1x32,1x64") == ((1, 32), (1, 64))
    assert parse_shapes("1x2..8:3x4") == ((1, 2, 4), (1, 5, 4), (1, 8, 4))
    assert parse_shapes("7") == ((7,),)
    found = lengths_of({"x": ((1, 64), (1, 32)), "y": ((5,),), "z": ((9,), (8,))})
    assert found is not None and found.values == (32, 64) and found.dimension == 1
    assert found.shapes == {"x": ((1, 32), (1, 64)), "y": ((5,), (5,)), "z": ((8,), (9,))}
    assert lengths_of({"x": ((1, 3),)}) is None


WRONG = {
    "1x9..3": "9..3 must end above 9",
    "1x0..8:2": "a maximum takes no step; write 0..8",
    "1x0..0": "0..N needs N of 1 or more",
    "1x5..8x0..9": "several lengths: write 0..8, or a number",
    "1x0..-5": "or NAME=1x3x0..480x0..640 for the maximum",
    "1x1..8:0": "with a step of 1 or more",
    "1x1..1000000000": f"1,000,000,000 lengths, and a program at most {MAX_LENGTHS}: give",
    "1x1..9999999999": "is too large",
    "1x1..512": "such as 8..512:8",
    "1x1..10:4": "does not reach 10: the last length is 9",
    "1..3x1..3": "ranges in 2 dimensions",
    "1x2,1x2x3": "different numbers of dimensions",
    "1x2...3": "expected NAME=",
    "1x-2..3": "expected NAME=",
    "1x2,": "expected NAME=",
    "1x2..": "expected NAME=",
    "1x2..3:": "expected NAME=",
    "1x" + "9" * 100_000: "expected NAME=",
    ",".join(["1x2"] * 1000): f"more than {MAX_LENGTHS} shapes",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:20])
def test_wrong_specifications(text: str):
    with pytest.raises(ValueError) as error:
        parse_shapes(text)
    assert WRONG[text] in str(error.value)


@pytest.mark.parametrize(("first", "last"), [(1, 512), (3, 100), (7, 9999), (60, 16384)])
def test_proposed_ranges_are_accepted(first: int, last: int):
    with pytest.raises(ValueError, match="such as") as error:
        parse_shapes(f"1x{first}..{last}x4")
    shapes = parse_shapes(f"1x{str(error.value).split()[-1]}x4")
    assert shapes[0][1] >= first and shapes[-1] == (1, last, 4)
    assert MAX_LENGTHS // 2 < len(shapes) <= MAX_LENGTHS


def test_many_lengths_are_counted():
    assert listed(range(16, 65)) == "16..64 (49 lengths)"
    assert listed(range(16, 160, 16)) == "16..144:16 (9 lengths)"


def test_contradictions():
    with pytest.raises(UsageError, match=r"two shapes of length 4.*compile the other shapes"):
        lengths_of({"x": ((1, 4), (1, 4), (1, 5))})
    with pytest.raises(UsageError, match="'x' has 2 shapes and 'y' 3"):
        lengths_of({"x": ((4,), (5,)), "y": ((4,), (5,), (6,))})
    with pytest.raises(UsageError, match="fewer elements at a larger length"):
        lengths_of({"x": ((2, 9), (3, 1))})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(NETWORKS["tagger"][0]().SerializeToString())
    return path


def test_compile_and_run(model: Path, tmp_path: Path, tool: Tool):
    shapes = "--shape", "tokens=1x4..8:2"
    done = tool("ceras-compile", model, "--target", "c", *shapes, "-o", tmp_path / "out")
    assert done.status == 0, done.stderr
    assert "lengths  4, 6, 8 of 'tokens'; other figures are of the largest" in done.stdout
    assert "./model_run in.bin out.bin LENGTH" in (tmp_path / "out" / "Makefile").read_text()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["lengths"] == {
        "input": "tokens",
        "dimension": 1,
        "values": [4, 6, 8],
        "inputs": {"tokens": [[1, 4], [1, 6], [1, 8]]},
        "outputs": {"tags": [[1, 4, 7], [1, 6, 7], [1, 8, 7]]},
    }
    tokens = np.arange(12).reshape(2, 6)
    np.savez(tmp_path / "in.npz", tokens=tokens)
    expected = [
        om.run_onnxruntime(NETWORKS["tagger"][0](), {"tokens": row[None]})["tags"] for row in tokens
    ]
    for arguments in ((tmp_path / "out",), (model, *shapes), (model, *shapes, "--target", "c")):
        files = "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "y.npz"
        done = tool("ceras-run", *arguments, *files)
        assert done.status == 0, done.stderr
        got = np.load(tmp_path / "y.npz")["tags"]
        assert np.allclose(got, np.concatenate(expected), atol=1e-5)
    np.savez(tmp_path / "in.npz", tokens=np.zeros((2, 5), np.int64))
    for arguments in ((tmp_path / "out",), (model, *shapes)):
        done = tool("ceras-run", *arguments, "--inputs", tmp_path / "in.npz")
        assert done.status == 1
        assert "array 'tokens' has length 5; the lengths are 4, 6, 8" in done.stderr
        assert "N, 8" not in done.stderr


def test_calibration_at_another_length(tmp_path: Path, tool: Tool):
    (tmp_path / "m.onnx").write_bytes(NETWORKS["recognizer"][0]().SerializeToString())
    command = "ceras-compile", tmp_path / "m.onnx", "--target", "c", "-o", tmp_path / "out"
    for width, message in (
        (48, "array 'image' has length 48: samples for calibration must have the largest length"),
        (50, "; samples for calibration must have the largest length, 64"),
    ):
        np.savez(tmp_path / "data.npz", image=np.zeros((4, 1, 16, width), np.float32))
        shape = "--shape", "image=1x1x16x32..64:16", "--calibrate", tmp_path / "data.npz"
        done = tool(*command, *shape)
        assert done.status == 1 and done.stderr.count("error:") == 1
        assert "data.npz: error: array 'image' has" in done.stderr and message in done.stderr


def _table(*inputs: tuple[str, list[tuple[int, ...]]]) -> LengthTable:
    columns = zip(*(shapes for _, shapes in inputs), strict=True)
    tensors = [
        [TensorInfo(name, shape, "float32") for (name, _), shape in zip(inputs, row, strict=True)]
        for row in columns
    ]
    return LengthTable("a", 1, (16, 32, 48), tensors, tensors)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"a": (1, 17, 4)}, "array 'a' has length 17; the lengths are 16, 32, 48"),
        ({"a": (9, 17, 4)}, "array 'a' has length 17; the lengths are 16, 32, 48"),
        ({"a": (17, 4)}, "array 'a' has shape [17, 4], expected [N, L, 4], with L in 16, 32, 48"),
        ({"a": (9, 16, 4)}, "a single sample of 'a' is expected, of length 16, 32, 48"),
        ({"a": (1, 17, 5)}, "array 'a' has shape [1, 17, 5], expected [N, L, 4], with L in 16, "),
        (
            {"a": (1, 32, 4), "b": (1, 49)},
            "array 'a' has length 32 and array 'b' length 48: all arrays must have the same length",
        ),
        (
            {"a": (1, 32, 4), "b": (1, 34)},
            "array 'b' has 34 in dimension 1; the lengths permit 17, 33, 49",
        ),
        ({"c": (1, 4)}, "array 'c' has shape [1, 4], expected [N, 3]"),
        ({"d": (1, 4)}, "array 'd' has shape [1, 4], expected [N, 1, 2] or [N, 2, 3] or [N, 3, 4]"),
    ],
)
def test_arrays_of_no_length(shapes: dict[str, tuple[int, ...]], message: str):
    table = _table(
        ("a", [(1, n, 4) for n in (16, 32, 48)]),
        ("b", [(1, n + 1) for n in (16, 32, 48)]),
        ("c", [(1, 3)] * 3),
        ("d", [(1, n, n + 1) for n in (1, 2, 3)]),
    )
    assert table.mismatch(shapes).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--target", "arduino", "--board", "uno_r4_wifi"],
            "target arduino compiles a single length",
        ),
        (["--target", "onnx"], "target onnx compiles a single length"),
        (["--target", "c", "--python-wrapper"], "--python-wrapper needs a single length"),
        (["--target", "c", "--tune"], "--tune needs a single length"),
        (["--target", "c", "--at", "fused graph", "fuse"], "--at needs a single length"),
        (["--target", "c", "--shape", "tokens=1x4"], "--shape is given twice"),
    ],
)
def test_refusals(arguments: list[str], message: str, model: Path, tmp_path: Path, tool: Tool):
    shape = "--shape", "tokens=1x4,1x8"
    done = tool("ceras-compile", model, *arguments, *shape, "-o", tmp_path / "out")
    assert (done.status, message in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "out").exists() and done.stderr.count("error:") == 1


def test_commands_of_one_length(model: Path, tool: Tool):
    for command in (["ceras-verify", str(model)], ["ceras-opt", str(model)]):
        done = tool(*command, "--shape", "tokens=1x4,1x8")
        assert done.status == 2, done.stderr
        assert "this command takes a single length: give a shape such as tokens=1x8" in done.stderr
        assert "Check each with its shape" in done.stderr


def test_the_length_of_an_error(model: Path, tmp_path: Path, tool: Tool):
    command = "ceras-compile", model, "--target", "c", "-o", tmp_path / "out", "--shape"
    for shape in ("y=1x4..8:2", "tokens=2x4..8:2x3"):
        done = tool(*command, shape)
        assert done.status == 1 and "note:" not in done.stderr
    (tmp_path / "m.onnx").write_bytes(NETWORKS["front end"][0]().SerializeToString())
    command = "ceras-compile", tmp_path / "m.onnx", *command[2:]
    # There are 160 positions, a position for two frames.
    done = tool(*command, "frames=1x20x280..360:40")
    assert done.status != 0 and "note: the error is at length 360 of 'frames'" in done.stderr


def _two_inputs(second: str) -> bytes:
    nodes = [om.node("Add", "a b", "y")]
    kinds = {"a": (1, "N"), "b": (1, second)}
    return om.model(nodes, kinds, ["y"], {}).SerializeToString()


def test_inputs_of_one_symbol(tmp_path: Path, tool: Tool):
    (tmp_path / "m.onnx").write_bytes(_two_inputs("N"))
    command = "ceras-compile", tmp_path / "m.onnx", "--target", "c", "-o", tmp_path / "out"
    done = tool(*command, "--shape", "a=1x2,1x3")
    assert done.status == 0, done.stderr
    content = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert content["lengths"]["inputs"]["b"] == [[1, 2], [1, 3]]
    done = tool(*command, "--shape", "a=1x2,1x3", "--shape", "b=1x2,1x4", "--force")
    assert done.status == 1 and "does not fit" in done.stderr


def test_inputs_of_several_symbols(tmp_path: Path, tool: Tool):
    (tmp_path / "m.onnx").write_bytes(_two_inputs("M"))
    command = "ceras-compile", tmp_path / "m.onnx", "--target", "c", "-o", tmp_path / "out"
    done = tool(*command, "--shape", "a=1x2,1x3")
    assert done.status == 3
    assert "dynamic dimension 1 'M'" in done.stderr and "--shape" in done.stderr
    assert "a range FIRST..LAST:STEP" in done.stderr
    assert "note:" not in done.stderr
    done = tool(*command, "--shape", "a=1x2,1x3", "--shape", "b=1x2..3")
    assert done.status == 0, done.stderr
