"""Fixtures for all tests: the commands as a user runs them."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Result:
    """What a command did."""

    status: int
    stdout: str
    stderr: str


Tool = Callable[..., Result]
"""`tool(command, *arguments, stdin=...)` runs a command of this project in the test's folder."""


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    """Run a command of this project in a folder of the test's own."""

    def run(command: str, *arguments: str | Path, stdin: str | bytes = "") -> Result:
        executable = Path(sys.executable).with_name(command)
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [executable, *arguments], input=data, capture_output=True, cwd=tmp_path, check=False
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
