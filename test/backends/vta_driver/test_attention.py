"""Tiles and biases that the host computes between launches reach the device through caches."""

from pathlib import Path

import numpy as np
import pytest
from attention_networks import heads
from backends.device.folder import build_caches
from backends.vta_driver.board import build, served

from ceras_ir.driver.compile import main as compile_model
from ceras_ir.pipeline.build import open_folder

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("board", ["pynq", "de10nano"])
def test_heads(board: str, tmp_path: Path):
    """Run two samples; the second finds the tiles of the first in the caches."""
    tokens, count, width = 20, 2, 16
    (tmp_path / "m.onnx").write_bytes(heads(tokens, count, width))
    data = np.random.default_rng(2).normal(0, 1, (40, tokens, count * width)).astype(np.float32)
    np.savez(tmp_path / "c.npz", x=data)
    options = ["--calibrate", str(tmp_path / "c.npz"), "--target", "vta", "--board", board]
    out = tmp_path / "out"
    assert compile_model([str(tmp_path / "m.onnx"), *options, "-o", str(out)]) == 0
    build(out)
    expected = [each["y"] for each in open_folder(out).run([{"x": x[None]} for x in data[:2]])]
    with served(tmp_path / "device", out, build_caches(tmp_path), board) as mock:
        done = mock.run(data[:2])
        assert (done.returncode, done.stderr) == (0, "")
        found = np.fromfile(mock.folder / "out.bin", np.float32)
    np.testing.assert_array_equal(found, np.concatenate(expected).astype(np.float32).reshape(-1))
