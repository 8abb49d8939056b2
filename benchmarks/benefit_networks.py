"""
Build small networks, each with a pattern that a pass or a rule of a pass rewrites.

Weights are seeded. `NETWORKS` maps names to functions that build the networks; test builders supply
random networks in addition.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from finn_networks import QuantizedBuilder
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

from attention_networks import heads
from loop_networks import recurrent
from onnx_random import random_network
from random_images import random_image_model
from recurrent_networks import delay_line, gru_cell, lstm_layer
from streaming_random import random_streaming

Shape = Sequence[int]


class Net:
    """A network that grows node by node; each method returns the name of a value."""

    def __init__(self, seed: int = 0):
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, *shape: int, kind: int = TensorProto.FLOAT) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, value: object, kind: type[np.generic] = np.float32) -> str:
        name = f"k{len(self.constants)}"
        array: NDArray[Any] = np.asarray(value, kind)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        node = helper.make_node(kind, inputs, names, f"{kind.lower()}{len(self.nodes)}")
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
        self.nodes.append(node)
        return " ".join(names)

    def weights(self, *shape: int) -> str:
        scale = np.sqrt(2 / np.prod(shape[1:]))
        return self.constant(self.random.normal(0, scale, shape))

    def conv(self, x: str, i: int, o: int, kernel: int = 3, **attributes: Any) -> str:
        known: dict[str, Any] = {"pads": [kernel // 2] * 4} | attributes
        bias = self.constant(self.random.normal(0, 0.2, o))
        return self.op("Conv", x, self.weights(o, i, kernel, kernel), bias, **known)

    def norm(self, x: str, channels: int, spread: float = 2.0) -> str:
        uniform = self.random.uniform
        values = (uniform(1, spread, channels), uniform(-1, 1, channels))
        more = (uniform(-1, 1, channels), uniform(0.5, 2, channels))
        return self.op("BatchNormalization", x, *map(self.constant, (*values, *more)))

    def dense(self, x: str, i: int, o: int) -> str:
        product = self.op("MatMul", x, self.constant(self.random.normal(0, i**-0.5, (i, o))))
        return self.op("Add", product, self.constant(self.random.normal(0, 0.2, o)))

    def shaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(shape, np.int64))

    def model(self, *outputs: str, opset: int = 17) -> onnx.ModelProto:
        ends = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "network", self.inputs, ends, self.constants)
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def residual_network() -> onnx.ModelProto:
    n = Net(1)
    x = n.op("Relu", n.norm(n.conv(n.input(1, 3, 16, 16), 3, 16), 16))
    for stride in (1, 2):
        y = n.op("Relu", n.norm(n.conv(x, 16, 16, strides=[stride] * 2), 16))
        y = n.norm(n.conv(y, 16, 16), 16)
        skip = x if stride == 1 else n.conv(x, 16, 16, 1, strides=[2, 2])
        x = n.op("Relu", n.op("Add", y, skip))
    return n.model(n.conv(x, 16, 8, 1))


def silu_network() -> onnx.ModelProto:
    n = Net(2)
    x = n.input(1, 3, 16, 16)
    for i, o in ((3, 16), (16, 16), (16, 16)):
        y = n.conv(x, i, o)
        x = n.op("Mul", y, n.op("Sigmoid", y))
    return n.model(n.conv(x, 16, 16, 1))


def gelu_network() -> onnx.ModelProto:
    """Return GELU in the form that exporters write."""
    n = Net(3)
    y = n.dense(n.input(16, 32), 32, 64)
    erf = n.op("Erf", n.op("Div", y, n.constant(2**0.5)))
    y = n.op("Mul", n.op("Mul", y, n.op("Add", erf, n.constant(1.0))), n.constant(0.5))
    return n.model(n.dense(y, 64, 16))


def attention(*, mask: bool = False, guard: bool = False, spelled: bool = False) -> onnx.ModelProto:
    """
    Return a head over 16 tokens, with a constant mask, a guard against NaN, or decomposed softmax.
    """
    n = Net(4)
    x = n.input(16, 32)
    q, k, v = (n.dense(x, 32, 32) for _ in range(3))
    scores = n.op("MatMul", q, n.op("Transpose", k, perm=[1, 0]))
    scores = n.op("Mul", scores, n.constant(32**-0.5))
    if mask:
        scores = n.op("Add", scores, n.constant(np.triu(np.full((16, 16), -1e9), 1)))
    if spelled:
        powers = n.op("Exp", scores)
        p = n.op("Div", powers, n.op("ReduceSum", powers, n.constant([1], np.int64)))
    else:
        p = n.op("Softmax", scores, axis=-1)
    if guard:
        p = n.op("Where", n.op("IsNaN", p), n.constant(0.0), p)
    return n.model(n.dense(n.op("MatMul", p, v), 32, 16))


def layer_norm_network() -> onnx.ModelProto:
    """Return decomposed layer normalization between products."""
    n = Net(5)
    x = n.dense(n.input(16, 32), 32, 32)
    for _ in range(2):
        centred = n.op("Sub", x, n.op("ReduceMean", x, axes=[-1]))
        power = n.op("Pow", centred, n.constant(2.0))
        variance = n.op("ReduceMean", power, axes=[-1])
        root = n.op("Sqrt", n.op("Add", variance, n.constant(1e-5)))
        y = n.op("Mul", n.op("Div", centred, root), n.constant(n.random.uniform(0.5, 2, 32)))
        y = n.op("Add", y, n.constant(n.random.normal(0, 0.2, 32)))
        x = n.op("Add", n.dense(n.op("Relu", n.dense(y, 32, 64)), 64, 32), x)
    return n.model(n.dense(x, 32, 8))


def expanded_gate() -> onnx.ModelProto:
    """Return squeeze-and-excitation with `x * gate.expand_as(x)`."""
    n = Net(6)
    x = n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 16))
    gate = n.op("Sigmoid", n.conv(n.op("GlobalAveragePool", x), 16, 16, 1))
    gate = n.op("Expand", gate, n.constant((1, 16, 16, 16), np.int64))
    return n.model(n.conv(n.op("Mul", x, gate), 16, 8))


def opposites() -> onnx.ModelProto:
    """Return a residual connection that subtracts the negated value."""
    n = Net(7)
    x = n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 16))
    y = n.op("Mul", n.conv(x, 16, 16), n.constant(-1.0))
    return n.model(n.conv(n.op("Relu", n.op("Sub", x, y)), 16, 8))


def summed_pixels() -> onnx.ModelProto:
    """Return an average over pixels in the form of a sum divided by the count."""
    n = Net(8)
    x = n.shaped(n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 16)), 1, 16, 256)
    total = n.op("ReduceSum", x, n.constant([2], np.int64), keepdims=0)
    return n.model(n.dense(n.op("Div", total, n.constant(256.0)), 16, 10))


def padded() -> onnx.ModelProto:
    n = Net(9)
    x = n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 16))
    x = n.op("Pad", x, n.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    return n.model(n.conv(x, 16, 8, pads=[0] * 4))


def causal(*, norm: bool) -> onnx.ModelProto:
    """
    Return causal convolutions: padded on both sides, and cropped, after a batch normalization or
    not.
    """
    n = Net(10)
    x = n.input(1, 8, 1, 64)
    for _ in range(3):
        weights = n.constant(n.random.normal(0, 0.3, (8, 8, 1, 3)))
        x = n.op("Conv", x, weights, dilations=[1, 4], pads=[0, 8, 0, 8])
        x = n.norm(x, 8) if norm else x
        axes = n.constant([3], np.int64)
        x = n.op("Slice", x, n.constant([0], np.int64), n.constant([64], np.int64), axes)
        x = n.op("Relu", x)
    return n.model(n.conv(x, 8, 4, 1))


def sound() -> onnx.ModelProto:
    """Return frames of a signal, as for a spectrum: windows of 256 samples with stride 128."""
    n = Net(11)
    weights = n.constant(n.random.normal(0, 0.06, (32, 1, 1, 256)))
    x = n.op("Relu", n.op("Conv", n.input(1, 1, 1, 4096), weights, strides=[1, 128]))
    return n.model(n.conv(x, 32, 8, 1))


def clipped_twice() -> onnx.ModelProto:
    n = Net(12)
    x = n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 16))
    x = n.op("Clip", x, n.constant(0.0), n.constant(2.0))
    return n.model(n.conv(x, 16, 8))


def affine_blocks() -> onnx.ModelProto:
    """Return learnable affine blocks after hard-swish, as in PP-LCNetV3."""
    n = Net(13)
    x = n.input(1, 3, 16, 16)
    for i, o in ((3, 16), (16, 16)):
        x = n.op("HardSwish", n.conv(x, i, o))
        x = n.op("Add", n.op("Mul", x, n.constant(1.7)), n.constant(-0.4))
    skip = n.op("Add", x, n.conv(x, 16, 16))
    return n.model(n.conv(skip, 16, 8, 1))


def convnext() -> onnx.ModelProto:
    """Return products over the channels of each pixel, with a residual."""
    n = Net(14)
    x = n.conv(n.input(1, 3, 16, 16), 3, 16)
    y = n.op("Transpose", n.conv(x, 1, 16, group=16), perm=[0, 2, 3, 1])
    y = n.dense(n.op("Relu", n.dense(y, 16, 32)), 32, 16)
    y = n.op("Mul", y, n.constant(n.random.uniform(0.5, 1, 16)))
    x = n.op("Add", x, n.op("Transpose", y, perm=[0, 3, 1, 2]))
    return n.model(n.conv(x, 16, 8, 1))


def norm_after_pool() -> onnx.ModelProto:
    n = Net(15)
    x = n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 16))
    x = n.norm(n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), 16)
    return n.model(n.conv(x, 16, 8, 1))


def dense_block(*, wide: bool = False) -> onnx.ModelProto:
    """Return batch normalization and ReLU after each concatenation, as in DenseNet."""
    n = Net(16)
    x = n.conv(n.input(1, 3, 16, 16), 3, 16)
    channels = 16
    for _ in range(3):
        factors = n.random.uniform(0.5, 2, (1, channels, 1, 1))
        if wide:
            factors[0, 3] = 300.0
        y = n.op("Mul", x, n.constant(factors))
        y = n.op("Add", y, n.constant(n.random.normal(0, 0.3, (1, channels, 1, 1))))
        y = n.conv(n.op("Relu", y), channels, 8)
        x, channels = n.op("Concat", x, y, axis=1), channels + 8
    return n.model(n.conv(n.op("Relu", n.norm(x, channels)), channels, 8, 1))


def branches() -> onnx.ModelProto:
    """Return three convolutions of a value, concatenated, as in Inception."""
    n = Net(17)
    x = n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 16))
    parts = [n.op("Relu", n.conv(x, 16, o, 1)) for o in (8, 8, 16)]
    return n.model(n.conv(n.op("Concat", *parts, axis=1), 32, 8))


def upsampling() -> onnx.ModelProto:
    n = Net(18)
    x = n.op("Relu", n.conv(n.input(1, 3, 8, 8), 3, 16))
    for _ in range(2):
        weights = n.constant(n.random.normal(0, 0.1, (16, 16, 4, 4)))
        x = n.op("ConvTranspose", x, weights, strides=[2, 2], pads=[1] * 4)
        x = n.op("Relu", x)
    return n.model(n.conv(x, 16, 3))


def normalized_features() -> onnx.ModelProto:
    """Return features of several orders of magnitude, which the network normalizes first."""
    n = Net(19)
    scale = 10.0 ** np.arange(-4, 4)
    x = n.op("Mul", n.input(1, 8), n.constant(scale))
    x = n.op("Div", n.op("Sub", x, n.constant(scale / 3)), n.constant(scale))
    return n.model(n.dense(n.op("Relu", n.dense(x, 8, 32)), 32, 4))


def decoded_boxes() -> onnx.ModelProto:
    """Return boxes and scores of a detector: sigmoid, grid, anchors, concatenation."""
    n = Net(20)
    x = n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 16))
    centre, size, score = (n.conv(x, 16, o, 1) for o in (2, 2, 4))
    grid = n.constant(np.stack(np.meshgrid(np.arange(16), np.arange(16)))[None] * 8)
    centre = n.op("Add", n.op("Mul", n.op("Sigmoid", centre), n.constant(16.0)), grid)
    size = n.op("Mul", n.op("Exp", size), n.constant(np.reshape([200.0, 3.0], (1, 2, 1, 1))))
    return n.model(n.op("Concat", centre, size, n.op("Sigmoid", score), axis=1))


def scattered_maximum() -> onnx.ModelProto:
    """Return a maximum over the points of each cell; -1e9 marks a cell without points."""
    n = Net(21)
    y = n.dense(n.input(16, 8), 8, 16)
    cells = n.constant(np.full((4, 16), -1e9))
    index = n.constant(np.array([[0], [2], [3], [1]]), np.int64)
    part = n.op("Slice", y, *(n.constant([v], np.int64) for v in (0, 4, 0)))
    put = n.op("ScatterND", cells, index, part)
    taken = n.op("Concat", put, n.constant(np.full((2, 16), -1e9)), axis=0)
    return n.model(n.dense(n.op("Relu", taken), 16, 4))


def spectrum() -> onnx.ModelProto:
    """Return the logarithm of a power spectrum, and layers after it."""
    n = Net(22)
    x = n.op("Conv", n.input(1, 1, 1, 1024), n.constant(n.random.normal(0, 0.1, (32, 1, 1, 64))),
             strides=[1, 32])  # fmt: skip
    power = n.op("Add", n.op("Mul", x, x), n.constant(1e-6))
    filters = n.constant(np.abs(n.random.normal(0, 0.1, (16, 32, 1, 1))))
    mel = n.op("Log", n.op("Add", n.op("Conv", power, filters), n.constant(1e-6)))
    return n.model(n.conv(n.op("Relu", n.conv(mel, 16, 16, 1)), 16, 8, 1))


def byte_image() -> onnx.ModelProto:
    """Return a network with a uint8 image that subtracts means per channel."""
    n = Net(23)
    x = n.op("Cast", n.input(1, 3, 16, 16, kind=TensorProto.UINT8), to=TensorProto.FLOAT)
    mean = n.constant(np.reshape([120.0, 110.0, 100.0], (1, 3, 1, 1)))
    deviation = n.constant(np.reshape([60.0, 55.0, 20.0], (1, 3, 1, 1)))
    x = n.op("Div", n.op("Sub", x, mean), deviation)
    return n.model(n.conv(n.op("Relu", n.conv(x, 3, 16)), 16, 8))


def two_inputs_in_one() -> onnx.ModelProto:
    """
    Return a network with an input of two parts with different ranges, and a cache that is returned
    longer.
    """
    n = Net(24)
    x, cache = n.input(1, 16), n.input(15, 8)
    small = n.op("Slice", x, *(n.constant([v], np.int64) for v in (0, 8, 1)))
    large = n.op("Slice", x, *(n.constant([v], np.int64) for v in (8, 16, 1)))
    small = n.op("Mul", small, n.constant(1.0))
    y = n.op("Relu", n.op("Add", n.dense(small, 8, 8), n.dense(large, 8, 8)))
    longer = n.op("Concat", cache, y, axis=0)
    scores = n.op("Softmax", n.op("MatMul", y, n.op("Transpose", longer, perm=[1, 0])), axis=-1)
    return n.model(n.dense(n.op("MatMul", scores, longer), 8, 4), longer)


def denoiser() -> onnx.ModelProto:
    """Return a network that computes noise and subtracts it from the input."""
    n = Net(25)
    x = n.input(1, 3, 16, 16)
    y = n.conv(n.op("Relu", n.conv(x, 3, 16)), 16, 3)
    return n.model(n.op("Sub", x, y))


def lstm_states() -> onnx.ModelProto:
    """Return an LSTM with consumers of the states and of the last cell state."""
    n = Net(26)
    x = n.input(20, 1, 6)
    w, r = (n.constant(n.random.normal(0, 1.2, (1, 32, k))) for k in (6, 8))
    b = n.constant(np.tile(np.repeat([3.0, 0, 3.0, 1.0], 8), 2)[None])
    y, _, c = n.op("LSTM", x, w, r, b, outputs=3, hidden_size=8).split()
    states = n.dense(n.shaped(y, 20, 8), 8, 4)
    return n.model(states, n.dense(n.shaped(c, 1, 8), 8, 4))


def unequal_channels() -> onnx.ModelProto:
    """Return weights of channels that differ by five octaves, which the next layer undoes."""
    n = Net(27)
    factors = np.exp2(n.random.integers(-5, 5, 16)).astype(np.float32)
    first = n.random.normal(0, 0.3, (16, 3, 3, 3)) * factors[:, None, None, None]
    x = n.op("Relu", n.op("Conv", n.input(1, 3, 16, 16), n.constant(first), pads=[1] * 4))
    second = n.random.normal(0, 0.1, (16, 16, 3, 3)) / factors[None, :, None, None]
    x = n.op("Relu", n.op("Conv", x, n.constant(second), pads=[1] * 4))
    return n.model(n.conv(x, 16, 8, 1))


def unequal_rows() -> onnx.ModelProto:
    """Return residual layers with output channels that differ by several octaves, and no ReLU."""
    n = Net(28)
    x = n.conv(n.input(1, 3, 16, 16), 3, 16)
    for _ in range(2):
        rows = np.exp2(n.random.integers(-6, 1, 16))[:, None, None, None]
        weights = n.random.normal(0, 0.1, (16, 16, 3, 3)) * rows
        y = n.op("Conv", x, n.constant(weights), pads=[1] * 4)
        x = n.op("Add", y, x)
    last = n.random.normal(0, 0.2, (8, 16, 1, 1)) * np.exp2(np.arange(-7, 1))[:, None, None, None]
    return n.model(n.op("Conv", x, n.constant(last)))


def coarse_residual() -> onnx.ModelProto:
    """Return a residual that is much larger than the result of the layer."""
    n = Net(29)
    x = n.op("Relu", n.conv(n.input(1, 3, 8, 8), 3, 8))
    large = n.op("Mul", x, n.constant(4096.0))
    weights = n.constant(n.random.normal(0, 1e-5, (8, 8, 3, 3)))
    y = n.op("Add", n.op("Conv", x, weights, pads=[1] * 4), large)
    return n.model(n.conv(n.op("Relu", y), 8, 4, 1))


def separate_sums() -> onnx.ModelProto:
    """Return concatenations of sums before a product, and channel shuffles."""
    n = Net(30)
    x = n.op("Relu", n.conv(n.input(1, 4, 16, 16), 4, 16))
    y = n.shaped(
        n.op("Transpose", n.shaped(x, 1, 2, 8, 16, 16), perm=[0, 2, 1, 3, 4]), 1, 16, 16, 16
    )
    y = n.conv(y, 1, 16, group=16)
    tokens = n.op("Transpose", n.shaped(y, 1, 16, 256), perm=[0, 2, 1])
    return n.model(n.dense(tokens, 16, 8))


def pixel_products() -> onnx.ModelProto:
    """Return a product over the channels of each pixel, with a residual."""
    n = Net(32)
    x = n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 16))
    y = n.dense(n.op("Transpose", x, perm=[0, 2, 3, 1]), 16, 16)
    x = n.op("Add", x, n.op("Transpose", y, perm=[0, 3, 1, 2]))
    return n.model(n.conv(n.op("Relu", x), 16, 8, 1))


def repvgg() -> onnx.ModelProto:
    """Return the sum of convolutions of 3x3 and 1x1 and a batch normalization of the same value."""
    n = Net(33)
    x = n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 16))
    for _ in range(2):
        branches = n.op("Add", n.norm(n.conv(x, 16, 16), 16), n.norm(n.conv(x, 16, 16, 1), 16))
        x = n.op("Relu", branches)
    return n.model(n.conv(x, 16, 8, 1))


def cropped_norm() -> onnx.ModelProto:
    """Return crops between a convolution and a batch normalization."""
    n = Net(34)
    x = n.input(1, 8, 1, 64)
    for _ in range(2):
        x = n.op("Conv", x, n.weights(8, 8, 1, 3), dilations=[1, 4], pads=[0, 8, 0, 8])
        axes = n.constant([3], np.int64)
        x = n.op("Slice", x, n.constant([0], np.int64), n.constant([64], np.int64), axes)
        x = n.op("Relu", n.norm(x, 8))
    return n.model(n.conv(x, 8, 4, 1))


def wide_factors() -> onnx.ModelProto:
    """
    Return a network that multiplies by a concatenation; its largest factor belongs to a zero
    channel.
    """
    n = Net(35)
    x = n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 8))
    bias = n.constant(np.where(np.arange(8) == 3, -1e3, 0.1))
    y = n.op("Relu", n.op("Conv", x, n.weights(8, 8, 1, 1), bias))
    factors = np.where(np.arange(16) == 11, 316.0, 1.0) * n.random.uniform(0.5, 2, 16)
    x = n.op("Mul", n.op("Concat", x, y, axis=1), n.constant(factors[None, :, None, None]))
    return n.model(n.conv(n.op("Relu", x), 16, 8, 1))


def sub_bands() -> onnx.ModelProto:
    """Return batch normalizations of four sub-bands of each channel, with different scales."""
    n = Net(37)
    x = n.conv(n.input(1, 3, 16, 16), 3, 8)
    for _ in range(2):
        x = n.norm(n.op("Reshape", x, n.constant([1, 32, 4, 16], np.int64)), 32)
        x = n.op("Relu", n.op("Reshape", x, n.constant([1, 8, 16, 16], np.int64)))
        x = n.conv(x, 8, 8)
    return n.model(x)


def slopes_per_channel() -> onnx.ModelProto:
    """Return convolutions with PReLU, of which the last one is the output."""
    n = Net(38)
    x = n.input(1, 3, 16, 16)
    for i, o in ((3, 16), (16, 16), (16, 8)):
        x = n.conv(x, i, o)
        x = n.op("PRelu", x, n.constant(n.random.uniform(-0.5, 0.5, (o, 1, 1))))
    return n.model(x)


def narrow_weights(block: int = 0) -> onnx.ModelProto:
    """
    Return matrix products with weights of 4 bits, between floats. Each `block` of inputs has a
    scale; with 0, all weights have one.
    """
    n = Net(37)
    x = n.input(4, 64)
    for _ in range(2):
        name, integers = f"k{len(n.constants)}", n.random.integers(-8, 8, 64 * 64)
        shape = (64, 64)
        n.constants.append(helper.make_tensor(name, TensorProto.INT4, shape, integers.tolist()))
        scales = np.full((64 // block, 64), 1 / 64) if block else 1 / 64
        blocks = {"axis": 0, "block_size": block} if block else {}
        weights = n.op("DequantizeLinear", name, n.constant(scales), **blocks)
        x = n.op("Relu", n.op("MatMul", x, weights))
    return n.model(x, opset=21)


def few_bits(scale: float = 1.0) -> onnx.ModelProto:
    """
    Return quantized layers of 2 bits with batch normalization, in QONNX. `scale` is the scale of
    the weights of convolutions.
    """
    b = QuantizedBuilder(2)
    x = b.quantized("input", "pixels", 8, 2.0**-7, narrow=False)
    for i, channels in enumerate((8, 32)):
        w = b.weights(f"conv{i}", (32, channels, 3, 3), 2, scale)
        x = b.node("Conv", f"conv{i}", [x, w], kernel_shape=[3, 3])
        x = b.norm(x, f"conv{i}.norm", 32, 3.0 * channels**0.5)
        x = b.quantized(x, f"conv{i}.act", 2, 1.0)
    x = b.node("Flatten", "flatten", [x])
    x = b.node("MatMul", "fc", [x, b.weights("fc", (512, 10), 2, 1.0)])
    return b.network((1, 8, 8, 8), x, 10)


def silu_between_qdq() -> onnx.ModelProto:
    """Return Q/DQ around layers with SiLU, and data movement before QuantizeLinear."""
    n = Net(36)
    step, zero = n.constant(1 / 48), n.constant(3, np.int8)

    def stored(x: str) -> str:
        return n.op("DequantizeLinear", n.op("QuantizeLinear", x, step, zero), step, zero)

    x, other = n.input(1, 3, 16, 16), n.input(1, 5, 16, 16)
    x = stored(n.op("Concat", x, other, axis=1))
    for _ in range(2):
        weights = n.constant(n.random.integers(-40, 40, (8, 8, 3, 3)), np.int8)
        weights = n.op("DequantizeLinear", weights, n.constant(1 / 300), n.constant(0, np.int8))
        y = n.op("Conv", x, weights, pads=[1] * 4)
        x = stored(n.op("Mul", y, n.op("Sigmoid", y)))
    return n.model(x)


def wide_values() -> onnx.ModelProto:
    """Return products with operands of 16 bits, for an accelerator of 8 bits."""
    n = Net(37)
    x = n.op("Relu", n.dense(n.input(16, 32), 32, 64))
    x = n.op("Relu", n.dense(x, 64, 64))
    return n.model(n.dense(n.op("Relu", n.dense(x, 64, 64)), 64, 16))


def far_rows() -> onnx.ModelProto:
    """Return a residual layer and a last layer with a single output channel that is much larger."""
    n = Net(38)
    inside, rows = (np.where(np.arange(16) == 0, 1.0, 2.0**power) for power in (-5, -9))
    x = n.dense(n.input(16, 16), 16, 16)
    y = n.op("MatMul", x, n.constant(n.random.normal(0, 0.3, (16, 16)) * inside))
    x = n.dense(n.op("Add", y, n.op("Relu", x)), 16, 16)
    last = n.op("MatMul", x, n.constant(n.random.normal(0, 0.3, (16, 16)) * rows))
    return n.model(n.op("Sigmoid", last))


def large_bias() -> onnx.ModelProto:
    """Return a bias that is ten orders of magnitude larger than the products."""
    n = Net(39)
    weights = n.constant(n.random.normal(0, 1e-8, (16, 8)))
    x = n.op("Add", n.op("MatMul", n.input(4, 16), weights), n.constant(np.full(8, 100.0)))
    return n.model(n.dense(n.op("Relu", x), 8, 4))


def affine_output() -> onnx.ModelProto:
    """Return a network with a scaled function as the output."""
    n = Net(40)
    x = n.op("Relu", n.conv(n.input(1, 3, 16, 16), 3, 16))
    x = n.op("HardSwish", n.conv(x, 16, 8))
    return n.model(n.op("Add", n.op("Mul", x, n.constant(1.7)), n.constant(-0.4)))


def strided_stem() -> onnx.ModelProto:
    """Return a convolution with stride 2 of an image with three channels."""
    n = Net(41)
    x = n.conv(n.input(1, 3, 64, 64), 3, 16, 3, strides=[2, 2])
    return n.model(n.conv(n.op("Relu", x), 16, 16, 1))


def multi_head(tokens: int = 16) -> onnx.ModelProto:
    return onnx.load_from_string(heads(tokens, 4, 32))


def quantized(make: Callable[[], onnx.ModelProto], *, signed: bool) -> onnx.ModelProto:
    """Return the network with Q/DQ of ONNX Runtime, of 8 bits, per channel."""
    from onnx_models import random_inputs

    # As Any, because the runtime has no type stubs.
    runtime: Any = import_module("onnxruntime.quantization")
    source = make()
    samples = iter([random_inputs(source, seed) for seed in range(8)])
    reader = SimpleNamespace(get_next=lambda: next(samples, None))
    kind = runtime.QuantType.QInt8 if signed else runtime.QuantType.QUInt8
    with TemporaryDirectory() as folder:
        before, after = (Path(folder) / name for name in ("float.onnx", "stored.onnx"))
        before.write_bytes(source.SerializeToString())
        runtime.quantize_static(
            str(before), str(after), reader, runtime.QuantFormat.QDQ, per_channel=True,
            activation_type=kind, weight_type=runtime.QuantType.QInt8,
        )  # fmt: skip
        return onnx.load_from_string(after.read_bytes())


def moved_between_qdq() -> onnx.ModelProto:
    """Return data movement, padding, a maximum and a constant between Q/DQ."""
    n = Net(31)
    step, zero = n.constant(1 / 64), n.constant(0, np.int8)

    def stored(x: str) -> str:
        return n.op("DequantizeLinear", n.op("QuantizeLinear", x, step, zero), step, zero)

    weights = n.constant(n.random.integers(-40, 40, (8, 3, 3, 3)), np.int8)
    weights = n.op("DequantizeLinear", weights, n.constant(1 / 256), zero)
    x = stored(n.input(1, 3, 16, 16))
    x = n.op("Pad", x, n.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    x = stored(n.op("Relu", n.op("Conv", x, weights)))
    x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = n.op("Transpose", n.shaped(x, 8, 64), perm=[1, 0])
    more = n.constant(n.random.integers(-40, 40, (8, 8)), np.int8)
    more = n.op("DequantizeLinear", more, n.constant(1 / 256), zero)
    bias = n.op("DequantizeLinear", n.constant(n.random.integers(-900, 900, 8), np.int32),
                n.constant(2.0**-14), n.constant(0, np.int32))  # fmt: skip
    x = n.op("Transpose", n.op("Add", n.op("MatMul", x, more), bias), perm=[1, 0])
    return n.model(stored(n.shaped(x, 1, 8, 8, 8)), opset=17)


def exported(make: Callable[[], onnx.ModelProto]) -> onnx.ModelProto:
    """Return the network as exported by target onnx, with constants that decide ties."""
    from ceras_ir.pipeline.build import build
    from ceras_ir.pipeline.context import load_context
    from ceras_ir.pipeline.parsing import load_module
    from ceras_ir.pipeline.stages import BuildOptions
    from ceras_ir.targets.registry import find_target

    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(make().SerializeToString())
        module = load_module(load_context(), str(path))
        built = build(module, BuildOptions(find_target("onnx")(), quantize="int8"))
    (artefact,) = [a for a in built.emission.artefacts if a.path.endswith(".onnx")]
    stream = BytesIO()
    artefact.write(stream)
    return onnx.load_from_string(stream.getvalue())


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "residual_network": residual_network,
    "silu_network": silu_network,
    "gelu_network": gelu_network,
    "attention": attention,
    "masked_attention": lambda: attention(mask=True),
    "guarded_attention": lambda: attention(guard=True),
    "spelled_attention": lambda: attention(spelled=True),
    "multi_head": multi_head,
    "layer_norm_network": layer_norm_network,
    "expanded_gate": expanded_gate,
    "opposites": opposites,
    "summed_pixels": summed_pixels,
    "padded": padded,
    "causal": lambda: causal(norm=False),
    "causal_norm": lambda: causal(norm=True),
    "sound": sound,
    "clipped_twice": clipped_twice,
    "affine_blocks": affine_blocks,
    "convnext": convnext,
    "norm_after_pool": norm_after_pool,
    "dense_block": dense_block,
    "wide_dense_block": lambda: dense_block(wide=True),
    "branches": branches,
    "upsampling": upsampling,
    "normalized_features": normalized_features,
    "decoded_boxes": decoded_boxes,
    "scattered_maximum": scattered_maximum,
    "spectrum": spectrum,
    "byte_image": byte_image,
    "two_inputs_in_one": two_inputs_in_one,
    "denoiser": denoiser,
    "lstm_states": lstm_states,
    "unequal_channels": unequal_channels,
    "unequal_rows": unequal_rows,
    "coarse_residual": coarse_residual,
    "separate_sums": separate_sums,
    "pixel_products": pixel_products,
    "repvgg": repvgg,
    "cropped_norm": cropped_norm,
    "wide_factors": wide_factors,
    "sub_bands": sub_bands,
    "slopes_per_channel": slopes_per_channel,
    "narrow_weights": narrow_weights,
    "blocked_weights": lambda: narrow_weights(32),
    "few_bits": few_bits,
    "few_bits_of_any_scale": lambda: few_bits(0.3),
    "silu_between_qdq": silu_between_qdq,
    "wide_values": wide_values,
    "far_rows": far_rows,
    "large_bias": large_bias,
    "affine_output": affine_output,
    "strided_stem": strided_stem,
    "padded_qdq": lambda: quantized(padded, signed=False),
    "silu_unsigned_qdq": lambda: quantized(silu_network, signed=False),
    "gru_cell": gru_cell,
    "lstm_layer": lstm_layer,
    "delay_line": delay_line,
    "loop_recurrent": recurrent,
    "residual_qdq": lambda: quantized(residual_network, signed=False),
    "silu_qdq": lambda: quantized(silu_network, signed=True),
    "moved_between_qdq": moved_between_qdq,
    "residual_exported": lambda: exported(residual_network),
    **{f"random_{seed}": lambda seed=seed: random_network(seed) for seed in range(6)},
    **{f"image_{seed}": lambda seed=seed: random_image_model(seed)[0] for seed in range(8)},
    **{f"streaming_{seed}": lambda seed=seed: random_streaming(seed)[0] for seed in range(4)},
}
"""Name -> the function that builds the network."""

STATES = {"gru_cell": {"h": "hn"}, "delay_line": {"b": "bn"}}
"""Network -> inputs that are states between inferences, with the outputs that they receive."""

LIMITS = {"opposites": 2.6, "strided_stem": 2.6}
"""Network -> magnitude of the samples, 2 by default."""
