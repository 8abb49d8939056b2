"""Build recurrent cells from small operations, and loops over them as exporters write them."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from loop_networks import BOOL, FLOAT, body, info, make
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects.graph import Cell, RecurrenceOp

STEPS, SIZE, HIDDEN = 6, 5, 4
GATES = {"rnn": 1, "gru": 3, "gru_reset_first": 3, "lstm": 4}

Nodes = list[onnx.NodeProto]


def constants(kind: str, batch: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    width = GATES[kind] * HIDDEN

    def some(*shape: int) -> np.ndarray:
        return (random.uniform(-1, 1, shape) / 2).astype(np.float32)

    return {
        "W": some(SIZE, width), "U": some(HIDDEN, width), "b": some(width), "d": some(width),
        "both": some(SIZE + HIDDEN, width), "h0": some(batch, HIDDEN), "c0": some(batch, HIDDEN),
        "steps": np.array(STEPS), "on": np.array(True), "zero": np.array(0), "one": np.array(1),
        "last": np.array(STEPS - 1), "limit": np.array(STEPS, np.float32),
        "ones": np.array(1, np.float32), "halves": np.full(HIDDEN, 0.5, np.float32),
        "three": np.array(3, np.float32), "six": np.array(6, np.float32),
        "y0": np.zeros((batch, HIDDEN), np.float32), "silent": np.zeros((1, HIDDEN), np.float32),
        "wide": np.array([1, HIDDEN]), "nought": np.array(0, np.float32),
        "sixth": np.array(1 / 6, np.float32),
        **{f"U{i}": some(HIDDEN, HIDDEN) for i in range(3)},
    }  # fmt: skip


def split(value: str, *parts: str) -> onnx.NodeProto:
    return make("Split", [value], list(parts), axis=1, num_outputs=len(parts))


def lstm(sums: str, function: str = "Sigmoid") -> Nodes:
    """Compute `h2` and `c2` from the gates in `sums`, in Keras' order."""
    return [
        split(sums, "ai", "af", "ag", "ao"),
        *(make(function, [f"a{g}"], [g]) for g in "ifo"),
        make("Tanh", ["ag"], ["g"]),
        make("Mul", ["c", "f"], ["kept"]), make("Mul", ["g", "i"], ["added"]),
        make("Add", ["added", "kept"], ["c2"]), make("Tanh", ["c2"], ["shown"]),
        make("Mul", ["shown", "o"], ["h2"]),
    ]  # fmt: skip


SUMS: dict[str, Nodes] = {
    "two products": [
        make("MatMul", ["x", "W"], ["p"]), make("MatMul", ["h", "U"], ["q"]),
        make("Add", ["q", "p"], ["pq"]), make("Add", ["pq", "b"], ["sums"]),
    ],
    "a product in another": [
        make("MatMul", ["h", "U"], ["q0"]), make("Add", ["q0", "b"], ["q"]),
        make("Gemm", ["x", "W", "q"], ["sums"]),
    ],
    "one product": [
        make("Concat", ["x", "h"], ["xh"], axis=1), make("Gemm", ["xh", "both", "b"], ["sums"]),
    ],
}  # fmt: skip

GRU = [
    make("Gemm", ["x", "W", "b"], ["p"]), split("p", "pz", "pr", "pn"),
    make("Gemm", ["h", "U", "d"], ["q"]), split("q", "qz", "qr", "qn"),
    make("Add", ["pz", "qz"], ["az"]), make("Sigmoid", ["az"], ["z"]),
    make("Add", ["qr", "pr"], ["ar"]), make("Sigmoid", ["ar"], ["r"]),
    make("Mul", ["r", "qn"], ["rq"]), make("Add", ["pn", "rq"], ["an"]),
]  # fmt: skip

RESET_FIRST = [
    make("Gemm", ["x", "W", "b"], ["p"]), split("p", "pz", "pr", "pn"),
    *(make("MatMul", ["h", f"U{i}"], [f"q{g}"]) for i, g in enumerate("zr")),
    *(make("Add", [f"p{g}", f"q{g}"], [f"a{g}"]) for g in "zr"),
    *(make("Sigmoid", [f"a{g}"], [g]) for g in "zr"),
    make("Mul", ["h", "r"], ["rh"]), make("MatMul", ["rh", "U2"], ["qn"]),
    make("Add", ["qn", "pn"], ["an"]),
]  # fmt: skip

MIXTURES: dict[str, Nodes] = {
    "two products": [
        make("Sub", ["ones", "z"], ["rest"]), make("Mul", ["rest", "n"], ["new"]),
        make("Mul", ["z", "h"], ["old"]), make("Add", ["new", "old"], ["h2"]),
    ],
    "a difference": [
        make("Sub", ["h", "n"], ["away"]), make("Mul", ["away", "z"], ["back"]),
        make("Add", ["n", "back"], ["h2"]),
    ],
}  # fmt: skip


def cells() -> dict[str, tuple[str, Nodes]]:
    found: dict[str, tuple[str, Nodes]] = {}
    for name, sums in SUMS.items():
        found[f"lstm of {name}"] = "lstm", [*sums, *lstm("sums")]
        found[f"rnn of {name}"] = "rnn", [*sums, make("Relu", ["sums"], ["h2"])]
    for name, end in MIXTURES.items():
        for kind, start in (("gru", GRU), ("gru_reset_first", RESET_FIRST)):
            found[f"{kind} of {name}"] = kind, [*start, make("Tanh", ["an"], ["n"]), *end]
    return found


