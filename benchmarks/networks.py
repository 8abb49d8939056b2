"""
Networks that benchmarks need, built from nothing: true topologies, seeded He-scaled weights.

    python benchmarks/networks.py FOLDER    writes resnet18.onnx, its inputs, and chains of layers
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Appends nodes to a graph whose value names count up."""

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

    def conv(self, x: str, name: str, i: int, o: int, kernel: int, stride: int = 1) -> str:
        """Convolution and batch norm, as an exporter in training mode leaves them."""
        weights = self.rng.standard_normal((o, i, kernel, kernel)) * (2 / (i * kernel**2)) ** 0.5
        y = self.node(
            "Conv",
            f"{name}.conv",
            [x, self.constant(f"{name}.weight", weights)],
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
        )
        parameters = [
            self.constant(f"{name}.scale", self.rng.uniform(0.6, 1.2, o)),
            self.constant(f"{name}.bias", self.rng.normal(0, 0.2, o)),
            self.constant(f"{name}.mean", self.rng.normal(0, 0.2, o)),
            self.constant(f"{name}.variance", self.rng.uniform(0.8, 1.6, o)),
        ]
        return self.node("BatchNormalization", f"{name}.norm", [y, *parameters])

    def model(self, shape: tuple[int, ...], output: str, classes: int) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, (1, classes))],
            self.initializers,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def resnet18(path: Path, size: int = 224) -> None:
    """ResNet-18: 11.7 M parameters, 1,814 M multiplications at 224 x 224."""
    b = Builder(18)
    x = b.node("Relu", "stem.relu", [b.conv("input", "stem", 3, 64, 7, 2)])
    x = b.node("MaxPool", "stem.pool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, out in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name, stride = f"layer{stage}.{block}", 2 if stage and not block else 1
            y = b.node("Relu", f"{name}.relu1", [b.conv(x, f"{name}.a", channels, out, 3, stride)])
            y = b.conv(y, f"{name}.b", out, out, 3)
            skip = x
            if stride != 1 or channels != out:
                skip = b.conv(x, f"{name}.skip", channels, out, 1, stride)
            y = b.node("Add", f"{name}.add", [y, skip])
            x = b.node("Relu", f"{name}.relu2", [y])
            channels = out
    x = b.node("GlobalAveragePool", "pool", [x])
    x = b.node("Flatten", "flatten", [x])
    weights = b.constant("fc.weight", b.rng.standard_normal((1000, 512)) * 0.05)
    bias = b.constant("fc.bias", b.rng.standard_normal(1000) * 0.01)
    x = b.node("Gemm", "fc", [x, weights, bias], transB=1)
    path.write_bytes(b.model((1, 3, size, size), x, 1000).SerializeToString())


def chain(path: Path, depth: int) -> None:
    """A chain of `depth` small convolutions with ReLU, for how cost grows with operations."""
    b = Builder(depth)
    x, channels = "input", 3
    for i in range(depth):
        x = b.node("Relu", f"relu{i}", [b.conv(x, f"layer{i}", channels, 8, 3)])
        channels = 8
    x = b.node("Flatten", "flatten", [b.node("GlobalAveragePool", "pool", [x])])
    path.write_bytes(b.model((1, 3, 16, 16), x, 8).SerializeToString())


def main(folder: Path) -> None:
    """Everything that `compile_time.py` measures."""
    resnet18(folder / "resnet18.onnx")
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)
    np.savez(folder / "resnet18.npz", input=image)
    for depth in (50, 100, 200):
        chain(folder / f"chain{depth}.onnx", depth)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
