"""Compare networks in torch with the interpreter: floats nearly, integers exactly; gradients."""

# Imports follow the check that torch is installed.
# ruff: noqa: E402
# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install '.[retrain]'")

from ceras_ir.api import Model
from ceras_ir.dialects.graph.attributes import Function, FunctionAttr
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.interpreters.float_functions import apply_function as numpy_function
from ceras_ir.interpreters.network import run
from ceras_ir.network import integer
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.workbench.training.integer_operations import requantize
from ceras_ir.workbench.training.operations import TORCH_FUNCTIONS, apply_function
from ceras_ir.workbench.training.session import student_of
from ceras_ir.workbench.training.torch_network import TorchNetwork

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
MODELS = Path(__file__).parents[4] / "shared" / "models"

EVERYTHING = """
func.func @main(%x: tensor<1x6x5x4xf32> {graph.name = "x"}) -> (
    tensor<1x12x10x4xf32> {graph.name = "y"}, tensor<1x3x3x8xf32> {graph.name = "z"}) {
  %w = graph.constant dense<0.25> : tensor<4x2x2x2xf32> : tensor<4x2x2x2xf32>
  %b = graph.constant dense<[0.5, -0.5, 1.0, 0.0]> : tensor<4xf32> : tensor<4xf32>
  %0 = graph.conv2d %x, %w bias %b : tensor<4xf32> {strides = array<i64: 2, 1>,
    padding = array<i64: 1, 0, 2, 1>, dilations = array<i64: 1, 1>, groups = 2 : i64,
    activation = #graph.function<leaky_relu, 0.25>}
    : (tensor<1x6x5x4xf32>, tensor<4x2x2x2xf32>) -> tensor<1x4x5x4xf32>
  %1 = graph.pool2d average %x {kernel = array<i64: 3, 2>, padding = array<i64: 1, 0, 2, 1>}
    : (tensor<1x6x5x4xf32>) -> tensor<1x7x5x4xf32>
  %2 = graph.pool2d max %1 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
    padding = array<i64: 0, 1, 0, 0>, dilations = array<i64: 2, 1>}
    : (tensor<1x7x5x4xf32>) -> tensor<1x3x3x4xf32>
  %3 = graph.slice %0 {starts = array<i64: 0, 3, 0, 0>, strides = array<i64: 1, -1, 2, 1>}
    : (tensor<1x4x5x4xf32>) -> tensor<1x3x3x4xf32>
  %4 = graph.concat %2, %3 {axis = 3 : i64}
    : (tensor<1x3x3x4xf32>, tensor<1x3x3x4xf32>) -> tensor<1x3x3x8xf32>
  %5 = graph.softmax %4 {axis = 3 : i64} : tensor<1x3x3x8xf32>
  %6 = graph.resize linear %x coordinates half_pixel rounding floor
    {scales = array<f64: 2.0, 2.0>} : (tensor<1x6x5x4xf32>) -> tensor<1x12x10x4xf32>
  %7 = graph.unary <swish> %6 : tensor<1x12x10x4xf32>
  func.return %7, %5 : tensor<1x12x10x4xf32>, tensor<1x3x3x8xf32>
}
"""


def compare(module, *, exact: bool = False) -> TorchNetwork:
    """Compare the results for a sample; return the network in torch."""
    network = TorchNetwork(module)
    random = np.random.default_rng(0)
    inputs = {
        t.name: random.normal(size=t.shape).astype(np.float32)
        if t.dtype == "float32"
        else random.integers(-100, 100, t.shape).astype(t.dtype)
        for t in network_inputs(main_function(module))
    }
    found, _ = network([torch.from_numpy(x) for x in inputs.values()])
    for name, expected in run(module, inputs).items():
        value = found[name].detach().numpy()
        if exact:
            assert np.array_equal(value, expected), name
        else:
            np.testing.assert_allclose(value, expected.astype(np.float64), rtol=1e-4, atol=1e-5)
    return network


def test_float_operations():
    compare(Model.parse(EVERYTHING).module)


@pytest.mark.parametrize("function", Function)
def test_functions(function: Function):
    assert function in TORCH_FUNCTIONS
    parameters = {"clip": (-0.5, 1.5), "hard_sigmoid": (0.2, 0.5)}.get(
        function.value, (0.75,) * len(function.facts.parameters)
    )
    x = np.linspace(-6, 6, 101, dtype=np.float32)
    with np.errstate(all="ignore"):
        expected = numpy_function(FunctionAttr(function, parameters), x)
    found = apply_function(FunctionAttr(function, parameters), torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


def test_a_function_with_scale_and_offset():
    x = np.linspace(-6, 6, 101, dtype=np.float32)
    function = FunctionAttr(Function.HARD_SWISH, affine=(0.75, -0.5))
    expected = numpy_function(function, x)
    assert expected.min() < -0.5
    found = apply_function(function, torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("rounding", Rounding)
def test_rounding_is_the_interpreter_s(rounding: Rounding):
    sums = np.arange(-700, 700, dtype=np.int64)
    for requant in (
        RequantAttr(3, rounding=rounding),
        RequantAttr(9, multiplier=77, rounding=rounding, zero_point=-3, low=-100, high=90),
        RequantAttr(0, rounding=rounding),
    ):
        expected = integer.requantize(sums, requant, UniformType(1.0)).astype(np.int64)
        acc = torch.from_numpy(sums).to(torch.float64).requires_grad_()
        found = requantize(acc, requant)
        assert np.array_equal(found.detach().numpy(), expected)
        found.sum().backward()
        inside = (expected > requant.low.data) & (expected < requant.high.data)
        slope = requant.multiplier.data / 2**requant.shift.data
        assert np.all(acc.grad.numpy()[inside] == slope)
        assert acc.grad[0] in (0, slope)


def test_integers_are_exact():
    student = student_of(read_network(str(DIGITS)), replace(BuildOptions(), quantize="int8"))
    network = compare(student.module)
    outputs, _ = network([torch.rand(1, 1, 8, 8)])
    outputs["probabilities"].square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in network.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ("resnet8_int8_qdq", "mcunet_vww_int8_qdq", "mobilenet_v2_int8_qdq", "espcn_resize")
)
def test_real_networks(name: str):
    path = MODELS / f"{name}.onnx"
    if not path.exists():
        pytest.skip("the models are not here")
    quantized = name.endswith("qdq")
    options = replace(BuildOptions(), quantize="int8" if quantized else "none")
    compare(student_of(read_network(str(path)), options).module, exact="int8" in name)


def test_batches():
    """Compute a network that mixes samples with a single sample at a time."""
    network = TorchNetwork(read_network(str(DIGITS)))
    network.probe(torch.device("cpu"))
    assert network.batched
    mixed = EVERYTHING.replace("graph.softmax %4 {axis = 3", "graph.softmax %4 {axis = 0")
    network = TorchNetwork(Model.parse(mixed).module)
    network.probe(torch.device("cpu"))
    assert not network.batched
