"""
Time ONNX Runtime on a single thread, with a float network or with QDQ nodes.

QDQ networks have unsigned 8-bit activations and signed 8-bit weights per channel, the fastest form
on x86.

    python benchmarks/c_host_peers.py MODEL.onnx RUNS    prints the median milliseconds of a run
"""

import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx_runtime import runtime_module

ort = runtime_module()
quantization = runtime_module("onnxruntime.quantization")
shape_inference = runtime_module("onnxruntime.quantization.shape_inference")


def refuse(text: str) -> NoReturn:
    """Exit with a line about the wrong argument."""
    print(f"error: {text}", file=sys.stderr)
    raise SystemExit(2)


def only_input(path: Path) -> tuple[str, tuple[int, ...]]:
    """
    Return the name and shape of the only input, which is float. An unknown batch is 1, as in
    commands.
    """
    graph = onnx.ModelProto.FromString(path.read_bytes()).graph
    constants = {constant.name for constant in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1:
        refuse(f"{path} has {len(inputs)} inputs; this benchmark takes models with one")
    tensor = inputs[0].type.tensor_type
    if tensor.elem_type != onnx.TensorProto.FLOAT:
        refuse(f"the input of {path} must be of type float32")
    shape = [dim.dim_value for dim in tensor.shape.dim]
    if unknown := [i for i, extent in enumerate(shape) if i and extent < 1]:
        refuse(f"dimension {unknown[0]} of the input of {path} is unknown; only the first may be")
    return inputs[0].name, tuple(max(extent, 1) for extent in shape)


Feed = dict[str, NDArray[np.float32]]


def feeds(model: Path, name: str, arrays: NDArray[np.generic]) -> Iterator[Feed]:
    """Yield the samples of the only input in the shape of the model."""
    shape = only_input(model)[1]
    return ({name: array.reshape(shape).astype(np.float32)} for array in arrays)


class Samples:
    """Samples of the inputs, in the form that the quantization tools expect."""

    def __init__(self, samples: Iterable[Feed]):
        self.samples = iter(samples)

    def get_next(self) -> Feed | None:
        return next(self.samples, None)


def quantize(model: Path, quantized: Path, samples: Iterable[Feed]) -> None:
    """Write the QDQ form of a float model."""
    prepared = quantized.with_suffix(".prepared.onnx")
    shape_inference.quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    quantization.quantize_static(
        str(prepared),
        str(quantized),
        Samples(samples),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
    )


def median_milliseconds(model: Path, runs: int) -> float:
    """Return the process CPU time of a run, after an equal number of runs to warm up."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    session = ort.InferenceSession(str(model), options, ["CPUExecutionProvider"])
    name, shape = only_input(model)
    rng = np.random.default_rng(0)
    feed = {name: rng.uniform(-1, 1, shape).astype(np.float32)}
    times: list[float] = []
    for _ in range(2 * runs):
        start = time.process_time()
        session.run(None, feed)
        times.append((time.process_time() - start) * 1e3)
    return statistics.median(times[runs:])


if __name__ == "__main__":
    print(median_milliseconds(Path(sys.argv[1]), int(sys.argv[2])))
