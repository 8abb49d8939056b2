"""The bound of the stack, compared with the stack of emulated runs and with small programs."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_models as om
import pytest
from c_harness import needs_arm
from onnx import TensorProto
from recurrent_networks import lstm_layer
from tree_models import ml_model, ml_node, node_attributes, random_trees

from ceras_ir.backends.c.call_graph import (
    INDIRECT,
    RISCV,
    THUMB,
    Function,
    NoBoundError,
    compiled_functions,
    linked_functions,
    stack_bound,
)
from ceras_ir.backends.c.emulator import EmulatedModel
from ceras_ir.backends.c.machines import Board, load_machine
from ceras_ir.driver.compile import main as ceras_compile
from ceras_ir.pipeline.build import read_manifest

DIGITS = Path(__file__).parents[3] / "examples/digits"


def forest() -> onnx.ModelProto:
    nodes = random_trees(3, trees=8, depth=5, features=6, targets=3)
    attributes = node_attributes(nodes, "class") | {"classlabels_int64s": [0, 1, 2]}
    attributes["post_transform"] = "SOFTMAX"
    tree = ml_node("TreeEnsembleClassifier", ["x"], ["label", "scores"], **attributes)
    return ml_model([tree], [1, 6], {"label": TensorProto.INT64, "scores": TensorProto.FLOAT})


def floats() -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    nodes = [
        om.node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        om.node("Tanh", "c", "t"),
        om.node("Flatten", "t", "f"),
        om.node("Gemm", "f wo", "s"),
        om.node("Softmax", "s", "y"),
    ]
    weights = {
        "w": rng.normal(size=(4, 2, 3, 3)).astype(np.float32),
        "wo": rng.normal(size=(4 * 36, 5)).astype(np.float32),
    }
    return om.model(nodes, {"x": [1, 2, 6, 6]}, ["y"], weights)


def compiled(folder: Path, network: str, *options: str) -> dict[str, Any]:
    """Compile a network for a board and return the report."""
    if network == "digits":
        source = DIGITS / "digits.onnx"
        options = *options, "--calibrate", str(DIGITS / "digits_calibration.npz")
    else:
        source = folder / "network.onnx"
        source.write_bytes(NETWORKS[network]().SerializeToString())
    command = [str(source), "--target", "c", "-o", str(folder / "out"), *options]
    assert ceras_compile(command) == 0
    return json.loads((folder / "out/report.json").read_text())


NETWORKS = {"lstm": lstm_layer, "floats": floats, "forest": forest}


@pytest.mark.sample(16)
@needs_arm
@pytest.mark.slow
@pytest.mark.parametrize("board", ["nano_33_ble", "nano_33_iot", "alif_e7_hp"])
@pytest.mark.parametrize("goal", ["size", "balanced", "speed"])
@pytest.mark.parametrize("network", ["digits", *NETWORKS])
def test_the_bound_holds_and_is_tight(network: str, goal: str, board: str, tmp_path: Path):
    report = compiled(tmp_path, network, "--board", board, "--optimize", goal)
    out, work = tmp_path / "out", tmp_path / "work"
    work.mkdir()
    manifest, machine = read_manifest(out), load_machine(board)
    assert isinstance(machine, Board)
    sources = [out / "model.c", out / "model_weights.c"]
    model = EmulatedModel(
        sources,
        manifest.inputs,
        manifest.outputs,
        machine,
        work,
        flags=(report["optimize"]["goals"][goal]["level"],),
    )
    rng = np.random.default_rng(2)
    model.run([{t.name: rng.normal(size=t.shape) for t in manifest.inputs} for _ in range(3)])
    bound, measured = report["totals"]["stack_bytes"], max(model.stack_bytes)
    assert 0 < measured <= bound <= 1.5 * measured + 64
    assert manifest.content["stack_bytes"] == bound


GRAPH = """graph: { title: "model.c"
node: { title: "model.c:layer" label: "layer\\nmodel.c:3:1\\n40 bytes (static)" }
node: { title: "memcpy" label: "memcpy\\nstring.h:1:1" shape : ellipse }
edge: { sourcename: "model.c:layer" targetname: "memcpy" label: "model.c:4:1" }
node: { title: "model_run" label: "model_run\\nmodel.c:9:1\\n8 bytes (static)" }
edge: { sourcename: "model_run" targetname: "model.c:layer" label: "model.c:10:1" }
}
"""
PROGRAM = """
00000000 <layer>:
   0:\tpush\t{r4, lr}
   2:\tbl\t20 <memcpy>
   6:\tcbz\tr0, 2 <layer+0x2>
   8:\tpop\t{r4, pc}

0000000a <model_run>:
   a:\tb.n\t0 <layer>
   c:\tnop

00000020 <memcpy>:
  20:\tstmdb\tsp!, {r0, r4-r6, lr}
  24:\tvpush\t{d8-d9}
  28:\tsub\tsp, #12

