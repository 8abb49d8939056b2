"""
Compare random networks of `fuzz_models.py` with ONNX Runtime, in the interpreter and C.

`make fuzz SEEDS=0:1000` runs more. Seeds that the generator itself drops are not counted.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from onnx_compare import SHARED

from ceras_ir.driver.run import main

GENERATOR = SHARED / "tools" / "fuzz_models.py"
FIRST, LAST = map(int, os.environ.get("CERAS_FUZZ_SEEDS", "0:100").split(":"))
C_EVERY = int(os.environ.get("CERAS_FUZZ_C_EVERY", "4"))
"""C requires a compiler run per network, so only some networks are compiled."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not GENERATOR.exists(), reason="no ../shared/tools/fuzz_models.py"),
]


def generate(seed: int, folder: Path) -> bool:
    """Write the network of a seed; False for seeds that the generator drops."""
    if str(GENERATOR.parent) not in sys.path:
        sys.path.append(str(GENERATOR.parent))
    return str(import_module(GENERATOR.stem).one(seed, folder, 14, "none")).startswith("ok")


@pytest.mark.sample(50)
@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_network(seed: int, tmp_path: Path) -> None:
    if not generate(seed, tmp_path):
        pytest.skip("the generator drops this seed")
    network = tmp_path / f"s{seed:06d}"
    targets = ["interp", "c"] if seed % C_EVERY == 0 else ["interp"]
    tolerance = float(json.loads((network / "meta.json").read_text())["atol"])
    want = np.load(network / "ref.npz")
    for target in targets:
        arguments = [str(network / "model.onnx"), "--inputs", str(network / "in.npz")]
        output = tmp_path / f"{target}.npz"
        status = main([*arguments, "--outputs", str(output), "--target", target])
        # Refusals are reported, and leave no files.
        assert status in (0, 3), target
        assert output.exists() == (status == 0)
        if status:
            continue
        got = np.load(output)
        assert set(got.files) == set(want.files)
        for name in want.files:
            np.testing.assert_allclose(got[name], want[name], 1e-3, tolerance, err_msg=target)
