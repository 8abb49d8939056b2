"""Compare computed indices, trigonometry and integer arithmetic with ONNX Runtime or NumPy."""

import numpy as np
import onnx
import pytest
from c_harness import check
from onnx import TensorProto, helper, numpy_helper
from onnx_models import Array

from ceras_ir.dialects.graph import BinaryOp, Function, FunctionAttr
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.interpreters.network import run

RNG = np.random.default_rng(0)
TABLE = RNG.uniform(-1, 1, (7, 3, 4)).astype(np.float32)


def one(
    operator: str,
    ends: dict[str, Array],
    constants: dict[str, Array],
    **attributes: int | str,
) -> onnx.ModelProto:
    names = sorted([*ends, *constants])
    node = helper.make_node(operator, names, ["y"], "n")
    node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
    kinds = {np.dtype("f4"): TensorProto.FLOAT, np.dtype("i8"): TensorProto.INT64}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, kinds[a.dtype], a.shape) for n, a in ends.items()],
        [helper.make_tensor_value_info("y", kinds[ends["a"].dtype], None)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    proto.ir_version = 8
    return proto


INDICES = np.array([[2, -1], [0, -7]], np.int64)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather(axis: int) -> None:
    indices = np.clip(INDICES, -TABLE.shape[axis], TABLE.shape[axis] - 1)
    proto = one("Gather", {"a": TABLE, "b": indices}, {}, axis=axis)
    found = run(import_model(proto), {"a": TABLE, "b": indices})["y"]
    assert np.array_equal(found, np.take(TABLE, indices, axis))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_elements(axis: int) -> None:
    indices = RNG.integers(-TABLE.shape[axis], TABLE.shape[axis], (5, 2, 3))
    proto = one("GatherElements", {"a": TABLE, "b": indices}, {}, axis=axis)
    found = run(import_model(proto), {"a": TABLE, "b": indices})["y"]
    grid = list(np.indices(indices.shape))
    grid[axis] = indices % TABLE.shape[axis]
    assert np.array_equal(found, TABLE[tuple(grid)])


def test_gather_nd() -> None:
    indices = np.array([[1, -1], [6, 0], [-7, 2]], np.int64)
    proto = one("GatherND", {"a": TABLE, "b": indices}, {})
    found = run(import_model(proto), {"a": TABLE, "b": indices})["y"]
    assert np.array_equal(found, TABLE[tuple(indices.T)])
    batched = RNG.integers(0, 3, (7, 2, 1))
    proto = one("GatherND", {"a": TABLE, "b": batched}, {}, batch_dims=1)
    found = run(import_model(proto), {"a": TABLE, "b": batched})["y"]
    assert np.array_equal(found, np.take_along_axis(TABLE, batched, 1))


@pytest.mark.slow
def test_indices_that_leave_are_the_nearest_in_c_too() -> None:
    indices = np.array([-(1 << 62), -8, -7, -1, 0, 6, 7, 1 << 62], np.int64)
    proto = one("Gather", {"a": TABLE, "b": indices}, {})
    found = check(import_model(proto), {"a": TABLE, "b": indices})["y"]
    assert np.array_equal(found, TABLE[[0, 0, 0, 6, 0, 6, 6, 6]])


@pytest.mark.parametrize(
    ("function", "exact", "most", "bound"),
    [
        (Function.SIN, np.sin, 8192.0, 1.2e-7),
        (Function.COS, np.cos, 8192.0, 1.2e-7),
        (Function.ATAN, np.arctan, 1e6, 1.8e-7),
    ],
)
def test_waves_are_within_their_bound(
    function: Function, exact: np.ufunc, most: float, bound: float
) -> None:
    x = np.concatenate([RNG.uniform(-most, most, 200000), RNG.uniform(-4, 4, 200000)])
    x = x.astype(np.float32)
    got = apply_function(FunctionAttr(function), x).astype(np.float64)
    assert np.abs(got - exact(x.astype(np.float64))).max() < bound


WAVES = {
    "Tan": (np.tan, -1.4, 1.4),
    "Asin": (np.arcsin, -1, 1),
    "Acos": (np.arccos, -1, 1),
    "Sinh": (np.sinh, -5, 5),
    "Cosh": (np.cosh, -5, 5),
    "Asinh": (np.arcsinh, -50, 50),
    "Acosh": (np.arccosh, 1, 50),
    "Atanh": (np.arctanh, -0.99, 0.99),
}


@pytest.mark.parametrize("operator", WAVES)
def test_composed_waves(operator: str) -> None:
    exact, low, high = WAVES[operator]
    x = np.concatenate([np.linspace(low, high, 500), np.array([low, high])]).astype(np.float32)
    found = run(import_model(one(operator, {"a": x}, {})), {"a": x})["y"]
    assert np.allclose(found, exact(x.astype(np.float64)), rtol=2e-5, atol=2e-6)


def test_remainders_and_running_sums() -> None:
    a, b = np.array([7, -7, 7, -7, 6], np.int64), np.array([3, 3, -3, -3, 3], np.int64)
    found = run(import_model(one("Mod", {"a": a, "b": b}, {})), {"a": a, "b": b})["y"]
    assert np.array_equal(found, np.mod(a, b))
    axis = {"b": np.array(1)}
    sums = one("CumSum", {"a": TABLE}, axis, exclusive=1, reverse=1)
    found = run(import_model(sums), {"a": TABLE})["y"]
    whole = np.cumsum(TABLE[:, ::-1], 1)[:, ::-1]
    assert np.allclose(found, whole - TABLE, atol=1e-6)


@pytest.mark.parametrize("extent", [1, 2, 7, 8, 100])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_of_whole_numbers_take_few_operations(axis: int, extent: int) -> None:
    """Integers wrap around, so any order gives equal sums."""
    shape = (extent, 3) if axis == 0 else (3, extent)
    random = np.random.default_rng(extent)
    x = random.integers(-(1 << 63), (1 << 63) - 1, shape)
    for reverse, exclusive in ((0, 0), (0, 1), (1, 0), (1, 1)):
        flags = {"reverse": reverse, "exclusive": exclusive}
        module = import_model(one("CumSum", {"a": x}, {"b": np.array(axis)}, **flags))
        turned = np.flip(x, axis) if reverse else x
        sums = np.cumsum(turned, axis) - exclusive * turned
        expected = np.flip(sums, axis) if reverse else sums
        assert np.array_equal(run(module, {"a": x})["y"], expected)
        assert sum(isinstance(op, BinaryOp) for op in module.walk()) <= extent.bit_length() + 1
