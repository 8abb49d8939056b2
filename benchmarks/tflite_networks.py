"""
Import all TensorFlow Lite files of a folder, and compare them with the reference kernels.

    python benchmarks/tflite_networks.py FOLDER [--reference PYTHON] [--c]
    python benchmarks/tflite_networks.py FOLDER --onnx FOLDER

The second form prints the processor time of the import of each `NAME.tflite` and of `NAME.onnx` in
the other folder: of `ceras-opt` with start-up, and of a further import in the same process. Both
are the smallest of alternating runs.

The first form prints a line per file: the operators, the time of the import, and the comparison on
seeded samples, or the reason of the refusal. PYTHON is the interpreter of an environment with
ai-edge-litert; without it, files are only imported. With `--c`, quantized networks are compiled for
the host and compared too. Integers must be equal. Floats may differ by 1e-4 of the largest result,
or by four times the difference between the reference kernels and the optimized kernels of
TensorFlow Lite, which add in another order; and by 5% if the reference quantizes activations at run
time. The exit status is 1 if a network is wrong.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f32

import ceras_ir as ceras
from ceras_ir.dialects.graph import element_of, numpy_dtype, shape_of
from ceras_ir.frontends.tflite import import_file
from ceras_ir.frontends.tflite.model.schema import Model
from ceras_ir.interpreters.network import in_turn
from ceras_ir.network.function import input_names, main_function, states_of
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.support.diagnostics import InputError

Array = NDArray[np.generic]

SAMPLES, ROUNDS = 2, 7
TOLERANCE, HYBRID_TOLERANCE = 1e-4, 0.05
ORDER_FACTOR = 4
"""The permitted ratio of a difference of floats to the difference between two orders of sums."""

REFERENCE = """
import sys, runpy, numpy as np
golden = runpy.run_path(sys.argv[1])
with np.load(sys.argv[3]) as samples:
    arrays = [samples[k] for k in samples]
found = golden["results"](open(sys.argv[2], "rb").read(), arrays, sys.argv[5])
np.savez(sys.argv[4], *found)
"""
GOLDEN = Path(__file__).parents[1] / "test/frontends/tflite/golden.py"


@dataclass
class Outcome:
    verdict: str
    """`equal`, `close`, `imported`, `refused`, `wrong` or `damaged`."""
    text: str


def samples_of(module: ModuleOp, name: str) -> dict[str, Array]:
    """Return seeded samples for the inputs of a network, stacked along a new first dimension."""
    rng, main = np.random.default_rng(zlib.crc32(name.encode())), main_function(module)
    kept = {state.name for state in states_of(main)}
    found: dict[str, Array] = {}
    for label, value in zip(input_names(main), main.body.block.args, strict=True):
        shape, dtype = (SAMPLES, *shape_of(value)), np.dtype(numpy_dtype(element_of(value)))
        if label in kept:
            continue
        if dtype.kind == "f":
            found[label] = rng.uniform(-1, 1, shape).astype(np.float32)
        elif dtype.kind == "b":
            found[label] = rng.integers(0, 2, shape).astype(dtype)
        else:
            info = np.iinfo(dtype.name)
            span = (info.min, info.max) if info.bits < 32 else (0, 2)
            found[label] = rng.integers(*span, shape, endpoint=True).astype(dtype)
    return found


def reference_of(
    python: str, path: Path, samples: dict[str, Array], kernels: str = "BUILTIN_REF"
) -> list[Array] | str:
    """Return the outputs of the kernels in order, or the last line of the error."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(given, *samples.values())
        command = [python, "-c", REFERENCE, GOLDEN, path, given, found, kernels]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
            return lines[-1]
        with np.load(found) as outputs:
            return [outputs[name] for name in outputs]


def has_floats(module: ModuleOp) -> bool:
    """Return whether an operation other than a conversion computes floats."""
    converting = ("graph.dequantize", "graph.constant", "graph.reshape")
    ops = [op for op in main_function(module).body.block.ops if op.name not in converting]
    return any(element_of(result) == f32 for op in ops for result in op.results)


def distances(array: Array, expected: Array) -> NDArray[np.float64]:
    """Return the differences of an output; of floats, relative to the largest result."""
    actual = array.astype(np.float64).reshape(expected.shape)
    reference = expected.astype(np.float64)
    found = np.abs(actual - reference)
    found[actual == reference] = 0
    return found if expected.dtype.kind != "f" else found / max(1.0, np.abs(reference).max())


def difference(found: list[Array], wanted: list[Array]) -> float:
    """Return the largest difference of all outputs."""
    return max(
        float(np.nanmax(distances(a, b), initial=0.0)) for a, b in zip(found, wanted, strict=True)
    )


