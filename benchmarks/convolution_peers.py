"""
Time a network of a single convolution in C and in ONNX Runtime.

Benchmarks of several kinds of convolutions share this module. Milliseconds are process CPU time on
a single thread in float and in int8 (ONNX Runtime's as QDQ, see c_host_peers.py). A ratio is the
time of ONNX Runtime divided by the time of the C code. Both are medians of rounds in which both
programs run one after the other. Inputs and outputs are NCHW in float, as in the model.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from c_host import BIN, run
from c_host_peers import feeds, median_milliseconds, quantize
from networks import save
from onnx import TensorProto, helper, numpy_helper

RUNS = 50


@dataclass(frozen=True)
class Layer:
    """A convolution with a result of the size of the input, divided or multiplied by `stride`."""

    name: str
    kernel: Sequence[int]
    stride: int
    size: Sequence[int]
    inputs: int = 64
    outputs: int = 64
    groups: int = 1
    dilation: int = 1
    is_transposed: bool = False

    def write(self, path: Path) -> None:
        """
        Write the model. ONNX Runtime's tools refuse a bias of transposed convolutions with groups.
        """
        rng = np.random.default_rng(0)
        channels = self.outputs, self.inputs // self.groups
        whole = [-(-size // self.stride) for size in self.size]
        terms = channels[1] * np.prod(self.kernel)
        if self.is_transposed:
            channels = self.inputs, self.outputs // self.groups
            whole = [size * self.stride for size in self.size]
            terms = terms / self.stride ** len(self.kernel)
        shape = (*channels, *self.kernel)
        weights = rng.normal(0, 1 / np.sqrt(terms), shape).astype(np.float32)
        bias = rng.normal(size=self.outputs).astype(np.float32)
        has_bias = not self.is_transposed or self.groups == 1
        names = ["x", "w", *(["b"] if has_bias else [])]
        dilated = [(k - 1) * self.dilation + 1 for k in self.kernel]
        before = [(k - 1) // 2 for k in dilated]
        after = [
            (n - 1) * self.stride + k - size - p
            for n, k, size, p in zip(whole, dilated, self.size, before, strict=True)
        ]
        pads = [*before, *(max(p, 0) for p in after)]
        node = helper.make_node(
            "ConvTranspose" if self.is_transposed else "Conv",
            names,
            ["y"],
            strides=[self.stride] * len(self.kernel),
            dilations=[self.dilation] * len(self.kernel),
            group=self.groups,
            auto_pad="SAME_UPPER" if self.is_transposed else None,
            pads=None if self.is_transposed else pads,
        )
        values = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, *sizes])
            for name, channels, sizes in (
                ("x", self.inputs, self.size),
                ("y", self.outputs, whole),
            )
        ]
        arrays = {"w": weights, "b": bias}
        constants = [numpy_helper.from_array(arrays[name], name) for name in names[1:]]
        graph = helper.make_graph([node], "convolution", values[:1], values[1:], constants)
        opset = helper.make_opsetid("", 18)
        save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)


def measured(layer: Layer, folder: Path, rounds: int) -> list[str]:
    """Return the cells of a row: time and ratio, in float and in int8."""
    model, qdq, calibration = (folder / name for name in ("m.onnx", "qdq.onnx", "m.npz"))
    layer.write(model)
    shape = (8, layer.inputs, *layer.size)
    samples = np.random.default_rng(7).uniform(-1, 1, shape).astype(np.float32)
    np.savez(calibration, x=samples)
    quantize(model, qdq, feeds(model, "x", samples))
    cells: list[str] = []
    for peer, options in (
        (model, ["--quantize", "none"]),
        (qdq, ["--quantize", "int8", "--calibrate", calibration, "--recipe", "none"]),
    ):
        out = folder / options[1]
        run([BIN / "ceras-compile", model, "-o", out, "--target", "c", *options])
        run(["make", "-C", out, "model_bench"])
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(rounds):
            theirs.append(median_milliseconds(peer, RUNS))
            ours.append(json.loads(run([out / "model_bench", str(RUNS)]))["median_ms"])
        ratio = statistics.median(t / o for o, t in zip(ours, theirs, strict=True))
        cells += [f"{statistics.median(ours):.3f}", f"{ratio:.2f}"]
    return cells


def print_table(layers: Sequence[Layer], description: str | None) -> None:
    """Run the program of a benchmark, which prints a row for each layer."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=[layer.name for layer in layers])
    arguments = parser.parse_args()
    print("| filter | float, ms | ONNX Runtime / ours | int8, ms | ONNX Runtime / ours |")
    print("|---|---|---|---|---|")
    for layer in layers:
        if arguments.only and layer.name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory() as name:
            cells = measured(layer, Path(name), arguments.rounds)
        print(f"| {' | '.join([layer.name, *cells])} |", flush=True)
