"""
Run random networks with states, control flow, recurrent layers and attention for ten steps each.

Two comparisons are made:

1. The interpreter is compared with ONNX Runtime, to which the caller passes the states.
2. The compiled network is compared with the interpreter: C in float, and C and nnet in integers,
   which have to be equal. A network with an operation that nnet does not support is compared for C
   only.

Some of these networks are chaotic, and some normalize rows of two elements that are nearly equal. A
larger difference in float is therefore allowed if ONNX Runtime has such a difference after a change
of inputs and weights in the last bit. A difference from ONNX Runtime is also allowed if ONNX's
reference implementation in float64 has another result than ONNX Runtime. For example, a loop of
1,100 steps stops a step earlier there, or an ArgMax distinguishes subnormal numbers from the zeros
that ONNX Runtime uses instead.

    python test/fuzz_states.py [NETWORKS] [FIRST]
"""

import argparse
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_models as om
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from streaming_random import random_streaming

import ceras_ir as ceras

GAIN = 10
"""The factor is above 1 because a network rounds often, and the inputs are varied a single time."""


Run = Callable[[onnx.ModelProto, Mapping[str, om.Array]], Mapping[str, om.Array]]


def in_float64(model: onnx.ModelProto, inputs: Mapping[str, om.Array]) -> Mapping[str, om.Array]:
    """Run ONNX's reference implementation with 64 bits for all floats."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    _widen(wide.graph)
    evaluator: Any = ReferenceEvaluator(wide)
    results = evaluator.run(None, {name: a.astype(np.float64) for name, a in inputs.items()})
    return {o.name: np.asarray(a) for o, a in zip(model.graph.output, results, strict=True)}


def _widen(graph: onnx.GraphProto) -> None:
    """Convert 32-bit floats to 64 bits, also in the branches and bodies of the graph."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        kind = value.type.tensor_type
        if kind.elem_type == TensorProto.FLOAT:
            kind.elem_type = TensorProto.DOUBLE
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _widen(attribute.g)


def in_steps(
    model: onnx.ModelProto, states: dict[str, str], steps: om.Array, run: Run = om.run_onnxruntime
) -> om.Array:
    """Call `run` for each step in order, and pass the states from step to step."""
    shapes = {name: om.value_shape(model, name) for name in states}
    kept = {name: np.zeros([int(d) for d in shape], np.float32) for name, shape in shapes.items()}
    found: list[om.Array] = []
    for x in steps:
        results = run(model, {"x": x, **kept})
        kept = {name: results[result] for name, result in states.items()}
        found.append(results["y"])
    return np.concatenate(found)


def varied(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with each weight replaced by the next float."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for tensor in other.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(np.nextafter(array, np.inf), tensor.name))
    return other


def judge(seed: int, folder: Path) -> str | None:
    """Describe the first error of a network; None if it is correct."""
    model, states, steps = random_streaming(seed)
    path, data = folder / "model.onnx", steps[:, 0]
    path.write_bytes(model.SerializeToString())
    network = ceras.load(path, states=states)
    reference = in_steps(model, states, steps)
    for kind, run in (("the interpreter", network.run), ("C", network.compile("c").run)):
        found = run(data)["y"].reshape(reference.shape)
        if np.allclose(found, reference, rtol=1e-4, atol=1e-5):
            continue
        others = in_steps(varied(model), states, np.nextafter(steps, np.inf))
        change = np.abs(others - reference).max(1, keepdims=True)
        sensitivity = GAIN * np.maximum.accumulate(change)
        near = np.abs(found - reference) <= 1e-5 + 1e-4 * np.abs(reference) + sensitivity
        if near.all():
            continue
        exact = in_steps(model, states, steps, in_float64)
        if np.allclose(reference, exact, rtol=1e-4, atol=1e-5):
            return f"seed {seed}: floats in {kind} differ from ONNX Runtime's"
    for target in ("c", "nnet"):
        with warnings.catch_warnings():
            # The warning about ten samples, which are few, does not matter here.
            warnings.simplefilter("ignore", ceras.CerasWarning)
            try:
                whole = network.quantize(data, target=target)
                compiled = whole.compile(target)
            except ceras.UnsupportedError:
                if target == "c":
                    raise
                continue
        if not np.array_equal(whole.run(data)["y"], compiled.run(data)["y"]):
            return f"seed {seed}: integers of {target} differ from the interpreter's"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="random networks with states, ten steps each")
    parser.add_argument("count", type=int, nargs="?", default=100, help="networks (default: 100)")
    parser.add_argument("first", type=int, nargs="?", default=0, help="seed of the first")
    arguments = parser.parse_args()
    count, first, wrong = arguments.count, arguments.first, 0
    for seed in range(first, first + count):
        if seed > first and seed % 50 == 0:
            print(f"networks before {seed}: {wrong} wrong", flush=True)
        with tempfile.TemporaryDirectory() as name:
            if (text := judge(seed, Path(name))) is not None:
                print(text, flush=True)
                wrong += 1
    print(f"{count} networks, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
