"""Check the noise that remains if only weights or only stored values are rounded."""

from dataclasses import replace
from math import inf, log10
from pathlib import Path

import numpy as np
import onnx_models as om
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.target import CTarget
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.workbench.compare.floors import Floors, floors

RANDOM = np.random.default_rng(0)
SAMPLES = RANDOM.normal(0, 1, (64, 1, 32)).astype(np.float32)


def measured(weights: NDArray[np.floating], folder: Path, *recipe: str) -> Floors:
    """Return the figures of a single product, with these optional passes."""
    constants = {"w": weights.astype(np.float32)}
    nodes = [om.node("MatMul", "x w", "y")]
    model = om.model(nodes, {"x": (1, 32)}, ["y"], constants)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    np.savez(folder / "x.npz", x=SAMPLES)
    module: ModuleOp = read_network(str(folder / "m.onnx"))
    FusePass().apply(load_context(), module)
    options = BuildOptions(CTarget(), calibration=str(folder / "x.npz"), recipe=recipe)
    return floors(
        module, replace(options, quantize="int8", budget=0.0), [{"x": x} for x in SAMPLES[:32]]
    )


def test_exact_weights_add_no_noise(tmp_path: Path) -> None:
    weights = RANDOM.integers(-127, 128, (32, 8)) / 128
    weights[0] = 127 / 128
    found = measured(weights, tmp_path, "none")
    assert found.weights == inf
    assert found.values == pytest.approx(found.quantized, abs=0.1)
    assert found.wide > found.quantized + 20


def test_noise_of_weights_and_of_values_adds_up(tmp_path: Path) -> None:
    found = measured(RANDOM.normal(0, 0.2, (32, 8)), tmp_path, "none")
    both = sum(10 ** (-ratio / 10) for ratio in (found.weights, found.values))
    # The correlation of both noises over 256 elements has a standard error of 1/16: 0.26 dB.
    assert found.quantized == pytest.approx(-10 * log10(both), abs=1.0)
    assert found.wide == pytest.approx(found.weights, abs=0.5)
    assert found.quantized < found.wide
    assert "weights only" in str(found)
