"""Logarithms of spectra in quantized networks."""

from pathlib import Path

import numpy as np
from onnx_models import model, node

from ceras_ir.driver.differences import signal_to_noise
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.quantize import QuantizePass


def test_loud_and_quiet_frames(tmp_path: Path) -> None:
    """Frames whose powers differ by a factor of a thousand: powers in int8 leave -4 dB."""
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(40, 16, 32)) * 10.0 ** rng.uniform(-1.5, 0, (40, 16, 1))
    samples = frames.astype(np.float32)
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
    np.savez(tmp_path / "c.npz", x=samples[:32, None])
    module = import_model(model(nodes, {"x": (1, 16, 32)}, ["y"], constants))
    FusePass().apply(load_context(), module)
    inputs = [{"x": x[None]} for x in samples[32:]]
    expected = np.stack([run(module, x)["y"] for x in inputs])
    QuantizePass(calibration=str(tmp_path / "c.npz")).apply(load_context(), module)
    got = np.stack([run(module, x)["y"] for x in inputs])
    assert signal_to_noise([got], [expected]) > 12
