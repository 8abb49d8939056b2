"""Seeded random networks with states for differential tests: `random_streaming(seed)`."""

from collections.abc import Callable

import numpy as np
import onnx
import onnx_models as om

WIDTH = 24
"""No row is longer."""


class Streaming:
    """The network so far: a row of numbers, and what is kept from call to call."""

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

    def emit(self, op: str, operands: str, name: str = "", **attributes: om.Attribute) -> str:
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
        """A state that is read; `keep` says what it becomes."""
        name = f"s{len(self.states)}"
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
    net.value = net.emit("ReduceMax", rows, axes=[0], keepdims=1)


def scatter(net: Streaming) -> None:
    at = net.emit("ArgMax", net.value, axis=1, keepdims=1)
    kind = ("none", "add", "mul")[int(net.random.integers(3))]
    new = net.weights(1, 1)
    net.value = net.emit("ScatterElements", f"{net.value} {at} {new}", axis=1, reduction=kind)


def cache(net: Streaming) -> None:
    """A row of a table is replaced, at a place that is computed."""
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


STEPS: list[Callable[[Streaming], None]] = [
    *(dense, average, gated, delay, window, scatter, cache, greatest),
]


def random_streaming(seed: int) -> tuple[onnx.ModelProto, dict[str, str], om.Array]:
    """The network of `seed`, its states, and ten steps of input."""
    net = Streaming(seed)
    outputs = ["y", *net.states.values()]
    model = om.model(net.nodes, net.inputs, outputs, net.constants, opset=16)
    _, width = om.value_shape(model, "x")
    steps: om.Array = net.random.normal(0, 1, (10, 1, int(width))).astype(np.float32)
    return model, net.states, steps
