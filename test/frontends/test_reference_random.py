"""Compare single operators of random shapes and attributes with ONNX's reference evaluator."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator
from onnx_compare import agree
from onnx_models import Array, Attribute, model, node
from xdsl.utils.hints import isa

from ceras_ir.frontends.onnx import import_model
from ceras_ir.frontends.onnx.emission.folding import Evaluator
from ceras_ir.interpreters.network import run

FEW = settings(
    max_examples=25,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def evaluator(proto: onnx.ModelProto) -> Evaluator:
    """Return ONNX's reference implementation of a model."""
    return ReferenceEvaluator(proto)


def check(proto: onnx.ModelProto, inputs: dict[str, Array], tolerance: float = 2e-5) -> None:
    """Check that the import has the values, types and shapes of ONNX's evaluator."""
    with np.errstate(all="ignore"):
        want = evaluator(proto).run(None, inputs)
        got = run(import_model(proto), inputs)
    assert isa(want, list[np.ndarray])
    for (name, array), expected in zip(got.items(), want, strict=True):
        assert (array.dtype, array.shape) == (expected.dtype, expected.shape), name
        np.testing.assert_allclose(
            array.astype(np.float64), expected.astype(np.float64), tolerance, tolerance
        )


def floats(shape: list[int], seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.slow
@FEW
@given(st.data(), SHAPES, st.integers(0, 99))
def test_slice(data: st.DataObject, shape: list[int], seed: int) -> None:
    axes = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True, min_size=1))
    starts, ends, steps = list[int](), list[int](), list[int]()
    for axis in axes:
        step = data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
        first, last = data.draw(st.tuples(*(st.integers(0, shape[axis] - 1),) * 2).map(sorted))
        backwards = step < 0
        starts.append(last if backwards else first)
        # Before the start, or far after the end.
        ends.append((first - 1 if first else -(1 << 40)) if backwards else last + 1)
        steps.append(step)
    lists = {"s": starts, "e": ends, "a": axes, "t": steps}
    constants = {k: np.array(v, np.int64) for k, v in lists.items()}
    proto = model([node("Slice", "x s e a t", "y")], {"x": shape}, ["y"], constants)
    check(proto, {"x": floats(shape, seed)}, 0.0)


@FEW
@given(st.data(), SHAPES, st.integers(0, 99))
def test_pad(data: st.DataObject, shape: list[int], seed: int) -> None:
    mode = data.draw(st.sampled_from(["constant", "reflect", "edge"]))
    pads = [
        data.draw(st.integers(0, 3 if mode != "reflect" else shape[i % len(shape)] - 1))
        for i in range(2 * len(shape))
    ]
    constants = {"p": np.array(pads, np.int64), "v": np.array(1.5, np.float32)}
    proto = model([node("Pad", "x p v", "y", mode=mode)], {"x": shape}, ["y"], constants)
    check(proto, {"x": floats(shape, seed)}, 0.0)


@FEW
@given(st.data(), SHAPES, st.integers(0, 99))
def test_gather(data: st.DataObject, shape: list[int], seed: int) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    extent = shape[axis]
    indices = data.draw(st.lists(st.integers(-extent, extent - 1), min_size=1, max_size=6))
    constants = {"i": np.array(indices, np.int64).reshape(1, -1)}
    proto = model([node("Gather", "x i", "y", axis=axis)], {"x": shape}, ["y"], constants)
    check(proto, {"x": floats(shape, seed)}, 0.0)


REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceSumSquare", "ReduceLogSumExp"),
)


@FEW
@given(st.data(), SHAPES, st.sampled_from(REDUCTIONS), st.integers(0, 1), st.integers(0, 99))
def test_reduce(data: st.DataObject, shape: list[int], op: str, keep: int, seed: int) -> None:
    axes = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True, min_size=1))
    proto = model(
        [node(op, "x a", "y", keepdims=keep)],
        {"x": shape},
        ["y"],
        {"a": np.array(axes, np.int64)},
        opset=18,
    )
    check(proto, {"x": floats(shape, seed)})


