"""Check that `ceras` and `python -m ceras_ir` list the commands and run them."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ceras_ir.command.dispatch import main
from ceras_ir.command.entry_point import GROUPS, shown_name
from ceras_ir.driver.commands import compile

ROOT = Path(__file__).parents[2]

MODULE = "python -m ceras_ir"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ceras_ir", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_a_closed_pipe_is_no_crash(argument: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ceras_ir", argument]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_no_code_of_the_current_folder_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("struct", "argparse", "csv", "numpy", "helper"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the current folder')")
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    (plugin / "mine.py").write_text("import helper\n")
    done = run("opt", "no.mlir", "--load-pass-plugin=plugin/mine.py")
    assert (
        done.stderr == "plugin/mine.py:1:1: error: ModuleNotFoundError: No module named 'helper'\n"
    )
    assert done.returncode == 1


@pytest.mark.needs("nnet", "vta", "workbench")
def test_every_command_is_listed_and_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    lines = [line.split() for line in listed.splitlines() if line.startswith("  ")]
    words = {f"ceras-{name}": text for name, *text in lines if name != "ceras"}
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {"ceras", *words} == scripts.keys()
    assert all(len(text) > 3 for text in words.values())
    headings = [line for line in listed.splitlines() if line.endswith(":")]
    assert headings == [*(f"{group}:" for group in GROUPS), "examples:"]
    assert len([name for name, *_ in lines if name == "ceras"]) == 2


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"]], ids=" ".join)
def test_the_list_has_several_spellings(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert ":\n\n" not in listed, "a group without commands"
    assert main(arguments) == 0
    assert capsys.readouterr().out == listed


def test_the_list_imports_no_command() -> None:
    """The list is printed in a fraction of the time that these modules need."""
    program = (
        "import sys; from ceras_ir.command.dispatch import main; assert main(['--help']) == 0; "
        "slow = {'xdsl', 'numpy', 'onnx', 'inspect', 'argparse'} & sys.modules.keys(); "
        "assert not slow, slow; assert 'ceras_ir.driver.compile' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=True)


INTERRUPTED_IMPORT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupt:
    def find_spec(name, path, target=None):
        if name == "importlib.metadata":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt)
from ceras_ir.command.dispatch import main
sys.exit(main(["compile"]))
"""


def test_an_interrupt_before_the_command_is_found() -> None:
    run = [sys.executable, "-c", INTERRUPTED_IMPORT]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "ceras: interrupted\n")


def test_help_of_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ceras"])
    printed: list[str] = []
    for arguments in (["help", "compile"], ["compile", "--help"], ["ceras-compile", "--help"]):
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
        printed.append(capsys.readouterr().out)
    assert printed[0].startswith("usage: ceras compile MODEL.onnx ")
    assert len(set(printed)) == 1


@pytest.mark.slow
def test_messages_have_the_words_of_the_user() -> None:
    done = run("compile", "nowhere.onnx")
    assert done.returncode == 2
    assert done.stderr.startswith(f"{MODULE} compile: error: ")
    assert done.stderr.endswith(f"{MODULE} compile: try '{MODULE} compile --help'\n")


def test_a_command_has_its_name_again_afterwards(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ceras"])
    assert main(["compile", "--tagret"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "ceras compile: error: unknown option '--tagret'; did you mean '--target'?"
    assert second == "ceras compile: try 'ceras compile --help'"
    assert shown_name("ceras-compile") == "ceras-compile"
    assert compile(["--tagret"]) == 2
    assert capsys.readouterr().err.startswith("ceras-compile: error: unknown option")


def test_a_package_that_is_not_installed_says_so() -> None:
    """Without site packages, xDSL is missing, and perhaps the metadata of this package."""
    command = [sys.executable, "-S", "-m", "ceras_ir", "compile"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not installed; run 'pip install .'" in done.stderr


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("compil", "no command 'compil'; did you mean 'compile'?"),
        ("--verson", "no option '--verson'; did you mean '--version'?"),
    ],
)
def test_an_unknown_word_is_wrong_usage(
    word: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [f"ceras: error: {message}", "ceras: try 'ceras --help'"]
    done = run(word)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1] == f"{MODULE}: try '{MODULE} --help'"
