"""Check the noise of each form of SiLU on channels of different ranges, and the C code."""

from functools import cache
from math import inf
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from c_harness import check, place
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.driver.verify import tool as verify
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.analysis.function_forms import (
    Form,
    flat_bounds,
    quantized_form,
)
from ceras_ir.transforms.quantization.analysis.output_noise import output_ratio
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization_options import EQUALIZE_CHANNELS, OPTIONAL_PASSES, Silu

NETWORK = """
!map = tensor<1x6x6x12xf32>
func.func @main(%x: tensor<1x6x6x4xf32>) -> !map {{
  %w0 = graph.constant dense<{first}> : tensor<12x1x1x4xf32> : tensor<12x1x1x4xf32>
  %w1 = graph.constant dense<{depthwise}> : tensor<12x3x3x1xf32> : tensor<12x3x3x1xf32>
  %w2 = graph.constant dense<{last}> : tensor<12x1x1x12xf32> : tensor<12x1x1x12xf32>
  %0 = graph.conv2d %x, %w0 {{activation = #graph.function<swish>}}
      : (tensor<1x6x6x4xf32>, tensor<12x1x1x4xf32>) -> !map
  %1 = graph.conv2d %0, %w1 {{activation = #graph.function<swish>, groups = 12 : i64,
      padding = array<i64: 1, 1, 1, 1>}} : (!map, tensor<12x3x3x1xf32>) -> !map
  %2 = graph.conv2d %1, %w2 : (!map, tensor<12x1x1x12xf32>) -> !map
  func.return %2 : !map
}}
"""


@cache
def data() -> npt.NDArray[np.float32]:
    return np.random.default_rng(5).uniform(-2, 2, (24, 6, 6, 4)).astype(np.float32)


def network() -> ModuleOp:
    """Depthwise convolutions after SiLU with channel ratios of up to 2^7, as in YOLOX-Nano."""
    random = np.random.default_rng(4)
    gains = 2.0 ** random.uniform(-4, 3, 12)
    text = NETWORK.format(
        first=(random.normal(0, 1, (12, 1, 1, 4)) * gains[:, None, None, None]).round(6).tolist(),
        depthwise=random.normal(0, 0.5, (12, 3, 3, 1)).round(6).tolist(),
        last=(random.normal(0, 0.4, (12, 1, 1, 12)) / gains).round(6).tolist(),
    )
    return parse_text(load_context(), text, "silu.mlir")


def quantized(folder: Path, recipe: str, silu: Silu) -> ModuleOp:
    module = network()
    save_arrays(str(folder / "c.npz"), {"input0": data()[:16]})
    quantize = QuantizePass(str(folder / "c.npz"), recipe=(recipe,), silu=silu)
    quantize.apply(load_context(), module)
    return module


@pytest.mark.slow
def test_channels_cross_silu(tmp_path: Path) -> None:
    judged = [{"input0": x[None]} for x in data()[16:]]
    found = {
        (recipe, silu): output_ratio(network(), quantized(tmp_path, recipe, silu), judged)
        for recipe in ("none", EQUALIZE_CHANNELS)
        for silu in ("table", "table16", "piecewise", "float")
    }
    print(found)
    for silu in ("table", "table16", "piecewise", "float"):
        assert found[EQUALIZE_CHANNELS, silu] > found["none", silu] + 10
    assert (
        found[EQUALIZE_CHANNELS, "float"]
        > found[EQUALIZE_CHANNELS, "table16"]
        > found[EQUALIZE_CHANNELS, "table"]
    )


@pytest.mark.parametrize("silu", first_fast(1, ["table16", "table", "piecewise", "float"]))
def test_forms_are_exact_in_c(silu: Silu, tmp_path: Path) -> None:
    module = quantized(tmp_path, EQUALIZE_CHANNELS, silu)
    kinds = {"table": graph.LookupOp, "table16": graph.LookupOp, "piecewise": graph.ShiftSwishOp}
    expected = kinds.get(silu, graph.UnaryOp)
    assert sum(isinstance(op, expected) for op in main_function(module).body.block.ops) == 2
    check(place(module), {"input0": data()[:1]})


def test_hardswish_says_what_it_costs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    quantized(tmp_path, "none", "hardswish")
    assert "2 SiLU became HardSwish" in (text := capfd.readouterr().err)
    assert "a signal-to-noise ratio of" in text


def test_flat_ends() -> None:
    assert flat_bounds(FunctionAttr(Function.HARD_SWISH)) == (-3.0, inf)
    assert flat_bounds(FunctionAttr(Function.CLIP, (0.0, 6.0))) == (0.0, 6.0)
    assert flat_bounds(FunctionAttr(Function.LEAKY_RELU, (0.1,))) == (-inf, inf)
    low, high = flat_bounds(FunctionAttr(Function.SIGMOID))
    assert 6 < high == -low < 7


