"""Build small networks with a dynamic dimension, as exporters write them, with random weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Array = NDArray[np.generic]

INTEGERS, FLOATS = TensorProto.INT64, TensorProto.FLOAT


class Network:
    """A list of nodes and initializers that becomes a model."""

    def __init__(self, seed: int):
        self._random = np.random.default_rng(seed)
        self._nodes: list[NodeProto] = []
        self._tensors: dict[str, Array] = {}

    def weights(self, name: str, first: int, *rest: int) -> str:
        products = first if len(rest) < 2 else rest[0] * rest[-1]
        array = self._random.normal(0, products**-0.5, (first, *rest))
        self._tensors[name] = array.astype(np.float32)
        return name

    def tensor(self, name: str, values: object, kind: type = np.int64) -> str:
        self._tensors[name] = np.array(values, kind)
        return name

    def add(self, kind: str, inputs: str, output: str, **attributes: Any) -> str:
        outputs = output.split()
        self._nodes.append(
            helper.make_node(kind, inputs.split(), outputs, outputs[0], **attributes)
        )
        return outputs[0]

    def model(
        self,
        inputs: Mapping[str, tuple[int, tuple[int | str, ...]]],
        outputs: Mapping[str, tuple[int | str, ...]],
    ) -> ModelProto:
        graph = helper.make_graph(
            self._nodes,
            "network",
            [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
            [helper.make_tensor_value_info(name, FLOATS, s) for name, s in outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self._tensors.items()],
        )
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9)

    def attention(self, query: str, key: str, value: str, result: str) -> str:
        self.tensor("factor", 0.25, np.float32)
        self.add("Transpose", key, "keys", perm=[0, 2, 1])
        self.add("MatMul", f"{query} keys", "dots")
        self.add("Mul", "dots factor", "scores")
        self.add("Softmax", "scores", "shares", axis=-1)
        return self.add("MatMul", f"shares {value}", result)


def tagger() -> ModelProto:
    """Tag the words of a sentence: an embedding, attention, an LSTM and a product."""
    net, width = Network(1), 16
    net.weights("table", 40, width)
    net.add("Gather", "table tokens", "words")
    for name in "qkv":
        net.add("MatMul", f"words {net.weights(f'w{name}', width, width)}", name)
    net.attention("q", "k", "v", "context")
    net.add("MatMul", f"context {net.weights('wo', width, width)}", "mixed")
    net.add("Add", "mixed words", "sums")
    for name, shape in (("W", (1, 64, 16)), ("R", (1, 64, 16)), ("B", (1, 128))):
        net.weights(name, *shape)
    net.add("Transpose", "sums", "steps", perm=[1, 0, 2])
    net.add("LSTM", "steps W R B", "states last cell", hidden_size=width)
    net.tensor("one", [1])
    net.add("Squeeze", "states one", "rows")
    net.add("Transpose", "rows", "sentence", perm=[1, 0, 2])
    net.add("MatMul", f"sentence {net.weights('wt', width, 7)}", "tags")
    return net.model({"tokens": (INTEGERS, (1, "N"))}, {"tags": (1, "N", 7)})


def recognizer() -> ModelProto:
    """Recognize the letters of a line of text of any width: convolutions and a softmax."""
    net = Network(2)
    net.weights("c1", 8, 1, 3, 3)
    net.weights("c2", 16, 8, 3, 3)
    value = "image"
    for i in (1, 2):
        net.add("Conv", f"{value} c{i}", f"conv{i}", pads=[1, 1, 1, 1])
        net.add("Relu", f"conv{i}", f"relu{i}")
        value = net.add("MaxPool", f"relu{i}", f"pool{i}", kernel_shape=[2, 2], strides=[2, 2])
    net.add("Transpose", value, "columns", perm=[0, 3, 1, 2])
    net.add("Shape", "columns", "shape")
    net.tensor("index", [1])
    net.tensor("batch", [1])
    net.tensor("features", [64])
    net.add("Gather", "shape index", "count")
    net.add("Concat", "batch count features", "rows", axis=0)
    net.add("Reshape", "columns rows", "flat")
    net.add("MatMul", f"flat {net.weights('letters', 64, 12)}", "logits")
    net.add("Softmax", "logits", "probabilities", axis=-1)
    return net.model({"image": (FLOATS, (1, 1, 16, "W"))}, {"probabilities": (1, "C", 12)})


def front_end() -> ModelProto:
    """Encode frames of speech: convolutions, positions, layer normalization, a GRU, an average."""
    net, width = Network(3), 24
    net.weights("c1", width, 20, 3)
    net.weights("c2", width, width, 3)
    net.weights("positions", 1, 160, width)
    net.add("Conv", "frames c1", "conv1", pads=[1, 1], strides=[2])
    net.add("Relu", "conv1", "relu1")
    net.add("Conv", "relu1 c2", "conv2", pads=[1, 1])
    net.add("Relu", "conv2", "relu2")
    net.add("Transpose", "relu2", "rows", perm=[0, 2, 1])
    net.add("Shape", "relu2", "shape")
    net.tensor("two", [2])
    net.tensor("one", [1])
    net.tensor("zero", [0])
    net.add("Gather", "shape two", "count")
    net.add("Slice", "positions zero count one", "used")
    net.add("Add", "rows used", "placed")
    net.weights("scale", width)
    net.weights("offset", width)
    net.add("LayerNormalization", "placed scale offset", "normal", axis=-1)
    net.add("Transpose", "normal", "steps", perm=[1, 0, 2])
    for name, shape in (("W", (1, 72, 24)), ("R", (1, 72, 24)), ("B", (1, 144))):
        net.weights(name, *shape)
    net.add("GRU", "steps W R B", "states last", hidden_size=width, linear_before_reset=1)
    net.add("Squeeze", "states one", "hidden")
    net.add("Transpose", "hidden", "encoded", perm=[1, 0, 2])
    net.add("MatMul", f"encoded {net.weights('phones', width, 10)}", "sounds")
    net.add("ReduceMean", "encoded", "summary", axes=[1], keepdims=0)
    return net.model(
        {"frames": (FLOATS, (1, 20, "T"))}, {"sounds": (1, "U", 10), "summary": (1, width)}
    )


def decoder() -> ModelProto:
    """Decode a token with caches of earlier keys and values, which grow by one."""
    net, width = Network(4), 16
    net.weights("table", 40, width)
    net.add("Gather", "table token", "word")
    for name in "qkv":
        net.add("MatMul", f"word {net.weights(f'w{name}', width, width)}", name)
    net.add("Concat", "past_keys k", "new_keys", axis=1)
    net.add("Concat", "past_values v", "new_values", axis=1)
    net.attention("q", "new_keys", "new_values", "context")
    net.add("MatMul", f"context {net.weights('wo', width, width)}", "mixed")
    net.add("Add", "mixed word", "sums")
    net.add("MatMul", f"sums {net.weights('up', width, 64)}", "wide")
    net.add("Relu", "wide", "positive")
    net.add("MatMul", f"positive {net.weights('down', 64, width)}", "narrow")
    net.add("Add", "narrow sums", "result")
    net.add("MatMul", f"result {net.weights('words', width, 40)}", "logits")
    cache = (FLOATS, (1, "P", width))
    return net.model(
        {"token": (INTEGERS, (1, 1)), "past_keys": cache, "past_values": cache},
        {"logits": (1, 1, 40), "new_keys": (1, "Q", width), "new_values": (1, "Q", width)},
    )


NETWORKS = {
    "tagger": (tagger, "tokens=1x{}"),
    "recognizer": (recognizer, "image=1x1x16x{}"),
    "front end": (front_end, "frames=1x20x{}"),
    "decoder": (decoder, "past_keys=1x{}x16"),
}
"""The networks, and the option `--shape` with a place for the lengths."""


def samples(
    inputs: dict[str, tuple[str, tuple[int, ...]]], count: int, seed: int
) -> dict[str, Array]:
    """Return random samples for inputs with a numpy type and a shape that starts with 1."""
    random = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name, (dtype, shape) in inputs.items():
        full = (count, *shape[1:])
        values = random.integers(0, 40, full) if dtype == "int64" else random.normal(size=full)
        found[name] = values.astype(dtype)
    return found
