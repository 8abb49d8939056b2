"""Biases that have another scale than the products to which they are added."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import model, node

import ceras_ir as ceras

INPUTS = np.arange(-128, 128, dtype=np.float32).reshape(256, 1) / 16
"""Each stored value of an input of scale 1/16."""

SCALES = {
    "exact": (1.0, 64.0),
    "within a thirty-second of a unit": (0.5, 16.0),
    "beyond": (0.5, 8.0),
}
"""The fraction of an accumulator in the bias, and the accumulators in a unit of the result."""


def product(offset: float, unit: float, *, is_stored: bool) -> onnx.ModelProto:
    """`x * 5/16 + bias`, in which an accumulator is 1/256."""
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
