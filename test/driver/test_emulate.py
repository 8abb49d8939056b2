"""Test `ceras-run --emulate`: values of the emulated core of a board."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import Array, needs_arm
from conftest import Tool
from core import ROOT
from onnx import TensorProto, helper

from ceras_ir.backends.c import emulator
from ceras_ir.driver import compile as compiling
from ceras_ir.driver.run import main

COLOUR = str(ROOT / "examples/colour/colour.onnx")
NOTE = "computed on this machine, not on "


def compiled(tmp_path: Path, *options: str, model: str = COLOUR) -> str:
    folder = str(tmp_path / "folder")
    assert compiling.main([model, "-o", folder, *options]) == 0
    return folder


def colours(tmp_path: Path) -> str:
    path = tmp_path / "in.npz"
    np.savez(path, input=np.random.default_rng(0).random((3, 3)).astype(np.float32))
    return str(path)


def outputs(tmp_path: Path, name: str, *arguments: str) -> dict[str, Array]:
    assert main([*arguments, "--outputs", str(tmp_path / name)]) == 0
    return dict(np.load(tmp_path / name))


@needs_arm
@pytest.mark.parametrize(
    "options",
    [
        ("--target", "c", "--board", "nucleo_f446re", "--quantize", "int8"),
        ("--target", "c", "--board", "pico", "--quantize", "int8", "--name", "kws"),
        ("--target", "arduino", "--encoding", "csr", "--quantize", "none"),
    ],
)
def test_a_folder_gives_the_values_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
):
    folder, inputs = compiled(tmp_path, *options), colours(tmp_path)
    capsys.readouterr()
    here = outputs(tmp_path, "here.npz", folder, "--inputs", inputs)
    assert NOTE in capsys.readouterr().err
    core = outputs(tmp_path, "core.npz", folder, "--inputs", inputs, "--emulate")
    assert NOTE not in capsys.readouterr().err
    assert core["output"].shape == (3, 3)
    assert core["output"].tobytes() == here["output"].tobytes()


@needs_arm
def test_the_core_computes_the_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Bytes of the file that the emulated program wrote are printed as answers."""
    folder, inputs = compiled(tmp_path, "--target", "c", "--board", "due"), colours(tmp_path)
    run_elf = emulator.run_elf

    def sevens(elf: Path, work: Path, **options: Any) -> str:
        text = run_elf(elf, work, **options)
        size = (work / "out.bin").stat().st_size
        (work / "out.bin").write_bytes(np.full(size // 4, 7, np.float32).tobytes())
        return text

    monkeypatch.setattr(emulator, "run_elf", sevens)
    capsys.readouterr()
    assert main([folder, "--inputs", inputs, "--emulate"]) == 0
    printed = capsys.readouterr()
    assert "7, 7, 7" in printed.out
    note = "computed on an emulated cortex-m3 (qemu-system-arm, machine mps2-an386), on which no"
    assert note in printed.err


@needs_arm
def test_states_are_kept_from_sample_to_sample(tmp_path: Path):
    """The network adds each input to a state."""
    value = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xhy"}
    nodes = [helper.make_node("Add", ["x", "h"], ["y"], "sum")]
    graph = helper.make_graph(nodes, "sums", [value["x"], value["h"]], [value["y"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "sums.onnx"
    path.write_bytes(model.SerializeToString())
    states = ("--state", "h=y", "--quantize", "none")
    folder = compiled(tmp_path, "--target", "c", "--board", "due", *states, model=str(path))
    x = np.arange(12, dtype=np.float32).reshape(3, 1, 4)
    np.savez(tmp_path / "in.npz", x=x)
    inputs = str(tmp_path / "in.npz")
    found = outputs(tmp_path, "core.npz", folder, "--inputs", inputs, "--emulate")
    here = outputs(tmp_path, "here.npz", folder, "--inputs", inputs)
    assert found.keys() == here.keys()
    assert all(found[name].tobytes() == here[name].tobytes() for name in here)


@needs_arm
def test_a_model_is_compiled_for_a_board_and_emulated(tmp_path: Path):
    """The option --weights, which a run on this machine sets, is only for computers."""
    inputs = colours(tmp_path)
    model = (COLOUR, "--inputs", inputs, "--target", "c", "--calibrate", inputs)
    board = ("--board", "nucleo_f446re")
    here = outputs(tmp_path, "here.npz", *model, *board)
    core = outputs(tmp_path, "core.npz", *model, *board, "--emulate")
    assert core["output"].tobytes() == here["output"].tobytes()


@needs_arm
@pytest.mark.slow
def test_the_tutorial_leads_to_values_of_the_core(tool: Tool, tmp_path: Path):
    """The commands after the export run on another network."""
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    section = text.partition("## From PyTorch to an emulated board\n")[2].partition("\n## ")[0]
    block = section.partition("```sh\n")[2].partition("```")[0]
    install, export, *commands = block.splitlines()
    assert "qemu-system-arm" in install and export == "python export.py"
    shutil.copy(COLOUR, tmp_path / "net.onnx")
    shutil.copy(colours(tmp_path), tmp_path / "x.npz")
    printed: list[str] = []
    for command in commands:
        _, name, *arguments = command.split()
        done = tool(f"ceras-{name}", *arguments)
        assert done.status == 0, done.stderr
        printed.append(done.stdout)
    compiled_for, values, verdicts = printed
    assert "predicted for ST Nucleo F446RE" in compiled_for
    assert values.startswith("output [1, 3]")
    assert re.search("^c: cortex-m4 +exact$", verdicts, re.MULTILINE)


@pytest.mark.parametrize(
    ("board", "missing", "message"),
    [
        (
            "nucleo_f446re",
            "qemu-system-arm",
            "unsupported: cortex-m4 is not emulated: qemu-system-arm is not installed; install it",
        ),
        (
            "esp32_c3",
            None,
            "unsupported: rv32imc is not emulated: no emulated core has all instructions of this "
            "core; compile for a board with cortex-m0, ",
        ),
    ],
)
def test_refusals_name_tool_or_core(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    board: str,
    missing: str | None,
    message: str,
):
    monkeypatch.setattr(emulator, "missing_tool", lambda: missing)
    folder, inputs = compiled(tmp_path, "--target", "c", "--board", board), colours(tmp_path)
    capsys.readouterr()
    assert main([folder, "--inputs", inputs, "--emulate"]) == 3
    printed = capsys.readouterr()
    assert message in printed.err and not printed.out
    assert main([folder, "--inputs", inputs]) == 0
    assert NOTE in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--emulate runs compiled code: give --target and --board"),
        (("--target", "c"), "target c was not compiled for one: compile with --board"),
        (("--target", "c", "--board", "raspberry_pi_5"), "not compiled for one"),
    ],
)
def test_emulation_needs_a_microcontroller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
):
    assert main([COLOUR, "--inputs", colours(tmp_path), *options, "--emulate"]) == 2
    assert message in capsys.readouterr().err


def test_emulation_of_a_missing_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    inputs = colours(tmp_path)
    assert main([str(tmp_path / "gone"), "--inputs", inputs, "--emulate"]) == 1
    assert "no such file or folder" in capsys.readouterr().err


def test_a_folder_runs_without_the_file_of_its_board(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder, inputs = compiled(tmp_path, "--target", "c", "--board", "due"), colours(tmp_path)
    manifest = tmp_path / "folder/manifest.json"
    content = json.loads(manifest.read_text())
    assert content["board"] == "due"
    manifest.write_text(json.dumps(content | {"board": "gone.toml"}))
    capsys.readouterr()
    assert main([folder, "--inputs", inputs]) == 0
    assert "not emulated: gone.toml: cannot read" in capsys.readouterr().err
    assert main([folder, "--inputs", inputs, "--emulate"]) == 3
    assert "restore the file of the board" in capsys.readouterr().err
