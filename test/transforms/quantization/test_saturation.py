"""
Check that a saturating QuantizeLinear is a clip, after each operation and for each target. A Q/DQ
network consists of a single operation and a copy of the result (a product with the identity). The
range of QuantizeLinear is a small part of the results. ONNX Runtime computes the expected values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx_models import Array, model, node, run_onnxruntime, value_shape
from xdsl.utils.hints import isa

import ceras_ir as ceras

pytest.importorskip("onnxruntime")

SHAPE = (1, 4, 6, 6)
NOTES = "ignore::ceras_ir.CerasWarning"
Nodes = Callable[[str, str], list[onnx.NodeProto]]
TENSORS: dict[str, Array] = {
    "two": np.array(2, np.float32),
    "high": np.array(20, np.float32),
    "low": np.array(-20, np.float32),
    "small": np.array(3, np.float32),
    "fill": np.array(-100, np.float32),
    "slope": np.full((4, 1, 1), 0.5, np.float32),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "shape": np.array([1, 6, 4, 6]),
    "doubled": np.array([1, 1, 2, 2], np.float32),
    "first": np.array([1]),
    "last": np.array([5]),
    "columns": np.array([3]),
    "rows": np.array([2, 0, 1]),
    "repeats": np.array([1, 1, 2, 1]),
    "point": np.eye(4, dtype=np.float32)[:, :, None, None] * np.float32(1.5),
    "square": np.eye(6, dtype=np.float32) * np.float32(1.5),
    "ones": np.ones(4, np.float32),
    "zeros": np.zeros(4, np.float32),
    "factors": np.full(4, 20, np.float32),
}


def one(op: str, inputs: str = "X", /, **attributes: int | float | str | Sequence[int]) -> Nodes:
    """Build a node with the operand `X`."""
    return lambda x, y: [node(op, inputs.replace("X", x), y, **attributes)]


def after(op: str, inputs: str, then: str, last: str) -> Nodes:
    """Build two nodes: `X` is the operand of both, and `M` the result of the first node."""
    return lambda x, y: [
        node(op, inputs.replace("X", x), "between"),
        node(then, last.replace("X", x).replace("M", "between"), y),
    ]


OPERATIONS: dict[str, Nodes] = {
    "identity": lambda x, y: [],
    "relu": one("Relu"),
    "leaky_relu": one("LeakyRelu", alpha=0.25),
    "hard_swish": one("HardSwish"),
    "exp": after("Clip", "X - small", "Exp", "M"),
    "sqrt": after("Abs", "X", "Sqrt", "M"),
    "swish": after("Sigmoid", "X", "Mul", "X M"),
    "elu": one("Elu"),
    "softplus": one("Softplus"),
    "prelu": one("PRelu", "X slope"),
    "abs": one("Abs"),
    "neg": one("Neg"),
    "clip": one("Clip", "X low high"),
    "max_pool": one("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    "average_pool": one("AveragePool", kernel_shape=[2, 2]),
    "global_average": one("GlobalAveragePool"),
    "pad": one("Pad", "X pads"),
    "pad_value": one("Pad", "X pads fill"),
    "pad_reflect": one("Pad", "X pads", mode="reflect"),
    "concat": one("Concat", "X X", axis=1),
    "transpose": one("Transpose", perm=[0, 1, 3, 2]),
    "reshape": one("Reshape", "X shape"),
    "resize_nearest": one("Resize", "X - doubled", mode="nearest"),
    "resize_linear": one("Resize", "X - doubled", mode="linear"),
    "resize_cubic": one("Resize", "X - doubled", mode="cubic"),
    "slice": one("Slice", "X first last columns"),
    "gather": one("Gather", "X rows", axis=1),
    "tile": one("Tile", "X repeats"),
    "depth_to_space": one("DepthToSpace", blocksize=2),
    "add": one("Add", "X X"),
    "subtract": after("Relu", "X", "Sub", "X M"),
    "multiply": one("Mul", "X X"),
    "divide": one("Div", "X two"),
    "maximum": one("Max", "X two"),
    "minimum": one("Min", "X two"),
    "power": one("Pow", "X two"),
    "mean": one("ReduceMean", axes=[3], keepdims=1),
    "greatest": one("ReduceMax", axes=[3], keepdims=1),
    "sum": one("ReduceSum", "X columns"),
    "batch_norm": one("BatchNormalization", "X factors zeros zeros ones"),
    "instance_norm": one("InstanceNormalization", "X factors zeros"),
    "conv": one("Conv", "X point"),
    "conv_relu": after("Conv", "X point", "Relu", "M"),
    "conv_transpose": one("ConvTranspose", "X point", strides=[2, 2]),
    "matmul": one("MatMul", "X square"),
}
QUICK = ("identity", "relu", "max_pool", "pad", "concat", "hard_swish")
"""Operations with fast tests."""


class Storage(NamedTuple):
    """The storage of the result, and the integers to which it is clipped before."""

    scale: float
    point: int
    dtype: type[np.integer] = np.int8
    integers: tuple[int, int] | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the minimum and the maximum."""
        info = np.iinfo(self.dtype)
        low, high = self.integers or (int(info.min), int(info.max))
        return (low - self.point) * self.scale, (high - self.point) * self.scale

    @property
    def step(self) -> float:
        """Return the larger of the model's step and the power of two with which int8 fits."""
        reach = max(abs(bound) for bound in self.bounds)
        return max(self.scale, 2.0 ** ceil(log2(reach / 127)))