CELLS = cells()


MASKED: dict[str, Nodes] = {
    "selections": [
        make("Where", ["m", "NEW", "OLD"], ["END"]),
    ],
    "selections of rows": [
        make("Tile", ["m", "wide"], ["END_wide"]),
        make("Where", ["END_wide", "NEW", "OLD"], ["END"]),
    ],
    "products": [
        make("Cast", ["m"], ["END_on"], to=FLOAT), make("Mul", ["END_on", "NEW"], ["END_new"]),
        make("Not", ["m"], ["END_not"]), make("Cast", ["END_not"], ["END_off"], to=FLOAT),
        make("Mul", ["OLD", "END_off"], ["END_old"]), make("Add", ["END_new", "END_old"], ["END"]),
    ],
}  # fmt: skip
"""Select `NEW` if the step is within the sequence, else `OLD`."""


def masked(spelling: str, new: str, old: str, end: str) -> Nodes:
    return renamed(MASKED[spelling], NEW=new, OLD=old, END=end)


def renamed(nodes: Nodes, **names: str) -> Nodes:
    """Copy nodes with other names; parts of a name after `_` remain."""

    def other(name: str) -> str:
        head, *tail = name.split("_")
        return "_".join([names.get(head, head), *tail])

    found: Nodes = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [other(name) for name in node.input]
        copy.output[:] = [other(name) for name in node.output]
        found.append(copy)
    return found


def looped(
    kind: str,
    nodes: Nodes,
    batch: int = 1,
    index: str = "counter",
    spelling: str | None = None,
    shown: str = "state",
) -> onnx.ModelProto:
    """
    Build a `Loop` as tf2onnx writes it.

    A counter and the weights are carried, the condition counts steps, and the state of each step is
    an
    output. With a `spelling`, states remain unchanged where `marks` is not positive. Then `shown`
    selects the output: the state, zeros, or the output of the previous step, which is carried.
    """
    index_nodes = {
        "counter": [make("Gather", ["xs", "time"], ["x"])],
        "number": [make("Gather", ["xs", "number"], ["x"])],
        "backwards": [make("Sub", ["last", "time"], ["at"]), make("Gather", ["xs", "at"], ["x"])],
    }[index]
    row, state = (FLOAT, [batch, SIZE]), (FLOAT, [batch, HIDDEN])
    values = constants(kind, batch)
    weights = {name: (FLOAT, values[name].shape) for name in ("W", "U")}
    carried = {
        "time": (TensorProto.INT64, ()),
        "h": state,
        **({"c": state} if kind == "lstm" else {}),
    }
    outside: Nodes = []
    if spelling is not None:
        outside = [make("Greater", ["marks", "nought"], ["mask"])]
        old = {"state": "h", "zeros": "silent", "before": "y"}[shown]
        nodes = [
            make("Gather", ["mask", "time"], ["m"]),
            *renamed(nodes, h2="hn", c2="cn"),
            *masked(spelling, "hn", "h", "h2"),
            *(masked(spelling, "cn", "c", "c2") if kind == "lstm" else []),
            *masked(spelling, "hn", old, "y2"),
        ]
    if shown == "before":
        carried["y"] = state
    inside = [
        *index_nodes,
        make("Add", ["time", "one"], ["later"]),
        make("Cast", ["later"], ["float"], to=FLOAT),
        make("Less", ["float", "limit"], ["again"]),
        *nodes,
        make("Identity", ["h2" if spelling is None else "y2"], ["seen"]),
    ]
    ends = {"again": (BOOL, ()), "later": (TensorProto.INT64, ()), "h2": state}
    ends |= {"c2": state} if kind == "lstm" else {}
    ends |= {"y2": state} if shown == "before" else {}
    step = body(
        inside,
        {"number": (TensorProto.INT64, ()), "go": (BOOL, ()), **carried, **weights},
        {**ends, **weights, "seen": state},
    )
    given = ["h", *(["c"] if kind == "lstm" else []), *(["y"] if shown == "before" else [])]
    results = ["time1", *(f"{name}1" for name in given), "W_", "U_", "all"]
    starts = ["zero", *(f"{name}0" for name in given), "W", "U"]
    nodes = [*outside, make("Loop", ["steps", "on", *starts], results, body=step, name="layer")]
    outputs = {"h1": state, "all": (FLOAT, [STEPS, *state[1]])}
    outputs |= {"c1": state} if kind == "lstm" and spelling is None else {}
    inputs = {"xs": (FLOAT, [STEPS, *row[1]])}
    inputs |= {} if spelling is None else {"marks": (FLOAT, [STEPS, batch, 1])}
    return whole(nodes, inputs, outputs, values)


def whole(
    nodes: Nodes,
    inputs: Mapping[str, tuple[int, Sequence[int]]],
    outputs: Mapping[str, tuple[int, Sequence[int]]],
    values: Mapping[str, np.ndarray],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [info(n, kind, list(shape)) for n, (kind, shape) in inputs.items()],
        [info(n, kind, list(shape)) for n, (kind, shape) in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in values.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    proto.ir_version = 8
    return proto


def layers(module: ModuleOp) -> list[Cell]:
    return [op.cell_kind for op in module.walk() if isinstance(op, RecurrenceOp)]


def set_constant(proto: onnx.ModelProto, name: str, value: np.ndarray) -> None:
    for tensor in proto.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(value, name))
