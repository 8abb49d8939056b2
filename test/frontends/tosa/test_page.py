"""Compare the table of operations in docs/upstream-mlir.md with the importer."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_table_of_operations_is_current():
    command = [sys.executable, "benchmarks/tosa_operations.py", "--check", "docs/upstream-mlir.md"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
