"""Test the workflow of examples/ci: its commands run, and conditions fail a job."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest
from core import ROOT

WORKFLOW = ROOT / "examples" / "ci" / "firmware.yml"
DIGITS = ROOT / "examples" / "digits"

pytestmark = [pytest.mark.slow, pytest.mark.needs("workbench")]


@dataclass(frozen=True)
class Step:
    """A step with commands."""

    name: str
    script: str


def steps(text: str) -> list[Step]:
    """List the steps of a workflow that run commands; `run` is a line or an indented block."""
    found: list[Step] = []
    for part in re.split(r"^ {6}- ", text, flags=re.M)[1:]:
        name = re.match(r"name: (.*)\n", part)
        if (block := re.search(r"^ {8}run: \|\n((?: {10}.*\n|\n)+)", part, re.M)) is not None:
            script = dedent(block[1])
        elif (line := re.search(r"^ {8}run: (.+)\n", part, re.M)) is not None:
            script = line[1]
        else:
            continue
        assert name is not None, f"no name: {part}"
        found.append(Step(name[1], script))
    return found


def variables(text: str) -> dict[str, str]:
    """Return the variables of the workflow."""
    (block,) = re.findall(r"^env:\n((?:  .*\n)+)", text, re.M)
    return dict(re.findall(r"^  (\w+): (.*)$", block, re.M))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    for name in ("digits.onnx", *(f"digits_{x}.npz" for x in ("calibration", "test", "labels"))):
        shutil.copy(DIGITS / name, tmp_path / "model")
    return tmp_path


def run(project: Path, script: str) -> "subprocess.CompletedProcess[str]":
    """Run a script as the shell of the workflow does."""
    commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    extra = {"PATH": commands, "GITHUB_STEP_SUMMARY": str(project / "summary.md")}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=project,
        env={**os.environ, **variables(WORKFLOW.read_text()), **extra},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_commands_of_the_workflow_succeed(project: Path) -> None:
    text = WORKFLOW.read_text()
    install, *others = steps(text)
    assert install.script == "pip install ./ceras_ir" and len(others) == text.count("run: |")
    for step in others:
        done = run(project, step.script)
        assert done.returncode == 0, f"{step.name}: {done.stderr}"
    kept = re.findall(r"^ {12}(\S+)$", text.partition("path: |")[2], re.M)
    assert kept == ["build/network", "noise.html"]
    assert all((project / path).exists() for path in kept)
    assert (project / "build/network/report.html").exists()
    summary = (project / "summary.md").read_text()
    assert "compiled for arduino" in summary and "agreement" in summary


def test_a_limit_fails_the_job_and_keeps_the_files(project: Path) -> None:
    (compile_step,) = (s for s in steps(WORKFLOW.read_text()) if s.name == "compile")
    assert "flash>64K" in compile_step.script
    done = run(project, compile_step.script.replace("flash>64K", "flash>16K"))
    assert done.returncode == 1
    assert re.fullmatch(
        r'ceras compile: error: --fail-if "flash>16K": flash_bytes = 2\d,\d{3} bytes, above the '
        r"limit of 16,384 bytes\n",
        done.stderr,
    )
    assert (project / "build/network/manifest.json").exists()
    assert "compiled for arduino" in (project / "build.txt").read_text()
