"""Check that commands multiply on a single thread unless the environment sets the number."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
import os
import numpy as np

def main(argv):
    np.ones((512, 512)) @ np.ones((512, 512))
    print(os.environ["OPENBLAS_NUM_THREADS"], len(os.listdir("/proc/self/task")))
    return 0
"""

PROGRAM = """
from ceras_ir.command.entry_point import Command
raise SystemExit(Command("ceras-opt", "", "multiplies")([]))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="no /proc")
@pytest.mark.parametrize("said, expected", [(None, "1"), ("2", "2")])
def test_threads(tmp_path: Path, said: str | None, expected: str) -> None:
    (tmp_path / "multiplies.py").write_text(MODULE)
    known = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    given = {} if said is None else {"OPENBLAS_NUM_THREADS": said}
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**known, **given, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    setting, threads = done.stdout.split()
    assert setting == expected
    if said is None:
        assert int(threads) == 1
