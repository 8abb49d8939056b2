"""`ceras-new`: the generated test passes in a fresh folder, and no file is overwritten."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from ceras_ir.command.entry_point import commands
from ceras_ir.workbench.new.tool import TEMPLATE_KINDS, main

BINARIES = Path(sys.executable).parent
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def create(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    """Run the command; return the status, the lines of stdout, and stderr."""
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err


def run_in_clean_environment(command: list[str]) -> str:
    done = subprocess.run(
        [str(BINARIES / command[0]), *command[1:]],
        env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


CASES = {
    "pass": ("merge-relu", ["lib/merge_relu.py", "lib/merge_relu.mlir", "lib/lit.cfg.py"]),
    "operation": (
        "toy.half_of",
        [f"lib/{n}" for n in ("half_of.py", "half_of.mlir", "half_of_invalid.mlir", "lit.cfg.py")],
    ),
    "target": ("npu_2", ["lib/npu_2.py", "lib/test_npu_2.py"]),
    "board": ("my_board", ["lib/my_board.toml", "lib/test_my_board.py"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(TEMPLATE_KINDS))
def test_the_generated_test_passes(kind: str, capsys: pytest.CaptureFixture[str]):
    name, written = CASES[kind]
    status, lines, _ = create(capsys, kind, name, "-o", "lib")
    assert status == 0
    assert lines[:-1] == [f"wrote {path}" for path in written]
    assert sorted(written) == sorted(str(p) for p in Path("lib").iterdir())
    start, _, command = lines[-1].partition(": ")
    assert start == "next"
    output = run_in_clean_environment(command.split(" "))
    assert "PASS: " in output if command.startswith("lit ") else " passed" in output
    assert "SKIP" not in output and "skipped" not in output


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(TEMPLATE_KINDS))
def test_the_code_follows_the_style_of_this_project(kind: str, capsys: pytest.CaptureFixture[str]):
    assert create(capsys, kind, CASES[kind][0])[0] == 0
    settings = ["--no-cache", "--config", str(ROOT / "pyproject.toml")]
    # The order of imports depends on the project that the file belongs to.
    run_in_clean_environment(["ruff", "check", "--ignore", "I", *settings, "."])
    run_in_clean_environment(["ruff", "format", "--check", *settings, "."])


@pytest.mark.slow
def test_the_operation_is_verified_in_c():
    assert main(["operation", "scale"]) == 0
    verify = import_module(commands()["verify"].load().module).main
    plugin = "--load-dialect-plugin=scale.py"
    assert verify(["scale.mlir", plugin, "--quantize", "none", "--targets", "c"]) == 0


def test_two_operations_of_a_dialect(capsys: pytest.CaptureFixture[str]):
    opt = import_module(commands()["opt"].load().module).main
    for name in ("half_of", "scale"):
        assert main(["operation", name]) == 0
    text = Path("half_of.mlir").read_text().replace("return %y", "return %z")
    line = next(line for line in text.splitlines() if line.startswith("  %y"))
    second = line.replace("%y = my.half_of %x", "%z = my.scale %y")
    Path("both.mlir").write_text(text.replace(line, f"{line}\n{second}"))
    plugins = [f"--load-dialect-plugin={name}.py" for name in ("half_of", "scale")]
    capsys.readouterr()
    assert opt(["both.mlir", *plugins]) == 0
    printed = capsys.readouterr().out
    assert "my.half_of %x" in printed and "my.scale %y" in printed
    Path("again.py").write_text(Path("scale.py").read_text())
    assert opt(["both.mlir", *plugins, "--load-dialect-plugin=again.py"]) == 2
    assert "again.py: 'my.scale' already exists: rename it" in capsys.readouterr().err


def test_definitions_of_a_folder_share_the_configuration(capsys: pytest.CaptureFixture[str]):
    Path("lit.cfg.py").write_text("# mine\n")
    for name in ("first", "second-of-two"):
        status, lines, _ = create(capsys, "pass", name)
        assert (status, len(lines)) == (0, 3)
    assert Path("lit.cfg.py").read_text() == "# mine\n"


def test_an_existing_file_is_kept(capsys: pytest.CaptureFixture[str]):
    Path("npu.py").touch()
    status, lines, message = create(capsys, "target", "npu")
    assert (status, lines) == (2, [])
    assert "npu.py exists: choose another name or folder, or remove the file" in message
    assert os.listdir() == ["npu.py"] and not Path("npu.py").read_text()


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("pass", "MergeRelu", "joined by '-', such as merge-relu"),
        ("pass", "merge_relu", "'merge_relu' is not a name for a pass: use words of lower-case"),
        ("pass", "merge_relu", "such as merge-relu"),
        ("pass", "../x", "is not a name"),
        ("pass", "-", "is not a name"),
        ("operation", "HalfOf", "joined by '_', such as half_of"),
        ("operation", "a.b.c", "is not a name for an operation"),
        ("target", "my-npu", "such as my_npu"),
        ("board", "2fast", "is not a name for a board"),
        ("pass", "fuse", "a pass or an option of ceras-opt named 'fuse' exists: choose another"),
        ("pass", "split-input-file", "a pass or an option of ceras-opt named"),
        ("operation", "graph.mine", "a dialect named 'graph' exists"),
        ("target", "c", "a target named 'c' exists"),
        ("board", "pico_2", "a board named 'pico_2' exists"),
        ("passes", "x", "did you mean 'pass'?"),
    ],
)
def test_a_wrong_name_is_refused(
    kind: str, name: str, message: str, capsys: pytest.CaptureFixture[str]
):
    status, _, printed = create(capsys, kind, name)
    assert status == 2
    assert message in printed
    assert not os.listdir()


def test_a_folder_that_cannot_be_created(capsys: pytest.CaptureFixture[str]):
    Path("file").touch()
    status, _, printed = create(capsys, "pass", "mine", "-o", "file/lib")
    assert status == 1
    assert printed.startswith("file/lib: error: cannot write")


def test_missing_packages_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def find_nothing(name: str) -> None:
        return None

    monkeypatch.setattr("ceras_ir.workbench.new.tool.find_spec", find_nothing)
    _, lines, _ = create(capsys, "pass", "mine")
    assert lines[-1] == "the test needs: pip install lit filecheck"
