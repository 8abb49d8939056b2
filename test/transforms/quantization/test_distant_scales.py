"""Averages whose result has a scale far from the input's, as quantizers write for constant data."""

from pathlib import Path

import numpy as np
import pytest
from onnx_models import model, node
from slow_cases import first_fast

from ceras_ir.driver.run import main as run


@pytest.mark.parametrize("ratio", first_fast(2, [1e5, 1e-30, 1e8, 1e12, 1e-5, 1e-8]))
@pytest.mark.parametrize(("kernel", "pad"), [(1, 0), (2, 1), (5, 1)])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_all_saturates_or_vanishes(ratio: float, kernel: int, pad: int, dtype: str, tmp_path: Path):
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("AveragePool", "d", "p", kernel_shape=[kernel] * 2, pads=[pad] * 4),
        node("QuantizeLinear", "p t z", "r"),
        node("DequantizeLinear", "r t z", "y"),
    ]
    # A power of two, so that sums of floats are exact and 0 stays 0.
    scale, point = np.float32(0.125), np.array(3, np.dtype(dtype))
    constants = {"s": scale, "t": np.float32(scale / ratio), "z": point}
    proto = model(nodes, {"x": (1, 2, 7, 7)}, ["y"], constants, infer=False)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    x = np.random.default_rng(0).normal(size=(8, 2, 7, 7)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x * np.float32(5))
    found = list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]()
    for quantize in ("none", "int8"):
        files = ["--inputs", str(tmp_path / "x.npz"), "--outputs", str(tmp_path / "y.npz")]
        assert run([str(tmp_path / "m.onnx"), *files, "--quantize", quantize]) == 0
        found.append(np.load(tmp_path / "y.npz")["y"])
    differs = found[0] != found[1]
    assert not differs.any(), (found[0][differs][:5], found[1][differs][:5], differs.sum())
