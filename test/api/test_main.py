"""`python -m ceras_ir` lists the commands and runs them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ceras_ir", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.needs("nnet", "vta", "workbench")
def test_every_command_is_listed_and_says_what_it_does() -> None:
    done = run()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = done.stdout.split("commands:\n")[1].splitlines()
    listed = {f"ceras-{line.split()[0]}": line.split()[1:] for line in lines}
    assert done.returncode == 0 and listed.keys() == project["project"]["scripts"].keys()
    assert all(len(words) > 3 for words in listed.values())


@pytest.mark.slow
def test_a_command_runs_with_its_name_and_status() -> None:
    done = run("compile", "nowhere.onnx")
    assert done.returncode == 2 and done.stderr.startswith("ceras-compile: error: ")


def test_a_package_that_is_not_installed_says_so() -> None:
    """Without site packages, xDSL is missing, and perhaps the metadata of this package."""
    command = [sys.executable, "-S", "-m", "ceras_ir", "compile"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not installed; run 'pip install .'" in done.stderr


def test_an_unknown_command_is_wrong_usage() -> None:
    done = run("compil")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "ceras_ir: error: no command 'compil'; did you mean 'compile'?",
        "ceras_ir: try 'python -m ceras_ir --help'",
    ]
