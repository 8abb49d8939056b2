"""Draw seeded networks with states for differential tests: `random_streaming(seed)`."""

from collections.abc import Callable

import numpy as np
import onnx
import onnx_models as om
from onnx import TensorProto, helper

WIDTH = 24
"""The maximum length of a row."""

LONG = 1100
"""The number of steps of loops that are not unrolled."""


def real(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


class Streaming:
    """The network so far: a row of values, and the states."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.width = int(self.random.integers(2, 9))
        self.inputs: dict[str, om.Shape] = {"x": (1, self.width)}
        self.value = "x"
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, om.Array] = {}
        self.states: dict[str, str] = {}
        for _ in range(int(self.random.integers(2, 6))):
            STEPS[int(self.random.integers(len(STEPS)))](self)
        if not self.states:
            average(self)
        self.emit("Identity", self.value, name="y")

    def emit(
        self,
        op: str,
        operands: str,
        name: str = "",
        **attributes: om.Attribute | onnx.GraphProto,
    ) -> str:
        name = name or f"v{len(self.nodes)}"
        self.nodes.append(om.node(op, operands, name, **attributes))
        return name.split()[0]

    def constant(self, values: om.Array) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = values
        return name

    def weights(self, *shape: int) -> str:
        values = self.random.normal(0, 1 / np.sqrt(shape[0]), shape)
        return self.constant(values.astype(np.float32))

    def state(self, *shape: int) -> str:
        """Add a state; `keep` defines the value of the next call."""
        name = f"s{len(self.inputs)}"
        self.inputs[name] = shape
        return name

    def keep(self, state: str, value: str) -> None:
        self.states[state] = self.emit("Identity", value, name=f"{state}n")

    def product(self, value: str, taken: int, made: int) -> str:
        return self.emit("Gemm", f"{value} {self.weights(taken, made)} {self.weights(made)}")


def dense(net: Streaming) -> None:
    made = int(net.random.integers(2, 9))
    product = net.product(net.value, net.width, made)
    op = ("Relu", "Tanh", "Sigmoid")[int(net.random.integers(3))]
    net.value, net.width = net.emit(op, product), made


def average(net: Streaming) -> None:
    state, share = net.state(1, net.width), float(net.random.uniform(0.1, 0.9))
    old = net.emit("Mul", f"{state} {net.constant(np.array([share], np.float32))}")
    new = net.emit("Mul", f"{net.value} {net.constant(np.array([1 - share], np.float32))}")
    net.value = net.emit("Add", f"{old} {new}")
    net.keep(state, net.value)


def gated(net: Streaming) -> None:
    state, width = net.state(1, net.width), net.width
    both = net.emit("Concat", f"{net.value} {state}", axis=1)
    gate = net.emit("Sigmoid", net.product(both, 2 * width, width))
    new = net.emit("Tanh", net.product(both, 2 * width, width))
    change = net.emit("Mul", f"{gate} {net.emit('Sub', f'{new} {state}')}")
    net.value = net.emit("Add", f"{state} {change}")
    net.keep(state, net.value)


def delay(net: Streaming) -> None:
    if 2 * net.width > WIDTH:
        return
    state = net.state(1, net.width)
    net.keep(state, net.value)
    net.value = net.emit("Concat", f"{net.value} {state}", axis=1)
    net.width *= 2


def window(net: Streaming) -> None:
    state = net.state(3, net.width)
    bounds = [net.constant(np.array([n])) for n in (1, 3, 0)]
    rest = net.emit("Slice", f"{state} {' '.join(bounds)}")
    rows = net.emit("Concat", f"{rest} {net.value}", axis=0)
    net.keep(state, rows)
    net.value = net.emit("ReduceMax", f"{rows} {net.constant(np.array([0]))}", keepdims=1)


def scatter(net: Streaming) -> None:
    at = net.emit("ArgMax", net.value, axis=1, keepdims=1)
    kind = ("none", "add", "mul")[int(net.random.integers(3))]
    new = net.weights(1, 1)
    net.value = net.emit("ScatterElements", f"{net.value} {at} {new}", axis=1, reduction=kind)


def cache(net: Streaming) -> None:
    """Replace a row of a table at a computed index."""
    state = net.state(4, net.width)
    score = net.product(net.value, net.width, 4)
    at = net.emit("ArgMax", score, axis=1, keepdims=1)
    table = net.emit("ScatterND", f"{state} {at} {net.value}")
    net.keep(state, table)
    weights = net.emit("Softmax", net.product(net.value, net.width, 4), axis=1)
    net.value = net.emit("MatMul", f"{weights} {table}")


def greatest(net: Streaming) -> None:
    count = min(net.width, 3)
    most = net.constant(np.array([count]))
    net.value = net.emit("TopK", f"{net.value} {most}", name=f"t{len(net.nodes)} i{len(net.nodes)}")
    net.width = count


def recurrent(net: Streaming) -> None:
    """Apply an ONNX layer to this row and the previous row; the last layer state is a state."""
    kind = ("LSTM", "GRU", "RNN")[int(net.random.integers(3))]
    gates, units = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], int(net.random.integers(1, 9))
    before = net.state(1, net.width)
    net.keep(before, net.value)
    rows = net.emit("Concat", f"{before} {net.value}", axis=0)
    sequence = net.emit("Unsqueeze", f"{rows} {net.constant(np.array([1]))}")
    states = [net.state(1, 1, units) for _ in range(2 if kind == "LSTM" else 1)]
    wide = gates * units
    weights = [net.weights(1, wide, net.width), net.weights(1, wide, units)]
    ends = [f"{name}{len(net.nodes)}" for name in ("h", "c")[: len(states)]]
    net.emit(
        kind,
        f"{sequence} {' '.join(weights)} {net.weights(1, 2 * wide)} - {' '.join(states)}",
        name=f"r{len(net.nodes)} {' '.join(ends)}",
        hidden_size=units,
        linear_before_reset=int(net.random.integers(2)) if kind == "GRU" else None,
    )
    for state, end in zip(states, ends, strict=True):
        net.keep(state, end)
    net.value = net.emit("Squeeze", f"{ends[0]} {net.constant(np.array([0]))}")
    net.width = units


def attention(net: Streaming) -> None:
    """Attend from this row to the last three rows, and normalize, as in a decoder."""
    state, width = net.state(2, net.width), net.width
    rows = net.emit("Concat", f"{state} {net.value}", axis=0)
    bounds = [net.constant(np.array([n])) for n in (1, 3, 0)]
    net.keep(state, net.emit("Slice", f"{rows} {' '.join(bounds)}"))
    query, keys, values = (net.product(v, width, width) for v in (net.value, rows, rows))
    turned = net.emit("Transpose", keys, perm=[1, 0])
    scores = net.emit("Softmax", net.emit("MatMul", f"{query} {turned}"), axis=-1)
    seen = net.emit("Add", f"{net.emit('MatMul', f'{scores} {values}')} {net.value}")
    parameters = f"{net.weights(width)} {net.weights(width)}"
    net.value = net.emit("LayerNormalization", f"{seen} {parameters}", axis=-1)


def branch(net: Streaming) -> None:
    """Compute which of two products is used."""
    total = net.emit("ReduceSum", net.value, keepdims=0)
    at = net.constant(np.array(0.1, np.float32))
    condition = net.emit("Greater", f"{total} {at}")
    made, number = int(net.random.integers(2, 9)), len(net.nodes)
    bodies: list[onnx.GraphProto] = []
    for name, op in (("then", "Tanh"), ("else", "Relu")):
        operands = f"{net.value} {net.weights(net.width, made)} {net.weights(made)}"
        nodes = [
            om.node("Gemm", operands, f"{name}{number}p"),
            om.node(op, f"{name}{number}p", f"{name}{number}"),
        ]
        bodies.append(helper.make_graph(nodes, name, [], [real(f"{name}{number}", 1, made)]))
    net.value = net.emit("If", condition, then_branch=bodies[0], else_branch=bodies[1])
    net.width = made


def loop(net: Streaming) -> None:
    """Repeat a product, a constant number of times or while a sum is small."""
    number, trips = len(net.nodes), int(net.random.integers(1, 5))
    trips += LONG * int(net.random.integers(4) == 0)
    weights = net.weights(net.width, net.width)
    limit = net.constant(np.array(0.3, np.float32))
    nodes = [
        om.node("MatMul", f"h{number} {weights}", f"p{number}"),
        om.node("Tanh", f"q{number}", f"n{number}"),
        om.node("ReduceSum", f"n{number}", f"t{number}", keepdims=0),
        om.node("Less", f"t{number} {limit}", f"b{number}"),
        om.node("Identity", f"o{number}", f"e{number}"),
    ]
    plain = [om.node("Neg", f"p{number}", f"q{number}")]
    nodes[1:1] = chosen(net, number) if net.random.integers(2) else plain
    going = "be"[int(net.random.integers(2))]
    inputs = [
        helper.make_tensor_value_info(f"i{number}", TensorProto.INT64, []),
        helper.make_tensor_value_info(f"o{number}", TensorProto.BOOL, []),
        real(f"h{number}", 1, net.width),
    ]
    outputs = [helper.make_tensor_value_info(f"{going}{number}", TensorProto.BOOL, [])]
    body = helper.make_graph(nodes, "body", inputs, [*outputs, real(f"n{number}", 1, net.width)])
    counts = f"{net.constant(np.array(trips))} {net.constant(np.array(True))}"
    end = net.emit("Loop", f"{counts} {net.value}", body=body)
    # ONNX's shape inference assumes that the shape may change.
    net.value = net.emit("Reshape", f"{end} {net.constant(np.array([1, net.width]))}")


def chosen(net: Streaming, number: int) -> list[onnx.NodeProto]:
    """Choose half of a product, or a product of it, by the maximum element."""
    weights, half = net.weights(net.width, net.width), net.constant(np.array(0.2, np.float32))
    ends = [[real(f"{name}{number}", 1, net.width)] for name in "ru"]
    first = [om.node("Mul", f"p{number} {half}", f"r{number}")]
    second = [om.node("MatMul", f"p{number} {weights}", f"u{number}")]
    return [
        om.node("ReduceMax", f"p{number}", f"m{number}", keepdims=0),
        om.node("Greater", f"m{number} {half}", f"c{number}"),
        om.node(
            *("If", f"c{number}", f"q{number}"),
            then_branch=helper.make_graph(first, "half", [], ends[0]),
            else_branch=helper.make_graph(second, "product", [], ends[1]),
        ),
    ]


def scan(net: Streaming) -> None:
    """Average three rows, or many repetitions of these, and sum the outputs."""
    state, number, width = net.state(2, net.width), len(net.nodes), net.width
    rows = net.emit("Concat", f"{state} {net.value}", axis=0)
    bounds = [net.constant(np.array([n])) for n in (1, 3, 0)]
    net.keep(state, net.emit("Slice", f"{rows} {' '.join(bounds)}"))
    if net.random.integers(4) == 0:
        rows = net.emit("Tile", f"{rows} {net.constant(np.array([LONG // 3 + 1, 1]))}")
    share = net.constant(net.random.uniform(0.1, 0.9, width).astype(np.float32))
    nodes = [
        om.node("Mul", f"a{number} {share}", f"m{number}"),
        om.node("Add", f"m{number} e{number}", f"n{number}"),
        om.node("Sigmoid", f"n{number}", f"o{number}"),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [real(f"a{number}", width), real(f"e{number}", width)],
        [real(f"n{number}", width), real(f"o{number}", width)],
    )
    start = net.constant(np.zeros(width, np.float32))
    ends = f"l{number} y{number}"
    backwards = [int(net.random.integers(2))]
    net.emit(
        *("Scan", f"{start} {rows}"),
        name=ends,
        body=body,
        num_scan_inputs=1,
        scan_input_directions=backwards,
    )
    total = net.emit("ReduceSum", f"y{number} {net.constant(np.array([0]))}", keepdims=1)
    net.value = net.emit("Add", f"{total} l{number}")


def gather(net: Streaming) -> None:
    """Gather a row of a table and some elements of it, at computed indices."""
    rows = net.weights(5, net.width)
    score = net.product(net.value, net.width, 5)
    at = net.emit("ArgMax", score, axis=1, keepdims=0)
    row = net.emit("Gather", f"{rows} {at}", axis=0)
    places = net.emit("ArgMax", net.value, axis=1, keepdims=1)
    peak = net.emit("GatherElements", f"{row} {places}", axis=1)
    net.value = net.emit("Add", f"{net.emit('Mul', f'{row} {peak}')} {net.value}")


def curve(net: Streaming) -> None:
    """Append a function of a single element, and perhaps a running sum."""
    op = ("Sin", "Cos", "Atan", "Erf", "Softplus", "Mish", "Exp")[int(net.random.integers(7))]
    value = net.emit(op, net.emit("Tanh", net.value))
    if net.random.integers(2):
        value = net.emit("CumSum", f"{value} {net.constant(np.array(1))}")
    hidden = net.emit("IsNaN", value)
    net.value = net.emit("Where", f"{hidden} {net.value} {value}")


STEPS: list[Callable[[Streaming], None]] = [
    *(dense, average, gated, delay, window, scatter, cache, greatest),
    *(recurrent, attention, branch, loop, scan, gather, curve),
]


def random_streaming(seed: int) -> tuple[onnx.ModelProto, dict[str, str], om.Array]:
    """Return the network of `seed`, the states, and ten steps of input."""
    net = Streaming(seed)
    outputs = ["y", *net.states.values()]
    model = om.model(net.nodes, net.inputs, outputs, net.constants, opset=18)
    _, width = om.value_shape(model, "x")
    steps: om.Array = net.random.normal(0, 1, (10, 1, int(width))).astype(np.float32)
    return model, net.states, steps
