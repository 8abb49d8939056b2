"""
Generate networks for benchmarks, with the true topologies and seeded He-scaled weights.

    python benchmarks/networks.py FOLDER
        writes resnet18.onnx, mobilenet_v2.onnx, their inputs, ds_cnn.onnx, autoencoder.onnx, and
        chains of layers
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Appends nodes to a graph, with increasing numbers in the names of values."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, array: NDArray[np.floating]) -> str:
        self.initializers.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(self, op: str, name: str, inputs: list[str], **attributes: int | list[int]) -> str:
        node = helper.make_node(op, inputs, [name], name)
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
        self.nodes.append(node)
        return name

    def conv(
        self, x: str, name: str, i: int, o: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> str:
        """Append convolution and batch norm, as an exporter in training mode writes them."""
        border = [kernel // 2] * 4
        return self.window(x, name, (o, i // groups, kernel, kernel), stride, border, groups)

    def window(
        self,
        x: str,
        name: str,
        shape: tuple[int, int, int, int],
        stride: int,
        border: list[int],
        groups: int = 1,
    ) -> str:
        """Append a convolution with weights of any shape, and batch norm."""
        o, taken, *kernel = shape
        weights = self.rng.standard_normal(shape) * (2 / (taken * kernel[0] * kernel[1])) ** 0.5
        y = self.node(
            "Conv",
            f"{name}.conv",
            [x, self.constant(f"{name}.weight", weights)],
            kernel_shape=kernel,
            strides=[stride, stride],
            pads=border,
            group=groups,
        )
        parameters = [
            self.constant(f"{name}.scale", self.rng.uniform(0.6, 1.2, o)),
            self.constant(f"{name}.bias", self.rng.normal(0, 0.2, o)),
            self.constant(f"{name}.mean", self.rng.normal(0, 0.2, o)),
            self.constant(f"{name}.variance", self.rng.uniform(0.8, 1.6, o)),
        ]
        return self.node("BatchNormalization", f"{name}.norm", [y, *parameters])

    def classifier(self, x: str, channels: int, classes: int) -> str:
        """Append the average over the map, and a matrix product."""
        x = self.node("GlobalAveragePool", "pool", [x])
        x = self.node("Flatten", "flatten", [x])
        weights = self.constant("fc.weight", self.rng.standard_normal((classes, channels)) * 0.05)
        bias = self.constant("fc.bias", self.rng.standard_normal(classes) * 0.01)
        return self.node("Gemm", "fc", [x, weights, bias], transB=1)

    def residual(self, x: str, name: str, i: int, o: int, stride: int) -> str:
        """
        Append two 3x3 convolutions with a residual connection: the identity, or a 1x1 convolution
        if shapes differ.
        """
        y = self.node("Relu", f"{name}.relu1", [self.conv(x, f"{name}.a", i, o, 3, stride)])
        y = self.conv(y, f"{name}.b", o, o, 3)
        skip = x
        if stride != 1 or i != o:
            skip = self.conv(x, f"{name}.skip", i, o, 1, stride)
        return self.node("Relu", f"{name}.relu2", [self.node("Add", f"{name}.add", [y, skip])])

    def model(self, shape: tuple[int, ...], output: str, classes: int) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, (1, classes))],
            self.initializers,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def save(model: onnx.ModelProto, path: Path) -> None:
    path.write_bytes(model.SerializeToString())


def resnet18(path: Path, size: int = 224) -> None:
    """Write ResNet-18: 11.7 M parameters, 1,814 M multiplications at 224 x 224."""
    b = Builder(18)
    x = b.node("Relu", "stem.relu", [b.conv("input", "stem", 3, 64, 7, 2)])
    x = b.node("MaxPool", "stem.pool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, out in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            x = b.residual(x, f"layer{stage}.{block}", channels, out, stride)
            channels = out
    path.write_bytes(
        b.model((1, 3, size, size), b.classifier(x, 512, 1000), 1000).SerializeToString()
    )


def resnet50(path: Path, size: int = 224) -> None:
    """Write ResNet-50 with the stride in the 3x3 convolution: 25.6 M parameters."""
    b = Builder(50)
    x = b.node("Relu", "stem.relu", [b.conv("input", "stem", 3, 64, 7, 2)])
    x = b.node("MaxPool", "stem.pool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        width, out = 64 << stage, 256 << stage
        for block in range(count):
            name, stride = f"layer{stage}.{block}", 2 if stage and not block else 1
            y = b.node("Relu", f"{name}.relu1", [b.conv(x, f"{name}.a", channels, width, 1)])
            y = b.conv(y, f"{name}.b", width, width, 3, stride)
            y = b.node("Relu", f"{name}.relu2", [y])
            y = b.conv(y, f"{name}.c", width, out, 1)
            skip = x if block else b.conv(x, f"{name}.skip", channels, out, 1, stride)
            x = b.node("Relu", f"{name}.relu3", [b.node("Add", f"{name}.add", [y, skip])])
            channels = out
    save(b.model((1, 3, size, size), b.classifier(x, channels, 1000), 1000), path)


def densenet121(path: Path, size: int = 224, growth: int = 32) -> None:
    """Write DenseNet-121: each layer of a block consumes all earlier results of the block."""
    b = Builder(121)

    def norm_relu(x: str, name: str, channels: int) -> str:
        parameters = [
            b.constant(f"{name}.scale", b.rng.uniform(0.6, 1.2, channels)),
            b.constant(f"{name}.bias", b.rng.normal(0, 0.2, channels)),
            b.constant(f"{name}.mean", b.rng.normal(0, 0.2, channels)),
            b.constant(f"{name}.variance", b.rng.uniform(0.8, 1.6, channels)),
        ]
        return b.node(
            "Relu", f"{name}.relu", [b.node("BatchNormalization", name, [x, *parameters])]
        )

    channels = 2 * growth
    x = b.node("Relu", "stem.relu", [b.conv("input", "stem", 3, channels, 7, 2)])
    x = b.node("MaxPool", "stem.pool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, count in enumerate((6, 12, 24, 16)):
        for layer in range(count):
            name = f"block{stage}.{layer}"
            y = norm_relu(x, f"{name}.before", channels)
            y = b.node("Relu", f"{name}.relu", [b.conv(y, f"{name}.a", channels, 4 * growth, 1)])
            y = b.conv(y, f"{name}.b", 4 * growth, growth, 3)
            x = b.node("Concat", f"{name}.concat", [x, y], axis=1)
            channels += growth
        x = norm_relu(x, f"transition{stage}.before", channels)
        if stage < 3:
            x = b.conv(x, f"transition{stage}", channels, channels // 2, 1)
            channels //= 2
            x = b.node(
                "AveragePool", f"transition{stage}.pool", [x], kernel_shape=[2, 2], strides=[2, 2]
            )
    save(b.model((1, 3, size, size), b.classifier(x, channels, 1000), 1000), path)


def resnet8(path: Path) -> None:
    """Write ResNet-8 of MLPerf Tiny: 12.5 M multiplications at 32 x 32."""
    b = Builder(8)
    x = b.node("Relu", "stem.relu", [b.conv("input", "stem", 3, 16, 3)])
    for stage, (i, o) in enumerate(((16, 16), (16, 32), (32, 64))):
        x = b.residual(x, f"layer{stage}", i, o, 2 if stage else 1)
    save(b.model((1, 3, 32, 32), b.classifier(x, 64, 10), 10), path)


def ds_cnn(path: Path) -> None:
    """Write the keyword spotter of MLPerf Tiny, DS-CNN: 2.7 M multiplications at 49 x 10."""
    b = Builder(12)
    stem = b.window("input", "stem", (64, 1, 10, 4), 2, [4, 1, 5, 1])
    x = b.node("Relu", "stem.relu", [stem])
    for block in range(4):
        y = b.conv(x, f"block{block}.depthwise", 64, 64, 3, groups=64)
        y = b.node("Relu", f"block{block}.relu1", [y])
        x = b.node("Relu", f"block{block}.relu2", [b.conv(y, f"block{block}.pointwise", 64, 64, 1)])
    save(b.model((1, 1, 49, 10), b.classifier(x, 64, 12), 12), path)


def person_detector(path: Path) -> None:
    """Write the person detector of MLPerf Tiny: MobileNetV1 of width 0.25 at 96 x 96."""
    b, channels = Builder(16), 8
    x = b.node("Relu", "stem.relu", [b.conv("input", "stem", 3, channels, 3, 2)])
    outputs = (16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256)
    for n, count in enumerate(outputs):
        stride = 2 if n in (1, 3, 5, 11) else 1
        y = b.conv(x, f"block{n}.depthwise", channels, channels, 3, stride, channels)
        y = b.node("Relu", f"block{n}.relu1", [y])
        y = b.conv(y, f"block{n}.pointwise", channels, count, 1)
        x, channels = b.node("Relu", f"block{n}.relu2", [y]), count
    save(b.model((1, 3, 96, 96), b.classifier(x, channels, 2), 2), path)


def autoencoder(path: Path) -> None:
    """Write the anomaly detector of MLPerf Tiny: ten matrix products, 264 k multiplications."""
    b, x, widths = Builder(640), "input", (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
    for i, (rows, columns) in enumerate(pairwise(widths)):
        scale = (2 / rows) ** 0.5
        weights = b.constant(f"fc{i}.weight", b.rng.standard_normal((columns, rows)) * scale)
        bias = b.constant(f"fc{i}.bias", b.rng.normal(0, 0.1, columns))
        x = b.node("Gemm", f"fc{i}", [x, weights, bias], transB=1)
        x = b.node("Relu", f"relu{i}", [x]) if i < len(widths) - 2 else x
    save(b.model((1, 640), x, 640), path)


MOBILENET = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, repetitions and first stride of each stage of MobileNetV2."""


