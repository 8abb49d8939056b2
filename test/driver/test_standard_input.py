"""Test `-` for text on standard input and output, and files that are no models."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Tool

from ceras_ir.data.array_archive import load_arrays

RELU = """
func.func @main(%x: tensor<1x4xf32> {graph.name = "x"}) -> (tensor<1x4xf32> {graph.name = "y"}) {
  %a = graph.unary <relu> %x : tensor<1x4xf32>
  %y = graph.unary <exp> %a : tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}
"""


@pytest.mark.needs("workbench")
def test_text_from_a_pipe_is_reduced(tool: Tool) -> None:
    arguments = "-", "--test", "grep -q relu {input}", "-o", "-"
    done = tool("ceras-reduce", *arguments, stdin=RELU)
    assert done.status == 0
    assert "<relu>" in done.stdout and "<exp>" not in done.stdout
    assert done.stderr.startswith("<stdin>: 2 operations, reduced to 1")


def test_text_from_a_pipe_runs(tool: Tool, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.full((1, 4), -1.0, np.float32))
    done = tool("ceras-run", "-", "--inputs", "in.npz", "--outputs", "out.npz", stdin=RELU)
    assert (done.status, done.stderr) == (0, "")
    assert (load_arrays(str(tmp_path / "out.npz"))["y"] == 1).all()


@pytest.mark.needs("workbench")
@pytest.mark.parametrize("command", ["ceras-run", "ceras-verify", "ceras-reduce"])
def test_mistakes_in_a_pipe_have_lines(command: str, tool: Tool) -> None:
    more = {
        "ceras-run": ("--inputs", "in.npz", "--outputs", "out.npz"),
        "ceras-verify": (),
        "ceras-reduce": ("--test", "true {input}", "-o", "-"),
    }[command]
    done = tool(command, "-", *more, stdin=RELU.replace("graph.unary", "graph.wrong"))
    assert done.status == 1
    assert done.stderr.startswith("<stdin>:3:")


def test_a_model_in_a_pipe(tool: Tool) -> None:
    """This byte starts no character of UTF-8."""
    done = tool("ceras-opt", "-", stdin=b"\xea")
    assert done.status == 1
    assert "give an ONNX model as a file" in done.stderr


def test_a_compile_names_its_model(tool: Tool, tmp_path: Path) -> None:
    done = tool("ceras-compile", "-", "-o", "out", "--target", "c", stdin=RELU)
    assert done.status == 2
    assert "give a file instead of -" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.needs("workbench")
def test_requests_from_a_pipe_are_planned(tool: Tool) -> None:
    rows = "id,lower,upper,size\na,0,2,8\n"
    done = tool("ceras-plan", "-", "--capacity", "8", "-o", "-", stdin=rows)
    assert (done.status, done.stdout) == (0, "id,lower,upper,size,offset\na,0,2,8,0\n")
    assert done.stderr.startswith("1 requests, peak 8 of 8 bytes")


def test_a_pointer_of_git_lfs_is_no_model(tool: Tool, tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"
    (tmp_path / "m.onnx").write_text(pointer)
    done = tool("ceras-opt", "m.onnx")
    assert done.status == 1
    assert "m.onnx: error: a pointer of Git LFS" in done.stderr


@pytest.mark.needs("workbench")
def test_a_report_is_of_a_folder(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    done = tool("ceras-report", "m.onnx")
    assert (done.status, done.stdout) == (1, "")
    assert "m.onnx: error: not a folder; expected a folder of ceras-compile" in done.stderr
