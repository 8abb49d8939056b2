"""Check Q/DQ layers with sums that exceed 32 bits, and the bounds of accumulators."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto
from onnx_models import Array, model, node, run_onnxruntime
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.target import CTarget
from ceras_ir.dialects import graph
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.transforms.quantization.accumulators import Magnitudes, fits

SCALES = {"s": 0.05, "t": 0.02}


def quantized(proto: onnx.ModelProto) -> ModuleOp:
    module = import_model(proto)
    run_stages(load_context(), module, front_stages(BuildOptions(CTarget()).resolved(module)))
    module.verify()
    return module


def layer(bias: list[int], weight_scales: list[float]) -> onnx.ModelProto:
    """Build a product of 3 outputs between Q/DQ, with all tensors stored as quantizers do."""
    rng = np.random.default_rng(0)
    constants: dict[str, npt.ArrayLike] = {
        "w": rng.integers(-127, 128, (3, 40)).astype(np.int8),
        "sw": np.array(weight_scales, np.float32),
        "b": np.array(bias, np.int32),
        "sb": (np.array(weight_scales) * 0.05).astype(np.float32),
        **{name: np.float32(scale).reshape(()) for name, scale in SCALES.items()},
        "z": np.array(7, np.int8),
        "zero": np.zeros(3, np.int8),
        "none": np.zeros(3, np.int32),
    }
    nodes = [
        node("DequantizeLinear", "x s z", "xr"),
        node("DequantizeLinear", "w sw zero", "wr", axis=0),
        node("DequantizeLinear", "b sb none", "br", axis=0),
        node("Gemm", "xr wr br", "yr", transB=1),
        node("QuantizeLinear", "yr t z", "y"),
    ]
    return model(nodes, {"x": (2, 40)}, ["y"], constants, dtype=TensorProto.INT8)


def distance(proto: onnx.ModelProto, module: ModuleOp, inputs: Mapping[str, Array]) -> int:
    (expected,) = run_onnxruntime(proto, inputs).values()
    (actual,) = run(module, inputs).values()
    return int(np.abs(expected.astype(np.int64) - actual.astype(np.int64)).max())


def whole_range(dtype: str, *shape: int) -> Array:
    info = np.iinfo(dtype)
    values = np.random.default_rng(1).integers(info.min, info.max + 1, shape).astype(dtype)
    values.reshape(-1)[:2] = info.min, info.max
    return values


def test_bias_that_fills_32_bits_gets_a_coarser_channel():
    # Two channels with tiny weights and biases at the limit of int32.
    proto = layer([2**31 - 1, -(2**31) + 1, 1000], [2e-8, 1e-8, 0.01])
    module = quantized(proto)
    (product,) = (op for op in module.walk() if isinstance(op, graph.MatmulOp))
    assert product.is_quantized
    kind = graph.quantized_element(product.weights)
    assert kind is not None
    # 40 products of up to 127 * 135 need another bit; the third channel does not change.
    np.testing.assert_allclose([s.data for s in kind.scales], [4e-8, 2e-8, 0.01], 1e-6)
    assert distance(proto, module, {"x": whole_range("int8", 2, 40)}) <= 1


def test_product_that_never_fits_stays_float():
    # 2^16 * 2^15 does not fit 32 bits.
    constants: dict[str, Array] = {
        "s": np.array(0.001, np.float32),
        "z": np.array(0, np.int16),
        "w": whole_range("uint16", 300),
        "k": np.array(0.03, np.float32),
        "y0": np.array(0, np.uint16),
    }
    nodes = [
        node("DequantizeLinear", "x s z", "a"),
        node("DequantizeLinear", "w k y0", "b"),
        node("Mul", "a b", "c"),
        node("QuantizeLinear", "c s z", "y"),
    ]
    proto = model(nodes, {"x": (300,)}, ["y"], constants, opset=21, dtype=TensorProto.INT16)
    assert distance(proto, quantized(proto), {"x": whole_range("int16", 300)}) <= 1


def test_addends_that_vanish_beside_the_result():
    # Scales with a ratio for which both multipliers happen to be powers of two.
    constants: dict[str, Array] = {
        "s": np.array(7.6e-10, np.float32),
        "t": np.array(7.1e-10, np.float32),
        "u": np.array(1.0, np.float32),
        "z": np.array(0, np.int8),
    }
    nodes = [
        node("DequantizeLinear", "x s z", "a"),
        node("DequantizeLinear", "v t z", "b"),
        node("Add", "a b", "c"),
        node("QuantizeLinear", "c u z", "y"),
    ]
    inputs = {"x": (9,), "v": (9,)}
    proto = model(nodes, inputs, ["y"], constants, dtype=TensorProto.INT8)
    values = whole_range("int8", 9)
    assert distance(proto, quantized(proto), {"x": values, "v": values}) == 0


def test_16_bit_convolution_stays_float():
    # 600 products of 16 and 8 bits: the sum may reach 2^31.3.
    rng = np.random.default_rng(2)
    constants: dict[str, Array] = {
        "s": np.array(1e-4, np.float32),
        "z": np.array(0, np.int16),
        "w": rng.choice([-127, 127], (1, 600)).astype(np.int8),
        "sw": np.array(1e-3, np.float32),
        "y0": np.array(0, np.int8),
    }
    nodes = [
        node("DequantizeLinear", "x s z", "xr"),
        node("DequantizeLinear", "w sw y0", "wr"),
        node("Gemm", "xr wr", "yr", transB=1),
        node("QuantizeLinear", "yr s z", "y"),
    ]
    proto = model(nodes, {"x": (1, 600)}, ["y"], constants, opset=21, dtype=TensorProto.INT16)
    module = quantized(proto)
    (product,) = (op for op in module.walk() if isinstance(op, graph.MatmulOp))
    assert not product.is_quantized
    assert distance(proto, module, {"x": whole_range("int16", 1, 600)}) <= 1


MOST = 2**31 - 1


@pytest.mark.parametrize(
    ("bound", "shift", "residual"),
    [(MOST, 0, 0), (MOST - 1, 1, 0), (MOST - 512, 10, 0), (MOST - 512 - 7, 10, 7)],
)
def test_the_last_unit(bound: int, shift: int, residual: int):
    assert fits(bound, shift, residual)
    assert not fits(bound + 1, shift, residual)


def test_sums_and_biases_of_the_worst_channel():
    magnitudes = Magnitudes(2, np.array([0.5, 1.5]), np.array([0.0, 2.0]), 128, 127)
    # 1.5 / 2^-3 and twice half a step, times 128; 2 / 2^-5 and half a step.
    assert magnitudes.bound(-2, -3) == 13 * 128 + 64.5
    # No stored weight exceeds 127.
    assert magnitudes.bound(-2, -30) == 2 * 127 * 128 + 2.0**33 + 0.5


def test_computed_weights_can_be_anything():
    assert Magnitudes(2, None, np.array([0.0]), 128, 128).bound(0, 0) == 2 * 128 * 128 + 0.5
