"""Build models with loops that are too long to unroll; `x` holds floats of shape [5, 3]."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
LONG = 1500
"""The number of steps, above the limit for unrolling."""
FOREVER = (1 << 63) - 1
"""The trip count of loops that a condition terminates, as exporters write it."""

info = helper.make_tensor_value_info
make = helper.make_node

_random = np.random.default_rng(7)
W = (_random.uniform(-1, 1, (3, 3)) / 2).astype(np.float32)
CONSTANTS = {
    "w": W,
    "table": _random.uniform(-1, 1, (7, 3)).astype(np.float32),
    "long": np.array(LONG), "forever": np.array(FOREVER), "two": np.array(2),
    "on": np.array(True), "off": np.array(False), "zero": np.array(0), "one": np.array(1),
    "limit": np.array(40, np.float32), "half": np.array(0.5, np.float32), "seven": np.array(7),
    "ramp": np.linspace(-9, 9, LONG * 3, dtype=np.float32).reshape(LONG, 3),
    "tiny": np.array(0.001, np.float32),
}  # fmt: skip


def whole(nodes: Sequence[onnx.NodeProto], **outputs: Sequence[int]) -> onnx.ModelProto:
    """Build a model of the input `x`, the nodes and `CONSTANTS`."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [info("x", FLOAT, [5, 3])],
        [info(name, FLOAT, list(shape)) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    proto.ir_version = 8
    return proto


def body(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int]]],
    outputs: Mapping[str, tuple[int, Sequence[int]]],
    name: str = "body",
) -> onnx.GraphProto:
    """Build a subgraph; `inputs` and `outputs` map names to types and shapes."""
    ends = [
        [info(n, kind, list(shape)) for n, (kind, shape) in e.items()] for e in (inputs, outputs)
    ]
    return helper.make_graph(list(nodes), name, ends[0], ends[1])


def step_of(
    nodes: Sequence[onnx.NodeProto],
    carried: Mapping[str, tuple[int, Sequence[int]]],
    outputs: Mapping[str, tuple[int, Sequence[int]]],
    name: str = "body",
) -> onnx.GraphProto:
    """Build the body of a `Loop` with inputs called `n_NAME` and `c_NAME`."""
    inputs = {f"n_{name}": (INT64, ()), f"c_{name}": (BOOL, ()), **carried}
    return body(nodes, inputs, outputs, name)


ROW: tuple[int, Sequence[int]] = (FLOAT, (5, 3))


def recurrent() -> onnx.ModelProto:
    """Use a matrix product, a captured value, and an output of each step."""
    nodes = [
        make("MatMul", ["h", "w"], ["p"]),
        make("Add", ["p", "x"], ["q"]),
        make("Tanh", ["q"], ["new"]),
        make("ReduceSum", ["new"], ["seen"], keepdims=0),
        make("Identity", ["c_body"], ["again"]),
    ]
    inner = step_of(nodes, {"h": ROW}, {"again": (BOOL, ()), "new": ROW, "seen": (FLOAT, ())})
    first = make("Neg", ["x"], ["h0"])
    loop = make("Loop", ["long", "on", "h0"], ["last", "sums"], body=inner, name="steps")
    return whole([first, loop], last=(5, 3), sums=(LONG,))


def counted() -> onnx.ModelProto:
    """Select a row of a constant by the iteration number."""
    nodes = [
        make("Mod", ["n_body", "seven"], ["i"]),
        make("Gather", ["table", "i"], ["row"]),
        make("Mul", ["h", "half"], ["p"]),
        make("Add", ["p", "row"], ["new"]),
        make("Identity", ["c_body"], ["again"]),
    ]
    inner = step_of(nodes, {"h": ROW}, {"again": (BOOL, ()), "new": ROW})
    return whole([make("Loop", ["long", "", "x"], ["y"], body=inner, name="steps")], y=(5, 3))


def ends_early(condition: str = "on", trips: str = "forever") -> onnx.ModelProto:
    """Compute the condition from the carried values, and return also the last count."""
    nodes = [
        make("Abs", ["h"], ["p"]),
        make("Add", ["p", "half"], ["new"]),
        make("ReduceSum", ["new"], ["sum"], keepdims=0),
        make("Less", ["sum", "limit"], ["again"]),
        make("Add", ["count", "one"], ["more"]),
    ]
    carried = {"h": ROW, "count": (INT64, ())}
    inner = step_of(nodes, carried, {"again": (BOOL, ()), "new": ROW, "more": (INT64, ())})
    loop = make("Loop", [trips, condition, "x", "zero"], ["y", "n"], body=inner, name="steps")
    return whole([loop, make("Cast", ["n"], ["count_"], to=FLOAT)], y=(5, 3), count_=())