SYMMETRIC = Storage(0.0165, 0)
STORAGES = {
    "int8": SYMMETRIC,
    "asymmetric": Storage(0.0083, 60, np.uint8),
    "not below zero": Storage(0.0083, -128),
    "not above zero": Storage(0.0083, 127),
    "far from zero": Storage(0.011, -128 + 20),
    "power of two": Storage(2.0**-6, 0),
    "power of two, zero point": Storage(2.0**-6, -100),
    "int16": Storage(6.4e-5, 0, np.int16),
    "uint16": Storage(6.4e-5, 20000, np.uint16),
    "4 bits": Storage(0.3, 0, np.int8, (-8, 7)),
    "4 bits unsigned": Storage(0.15, 0, np.uint8, (0, 15)),
}
RESULT_SCALE = 0.04


class Network:
    """A network under construction: nodes, constants, and the name of the last value."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors = dict(TENSORS)
        self.value = "x"

    def store(self, name: str, storage: Storage) -> None:
        """Append QuantizeLinear, a Clip of the integers, if any, and DequantizeLinear."""
        self.tensors[f"{name}_scale"] = np.array(storage.scale, np.float32)
        self.tensors[f"{name}_point"] = np.array(storage.point, storage.dtype)
        parameters = f"{name}_scale {name}_point"
        stored = f"{name}_stored"
        self.nodes.append(node("QuantizeLinear", f"{self.value} {parameters}", stored))
        if storage.integers is not None:
            self.tensors |= {
                f"{name}_{end}": np.array(bound, storage.dtype)
                for end, bound in zip(("least", "most"), storage.integers, strict=True)
            }
            bounds = f"{name}_least {name}_most"
            self.nodes.append(node("Clip", f"{stored} {bounds}", f"{name}_clipped"))
            stored = f"{name}_clipped"
        self.nodes.append(node("DequantizeLinear", f"{stored} {parameters}", name))
        self.value = name

    def copy(self, name: str, shape: Sequence[int | str]) -> None:
        """Append a product with the identity, with exactly stored weights."""
        size = shape[1] if len(shape) == 4 else shape[-1]
        assert isinstance(size, int)
        identity = np.eye(size, dtype=np.int8) * np.int8(64)
        images = len(shape) == 4
        self.tensors |= {
            f"{name}_weights": identity[:, :, None, None] if images else identity,
            "weight_scale": np.array(1 / 64, np.float32),
            "weight_point": np.array(0, np.int8),
        }
        weights = f"{name}_weights weight_scale weight_point"
        self.nodes.append(node("DequantizeLinear", weights, f"{name}_real"))
        op = "Conv" if images else "MatMul"
        self.nodes.append(node(op, f"{self.value} {name}_real", name))
        self.value = name

    def model(self, output: str) -> onnx.ModelProto:
        used = {name for each in self.nodes for name in each.input}
        wide = any(t.dtype.itemsize == 2 for name, t in self.tensors.items() if name in used)
        constants = {name: tensor for name, tensor in self.tensors.items() if name in used}
        # Operator set 21 introduced integers of 16 bits.
        return model(self.nodes, {"x": SHAPE}, [output], constants, opset=21 if wide else 14)


def network(operation: str | None, storage: Storage, *, inner: bool = True) -> onnx.ModelProto:
    """
    Return `operation` on a stored input (or on a stored product if `inner`), and a copy of the
    stored result. Without `operation` the input of the network is stored.
    """
    made = Network()
    if operation is not None:
        made.store("input", Storage(0.25, 0))
        if inner:
            made.copy("product", SHAPE)
            made.store("middle", Storage(0.25, 0))
        if nodes := OPERATIONS[operation](made.value, "made"):
            made.nodes += nodes
            made.value = "made"
    made.store("result", storage)
    made.copy("copied", value_shape(made.model("result"), "result"))
    made.store("y", Storage(RESULT_SCALE, 0))
    return made.model("y")


def samples() -> Array:
    """Draw values far beyond each range, extremes included; channels have different means."""
    means = np.array([-16, -4, 4, 16], np.float32)[:, None, None]
    values = np.random.default_rng(1).uniform(-16, 16, SHAPE).astype(np.float32) + means
    values.reshape(-1)[:4] = -1000, 1000, 0, 31.7
    return values


def check(
    proto: onnx.ModelProto, storage: Storage, target: str, folder: Path, *, min_db: float = 18
) -> None:
    """
    Compare `target` with ONNX Runtime: never beyond the range of `storage` by more than a step,
    and no further from the expected values than the steps of powers of two are.
    """
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    x = samples()
    expected = run_onnxruntime(proto, {"x": x})["y"].astype(np.float64)
    actual = ceras.load(path).compile(target).run({"x": x})["y"].reshape(expected.shape)
    assert isa(actual, np.ndarray)
    low, high = storage.bounds
    slack = storage.step + RESULT_SCALE
    is_bound = (expected <= low + slack) | (expected >= high - slack)
    assert is_bound.mean() > 0.1, "the network does not saturate"
    assert float(actual.max()) <= max(high, 0) + slack
    assert float(actual.min()) >= min(low, 0) - slack
    error = float(((actual - expected) ** 2).sum())
    power = float((expected**2).sum())
    assert error <= power / 10 ** (min_db / 10) or error == 0.0


@pytest.mark.sample(16)
@pytest.mark.needs("vta")
@pytest.mark.filterwarnings(NOTES)
@pytest.mark.parametrize(
    "operation",
    [pytest.param(o, marks=() if o in QUICK else pytest.mark.slow) for o in OPERATIONS],
)
def test_every_operation_keeps_the_clip(operation: str, tmp_path: Path) -> None:
    check(network(operation, SYMMETRIC), SYMMETRIC, "vta", tmp_path)


@pytest.mark.sample(16)
@pytest.mark.needs("vta")
@pytest.mark.slow
@pytest.mark.filterwarnings(NOTES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_on_an_input_keeps_the_clip(operation: str, tmp_path: Path) -> None:
    check(network(operation, SYMMETRIC, inner=False), SYMMETRIC, "vta", tmp_path)


@pytest.mark.sample(20)
@pytest.mark.needs("vta")
@pytest.mark.slow
@pytest.mark.filterwarnings(NOTES)
@pytest.mark.parametrize("operation", [None, "conv", "max_pool", "hard_swish", "pad_value"])
@pytest.mark.parametrize("name", STORAGES)
def test_every_storage_keeps_the_clip(operation: str | None, name: str, tmp_path: Path) -> None:
    check(network(operation, STORAGES[name]), STORAGES[name], "vta", tmp_path)


@pytest.mark.needs("nnet")
@pytest.mark.slow
@pytest.mark.filterwarnings(NOTES)
@pytest.mark.parametrize("operation", [None, *OPERATIONS])
def test_multipliers_keep_the_clip(operation: str | None, tmp_path: Path) -> None:
    check(network(operation, SYMMETRIC), SYMMETRIC, "nnet", tmp_path, min_db=30)


@pytest.mark.slow
@pytest.mark.filterwarnings(NOTES)
@pytest.mark.parametrize("target", ["c", "onnx"])
@pytest.mark.parametrize("operation", [None, *QUICK])
def test_every_target_keeps_the_clip(operation: str | None, target: str, tmp_path: Path) -> None:
    check(network(operation, SYMMETRIC), SYMMETRIC, target, tmp_path, min_db=25)


@pytest.mark.needs("dataflow")
@pytest.mark.slow
@pytest.mark.filterwarnings(NOTES)
def test_circuits_keep_the_clip(tmp_path: Path) -> None:
    check(network("max_pool", SYMMETRIC), SYMMETRIC, "dataflow", tmp_path, min_db=25)
