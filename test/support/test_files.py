"""Check that the current text of a user's file runs, without a cache file."""

import os
import sys
from pathlib import Path

import pytest

from ceras_ir.support.files import run_file


def test_the_source_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Versions of equal length and time are distinguished, unlike byte code."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "mine.py"
    for value in (1, 2):
        path.write_text(f"x = {value}\n")
        os.utime(path, (1, 1))
        assert run_file("ceras_test_mine", str(path)).x == value
    assert os.listdir(tmp_path) == ["mine.py"]
