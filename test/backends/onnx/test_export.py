"""
In ONNX Runtime, a model exported by target onnx computes the same integers as the interpreter from
the network. The interpreter computes them also from the model after an import.
"""

import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import Tool
from onnx_models import model, node
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from ceras_ir.backends.onnx.export import export_model, serialized
from ceras_ir.data.sample_stream import synthetic_samples
from ceras_ir.dialects import graph
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function, result_values
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions, Io, front_stages, run_stages

pytestmark = pytest.mark.slow

onnxruntime = pytest.importorskip("onnxruntime")

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits"
MODELS = ROOT.parent / "shared" / "models"

ASYMMETRIC = ("fit-inputs", "choose-zero-points")
CHANNELS, ROWS = ("equalize-channels",), "choose-row-exponents"

RESIDUAL = """
func.func @main(%x: tensor<1x4x6x6xf32> {graph.name = "x"}) -> (tensor<1x20xf32> {graph.name = "y"},
    tensor<1x4x6x6xf32> {graph.name = "z"}) {
  %t = graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>}
      : (tensor<1x4x6x6xf32>) -> tensor<1x6x6x4xf32>
  %v = graph.constant dense<"V"> : tensor<4x3x3x4xf32> : tensor<4x3x3x4xf32>
  %w = graph.constant dense<"W"> : tensor<4x3x3x1xf32> : tensor<4x3x3x1xf32>
  %b = graph.constant dense<[0.25, -0.5, 0.125, 1.0]> : tensor<4xf32> : tensor<4xf32>
  %c = graph.conv2d %t, %v bias %b : tensor<4xf32> {padding = array<i64: 1, 1, 1, 1>}
      : (tensor<1x6x6x4xf32>, tensor<4x3x3x4xf32>) -> tensor<1x6x6x4xf32> loc("conv")
  %s = graph.unary <swish> %c : tensor<1x6x6x4xf32> loc("silu")
  %d = graph.conv2d %s, %w residual %t : tensor<1x6x6x4xf32>
      {padding = array<i64: 1, 1, 1, 1>, groups = 4 : i64, activation = #graph.function<relu>}
      : (tensor<1x6x6x4xf32>, tensor<4x3x3x1xf32>) -> tensor<1x6x6x4xf32> loc("depthwise")
  %a = graph.binary add %s, %d {activation = #graph.function<clip, -0.5, 1.25>}
      : (tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32> loc("sum")
  %m = graph.pool2d max %a {kernel = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>}
      : (tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32> loc("greatest")
  %g = graph.binary mul %m, %s
      : (tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32> loc("gate")
  %j = graph.concat %m, %g, %t, %d, %s {axis = 3 : i64}
      : (tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>,
         tensor<1x6x6x4xf32>) -> tensor<1x6x6x20xf32> loc("join")
  %p = graph.pool2d average %j {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>}
      : (tensor<1x6x6x20xf32>) -> tensor<1x3x3x20xf32> loc("mean")
  %q = graph.pool2d average %p {kernel = array<i64: 3, 3>}
      : (tensor<1x3x3x20xf32>) -> tensor<1x1x1x20xf32> loc("global")
  %r = graph.reshape %q : (tensor<1x1x1x20xf32>) -> tensor<1x20xf32>
  %z = graph.transpose %g {permutation = array<i64: 0, 3, 1, 2>}
      : (tensor<1x6x6x4xf32>) -> tensor<1x4x6x6xf32>
  func.return %r, %z : tensor<1x20xf32>, tensor<1x4x6x6xf32>
}
"""


def residual_network(path: Path) -> Path:
    """Return two kinds of residuals, SiLU, both poolings, a product and a concatenation of all."""
    random = np.random.default_rng(11)
    text = RESIDUAL
    for name, count in (("V", 144), ("W", 36)):
        data = random.normal(0, 0.3, count).astype("<f4").tobytes().hex().upper()
        text = text.replace(f'dense<"{name}">', f'dense<"0x{data}">')
    path.write_text(text)
    return path


def quantized(path: Path, options: BuildOptions) -> ModuleOp:
    module = read_network(str(path))
    run_stages(load_context(), module, front_stages(options.resolved(module)))
    return module


@cache
def saturates() -> bool:
    """
    Return whether sums of products of uint8 and int8 saturate in 16 bits: ONNX Runtime's kernels
    for processors without VNNI. Fused nodes have these products.
    """
    weights = np.full((2, 1), 127, np.int8)
    product = model(
        [node("MatMulInteger", "x w", "y")], {"x": (1, 2)}, ["y"], {"w": weights},
        dtype=onnx.TensorProto.UINT8,
    )  # fmt: skip
    session = onnxruntime.InferenceSession(serialized(product))
    return session.run(None, {"x": np.full((1, 2), 255, np.uint8)})[0].item() != 2 * 127 * 255