def computed_start() -> onnx.ModelProto:
    """Compute whether the first step runs; if not, the result is the initial value."""
    proto = ends_early("begins")
    proto.graph.node.insert(0, make("ReduceSum", ["x"], ["all"], keepdims=0))
    proto.graph.node.insert(1, make("Less", ["all", "tiny"], ["begins"]))
    return proto


def nested() -> onnx.ModelProto:
    """Put a loop that stops early into a long loop; both use `x`."""
    inner = step_of(
        [
            make("Add", ["v", "scaled"], ["v2"]),
            make("Abs", ["v2"], ["v3"]),
            make("ReduceMax", ["v3"], ["top"], keepdims=0),
            make("Less", ["top", "half"], ["on_"]),
        ],
        {"v": ROW},
        {"on_": (BOOL, ()), "v2": ROW},
        "inner",
    )
    outer = step_of(
        [
            make("Mul", ["x", "half"], ["scaled"]),
            make("Loop", ["forever", "on", "h"], ["u"], body=inner, name="within"),
            make("Mul", ["u", "half"], ["new"]),
            make("Sub", ["new", "x"], ["seen"]),
            make("Identity", ["c_outer"], ["again"]),
        ],
        {"h": ROW},
        {"again": (BOOL, ()), "new": ROW, "seen": ROW},
        "outer",
    )
    loop = make("Loop", ["long", "on", "x"], ["last", "all"], body=outer, name="around")
    return whole([loop], last=(5, 3), all=(LONG, 5, 3))


def swapped() -> onnx.ModelProto:
    """Swap two carried values, replace the third by a constant, and return a value unchanged."""
    nodes = [make("Add", ["b", "tiny"], ["c"]), make("Identity", ["c_body"], ["again"]),
             make("Identity", ["half"], ["constant"])]  # fmt: skip
    carried = {"a": ROW, "b": ROW, "k": (FLOAT, ())}
    results = {"again": (BOOL, ()), "c": ROW, "a": ROW, "constant": (FLOAT, ())}
    loop = make("Loop", ["long", "on", "x", "x", "tiny"], ["p", "q", "r"],
                body=step_of(nodes, carried, results), name="steps")  # fmt: skip
    return whole([loop], p=(5, 3), q=(5, 3), r=())


def scanned(**attributes: list[int]) -> onnx.ModelProto:
    """Compute a running sum over rows of two inputs; attributes set the axes and directions."""
    nodes = [
        make("Mul", ["state", "half"], ["less"]),
        make("Add", ["less", "a"], ["sum"]),
        make("Sub", ["sum", "b"], ["next"]),
        make("Relu", ["next"], ["out"]),
        make("Neg", ["a"], ["other"]),
    ]
    row = (FLOAT, (3,))
    inner = body(nodes, {"state": row, "a": row, "b": row}, {"next": row, "out": row, "other": row})
    axes = attributes.get("scan_input_axes", [0, 0])
    lead = [
        make("Slice", ["x", "zero1", "one1"], ["start1"]),
        make("Squeeze", ["start1", "zero1"], ["start"]),
        make("Slice", ["x", "one1", "two1"], ["line"]),
        make("Mul", ["line", "ramp"], ["first"]),
        make("Sin", ["first"], ["second0"]),
        *([make("Transpose", ["second0"], ["second"])] if axes[1] else
          [make("Identity", ["second0"], ["second"])]),
    ]  # fmt: skip
    scan = make("Scan", ["start", "first", "second"], ["last", "all", "more"], name="steps")
    given: dict[str, Any] = {"body": inner, "num_scan_inputs": 2, **attributes}
    scan.attribute.extend(helper.make_attribute(name, value) for name, value in given.items())
    lead.append(scan)
    proto = whole(
        lead, last=(3,), all=(LONG, 3) if "scan_output_axes" not in attributes else (3, LONG),
        more=(LONG, 3),
    )  # fmt: skip
    for name, value in (("zero1", 0), ("one1", 1), ("two1", 2)):
        proto.graph.initializer.append(numpy_helper.from_array(np.array([value]), name))
    return proto


