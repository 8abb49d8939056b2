"""Write networks with seeded weights, whose quantization `quantization_time.py` measures."""

from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
import onnx
from networks import save
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
STATES: Mapping[str, str] = {f"state{n}": f"next{n}" for n in range(3)}
"""The states of `enhancer`: the result of the previous frame that each input receives."""


class Network:
    """The nodes and constants of a graph. A result has the name of the node."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []

    def constant(self, name: str, array: NDArray[np.generic] | np.generic) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, name: str, *shape: int) -> str:
        """Add normal weights, of which the sum over all axes but the first has variance 1."""
        scale = max(prod(shape[1:]), 1) ** -0.5
        return self.constant(name, self.random.normal(0, scale, shape).astype(np.float32))

    def node(
        self,
        op: str,
        name: str,
        inputs: str,
        outputs: str = "",
        **attributes: int | str | list[int],
    ) -> str:
        """Add a node. `inputs` and `outputs` are separated by spaces; `-` is an absent operand."""
        operands = [x.replace("-", "") for x in inputs.split()]
        node = helper.make_node(op, operands, outputs.split() or [name], name)
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
        self.nodes.append(node)
        return name

    def dense(self, name: str, x: str, i: int, o: int) -> str:
        """Add a product with weights [i, o], and a bias."""
        matrix = self.random.normal(0, i**-0.5, (i, o)).astype(np.float32)
        y = self.node("MatMul", f"{name}.product", f"{x} {self.constant(f'{name}.w', matrix)}")
        return self.node("Add", name, f"{y} {self.weights(f'{name}.b', o)}")

    def normalized(self, name: str, x: str, width: int) -> str:
        factor = self.constant(f"{name}.g", np.ones(width, np.float32))
        bias = self.constant(f"{name}.b", np.zeros(width, np.float32))
        return self.node("LayerNormalization", name, f"{x} {factor} {bias}", axis=-1)

    def shaped(self, name: str, x: str, shape: list[int], order: list[int] | None = None) -> str:
        """Add a reshape, and a transpose by `order`."""
        y = self.node("Reshape", name, f"{x} {self.constant(f'{name}.shape', np.array(shape))}")
        return y if order is None else self.node("Transpose", f"{name}.order", y, perm=order)

    def recurrent(self, kind: str, name: str, x: str, i: int, units: int, state: str = "") -> str:
        """Add an LSTM in both directions, or a GRU with a state that the caller keeps."""
        both, gates = (2, 4) if kind == "LSTM" else (1, 3)
        w = self.weights(f"{name}.w", both, gates * units, i)
        r = self.weights(f"{name}.r", both, gates * units, units)
        b = self.weights(f"{name}.b", both, 2 * gates * units)
        if kind == "LSTM":
            inputs, outputs, more = f"{x} {w} {r} {b}", name, {"direction": "bidirectional"}
        else:
            inputs, more = f"{x} {w} {r} {b} - {state}", {"linear_before_reset": 1}
            outputs = f"{name} {STATES[state]}"
        return self.node(kind, name, inputs, outputs, hidden_size=units, **more)

    def model(
        self, inputs: Mapping[str, list[int]], outputs: Mapping[str, list[int]]
    ) -> ModelProto:
        first, last = (
            [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in each.items()]
            for each in (inputs, outputs)
        )
        graph = helper.make_graph(self.nodes, "network", first, last, self.constants)
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8)


def vision_transformer(path: Path, size: int = 224, layers: int = 12) -> None:
    """Write ViT-tiny: 5.7 M parameters, 197 tokens of 192 values, three heads."""
    net, width, heads = Network(4), 192, 3
    patches, each = (size // 16) ** 2, width // heads
    kernel = net.weights("patch.w", width, 3, 16, 16)
    x = net.node("Conv", "patch", f"input {kernel}", kernel_shape=[16, 16], strides=[16, 16])
    x = net.shaped("tokens", x, [1, width, patches], [0, 2, 1])
    x = net.node("Concat", "classed", f"{net.weights('class', 1, 1, width)} {x}", axis=1)
    x = net.node("Add", "placed", f"{x} {net.weights('places', 1, patches + 1, width)}")
    net.constant("factor", np.float32(each**-0.5))
    for n in range(layers):
        y = net.normalized(f"{n}.norm1", x, width)
        parts = [
            net.shaped(
                f"{n}.{part}.heads",
                net.dense(f"{n}.{part}", y, width, width),
                [1, patches + 1, heads, each],
                [0, 2, 3, 1] if part == "k" else [0, 2, 1, 3],
            )
            for part in "qkv"
        ]
        scores = net.node("MatMul", f"{n}.dots", " ".join(parts[:2]))
        scores = net.node("Mul", f"{n}.scores", f"{scores} factor")
        shares = net.node("Softmax", f"{n}.shares", scores, axis=-1)
        y = net.node("MatMul", f"{n}.mixed", f"{shares} {parts[2]}")
        y = net.node("Transpose", f"{n}.rows", y, perm=[0, 2, 1, 3])
        y = net.dense(
            f"{n}.out", net.shaped(f"{n}.joined", y, [1, patches + 1, width]), width, width
        )
        x = net.node("Add", f"{n}.sum1", f"{x} {y}")
        y = net.dense(f"{n}.wide", net.normalized(f"{n}.norm2", x, width), width, 4 * width)
        half = net.node("Div", f"{n}.half", f"{y} {net.constant(f'{n}.root', np.float32(2**0.5))}")
        erf = net.node("Erf", f"{n}.erf", half)
        one = net.node("Add", f"{n}.one", f"{erf} {net.constant(f'{n}.c1', np.float32(1))}")
        y = net.node("Mul", f"{n}.gated", f"{y} {one}")
        y = net.node("Mul", f"{n}.gelu", f"{y} {net.constant(f'{n}.c2', np.float32(0.5))}")
        x = net.node("Add", f"{n}.sum2", f"{x} {net.dense(f'{n}.narrow', y, 4 * width, width)}")
    x = net.normalized("norm", x, width)
    x = net.node("Gather", "first", f"{x} {net.constant('zero', np.array(0))}", axis=1)
    net.dense("output", x, width, 1000)
    save(net.model({"input": [1, 3, size, size]}, {"output": [1, 1000]}), path)


def enhancer(path: Path, bands: int = 64, units: int = 32) -> None:
    """Write a speech enhancer of 23 k parameters: a frame a call, three GRU layers with states."""
    net = Network(5)
    x = net.node("Relu", "encoded", net.dense("encoder", "frame", bands, units))
    x = net.shaped("step", x, [1, 1, units])
    for n, state in enumerate(STATES):
        y = net.recurrent("GRU", f"gru{n}", x, units, units, state)
        x = net.shaped(f"step{n}", y, [1, 1, units])
    mask = net.node("Sigmoid", "mask", net.dense("decoder", x, units, bands))
    net.node("Mul", "output", f"{mask} frame")
    states = {name: [1, 1, units] for name in STATES}
    results = {name: [1, 1, units] for name in STATES.values()}
    save(net.model({"frame": [1, bands], **states}, {"output": [1, 1, bands], **results}), path)


def recognizer(path: Path, width: int = 128, classes: int = 37) -> None:
    """Write a recognizer of text lines: three convolutions, two LSTM layers, 32 steps."""
    net, x, channels = Network(6), "input", 1
    for n, (out, stride) in enumerate(((32, [2, 2]), (64, [2, 2]), (128, [2, 1]))):
        kernel = net.weights(f"conv{n}.w", out, channels, 3, 3)
        x = net.node(
            "Conv", f"conv{n}", f"{x} {kernel}", kernel_shape=[3, 3], pads=[1] * 4, strides=stride
        )
        x = net.node("Relu", f"relu{n}", x)
        channels = out
    x = net.node("AveragePool", "rows", x, kernel_shape=[4, 1], strides=[4, 1])
    steps = width // 4
    x, i = net.shaped("columns", x, [1, channels, steps], [2, 0, 1]), channels
    for n in range(2):
        y = net.recurrent("LSTM", f"lstm{n}", x, i, 64)
        y = net.node("Transpose", f"both{n}", y, perm=[0, 2, 1, 3])
        x, i = net.shaped(f"sequence{n}", y, [steps, 1, 128]), 128
    net.dense("output", x, i, classes)
    save(net.model({"input": [1, 1, 32, width]}, {"output": [steps, 1, classes]}), path)
