"""
Build the networks of `peers.py`, with the true topologies and seeded He-scaled weights.

Convolutional networks end with a classifier, a map or anchors before decoding. Transformers start
after the embedding, so that each peer computes the same float operations.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from networks import Builder, save
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Network(Builder):
    """Appends nodes with unique names that are counted."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, *shape: int) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def op(self, kind: str, *inputs: str, **attributes: int | float | list[int]) -> str:
        """Append a node with one result, and return the name of the result."""
        name = f"{kind.lower()}{len(self.nodes)}"
        node = helper.make_node(kind, inputs, [name], name)
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
        self.nodes.append(node)
        return name

    def integers(self, *values: int) -> str:
        name = f"integers{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def number(self, value: float | Sequence[float]) -> str:
        return self.constant(f"number{len(self.initializers)}", np.array(value))

    def unit(
        self, x: str, i: int, o: int, kernel: int, act: str = "", stride: int = 1, groups: int = 1
    ) -> str:
        """Append convolution, batch norm and the activation `act`."""
        name = f"unit{len(self.nodes)}"
        y = self.conv(x, name, i, o, kernel, stride, groups)
        if act == "Silu":
            return self.op("Mul", y, self.op("Sigmoid", y))
        if act == "Clip":
            return self.op("Clip", y, self.number(0), self.number(6))
        return self.op(act, y) if act else y

    def plain(self, x: str, i: int, o: int, kernel: int = 1, gain: float = 1.0) -> str:
        """Append a convolution with bias and without batch norm."""
        weights = self.rng.standard_normal((o, i, kernel, kernel)) * gain / (i * kernel**2) ** 0.5
        w = self.constant(f"weights{len(self.initializers)}", weights)
        b = self.constant(f"bias{len(self.initializers)}", self.rng.normal(0, 0.1, o))
        return self.op("Conv", x, w, b, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)

    def linear(self, x: str, i: int, o: int) -> str:
        """Append a matrix product with constant weights, and a bias."""
        w = self.constant(f"weights{len(self.initializers)}", self.rng.normal(0, i**-0.5, (i, o)))
        b = self.constant(f"bias{len(self.initializers)}", self.rng.normal(0, 0.02, o))
        return self.op("Add", self.op("MatMul", x, w), b)

    def norm(self, x: str, width: int) -> str:
        scale = self.constant(f"scale{len(self.initializers)}", self.rng.uniform(0.8, 1.2, width))
        bias = self.constant(f"shift{len(self.initializers)}", self.rng.normal(0, 0.1, width))
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-6)

    def gelu(self, x: str) -> str:
        """Append GELU as PyTorch exports it."""
        inner = self.op("Erf", self.op("Div", x, self.number(2**0.5)))
        return self.op("Mul", self.op("Mul", x, self.op("Add", inner, self.number(1))),
                       self.number(0.5))  # fmt: skip

    def heads(self, x: str, tokens: int, heads: int, width: int, *order: int) -> str:
        """Split the last axis into heads, and transpose."""
        split = self.op("Reshape", x, self.integers(1, tokens, heads, width // heads))
        return self.op("Transpose", split, perm=list(order))

    def attend(self, q: str, k: str, v: str, tokens: int, width: int, size: int) -> str:
        """Append attention; `k` is transposed, and `size` is the width of a head."""
        scores = self.op("Mul", self.op("MatMul", q, k), self.number(size**-0.5))
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        mixed = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.op("Reshape", mixed, self.integers(1, tokens, width))

    def attention(self, x: str, tokens: int, heads: int, width: int) -> str:
        q = self.heads(self.linear(x, width, width), tokens, heads, width, 0, 2, 1, 3)
        k = self.heads(self.linear(x, width, width), tokens, heads, width, 0, 2, 3, 1)
        v = self.heads(self.linear(x, width, width), tokens, heads, width, 0, 2, 1, 3)
        return self.linear(self.attend(q, k, v, tokens, width, width // heads), width, width)

    def feed_forward(self, x: str, width: int, inner: int) -> str:
        return self.linear(self.gelu(self.linear(x, width, inner)), inner, width)

    def write(self, path: Path, *outputs: tuple[str, tuple[int, ...]]) -> None:
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, ends, self.initializers)
        opset = helper.make_opsetid("", OPSET)
        save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


def tcn(path: Path) -> None:
    """Write a temporal convolution network: 8 causal blocks, 64 channels, 256 steps."""
    b, x, width = Network(31), "x", 64
    b.input(x, 1, 40, 256)
    channels = 40
    for block in range(8):
        y, dilation = x, 1 << block
        for i, o in ((channels, width), (width, width)):
            weights = b.rng.standard_normal((o, i, 3)) * (2 / (3 * i)) ** 0.5
            w = b.constant(f"weights{len(b.initializers)}", weights)
            bias = b.constant(f"bias{len(b.initializers)}", b.rng.normal(0, 0.1, o))
            y = b.op("Relu", b.op("Conv", y, w, bias, kernel_shape=[3], dilations=[dilation],
                                  pads=[2 * dilation, 0]))  # fmt: skip
        x = b.op("Relu", b.op("Add", x, y)) if channels == width else y
        channels = width
    x = b.classifier(x, width, 12)
    b.write(path, (x, (1, 12)))


def lstm(path: Path, units: int = 128, steps: int = 50, width: int = 64) -> None:
    """Write an LSTM that returns the last state, as PyTorch exports it."""
    b = Network(32)
    bound = units**-0.5
    shapes = {"w": (1, 4 * units, width), "r": (1, 4 * units, units), "b": (1, 8 * units)}
    names = [b.constant(n, b.rng.uniform(-bound, bound, s)) for n, s in shapes.items()]
    x = b.input("x", steps, 1, width)
    b.nodes.append(helper.make_node("LSTM", [x, *names], ["", "y"], "lstm", hidden_size=units))
    b.write(path, ("y", (1, 1, units)))


HARD = "HardSwish"
MOBILENET_V3 = (
    (3, 16, 16, 1, "Relu", 2), (3, 72, 24, 0, "Relu", 2), (3, 88, 24, 0, "Relu", 1),
    (5, 96, 40, 1, HARD, 2), (5, 240, 40, 1, HARD, 1), (5, 240, 40, 1, HARD, 1),
    (5, 120, 48, 1, HARD, 1), (5, 144, 48, 1, HARD, 1), (5, 288, 96, 1, HARD, 2),
    (5, 576, 96, 1, HARD, 1), (5, 576, 96, 1, HARD, 1),
)  # fmt: skip
"""Kernel, expanded channels, channels, squeeze, activation and stride of each block."""


def mobilenet_v3(path: Path, size: int = 224) -> None:
    """Write MobileNetV3-Small: 2.5 M parameters."""
    b = Network(3)
    x, channels = b.unit(b.input("x", 1, 3, size, size), 3, 16, 3, HARD, 2), 16
    for kernel, wide, out, squeezes, act, stride in MOBILENET_V3:
        y = b.unit(x, channels, wide, 1, act) if wide != channels else x
        y = b.unit(y, wide, wide, kernel, act, stride, wide)
        if squeezes:
            few = max(8, (wide // 4 + 4) // 8 * 8)
            s = b.op("Relu", b.plain(b.op("GlobalAveragePool", y), wide, few))
            s = b.op("HardSigmoid", b.plain(s, few, wide), alpha=1 / 6, beta=0.5)
            y = b.op("Mul", y, s)
        y = b.unit(y, wide, out, 1)
        x = b.op("Add", x, y) if stride == 1 and channels == out else y
        channels = out
    x = b.op("Flatten", b.op("GlobalAveragePool", b.unit(x, channels, 576, 1, HARD)))
    x = b.op(HARD, b.linear(x, 576, 1024))
    b.write(path, (b.linear(x, 1024, 1000), (1, 1000)))


EFFICIENTNET = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
"""Expansion, channels, repetitions, first stride and kernel of each stage."""


def efficientnet_lite0(path: Path, size: int = 224) -> None:
    """Write EfficientNet-lite0: 4.7 M parameters, 385 M multiplications."""
    b = Network(4)
    x, channels = b.unit(b.input("x", 1, 3, size, size), 3, 32, 3, "Clip", 2), 32
    for expansion, out, count, first, kernel in EFFICIENTNET:
        for block in range(count):
            stride, wide = 1 if block else first, channels * expansion
            y = b.unit(x, channels, wide, 1, "Clip") if expansion > 1 else x
            y = b.unit(b.unit(y, wide, wide, kernel, "Clip", stride, wide), wide, out, 1)
            x = b.op("Add", x, y) if stride == 1 and channels == out else y
            channels = out
    x = b.classifier(b.unit(x, channels, 1280, 1, "Clip"), 1280, 1000)
    b.write(path, (x, (1, 1000)))


def unet(path: Path, size: int = 128) -> None:
    """Write U-Net with 16 to 256 channels, transposed convolutions and three classes."""
    b = Network(5)
    x, channels = b.input("x", 1, 3, size, size), 3
    skips: list[str] = []
    widths = (16, 32, 64, 128, 256)
    for depth, width in enumerate(widths):
        if depth:
            x = b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        x = b.unit(b.unit(x, channels, width, 3, "Relu"), width, width, 3, "Relu")
        channels = width
        skips.append(x)
    for (wide, width), skip in zip(pairwise(widths[::-1]), skips[-2::-1], strict=True):
        weights = b.rng.standard_normal((wide, width, 2, 2)) * (1 / wide) ** 0.5
        w = b.constant(f"weights{len(b.initializers)}", weights)
        bias = b.constant(f"bias{len(b.initializers)}", b.rng.normal(0, 0.1, width))
        x = b.op("ConvTranspose", x, w, bias, kernel_shape=[2, 2], strides=[2, 2])
        x = b.op("Concat", x, skip, axis=1)
        x = b.unit(b.unit(x, wide, width, 3, "Relu"), width, width, 3, "Relu")
    b.write(path, (b.plain(x, 16, 3), (1, 3, size, size)))


def yolov8n(path: Path, size: int = 320, classes: int = 80) -> None:
    """Write a detector like YOLOv8n, with decoded boxes: 3.2 M parameters."""
    b = Network(6)

    def c2f(x: str, i: int, o: int, count: int, *, shortcut: bool) -> str:
        half = o // 2
        x = b.unit(x, i, o, 1, "Silu")
        node = helper.make_node("Split", [x, b.integers(half, half)], [x + "a", x + "b"], x + "s",
                                axis=1)  # fmt: skip
        b.nodes.append(node)
        parts = [x + "a", x + "b"]
        for _ in range(count):
            y = b.unit(b.unit(parts[-1], half, half, 3, "Silu"), half, half, 3, "Silu")
            parts.append(b.op("Add", parts[-1], y) if shortcut else y)
        return b.unit(b.op("Concat", *parts, axis=1), (2 + count) * half, o, 1, "Silu")

    def upsampled(x: str) -> str:
        return b.op("Resize", x, "", b.number([1, 1, 2, 2]))

    x = b.unit(b.input("x", 1, 3, size, size), 3, 16, 3, "Silu", 2)
    found: list[str] = []
    for i, o, count in ((16, 32, 1), (32, 64, 2), (64, 128, 2), (128, 256, 1)):
        x = c2f(b.unit(x, i, o, 3, "Silu", 2), o, o, count, shortcut=True)
        found.append(x)
    _, c3, c4, c5 = found
    pools = [b.unit(c5, 256, 128, 1, "Silu")]
    for _ in range(3):
        pools.append(b.op("MaxPool", pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    p5 = b.unit(b.op("Concat", *pools, axis=1), 512, 256, 1, "Silu")
    p4 = c2f(b.op("Concat", upsampled(p5), c4, axis=1), 384, 128, 1, shortcut=False)
    p3 = c2f(b.op("Concat", upsampled(p4), c3, axis=1), 192, 64, 1, shortcut=False)
    down = b.op("Concat", b.unit(p3, 64, 64, 3, "Silu", 2), p4, axis=1)
    n4 = c2f(down, 192, 128, 1, shortcut=False)
    down = b.op("Concat", b.unit(n4, 128, 128, 3, "Silu", 2), p5, axis=1)
    n5 = c2f(down, 384, 256, 1, shortcut=False)
    boxes: list[str] = []
    scores: list[str] = []
    cells = 0
    for x, i, stride in ((p3, 64, 8), (n4, 128, 16), (n5, 256, 32)):
        count = (size // stride) ** 2
        box = b.unit(b.unit(x, i, 64, 3, "Silu"), 64, 64, 3, "Silu")
        score = b.unit(b.unit(x, i, 80, 3, "Silu"), 80, 80, 3, "Silu")
        boxes.append(b.op("Reshape", b.plain(box, 64, 64), b.integers(1, 64, count)))
        scores.append(b.op("Reshape", b.plain(score, 80, classes), b.integers(1, classes, count)))
        cells += count
    spread = b.op("Reshape", b.op("Concat", *boxes, axis=2), b.integers(1, 4, 16, cells))
    spread = b.op("Softmax", b.op("Transpose", spread, perm=[0, 2, 1, 3]), axis=1)
    steps = b.constant("steps", np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
    sides = b.op("Reshape", b.op("Conv", spread, steps, kernel_shape=[1, 1]),
                 b.integers(1, 4, cells))  # fmt: skip
    score = b.op("Sigmoid", b.op("Concat", *scores, axis=2))
    b.write(path, (b.op("Concat", sides, score, axis=1), (1, 4 + classes, cells)))


def vit_tiny(path: Path, size: int = 224, width: int = 192) -> None:
    """Write ViT-tiny with patches of 16: 12 layers, 3 heads, 5.7 M parameters."""
    b, tokens = Network(8), (size // 16) ** 2
    x = b.input("x", 1, 3, size, size)
    w = b.constant("patches", b.rng.standard_normal((width, 3, 16, 16)) * 768**-0.5)
    x = b.op("Conv", x, w, kernel_shape=[16, 16], strides=[16, 16])
    x = b.op("Transpose", b.op("Reshape", x, b.integers(1, width, tokens)), perm=[0, 2, 1])
    token = b.constant("token", b.rng.normal(0, 0.02, (1, 1, width)))
    x = b.op("Concat", token, x, axis=1)
    x = b.op("Add", x, b.constant("positions", b.rng.normal(0, 0.02, (1, tokens + 1, width))))
    for _ in range(12):
        x = b.op("Add", x, b.attention(b.norm(x, width), tokens + 1, 3, width))
        x = b.op("Add", x, b.feed_forward(b.norm(x, width), width, 4 * width))
    bounds = [b.integers(n) for n in (0, 1, 1)]
    x = b.op("Reshape", b.op("Slice", b.norm(x, width), *bounds), b.integers(1, width))
    b.write(path, (b.linear(x, width, 1000), (1, 1000)))


def minilm(path: Path, tokens: int = 128, width: int = 384) -> None:
    """Write an encoder like MiniLM after the embedding: 6 layers, 12 heads, 10.6 M parameters."""
    b = Network(9)
    x = b.norm(b.input("x", 1, tokens, width), width)
    for _ in range(6):
        x = b.norm(b.op("Add", x, b.attention(x, tokens, 12, width)), width)
        x = b.norm(b.op("Add", x, b.feed_forward(x, width, 4 * width)), width)
    b.write(path, (b.op("ReduceMean", x, axes=[1], keepdims=0), (1, width)))


LAYERS, HEADS, WIDTH, PAST, WORDS = 8, 8, 512, 256, 4096


def decoder_step(path: Path) -> None:
    """
    Write a step of a decoder with 27 M weights. Inputs and outputs are the caches of the last 256
    keys and values; the oldest entry is dropped.
    """
    b, size = Network(10), WIDTH // HEADS
    x = b.input("x", 1, 1, WIDTH)
    kept: list[tuple[str, tuple[int, ...]]] = []
    for layer in range(LAYERS):
        inner = b.norm(x, WIDTH)
        q, k, v = (
            b.heads(b.linear(inner, WIDTH, WIDTH), 1, HEADS, WIDTH, 0, 2, 1, 3) for _ in range(3)
        )
        caches: list[str] = []
        for kind, new in (("key", k), ("value", v)):
            past = b.input(f"{kind}{layer}", 1, HEADS, PAST, size)
            joined = b.op("Concat", past, new, axis=2)
            name = f"next_{kind}{layer}"
            bounds = [b.integers(n) for n in (1, PAST + 1, 2)]
            b.nodes.append(helper.make_node("Slice", [joined, *bounds], [name], name))
            kept.append((name, (1, HEADS, PAST, size)))
            caches.append(name)
        keys = b.op("Transpose", caches[0], perm=[0, 1, 3, 2])
        mixed = b.attend(q, keys, caches[1], 1, WIDTH, size)
        x = b.op("Add", x, b.linear(mixed, WIDTH, WIDTH))
        x = b.op("Add", x, b.feed_forward(b.norm(x, WIDTH), WIDTH, 4 * WIDTH))
    b.write(path, (b.linear(b.norm(x, WIDTH), WIDTH, WORDS), (1, 1, WORDS)), *kept)
