"""
Measure the time of the interpreter for single ONNX operators, in nanoseconds per input element.

    python benchmarks/interpreter_operations.py [--runs 3] [--only Reduce]

The script prints the minimum processor time of the runs, without import. A Python call per element
costs more than 300 ns.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.shape_inference import infer_shapes
from rich.console import Console
from rich.table import Table

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import UnsupportedError

Array = NDArray[np.generic]
MAP, ROWS, LONG = (1, 64, 56, 56), (64, 4096), (1, 100_000)
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """A node with an input `x` and constants for the other operands."""

    operator: str
    shape: tuple[int, ...]
    constants: tuple[Array | None, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict[str, object])
    dtype: str = "float32"
    outputs: int = 1


def whole(*values: int) -> Array:
    return np.array(values, np.int64)


def reals(*shape: int) -> Array:
    return RNG.normal(size=shape, scale=0.1).astype(np.float32)


def cell(gates: int, hidden: int = 128) -> tuple[Array, Array]:
    return reals(1, gates * hidden, hidden), reals(1, gates * hidden, hidden)


def cases() -> list[Case]:
    found: list[Case] = []
    for name in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceMean"):
        found += [Case(name, LONG, (whole(1),)), Case(name, ROWS, (whole(1),))]
        found += [Case(name, ROWS, (whole(0),)), Case(name, ROWS, (whole(1),), dtype="int32")]
        found.append(Case(name, MAP, (whole(2, 3),)))
    for last in (0, 1):
        attributes = {"axis": 1, "select_last_index": last}
        found += [Case("ArgMax", shape, (), attributes) for shape in (LONG, ROWS)]
    found += [
        Case("CumSum", (256, 1024), (np.array(1, np.int64),)),
        Case("CumSum", LONG, (np.array(1, np.int64),), dtype="int32"),
        Case("TopK", ROWS, (whole(16),), outputs=2),
        Case("Softmax", ROWS),
        Case("LogSoftmax", ROWS),
        Case("LayerNormalization", ROWS, (reals(4096), reals(4096))),
        Case("MaxPool", MAP, (), {"kernel_shape": [3, 3], "strides": [2, 2]}),
        Case("AveragePool", MAP, (), {"kernel_shape": [3, 3], "strides": [2, 2]}),
        Case("GlobalAveragePool", MAP),
        Case("GlobalMaxPool", MAP),
        Case("LRN", MAP, (), {"size": 5}),
        Case("InstanceNormalization", MAP, (reals(64), reals(64))),
        Case("Conv", MAP, (reals(64, 64, 3, 3),), {"pads": [1, 1, 1, 1]}),
        Case("Conv", MAP, (reals(64, 1, 3, 3),), {"group": 64, "pads": [1, 1, 1, 1]}),
        Case("ConvTranspose", MAP, (reals(64, 32, 2, 2),), {"strides": [2, 2]}),
        Case("LSTM", (64, 1, 128), cell(4), {"hidden_size": 128}, outputs=3),
        Case("GRU", (64, 1, 128), cell(3), {"hidden_size": 128}, outputs=2),
        Case("Gather", ROWS, (RNG.integers(0, 64, 1000),)),
        Case("GatherElements", ROWS, (RNG.integers(0, 64, (64, 4096)),)),
        Case("ScatterND", ROWS, (RNG.integers(0, 64, (2048, 1)), reals(2048, 4096))),
        Case("ScatterND", LONG[1:], (RNG.integers(0, 1000, (20_000, 1)), reals(20_000))),
        Case(
            "ScatterElements",
            LONG[1:],
            (RNG.integers(0, 1000, 20_000), reals(20_000)),
            {"reduction": "add"},
        ),
        Case("Pad", MAP, (whole(0, 0, 2, 2, 0, 0, 2, 2),), {"mode": "reflect"}),
        Case("Transpose", MAP, (), {"perm": [0, 2, 3, 1]}),
        Case("Where", ROWS, (reals(64, 4096), reals(64, 4096)), dtype="bool"),
        Case("Cast", ROWS, (), {"to": TensorProto.INT32}),
        Case("QuantizeLinear", ROWS, (np.array(0.1, np.float32), np.array(3, np.int8))),
        Case("Mod", ROWS, (np.array([7], np.int32),), dtype="int32"),
        Case("Div", ROWS, (np.array([7], np.int32),), dtype="int32"),
        Case("Pow", ROWS, (np.array([1.5], np.float32),)),
    ]
    for mode in ("nearest", "linear", "cubic"):
        scales = np.array([1, 1, 2, 2], np.float32)
        found.append(Case("Resize", MAP, (None, scales), {"mode": mode}))
    names = "Exp Log Sqrt Sin Erf Tanh Sigmoid Gelu Mish Softplus Round Floor Abs Neg"
    return [*found, *(Case(name, ROWS) for name in names.split())]


def model_of(case: Case) -> ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(case.dtype))
    x = helper.make_tensor_value_info("x", kind, case.shape)
    names = ["x", *("" if c is None else f"c{i}" for i, c in enumerate(case.constants))]
    tensors = [
        numpy_helper.from_array(np.asarray(constant), name)
        for name, constant in zip(names[1:], case.constants, strict=True)
        if constant is not None
    ]
    results = [f"y{number}" for number in range(case.outputs)]
    node = helper.make_node(case.operator, names, results)
    node.attribute.extend(helper.make_attribute(k, v) for k, v in case.attributes.items())
    outputs = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph([node], "g", [x], outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    return infer_shapes(model)


def seconds(case: Case, runs: int) -> float:
    """Return the minimum processor time of the interpreter."""
    module = import_model(model_of(case))
    (entry,) = network_inputs(main_function(module))
    x = RNG.normal(size=case.shape) * 3
    sample = {entry.name: (x > 0 if case.dtype == "bool" else x.astype(case.dtype))}
    times: list[float] = []
    for _ in range(runs):
        start = time.process_time()
        run(module, sample)
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", metavar="TEXT", help="operators with this text")
    arguments = parser.parse_args()
    table = Table("operator", "shape", "type", "attributes", "ms", "ns per element")
    for case in cases():
        if arguments.only not in case.operator:
            continue
        try:
            least = seconds(case, arguments.runs)
        except UnsupportedError as error:
            print(error, file=sys.stderr)
            continue
        shape = "x".join(map(str, case.shape))
        given = [str(c.tolist()) for c in case.constants[:1] if c is not None and c.size < 5]
        given += [f"{key} {value}" for key, value in case.attributes.items()]
        per_element = f"{least * 1e9 / prod(case.shape):.1f}"
        row = case.operator, shape, case.dtype, ", ".join(given), f"{least * 1e3:.2f}", per_element
        table.add_row(*row)
    Console(width=120, file=sys.stdout).print(table)


if __name__ == "__main__":
    main()
