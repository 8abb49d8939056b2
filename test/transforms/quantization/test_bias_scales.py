"""Test biases with another scale than the products to which they are added."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import model, node
from slow_cases import first_fast

import ceras_ir as ceras
from ceras_ir.driver.run import main as run

INPUTS = np.arange(-128, 128, dtype=np.float32).reshape(256, 1) / 16
"""All stored values of an input of scale 1/16."""

SCALES = {
    "exact": (1.0, 64.0),
    "within a thirty-second of a unit": (0.5, 16.0),
    "beyond": (0.5, 8.0),
}
"""The fraction of an accumulator in the bias, and the accumulators in a unit of the result."""


def product(offset: float, unit: float, *, is_stored: bool) -> onnx.ModelProto:
    """Build `x * 5/16 + bias`, in which a unit of the accumulator is 1/256."""
    bias = np.array([40 + offset], np.float32) / np.float32(256)
    constants = {
        "s": np.float32(1 / 16),
        "z": np.int8(0),
        "w": np.array([[5]], np.int8),
        "t": np.float32(unit / 256),
    }
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w s z", "dw"),
    ]
    if is_stored:
        constants |= {"b": (bias * 1024).astype(np.int32), "u": np.float32(1 / 1024)}
        nodes.append(node("DequantizeLinear", "b u", "db"))
    else:
        constants |= {"db": bias}
    nodes += [
        node("Gemm", "d dw db", "c"),
        node("QuantizeLinear", "c t z", "r"),
        node("DequantizeLinear", "r t z", "y"),
    ]
    return model(nodes, {"x": (256, 1)}, ["y"], constants, infer=False)


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("scales", SCALES)
def test_a_bias_is_rounded_only_where_the_result_hardly_moves(
    scales: str, is_stored: bool, tmp_path: Path
):
    offset, unit = SCALES[scales]
    path = tmp_path / "m.onnx"
    path.write_bytes(product(offset, unit, is_stored=is_stored).SerializeToString())
    quantized = ceras.load(path).quantize(target="c")
    result = quantized.run({"x": INPUTS[None]})["y"][0]
    quotient = (INPUTS.astype(np.float64) * 5 * 16 + 40 + offset) / unit
    expected = np.clip(np.rint(quotient), -128, 127) * unit / 256
    is_integer = "graph.requant" in str(quantized)
    assert is_integer == (scales != "beyond")
    # Convolutions and products round ties up, and float operations to even.
    is_tie = np.abs(quotient - np.floor(quotient) - 0.5) <= (1 / 32 if is_integer else 0)
    np.testing.assert_array_equal(result[~is_tie], expected[~is_tie])
    assert (np.abs(result - expected) <= unit / 256).all()


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
    # A power of two, so that float sums are exact and 0 remains 0.
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