def check(
    path: Path,
    tmp_path: Path,
    options: BuildOptions,
    count: int = 3,
    apart: int = 0,
    *,
    plain: bool = False,
) -> int:
    """
    Return the number of output elements that differ in ONNX Runtime. `apart` is the maximum
    difference in units. With `plain`, no nodes are fused.
    """
    module = quantized(path, replace(options, rows="float"))
    model = export_model(module, "network")
    onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    (tmp_path / "again.onnx").write_bytes(serialized(model))
    again = quantized(tmp_path / "again.onnx", BuildOptions())
    settings = onnxruntime.SessionOptions()
    if plain or saturates():
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(serialized(model), settings)
    assert [v.name for v in session.get_inputs()] == [v.name for v in model.graph.input]
    differing = 0
    for sample in synthetic_samples(main_function(module), count, seed=5):
        expected = run(module, sample)
        for name, array in run(again, sample).items():
            assert array.dtype == expected[name].dtype
            np.testing.assert_array_equal(array, expected[name])
        outputs = session.run(None, dict(sample))
        for value, actual, (name, array) in zip(
            result_values(main_function(module)), outputs, expected.items(), strict=True
        ):
            owner = value.owner
            unit = 1.0
            if isinstance(owner, graph.TransposeOp):
                owner = owner.input.owner
            if isinstance(owner, graph.DequantizeOp):
                unit = graph.scale_of(owner.input)
            distance = np.abs(actual.astype(np.float64) - array.astype(np.float64)) / unit
            # Results after a float operation such as softmax are as exact as the operation.
            assert distance.max() <= apart + 1e-5, name
            differing += int((distance > 1e-5).sum())
    return differing


@pytest.mark.parametrize("recipe", [("none",), CHANNELS, (*ASYMMETRIC, *CHANNELS)])
@pytest.mark.parametrize("io", ["model", "int8"])
def test_residuals_and_concatenations(recipe: tuple[str, ...], io: Io, tmp_path: Path) -> None:
    path = residual_network(tmp_path / "n.mlir")
    random = np.random.default_rng(3)
    np.savez(tmp_path / "c.npz", x=random.normal(0, 1, (16, 4, 6, 6)).astype(np.float32))
    options = BuildOptions(
        quantize="int8", calibration=str(tmp_path / "c.npz"), recipe=recipe, io=io
    )
    # A fused average adds its zero point before it rounds: ties go elsewhere where that is odd.
    check(path, tmp_path, options, plain="choose-zero-points" in recipe)


@pytest.mark.parametrize(
    "options",
    [
        BuildOptions(quantize="int8", recipe=("none",), int16=("*",)),
        BuildOptions(quantize="int8", recipe=("none",), float=("wide*",)),
        BuildOptions(quantize="int8", recipe=(ROWS, *CHANNELS), silu="table16"),
        BuildOptions(quantize="int8", recipe=("none",), silu="hardswish"),
        BuildOptions(quantize="int8", recipe=ASYMMETRIC, silu="table"),
        BuildOptions(quantize="int8", recipe=(*ASYMMETRIC, ROWS, *CHANNELS), silu="table16"),
    ],
    ids=["int16", "float", "rows", "hardswish", "asymmetric", "asymmetric-rows"],
)
def test_schemes(options: BuildOptions, tmp_path: Path) -> None:
    calibration = str(DIGITS / "digits_calibration.npz")
    check(DIGITS / "digits.onnx", tmp_path, replace(options, calibration=calibration), 2)


def test_digits_with_default_options(tmp_path: Path) -> None:
    calibration = str(DIGITS / "digits_calibration.npz")
    options = BuildOptions(quantize="int8", calibration=calibration)
    assert check(DIGITS / "digits.onnx", tmp_path, options) == 0


@pytest.mark.parametrize("name", ["mnist_conv", "mnist_mcu", "mnist_mlp", "resnet8_float"])
def test_real_networks(name: str, tmp_path: Path) -> None:
    path = MODELS / f"{name}.onnx"
    if not path.exists():
        pytest.skip("needs ../shared")
    assert check(path, tmp_path, BuildOptions(quantize="int8", recipe=("none",)), 2) == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    generator = MODELS.parent / "tools" / "fuzz_models.py"
    if not generator.exists():
        pytest.skip("needs ../shared")
    if str(generator.parent) not in sys.path:
        sys.path.append(str(generator.parent))
    if not str(import_module(generator.stem).one(seed, tmp_path, 14, "none")).startswith("ok"):
        pytest.skip("the generator drops this seed")
    path = tmp_path / f"s{seed:06d}" / "model.onnx"
    check(path, tmp_path, BuildOptions(quantize="int8", recipe=("none",)), 2)


