"""Test weights of float networks that are rounded in blocks."""

from pathlib import Path

import numpy as np
import pytest
from c_harness import Values, check, constant, make_network
from numpy.typing import NDArray
from onnx_models import model, node
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import MatmulOp
from ceras_ir.driver.compile import main
from ceras_ir.pipeline.context import load_context
from ceras_ir.transforms.quantization.block_weights import BlockWeightsPass, rounded


@pytest.mark.parametrize(("bits", "least_db"), [(2, 6.5), (4, 20.5), (8, 43.0)])
def test_rounding_is_at_least_as_good_as_the_extreme(bits: int, least_db: float):
    """The reference makes the extreme weight of a block the lowest integer."""
    weights = np.random.default_rng(0).normal(size=(40, 320)).astype(np.float32)
    integers, scales = rounded(weights, bits)
    low = 1 << bits - 1
    real = (integers.astype(np.float32) - low) * np.repeat(scales.astype(np.float32), 32, 1)
    noise = np.square(real - weights).sum()
    assert 10 * np.log10(np.square(weights).sum() / noise) > least_db
    plain = 0.0
    for row in range(40):
        for start in range(0, 320, 32):
            block: NDArray[np.float32] = weights[row, start : start + 32]
            step = -float(block[np.abs(block).argmax()]) / low
            q = np.clip(np.round(block / np.float32(step)), -low, low - 1)
            plain += float(np.square(q * step - block).sum())
    assert noise <= plain * 1.001
    assert scales.dtype == np.float16


def test_zeros_and_the_end_of_a_row():
    weights = np.zeros((2, 40), np.float32)
    weights[1, 39] = 3
    integers, scales = rounded(weights, 4)
    assert (scales[0] == 0).all() and scales[1, 0] == 0
    assert (integers[0] == 8).all() and (integers[1, 40:] == 8).all()
    real = (float(integers[1, 39]) - 8) * float(scales[1, 1])
    assert abs(real - 3) < 0.02


@pytest.mark.parametrize(
    ("magnitude", "kind"), [(1e-4, "float32"), (1.0, "float16"), (1e6, "float32")]
)
def test_scales_outside_of_float16_are_float32(magnitude: float, kind: str):
    weights = np.random.default_rng(2).normal(size=(4, 64)).astype(np.float32)
    assert rounded(weights * np.float32(magnitude), 4)[1].dtype == kind


class Layers:
    """Two layers with equal weights, and inputs that depend on three hidden values."""

    def __init__(self, *, has_bias: bool) -> None:
        rng = np.random.default_rng(4)
        self.mixing, self.centre = rng.normal(size=(3, 80)), rng.normal(size=80)
        self.weights = rng.normal(size=(6, 80)).astype(np.float32)
        self.weights[:, 7], self.weights[2] = 0, 0
        self.bias = rng.normal(size=6).astype(np.float32) if has_bias else None

    def samples(self, seed: int) -> NDArray[np.float32]:
        rng = np.random.default_rng(seed)
        noise = 0.05 * rng.normal(size=(16, 2, 80))
        return (rng.normal(size=(16, 2, 3)) @ self.mixing + self.centre + noise).astype(np.float32)

    def module(self) -> ModuleOp:
        def build(x: SSAValue) -> Values:
            bias = None if self.bias is None else constant(self.bias)
            shared = constant(self.weights)
            return [MatmulOp(x, shared, bias, result_element=f32).result for _ in range(2)]

        return make_network([(f32, (2, 80))], build)


@pytest.mark.parametrize("has_bias", [True, False])
def test_samples_reduce_the_error(has_bias: bool, tmp_path: Path):
    layers = Layers(has_bias=has_bias)
    np.savez(tmp_path / "data.npz", input0=layers.samples(0))
    errors: list[float] = []
    for data in (None, str(tmp_path / "data.npz")):
        module = layers.module()
        BlockWeightsPass(weight_bits=("4:*",), calibration=data).apply(load_context(), module)
        first, second = (op for op in module.walk() if isinstance(op, graph.BlockMatmulOp))
        assert (first.known_integers() == second.known_integers()).all()
        real = first.known_weights(80)
        assert (real[:, 7] == 0).all() and (real[2] == 0).all()
        change = real.astype(np.float64) - layers.weights
        offset = np.zeros(6) if layers.bias is None else known(first.bias) - layers.bias
        errors.append(float(np.square(layers.samples(1) @ change.T + offset).sum()))
    assert errors[1] < errors[0] / 10


@pytest.mark.parametrize("has_weights", [True, False])
def test_samples_have_an_effect_on_weights_only(
    has_weights: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rng = np.random.default_rng(6)
    weights = rng.normal(size=(80, 6)).astype(np.float32)
    network = model([node("MatMul", "x w", "y")], {"x": (2, 80)}, ["y"], {"w": weights})
    (tmp_path / "m.onnx").write_bytes(network.SerializeToString())
    np.savez(tmp_path / "data.npz", x=Layers(has_bias=False).samples(0))
    words = [str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out"), "--quantize", "none"]
    words += ["--target", "c", "--calibrate", str(tmp_path / "data.npz")]
    words += ["--weight-bits", "4:*", "--calibration-samples", "8"] if has_weights else []
    assert main(words) == (0 if has_weights else 2)
    error = capsys.readouterr().err
    assert "without effect" not in error
    assert ("--calibrate has no effect with --quantize none" in error) == (not has_weights)


def known(value: SSAValue | None) -> NDArray[np.float64]:
    assert value is not None
    return graph.known_array(value).astype(np.float64)


def network(seed: int) -> tuple[ModuleOp, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = [(64, 70), (128, 64), (4, 128)]

    def build(x: SSAValue) -> Values:
        for n, k in sizes:
            weights = rng.normal(0, k**-0.5, (n, k)).astype(np.float32)
            bias = constant(rng.normal(size=n).astype(np.float32))
            relu = graph.FunctionAttr(graph.Function.RELU)
            x = MatmulOp(x, constant(weights), bias, result_element=f32, activation=relu).result
        return [x]

    return make_network([(f32, (3, 70))], build), rng.normal(size=(3, 70)).astype(np.float32)


@pytest.mark.parametrize(("entry", "widths"), [("4", [4, 4, 8]), ("4:*", [4, 4, 4])])
def test_the_smallest_layers_have_8_bits(entry: str, widths: list[int]):
    module, x = network(1)
    BlockWeightsPass(weight_bits=(entry,)).apply(load_context(), module)
    products = [op for op in module.walk() if isinstance(op, graph.BlockMatmulOp)]
    assert [op.width for op in products] == widths
    check(module, {"input0": x})
