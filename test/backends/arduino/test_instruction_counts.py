"""Test that the Cortex-M4 benchmark runs, and that integers and figures are as required."""

import subprocess
import sys
from pathlib import Path

import pytest
from c_harness import needs_arm

SCRIPT = Path(__file__).parents[3] / "benchmarks/cortex_m.py"
ASKED = {"3x3, C = 32": 0.60, "1x1, K = 32": 1.1, "FC 256 to 64": 1.5, "depthwise 3x3": 3.2}
"""The required figures; depthwise layers have no requirement."""


@pytest.mark.slow
@needs_arm
@pytest.mark.parametrize("flags", ["-O2", "-Os"])
def test_int8_layers_take_no_more_than_asked(flags: str):
    done = subprocess.run(
        [sys.executable, SCRIPT, f"--flags={flags}"], capture_output=True, text=True, check=True
    )
    counted: dict[str, float] = {}
    for line in done.stdout.splitlines():
        for name in ASKED:
            if line.startswith(name):
                counted[name] = float(line.removeprefix(name).split()[2])
    assert counted.keys() == ASKED.keys()
    assert all(counted[name] <= ASKED[name] for name in ASKED), counted