@pytest.mark.parametrize("name", ["resnet8", pytest.param("mcunet_vww", marks=pytest.mark.slow)])
def test_what_came_as_qdq_goes_as_it_came(name: str, tmp_path: Path) -> None:
    path = MODELS / f"{name}_int8_qdq.onnx"
    if not path.exists():
        pytest.skip("needs ../shared")
    # Scales that are no powers of two round in float32 there and in integers here.
    check(path, tmp_path, BuildOptions(), 1, apart=30)


def test_floats_are_exported_too(tmp_path: Path) -> None:
    module = quantized(DIGITS / "digits.onnx", BuildOptions(quantize="none"))
    model = export_model(module, "digits")
    onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    assert not any("Quantize" in node.op_type for node in model.graph.node)
    session = onnxruntime.InferenceSession(serialized(model))
    for sample in synthetic_samples(main_function(module), 2, seed=1):
        (expected,) = run(module, sample).values()
        (found,) = session.run(None, dict(sample))
        np.testing.assert_allclose(found, np.asarray(expected, np.float32), atol=1e-5)


def test_one_bound_keeps_infinities() -> None:
    """Without a bound, ONNX Runtime's Clip would limit infinities to the largest float32."""
    text = """
    func.func @main(%x: tensor<1x6xf32> {graph.name = "x"})
        -> (tensor<1x6xf32> {graph.name = "low"}, tensor<1x6xf32> {graph.name = "high"}) {
      %0 = graph.unary <clip, 1.0e-07, inf> %x : tensor<1x6xf32>
      %1 = graph.unary <clip, -inf, -1.0e-07> %x : tensor<1x6xf32>
      func.return %0, %1 : tensor<1x6xf32>, tensor<1x6xf32>
    }"""
    model = export_model(Parser(load_context(), text).parse_module(), "network")
    onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    x = np.array([[-np.inf, -1, 0, 1, np.inf, np.nan]], np.float32)
    session = onnxruntime.InferenceSession(serialized(model))
    low, high = session.run(None, {"x": x})
    small = np.float32(1e-7)
    np.testing.assert_array_equal(low, [[small, small, small, 1, np.inf, np.nan]])
    np.testing.assert_array_equal(high, [[-np.inf, -1, -small, -small, -small, np.nan]])


def test_the_constants_that_break_ties_can_be_left_out(tool: Tool, tmp_path: Path) -> None:
    calibration = DIGITS / "digits_calibration.npz"
    quantize = ("--fuse", f"--quantize=calibration={calibration}")
    assert tool("ceras-opt", DIGITS / "digits.onnx", *quantize, "-o", "q.mlir").status == 0
    for name, target in (("exact", "onnx"), ("plain", "onnx{exact=false}")):
        result = tool("ceras-opt", "q.mlir", "-t", target, "-o", f"{name}.onnx")
        assert result.status == 0, result.stderr
    models = {
        name: onnx.load_model_from_string((tmp_path / f"{name}.onnx").read_bytes())
        for name in ("exact", "plain")
    }
    added = {name: [n for n in m.graph.node if "half_up" in n.name] for name, m in models.items()}
    assert added["exact"] and not added["plain"]
    texts = [tool("ceras-opt", f"{name}.onnx", "--fuse", "--quantize").stdout for name in models]
    assert texts[0] == texts[1] and "graph.conv2d" in texts[0]


def test_folder_is_compiled_run_and_verified(tool: Tool) -> None:
    model, data = DIGITS / "digits.onnx", DIGITS / "digits_test.npz"
    calibrate = ("--calibrate", DIGITS / "digits_calibration.npz", "--recipe", "none")
    result = tool("ceras-compile", model, "--target", "onnx", "-o", "out", *calibrate)
    assert result.status == 0, result.stderr
    assert "compiled for onnx" in result.stdout
    result = tool("ceras-run", "out", "--inputs", data, "--outputs", "out.npz")
    assert result.status == 0, result.stderr
    result = tool(
        *("ceras-verify", model, "--targets", "onnx", "--samples", "2", "--inputs", data),
        *calibrate,
    )
    assert result.status == 0 and "onnx: machine" in result.stdout, result.stdout


