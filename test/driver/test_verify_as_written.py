"""Compare the result of `quantize` with the Q/DQ model as written, with `ceras-verify`."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.driver.run import main as run
from ceras_ir.driver.verify.tool import main

BORDER = """
func.func @main(%x: tensor<4x!quant.uniform<u16:f32, 1.0:32768>>) -> tensor<4xf32> {
  %y = graph.dequantize %x : (tensor<4x!quant.uniform<u16:f32, 1.0:32768>>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""

PRODUCT = """
!w = tensor<2x2x!quant.uniform<i8:f32, 0.1>>
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[1, 5], [-7, 3]]> : tensor<2x2xi8> : !w
  %q = graph.quantize %x : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.01:3>>
  %r = graph.dequantize %q : (tensor<1x2x!quant.uniform<i8:f32, 0.01:3>>) -> tensor<1x2xf32>
  %f = graph.dequantize %w : (tensor<2x2x!quant.uniform<i8:f32, 0.1>>) -> tensor<2x2xf32>
  %p = graph.matmul %r, %f : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %s = graph.quantize %p : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.007:-4>>
  %y = graph.dequantize %s : (tensor<1x2x!quant.uniform<i8:f32, 0.007:-4>>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
"""

PADDED = """
!w = tensor<1x2x2x1x!quant.uniform<i8:f32, 0.1>>
!q = tensor<1x5x5x1x!quant.uniform<i8:f32, 0.01:3>>
!s = tensor<1x4x4x1x!quant.uniform<i8:f32, 0.007:-4>>
func.func @main(%x: tensor<1x3x3x1xf32>) -> tensor<1x4x4x1xf32> {
  %w = graph.constant dense<[[[[5], [1]], [[-7], [3]]]]> : tensor<1x2x2x1xi8> : !w
  %t = graph.unary <tanh> %x : tensor<1x3x3x1xf32>
  %p = graph.pad constant %t {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 1, 0>,
    interior = array<i64: 0, 0, 0, 0>, value = 0.0 : f32}
    : (tensor<1x3x3x1xf32>) -> tensor<1x5x5x1xf32>
  %q = graph.quantize %p : (tensor<1x5x5x1xf32>) -> !q
  %r = graph.dequantize %q : (!q) -> tensor<1x5x5x1xf32>
  %f = graph.dequantize %w : (!w) -> tensor<1x2x2x1xf32>
  %c = graph.conv2d %r, %f : (tensor<1x5x5x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x4x4x1xf32>
  %s = graph.quantize %c : (tensor<1x4x4x1xf32>) -> !s
  %y = graph.dequantize %s : (!s) -> tensor<1x4x4x1xf32>
  func.return %y : tensor<1x4x4x1xf32>
}
"""
"""Here padding precedes quantization; the quantized network quantizes first and pads after."""


WEIGHTS_ONLY = """
!w = tensor<2x2x!quant.uniform<i8:f32, 0.1>>
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[1, 5], [-7, 3]]> : tensor<2x2xi8> : !w
  %f = graph.dequantize %w : (!w) -> tensor<2x2xf32>
  %y = graph.matmul %x, %f : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
"""

ALIKE = """
!w = tensor<2x2x!quant.uniform<i8:f32, 0.1>>
!s = tensor<1x2x!quant.uniform<i8:f32, 0.007:-4>>
func.func @main(%x: tensor<2xf32>) -> tensor<2x2xf32> {
  %w = graph.constant dense<[[1, 5], [-7, 3]]> : tensor<2x2xi8> : !w
  %f = graph.dequantize %w : (!w) -> tensor<2x2xf32>
  %q = graph.quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.01:3>>
  %d = graph.dequantize %q : (tensor<2x!quant.uniform<i8:f32, 0.01:3>>) -> tensor<2xf32>
  %r = graph.reshape %d : (tensor<2xf32>) -> tensor<1x2xf32> loc("layer")
  %p = graph.matmul %r, %f : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("layer")
  %s = graph.quantize %p : (tensor<1x2xf32>) -> !s loc("layer")
  %t = graph.dequantize %s : (!s) -> tensor<1x2xf32>
  %c = graph.concat %t, %r {axis = 0 : i64}
    : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %o = graph.quantize %c : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32, 0.007:-4>>
  %y = graph.dequantize %o
    : (tensor<2x2x!quant.uniform<i8:f32, 0.007:-4>>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}
"""
"""The rescaled input of the layer has the same name and type as its result."""

DROWNED = """
!q = tensor<1x1x3x1x!quant.uniform<i8:f32, 0.1>>
!s = tensor<1x1x1x1x!quant.uniform<i8:f32, 1.0e-10>>
func.func @main(%x: tensor<1x1x3x1xf32>) -> tensor<1x1x1x1xf32> {
  %q = graph.quantize %x : (tensor<1x1x3x1xf32>) -> !q
  %r = graph.dequantize %q : (!q) -> tensor<1x1x3x1xf32>
  %m = graph.pool2d average %r {kernel = array<i64: 1, 3>, strides = array<i64: 1, 1>,
    padding = array<i64: 0, 0, 0, 0>} : (tensor<1x1x3x1xf32>) -> tensor<1x1x1x1xf32>
  %s = graph.quantize %m : (tensor<1x1x1x1xf32>) -> !s
  %y = graph.dequantize %s : (!s) -> tensor<1x1x1x1xf32>
  func.return %y : tensor<1x1x1x1xf32>
}
"""
"""The exact sum of the three values is 0, but the float sum is more than a step."""


def network(folder: Path, text: str) -> str:
    path = folder / "network.mlir"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("target", ["interp", "c", "nnet"])
def test_a_16_bit_unsigned_input_keeps_its_range(tmp_path: Path, target: str) -> None:
    stored = np.array([[0, 30000, 32768, 65535]], np.uint16)
    np.savez(tmp_path / "in.npz", input0=stored)
    ends = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    assert run([network(tmp_path, BORDER), *ends, "--target", target, "--quantize", "int8"]) == 0
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["output0"].tolist() == [[-32768.0, -2768.0, 0.0, 32767.0]]


def test_values_that_are_called_alike_are_not_taken_for_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([network(tmp_path, ALIKE), "--targets", "c"]) == 0
    assert "have no counterpart" in capsys.readouterr().out


def test_integers_of_weights_specify_no_activation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([network(tmp_path, WEIGHTS_ONLY), "--targets", "c"]) == 0
    assert "as written" not in capsys.readouterr().out


@pytest.mark.parametrize("text", [BORDER, PRODUCT, PADDED])
def test_integers_are_those_of_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert main([network(tmp_path, text), "--targets", "c"]) == 0
    said = capsys.readouterr().out
    assert "as written" in said and "no counterpart" not in said


@pytest.mark.parametrize(
    ("text", "clamped", "names"),
    [(BORDER, graph.RequantizeOp, "output 'output0'"), (PRODUCT, graph.MatmulOp, "node 'graph.")],
)
def test_a_pass_that_makes_other_integers_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    clamped: type[graph.GraphOperation],
    names: str,
) -> None:
    """This fault of `fold-qdq{signs}` used bounds for another width than that of the result."""
    from ceras_ir.transforms.quantization.checks import CheckScalesPass

    wrong = CheckScalesPass.apply

    def clamp(self: CheckScalesPass, ctx: Context, op: ModuleOp) -> None:
        wrong(self, ctx, op)
        for found in op.walk():
            requant = found.properties.get("requant")
            if isinstance(found, clamped) and isinstance(requant, RequantAttr):
                found.properties["requant"] = requant.clamped(-3, 3)

    monkeypatch.setattr(CheckScalesPass, "apply", clamp)
    assert main([network(tmp_path, text), "--targets", "c"]) == 1
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if "as written" in line]
    assert names in line and "c: machine                       exact" in lines


