"""IREE computes the integers of the interpreter from the exported text, if it is installed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from attention_networks import heads
from conftest import Tool
from onnx_models import model, node

from ceras_ir.backends.mlir.target import MlirTarget
from ceras_ir.driver.commands import verify
from ceras_ir.support.diagnostics import MissingToolError
from ceras_ir.targets.capabilities import Manifest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "upstream-mlir.md"


def test_verification_is_skipped_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without IREE, the other levels are verified, and a run is refused."""
    monkeypatch.setitem(sys.modules, "iree.compiler", None)
    model = tmp_path / "heads.onnx"
    model.write_bytes(heads(4, 1, 8))
    assert verify([str(model), "--quantize", "int8", "--targets", "mlir"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"mlir: machine +skipped: .*IREE is not installed: pip install", printed)
    with pytest.raises(MissingToolError, match="unsupported on this machine"):
        MlirTarget().open(tmp_path, Manifest("mlir", [], [], {}))


@pytest.mark.slow
def test_a_transformer_is_exact(tool: Tool, tmp_path: Path) -> None:
    pytest.importorskip("iree.compiler")
    (tmp_path / "heads.onnx").write_bytes(heads(12, 2, 8))
    done = tool("ceras-verify", "heads.onnx", "--quantize", "int8", "--targets", "c,mlir")
    assert done.status == 0, done.stderr
    assert re.search(r"^mlir: machine +exact$", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_scalars_are_inputs(tool: Tool, tmp_path: Path) -> None:
    pytest.importorskip("iree.compiler")
    proto = model([node("Mul", "x k", "y")], {"x": (2, 3), "k": ()}, ["y"])
    (tmp_path / "scalar.onnx").write_bytes(proto.SerializeToString())
    done = tool("ceras-verify", "scalar.onnx", "--targets", "mlir")
    assert done.status == 0, done.stderr
    assert re.search(r"^mlir: machine +exact$", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    """The other commands of the page are checked with all pages (`test_docs.py`)."""
    pytest.importorskip("iree.compiler")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = PAGE.read_text("utf-8")
    first = re.findall(r"^\$ (.*(?:\n> .*)*)", text, re.MULTILINE)
    (block,) = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for command in [*first, *block.splitlines()]:
        words = ["bash", "-c", command.replace("\n> ", "\n")]
        folder = Path(sys.executable).parent
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            words, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, (command, done.stderr[-2000:])
