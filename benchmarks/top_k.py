"""
Compare TopK in C with ONNX Runtime: process CPU time on a single thread, medians of common rounds.

    python benchmarks/top_k.py [--rounds 5]

Rows contain random floats, or floats in ascending order. Each element then ranks before all earlier
elements, which is the worst case of a heap.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from c_host import BIN, run
from c_host_peers import median_milliseconds
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

CASES = ((1024, 1024, 20), (1, 8400, 300), (16, 50000, 5), (1, 1000, 1000))
"""The number of rows, elements of each, and results: neighbors of points, boxes, words, all."""


def write(path: Path, rows: int, extent: int, count: int, *, ascends: bool) -> None:
    """Write a model of a TopK, of the input or of a ramp plus the scaled input."""
    ramp = np.arange(extent, dtype=np.float32) if ascends else np.zeros(1, np.float32)
    constants = {"k": np.array([count]), "scale": np.float32(0.1), "ramp": ramp}
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["s"]),
        helper.make_node("Add", ["s", "ramp"], ["z"]),
        helper.make_node("TopK", ["z", "k"], ["v", "i"]),
    ]
    shapes = (("x", TensorProto.FLOAT, extent), ("v", TensorProto.FLOAT, count),
              ("i", TensorProto.INT64, count))  # fmt: skip
    x, *results = (helper.make_tensor_value_info(n, t, [rows, size]) for n, t, size in shapes)
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "top_k", [x], results, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    table = Table("rows, elements, taken", "order", "ms", "ONNX Runtime / ours")
    for number, (rows, extent, count) in enumerate(CASES):
        for ascends in (False, True):
            with tempfile.TemporaryDirectory() as name:
                model, folder = Path(name) / "model.onnx", Path(name) / f"c{number}"
                write(model, rows, extent, count, ascends=ascends)
                run([BIN / "ceras-compile", model, "-o", folder, "--target", "c"])
                run(["make", "-C", folder, "model_bench"])
                times: tuple[list[float], list[float]] = ([], [])
                for _ in range(rounds):
                    taken = json.loads(run([folder / "model_bench", "20"]))
                    times[0].append(taken["median_ms"])
                    times[1].append(median_milliseconds(model, 20))
            ours, theirs = map(statistics.median, times)
            order = "ascending" if ascends else "random"
            case = f"{rows}, {extent}, {count}"
            table.add_row(case, order, f"{ours:.3f}", f"{theirs / ours:.2f}")
    Console(width=100, file=sys.stdout).print(table)


if __name__ == "__main__":
    main()
