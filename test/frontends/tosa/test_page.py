"""Compare the table of operations and the example in docs/upstream-mlir.md with the importer."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.parsing import read_network

ROOT = Path(__file__).parents[3]


def test_the_table_of_operations_is_current():
    command = [sys.executable, "benchmarks/tosa_operations.py", "--check", "docs/upstream-mlir.md"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_example_is_a_convolution():
    module = read_network(str(ROOT / "examples/block.tosa.mlir"))
    image = np.random.default_rng(0).normal(0, 1, (1, 8, 8, 3)).astype(np.float32)
    (found,) = run(module, {"image": image}).values()
    padded = np.pad(image, ((0, 0), (1, 0), (1, 0), (0, 0)))
    for y, x in np.ndindex(4, 4):
        window = padded[0, 2 * y : 2 * y + 3, 2 * x : 2 * x + 3]
        sums = 0.25 * float(window.sum(dtype=np.float64)) + np.array([1, -1])
        np.testing.assert_allclose(found[0, y, x], sums.clip(0, 6), atol=1e-5)