def compare(found: list[Array], wanted: list[Array], limit: float) -> Outcome:
    """Compare outputs; integers must be equal unless floats are computed before."""
    all_distances = [distances(a, b) for a, b in zip(found, wanted, strict=True)]
    count = sum(int((each > 0).sum()) for each in all_distances)
    total, worst = sum(each.size for each in all_distances), difference(found, wanted)
    if not count:
        return Outcome("equal", f"{total} results")
    text = f"{count} of {total} results differ, at most by {worst:.3g}"
    return Outcome("close" if worst <= limit else "wrong", text)


def try_network(path: Path, python: str | None, in_c: bool) -> Outcome:
    """Import a network, and compare it."""
    start = time.perf_counter()
    try:
        module = import_file(str(path))
        module.verify()
    except InputError as error:
        verdict = "refused" if error.exit_status == 3 else "damaged"
        return Outcome(verdict, error.lines(path.name)[0].partition("error: ")[2])
    took = f"{time.perf_counter() - start:.2f} s"
    if python is None:
        return Outcome("imported", took)
    samples = samples_of(module, path.name)
    wanted = reference_of(python, path, samples)
    if isinstance(wanted, str):
        return Outcome("imported", f"{took}; the reference fails: {wanted[:90]}")
    turns = [{label: array[i] for label, array in samples.items()} for i in range(SAMPLES)]
    results = list(in_turn(module, turns))
    found = [np.stack([turn[name] for turn in results]) for name in results[0]]
    limit = 0.0
    if has_floats(module):
        limit = HYBRID_TOLERANCE if is_hybrid(path) else TOLERANCE
    outcome = compare(found, wanted, limit)
    if outcome.verdict == "wrong" and limit:
        optimized = reference_of(python, path, samples, "BUILTIN")
        if not isinstance(optimized, str):
            order = ORDER_FACTOR * difference(optimized, wanted)
            outcome = compare(found, wanted, max(limit, order))
            outcome.text += f"; the order of sums permits {order:.3g}"
    if in_c and outcome.verdict == "equal":
        other = ceras.load(path).compile("c").run(turns[0])
        outcome = compare(list(other.values()), [array[0] for array in wanted], limit)
        outcome.text += ", also in C" if outcome.verdict == "equal" else " in C"
    outcome.text = f"{took}; {outcome.text}"
    return outcome


def is_hybrid(path: Path) -> bool:
    """Return whether an operator has float activations and integer weights."""
    graph = Model.read(str(path)).subgraph(0)
    return any(
        len(op.inputs) > 1
        and graph.tensors[op.inputs[0]].kind == "float32"
        and graph.tensors[op.inputs[1]].kind in ("int8", "uint8", "int4")
        for op in graph.operators
    )


def times_of(paths: tuple[Path, Path]) -> list[tuple[float, float]]:
    """
    Return the processor time in seconds of the import of each file, as a process and as a further
    import in this process.
    """
    tool = str(Path(sys.executable).with_name("ceras-opt"))
    whole: list[list[float]] = [[], []]
    inside: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for i, path in enumerate(paths):
            process = subprocess.Popen([tool, path, "-o", os.devnull], stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                raise SystemExit(f"{path}: not imported")
            whole[i].append(usage.ru_utime + usage.ru_stime)
            start = time.process_time()
            read_network(str(path))
            inside[i].append(time.process_time() - start)
    return [(min(a), min(b)) for a, b in zip(whole, inside, strict=True)]


def print_times(folder: Path, other: Path) -> None:
    """Print the times of the networks that both folders have."""
    print(f"{'network':32} {'tflite':>8} {'onnx':>8} {'again':>8} {'again':>8}   seconds")
    for path in sorted(folder.rglob("*.tflite")):
        if (model := other / f"{path.stem}.onnx").is_file():
            (a, b), (c, d) = times_of((path, model))
            print(f"{path.stem:32} {a:8.2f} {c:8.2f} {b:8.3f} {d:8.3f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reference", metavar="PYTHON")
    parser.add_argument("--c", action="store_true")
    parser.add_argument("--onnx", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.onnx is not None:
        print_times(arguments.folder, arguments.onnx)
        return 0
    totals: Counter[str] = Counter()
    for path in sorted(arguments.folder.rglob("*.tflite")):
        outcome = try_network(path, arguments.reference, arguments.c)
        totals[outcome.verdict] += 1
        print(f"{path.name:44} {outcome.verdict:9} {outcome.text[:160]}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in totals.most_common()))
    return 1 if totals["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
