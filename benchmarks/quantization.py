"""
What int8 costs: float, each variant of `quantize`, and ONNX Runtime's own static quantization.

    python benchmarks/quantization.py MODEL.onnx CALIBRATION.npz TEST.npz [--labels L.npz]
        [--variants 'recipe=plain' 'recipe=plain observer=entropy' ...]

One line per variant, which is a list of options of the pass `quantize`: top-1 where there are
labels, agreement with float, signal to noise, and the processor time that quantizing took.
Networks run as target onnx exports them in ONNX Runtime, which gives the same integers as the
interpreter; the first samples are checked. ONNX Runtime quantizes the fused float network.
"""

import argparse
import logging
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.analysis.layer_noise import decibels
from ceras_ir.backends.onnx.export import export_model, serialized
from ceras_ir.driver.context import load_context
from ceras_ir.driver.end_metrics import load_labels
from ceras_ir.driver.pass_options import build
from ceras_ir.driver.stages import read_network
from ceras_ir.interpreters.network import run
from ceras_ir.samples import Array, load_samples
from ceras_ir.transforms.fuse import FusePass
from ceras_ir.transforms.quantize import QuantizePass

RECIPES = (
    "plain",
    "bias",
    "channels-bias",
    "rounding",
    "channels-rounding",
    "channels-rounding-bias",
    "auto",
)
CHECKED = 3
"""Samples on which ONNX Runtime is held to the interpreter."""

Results = list[NDArray[np.float64]]


class Session(Protocol):
    """What is used of ONNX Runtime, which has no type stubs."""

    def run(self, names: None, inputs: dict[str, Array]) -> list[Array]: ...


class Reader:
    """Samples as ONNX Runtime asks for them."""

    def __init__(self, samples: Iterator[dict[str, Array]]):
        self.samples = samples

    def get_next(self) -> dict[str, Array] | None:
        return next(self.samples, None)


def session(model: bytes) -> Session:
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def peer(floats: ModuleOp, calibration: str, *, per_channel: bool) -> bytes:
    """The fused network as ONNX Runtime quantizes it: min-max, float scales, int8."""
    tools = import_module("onnxruntime.quantization")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "q.onnx"
        tools.quantize_static(
            export_model(floats, "network"),
            path,
            Reader(iter(load_samples(calibration, floats))),
            quant_format=tools.QuantFormat.QDQ,
            per_channel=per_channel,
            activation_type=tools.QuantType.QInt8,
            weight_type=tools.QuantType.QInt8,
        )
        return path.read_bytes()


def first_outputs(model: bytes, samples: list[dict[str, Array]]) -> Results:
    runner = session(model)
    return [runner.run(None, sample)[0].astype(np.float64) for sample in samples]


class Table:
    """Prints lines as they are known."""

    def __init__(self, expected: Results, labels: NDArray[np.integer] | None):
        self.expected, self.labels = expected, labels

    def show(self, name: str, found: Results, seconds: float | None = None) -> None:
        best = [np.array([int(r.argmax()) for r in results]) for results in (found, self.expected)]
        cells = [f"{name:36}"]
        if self.labels is not None:
            cells.append(f"top-1 {(best[0] == self.labels).mean():.4f}")
        noise = sum(
            float(np.square(a - b).sum()) for a, b in zip(found, self.expected, strict=True)
        )
        signal = sum(float(np.square(b).sum()) for b in self.expected)
        cells.append(f"agreement {(best[0] == best[1]).mean():.4f}")
        cells.append(f"{decibels(signal, noise):5.1f} dB")
        cells.append("" if seconds is None else f"{seconds:6.1f} s")
        print("  ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "calibration", "test"):
        parser.add_argument(name)
    parser.add_argument("--labels")
    parser.add_argument("--variants", nargs="*", default=[f"recipe={r}" for r in RECIPES])
    arguments = parser.parse_args()
    logging.disable()
    floats = read_network(arguments.model)
    samples = list(load_samples(arguments.test, floats))
    labels = None if arguments.labels is None else load_labels(arguments.labels, len(samples))
    table = Table(first_outputs(Path(arguments.model).read_bytes(), samples), labels)
    table.show("float", table.expected)
    FusePass().apply(load_context(), floats)
    for variant in arguments.variants:
        module, started = floats.clone(), time.process_time()
        options = f"calibration={arguments.calibration} {variant}"
        build(QuantizePass, options).apply(load_context(), module)
        seconds = time.process_time() - started
        found = first_outputs(serialized(export_model(module, "network")), samples)
        for sample, array in zip(samples[:CHECKED], found, strict=False):
            exact = next(iter(run(module, sample).values())).astype(np.float64)
            np.testing.assert_allclose(exact, array, atol=1e-6)
        table.show(variant, found, seconds)
    for per_channel in (True, False):
        started = time.process_time()
        model = peer(floats, arguments.calibration, per_channel=per_channel)
        seconds = time.process_time() - started
        kind = "per channel" if per_channel else "per tensor"
        table.show(f"ONNX Runtime static, {kind}", first_outputs(model, samples), seconds)


if __name__ == "__main__":
    main()