def mobilenet_v2(path: Path, size: int = 224) -> None:
    """Write MobileNetV2: 3.5 M parameters, 301 M multiplications at 224 x 224."""
    b = Builder(2)
    low, high = (b.constant(n, np.array(v)) for n, v in (("zero", 0.0), ("six", 6.0)))

    def relu6(y: str, name: str) -> str:
        return b.node("Clip", name, [y, low, high])

    x, channels = relu6(b.conv("input", "stem", 3, 32, 3, 2), "stem.relu"), 32
    for stage, (expansion, out, count, first) in enumerate(MOBILENET):
        for block in range(count):
            name, stride = f"block{stage}.{block}", 1 if block else first
            y, wide = x, channels * expansion
            if expansion > 1:
                y = relu6(b.conv(y, f"{name}.expand", channels, wide, 1), f"{name}.relu1")
            y = b.conv(y, f"{name}.depthwise", wide, wide, 3, stride, wide)
            y = b.conv(relu6(y, f"{name}.relu2"), f"{name}.project", wide, out, 1)
            x = b.node("Add", f"{name}.add", [x, y]) if stride == 1 and channels == out else y
            channels = out
    x = relu6(b.conv(x, "head", channels, 1280, 1), "head.relu")
    path.write_bytes(
        b.model((1, 3, size, size), b.classifier(x, 1280, 1000), 1000).SerializeToString()
    )


