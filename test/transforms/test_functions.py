"""Functions of uneven channels: what each form of SiLU keeps of the signal, and that C agrees."""

from functools import cache
from math import inf
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from c_harness import check, place
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.analysis.function_forms import flat_ends
from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.output_noise import output_ratio
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.driver.context import load_context
from ceras_ir.driver.parsing import parse_text
from ceras_ir.samples import save_arrays
from ceras_ir.transforms.quantize import QuantizePass
from ceras_ir.transforms.set_silu import Silu

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
    """Depthwise convolutions behind SiLU whose channels are up to 2^7 apart, as in YOLOX-Nano."""
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
    QuantizePass(str(folder / "c.npz"), recipe=recipe, silu=silu).apply(load_context(), module)
    return module


def test_channels_cross_silu(tmp_path: Path) -> None:
    judged = [{"input0": x[None]} for x in data()[16:]]
    found = {
        (recipe, silu): output_ratio(network(), quantized(tmp_path, recipe, silu), judged)
        for recipe in ("plain", "channels")
        for silu in ("table", "table16", "piecewise", "float")
    }
    print(found)
    for silu in ("table", "table16", "piecewise", "float"):
        assert found["channels", silu] > found["plain", silu] + 10
    assert found["channels", "float"] > found["channels", "table16"] > found["channels", "table"]


@pytest.mark.parametrize("silu", ["table", "table16", "piecewise", "float"])
def test_forms_are_exact_in_c(silu: Silu, tmp_path: Path) -> None:
    module = quantized(tmp_path, "channels", silu)
    kinds = {"table": graph.LookupOp, "table16": graph.LookupOp, "piecewise": graph.ShiftSwishOp}
    expected = kinds.get(silu, graph.UnaryOp)
    assert sum(isinstance(op, expected) for op in main_function(module).body.block.ops) == 2
    check(place(module), {"input0": data()[:1]})


def test_hardswish_says_what_it_costs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    quantized(tmp_path, "plain", "hardswish")
    assert "2 SiLU became HardSwish" in (text := capfd.readouterr().err)
    assert "dB of signal to noise" in text


def test_flat_ends() -> None:
    assert flat_ends(FunctionAttr(Function.HARD_SWISH)) == (-3.0, inf)
    assert flat_ends(FunctionAttr(Function.CLIP, (0.0, 6.0))) == (0.0, 6.0)
    assert flat_ends(FunctionAttr(Function.LEAKY_RELU, (0.1,))) == (-inf, inf)
    low, high = flat_ends(FunctionAttr(Function.SIGMOID))
    assert 6 < high == -low < 7
