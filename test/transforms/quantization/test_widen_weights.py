"""Run layers with weights of each width on several targets, before and after they are widened."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.widen_weights import WidenWeightsPass

STORAGE = [*(f"i{width}" for width in range(2, 9)), *(f"u{width}" for width in range(1, 9))]

TEXT = """
func.func @main(%x: tensor<1x6x6x4x!quant.uniform<i8:f32, 0.5:3>> {{graph.name = "x"}})
    -> (tensor<1x4x4x8x!quant.uniform<i8:f32, 1.0>> {{graph.name = "y"}}) {{
  %w = graph.constant dense<"0x{data}"> : tensor<8x3x3x4x{held}> : {weights}
  %y = graph.conv2d %x, %w {{requant = #graph.requant<shift = 5, rounding = half_up, low = -128,
      high = 127>}} : (tensor<1x6x6x4x!quant.uniform<i8:f32, 0.5:3>>, {weights})
      -> tensor<1x4x4x8x!quant.uniform<i8:f32, 1.0>> loc("layer")
  func.return %y : tensor<1x4x4x8x!quant.uniform<i8:f32, 1.0>>
}}
"""


def layer(storage: str) -> tuple[str, Mapping[str, np.ndarray]]:
    """Return a convolution with random weights of the type `storage`, and inputs."""
    rng, width = np.random.default_rng(len(storage)), int(storage[1:])
    low, high = (0, 1 << width) if storage[0] == "u" else (-(1 << width - 1), 1 << width - 1)
    integers = rng.integers(low, high, (8, 3, 3, 4)).astype(np.int16).astype(np.uint8)
    text = TEXT.format(
        data=integers.tobytes().hex(),
        held=storage.replace("u", "ui"),
        weights=f"tensor<8x3x3x4x!quant.uniform<{storage}:f32, 0.0625:{high // 2}>>",
    )
    return text, {"x": rng.integers(-128, 128, (1, 6, 6, 4)).astype(np.int8)}


@pytest.mark.parametrize("storage", STORAGE)
def test_results_do_not_change(storage: str):
    text, inputs = layer(storage)
    narrow, wide = (parse_text(load_context(), text, "layer.mlir") for _ in range(2))
    WidenWeightsPass().apply(load_context(), wide)
    assert (f"{storage}:f32" in str(wide)) == (storage[1:] == "8")
    expected, actual = (run(module, inputs)["y"] for module in (narrow, wide))
    assert np.unique(expected).size > 10
    np.testing.assert_array_equal(actual, expected)
    WidenWeightsPass("interp").apply(load_context(), narrow)
    assert f"{storage}:f32" in str(narrow)


@pytest.mark.needs("nnet", "vta")
@pytest.mark.parametrize("storage", ("i2", "u4", "i5"))
def test_targets_that_store_other_widths(
    storage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "layer.mlir"
    path.write_text(layer(storage)[0])
    for target in ("c", "nnet", "vta"):
        assert verify_main([str(path), "--targets", target]) == 0
    captured = capsys.readouterr()
    bits = storage[1:]
    for target, is_widened in (("nnet", bits == "5"), ("vta", True)):
        note = f"1 layer with {bits}-bit weights is stored as int8: target {target} stores weights"
        assert captured.err.count(note) == is_widened
    assert "machine                       exact" in captured.out
