"""Check user errors: a diagnostic, the exit status, no traceback, no output file."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ceras_ir.driver.opt import tool as opt

GOOD = "func.func @f() {\n  func.return\n}\n"

BAD_TEXT: dict[str, tuple[bytes, str]] = {
    "syntax": (b"func.func @f( {\n}\n", "in.mlir:1:15: error: Expected argument or type"),
    "unknown operation": (
        b'"no.op"() : () -> ()\n',
        "in.mlir:1:2: error: Operation no.op is not registered; --load-dialect-plugin=F.py loads",
    ),
    "mistyped operation": (
        b"func.func @f(%a: i32) {\n  %b = arith.mulii %a, %a : i32\n  func.return\n}\n",
        "in.mlir:2:8: error: Operation arith.mulii is not registered; did you mean 'arith.muli'?",
    ),
    "verifier": (
        b"func.func @f() -> i32 {\n  func.return\n}\n",
        "in.mlir:2:3: error: 'func.return' op Expected arguments to have the same types",
    ),
    "use before definition": (
        b"func.func @f() {\n  %a = arith.addi %b, %b : i32\n"
        b"  %b = arith.constant 1 : i32\n  func.return\n}\n",
        "in.mlir:2:3: error: 'arith.addi' op operand #0 (%b) is used before its definition",
    ),
    "not UTF-8": (b"func.func @f\xff", "in.mlir: error: not UTF-8 text (byte 0xff at offset 12)"),
    "open string": (b'"a' + b"0" * 200, "in.mlir:1:1: error: End of file reached"),
    "nested operations": (b'"func.func"() ({' * 999, "operations are nested more than 64 deep"),
    "nested attribute": (
        b"module attributes {a = " + b"[" * 20000,
        "in.mlir:1:1: error: attributes or types are nested too deeply",
    ),
    "constant of another size": (
        b"func.func @f() {\n  %a = arith.constant dense<[1, 2]> : tensor<3xi8>\n  func.return\n}\n",
        "in.mlir:3:3: error: Shape mismatch in dense literal",
    ),
    "a function without a type": (
        b'"func.func"() <{sym_name = "f"}> ({\n  "func.return"() : () -> ()\n}) : () -> ()\n',
        "in.mlir:1:1: error: 'func.func' op property 'function_type' expected",
    ),
    "a property that is an attribute too": (
        b'%x = "arith.constant"() <{value = 1 : i32}> {value = 2 : i32} : () -> i32\n',
        "in.mlir:1:1: error: 'arith.constant' op 'value' is both a property and an attribute",
    ),
    "plain exception of xDSL": (
        b"func.func @f(%m: memref<4xi8>) {\n  %a = memref.load %m[] : memref<4xi8>\n"
        b"  func.return\n}\n",
        "in.mlir:2:3: error: ",
    ),
    "many errors": (
        b"".join(b"func.func @f%d() -> i32 {\n  func.return\n}\n" % i for i in range(100)),
        "... and 71 more lines",
    ),
}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in a separate folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", BAD_TEXT)
def test_bad_text(in_folder: Path, capsys: pytest.CaptureFixture[str], case: str):
    text, message = BAD_TEXT[case]
    (in_folder / "in.mlir").write_bytes(text)
    (in_folder / "out.mlir").write_text("an earlier result")
    assert opt.main(["in.mlir", "--cse", "-o", "out.mlir"]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert len(captured.err.splitlines()) <= 30
    assert max(map(len, captured.err.splitlines())) <= 200
    assert not captured.out
    assert (in_folder / "out.mlir").read_text() == "an earlier result"
    assert sorted(os.listdir()) == ["in.mlir", "out.mlir"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("missing.mlir", 1, "missing.mlir: error: No such file or directory"),
        ("missing.onnx", 1, "missing.onnx: error: No such file or directory"),
        (".", 1, ".: error: Is a directory"),
        ("in.mlir -o no/out.mlir", 1, "no/out.mlir: error: cannot write: No such file"),
        ("in.mlir -o .", 1, ".: error: Is a directory; give a file, not a folder"),
        ("in.mlir --csee", 2, "unknown option '--csee'; did you mean '--cse'?"),
        ("in.mlir --elide-constant", 2, "did you mean '--elide-constants'?"),
        ("in.mlir -p cse,dec", 2, "unknown pass 'dec'; did you mean 'dce'?"),
        ("in.mlir --fuse-gelu", 2, "pass 'fuse-gelu' was removed: fuse-functions recognizes all"),
        (
            "in.mlir --keep-masks-in-float",
            2,
            "pass 'keep-masks-in-float' was removed: it is a rule of a pass, write "
            "keep-in-float{rules=masks}",
        ),
        ("in.mlir --fuse-pad", 2, "write fuse-windows{rules=pads}"),
        ("in.mlir --keep-in-float=rules=mask", 2, "has no rule 'mask'; did you mean 'masks'?"),
        ("in.mlir -p set-recipe", 2, "pass 'set-recipe' was removed: nothing is tried"),
        ("in.mlir -p cse{", 2, "missing '}' in the pipeline 'cse{'"),
        ("in.mlir -p", 2, "expected one argument"),
        ("in.mlir --cse=x=1", 2, "pass 'cse' has no option 'x' (it has no options)"),
        ("in.mlir -t mlri", 2, "unknown target 'mlri'; did you mean 'mlir'?"),
        ("in.mlir other.mlir", 2, "more than one input file: 'other.mlir'"),
        ("--help-pass=csee", 2, "unknown pass 'csee'; did you mean 'cse'?"),
        ("in.mlir --print-ir-after=ces", 2, "unknown pass 'ces'"),
        ("in.mlir --load-pass-plugin=no.py", 1, "no.py: error: No such file"),
        ("in.mlir --load-pass-plugin=in.mlir", 1, "in.mlir: error: is not a Python file"),
        ("in.mlir --load-pass-plugin=fails.py", 1, "fails.py:2:1: error: ZeroDivisionError"),
        ("in.mlir --load-pass-plugin=empty.py", 1, "empty.py: error: defines no subclass of"),
        ("in.mlir --load-dialect-plugin=empty.py", 1, "empty.py: error: defines no xdsl"),
    ],
)
def test_bad_command_line(
    in_folder: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    status: int,
    message: str,
):
    (in_folder / "in.mlir").write_text(GOOD)
    (in_folder / "fails.py").write_text("x = 1\ny = x / 0\n")
    (in_folder / "empty.py").write_text("from xdsl.passes import ModulePass\n")
    before = sorted(os.listdir())
    assert opt.main(arguments.split()) == status
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.splitlines()) <= 2
    assert not captured.out
    assert sorted(os.listdir()) == before


def test_a_split_input_reports_all_its_parts(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    bad = "func.func @f() -> i32 {\n  func.return\n}\n"
    (in_folder / "in.mlir").write_text("// -----\n".join([bad, GOOD, bad]))
    assert opt.main(["in.mlir", "--split-input-file", "-o", "out.mlir"]) == 1
    places = [line.split(" ")[0] for line in capsys.readouterr().err.splitlines()]
    assert places == ["in.mlir:2:3:", "in.mlir:10:3:"]
    assert not (in_folder / "out.mlir").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "// expected-error {{x}}\n", "in.mlir:4:1: error: expected error 'x' was not"),
        ("func.func @f() -> i32 {\n  func.return\n}\n", "in.mlir:2:3: error: unexpected error:"),
        (
            "func.func @f() -> i32 {\n  // expected-error@+1 {{other}}\n  func.return\n}\n",
            "in.mlir:2:1: error: expected error 'other' was not produced",
        ),
    ],
)
def test_verify_diagnostics_fails(
    in_folder: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
):
    (in_folder / "in.mlir").write_text(text)
    assert opt.main(["in.mlir", "--verify-diagnostics"]) == 1
    assert message in capsys.readouterr().err


MARKER = """
from xdsl.passes import ModulePass


class MarkerPass(ModulePass):
    name = "marker"

    def apply(self, ctx, op):
        pass


open("loaded", "w").close()
"""


@pytest.mark.slow
def test_interrupt_is_one_line(in_folder: Path):
    # A plugin shows that the tool is running: it is loaded before the standard input is read.
    (in_folder / "marker.py").write_text(MARKER)
    command = Path(sys.executable).with_name("ceras-opt")
    process = subprocess.Popen(
        [command, "-", "--load-pass-plugin=marker.py"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=in_folder,
    )
    deadline = time.monotonic() + 60
    while not (in_folder / "loaded").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "ceras-opt: interrupted\n"


@pytest.mark.slow
def test_closed_output_is_silent(in_folder: Path):
    lines = "".join(f"func.func @f{i}() {{\n  func.return\n}}\n" for i in range(2000))
    (in_folder / "in.mlir").write_text(lines)
    command = Path(sys.executable).with_name("ceras-opt")
    done = subprocess.run(
        f"'{command}' in.mlir | head -1", shell=True, capture_output=True, text=True, check=True
    )
    assert done.stdout == "builtin.module {\n"
    assert done.stderr == ""
