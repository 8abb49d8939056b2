"""Test filters that are 0: scales of 0 in the model, and rows of zeros in float models."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_models import model, node, run_onnxruntime

from ceras_ir.driver.run import main as run_tool
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError

RANDOM = np.random.default_rng(0)

X = RANDOM.uniform(-2, 2, (1, 4, 5, 5)).astype(np.float32)

WEIGHTS = RANDOM.integers(-100, 100, (6, 4, 3, 3)).astype(np.int8)

SCALES = RANDOM.uniform(0.001, 0.02, 6).astype(np.float32)

BIAS = RANDOM.integers(-1000, 1000, 6).astype(np.int32)

CONSTANTS = {
    "xs": np.float32(0.02),
    "xz": np.uint8(128),
    "ys": np.float32(0.05),
    "yz": np.uint8(120),
    "wz": np.array([0, 1, -2, 0, 3, 0], np.int8),
}


def zeroed(scales: str) -> dict[str, np.ndarray]:
    """Draw weights in which the filters with a scale of 0 have any integers, and a bias."""
    scale = SCALES.copy()
    if scales == "one filter":
        scale[2] = 0
    else:
        scale[:] = 0
    weights = WEIGHTS.copy()
    if scales != "all filters, other integers":
        weights[scale == 0] = 0
    return {"w": weights, "ws": scale, "b": BIAS, "bs": np.float32(0.02) * scale}


def convolution(scales: str, *, has_quantized_ends: bool) -> onnx.ModelProto:
    constants = {**CONSTANTS, **zeroed(scales)}
    nodes = [
        node("DequantizeLinear", "w ws wz", "dw", axis=0),
        node("DequantizeLinear", "b bs", "db", axis=0),
    ]
    if has_quantized_ends:
        nodes += [
            node("QuantizeLinear", "x xs xz", "qx"),
            node("DequantizeLinear", "qx xs xz", "dx"),
            node("Conv", "dx dw db", "c"),
            node("QuantizeLinear", "c ys yz", "qy"),
            node("DequantizeLinear", "qy ys yz", "y"),
        ]
    else:
        nodes.append(node("Conv", "x dw db", "y"))
    return model(nodes, {"x": X.shape}, ["y"], constants, infer=False)


CASES = ["one filter", "all filters", "all filters, other integers"]


@pytest.mark.parametrize("has_quantized_ends", [False, True])
@pytest.mark.parametrize("scales", CASES)
def test_scales_of_zero(scales: str, has_quantized_ends: bool) -> None:
    proto = convolution(scales, has_quantized_ends=has_quantized_ends)
    expected = run_onnxruntime(proto, {"x": X})["y"]
    found = run(import_model(proto), {"x": X})["y"]
    assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("scales", CASES)
def test_qlinear_conv(scales: str) -> None:
    nodes = [
        node("QuantizeLinear", "x xs xz", "qx"),
        node("QLinearConv", "qx xs xz w ws wz ys yz b", "qy"),
        node("DequantizeLinear", "qy ys yz", "y"),
    ]
    constants = {**CONSTANTS, **zeroed(scales), "wz": np.zeros(6, np.int8)}
    del constants["bs"]
    proto = model(nodes, {"x": X.shape}, ["y"], constants, infer=False)
    expected = run_onnxruntime(proto, {"x": X})["y"]
    found = run(import_model(proto), {"x": X})["y"]
    assert np.allclose(found, expected, atol=1e-5)


def test_a_single_scale_of_zero() -> None:
    nodes = [node("DequantizeLinear", "w s z", "d"), node("MatMul", "x d", "y")]
    constants = {
        "w": RANDOM.integers(-5, 5, (4, 3)).astype(np.int8),
        "s": np.float32(0),
        "z": np.int8(3),
    }
    proto = model(nodes, {"x": (1, 4)}, ["y"], constants)
    x = np.ones((1, 4), np.float32)
    assert (run(import_model(proto), {"x": x})["y"] == 0).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_scales_of_zero_that_do_not_fit(axis: int) -> None:
    nodes = [node("DequantizeLinear", "w s z", "d", axis=axis), node("MatMul", "x d", "y")]
    constants = {
        "w": np.ones((4, 3), np.int8),
        "s": np.zeros(5, np.float32),
        "z": np.zeros(5, np.int8),
    }
    proto = model(nodes, {"x": (1, 4)}, ["y"], constants, infer=False)
    with pytest.raises(InputError, match=r"node 'd_dequantizelinear'"):
        import_model(proto)


def test_a_scale_of_zero_of_a_computed_value() -> None:
    """The scale of 0 means a division by 0."""
    nodes = [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", "y")]
    proto = model(nodes, {"x": (1, 4)}, ["y"], {"s": np.float32(0)}, infer=False)
    with pytest.raises(InputError, match="the scale must be positive and finite"):
        import_model(proto)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["c", "nnet", "vta"])
@pytest.mark.parametrize("scales", ["one filter", "all filters"])
def test_every_target_computes_zeros(target: str, scales: str, tmp_path: Path) -> None:
    """The outputs of the filter are the bias exactly; the bias of a scale of 0 is 0."""
    proto = convolution(scales, has_quantized_ends=True)
    # nnet has no zero points of channels.
    (points,) = (t for t in proto.graph.initializer if t.name == "wz")
    points.CopyFrom(numpy_helper.from_array(np.zeros(6, np.int8), "wz"))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "in.npz", x=X)
    paths = [str(tmp_path / name) for name in ("m.onnx", "in.npz", "out.npz")]
    arguments = [paths[0], "--inputs", paths[1], "--outputs", paths[2], "--target", target]
    assert run_tool(arguments) == 0
    found, expected = np.load(paths[2])["y"], run_onnxruntime(proto, {"x": X})["y"]
    assert np.isfinite(found).all()
    assert (found[:, 2] == 0).all() and (expected[:, 2] == 0).all()
    # VTA rounds the scales of channels to powers of two.
    assert np.abs(found - expected).max() <= (0.5 if target == "vta" else 1e-5)
