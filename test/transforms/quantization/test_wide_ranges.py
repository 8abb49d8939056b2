"""Test wide ranges in quantized networks: spectra, logarithms, features of different sizes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from noise_by_hand import ratio_by_hand
from numpy.typing import NDArray
from onnx import NodeProto
from onnx_models import model, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.quantize import QuantizePass

Samples = NDArray[np.float32]


def decibels(
    folder: Path,
    nodes: Sequence[NodeProto],
    constants: Mapping[str, Samples],
    samples: Samples,
    budget: float | None = None,
) -> float:
    """Return the signal-to-noise ratio at `y` of the last 8 samples of `x`; the rest calibrate."""
    np.savez(folder / "c.npz", x=samples[:-8, None])
    module = import_model(model(nodes, {"x": (1, *samples.shape[1:])}, ["y"], constants))
    FusePass().apply(load_context(), module)
    inputs = [{"x": x[None]} for x in samples[-8:]]
    expected = np.stack([run(module, x)["y"] for x in inputs])
    QuantizePass(calibration=str(folder / "c.npz"), budget=budget).apply(load_context(), module)
    got = np.stack([run(module, x)["y"] for x in inputs])
    return ratio_by_hand(expected, got)


def test_loud_and_quiet_frames(tmp_path: Path) -> None:
    """The powers of frames differ by a factor of a thousand: -4 dB with powers in int8."""
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(40, 16, 32)) * 10.0 ** rng.uniform(-1.5, 0, (40, 16, 1))
    constants = {
        "w": rng.normal(size=(32, 24)).astype(np.float32),
        "f": rng.uniform(size=(24, 8)).astype(np.float32),
        "e": np.array(1e-10, np.float32),
        "k": rng.normal(size=(8, 4)).astype(np.float32),
    }
    nodes = [
        node("MatMul", "x w", "s"),
        node("Mul", "s s", "p"),
        node("MatMul", "p f", "m"),
        node("Add", "m e", "n"),
        node("Log", "n", "l"),
        node("MatMul", "l k", "y"),
    ]
    assert decibels(tmp_path, nodes, constants, frames.astype(np.float32)) > 12


def test_a_lower_bound_before_a_logarithm(tmp_path: Path) -> None:
    """Silence has the logarithm of the bound, which is far below a step of int8."""
    rng = np.random.default_rng(0)
    frames = rng.uniform(size=(40, 64)) * 10.0 ** rng.uniform(-4, 3, (40, 1))
    frames[::4] = 0.0
    np.savez(tmp_path / "c.npz", x=frames.astype(np.float32)[:, None])
    constants = {
        "w": rng.uniform(size=(64, 16)).astype(np.float32),
        "e": np.array(1e-7, np.float32),
    }
    nodes = [node("MatMul", "x w", "m"), node("Max", "m e", "g"), node("Log", "g", "y")]
    module = import_model(model(nodes, {"x": (1, 64)}, ["y"], constants))
    FusePass().apply(load_context(), module)
    QuantizePass(calibration=str(tmp_path / "c.npz")).apply(load_context(), module)
    silence = run(module, {"x": np.zeros((1, 64), np.float32)})["y"]
    np.testing.assert_allclose(silence.astype(np.float32), np.log(np.float32(1e-7)), rtol=1e-6)


def test_magnitudes_of_a_spectrum(tmp_path: Path) -> None:
    """
    The magnitudes of bands differ by a factor of a hundred. Squares in int8, or magnitudes with a
    common scale, lose the quiet bands.
    """
    rng = np.random.default_rng(0)
    time = np.arange(64) / 64
    bands = np.arange(1, 25)
    loudness = 10.0 ** -(bands / 12)
    frames = rng.normal(size=(40, 8, 24)) * loudness @ np.cos(2 * np.pi * np.outer(bands, time))
    angles = 2 * np.pi * np.outer(time, bands)
    constants = {
        "c": np.cos(angles, dtype=np.float32),
        "s": np.sin(angles, dtype=np.float32),
        "k": (rng.normal(size=(24, 16)) / loudness[:, None]).astype(np.float32),
        "l": rng.normal(size=(16, 4)).astype(np.float32),
    }
    nodes = [
        node("MatMul", "x c", "re"),
        node("MatMul", "x s", "im"),
        node("Mul", "re re", "rr"),
        node("Mul", "im im", "ii"),
        node("Add", "rr ii", "p"),
        node("Sqrt", "p", "m"),
        node("MatMul", "m k", "a"),
        node("Relu", "a", "r"),
        node("MatMul", "r l", "y"),
    ]
    assert decibels(tmp_path, nodes, constants, frames.astype(np.float32)) > 16


def test_channels_that_few_samples_show(tmp_path: Path) -> None:
    """Channels that are nearly zero in 16 samples are not raised: raised, they leave 9 dB."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(48, 1, 16)) * 0.01
    samples[16:] *= 10.0 ** rng.uniform(0, 2, (32, 1, 16))
    samples[..., :2] = rng.normal(size=(48, 1, 2))
    constants = {
        "v": (np.eye(16) + rng.normal(size=(16, 16)) * 0.01).astype(np.float32),
        "k": rng.normal(size=(16, 16)).astype(np.float32),
        "l": rng.normal(size=(16, 4)).astype(np.float32),
    }
    nodes = [
        node("MatMul", "x v", "a"),
        node("Relu", "a", "r"),
        node("MatMul", "r k", "b"),
        node("Relu", "b", "q"),
        node("MatMul", "q l", "y"),
    ]
    assert decibels(tmp_path, nodes, constants, samples.astype(np.float32)) > 20