def test_sums_of_a_network_that_is_all_float_are_in_order(tool: Tool, tmp_path: Path) -> None:
    """The file has no information about quantization."""
    random = np.random.default_rng(0)
    weights = random.normal(0, 1, (3, 2, 3, 3)).astype(np.float32)
    convolution = node("Conv", "x w", "y", pads=[1, 1, 1, 1])
    proto = model([convolution], {"x": [1, 2, 8, 8]}, ["y"], {"w": weights})
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    floats = ("--quantize", "int8", "--float", "*")
    result = tool("ceras-verify", "m.onnx", "--targets", "onnx", *floats)
    assert result.status == 0, result.stdout


def test_text_that_cannot_be_written(tool: Tool) -> None:
    model = DIGITS / "digits.onnx"
    done = tool("ceras-opt", model, "-t", "onnx", "-o", "no/folder/x.onnx")
    assert done.status == 1 and "cannot write" in done.stderr


def test_a_scaled_quantization_is_a_product_and_a_quantization() -> None:
    """
    `fold-factor` after `fit-inputs` creates this operation, in a level that --emit-levels exports.
    """
    text = """
    func.func @main(%x: tensor<1x4x6x6xf32> {graph.name = "x"})
        -> (tensor<1x4x6x6xf32> {graph.name = "y"}) {
      %q = graph.scaled_quantize %x {factor = 53.4085541 : f32}
          : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6x!quant.uniform<i8:f32, 1.0:-14>>
      %y = graph.dequantize %q
          : (tensor<1x4x6x6x!quant.uniform<i8:f32, 1.0:-14>>) -> tensor<1x4x6x6xf32>
      func.return %y : tensor<1x4x6x6xf32>
    }"""
    module = Parser(load_context(), text).parse_module()
    model = export_model(module, "network")
    kinds = [node.op_type for node in model.graph.node]
    assert kinds == ["Mul", "QuantizeLinear", "DequantizeLinear"]
    x = np.random.default_rng(0).normal(0, 2, (1, 4, 6, 6)).astype(np.float32)
    session = onnxruntime.InferenceSession(serialized(model))
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], run(module, {"x": x})["y"])


def test_a_constant_is_not_called_as_an_output_is() -> None:
    """In models of keras2onnx, the last layer, the output and the bias have the same name."""
    text = """
    func.func @main(%x: tensor<1x2xf32> {graph.name = "x"})
        -> (tensor<1x1xf32> {graph.name = "dense"}, tensor<1x1xf32> {graph.name = "dense_2"}) {
      %w = graph.constant dense<[[0.5, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32> loc("dense")
      %b = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32> loc("dense")
      %y = graph.matmul %x, %w bias %b : tensor<1xf32>
          : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32> loc("dense")
      %z = graph.unary <relu> %y : tensor<1x1xf32> loc("dense_2")
      func.return %y, %z : tensor<1x1xf32>, tensor<1x1xf32>
    }"""
    model = export_model(Parser(load_context(), text).parse_module(), "network")
    onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    session = onnxruntime.InferenceSession(serialized(model))
    found = session.run(None, {"x": np.array([[-4, 0.25]], np.float32)})
    assert [value.item() for value in found] == [-0.5, 0.0]
    assert [output.name for output in model.graph.output] == ["dense", "dense_2"]


def test_what_onnx_cannot_say_is_refused_by_name(tool: Tool) -> None:
    text = """
    func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>)
        -> (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) {
      %a = graph.lookup %x, dense<1> : tensor<256xi8>
          : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
      %b = graph.requantize %x
          {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>}
          : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
      func.return %a, %b
          : tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>
    }"""
    result = tool("ceras-opt", "-", "-t", "onnx", "-o", "out.onnx", stdin=text)
    assert result.status == 3
    assert result.stderr.count("unsupported") == 2
    assert "no attribute graph.function" in result.stderr
    assert "the requantization has the factor 0.5, the scales 1" in result.stderr


def test_other_roundings_are_said(tool: Tool) -> None:
    text = """
    func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>)
        -> tensor<4x!quant.uniform<i8:f32, 1.0>> {
      %b = graph.requantize %x
          {requant = #graph.requant<shift = 1, rounding = half_away, low = -128, high = 127>}
          : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 1.0>>
      func.return %b : tensor<4x!quant.uniform<i8:f32, 1.0>>
    }"""
    result = tool("ceras-opt", "-", "-t", "onnx", "-o", "out.onnx", stdin=text)
    assert result.status == 0
    assert "rounds ties of" in result.stderr
