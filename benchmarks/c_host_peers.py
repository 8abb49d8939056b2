"""
ONNX Runtime on one thread: a float network, or the same with QDQ nodes (unsigned 8-bit
activations, signed 8-bit weights per channel: its fastest form on x86).

    python benchmarks/c_host_peers.py MODEL.onnx RUNS    prints the median milliseconds of a run
"""

import statistics
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# As Any, because the runtime has no type stubs.
ort: Any = import_module("onnxruntime")
quantization: Any = import_module("onnxruntime.quantization")
shape_inference: Any = import_module("onnxruntime.quantization.shape_inference")


class Samples:
    """Arrays for one input, one after the other."""

    def __init__(self, name: str, arrays: NDArray[np.float32]):
        self.feeds = iter({name: a[None]} for a in arrays)

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        return next(self.feeds, None)


def quantize(model: Path, quantized: Path, name: str, arrays: NDArray[np.float32]) -> None:
    """Write the QDQ form of a float model."""
    prepared = quantized.with_suffix(".prepared.onnx")
    shape_inference.quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    quantization.quantize_static(
        str(prepared),
        str(quantized),
        Samples(name, arrays),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
    )


def median_milliseconds(model: Path, runs: int) -> float:
    """Process CPU time of one run, after as many to warm up."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    session = ort.InferenceSession(str(model), options, ["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    rng = np.random.default_rng(0)
    shape: list[int] = entry.shape
    feed = {entry.name: rng.uniform(-1, 1, shape).astype(np.float32)}
    times: list[float] = []
    for _ in range(2 * runs):
        start = time.process_time()
        session.run(None, feed)
        times.append((time.process_time() - start) * 1e3)
    return statistics.median(times[runs:])


if __name__ == "__main__":
    print(median_milliseconds(Path(sys.argv[1]), int(sys.argv[2])))
