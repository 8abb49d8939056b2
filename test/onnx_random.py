"""Draw seeded convolutional networks for differential tests: `random_network(seed)`.

A network is a chain of steps. Each step uses the newest value and sometimes an older value, so that
no node is dead. Feature maps are at most 16x16 with at most 40 channels: a network runs in
milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx_models import Array, Attribute, Shape, model, node, norm_parameters, weights

MAX_SIZE, MAX_CHANNELS = 16, 40

Map = tuple[str, tuple[int, int, int]]
"""The name of a feature map, and its channels, height and width; batch is 1."""


def random_network(
    seed: int, *, steps: int | None = None, kinds: Sequence[str] | None = None
) -> onnx.ModelProto:
    """Return the network of `seed`: `steps` steps (2 to 7 by default) out of `kinds`, and a head.

    `kinds` are names from STEPS, all but channel_shuffle and attention by default; "head" allows a
    classifier.
    """
    random = np.random.default_rng(seed)
    allowed = {*STEPS, "head"} - {"channel_shuffle", "attention"} if kinds is None else set(kinds)
    network = _Network(random)
    names = [name for name in STEPS if name in allowed]
    for _ in range(int(random.integers(2, 8)) if steps is None else steps):
        # Not all steps fit all shapes: choose the first of a random order that fits.
        any(STEPS[names[i]](network) for i in random.permutation(len(names)))
    if not network.nodes:
        convolution(network)
    if "head" in allowed and network.chance(0.6):
        head(network)
    return network.finish()


class _Network:
    """The network so far: nodes, constants and feature maps, the newest last."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        channels, height, width = self.pick(1, 2, 3, 4, 8), self.size(), self.size()
        self.input: Shape = (1, channels, height, width)
        self.maps: list[Map] = [("x", (channels, height, width))]
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.result = "x"

    def pick(self, *choices: int) -> int:
        return choices[int(self.random.integers(len(choices)))]

    def size(self) -> int:
        return int(self.random.integers(5, 13))

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def constant(self, values: Array) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = values
        return name

    def emit(self, op: str, *operands: str, **attributes: Attribute) -> str:
        """Append a node and return the name of its value."""
        self.result = f"v{len(self.nodes)}"
        self.nodes.append(node(op, " ".join(operands), self.result, **attributes))
        return self.result

    def push(self, name: str, *shape: int) -> bool:
        """Append the newest feature map; return true, so that a step can return the result."""
        channels, height, width = shape
        self.maps.append((name, (channels, height, width)))
        return True

    def older(self, accepts: Callable[[tuple[int, int, int]], bool]) -> Map | None:
        """Return a random map before the newest that has an accepted shape."""
        found = [older for older in self.maps[:-1] if accepts(older[1])]
        return found[int(self.random.integers(len(found)))] if found else None

    def activate(self, value: str) -> str:
        match self.pick(0, 1, 2, 3, 4):
            case 0:
                return self.emit("Relu", value)
            case 1:
                bounds = (0, self.pick(1, 6))
                low, high = (self.constant(np.array(bound, np.float32)) for bound in bounds)
                return self.emit("Clip", value, low, high)
            case 2:
                return self.emit("Mul", value, self.emit("Sigmoid", value))
            case 3:
                return self.emit("Sigmoid", value)
            case _:
                return value

    def finish(self) -> onnx.ModelProto:
        return model(self.nodes, {"x": self.input}, [self.result], self.constants)


