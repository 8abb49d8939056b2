"""
Compare the test graphs of Deeploy with the results that are stored next to them.

    python benchmarks/deeploy_networks.py FOLDER [--c] [--only TEXT]

FOLDER is a clone of github.com/pulp-platform/Deeploy. A line per `network.onnx`: the verdict, the
operators, and the comparison with `outputs.npz`. Verdicts:

equal     all results are equal
rounded   stored integers are the rounded fractions of the network: Deeploy rounds an average
close     floats differ by 1e-4 of the largest result at most, or integers as float32 rounds them
refused   the network is not imported, with the reason
invalid   the network declares a result of another shape than ONNX defines
no data   the network or its arrays are not in the folder
wrong     anything else

With `--c`, networks are also compiled for the host, and must have the results of the interpreter.
The exit status is 1 if a network is wrong.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import ceras_ir as ceras
from ceras_ir.dialects.graph import element_of, numpy_dtype, shape_of
from ceras_ir.frontends.onnx import import_file
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import input_names, main_function
from ceras_ir.support.diagnostics import InputError

Array = NDArray[np.generic]

FLOAT_STEP = 2.0**-22
"""The relative difference of integers that float32 does not represent, after two roundings."""

TOLERANCE = 1e-4
"""The permitted difference of floats, relative to the largest result."""


def folders(root: Path, only: str) -> Iterator[Path]:
    """Yield the folders with a test graph, or with only its arrays."""
    found = {path.parent for name in ("network.onnx", "outputs.npz") for path in root.rglob(name)}
    yield from sorted(path for path in found if only in str(path.relative_to(root)))


def arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a file in the order of the file."""
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def inputs_of(module: ModuleOp, path: Path) -> dict[str, Array]:
    """
    Return the inputs by name. Arrays have the names of the graph inputs, or are stored in their
    order. Inputs that no node reads are no inputs of the module.
    """
    graph = onnx.ModelProto.FromString((path / "network.onnx").read_bytes()).graph
    constants = {tensor.name for tensor in graph.initializer}
    labels = [value.name for value in graph.input if value.name not in constants]
    stored, main = arrays(path / "inputs.npz"), main_function(module)
    if not stored.keys() & set(labels):
        stored = dict(zip(labels, stored.values(), strict=False))
    return {
        name: stored[name].reshape(shape_of(value)).astype(numpy_dtype(element_of(value)))
        for name, value in zip(input_names(main), main.body.block.args, strict=True)
    }


def compared(found: list[Array], wanted: list[Array]) -> tuple[str, str]:
    """Return the verdict, and the number of results that differ."""
    if [a.size for a in found] != [b.size for b in wanted]:
        return "invalid", f"{[a.shape for a in found]}, declared {[b.shape for b in wanted]}"
    a = np.concatenate([x.reshape(-1).astype(np.float64) for x in found])
    b = np.concatenate([x.reshape(-1).astype(np.float64) for x in wanted])
    differ, worst = int((a != b).sum()), float(np.abs(a - b).max(initial=0))
    if not differ:
        return "equal", f"{a.size} results"
    text = f"{differ} of {a.size} results differ, at most by {worst:.3g}"
    if all(x.dtype.kind in "iu" for x in wanted):
        # Halves are rounded up or away from zero.
        if worst <= 0.5 and (a != np.rint(a)).sum() >= differ:
            return "rounded", text
        return "close" if (np.abs(a - b) <= FLOAT_STEP * np.abs(b)).all() else "wrong", text
    return "close" if worst <= TOLERANCE * max(1.0, np.abs(b).max()) else "wrong", text


def try_network(folder: Path, in_c: bool) -> tuple[str, str]:
    """Return the verdict on a test graph, and a text."""
    for name in ("network.onnx", "inputs.npz", "outputs.npz"):
        if not (folder / name).is_file():
            return "no data", f"{name} is missing"
    path = folder / "network.onnx"
    start = time.perf_counter()
    try:
        module = import_file(str(path))
    except InputError as error:
        return "refused", error.lines(path.name)[0].partition("error: ")[2]
    took = f"{time.perf_counter() - start:.1f} s"
    inputs = inputs_of(module, folder)
    found = run(module, inputs)
    verdict, text = compared(list(found.values()), list(arrays(folder / "outputs.npz").values()))
    if in_c and verdict != "wrong":
        other = ceras.load(path).compile("c").run(inputs)
        verdict_in_c, text_in_c = compared(list(other.values()), list(found.values()))
        text += f"; in C {text_in_c}"
        verdict = verdict if verdict_in_c in ("equal", "close") else "wrong"
    return verdict, f"{took}; {text}"


def operators(folder: Path) -> str:
    """Return the number of nodes, and the operators that ONNX does not define."""
    path = folder / "network.onnx"
    if not path.is_file():
        return ""
    nodes = onnx.ModelProto.FromString(path.read_bytes()).graph.node
    others = {node.op_type for node in nodes if not onnx.defs.has(node.op_type, node.domain)}
    return f"{len(nodes)} nodes {' '.join(sorted(others))}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--c", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT")
    arguments = parser.parse_args()
    totals: Counter[str] = Counter()
    for folder in folders(arguments.folder, arguments.only):
        verdict, text = try_network(folder, arguments.c)
        totals[verdict] += 1
        name = str(folder.relative_to(arguments.folder)).removeprefix("DeeployTest/Tests/")
        print(f"{name:44} {verdict:8} {operators(folder)}; {text[:200]}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in totals.most_common()))
    return 1 if totals["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