0000002a <continued>:
  2a:\tstr.w\tlr, [sp, #-4]!
  2e:\tbx\tlr
"""


def bound_of(graph: str, program: str) -> tuple[tuple[str, int], ...]:
    linked = linked_functions(program, THUMB)
    return stack_bound("model_run", compiled_functions(graph), linked).frames


def test_frames_of_the_library_follow_from_the_disassembly():
    frames = ("model_run", 8), ("layer", 40), ("memcpy", 20 + 16 + 12), ("continued", 4)
    assert bound_of(GRAPH, PROGRAM) == frames


def test_assembler_statements_count_although_the_compiler_does_not_report_them():
    program = PROGRAM.replace("{r4, lr}", "{r0-r12, lr}")
    assert bound_of(GRAPH, program)[1] == ("layer", 56)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("40 bytes (static)", "40 bytes (dynamic)", "the frame of layer has no fixed size"),
        ('targetname: "memcpy"', f'targetname: "{INDIRECT}"', "layer calls a function through a"),
        ("bl\t20 <memcpy>", "bl\ta <model_run>", "model_run is recursive"),
        ("bl\t20 <memcpy>", "bl\t0 <layer>", "layer is recursive"),
        ("sub\tsp, #12", "sub\tsp, r3", "the frame of memcpy has no fixed size"),
        ("sub\tsp, #12", "blx\tr3", "memcpy calls a function through a pointer"),
        ("bl\t20 <memcpy>", "bl\t90 <memset>", "layer calls memset, which is not in the program"),
    ],
)
def test_programs_without_a_bound_are_named(before: str, after: str, reason: str):
    assert before in GRAPH + PROGRAM
    with pytest.raises(NoBoundError, match=reason):
        bound_of(GRAPH.replace(before, after), PROGRAM.replace(before, after))


def test_a_far_jump_is_no_recursion():
    """A Cortex-M0 has no other instruction for a jump of this distance."""
    program = PROGRAM.replace("cbz\tr0, 2 <layer+0x2>", "bl\t2 <layer+0x2>")
    assert bound_of(GRAPH, program) == bound_of(GRAPH, PROGRAM)


def test_routines_of_riscv_that_store_registers_count_in_their_caller():
    program = """
10000000 <expf>:
10000000:\tjal\tt0,10000020 <__riscv_save_4>
10000004:\taddi\tsp,sp,-32
10000006:\tjr\ta5
1000000a:\tjalr\t-24(ra) # 10000040 <ldexpf>
1000000e:\tret

10000040 <ldexpf>:
10000040:\tadd\tsp,sp,-16
10000042:\tj\t10000030 <__riscv_restore_4>

10000030 <__riscv_restore_4>:
10000030:\tret
"""
    linked = linked_functions(program, RISCV)
    assert linked["expf"] == Function(96, {"ldexpf"})
    frames = stack_bound("expf", {}, linked).frames
    assert frames == (("expf", 96), ("ldexpf", 16), ("__riscv_restore_4", 0))


@pytest.mark.skipif(shutil.which("riscv64-unknown-elf-gcc") is None, reason="needs riscv64 gcc")
def test_a_riscv_board_has_a_bound(tmp_path: Path):
    totals = compiled(tmp_path, "floats", "--board", "esp32_c3")["totals"]
    assert 64 < totals["stack_bytes"] < 1024


def test_without_compiler_the_summary_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PATH", str(tmp_path))
    report = compiled(tmp_path, "forest", "--board", "nano_33_ble")
    reason = "arm-none-eabi-gcc is not installed"
    assert f"stack  unknown: {reason}\n" in capsys.readouterr().out
    assert "stack_bytes" not in report["totals"]
    assert report["stack"] == {"unknown": reason}


def test_a_compiler_that_fails_does_not_stop_the_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    compiler = tmp_path / "arm-none-eabi-gcc"
    compiler.write_text("#!/bin/sh\necho 'unrecognized option' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    compiled(tmp_path, "forest", "--board", "nano_33_ble")
    assert "unrecognized option; gcc 10 or later is required\n" in capsys.readouterr().out


@needs_arm
def test_a_bound_above_the_reserved_stack_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    shipped = Path(__file__).parents[3] / "ceras_ir/backends/c/boards/nano_33_ble.toml"
    board = tmp_path / "small.toml"
    board.write_text(shipped.read_text().replace("stack_bytes = 1024", "stack_bytes = 64"))
    report = compiled(tmp_path, "forest", "--board", str(board))
    totals = report["totals"]
    assert totals["board_stack_bytes"] == 64
    said = capsys.readouterr()
    assert f"stack  {totals['stack_bytes']} of 64 bytes (" in said.out
    assert f"reserves 64: set stack_bytes = {totals['stack_bytes']} or more" in said.err
