"""Check PReLU with a slope per channel: the tables, the accuracy, and the code of targets."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from c_harness import check, place
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Operation
from xdsl.utils.test_value import create_ssa_value

from ceras_ir.backends.mlir import operations as mlir
from ceras_ir.backends.nnet.writer import why_not_written
from ceras_ir.data.array_archive import save_arrays
from ceras_ir.dialects import graph
from ceras_ir.driver.verify import tool as verify
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.analysis.output_noise import output_ratio, outputs_of
from ceras_ir.transforms.quantization.analysis.rescaling import exponents_of
from ceras_ir.transforms.quantization.channel_slopes import SeparateSlopesPass
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization.set_precision import SetFunctionsPass
from ceras_ir.transforms.quantization_options import Silu

SLOPES = 0.25, 1.5, -0.5, 0.25, 0.75, 0.125, 2.0, 0.0
NETWORK = """
!map = tensor<1x4x4x8xf32>
!result = tensor<1x4x{extent}x{outputs}xf32>
func.func @main(%x: tensor<1x4x4x3xf32>) -> !result {{
  %w = graph.constant dense<{first}> : tensor<8x1x1x3xf32> : tensor<8x1x1x3xf32>
  %v = graph.constant dense<{last}>
      : tensor<{outputs}x1x{taps}x8xf32> : tensor<{outputs}x1x{taps}x8xf32>
  %s = graph.constant dense<{slopes}> : tensor<8xf32> : tensor<8xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x4x4x3xf32>, tensor<8x1x1x3xf32>) -> !map
  %1 = graph.unary <clip, -inf, 0.0> %0 : !map
  %2 = graph.binary mul %1, %s : (!map, tensor<8xf32>) -> !map
  %3 = graph.unary <relu> %0 : !map
  %4 = graph.binary add %3, %2 : (!map, !map) -> !map
  %5 = graph.conv2d %4, %v : (!map, tensor<{outputs}x1x{taps}x8xf32>) -> !result
  func.return %5 : !result
}}
"""


def network(outputs: int = 8, taps: int = 1) -> ModuleOp:
    random = np.random.default_rng(3)
    first = random.normal(0, 1, (8, 1, 1, 3)).round(3).tolist()
    last = random.normal(0, 1, (outputs, 1, taps, 8)).round(3).tolist()
    sizes = {"outputs": outputs, "taps": taps, "extent": 5 - taps}
    text = NETWORK.format(first=first, last=last, slopes=list(SLOPES), **sizes)
    return parse_text(load_context(), text, "slopes.mlir")


def samples(path: Path) -> str:
    data = np.random.default_rng(4).normal(0, 1, (40, 4, 4, 3)).astype(np.float32)
    save_arrays(str(path / "c.npz"), {"input0": data})
    return str(path / "c.npz")


@pytest.mark.parametrize(("silu", "bound"), [("table", 29), ("table16", 29.9)])
def test_slopes_become_rows_of_a_table(tmp_path: Path, silu: Silu, bound: float) -> None:
    module, data = network(), samples(tmp_path)
    floats = module.clone()
    QuantizePass(data, budget=0, silu=silu, observer="minmax").apply(load_context(), module)
    ops = list(main_function(module).body.block.ops)
    (lookup,) = (op for op in ops if isinstance(op, graph.LookupOp))
    assert not any(isinstance(op, graph.BinaryOp | graph.UnaryOp) for op in ops)
    assert lookup.channel_rows is not None
    source, target = graph.stored_element(lookup.input), graph.stored_element(lookup.result)
    half = lookup.tables.shape[1] // 2
    exponents = exponents_of(lookup)
    assert exponents is not None
    before, after = exponents
    stored: NDArray[np.int64] = np.arange(-half, half, dtype=np.int64)
    for channel, row in enumerate(lookup.channel_rows):
        x = (stored - source.zero_point) * source.scale * 2.0 ** before[channel]
        y = np.where(x < 0, x * SLOPES[channel], x) * 2.0 ** -after[channel] / target.scale
        expected = np.clip(np.rint(y) + target.zero_point, target.low, target.high)
        np.testing.assert_array_equal(lookup.tables[row], expected)
    inputs = [{"input0": array[None]} for array in np.load(data)["input0"][:8]]
    assert output_ratio(floats, module, inputs) > bound
    check(place(module), inputs[0])


def test_slopes_in_float_are_separate_only_for_targets_that_ask(tmp_path: Path) -> None:
    module, data = network(), samples(tmp_path)
    named = "graph.unary at line 13"
    QuantizePass(data, budget=0, float=(named,)).apply(load_context(), module)
    whole, inputs = module.clone(), [{"input0": array[None]} for array in np.load(data)["input0"]]
    assert functions_of(module) == ["leaky_relu"]
    SeparateSlopesPass().apply(load_context(), module)
    assert functions_of(module) == ["relu", "clip"]
    found = [outputs_of(each, inputs) for each in (whole, module)]
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(list(mine.values()), list(theirs.values()))


@pytest.mark.parametrize("outputs", [8, 320])
def test_pairs_compute_the_function_unless_products_take_longer(outputs: int) -> None:
    module = network(outputs, taps=3)
    SetFunctionsPass(rules=("merge-slopes",)).apply(load_context(), module)
    paired = module.clone()
    SetFunctionsPass(rules=("pair-slopes",), narrow=True).apply(load_context(), paired)
    # 128 lookups take as long as 36,096 products. 320 outputs of 8 pixels need 40,960 more.
    assert functions_of(paired) == (["leaky_relu"] if outputs > 8 else [])
    x = np.random.default_rng(5).normal(0, 1, (1, 4, 4, 3)).astype(np.float32)
    (mine,), (theirs,) = (outputs_of(each, [{"input0": x}]) for each in (module, paired))
    for name, value in mine.items():
        floats = theirs[name].astype(np.float64), value.astype(np.float64)
        np.testing.assert_allclose(*floats, rtol=1e-5, atol=1e-5)


def functions_of(module: ModuleOp) -> list[str]:
    """Return the functions of a network without lookup tables."""
    ops = list(main_function(module).body.block.ops)
    assert not any(isinstance(op, graph.LookupOp) for op in ops)
    return [op.spelling for op in ops if isinstance(op, graph.UnaryOp)]


@pytest.mark.parametrize("target", ["c", "nnet", "vta", "onnx"])
def test_targets_agree(tmp_path: Path, target: str) -> None:
    model, data = tmp_path / "m.mlir", samples(tmp_path)
    model.write_text(str(network()))
    options = ["--calibrate", data, "--inputs", data, "--samples", "2", "--targets", target]
    assert verify.main([str(model), *options]) == 0


@pytest.mark.parametrize("why_not", [mlir.why_not, why_not_written], ids=["mlir", "nnet"])
def test_targets_with_a_single_slope_refuse_several(why_not: Callable[[Operation], str | None]):
    x = create_ssa_value(TensorType(f32, [1, 2]))
    merged = graph.UnaryOp(x, graph.FunctionAttr(graph.Function.LEAKY_RELU, [0.5, 0.25]))
    assert "slopes per channel" in (why_not(merged) or "")
    plain = graph.UnaryOp(x, graph.FunctionAttr(graph.Function.LEAKY_RELU, [0.5]))
    assert why_not(plain) is None
