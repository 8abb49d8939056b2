"""Check that `--bisect-passes` names the pass that changes outputs, in three commands."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.run import main as run_main
from ceras_ir.driver.verify.tool import main as verify_main

Tool = Callable[[Sequence[str]], int]

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin" / "swap_function.py"
NETWORK = """
func.func @main(%x: tensor<4xf32> {graph.name = "x"}) -> tensor<4xf32> {
  %y = graph.unary <relu> %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""
TOOLS: dict[str, tuple[Tool, list[str]]] = {
    "compile": (compile_main, ["--target", "c", "-o", "out"]),
    "run": (run_main, ["--target", "c", "--inputs", "x.npz", "--outputs", "out"]),
    "interpret": (run_main, ["--inputs", "x.npz", "--outputs", "out"]),
    "verify": (verify_main, ["--targets", "c", "--quantize", "none"]),
    "verify inputs": (verify_main, ["--targets", "c", "--quantize", "none", "--inputs", "x.npz"]),
}


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("new", ["relu", "exp"])
def test_the_wrong_pass_is_named(
    name: str,
    new: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(NETWORK)
    np.savez("x.npz", x=np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))
    tool, options = TOOLS[name]
    added = ["--at", "fused graph", f"swap-function{{old=relu new={new}}}"]
    command = ["m.mlir", *options, f"--load-pass-plugin={PLUGIN}", *added, "--bisect-passes"]
    status = tool(command)
    said = capsys.readouterr().err
    if new == "relu":
        assert (status, said) == (0, "")
    else:
        assert status == 1 and "'swap-function' changes the outputs: on sample" in said
        assert "ceras-opt" in said and not Path("out").exists()


@pytest.mark.parametrize("bisect", [False, True])
@pytest.mark.parametrize("level", ["imported graph", "fused graph"])
@pytest.mark.parametrize("quantize", ["none", "int8"])
def test_synthetic_inputs_have_both_signs(
    level: str,
    quantize: str,
    bisect: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """The pass is wrong only for negative values, which the default range does not have."""
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(NETWORK)
    added = ["--at", level, "swap-function{old=relu new=abs}"]
    command = ["m.mlir", "--targets", "c", "--quantize", quantize]
    command += [f"--load-pass-plugin={PLUGIN}", *added, *["--bisect-passes"] * bisect]
    assert verify_main(command) == 1
    captured = capsys.readouterr()
    said = "'swap-function' changes the outputs" if bisect else f"{level}, swap-function"
    assert said in captured.out + captured.err


def test_levels_before_the_wrong_pass_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(NETWORK)
    added = ["--at", "placed graph", "swap-function{old=relu new=exp}"]
    options = TOOLS["verify"][1]
    command = ["m.mlir", *options, f"--load-pass-plugin={PLUGIN}", *added, "--bisect-passes"]
    assert verify_main(command) == 1
    captured = capsys.readouterr()
    assert "c: placed graph " in captured.out and "exact" in captured.out
    assert "'swap-function' changes the outputs" in captured.err


@pytest.mark.parametrize(
    ("tool", "options", "message"),
    [
        (verify_main, ["--inputs", "x.npz", "--workers", "2"], "remove --workers"),
        (run_main, ["--inputs", "x.npz", "--outputs", "y.npz"], "remove --bisect-passes"),
    ],
)
def test_what_cannot_be_bisected_is_refused(
    tool: Tool,
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(NETWORK)
    assert compile_main(["m.mlir", "--target", "c", "-o", "folder"]) == 0
    model = "folder" if tool is run_main else "m.mlir"
    assert tool([model, *options, "--bisect-passes"]) == 2
    assert message in capsys.readouterr().err