def both_ways() -> onnx.ModelProto:
    return scanned(
        scan_input_axes=[0, 1], scan_input_directions=[1, 0],
        scan_output_axes=[1, 0], scan_output_directions=[0, 1],
    )  # fmt: skip


def branches() -> onnx.ModelProto:
    """Put a branch into a loop, and a loop into a branch."""
    taken = body([make("Mul", ["h", "half"], ["less"])], {}, {"less": ROW}, "taken")
    other = body([make("Add", ["h", "x"], ["more"])], {}, {"more": ROW}, "other")
    nodes = [
        make("ReduceMax", ["h"], ["top"], keepdims=0),
        make("Less", ["half", "top"], ["large"]),
        make("If", ["large"], ["new"], then_branch=taken, else_branch=other, name="choice"),
        make("Identity", ["c_body"], ["again"]),
    ]
    inner = step_of(nodes, {"h": ROW}, {"again": (BOOL, ()), "new": ROW})
    loop = make("Loop", ["long", "on", "x"], ["l"], body=inner, name="steps")
    around = body([loop], {}, {"l": ROW}, "around")
    plain = body([make("Neg", ["x"], ["n"])], {}, {"n": ROW}, "plain")
    lead = [make("ReduceSum", ["x"], ["all"], keepdims=0), make("Less", ["tiny", "all"], ["pos"])]
    chosen = make("If", ["pos"], ["y"], then_branch=around, else_branch=plain, name="whether")
    return whole([*lead, chosen], y=(5, 3))


def costly_branches() -> onnx.ModelProto:
    """Put a product into a branch in a loop, and a loop into the other branch."""
    deep = step_of(
        [make("MatMul", ["v", "w"], ["v2"]), make("Identity", ["c_deep"], ["on_"])],
        {"v": ROW},
        {"on_": (BOOL, ()), "v2": ROW},
        "deep",
    )
    taken = body(
        [make("MatMul", ["h", "w"], ["p"]), make("Sub", ["p", "half"], ["less"])],
        {}, {"less": ROW, "half_": (FLOAT, ())}, "taken",
    )  # fmt: skip
    taken.node.append(make("Identity", ["half"], ["half_"]))
    again = body([make("Loop", ["two", "on", "h"], ["u"], body=deep)], {}, {"u": ROW}, "again")
    once = body([make("Neg", ["h"], ["v0"])], {}, {"v0": ROW}, "once")
    other = body(
        [
            make("Less", ["tiny", "top"], ["positive"]),
            make("If", ["positive"], ["w0"], then_branch=again, else_branch=once, name="inner"),
            make("Add", ["w0", "x"], ["more"]),
            make("Neg", ["tiny"], ["tiny_"]),
        ],
        {}, {"more": ROW, "tiny_": (FLOAT, ())}, "other",
    )  # fmt: skip
    nodes = [
        make("ReduceMax", ["h"], ["top"], keepdims=0),
        make("Less", ["half", "top"], ["large"]),
        make("If", ["large"], ["next", "k"], then_branch=taken, else_branch=other, name="choice"),
        make("Add", ["next", "k"], ["new"]),
        make("Identity", ["c_body"], ["go"]),
    ]
    inner = step_of(nodes, {"h": ROW}, {"go": (BOOL, ()), "new": ROW, "k": (FLOAT, ())})
    loop = make("Loop", ["long", "on", "x"], ["y", "ks"], body=inner, name="steps")
    return whole([loop], y=(5, 3), ks=(LONG,))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "recurrent": recurrent,
    "counted": counted,
    "ends_early": ends_early,
    "computed_start": computed_start,
    "nested": nested,
    "swapped": swapped,
    "scanned": scanned,
    "both_ways": both_ways,
    "branches": branches,
    "costly_branches": costly_branches,
}


def inputs(seed: int) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Return `x`; the sum is positive for an even `seed` and negative for an odd `seed`."""
    x = np.random.default_rng(seed).uniform(-1, 1, (5, 3)).astype(np.float32)
    return {"x": x if (x.sum() > 0) == (seed % 2 == 0) else -x}
