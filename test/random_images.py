"""Draw seeded networks for images: `random_image_model`."""

from collections.abc import Callable

import numpy as np
import onnx
import onnx_models as om

MOST = 12
"""The maximum number of channels of a value."""

ACTIVATIONS: dict[str, dict[str, om.Attribute]] = {
    "Relu": {},
    "Sigmoid": {},
    "Tanh": {},
    "HardSwish": {},
    "HardSigmoid": {},
    "LeakyRelu": {"alpha": 0.1},
    "Elu": {},
}


class Images:
    """The network so far: the newest value, and all values that a step may join again."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, om.Array] = {}
        self.shapes: dict[str, tuple[int, int]] = {}
        self.value, self.channels, self.size = "x", self.number(1, 4), self.number(4, 9)
        self.input = 1, self.channels, self.size, self.size
        convolution(self)
        for _ in range(self.number(3, 8)):
            STEPS[self.number(0, len(STEPS))](self)
            self.shapes[self.value] = self.channels, self.size
        self.end()

    def number(self, low: int, high: int) -> int:
        """Draw an integer that is >= `low` and below `high`."""
        return int(self.random.integers(low, high))

    def emit(self, op: str, operands: str, **attributes: om.Attribute) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(om.node(op, operands, name, name, **attributes))
        return name

    def constant(self, values: om.Array) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = values
        return name

    def weights(self, *shape: int) -> str:
        spread = float(self.random.choice([0.3, 1.0, 3.0])) / np.sqrt(np.prod(shape[1:]))
        return self.constant(self.random.normal(0, spread, shape).astype(np.float32))

    def partner(self, *, same_channels: bool) -> str | None:
        """Return an earlier value of the same size."""
        found = [
            name
            for name, (channels, size) in self.shapes.items()
            if size == self.size and (channels == self.channels or not same_channels)
        ]
        return found[self.number(0, len(found))] if found else None

    def end(self) -> None:
        """Append one of the common output stages of networks."""
        kind = self.number(0, 4)
        if kind == 0:
            self.emit("Identity", self.value)
        elif kind == 1:
            self.emit("Sigmoid", self.value)
        else:
            mean = self.emit("GlobalAveragePool", self.value)
            row = self.emit("Flatten", mean)
            operands = f"{row} {self.weights(4, self.channels)} {self.weights(4)}"
            product = self.emit("Gemm", operands, transB=1)
            if kind == 3:
                self.emit("Softmax", product, axis=1)


def convolution(net: Images) -> None:
    kernel, made = int(net.random.choice([1, 3])), net.number(1, MOST + 1)
    groups = 1
    if net.number(0, 3) == 0:
        groups = made = net.channels
    weights = net.weights(made, net.channels // groups, kernel, kernel)
    stride = 2 if net.size >= 6 and net.number(0, 4) == 0 else 1
    net.value = net.emit(
        "Conv",
        f"{net.value} {weights} {net.weights(made)}",
        group=groups,
        pads=[kernel // 2] * 4,
        strides=[stride] * 2,
    )
    net.channels, net.size = made, (net.size - 1) // stride + 1


def activation(net: Images) -> None:
    kind = list(ACTIVATIONS)[net.number(0, len(ACTIVATIONS))]
    net.value = net.emit(kind, net.value, **ACTIVATIONS[kind])


def swish(net: Images) -> None:
    convolution(net)
    net.value = net.emit("Mul", f"{net.value} {net.emit('Sigmoid', net.value)}")


def pooling(net: Images) -> None:
    kind, kernel = ("MaxPool", "AveragePool")[net.number(0, 2)], net.number(2, 4)
    if kind == "MaxPool" and net.number(0, 2):
        net.value = net.emit(kind, net.value, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    elif net.size >= 2 * kernel:
        strides = [kernel, kernel]
        net.value = net.emit(kind, net.value, kernel_shape=[kernel] * 2, strides=strides)
        net.size //= kernel


def addition(net: Images) -> None:
    op = ("Add", "Sub", "Mul")[net.number(0, 3)]
    if (other := net.partner(same_channels=True)) is not None:
        net.value = net.emit(op, f"{net.value} {other}")


def concatenation(net: Images) -> None:
    other = net.partner(same_channels=False)
    more = net.shapes[other][0] if other is not None else MOST
    if other is not None and net.channels + more <= MOST:
        net.value = net.emit("Concat", f"{net.value} {other}", axis=1)
        net.channels += more


def gate(net: Images) -> None:
    mean = net.emit("GlobalAveragePool", net.value)
    product = net.emit("Conv", f"{mean} {net.weights(net.channels, net.channels, 1, 1)}")
    net.value = net.emit("Mul", f"{net.value} {net.emit('Sigmoid', product)}")


def resizing(net: Images) -> None:
    if net.size <= 6:
        scales = net.constant(np.array([1, 1, 2, 2], np.float32))
        modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
        net.value = net.emit("Resize", f"{net.value} - {scales}", nearest_mode="floor", **modes)
        net.size *= 2


def shuffling(net: Images) -> None:
    if net.channels % 2 == 0:
        n, half, size = 1, net.channels // 2, net.size
        apart = net.constant(np.array([n, 2, half, size, size]))
        groups = net.emit("Reshape", f"{net.value} {apart}")
        turned = net.emit("Transpose", groups, perm=[0, 2, 1, 3, 4])
        whole = net.constant(np.array([n, net.channels, size, size]))
        net.value = net.emit("Reshape", f"{turned} {whole}")


def halving(net: Images) -> None:
    if net.channels >= 2:
        bounds = [net.constant(np.array([n])) for n in (0, net.channels // 2, 1)]
        net.value = net.emit("Slice", f"{net.value} {' '.join(bounds)}")
        net.channels //= 2


def padding(net: Images) -> None:
    if net.size <= 8:
        pads = net.constant(np.array([0, 0, 1, 0, 0, 0, 0, 1]))
        net.value = net.emit("Pad", f"{net.value} {pads}")
        net.size += 1


STEPS: tuple[Callable[[Images], None], ...] = (
    *(convolution, convolution, activation, swish, swish, pooling, addition, concatenation),
    *(gate, resizing, shuffling, halving, padding),
)


def random_image_model(seed: int) -> tuple[onnx.ModelProto, om.Array]:
    """Return a model, and 24 samples of the input `x`."""
    net = Images(seed)
    output = net.nodes[-1].output[0]
    model = om.model(net.nodes, {"x": net.input}, [output], net.constants, opset=14)
    low = float(net.random.choice([-1, 0]))
    samples = net.random.uniform(low, 1, (24, *net.input[1:])).astype(np.float32)
    return model, samples
