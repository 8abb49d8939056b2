"""
Small seeded networks, one for each operator and kind of quantization.

`golden.py` runs them in the reference kernels of `ai-edge-litert`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tflite_files import FileModel, Option

GOLDEN_FILE = Path(__file__).parent / "frontends/tflite/golden.npz"
"""The results of the reference kernels, with keys `NETWORK|OUTPUT`."""

SAME, VALID = 0, 1
RELU, RELU_N1, RELU6 = 1, 2, 3
SAMPLES = 3


@dataclass
class Network:
    """A network that is built operator by operator; quantized values have `kind`."""

    name: str
    kind: str = "int8"
    model: FileModel = field(default_factory=FileModel)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(zlib.crc32(self.name.encode()))

    @property
    def is_wide(self) -> bool:
        return self.kind == "int16"

    def scale(self, low: float = 0.02, high: float = 0.09) -> float:
        found = float(np.float32(self.rng.uniform(low, high)))
        return found / 256 if self.is_wide else found

    def point(self) -> int:
        return 0 if self.is_wide else int(self.rng.integers(-20, 20))

    def input(self, *shape: int, scale: float | None = None, point: int | None = None) -> int:
        if self.kind == "float32":
            return self.model.input(f"x{len(self.model.inputs)}", shape)
        return self.model.input(
            f"x{len(self.model.inputs)}",
            shape,
            self.kind,
            self.scale() if scale is None else scale,
            self.point() if point is None else point,
        )

    def value(
        self, *shape: int, scale: float | None = None, point: int | None = None, like: int = -1
    ) -> int:
        """Add a result; `like` is a tensor with the same scale."""
        name = f"y{len(self.model.tensors)}"
        if self.kind == "float32":
            return self.model.tensor(name, shape)
        if like >= 0:
            other = self.model.tensors[like]
            return self.model.tensor(name, shape, self.kind, other.scales, other.points)
        return self.model.tensor(
            name,
            shape,
            self.kind,
            self.scale() if scale is None else scale,
            self.point() if point is None else point,
        )

    def weights(self, *shape: int, axis: int | None = None) -> tuple[int, list[float]]:
        """Add weights with a scale for each index of `axis`; return the scales too."""
        if self.kind == "float32":
            data = self.rng.normal(size=shape).astype(np.float32)
            return self.model.constant("w", data), []
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        count = 1 if axis is None else shape[axis]
        scales = [float(np.float32(s)) for s in self.rng.uniform(0.001, 0.02, count)]
        return self.model.constant("w", data, scales, axis=axis or 0), scales

    def bias(self, count: int, input: int, scales: Sequence[float]) -> int:
        if self.kind == "float32":
            return self.model.constant("b", self.rng.normal(size=count).astype(np.float32))
        data = self.rng.integers(-900, 900, count)
        source = self.model.tensors[input].scales[0]
        dtype = np.int64 if self.is_wide else np.int32
        return self.model.constant("b", data.astype(dtype), [source * s for s in scales])

    def integers(self, *values: int) -> int:
        name = f"c{len(self.model.tensors)}"
        return self.model.constant(name, np.array(values, np.int32))

    def scalar(self, value: int) -> int:
        return self.model.constant(f"c{len(self.model.tensors)}", np.array(value, np.int32))

    def done(self, *outputs: int) -> FileModel:
        self.model.outputs = list(outputs)
        return self.model


CASES: dict[str, Callable[[], FileModel]] = {}


def case(*kinds: str) -> Callable[[Callable[[Network], FileModel]], None]:
    """Register a network for each kind of value."""

    def register(build: Callable[[Network], FileModel]) -> None:
        for kind in kinds:
            name = f"{build.__name__}_{kind}"
            CASES[name] = lambda name=name, kind=kind: build(Network(name, kind))

    return register


def conv_options(
    padding: int, stride: tuple[int, int] = (1, 1), activation: int = 0, dilation: int = 1
) -> list[Option]:
    return [
        (0, "Int8", padding), (1, "Int32", stride[1]), (2, "Int32", stride[0]),
        (3, "Int8", activation), (4, "Int32", dilation), (5, "Int32", dilation),
    ]  # fmt: skip


@case("int8", "int16", "float32")
def conv_same_strided(n: Network) -> FileModel:
    x = n.input(1, 9, 8, 5)
    w, scales = n.weights(6, 3, 3, 5, axis=0)
    y = n.value(1, 5, 4, 6)
    options = conv_options(SAME, (2, 2), RELU6)
    n.model.add("CONV_2D", [x, w, n.bias(6, x, scales)], y, options)
    return n.done(y)


@case("int8", "float32")
def conv_one_scale(n: Network) -> FileModel:
    x = n.input(1, 7, 7, 3)
    w, scales = n.weights(4, 3, 2, 3)
    y = n.value(1, 3, 5, 4)
    options = conv_options(VALID, (1, 1), 0, 2)
    n.model.add("CONV_2D", [x, w, n.bias(4, x, scales)], y, options)
    return n.done(y)


def depthwise_options(activation: int, multiplier: int = 1) -> list[Option]:
    return [
        (0, "Int8", SAME), (1, "Int32", 1), (2, "Int32", 1), (3, "Int32", multiplier),
        (4, "Int8", activation), (5, "Int32", 1), (6, "Int32", 1),
    ]  # fmt: skip


@case("int8", "int16", "float32")
def depthwise(n: Network) -> FileModel:
    x = n.input(1, 8, 9, 4)
    w, scales = n.weights(1, 3, 3, 8, axis=3)
    y = n.value(1, 8, 9, 8)
    n.model.add("DEPTHWISE_CONV_2D", [x, w, n.bias(8, x, scales)], y, depthwise_options(RELU, 2))
    return n.done(y)


@case("int8", "float32")
def dense(n: Network) -> FileModel:
    x = n.input(2, 40)
    w, scales = n.weights(16, 40)
    y, z = n.value(2, 16), n.value(2, 7)
    n.model.add("FULLY_CONNECTED", [x, w, n.bias(16, x, scales)], y, [(0, "Int8", RELU)])
    v, _ = n.weights(7, 16)
    n.model.add("FULLY_CONNECTED", [y, v, -1], z, [(0, "Int8", 0)])
    return n.done(z)


@case("int8")
def dense_by_channel(n: Network) -> FileModel:
    x = n.input(3, 24)
    w, scales = n.weights(9, 24, axis=0)
    y = n.value(3, 9)
    n.model.add("FULLY_CONNECTED", [x, w, n.bias(9, x, scales)], y, [(0, "Int8", 0)])
    return n.done(y)


def _binary(name: str, n: Network, activation: int = 0) -> FileModel:
    a, b = n.input(2, 3, 4, 5), n.input(2, 3, 4, 5)
    y = n.value(2, 3, 4, 5)
    n.model.add(name, [a, b], y, [(0, "Int8", activation), (1, "Bool", False)])
    return n.done(y)


@case("int8", "int16", "float32")
def add(n: Network) -> FileModel:
    return _binary("ADD", n, RELU)


@case("int8", "int16", "float32")
def sub(n: Network) -> FileModel:
    return _binary("SUB", n)


@case("int8", "int16", "float32")
def mul(n: Network) -> FileModel:
    a, b = n.input(2, 3, 4, 5), n.input(2, 3, 4, 5)
    y = n.value(2, 3, 4, 5, scale=None if n.kind == "float32" else n.scale(0.5, 0.9))
    n.model.add("MUL", [a, b], y, [(0, "Int8", 0)])
    return n.done(y)


@case("int8", "float32")
def add_constant_broadcast(n: Network) -> FileModel:
    x = n.input(2, 3, 4, 5)
    if n.kind == "float32":
        c = n.model.constant("c", n.rng.normal(size=5).astype(np.float32))
    else:
        c = n.model.constant("c", n.rng.integers(-128, 128, 5).astype(np.int8), n.scale(), 3)
    y = n.value(2, 3, 4, 5)
    n.model.add("ADD", [x, c], y, [(0, "Int8", 0), (1, "Bool", False)])
    return n.done(y)


def _pool_options(padding: int, stride: int, kernel: int, activation: int) -> list[Option]:
    return [
        (0, "Int8", padding), (1, "Int32", stride), (2, "Int32", stride), (3, "Int32", kernel),
        (4, "Int32", kernel), (5, "Int8", activation),
    ]  # fmt: skip


@case("int8", "int16", "float32")
def average_same(n: Network) -> FileModel:
    x = n.input(1, 7, 6, 5)
    y = n.value(1, 4, 3, 5, like=x)
    n.model.add("AVERAGE_POOL_2D", [x], y, _pool_options(SAME, 2, 3, 0))
    return n.done(y)


@case("int8", "float32")
def average_full(n: Network) -> FileModel:
    x = n.input(1, 4, 4, 9)
    y = n.value(1, 1, 1, 9, like=x)
    n.model.add("AVERAGE_POOL_2D", [x], y, _pool_options(VALID, 4, 4, RELU))
    return n.done(y)


@case("int8", "int16", "float32")
def maximum_pool(n: Network) -> FileModel:
    x = n.input(1, 7, 7, 3)
    y = n.value(1, 4, 4, 3, like=x)
    n.model.add("MAX_POOL_2D", [x], y, _pool_options(SAME, 2, 2, RELU))
    return n.done(y)


@case("int8", "float32")
def softmax(n: Network) -> FileModel:
    x = n.input(4, 11, scale=0.13 if n.kind == "int8" else None)
    y = n.value(4, 11, scale=1 / 256, point=-128)
    n.model.add("SOFTMAX", [x], y, [(0, "Float32", 1.0)])
    return n.done(y)


@case("int8")
def softmax_to_words(n: Network) -> FileModel:
    x = n.input(4, 11, scale=0.13)
    y = n.model.tensor("y", (4, 11), "int16", 2.0**-16, -(1 << 15))
    n.model.add("SOFTMAX", [x], y, [(0, "Float32", 1.0)])
    return n.done(y)


@case("int8")
def softmax_sharp(n: Network) -> FileModel:
    x = n.input(2, 200, scale=0.9)
    y = n.value(2, 200, scale=1 / 256, point=-128)
    n.model.add("SOFTMAX", [x], y, [(0, "Float32", 1.5)])
    return n.done(y)


@case("int8", "int16")
def requantize(n: Network) -> FileModel:
    x = n.input(5, 64)
    y = n.value(5, 64)
    n.model.add("QUANTIZE", [x], y)
    return n.done(y)


@case("int8")
def border_in_floats(n: Network) -> FileModel:
    x = n.model.input("x", (4, 16))
    q, r = n.value(4, 16), n.value(4, 16)
    y = n.model.tensor("y", (4, 16))
    n.model.add("QUANTIZE", [x], q)
    n.model.add("QUANTIZE", [q], r)
    n.model.add("DEQUANTIZE", [r], y)
    return n.done(y)


@case("int8", "float32")
def reshape_and_slice(n: Network) -> FileModel:
    x = n.input(2, 3, 8)
    flat, part, joined = (n.value(*s, like=x) for s in ((6, 8), (3, 3), (6, 3)))
    n.model.add("RESHAPE", [x, n.integers(6, 8)], flat)
    bounds = n.integers(1, 7), n.integers(6, 0), n.integers(2, -3)
    masks: list[Option] = [(i, "Int32", m) for i, m in enumerate((0, 2, 0, 0, 0))]
    n.model.add("STRIDED_SLICE", [flat, *bounds], part, masks)
    n.model.add("CONCATENATION", [part, part], joined, [(0, "Int32", 0)])
    return n.done(joined)


def _unary(name: str, n: Network, *options: Option) -> FileModel:
    x = n.input(3, 4, 40)
    y = n.value(3, 4, 40)
    if n.kind == "int8":
        n.model.tensors[y].scales = [1 / 256] if name == "LOGISTIC" else [1 / 128]
        n.model.tensors[y].points = [-128 if name == "LOGISTIC" else 0]
    n.model.add(name, [x], y, options)
    return n.done(y)


@case("int8", "float32")
def logistic(n: Network) -> FileModel:
    return _unary("LOGISTIC", n)


@case("int8", "float32")
def tanh(n: Network) -> FileModel:
    return _unary("TANH", n)


def _rescaled(name: str, n: Network, *options: Option) -> FileModel:
    x = n.input(3, 4, 40)
    y = n.value(3, 4, 40)
    n.model.add(name, [x], y, options)
    return n.done(y)


@case("int8", "float32")
def relu6(n: Network) -> FileModel:
    return _rescaled("RELU6", n)


@case("int8", "int16", "float32")
def relu(n: Network) -> FileModel:
    return _rescaled("RELU", n)


@case("int8", "int16", "float32")
def leaky_relu(n: Network) -> FileModel:
    return _rescaled("LEAKY_RELU", n, (0, "Float32", 0.23))


@case("int8", "uint8", "float32")
def gelu(n: Network) -> FileModel:
    x = n.input(4, 256, scale=0.03, point=120 if n.kind == "uint8" else None)
    y, z = n.value(4, 256, scale=0.03), n.value(4, 256, scale=0.017)
    n.model.add("GELU", [x], y, [(0, "Bool", False)])
    n.model.add("GELU", [x], z, [(0, "Bool", True)])
    return n.done(y, z)


@case("int8", "float32")
def products(n: Network) -> FileModel:
    """Products of computed matrices, with a broadcast batch and a transposed operand."""
    x, w, v = n.input(2, 3, 4, 5), n.input(1, 3, 5, 6), n.input(6, 5)
    scale = None if n.kind == "float32" else 0.4
    y, z = n.value(2, 3, 4, 6, scale=scale), n.value(2, 3, 4, 6, scale=scale)
    n.model.add("BATCH_MATMUL", [x, w], y, [(0, "Bool", False), (1, "Bool", False)])
    n.model.add("BATCH_MATMUL", [x, v], z, [(0, "Bool", False), (1, "Bool", True)])
    return n.done(y, z)


@case("int8", "float32")
def squared_difference(n: Network) -> FileModel:
    x, w, y = n.input(2, 3, 40), n.input(3, 40), n.value(2, 3, 40)
    n.model.add("SQUARED_DIFFERENCE", [x, w], y)
    return n.done(y)


@case("int8")
def reciprocal_root(n: Network) -> FileModel:
    """The operand is not negative, as the kernel requires."""
    x, y = n.input(4, 256, scale=0.03, point=-128), n.value(4, 256, scale=0.017)
    z = n.value(4, 256, scale=0.05)
    n.model.add("RSQRT", [x], y)
    n.model.add("RSQRT", [x], z)
    return n.done(y, z)


@case("int8", "float32")
def hard_swish(n: Network) -> FileModel:
    return _rescaled("HARD_SWISH", n)


@case("int8", "float32")
def prelu(n: Network) -> FileModel:
    x, y = n.input(1, 5, 6, 7), n.value(1, 5, 6, 7)
    if n.kind == "float32":
        slopes = n.model.constant("a", n.rng.normal(size=(1, 1, 7)).astype(np.float32))
    else:
        data = n.rng.integers(-128, 128, (1, 1, 7)).astype(np.int8)
        slopes = n.model.constant("a", data, 0.007, 4)
    n.model.add("PRELU", [x, slopes], y)
    return n.done(y)


@case("int8", "int16", "float32")
def mean(n: Network) -> FileModel:
    x, y = n.input(2, 7, 5, 6), n.value(2, 6)
    n.model.add("MEAN", [x, n.integers(1, 2)], y, [(0, "Bool", False)])
    return n.done(y)


@case("int8", "float32")
def mean_kept(n: Network) -> FileModel:
    x, y = n.input(1, 4, 4, 9), n.value(1, 1, 1, 9)
    n.model.add("MEAN", [x, n.integers(1, 2)], y, [(0, "Bool", True)])
    return n.done(y)


# The reference kernel of SUM takes bytes as unsigned.
@case("float32")
def sum_of_axis(n: Network) -> FileModel:
    x, y = n.input(3, 8, 5), n.value(3, 8, scale=None if n.kind == "float32" else 0.3)
    n.model.add("SUM", [x, n.integers(2)], y, [(0, "Bool", False)])
    return n.done(y)


@case("int8", "float32")
def nearest(n: Network) -> FileModel:
    x = n.input(1, 3, 4, 2)
    y = n.value(1, 7, 6, 2, like=x)
    options: list[Option] = [(0, "Bool", False), (1, "Bool", True)]
    n.model.add("RESIZE_NEAREST_NEIGHBOR", [x, n.integers(7, 6)], y, options)
    return n.done(y)


@case("int8", "int16", "float32")
def bilinear(n: Network) -> FileModel:
    """Larger and smaller images, with all kinds of coordinates."""
    x = n.input(1, 5, 4, 2)
    found: list[int] = []
    sizes = (7, 6), (8, 9), (3, 3), (13, 1)
    for aligned, half in ((False, True), (True, False), (False, False)):
        for size in sizes:
            y = n.value(1, *size, 2, like=x)
            options: list[Option] = [(2, "Bool", aligned), (3, "Bool", half)]
            n.model.add("RESIZE_BILINEAR", [x, n.integers(*size)], y, options)
            found.append(y)
    return n.done(*found)


@case("int8")
def ties(n: Network) -> FileModel:
    """Floats halfway between two integers."""
    x, real = n.input(4, 64, scale=0.5, point=0), n.model.tensor("real", (4, 64))
    y = n.value(4, 64, scale=1.0, point=3)
    n.model.add("DEQUANTIZE", [x], real)
    n.model.add("QUANTIZE", [real], y)
    return n.done(y)


@case("int8", "int16", "uint8")
def extremes(n: Network) -> FileModel:
    x = n.input(2, 3, 4, point=0)
    a, b = n.model.tensors[x], n.value(2, 3, 4, like=x)
    w = n.model.input("w", (1, 4), n.kind, a.scales, a.points)
    y = n.value(2, 3, 4, like=x)
    n.model.add("MAXIMUM", [x, w], b)
    n.model.add("MINIMUM", [x, w], y)
    return n.done(b, y)


def _svdf(n: Network, rank: int, has_bias: bool) -> FileModel:
    batch, width, units, steps = 2, 7, 5, 4
    filters, is_quantized = units * rank, n.kind == "int8"
    x = n.input(batch, width, scale=0.02 if is_quantized else None)
    of_features, scales = n.weights(filters, width)
    if is_quantized:
        data = n.rng.integers(-9000, 9000, (filters, steps)).astype(np.int16)
        of_time = n.model.constant("t", data, 0.0003)
        n.model.tensors[of_features].scales = scales = [0.01]
        bias = n.model.constant("b", n.rng.integers(-9000, 9000, units).astype(np.int32), 0.0003)
    else:
        of_time, _ = n.weights(filters, steps)
        bias = n.bias(units, x, scales)
    memory = n.value(batch, filters * steps, scale=0.0005, point=0)
    tensor = n.model.tensors[memory]
    tensor.is_variable = True
    if is_quantized:
        tensor.kind = "int16"
    y = n.value(batch, units)
    options: list[Option] = [(0, "Int32", rank), (1, "Int8", RELU)]
    operands = [x, of_features, of_time, bias if has_bias else -1, memory]
    n.model.add("SVDF", operands, y, options)
    return n.done(y)


@case("int8", "float32")
def svdf(n: Network) -> FileModel:
    """A layer whose memory is kept between calls."""
    return _svdf(n, 1, has_bias=True)


@case("int8", "float32")
def svdf_rank(n: Network) -> FileModel:
    return _svdf(n, 2, has_bias=False)


def _branches(n: Network, condition: int) -> FileModel:
    x = n.input(2, 6)
    y = n.value(2, 6)
    for name in ("ADD", "MUL"):
        inner = Network(f"{n.name} {name}", n.kind)
        source = n.model.tensors[x]
        a = inner.model.input("a", source.shape, source.kind, source.scales, source.points)
        target = n.model.tensors[y]
        b = inner.model.tensor("b", target.shape, target.kind, target.scales, target.points)
        options: list[Option] = [(0, "Int8", 0)]
        inner.model.add(name, [a, a], b, options)
        n.model.branches.append(inner.done(b))
    n.model.add("IF", [condition, x], y, [(0, "Int32", 1), (1, "Int32", 2)])
    return n.done(y)


@case("int8", "float32")
def computed_branch(n: Network) -> FileModel:
    condition = n.model.input("condition", (), "bool")
    return _branches(n, condition)


@case("int8")
def constant_branch(n: Network) -> FileModel:
    return _branches(n, n.model.constant("condition", np.array(False)))


@case("int8", "float32")
def borders(n: Network) -> FileModel:
    x = n.input(1, 4, 5, 3)
    padded, mirrored = n.value(1, 6, 8, 3, like=x), n.value(1, 7, 9, 3, like=x)
    flat = np.array([[0, 0], [1, 1], [1, 2], [0, 0]], np.int32)
    mirror = np.array([[0, 0], [1, 2], [2, 2], [0, 0]], np.int32)
    n.model.add("PAD", [x, n.model.constant("p", flat)], padded)
    n.model.add("MIRROR_PAD", [x, n.model.constant("m", mirror)], mirrored, [(0, "Int8", 0)])
    return n.done(padded, mirrored)


@case("int8", "float32")
def split_and_pack(n: Network) -> FileModel:
    x = n.input(2, 6, 4)
    parts = [n.value(2, 3, 4, like=x) for _ in range(2)]
    packed = n.value(2, 2, 3, 4, like=x)
    turned = n.value(2, 2, 4, 3, like=x)
    n.model.add("SPLIT", [n.scalar(1), x], parts, [(0, "Int32", 2)])
    n.model.add("PACK", parts[::-1], packed, [(0, "Int32", 2), (1, "Int32", 1)])
    n.model.add("TRANSPOSE", [packed, n.integers(0, 1, 3, 2)], turned)
    return n.done(turned)


def _transposed(n: Network, padding: int, size: tuple[int, int]) -> FileModel:
    x = n.input(1, 4, 5, 6)
    w, scales = n.weights(7, 3, 3, 6, axis=0)
    y = n.value(1, *size, 7)
    options: list[Option] = [(0, "Int8", padding), (1, "Int32", 2), (2, "Int32", 2)]
    shape = n.integers(1, *size, 7)
    n.model.add("TRANSPOSE_CONV", [shape, w, x, n.bias(7, x, scales)], y, options)
    return n.done(y)


@case("int8", "int16", "float32")
def transposed_same(n: Network) -> FileModel:
    return _transposed(n, SAME, (8, 10))


@case("int8", "float32")
def transposed_valid(n: Network) -> FileModel:
    return _transposed(n, VALID, (9, 11))


@case("int8", "float32")
def variable(n: Network) -> FileModel:
    """A sum of this and the previous input, which a variable keeps."""
    x = n.input(1, 6)
    options: list[Option] = [(0, "text", ""), (1, "text", "kept")]
    handle = n.model.tensor("handle", (), "resource")
    before, y = n.value(1, 6, like=x), n.value(1, 6)
    n.model.add("CALL_ONCE", [], [], [(0, "Int32", 1)])
    n.model.add("VAR_HANDLE", [], handle, options)
    n.model.add("READ_VARIABLE", [handle], before)
    n.model.add("ADD", [before, x], y, [(0, "Int8", 0), (1, "Bool", False)])
    n.model.add("ASSIGN_VARIABLE", [handle, x], [])
    first = n.model.initialization = FileModel()
    source = n.model.tensors[x]
    zero = np.full((1, 6), source.points[0] if source.points else 0, np.dtype(source.kind))
    place = first.tensor("handle", (), "resource")
    value = first.constant("zero", zero, source.scales, source.points)
    first.add("VAR_HANDLE", [], place, options)
    first.add("ASSIGN_VARIABLE", [place, value], [])
    return n.done(y)


@case("uint8")
def unsigned_layers(n: Network) -> FileModel:
    """Layers of older networks: weights of uint8 with a zero point, and softmax."""
    x = n.input(1, 24, 24, 8, point=120)
    outputs: list[int] = []
    for name, shape, count in (
        ("CONV_2D", (16, 3, 3, 8), 16),
        ("DEPTHWISE_CONV_2D", (1, 3, 3, 8), 8),
    ):
        data = n.rng.integers(0, 256, shape).astype(np.uint8)
        scale = float(np.float32(n.rng.uniform(0.001, 0.02)))
        w = n.model.constant(f"w{name}", data, scale, 117)
        y = n.value(1, 24, 24, count, scale=0.7, point=90)
        options = conv_options(SAME) if count == 16 else depthwise_options(RELU6)
        n.model.add(name, [x, w, n.bias(count, x, [scale])], y, options)
        outputs.append(y)
    flat, result = n.value(1, 16, scale=0.7, point=90), n.value(1, 16, scale=1 / 256, point=0)
    n.model.add("MEAN", [outputs[0], n.integers(1, 2)], flat, [(0, "Bool", False)])
    n.model.add("SOFTMAX", [flat], result, [(0, "Float32", 1.0)])
    return n.done(*outputs, result)


@case("uint8")
def unsigned_functions(n: Network) -> FileModel:
    x = n.input(4, 90, scale=0.05, point=130)
    found: list[int] = []
    for name in ("LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "RELU6"):
        point = 0 if name == "LOGISTIC" else 128
        y = n.value(4, 90, scale=1 / 256 if name == "LOGISTIC" else 1 / 128, point=point)
        options: list[Option] = [(0, "Float32", 0.3)] if name == "LEAKY_RELU" else []
        n.model.add(name, [x], y, options)
        found.append(y)
    return n.done(*found)


@case("int16")
def interpolated(n: Network) -> FileModel:
    """The sigmoid and the tangent, at scales of a power of two, and other scales."""
    found: list[int] = []
    for scale in (2.0**-12, 2.0**-11, 0.00037, 3e-5):
        x = n.input(4, 300, scale=scale)
        for name in ("LOGISTIC", "TANH"):
            y = n.value(4, 300, scale=2.0**-15)
            n.model.add(name, [x], y)
            found.append(y)
    return n.done(*found)


@case("int16")
def products_in_float32(n: Network) -> FileModel:
    """Scales and samples of which results differ if factors are computed in double precision."""
    a, b = (
        n.input(40, 60, scale=0.00020236433192621917),
        n.input(40, 60, scale=0.0002900927502196282),
    )
    y, z = n.value(40, 60, scale=0.002216239459812641), n.value(40, 60, scale=0.00016236629744526)
    n.model.add("MUL", [a, b], y, [(0, "Int8", 0)])
    n.model.add("RELU6", [a], z)
    return n.done(y, z)


@case("int8")
def filter_of_zeros(n: Network) -> FileModel:
    """A convolution with an output whose weights have a scale of 0."""
    x = n.input(1, 5, 5, 3)
    w, scales = n.weights(4, 3, 3, 3, axis=0)
    tensor = n.model.tensors[w]
    assert tensor.data is not None
    tensor.data[2] = 0
    tensor.scales = scales = [*scales[:2], 0.0, *scales[3:]]
    y = n.value(1, 5, 5, 4)
    n.model.add("CONV_2D", [x, w, n.bias(4, x, scales)], y, conv_options(SAME))
    return n.done(y)


@case("int8", "float32")
def lstm(n: Network) -> FileModel:
    """A layer of three steps; the state is kept between calls."""
    return _lstm(n, clip=0.0)


@case("int8", "float32")
def lstm_clipped(n: Network) -> FileModel:
    return _lstm(n, clip=0.3)


def _lstm(n: Network, clip: float) -> FileModel:
    units, width, is_quantized = 6, 5, n.kind == "int8"
    x = n.input(2, 3, width, scale=0.02 if is_quantized else None)
    operands, biases = [x], list[int]()
    for columns in (width, units):
        for _ in range(4):
            w, scales = n.weights(units, columns)
            if is_quantized:
                n.model.tensors[w].scales = scales = [float(np.float32(n.rng.uniform(0.005, 0.02)))]
            operands.append(w)
            if columns == width:
                biases.append(n.bias(units, x, scales))
    scale, point = (0.0075, -3) if is_quantized else (None, None)
    result = n.value(2, 3, units, scale=scale, point=point)
    states = n.value(2, units, like=result), n.value(2, units, scale=scale, point=point)
    if is_quantized:
        cell = n.model.tensors[states[1]]
        cell.kind, cell.scales, cell.points = "int16", [2.0**-11], [0]
    for state in states:
        n.model.tensors[state].is_variable = True
    between = [n.value(1, scale=2.0**-12, point=0) for _ in range(4)]
    between.append(n.value(1, like=result))
    operands += [-1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
    options: list[Option] = [
        (0, "Int8", 4), (1, "Float32", clip), (2, "Float32", 0.0), (3, "Bool", False),
    ]  # fmt: skip
    n.model.add("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, result, options, between)
    return n.done(result)


@case("int8", "float32")
def reshape_to_scalar(n: Network) -> FileModel:
    x = n.input(1, 1)
    y = n.value(like=x)
    n.model.add("RESHAPE", [x, n.integers()], y)
    return n.done(y)


def inputs_of(name: str, model: FileModel) -> dict[str, NDArray[np.generic]]:
    """Return seeded samples, stacked along a new first dimension."""
    rng = np.random.default_rng(zlib.crc32(f"{name} inputs".encode()))
    found: dict[str, NDArray[np.generic]] = {}
    for index in model.inputs:
        tensor = model.tensors[index]
        shape, kind = (SAMPLES, *tensor.shape), np.dtype(tensor.kind)
        if kind.kind == "f":
            found[tensor.name] = rng.normal(size=shape).astype(kind)
        elif kind.kind == "b":
            found[tensor.name] = rng.integers(0, 2, shape).astype(kind)
        else:
            info = np.iinfo(kind)
            span = (info.min, info.max) if info.bits < 32 else (-5, 5)
            found[tensor.name] = rng.integers(*span, shape, endpoint=True).astype(kind)
    return found