def test_steps_below_the_rounding_of_floats_are_not_held_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "in.npz", input0=np.array([[[[[0.3], [-0.1], [-0.2]]]]], np.float32))
    inputs = ["--inputs", str(tmp_path / "in.npz"), "--targets", "c"]
    assert main([network(tmp_path, DROWNED), *inputs, "--quantize", "int8"]) == 0
    assert "1 have no counterpart" in capsys.readouterr().out


def chaotic() -> onnx.ModelProto:
    """Return the last state of a chaotic LSTM in 8 bits, which amplifies the last bits of sums."""
    random, units = np.random.default_rng(0), 64
    weights = {
        "w": random.normal(0, 0.3, (1, 4 * units, units)).astype(np.float32),
        "r": random.normal(0, 1.5, (1, 4 * units, units)).astype(np.float32),
        "m": random.integers(-127, 128, (units, 4)).astype(np.int8),
    }
    make = onnx.helper.make_node
    nodes = [
        make("LSTM", ["x", "w", "r"], ["", "h"], hidden_size=units),
        make("DynamicQuantizeLinear", ["h"], ["q", "step", "point"]),
        make("MatMulInteger", ["q", "m", "point"], ["sums"]),
        make("Cast", ["sums"], ["floats"], to=onnx.TensorProto.FLOAT),
        make("Mul", ["floats", "step"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "chaotic",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [80, 1, units])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 1, 4])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )


def test_last_bits_of_floats_do_not_grow_into_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(chaotic().SerializeToString())
    samples = np.random.default_rng(1).normal(0, 1, (2, 80, 1, 64)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=samples)
    # The network is chaotic: the last bits, which depend on the processor, decide the outputs. The
    # ratio of two unrelated outputs is near 0 dB, or below -10 dB if one of them is small.
    inputs = ["--inputs", str(tmp_path / "in.npz"), "--targets", "c", "--floor", "-30"]
    assert main([str(path), *inputs]) == 0
    assert "values within 1 step" in capsys.readouterr().out
