"""
Generate networks with few bits in QONNX, with published topologies and seeded random weights.

    python benchmarks/finn_networks.py FOLDER [NAME ...]
        writes NAME.onnx and its inputs NAME.npz, by default of all networks

| name | network | bits of weights, activations |
|---|---|---|
| cnv_w1a1, cnv_w2a2 | CNV of FINN for 32x32 images: six convolutions, three products | 1, 1; 2, 2 |
| kws_w3a3 | keyword spotter of FINN: products to 256, 256, 256, 12 values | 3, 3 |
| ad08, ad08_w8 | autoencoder AD08 of hls4ml: 72, 72, 8, 72, 72, 64 values | 13, 7; 8, 7 |

Inputs have 8 bits. Layers have the form that Brevitas exports: a quantized layer without bias,
batch normalization, and a quantized activation. AD08 has the batch normalization in its weights.
The statistics of batch normalization are those of random sums, so that all levels of activations
occur. Cycles and sizes of circuits do not depend on the weights.

Sources: CNV of the examples of Brevitas; the other networks as in the repository of results of
MLPerf Tiny 0.7, open division, hls4ml-finn.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np
import onnx
from networks import Builder, save
from numpy.typing import NDArray
from onnx import helper

DOMAIN = "qonnx.custom_op.general"

NEGATIVE_SHARE = 0.1
"""The share of channels with a negative factor in the batch normalization."""


class QuantizedBuilder(Builder):
    """Appends quantizers of QONNX, and layers with quantized weights."""

    def quantized(
        self,
        x: str,
        name: str,
        bits: int,
        scale: NDArray[np.floating] | float,
        *,
        signed: bool = True,
        narrow: bool = True,
    ) -> str:
        """
        Append a quantizer to `bits` bits: -1 and 1 for 1 bit. Integers are symmetric if `signed`
        and `narrow`.
        """
        factor = self.constant(f"{name}.scale", np.array(scale))
        if bits == 1:
            y = self.node("BipolarQuant", name, [x, factor])
        else:
            zero = self.constant(f"{name}.zero", np.zeros(()))
            width = self.constant(f"{name}.bits", np.array(bits))
            flags = {"signed": int(signed), "narrow": int(signed and narrow)}
            y = self.node("Quant", name, [x, factor, zero, width], **flags)
        self.nodes[-1].domain = DOMAIN
        return y

    def weights(
        self, name: str, shape: tuple[int, ...], bits: int, scale: NDArray[np.floating] | float
    ) -> str:
        """Append quantized weights, with all integers of `bits` bits in equal shares."""
        high = largest(bits)
        integers = self.rng.integers(-high, high + 1, shape)
        if bits == 1:
            integers = self.rng.integers(0, 2, shape) * 2 - 1
        real = self.constant(f"{name}.weight", integers * np.asarray(scale, np.float64))
        return self.quantized(real, f"{name}.weight_quant", bits, scale)

    def norm(self, x: str, name: str, channels: int, deviation: float) -> str:
        """Append a batch normalization of sums with a standard deviation of about `deviation`."""
        sign = np.where(self.rng.random(channels) < NEGATIVE_SHARE, -1, 1)
        parameters = {
            "gamma": self.rng.uniform(0.4, 0.9, channels) * sign,
            "beta": self.rng.normal(0.1, 0.2, channels),
            "mean": self.rng.normal(0, 0.2 * deviation, channels),
            "variance": self.rng.uniform(0.8, 1.3, channels) * deviation**2,
        }
        inputs = [x, *(self.constant(f"{name}.{k}", array) for k, array in parameters.items())]
        return self.node("BatchNormalization", name, inputs)

    def network(self, shape: tuple[int, ...], output: str, classes: int) -> onnx.ModelProto:
        """Return the model, which declares the domain of the quantizers."""
        proto = self.model(shape, output, classes)
        proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        return proto


def largest(bits: int) -> int:
    """Return the largest integer of symmetric weights of `bits` bits."""
    return max((1 << bits - 1) - 1, 1)


def mean_square(bits: int) -> float:
    """Return the mean square of integers from `weights`."""
    return 1.0 if bits == 1 else largest(bits) * (largest(bits) + 1) / 3


def cnv(bits: int) -> onnx.ModelProto:
    """Return CNV with `bits` bits of weights and activations: 59 M products, 1.5 M weights."""
    b = QuantizedBuilder(bits)
    x = b.quantized("input", "image", 8, 2.0**-7, narrow=False)
    channels, power = 3, 1 / 3  # The mean square of pixels.
    plan = ((64, False), (64, True), (128, False), (128, True), (256, False), (256, False))
    for i, (out, pools) in enumerate(plan):
        w = b.weights(f"conv{i}", (out, channels, 3, 3), bits, 1.0)
        x = b.node("Conv", f"conv{i}", [x, w], kernel_shape=[3, 3])
        x = b.norm(x, f"conv{i}.norm", out, sqrt(9 * channels * power * mean_square(bits)))
        x = b.quantized(x, f"conv{i}.act", bits, 1.0)
        if pools:
            x = b.node("MaxPool", f"pool{i}", [x], kernel_shape=[2, 2], strides=[2, 2])
        channels, power = out, 1.0 if bits == 1 else 0.5
    x = b.node("Flatten", "flatten", [x])
    for i in range(2):
        w = b.weights(f"fc{i}", (channels, 512), bits, 1.0)
        x = b.node("MatMul", f"fc{i}", [x, w])
        x = b.norm(x, f"fc{i}.norm", 512, sqrt(channels * power * mean_square(bits)))
        x = b.quantized(x, f"fc{i}.act", bits, 1.0)
        channels = 512
    x = b.node("MatMul", "fc2", [x, b.weights("fc2", (channels, 10), bits, 1.0)])
    x = b.node("Mul", "score", [x, b.constant("score.scale", np.array(0.0625))])
    return b.network((1, 3, 32, 32), x, 10)


def keyword_spotter(bits: int) -> onnx.ModelProto:
    """Return the multilayer perceptron for 49x10 features: 259 k products."""
    b, scale = QuantizedBuilder(bits), 42.7662912750244 / 127
    x = b.quantized("input", "features", 8, scale)
    x = b.node("Flatten", "flatten", [x])
    channels, power = 490, 300.0  # The mean square of features.
    for i in range(3):
        w = b.weights(f"fc{i}", (256, channels), bits, b.rng.uniform(0.01, 0.03, (256, 1)))
        x = b.node("Gemm", f"fc{i}", [x, w], transB=1)
        x = b.norm(x, f"fc{i}.norm", 256, 0.02 * sqrt(channels * power * mean_square(bits)))
        x = b.node("Relu", f"fc{i}.relu", [x])
        x = b.quantized(x, f"fc{i}.act", bits, 1 / ((1 << bits) - 1), signed=False)
        channels, power = 256, 0.3
    w = b.weights("fc3", (12, channels), bits, 0.02)
    x = b.node("Gemm", "fc3", [x, w], transB=1)
    return b.network((1, 1, 49, 10), x, 12)


def anomaly_detector(bits: int) -> onnx.ModelProto:
    """
    Return AD08: 21 k products. Weights of 13 bits have 6 fractional bits, and activations of 7 bits
    have 1, as in the circuit of hls4ml. Fewer bits of weights have fewer integer bits.
    """
    b, scale = QuantizedBuilder(bits), 2.0**-6
    x = b.quantized("input", "features", 8, 1.0)
    channels = 64
    for i, out in enumerate((72, 72, 8, 72, 72, 64)):
        real = b.rng.normal(0, 1.5 / sqrt(channels), (out, channels))
        w = b.constant(f"dense{i}.weight", np.rint(real / scale) * scale)
        w = b.quantized(w, f"dense{i}.weight_quant", bits, scale)
        bias = b.constant(f"dense{i}.bias", np.rint(b.rng.normal(0, 1, out) / scale) * scale)
        x = b.node("Gemm", f"dense{i}", [x, w, bias], transB=1)
        if i < 5:
            x = b.node("Relu", f"dense{i}.relu", [x])
            x = b.quantized(x, f"dense{i}.act", 7, 0.5, signed=False)
        channels = out
    return b.network((1, 64), x, 64)


@dataclass(frozen=True)
class Network:
    """A network, and the range of its inputs."""

    build: Callable[[int], onnx.ModelProto]
    bits: int
    """The bits of weights."""
    low: float
    high: float


NETWORKS: Mapping[str, Network] = {
    "cnv_w1a1": Network(cnv, 1, -1.0, 1.0),
    "cnv_w2a2": Network(cnv, 2, -1.0, 1.0),
    "kws_w3a3": Network(keyword_spotter, 3, -40.0, 40.0),
    "ad08": Network(anomaly_detector, 13, -40.0, 40.0),
    "ad08_w8": Network(anomaly_detector, 8, -40.0, 40.0),
}


def inputs(name: str, samples: int) -> NDArray[np.float32]:
    """Return seeded inputs of a network: [samples, ...]."""
    network = NETWORKS[name]
    shape = network.build(network.bits).graph.input[0].type.tensor_type.shape.dim
    extents = [samples, *(dim.dim_value for dim in shape[1:])]
    return np.random.default_rng(0).uniform(network.low, network.high, extents).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description="Networks of few bits in QONNX")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=[[], *NETWORKS], metavar="NAME")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names or NETWORKS:
        network = NETWORKS[name]
        save(network.build(network.bits), args.folder / f"{name}.onnx")
        np.savez(args.folder / f"{name}.npz", input=inputs(name, 8))


if __name__ == "__main__":
    main()
