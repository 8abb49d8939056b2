"""
What int8 costs: float, each variant of `quantize`, and ONNX Runtime's own static quantization.

    python benchmarks/quantization.py MODEL.onnx CALIBRATION.npz TEST.npz [--labels L.npz]
        [--variants 'recipe=none' 'target=vta observer=mse' ...]
        [--peers 'MinMax per-channel' 'Percentile per-channel' ...]

One line per variant, which is a list of options of the pass `quantize`: top-1 or mean IoU where
there are labels, and its difference from float with the standard error of that difference, from
resampled samples; agreement with float; signal to noise; the processor time that quantizing took.
Networks run compiled as C, which computes what every other level and target does. ONNX Runtime
quantizes the fused float network.
"""

import argparse
import logging
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.target import CTarget
from ceras_ir.backends.onnx.export import export_model
from ceras_ir.command.output_folder import write_artefacts
from ceras_ir.data.samples import Array, load_samples
from ceras_ir.driver.compare.end_metrics import end_metrics, load_labels
from ceras_ir.pipeline.build import build_target, open_folder
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.pass_options import build
from ceras_ir.pipeline.reading import read_network
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.quantize import QuantizePass

VARIANTS = ("recipe=none observer=mse", "target=c", "target=nnet", "target=vta")
PEERS = ("MinMax per-channel", "MinMax per-tensor")
TASK = ("top-1", "mean IoU")
RESAMPLED = 100

Samples = list[Mapping[str, Array]]


class Session(Protocol):
    """What is used of ONNX Runtime, which has no type stubs."""

    def run(self, names: None, inputs: Mapping[str, Array]) -> list[Array]: ...


class Reader:
    """Samples as ONNX Runtime asks for them."""

    def __init__(self, samples: Iterator[Mapping[str, Array]]):
        self.samples = samples

    def get_next(self) -> Mapping[str, Array] | None:
        return next(self.samples, None)


def session(model: bytes) -> Session:
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def peer(floats: ModuleOp, calibration: str, kind: str) -> bytes:
    """The fused network as ONNX Runtime quantizes it: float scales, int8."""
    tools = import_module("onnxruntime.quantization")
    method, weights = kind.split()
    # Other methods than min-max keep all activations of so many samples.
    few = {} if method == "MinMax" else {"CalibMaxIntermediateOutputs": 16}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "q.onnx"
        tools.quantize_static(
            export_model(floats, "network"),
            path,
            Reader(iter(load_samples(calibration, floats))),
            quant_format=tools.QuantFormat.QDQ,
            per_channel=weights == "per-channel",
            activation_type=tools.QuantType.QInt8,
            weight_type=tools.QuantType.QInt8,
            calibrate_method=tools.CalibrationMethod[method],
            extra_options=few,
        )
        return path.read_bytes()


def of_runtime(model: bytes, samples: Samples) -> Array:
    """The first output of every sample."""
    runner = session(model)
    return np.stack([runner.run(None, sample)[0] for sample in samples]).squeeze(1)


def of_target(module: ModuleOp, samples: Samples) -> Array:
    """The first output of every sample of a quantized network, compiled as C."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = build_target(module, BuildOptions(CTarget(weights="file")))
        write_artefacts(Path(folder), compiled.files())
        results = open_folder(Path(folder)).run(samples)
        return np.stack([next(iter(result.values())) for result in results]).squeeze(1)


class Table:
    """Prints lines as they are known."""

    def __init__(self, expected: Array, labels: NDArray[np.integer] | None):
        self.expected, self.labels = expected, labels

    def metrics(self, found: Array, chosen: NDArray[np.integer]) -> dict[str, tuple[float, float]]:
        """Of the float and the quantized network, on chosen samples."""
        labels = None if self.labels is None else self.labels[chosen]
        measured = end_metrics({"": self.expected[chosen]}, {"": found[chosen]}, labels, None)
        return {m.name: (m.quantized if m.real is None else m.real, m.quantized) for m in measured}

    def show(self, name: str, found: Array, seconds: float | None = None) -> None:
        count = len(found)
        values = self.metrics(found, np.arange(count))
        cells = [f"{name:36}"]
        for task in TASK:
            if task in values:
                real, quantized = values[task]
                drawn = np.random.default_rng(0).integers(0, count, (RESAMPLED, count))
                pairs = [self.metrics(found, chosen)[task] for chosen in drawn]
                error = float(np.std([pair[1] - pair[0] for pair in pairs]))
                cells.append(f"{task} {quantized:.4f} ({quantized - real:+.4f} ± {error:.4f})")
        if "agreement" in values:
            cells.append(f"agreement {values['agreement'][1]:.4f}")
        cells.append(f"{values['signal to noise (dB)'][1]:5.1f} dB")
        cells.append("" if seconds is None else f"{seconds:6.1f} s")
        print("  ".join(cells), flush=True)


def task_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser of the arguments that say what is measured on what."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "calibration", "test"):
        parser.add_argument(name)
    parser.add_argument("--labels")
    return parser


def open_task(model: str, test: str, labels: str | None) -> tuple[ModuleOp, Samples, Table]:
    """The fused float network, the samples that judge, and a table that begins with float."""
    logging.disable()
    floats = read_network(model)
    samples: Samples = list(load_samples(test, floats))
    known = None if labels is None else load_labels(labels, len(samples))
    table = Table(of_runtime(Path(model).read_bytes(), samples), known)
    table.show("float", table.expected)
    FusePass().apply(load_context(), floats)
    return floats, samples, table


def quantized(floats: ModuleOp, options: str) -> tuple[ModuleOp, float]:
    """A quantized copy, and the processor time that it took."""
    module, started = floats.clone(), time.process_time()
    build(QuantizePass, options).apply(load_context(), module)
    return module, time.process_time() - started


def main() -> None:
    parser = task_parser(__doc__)
    parser.add_argument("--variants", nargs="*", default=VARIANTS)
    parser.add_argument("--peers", nargs="*", default=PEERS)
    arguments = parser.parse_args()
    floats, samples, table = open_task(arguments.model, arguments.test, arguments.labels)
    for variant in arguments.variants:
        options = f"calibration={arguments.calibration} {variant}"
        module, seconds = quantized(floats, options)
        table.show(variant, of_target(module, samples), seconds)
    for kind in arguments.peers:
        started = time.process_time()
        model = peer(floats, arguments.calibration, kind)
        seconds = time.process_time() - started
        table.show(f"ONNX Runtime {kind}", of_runtime(model, samples), seconds)


if __name__ == "__main__":
    main()
