"""
What int8 costs: top-1 of float, of each recipe of `quantize`, and of ONNX Runtime's own.

    python benchmarks/quantization.py MODEL.onnx CALIBRATION.npz TEST.npz LABELS.npz [RECIPE...]

One line per variant: top-1, and agreement with float. ONNX Runtime quantizes statically, min-max,
float scales per channel, calibrated on the same samples.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ceras_ir.driver.context import load_context
from ceras_ir.driver.end_metrics import load_labels
from ceras_ir.driver.stages import read_network
from ceras_ir.interpreters.network import run
from ceras_ir.samples import Array, load_samples
from ceras_ir.transforms.fuse import FusePass
from ceras_ir.transforms.quantize import QuantizePass

RECIPES = ("plain", "bias", "channels", "channels-bias", "rounding", "channels-rounding")


class Reader:
    """Samples as ONNX Runtime asks for them."""

    def __init__(self, samples: Iterator[dict[str, Array]]):
        self.samples = samples

    def get_next(self) -> dict[str, Array] | None:
        return next(self.samples, None)


def classes(results: Iterator[dict[str, Array]]) -> NDArray[np.integer]:
    """The best class of each sample."""
    return np.array([int(next(iter(r.values())).argmax()) for r in results])


def peer(model: str, calibration: str, test: str) -> NDArray[np.integer]:
    """What ONNX Runtime's static quantization predicts."""
    # Without type stubs: loaded by name.
    runtime = import_module("onnxruntime")
    tools = import_module("onnxruntime.quantization")
    module = read_network(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "q.onnx"
        tools.quantize_static(
            model,
            path,
            Reader(iter(load_samples(calibration, module))),
            quant_format=tools.QuantFormat.QDQ,
            per_channel=True,
            activation_type=tools.QuantType.QInt8,
            weight_type=tools.QuantType.QInt8,
        )
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        name = session.get_outputs()[0].name
        samples = load_samples(test, module)
        return classes({name: np.asarray(session.run([name], s)[0])} for s in samples)


def main(model: str, calibration: str, test: str, labels: str, *recipes: str) -> None:
    floats = read_network(model)
    FusePass().apply(load_context(), floats)
    samples = list(load_samples(test, floats))
    truth = load_labels(labels, len(samples))
    expected = classes(run(floats, s) for s in samples)

    def show(name: str, found: NDArray[np.integer], seconds: float = 0.0) -> None:
        top, same = (found == truth).mean(), (found == expected).mean()
        print(f"{name:20} top-1 {top:.4f}  agreement {same:.4f}  {seconds:6.1f} s", flush=True)

    show("float", expected)
    for recipe in recipes or RECIPES:
        module, started = floats.clone(), time.perf_counter()
        QuantizePass(calibration, recipe=recipe).apply(load_context(), module)
        seconds = time.perf_counter() - started
        show(recipe, classes(run(module, s) for s in samples), seconds)
    started = time.perf_counter()
    show("ONNX Runtime static", peer(model, calibration, test), time.perf_counter() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])
