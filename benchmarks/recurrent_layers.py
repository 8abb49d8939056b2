"""
Compare recurrent layers in C with ONNX Runtime and with the bound of the processor's caches.

    python benchmarks/recurrent_layers.py [--rounds 5]              float
    python benchmarks/recurrent_layers.py [--rounds 5] --dynamic    LSTM of 8-bit weights

The script prints a table of layers with seeded weights and 16 steps of 32 inputs, or 50 steps of 64
inputs, quantized by `quantize_dynamic` to DynamicQuantizeLSTM. Times are process CPU time on a
single thread, medians of rounds in which both programs run. A step cannot start
before the previous step is finished, so each step loads all weights of the state. The bound is the
time of a loop that only loads these weights, plus the time of the input products at the processor's
peak (recurrent_bound.c, c_host_peak.c; AVX-512). It excludes the functions of the gates.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np
from c_host import BIN, HERE, peaks, run
from c_host_peers import median_milliseconds, quantization
from networks import save
from onnx import TensorProto, helper, numpy_helper

STEPS, INPUTS, RUNS = 16, 32, 200
GATES = {"LSTM": 4, "GRU": 3}
UNITS = (16, 24, 32, 48, 64, 96, 128, 256)

DYNAMIC_UNITS, DYNAMIC_STEPS, DYNAMIC_INPUTS = (128, 256, 512), 50, 64


def write(path: Path, kind: str, units: int, steps: int = STEPS, inputs: int = INPUTS) -> None:
    """Write a layer that returns the last state, as PyTorch exports it."""
    rng = np.random.default_rng(0)
    rows = GATES[kind] * units
    shapes = {"w": (1, rows, inputs), "r": (1, rows, units), "b": (1, 2 * rows)}
    bound = 1 / np.sqrt(units)
    constants = [
        numpy_helper.from_array(rng.uniform(-bound, bound, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    node = helper.make_node(kind, ["x", *shapes], ["", "y"], hidden_size=units)
    if kind == "GRU":
        node.attribute.append(helper.make_attribute("linear_before_reset", 1))
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [steps, 1, inputs]), ("y", [1, 1, units]))
    )
    graph = helper.make_graph([node], "recurrent", [x], [y], constants)
    opset = helper.make_opsetid("", 17)
    save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


def times(model: Path, folder: Path, rounds: int) -> tuple[float, float, float]:
    """Return microseconds of C and of ONNX Runtime, and the median ratio of ONNX Runtime to C."""
    out = folder / "c"
    run([BIN / "ceras-compile", model, "-o", out, "--target", "c"])
    run(["make", "-C", out, "model_bench"])
    pairs = [
        (
            1e3 * json.loads(run([out / "model_bench", str(RUNS)]))["median_ms"],
            1e3 * median_milliseconds(model, RUNS),
        )
        for _ in range(rounds)
    ]
    ours, theirs = map(statistics.median, zip(*pairs, strict=True))
    return ours, theirs, statistics.median(b / a for a, b in pairs)


def dynamic_row(units: int, rounds: int, folder: Path) -> list[str]:
    """Return the cells of an LSTM with 8-bit weights."""
    source, model = folder / "float.onnx", folder / "model.onnx"
    write(source, "LSTM", units, DYNAMIC_STEPS, DYNAMIC_INPUTS)
    quantization.quantize_dynamic(source, model, op_types_to_quantize=["LSTM"])
    ours, theirs, ratio = times(model, folder, rounds)
    return [str(units), f"{ours:.1f}", f"{theirs:.1f}", f"{ratio:.2f}"]


def row(kind: str, units: int, rounds: int, folder: Path, peak: float) -> list[str]:
    """Return the cells of a layer; `peak` is in products per nanosecond."""
    model = folder / "model.onnx"
    write(model, kind, units)
    ours, theirs, ratio = times(model, folder, rounds)
    read = GATES[kind] * units * units * 4
    passes = float(run([folder / "recurrent_bound", str(read)]))
    bound = STEPS * (passes + GATES[kind] * units * INPUTS / peak * 1e-3)
    return [
        f"{kind}, {units}",
        f"{read / 1024:.0f}",
        f"{ours:.1f}",
        f"{ratio:.1f}",
        f"{bound:.1f}",
        f"{theirs / bound:.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dynamic", action="store_true", help="LSTM of 8-bit weights")
    arguments = parser.parse_args()
    rounds: int = arguments.rounds
    if arguments.dynamic:
        print("| units | us | ONNX Runtime, us | ONNX Runtime / ours |")
        print("|---|---|---|---|")
        for units in DYNAMIC_UNITS:
            with tempfile.TemporaryDirectory() as name:
                cells = dynamic_row(units, rounds, Path(name))
            print(f"| {' | '.join(cells)} |", flush=True)
        return
    heads = "layer, units", "KiB a step", "us", "ONNX Runtime / ours", "bound, us"
    print(f"| {' | '.join(heads)} | ONNX Runtime / bound |")
    print("|---|---|---|---|---|---|")
    for kind in GATES:
        for units in UNITS:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                run(["cc", "-O2", "-march=native", HERE / "recurrent_bound.c", "-o",
                     folder / "recurrent_bound"])  # fmt: skip
                cells = row(kind, units, rounds, folder, peaks(folder)["float32"])
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
