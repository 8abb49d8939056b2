"""Test target arduino, --prune and --encoding on the command line."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import Tool

pytestmark = pytest.mark.slow

COLOUR = Path(__file__).parents[2] / "examples/colour/colour.onnx"


def test_compile_run_and_interpreter_agree(tool: Tool, tmp_path: Path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "in.npz", input=rng.random((4, 3)).astype(np.float32))
    chosen = ["--prune=threshold=0.02", "--encoding", "csr-int8"]
    done = tool("ceras-compile", COLOUR, "--target", "arduino", *chosen, "-o", "out")
    assert done.status == 0, done.stderr
    assert "predicted for Arduino Uno R4 WiFi" in done.stdout
    assert re.search(r"^flash  [\d,]+ of 262,144 bytes", done.stdout, re.MULTILINE)
    ends = ["--inputs", "in.npz", "--outputs"]
    assert tool("ceras-run", "out", *ends, "board.npz").status == 0
    assert tool("ceras-run", COLOUR, *chosen, *ends, "interpreter.npz").status == 0
    assert tool("ceras-run", COLOUR, "--target", "c", *chosen, *ends, "c.npz").status == 0
    outputs = [np.load(tmp_path / f"{n}.npz")["output"] for n in ("board", "interpreter", "c")]
    assert outputs[0].shape == (4, 3)
    assert outputs[0].tobytes() == outputs[1].tobytes() == outputs[2].tobytes()


def test_the_report_has_both_memories_per_layer_and_in_total(tool: Tool, tmp_path: Path):
    assert tool("ceras-compile", COLOUR, "--target", "arduino", "-o", "out").status == 0
    report = json.loads((tmp_path / "out/report.json").read_text())
    totals, layers = report["totals"], report["layers"]
    assert len(layers) == 3 and all(layer["flash_bytes"] > 0 for layer in layers)
    # Only the weights of the second layer; two results of 80 floats while it runs.
    assert layers[1]["flash_bytes"] >= 80 * 80 and layers[1]["sram_bytes"] == 640
    assert totals["flash_bytes"] == totals["constant_bytes"] + totals["code_bytes"]
    assert sum(layer["flash_bytes"] for layer in layers) <= totals["flash_bytes"]
    assert totals["sram_bytes"] == 640 + 2 * 12
    assert totals["board_flash_bytes"] == 262144


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["--target", "vta", "--encoding", "csr"],
            2,
            "--encoding is an option of targets arduino, c, not vta",
        ),
        (["--target", "c", "--prune=luck=1"], 2, "pass 'prune' has no option 'luck'"),
        (["--target", "c", "--prune=sparsity=2"], 2, "sparsity must be in [0, 1), got 2.0"),
        (["--target", "arduino", "--board", "uno"], 2, "target arduino has no board 'uno'"),
        (
            ["--target", "arduino", "--board", "none.toml"],
            1,
            "none.toml: error: cannot read the",
        ),
    ],
)
def test_contradictions_are_refused_before_any_work(
    tool: Tool, tmp_path: Path, arguments: list[str], status: int, message: str
):
    done = tool("ceras-compile", COLOUR, *arguments, "-o", "out")
    assert (done.status, done.stdout) == (status, "")
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_does_not_fit_leaves_nothing_behind(tool: Tool, tmp_path: Path):
    board = (Path(__file__).parents[2] / "ceras_ir/backends/c/boards/uno_r4_wifi.toml").read_text()
    (tmp_path / "tiny.toml").write_text(
        board.replace("flash_bytes = 262144", "flash_bytes = 6000", 1)
    )
    done = tool("ceras-compile", COLOUR, "--target", "arduino", "--board", "tiny.toml", "-o", "out")
    assert done.status == 3 and "unsupported size" in done.stderr
    assert "What would fit: (1) " in done.stderr and "(3) " in done.stderr
    assert not (tmp_path / "out").exists()
