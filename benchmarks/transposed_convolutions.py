"""
Transposed convolutions in C beside ONNX Runtime, each a network by itself.

    python benchmarks/transposed_convolutions.py [--rounds 5] [--only NAME]...

Prints a table: milliseconds of process CPU time on one thread in float and in int8 (ONNX Runtime's
as QDQ, see c_host_peers.py), and how many times as long ONNX Runtime takes: the medians of rounds
in which both run one after the other. Inputs and outputs are NCHW in float, as the model has them.
Layers with groups have no bias: ONNX Runtime's tools fail to quantize it.
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
from c_host_peers import median_milliseconds, quantize
from networks import save
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Layer:
    """One transposed convolution whose result is `stride` times as large as its input."""

    name: str
    kernel: Sequence[int]
    stride: int
    size: Sequence[int]
    inputs: int = 64
    outputs: int = 32
    groups: int = 1

    def write(self, path: Path) -> None:
        rng = np.random.default_rng(0)
        shape = (self.inputs, self.outputs // self.groups, *self.kernel)
        terms = shape[0] // self.groups * np.prod(self.kernel) / self.stride ** len(self.kernel)
        weights = rng.normal(0, 1 / np.sqrt(terms), shape).astype(np.float32)
        bias = rng.normal(size=self.outputs).astype(np.float32)
        names = ["x", "w", *(["b"] if self.groups == 1 else [])]
        node = helper.make_node(
            "ConvTranspose",
            names,
            ["y"],
            strides=[self.stride] * len(self.kernel),
            auto_pad="SAME_UPPER",
            group=self.groups,
        )
        whole = [size * self.stride for size in self.size]
        values = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, *sizes])
            for name, channels, sizes in (
                ("x", self.inputs, self.size),
                ("y", self.outputs, whole),
            )
        ]
        arrays = {"w": weights, "b": bias}
        constants = [numpy_helper.from_array(arrays[name], name) for name in names[1:]]
        graph = helper.make_graph([node], "transposed", values[:1], values[1:], constants)
        opset = helper.make_opsetid("", 18)
        save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)


LAYERS = (
    Layer("2x2, stride 2", (2, 2), 2, (32, 32)),
    Layer("3x3, stride 2", (3, 3), 2, (32, 32)),
    Layer("4x4, stride 2", (4, 4), 2, (32, 32)),
    Layer("5x5, stride 2", (5, 5), 2, (32, 32)),
    Layer("3x3, stride 2, 8 outputs", (3, 3), 2, (64, 64), 32, 8),
    Layer("16, stride 8", (16,), 8, (512,)),
    Layer("4x4, stride 2, 4 groups", (4, 4), 2, (32, 32), 64, 64, 4),
    Layer("4x4, stride 2, depthwise", (4, 4), 2, (32, 32), 64, 64, 64),
)

RUNS = 50


def measured(layer: Layer, folder: Path, rounds: int) -> list[str]:
    """Cells of one row: ours and the ratio, in float and in int8."""
    model, qdq, calibration = (folder / name for name in ("m.onnx", "qdq.onnx", "m.npz"))
    layer.write(model)
    shape = (32, layer.inputs, *layer.size)
    samples = np.random.default_rng(7).uniform(-1, 1, shape).astype(np.float32)
    np.savez(calibration, x=samples)
    quantize(model, qdq, "x", samples)
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=[layer.name for layer in LAYERS])
    arguments = parser.parse_args()
    print("| filter | float, ms | ONNX Runtime / ours | int8, ms | ONNX Runtime / ours |")
    print("|---|---|---|---|---|")
    for layer in LAYERS:
        if arguments.only and layer.name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory() as name:
            cells = measured(layer, Path(name), arguments.rounds)
        print(f"| {' | '.join([layer.name, *cells])} |", flush=True)


if __name__ == "__main__":
    main()
