"""
Compare ONNX's node suite, in the interpreter and as C, with the results of the suite.

    python test/frontends/fuzz_node_suite.py [--every 1] [--first 0]

Each case runs with computed operands, and again with all operands except the first as initializers,
as in deployed models. Integers, types and shapes are equal; floats have the tolerances of the
suite. The last lines count outcomes. A case that is refused, or that has sequences, is not an
error.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import onnx
from generated.builder import Array
from generated.routes import quick_compiler, stacked
from onnx import numpy_helper

import ceras_ir as ceras

FORMS = ("computed", "constant")
"""The forms of the operands after the first."""

BFLOAT16_TOLERANCE = 2.0**-8
"""Half a unit in the last place, as bfloat16 is computed and stored in float32."""


@dataclass(frozen=True)
class Sample:
    """The arrays of a data set by name."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


def node_cases(every: int = 1, first: int = 0) -> list[Any]:
    """Return cases of the suite at a distance of `every`, in the order of names."""
    loader: Any = import_module("onnx.backend.test.loader")
    cases: list[Any] = sorted(loader.load_model_tests(kind="node"), key=lambda case: case.name)
    return cases[first::every]


def as_array(value: Any) -> Array | None:
    """Return a tensor as an array of a numpy type, if it is a tensor."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if not hasattr(value, "dtype"):
        return None
    array: Array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return None if array.dtype == object else array


def samples_of(case: Any) -> list[Sample] | None:
    """Return the data sets of a case, if all values are tensors."""
    graph, found = case.model.graph, list[Sample]()
    for inputs, outputs in case.data_sets:
        arrays = [[as_array(value) for value in values] for values in (inputs, outputs)]
        if any(array is None for values in arrays for array in values):
            return None
        named = [
            {v.name: a for v, a in zip(ends, values, strict=False) if a is not None}
            for ends, values in zip((graph.input, graph.output), arrays, strict=True)
        ]
        found.append(Sample(*named))
    return found


def with_constants(model: onnx.ModelProto, sample: Sample) -> tuple[onnx.ModelProto, Sample]:
    """Return the model with initializers for all inputs but the first."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    kept, *fixed = other.graph.input
    for value in fixed:
        tensor = numpy_helper.from_array(sample.inputs[value.name], value.name)
        tensor.data_type = value.type.tensor_type.elem_type
        other.graph.initializer.append(tensor)
    del other.graph.input[1:]
    return other, Sample({kept.name: sample.inputs[kept.name]}, sample.outputs)


def outcomes(case: Any, targets: tuple[str, ...] = ("interp", "c")) -> Iterator[tuple[str, str]]:
    """Yield the form and target of each run, and `right`, `refused: ...` or `wrong: ...`."""
    samples = samples_of(case)
    if not samples:
        yield "all", "refused: values that are no tensors"
        return
    halves = any(
        v.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
        for v in (*case.model.graph.input, *case.model.graph.output)
    )
    tolerance = max(case.rtol, BFLOAT16_TOLERANCE if halves else 0.0), max(case.atol, 1e-6)
    for form in FORMS:
        model, used = case.model, samples
        if form == "constant":
            if len(samples) > 1 or len(model.graph.input) < 2 or halves:
                continue
            model, only = with_constants(model, samples[0])
            used = [only]
        yield from _run(form, model, used, targets, tolerance)


def _run(
    form: str,
    model: onnx.ModelProto,
    samples: list[Sample],
    targets: tuple[str, ...],
    tolerance: tuple[float, float],
) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="ceras-node-") as name:
        path = Path(name) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        for target in targets:
            try:
                network = ceras.load(path)
                program = network if target == "interp" else network.compile(target)
                text = ""
                for sample in samples:
                    feed = stacked([sample.inputs]) if sample.inputs else {}
                    text = text or difference(program.run(feed), sample.outputs, tolerance)
            except ceras.UnsupportedError as error:
                yield f"{form}, {target}", f"refused: {error}"
                continue
            except Exception:
                text = traceback.format_exc(limit=-2)
            yield f"{form}, {target}", f"wrong: {text}" if text else "right"


def difference(
    got: Mapping[str, Array], expected: Mapping[str, Array], tolerance: tuple[float, float]
) -> str:
    """Return the errors in the outputs of a sample."""
    rtol, atol = tolerance
    for name, want in expected.items():
        if got[name].size != want.size:
            return f"output '{name}' has shape {got[name].shape}, expected {want.shape}"
        found = got[name].reshape(want.shape)
        if want.dtype.kind == "f":
            real = (np.asarray(a, np.float64) for a in (found, want))
            if not np.allclose(*real, rtol=rtol, atol=atol, equal_nan=True):
                worst = float(np.nanmax(np.abs(np.subtract(found, want, dtype=np.float64))))
                return f"output '{name}' differs by up to {worst:.3g}"
        elif found.dtype != want.dtype or not np.array_equal(found, want):
            return f"output '{name}': {found.dtype} {found.tolist()}, expected {want.tolist()}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    counts, wrong = Counter[str](), 0
    cases = node_cases(arguments.every, arguments.first)
    with quick_compiler():
        for done, case in enumerate(cases, 1):
            for run, outcome in outcomes(case):
                counts[f"{run}: {outcome.partition(':')[0]}"] += 1
                if outcome.startswith("wrong"):
                    wrong += 1
                    print(f"{case.name} ({run}): {outcome}", flush=True)
            if done % 100 == 0:
                print(f"{done} of {len(cases)} cases, {wrong} wrong", flush=True)
    for name, number in sorted(counts.items()):
        print(f"{name:28} {number}")
    print(f"{len(cases)} cases, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
