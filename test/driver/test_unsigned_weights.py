"""The reference of `ceras-verify` multiplies uint8 by int8 exactly on every processor."""

import numpy as np
import onnx
import pytest
from onnx_models import model, node, run_onnxruntime

from ceras_ir.driver.verify.unsigned_weights import with_unsigned_weights

ACTIVATIONS = np.full((1, 4), 255, np.uint8)
WEIGHTS = np.array([[127, -128], [127, -128], [-128, 127], [127, 127]], np.int8)


def product(dtype: onnx.TensorProto.DataType, words: str = "x w") -> onnx.ModelProto:
    constants = {"w": WEIGHTS, "z": np.array([3, -128], np.int8)}
    nodes = [node("MatMulInteger", words, "y")]
    return model(nodes, {"x": (1, 4)}, ["y"], constants, dtype=dtype)


@pytest.mark.parametrize(("words", "zero"), [("x w", 0), ("x w - z", [3, -128])])
def test_extremes_do_not_saturate(words: str, zero: int | list[int]) -> None:
    pytest.importorskip("onnxruntime")
    found = run_onnxruntime(product(onnx.TensorProto.UINT8, words), {"x": ACTIVATIONS})["y"]
    expected = ACTIVATIONS.astype(np.int64) @ (WEIGHTS.astype(np.int64) - zero)
    np.testing.assert_array_equal(found, expected)


def test_other_models_are_as_they_were() -> None:
    signed = product(onnx.TensorProto.INT8)
    assert with_unsigned_weights(signed) == signed