UNITS = np.array([1000, 30, 1, 0.01], np.float32)
"""The units of the features, which all have the same information."""


def test_features_that_the_network_normalizes(tmp_path: Path) -> None:
    """Small features are lost unless they are normalized in float: 0 dB."""
    rng = np.random.default_rng(0)
    samples = ((rng.normal(size=(72, 4)) + 3) * UNITS).astype(np.float32)
    constants = {
        "m": 3 * UNITS,
        "d": UNITS,
        "k": rng.normal(size=(4, 8)).astype(np.float32),
    }
    nodes = [node("Sub", "x m", "c"), node("Div", "c d", "n"), node("MatMul", "n k", "y")]
    assert decibels(tmp_path, nodes, constants, samples) > 35


def test_features_as_they_are(tmp_path: Path) -> None:
    """A layer uses features of different sizes: 0 dB with a common scale."""
    rng = np.random.default_rng(0)
    samples = (rng.normal(size=(72, 4)) * UNITS).astype(np.float32)
    constants = {"k": (rng.normal(size=(4, 8)) / UNITS[:, None]).astype(np.float32)}
    assert decibels(tmp_path, [node("MatMul", "x k", "y")], constants, samples) > 25


def test_rows_that_the_network_normalizes(tmp_path: Path) -> None:
    """Series with levels that differ by a factor of 1000, minus the mean: -1 dB in int8."""
    rng = np.random.default_rng(0)
    walks = np.cumsum(rng.normal(size=(72, 16)), axis=1)
    samples = ((walks + 100) * 10.0 ** rng.uniform(-1.5, 1.5, (72, 1))).astype(np.float32)
    constants = {"k": rng.normal(size=(16, 8)).astype(np.float32)}
    nodes = [
        node("ReduceMean", "x", "m", axes=[1], keepdims=1),
        node("Sub", "x m", "c"),
        node("Div", "c m", "n"),
        node("MatMul", "n k", "y"),
    ]
    assert decibels(tmp_path, nodes, constants, samples) > 25


def test_variances_of_planes(tmp_path: Path) -> None:
    """
    Instance normalization of planes with contrasts that differ by a factor of a hundred between
    samples: -2 dB with variances in int8.
    """
    rng = np.random.default_rng(0)
    contrast = 10.0 ** rng.uniform(-2, 0, (40, 1, 1, 1))
    samples = (rng.normal(size=(40, 2, 8, 8)) * contrast).astype(np.float32)
    constants = {
        "w": rng.normal(size=(4, 2, 3, 3)).astype(np.float32),
        "g": np.ones(4, np.float32),
        "b": np.zeros(4, np.float32),
        "v": rng.normal(size=(3, 4, 3, 3)).astype(np.float32),
    }
    nodes = [
        node("Conv", "x w", "a"),
        node("InstanceNormalization", "a g b", "n"),
        node("Conv", "n v", "y"),
    ]
    assert decibels(tmp_path, nodes, constants, samples) > 15


def test_what_int8_cannot_hold_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compute a small difference of large values, without time for 16 bits, and their sum."""
    rng = np.random.default_rng(0)
    constants = {
        "w": np.array([[0.5, 0.5], [0, 1 / 256]], np.float32),
        "k": np.array([[100], [-100]], np.float32),
    }
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "r"), node("MatMul", "r k", "y")]
    samples = (rng.uniform(0, 1, (40, 2)) * [1, 0.3]).astype(np.float32)
    told = "warning: int8 is too coarse for this network: the signal-to-noise ratio of stored"
    assert decibels(tmp_path, nodes, constants, samples, budget=1e-6) < 10
    assert told in capsys.readouterr().err
    constants["k"] = np.abs(constants["k"])
    assert decibels(tmp_path, nodes, constants, samples, budget=1e-6) > 25
    assert told not in capsys.readouterr().err


def test_channels_without_variance(tmp_path: Path) -> None:
    """A batch normalization after relu with a channel that is always zero: 0 dB in int8."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.normal(size=(8, 8)).astype(np.float32),
        "a": np.array([-100, *np.zeros(7)], np.float32),
        "g": rng.uniform(0.5, 1, 8).astype(np.float32),
        "b": np.array([0, *rng.normal(size=7)], np.float32),
        "v": np.array([0, *rng.uniform(0.5, 1, 7)], np.float32),
        "k": rng.normal(size=(8, 4)).astype(np.float32),
    }
    nodes = [
        node("MatMul", "x w", "l"),
        node("Add", "l a", "m"),
        node("Relu", "m", "r"),
        node("BatchNormalization", "r g b b v", "n"),
        node("MatMul", "n k", "y"),
    ]
    samples = rng.normal(size=(72, 8)).astype(np.float32)
    assert decibels(tmp_path, nodes, constants, samples) > 30
