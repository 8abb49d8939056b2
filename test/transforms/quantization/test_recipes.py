"""Check passes that improve the result: exactness, or smaller noise."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from onnx_random import random_network

from ceras_ir.command.entry_point import Command, commands
from ceras_ir.data.array_archive import save_arrays
from ceras_ir.dialects import graph
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.run import main as run_main
from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import input_names, main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.transforms.graph.fuse import FusePass, SplitActivationRule
from ceras_ir.transforms.quantization.channel_scales import EqualizeChannelsPass
from ceras_ir.transforms.quantization.choose_precision import ChoosePrecisionPass
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization.round_weights import round_to_nearest, round_with_compensation
from ceras_ir.transforms.quantization_options import (
    CHOOSE_ROW_EXPONENTS,
    CHOOSE_ZERO_POINTS,
    EQUALIZE_CHANNELS,
    NO_PASSES,
    OPTIONAL_PASSES,
    ROUND_WEIGHTS,
    check_recipe,
    default_recipe,
)

Floats = npt.NDArray[np.float32]

compare_main = Command("ceras-compare", "", "ceras_ir.workbench.compare.tool")

MAINS = {
    "compile": (compile_main, "--target", "c", "-o", "no"),
    "verify": (verify_main,),
    "compare": (compare_main, "--inputs", "c.npz"),
    "run": (run_main, "--inputs", "c.npz", "--outputs", "no.npz"),
}

UNEVEN = """
!map = tensor<1x8x8x16xf32>
func.func @main(%x: tensor<1x8x8x4xf32>) -> !map {{
  %w0 = graph.constant dense<{first}> : tensor<16x1x1x4xf32> : tensor<16x1x1x4xf32>
  %b0 = graph.constant dense<{bias}> : tensor<16xf32> : tensor<16xf32>
  %w1 = graph.constant dense<{depthwise}> : tensor<16x3x3x1xf32> : tensor<16x3x3x1xf32>
  %w2 = graph.constant dense<{last}> : tensor<16x1x1x16xf32> : tensor<16x1x1x16xf32>
  %0 = graph.conv2d %x, %w0 bias %b0 : tensor<16xf32> {{activation = #graph.function<relu>}}
      : (tensor<1x8x8x4xf32>, tensor<16x1x1x4xf32>) -> !map
  %1 = graph.conv2d %0, %w1 {{activation = #graph.function<relu>, groups = 16 : i64,
      padding = array<i64: 1, 1, 1, 1>}} : (!map, tensor<16x3x3x1xf32>) -> !map
  %2 = graph.conv2d %1, %w2 : (!map, tensor<16x1x1x16xf32>) -> !map
  func.return %2 : !map
}}
"""


def uneven() -> tuple[str, list[Floats]]:
    """Return a depthwise network with channel ratios of up to 2^9, and data."""
    random = np.random.default_rng(11)
    gains = 2.0 ** random.uniform(-6, 3, 16)
    first = random.normal(0, 1, (16, 1, 1, 4)) * gains[:, None, None, None]
    text = UNEVEN.format(
        first=first.round(6).tolist(),
        bias=(random.normal(0, 0.2, 16) * gains).round(6).tolist(),
        depthwise=random.normal(0, 0.4, (16, 3, 3, 1)).round(6).tolist(),
        last=(random.normal(0, 0.4, (16, 1, 1, 16)) / gains).round(6).tolist(),
    )
    data = random.uniform(-1, 1, (40, 8, 8, 4)).astype(np.float32)
    return text, list(data[:, None])


def noise(recipe: tuple[str, ...], folder: Path) -> float:
    """Return the noise power over the signal power of the quantized network."""
    text, data = uneven()
    module = parse_text(load_context(), text, "uneven.mlir")
    expected = [run(module, {"input0": x})["output0"] for x in data]
    save_arrays(str(folder / "cal.npz"), {"input0": np.concatenate(data[:24])})
    quantize = QuantizePass(str(folder / "cal.npz"), recipe=recipe, observer="minmax")
    quantize.apply(load_context(), module)
    verify_module(module)
    actual = [run(module, {"input0": x})["output0"] for x in data]
    real = np.stack(expected).astype(np.float64)
    error = np.stack(actual).astype(np.float64) - real
    return float(np.square(error).sum() / np.square(real).sum())


@pytest.mark.slow
def test_recipes_help_uneven_channels(tmp_path: Path) -> None:
    recipes = {
        "none": (NO_PASSES,),
        "channels": (EQUALIZE_CHANNELS,),
        "rounding": (ROUND_WEIGHTS,),
        "both": (EQUALIZE_CHANNELS, ROUND_WEIGHTS),
        # Channels after ReLU use all eight bits.
        "asymmetric": (EQUALIZE_CHANNELS, CHOOSE_ZERO_POINTS, ROUND_WEIGHTS),
        "default": (),
    }
    found = {name: noise(recipe, tmp_path) for name, recipe in recipes.items()}
    print(found)
    assert found["channels"] < found["none"] / 10
    assert found["rounding"] < found["none"]
    assert found["both"] <= min(found["channels"], found["rounding"])
    assert found["asymmetric"] < found["both"]
    assert found["default"] <= found["none"] / 10


DEFAULT = OPTIONAL_PASSES


def test_without_shifts_for_channels_rows_share_a_scale() -> None:
    assert default_recipe(channel_shifts=True) == DEFAULT
    assert default_recipe(channel_shifts=False) == tuple(
        p for p in DEFAULT if p != CHOOSE_ROW_EXPONENTS
    )


@pytest.mark.parametrize("target", ["c", "nnet", "onnx", "vta"])
def test_the_target_decides(target: str) -> None:
    """The arithmetic of the target and the user determine the passes."""
    quantize = QuantizePass(target=target)
    names = [p.name for p in quantize.passes() if p.name in OPTIONAL_PASSES]
    assert tuple(names) == quantize.optional == DEFAULT
    (choose,) = (p for p in quantize.passes() if isinstance(p, ChoosePrecisionPass))
    assert (choose.narrow, choose.narrow_border) == (target in ("nnet", "vta"), False)
    chosen = QuantizePass(target=target, recipe=(ROUND_WEIGHTS, EQUALIZE_CHANNELS))
    assert [p.name for p in chosen.passes() if p.name in OPTIONAL_PASSES] == [
        EQUALIZE_CHANNELS,
        ROUND_WEIGHTS,
    ]
    none = QuantizePass(target=target, recipe=(NO_PASSES,))
    assert not [p.name for p in none.passes() if p.name in OPTIONAL_PASSES]


REFUSED = {
    "plain": "recipes are passes, write none",
    "bias": "recipes are passes, write none",
    "channels": "recipes are passes, write equalize-channels",
    "rows": "recipes are passes, write choose-row-exponents",
    "rounding": "recipes are passes, write round-weights",
    "channels-rounding": "recipes are passes, write equalize-channels,round-weights",
    "asymmetric-plain": "recipes are passes, write fit-inputs,choose-zero-points",
    "asymmetric-rows-channels-rounding-bias": "recipes are passes, write fit-inputs,"
    "equalize-channels,choose-zero-points,choose-row-exponents,round-weights",
    "auto": "--recipe auto was removed: leave out --recipe, and the target decides",
    "round-weigths": "is not an optional pass of quantize; did you mean 'round-weights'",
    "best": "is not an optional pass of quantize (passes: fit-inputs, equalize-channels, ",
    "correct-bias": "correct-bias was removed: round-weights includes bias correction",
    "none,round-weights": "'none' is a recipe without passes: remove it",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_recipe(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command refuses the text with a suggestion, which is accepted."""
    monkeypatch.chdir(tmp_path)
    Path("n.mlir").write_text(DIFFERENCE)
    save_large_pairs(Path("c.npz"))
    for tool, (main, *rest) in MAINS.items():
        if tool not in commands():
            continue
        assert main(["n.mlir", "--recipe", name, *rest]) == 2
        said = capsys.readouterr().err
        assert REFUSED[name] in said and f"ceras-{tool} --help" in said
    with pytest.raises(UsageError) as caught:
        QuantizePass(recipe=tuple(name.split(",")))
    assert REFUSED[name].replace("--recipe", "option 'recipe' of pass 'quantize'") in str(
        caught.value
    )
    if " write " in REFUSED[name]:
        check_recipe(REFUSED[name].partition(" write ")[2].split(","), "--recipe")


DIFFERENCE = """
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, -1.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.matmul %x, %w {activation = #graph.function<swish>}
      : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %0 : tensor<1x1xf32>
}
"""


def save_large_pairs(path: Path) -> None:
    """Save pairs with a small difference."""
    random = np.random.default_rng(5)
    left = random.uniform(0, 255, (32, 1))
    data = np.concatenate([left, left - random.uniform(-1, 1, (32, 1))], 1).astype(np.float32)
    save_arrays(str(path), {"input0": data})


def test_inputs_that_int8_hurts_have_16_bits(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Half a unit of int8 is as large as the difference of the two large inputs."""
    save_large_pairs(tmp_path / "c.npz")
    for tail in ("float", "int8"):
        module = parse_text(load_context(), DIFFERENCE, "difference.mlir")
        quantize = QuantizePass(str(tmp_path / "c.npz"), budget=2, observer="minmax", tail=tail)
        quantize.apply(load_context(), module)
        verify_module(module)
        # `--io int8` gives int8 inputs.
        (first, *_) = (op for op in module.walk() if isinstance(op, graph.QuantizeOp))
        assert ("<i16" in str(first.result.type)) == (tail == "float")
        said = capfd.readouterr().err
        assert ("input0 (" in said) == (tail == "float")


@pytest.mark.parametrize("seed", range(12))
def test_equalization_is_exact(seed: int, tmp_path: Path) -> None:
    module = import_model(random_network(seed))
    FusePass().apply(load_context(), module)
    SplitActivationRule().apply(load_context(), module)
    main = main_function(module)
    random = np.random.default_rng(seed)
    names = input_names(main)
    data = {
        name: random.uniform(-1, 1, (3, *graph.shape_of(value))).astype(np.float32)
        for name, value in zip(names, main.body.block.args, strict=True)
    }
    save_arrays(
        str(tmp_path / "c.npz"),
        {n: a[:, 0] if a.shape[1] == 1 and a.ndim > 1 else a for n, a in data.items()},
    )
    samples = [{name: array[i] for name, array in data.items()} for i in range(3)]
    before = [run(module, sample) for sample in samples]
    EqualizeChannelsPass(str(tmp_path / "c.npz")).apply(load_context(), module)
    verify_module(module)
    for sample, expected in zip(samples, before, strict=True):
        for name, array in run(module, sample).items():
            np.testing.assert_array_equal(array, expected[name])


def test_compensation_beats_rounding() -> None:
    random = np.random.default_rng(2)
    x = random.normal(0, 1, (400, 24)) @ random.normal(0, 1, (24, 24))
    weights = random.normal(0, 0.3, (1, 10, 24))
    pairs = (x.T @ x / len(x))[None]
    rounded = round_with_compensation(weights, pairs, np.full((1, 10, 1), 1 / 16))
    assert (rounded * 16 == np.rint(rounded * 16)).all() and np.abs(rounded * 16).max() <= 127
    errors = [
        np.square(x @ (w - weights)[0].T).mean()
        for w in (rounded, round_to_nearest(weights, 1 / 16))
    ]
    assert errors[0] < errors[1] / 2


def test_weights_without_inputs_stay_nearest() -> None:
    weights = np.random.default_rng(3).normal(0, 0.3, (1, 5, 9))
    np.testing.assert_array_equal(
        round_with_compensation(weights, np.zeros((1, 9, 9)), np.full((1, 5, 1), 1 / 32)),
        round_to_nearest(weights, 1 / 32),
    )