def convolution(network: _Network) -> bool:
    """Append Conv with any attributes, perhaps BatchNormalization, perhaps an activation."""
    value, (channels, height, width) = network.maps[-1]
    pick = network.pick
    kernel, strides, dilations = (pick(1, 2, 3, 3, 5), pick(1, 3)), pick(1, 1, 2), pick(1, 1, 2)
    if network.chance(0.7):
        kernel = (kernel[0], kernel[0])
    group, outputs = 1, int(network.random.integers(1, MAX_CHANNELS + 1))
    if network.chance(0.3):
        group, outputs = channels, channels * pick(1, 1, 2)
    elif channels % 2 == 0 and network.chance(0.2):
        group, outputs = 2, outputs // 2 * 2 + 2
    extents = [dilations * (k - 1) + 1 for k in kernel]
    # ONNX Runtime does not support auto_pad together with dilations.
    automatic = dilations == 1 and network.chance(0.2)
    pads = [0, 0, 0, 0]
    if not automatic:
        pads = [int(network.random.integers(0, (extents[i % 2] + 1) // 2 + 1)) for i in range(4)]
        sizes = [
            (size + pads[i] + pads[i + 2] - extents[i]) // strides + 1
            for i, size in enumerate((height, width))
        ]
    else:
        sizes = [-(-size // strides) for size in (height, width)]
    if min(sizes) < 1 or max(sizes) > MAX_SIZE or outputs > MAX_CHANNELS:
        return False
    operands = [network.constant(weights(network.random, outputs, channels // group, *kernel))]
    if network.chance(0.6):
        bias = network.random.uniform(-1, 1, outputs).astype(np.float32)
        operands.append(network.constant(bias))
    value = network.emit(
        "Conv",
        value,
        *operands,
        group=group,
        strides=[strides, strides],
        dilations=[dilations, dilations],
        pads=None if automatic else pads,
        auto_pad=("SAME_UPPER", "SAME_LOWER")[pick(0, 1)] if automatic else None,
    )
    if network.chance(0.5):
        parameters = [network.constant(p) for p in norm_parameters(network.random, outputs)]
        value = network.emit("BatchNormalization", value, *parameters)
    return network.push(network.activate(value), outputs, *sizes)


def pooling(network: _Network) -> bool:
    """Append MaxPool or AveragePool."""
    value, (channels, height, width) = network.maps[-1]
    kernel, stride = network.pick(2, 2, 3), network.pick(1, 2, 2)
    pad = network.pick(0, 0, 1)
    sizes = [(size + 2 * pad - kernel) // stride + 1 for size in (height, width)]
    if min(sizes) < 1:
        return False
    average = network.chance(0.5)
    value = network.emit(
        "AveragePool" if average else "MaxPool",
        value,
        kernel_shape=[kernel, kernel],
        strides=[stride, stride],
        pads=[pad] * 4,
        count_include_pad=network.pick(0, 1) if average else None,
    )
    return network.push(value, channels, *sizes)


def binary(network: _Network) -> bool:
    """Append Add or Mul with an older map of the same shape, or with a constant per channel."""
    value, shape = network.maps[-1]
    op = "Add" if network.chance(0.7) else "Mul"
    skip = network.older(lambda older: older == shape)
    if skip is not None and network.chance(0.8):
        operands = [value, skip[0]]
    else:
        factors = network.random.uniform(-1, 1, (1, shape[0], 1, 1)).astype(np.float32)
        operands = [value, network.constant(factors)]
    if network.chance(0.5):
        operands.reverse()
    return network.push(network.activate(network.emit(op, *operands)), *shape)


def residual(network: _Network) -> bool:
    """Append Conv that keeps the shape, Add with the input of Conv, and an activation."""
    value, shape = network.maps[-1]
    kernel = network.constant(weights(network.random, shape[0], shape[0], 3, 3))
    branch = network.emit("Conv", value, kernel, pads=[1, 1, 1, 1])
    if network.chance(0.5):
        branch = network.activate(branch)
    operands = (branch, value) if network.chance(0.5) else (value, branch)
    return network.push(network.activate(network.emit("Add", *operands)), *shape)


def squeeze_excite(network: _Network) -> bool:
    """Append Mul by a Sigmoid of the globally pooled map, broadcast over height and width."""
    value, shape = network.maps[-1]
    kernel = network.constant(weights(network.random, shape[0], shape[0], 1, 1))
    gate = network.emit("GlobalAveragePool", value)
    gate = network.emit("Sigmoid", network.emit("Conv", gate, kernel))
    return network.push(network.emit("Mul", value, gate), *shape)


def concat(network: _Network) -> bool:
    """Append Concat along channels with an older map of the same height and width."""
    value, (channels, height, width) = network.maps[-1]
    room = MAX_CHANNELS - channels
    older = network.older(lambda shape: shape[1:] == (height, width) and shape[0] <= room)
    if older is None:
        return False
    operands = (value, older[0]) if network.chance(0.5) else (older[0], value)
    joined = network.emit("Concat", *operands, axis=1)
    return network.push(joined, channels + older[1][0], height, width)


def resize(network: _Network) -> bool:
    """Append Resize by two, nearest neighbor."""
    value, (channels, height, width) = network.maps[-1]
    if 2 * max(height, width) > MAX_SIZE:
        return False
    scales = network.constant(np.array([1, 1, 2, 2], np.float32))
    value = network.emit(
        "Resize",
        value,
        "-",
        scales,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return network.push(value, channels, 2 * height, 2 * width)


def transpose(network: _Network) -> bool:
    """Exchange height and width."""
    value, (channels, height, width) = network.maps[-1]
    return network.push(
        network.emit("Transpose", value, perm=[0, 1, 3, 2]), channels, width, height
    )


def reshape(network: _Network) -> bool:
    """Move half of the height into the width."""
    value, (channels, height, width) = network.maps[-1]
    if height % 2 or 2 * width > MAX_SIZE:
        return False
    shape = network.constant(np.array([1, channels, height // 2, 2 * width], np.int64))
    return network.push(network.emit("Reshape", value, shape), channels, height // 2, 2 * width)


def channel_shuffle(network: _Network) -> bool:
    """Append ShuffleNet's Reshape, Transpose, Reshape over five dimensions."""
    value, (channels, height, width) = network.maps[-1]
    if channels % 2 or channels < 4:
        return False
    split = network.constant(np.array([1, 2, channels // 2, height, width], np.int64))
    joined = network.constant(np.array([1, channels, height, width], np.int64))
    value = network.emit("Transpose", network.emit("Reshape", value, split), perm=[0, 2, 1, 3, 4])
    return network.push(network.emit("Reshape", value, joined), channels, height, width)


def attention(network: _Network) -> bool:
    """Append attention over all positions, with heads, and scores scaled or masked or both."""
    value, (channels, height, width) = network.maps[-1]
    heads = network.pick(1, 2, 3, 4)
    if channels % heads:
        return False
    tokens, emit, pick = height * width, network.emit, network.pick
    split = network.constant(np.array([1, heads, channels // heads, tokens], np.int64))
    shape = network.constant(np.array([1, channels, height, width], np.int64))
    keys = emit("Reshape", value, split)
    queries = emit("Transpose", keys, perm=[0, 1, 3, 2])
    scores = emit("MatMul", queries, keys)
    factor = network.random.choice([0.125, 1.0, 0.7])
    match pick(0, 1, 2):
        case 0:
            scores = emit("Mul", scores, network.constant(np.array(factor, np.float32)))
        case 1:
            scores = emit("Div", scores, network.constant(np.array(1 / factor, np.float32)))
        case _:
            pass
    if network.chance(0.4):
        sizes = (1, pick(1, heads), pick(1, tokens), tokens)
        mask = network.random.normal(size=sizes[pick(0, 1) :]).astype(np.float32)
        scores = emit("Add", scores, network.constant(mask))
    shares = emit("Softmax", scores, axis=pick(-1, -1, -1, 1, 2))
    mixed = emit("MatMul", shares, emit("Transpose", keys, perm=[0, 1, 3, 2]))
    mixed = emit("Reshape", emit("Transpose", mixed, perm=[0, 1, 3, 2]), shape)
    return network.push(mixed, channels, height, width)


def head(network: _Network) -> None:
    """Convert to a vector by one of three ways, then append Gemm and perhaps Softmax."""
    value, (channels, height, width) = network.maps[-1]
    features = channels * height * width
    match network.pick(0, 1, 2):
        case 0:
            value = network.emit("Flatten", network.emit("GlobalAveragePool", value), axis=1)
            features = channels
        case 1:
            value = network.emit("Flatten", value)
        case _:
            # Exporters from channels-last frameworks write this form.
            value = network.emit("Transpose", value, perm=[0, 2, 3, 1])
            value = network.emit("Reshape", value, network.constant(np.array([1, -1], np.int64)))
    outputs = int(network.random.integers(2, 20))
    matrix = network.constant(weights(network.random, outputs, features))
    bias = network.constant(network.random.uniform(-1, 1, outputs).astype(np.float32))
    value = network.emit("Gemm", value, matrix, bias, transB=1)
    if network.chance(0.5):
        network.emit("Softmax", value, axis=-1)


STEPS: dict[str, Callable[[_Network], bool]] = {
    step.__name__: step
    for step in (
        convolution,
        pooling,
        binary,
        residual,
        squeeze_excite,
        concat,
        resize,
        transpose,
        reshape,
        channel_shuffle,
        attention,
    )
}
"""A step appends to the network and returns true, or returns false if the shape does not fit."""