@FEW
@given(st.data(), st.integers(0, 99))
def test_conv_transpose(data: st.DataObject, seed: int) -> None:
    groups, per_group, taken = (data.draw(st.integers(1, 3)) for _ in range(3))
    rank = data.draw(st.integers(1, 3))
    kernel, strides, dilations = (
        [data.draw(st.integers(1, most)) for _ in range(rank)] for most in (3, 3, 2)
    )
    size = [data.draw(st.integers(1, 4)) for _ in range(rank)]
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    extra = [data.draw(st.integers(0, s - 1)) for s in strides]
    full = [(n - 1) * s + e for n, s, e in zip(size, strides, extents, strict=True)]
    pads = [data.draw(st.integers(0, min(2, (full[i % rank] - 1) // 2))) for i in range(2 * rank)]
    attributes: dict[str, Attribute] = {
        "group": groups, "strides": strides, "dilations": dilations, "pads": pads,
        "output_padding": extra,
    }  # fmt: skip
    weights = floats([groups * taken, per_group, *kernel], seed)
    shape = [1, groups * taken, *size]
    proto = model(
        [node("ConvTranspose", "x w", "y", **attributes)], {"x": shape}, ["y"], {"w": weights}
    )
    # The reference evaluator fails on groups and output padding, so ONNX Runtime is used.
    agree(proto, {"x": floats(shape, seed + 1)})


@FEW
@given(st.sampled_from([1, 3, 5]), st.integers(1, 6), st.integers(0, 99))
def test_local_response_normalization(size: int, channels: int, seed: int) -> None:
    shape = [2, channels, 3, 2]
    attributes: dict[str, Attribute] = {"size": size, "alpha": 0.3, "beta": 0.7, "bias": 1.5}
    proto = model([node("LRN", "x", "y", **attributes)], {"x": shape}, ["y"])
    # The reference evaluator exchanges channels and batch; ONNX Runtime supports odd sizes.
    agree(proto, {"x": floats(shape, seed)})


@FEW
@given(st.data(), st.integers(0, 99))
def test_batched_products(data: st.DataObject, seed: int) -> None:
    batch = data.draw(st.lists(st.integers(1, 3), max_size=2))
    m, k, n = (data.draw(st.integers(1, 4)) for _ in range(3))
    left = [data.draw(st.sampled_from([1, e])) for e in batch]
    shapes = {"a": [*left, m, k], "b": [*batch, k, n]}
    proto = model([node("MatMul", "a b", "y")], shapes, ["y"])
    check(proto, {name: floats(shape, seed) for name, shape in shapes.items()})


MODES = ("linear", "cubic")
COORDINATES = ("half_pixel", "asymmetric", "align_corners")


@FEW
@given(
    st.sampled_from(MODES),
    st.sampled_from(COORDINATES),
    st.lists(st.integers(2, 6), min_size=2, max_size=2),
    st.lists(st.integers(2, 9), min_size=2, max_size=2),
    st.booleans(),
)
def test_resize(mode: str, where: str, size: list[int], target: list[int], smooth: bool) -> None:
    shape = [1, 2, *size]
    attributes: dict[str, Attribute] = {"mode": mode, "coordinate_transformation_mode": where}
    if smooth and where == "half_pixel":
        attributes["antialias"] = 1
    sizes = {"s": np.array([1, 2, *target], np.int64)}
    proto = model(
        [node("Resize", "x - - s", "y", **attributes)], {"x": shape}, ["y"], sizes, opset=19
    )
    check(proto, {"x": floats(shape, sum(size))}, 1e-4)


NORMALIZATIONS: dict[str, tuple[str, dict[str, Attribute]]] = {
    "LayerNormalization": ("x s b", {"axis": -1}),
    "InstanceNormalization": ("x c d", {}),
    "LpNormalization": ("x", {"axis": 1, "p": 2}),
    "Hardmax": ("x", {"axis": 2}),
    "LogSoftmax": ("x", {"axis": 1}),
    "Gelu": ("x", {}),
    "Mish": ("x", {}),
}


@pytest.mark.parametrize("op", NORMALIZATIONS)
@pytest.mark.parametrize("shape", [[1, 3, 4, 5], [2, 1, 1, 7]], ids=str)
def test_normalization(op: str, shape: list[int]) -> None:
    operands, attributes = NORMALIZATIONS[op]
    vectors = {"s": shape[-1], "b": shape[-1], "c": shape[1], "d": shape[1]}
    constants = {k: floats([n], n) for k, n in vectors.items() if k in operands.split()}
    proto = model([node(op, operands, "y", **attributes)], {"x": shape}, ["y"], constants, opset=20)
    check(proto, {"x": floats(shape, 5)}, 1e-4)