FORMS = """
!map = tensor<1x6x6x16xf32>
func.func @main(%x: tensor<1x6x6x4xf32>) -> !map {{
  %w0 = graph.constant dense<{stem}> : tensor<16x3x3x4xf32> : tensor<16x3x3x4xf32>
  %w1 = graph.constant dense<{depthwise}> : tensor<16x3x3x1xf32> : tensor<16x3x3x1xf32>
  %w2 = graph.constant dense<{second}> : tensor<16x1x1x16xf32> : tensor<16x1x1x16xf32>
  %w3 = graph.constant dense<{third}> : tensor<16x1x1x16xf32> : tensor<16x1x1x16xf32>
  %0 = graph.conv2d %x, %w0 {{padding = array<i64: 1, 1, 1, 1>}}
      : (tensor<1x6x6x4xf32>, tensor<16x3x3x4xf32>) -> !map loc("stem")
  %1 = graph.unary <swish> %0 {{graph.form = "{forms[0]}"}} : !map loc("swish0")
  %2 = graph.conv2d %1, %w1 {{groups = 16 : i64, padding = array<i64: 1, 1, 1, 1>}}
      : (!map, tensor<16x3x3x1xf32>) -> !map loc("depthwise")
  %3 = graph.unary <swish> %2 {{graph.form = "{forms[1]}"}} : !map loc("swish1")
  %4 = graph.conv2d %3, %w2 : (!map, tensor<16x1x1x16xf32>) -> !map loc("second")
  %5 = graph.unary <swish> %4 {{graph.form = "{forms[2]}"}} : !map loc("swish2")
  %6 = graph.conv2d %5, %w3 : (!map, tensor<16x1x1x16xf32>) -> !map loc("third")
  %7 = graph.unary <sigmoid> %6 {{graph.form = "{forms[3]}"}} : !map loc("sigmoid")
  func.return %7 : !map
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forms", "recipe", "targets"),
    [
        (
            ("shifts", "table16", "table", "table16"),
            f"{EQUALIZE_CHANNELS},round-weights",
            "c,nnet,vta",
        ),
        (("table", "shifts", "float", "table"), "none", "c,nnet,vta"),
        (
            ("table16", "float", "table", "table16"),
            f"{EQUALIZE_CHANNELS},round-weights",
            "c,nnet,vta,onnx",
        ),
        (("float", "table", "table16", "table"), ",".join(OPTIONAL_PASSES), "c,onnx"),
    ],
)
def test_mixed_forms_are_exact(
    forms: tuple[str, ...], recipe: str, targets: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(7)
    shapes = {"stem": (16, 3, 3, 4), "depthwise": (16, 3, 3, 1)}
    shapes |= {"second": (16, 1, 1, 16), "third": (16, 1, 1, 16)}
    weights = {n: random.normal(0, 0.5, s).round(6).tolist() for n, s in shapes.items()}
    (tmp_path / "n.mlir").write_text(FORMS.format(forms=forms, **weights))
    save_arrays(str(tmp_path / "c.npz"), {"input0": data()[:8]})
    options = ("--inputs", "c.npz", "--calibrate", "c.npz", "--recipe", recipe, "--silu", "table")
    options = tuple(str(tmp_path / o) if o.endswith(".npz") else o for o in options)
    command = [str(tmp_path / "n.mlir"), *options, "--samples", "2", "--targets", targets]
    assert verify.main(command) == 0


UNEQUAL = """
!map = tensor<1x6x6x8xf32>
func.func @main(%x: tensor<1x6x6x4xf32>) -> !map {{
  %w0 = graph.constant dense<{first}> : tensor<8x1x1x4xf32> : tensor<8x1x1x4xf32>
  %w1 = graph.constant dense<{second}> : tensor<8x1x1x4xf32> : tensor<8x1x1x4xf32>
  %w2 = graph.constant dense<{loud}> : tensor<8x1x1x8xf32> : tensor<8x1x1x8xf32>
  %w3 = graph.constant dense<{quiet}> : tensor<8x1x1x8xf32> : tensor<8x1x1x8xf32>
  %0 = graph.conv2d %x, %w0 {{activation = #graph.function<tanh>}}
      : (tensor<1x6x6x4xf32>, tensor<8x1x1x4xf32>) -> !map
  %1 = graph.conv2d %x, %w1 {{activation = #graph.function<swish>}}
      : (tensor<1x6x6x4xf32>, tensor<8x1x1x4xf32>) -> !map
  %2 = graph.conv2d %0, %w2 : (!map, tensor<8x1x1x8xf32>) -> !map
  %3 = graph.conv2d %1, %w3 residual %2 : !map : (!map, tensor<8x1x1x8xf32>) -> !map
  func.return %3 : !map
}}
"""


def test_sums_that_matter_have_16_bits(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The output depends on the result of a tanh, but only on a thousandth of that of a SiLU."""
    random = np.random.default_rng(8)
    shapes = {"first": (8, 1, 1, 4), "second": (8, 1, 1, 4), "loud": (8, 1, 1, 8)}
    weights = {name: random.normal(0, 1, shape) for name, shape in shapes.items()}
    weights["quiet"] = random.choice([-0.0005, 0.0005], (8, 1, 1, 8))
    # The result of the tanh of small sums, at the scale of large unused sums.
    weights["first"] *= np.repeat([4, 0.03], 4)[:, None, None, None]
    weights["loud"][..., :4] = 0
    text = UNEQUAL.format(**{name: w.round(6).tolist() for name, w in weights.items()})
    module = parse_text(load_context(), text, "unequal.mlir")
    save_arrays(str(tmp_path / "c.npz"), {"input0": data()[:16]})
    recipe = ("choose-precision",)
    quantize = QuantizePass(str(tmp_path / "c.npz"), recipe=recipe, observer="minmax", budget=0.7)
    quantize.apply(load_context(), module)
    assert "16 bits for 3 values: noise" in capfd.readouterr().err
    forms = [quantized_form(op) for op in main_function(module).body.block.ops]
    assert [form for form in forms if form] == [Form.TABLE16, Form.TABLE]
    check(place(module), {"input0": data()[:1]})
