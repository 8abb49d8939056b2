"""Test consoles without UTF-8: names are printed as escapes, and results are equal."""

import os
import subprocess
import sys
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pytest
from onnx_models import model, node
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.output_files import open_output
from ceras_ir.frontends.onnx import import_model
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text

NAME = "größe→😀"

ENVIRONMENTS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


def printed(module: ModuleOp) -> str:
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(module)
    return stream.getvalue()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_text_on_the_standard_output(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(buffer, encoding))

    def main(_: object) -> int:
        print(NAME)
        with open_output("-") as stream:
            stream.write(NAME)
        print(NAME)
        return 0

    assert run_tool("ceras-opt", main, []) == 0
    shown = NAME.encode(encoding, "backslashreplace")
    assert buffer.getvalue() == shown + b"\n" + NAME.encode() + shown + b"\n"


def test_names_in_ir_text() -> None:
    """Names that are not ASCII are printed as escaped bytes, and parsed again."""
    layer = node("Relu", NAME, "ü", NAME)
    module = import_model(model([layer], {NAME: (1, 4)}, ["ü"]))
    text = printed(module)
    assert NAME not in text
    assert printed(parse_text(load_context(), text, "m.mlir")) == text


@pytest.mark.needs("workbench")
@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_commands(environment: str, tmp_path: Path) -> None:
    constants = {"w": np.ones((4, 3), np.float32)}
    layers = [node("MatMul", "x w", NAME, NAME), node("Relu", NAME, "y", "y")]
    proto = model(layers, {"x": (1, 4)}, ["y"], constants)
    (tmp_path / f"{NAME}.onnx").write_bytes(proto.SerializeToString())
    proto.graph.node[0].op_type = "Unknown"
    (tmp_path / "unknown.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "in.npz", x=np.ones((40, 4), np.float32))

    def tool(command: str, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [Path(sys.executable).parent / command, *arguments],
            cwd=tmp_path, env={**os.environ, **ENVIRONMENTS[environment]}, capture_output=True,
        )  # fmt: skip
        assert b"Traceback" not in done.stderr and b"codec" not in done.stderr
        return done.returncode, (done.stdout + done.stderr).decode("latin-1")

    data = ("--calibrate", "in.npz")
    assert tool("ceras-compile", f"{NAME}.onnx", "-o", NAME, "--target", "c", *data)[0] == 0
    assert tool("ceras-run", NAME, "--inputs", "in.npz", "--outputs", f"{NAME}.npz")[0] == 0
    assert (np.load(tmp_path / f"{NAME}.npz")["y"] == 4).all()
    status, shown = tool("ceras-compare", f"{NAME}.onnx", "--inputs", "in.npz", *data)
    assert status == 0 and "\\U0001f600" in shown
    status, shown = tool("ceras-run", "unknown.onnx", "--inputs", "in.npz", "--outputs", "o.npz")
    assert status == 3 and "\\u2192\\U0001f600' (Unknown)" in shown