def chain(path: Path, depth: int) -> None:
    """Write a chain of `depth` small convolutions with ReLU, to measure cost per operation."""
    b = Builder(depth)
    x, channels = "input", 3
    for i in range(depth):
        x = b.node("Relu", f"relu{i}", [b.conv(x, f"layer{i}", channels, 8, 3)])
        channels = 8
    x = b.node("Flatten", "flatten", [b.node("GlobalAveragePool", "pool", [x])])
    save(b.model((1, 3, 16, 16), x, 8), path)


def functions(path: Path, depth: int) -> None:
    """Write a chain of `depth` elementwise functions."""
    b = Builder(depth)
    x = "input"
    for i in range(depth):
        x = b.node(("Sigmoid", "Relu", "Tanh")[i % 3], f"function{i}", [x])
    save(b.model((1, 8), x, 8), path)


def main(folder: Path) -> None:
    """Write all files that `compile_time.py` and `cmsis_nn.py` need."""
    ds_cnn(folder / "ds_cnn.onnx")
    autoencoder(folder / "autoencoder.onnx")
    resnet18(folder / "resnet18.onnx")
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)
    np.savez(folder / "resnet18.npz", input=image)
    mobilenet_v2(folder / "mobilenet_v2.onnx")
    images = np.random.default_rng(1).standard_normal((64, 3, 224, 224), np.float32)
    np.savez(folder / "mobilenet_v2.npz", input=images)
    for depth in (50, 100, 200):
        chain(folder / f"chain{depth}.onnx", depth)
    functions(folder / "functions.onnx", 10_000)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
