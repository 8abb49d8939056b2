"""Test slices, borders, reductions, comparisons, casts and integer arithmetic in C, bit for bit."""

import numpy as np
import pytest
from c_harness import check, make_network
from slow_cases import first_fast
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, Signedness, f32, i1, i64
from xdsl.ir import Attribute

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Pad, Reduce
from ceras_ir.dialects.quant import UniformType

u8 = IntegerType(8, Signedness.UNSIGNED)
u64 = IntegerType(64, Signedness.UNSIGNED)
PLAIN: tuple[Attribute, ...] = (f32, IntegerType(8), u8, IntegerType(16), IntegerType(32), i64, u64)
ELEMENTS: tuple[Attribute, ...] = (*PLAIN, UniformType(0.5, 3))


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_selection(element: Attribute):
    is_float = element == f32
    value = FloatAttr(-1.5, f32) if is_float else IntegerAttr(7, i64)
    plain = FloatAttr(0.0, f32) if is_float else IntegerAttr(0, i64)
    module = make_network(
        [(element, (2, 5, 4))],
        lambda v: [
            graph.SliceOp(v, (1, 4, 0), (1, 3, 2), (1, -2, 3)).result,
            graph.SliceOp(v, (0, 0, 1), (2, 5, 1)).result,
            graph.GatherOp(v, 1, (4, 0, 0, 2)).result,
            graph.PadOp(Pad.CONSTANT, v, (0, 1, 2), (3, 0, 1), value=value).result,
            graph.PadOp(Pad.CONSTANT, v, (0, 1, 0), (0, 0, 0), interior=(0, 2, 1)).result,
            *(
                graph.PadOp(kind, v, (0, 3, 1), (0, 1, 2), value=plain).result
                for kind in (Pad.REFLECT, Pad.EDGE, Pad.WRAP)
            ),
        ],
    )
    check(module)


@pytest.mark.parametrize("element", first_fast(3, PLAIN), ids=str)
def test_reduction(element: Attribute):
    module = make_network(
        [(element, (3, 4, 5))],
        lambda v: [
            *(graph.ReduceOp(k, v, a).result for k in Reduce for a in ((0,), (1,), (0, 2))),
            *(
                graph.ArgOp(k, v, axis, last=last).result
                for k in (Reduce.MAX, Reduce.MIN)
                for axis in (0, 2)
                for last in (False, True)
            ),
        ],
    )
    check(module)


def test_arg_of_ties_and_nan():
    x = np.array([[1, 3, 3, 2], [np.nan, 5, 5, np.nan], [0.0, -0.0, 0.0, -0.0]], np.float32)
    module = make_network(
        [(f32, x.shape)],
        lambda v: [graph.ArgOp(Reduce.MAX, v, 1, last=last).result for last in (False, True)],
    )
    got = list(check(module, {"input0": x}).values())
    assert got[0].ravel().tolist() == [1, 0, 0]
    assert got[1].ravel().tolist() == [2, 0, 3]


@pytest.mark.parametrize("element", first_fast(3, PLAIN), ids=str)
@pytest.mark.parametrize("extent", [1, 7, 83])
def test_top_k(element: Attribute, extent: int):
    counts = [k for k in (1, 2, 7, 40, 83) if k <= extent]
    module = make_network(
        [(element, (2, 3, extent))],
        lambda v: [graph.TopKOp(k, v, n).result for k in (Reduce.MAX, Reduce.MIN) for n in counts],
    )
    check(module)


def test_top_k_of_ties_and_nan():
    """
    Ties keep their order, also across sixteen elements and with the last element kept; NaN is last.
    """
    x = np.ones((4, 40), np.float32)
    x[1, ::3], x[1, 1] = np.nan, np.inf
    x[2], x[2, 20] = -np.inf, 0.0
    x[3] = np.arange(40) % 7
    module = make_network(
        [(f32, x.shape)],
        lambda v: [graph.TopKOp(k, v, 30).result for k in (Reduce.MAX, Reduce.MIN)],
    )
    for sign, got in zip((-1, 1), check(module, {"input0": x}).values(), strict=True):
        for row, found in zip(x.tolist(), got.tolist(), strict=True):
            keys = [(v != v, sign * v if v == v else 0.0, i) for i, v in enumerate(row)]
            assert found == [i for _, _, i in sorted(keys)[:30]]


@pytest.mark.parametrize("element", first_fast(3, PLAIN), ids=str)
def test_logic(element: Attribute):
    module = make_network(
        [(element, (3, 4)), (element, (4,))],
        lambda a, b: [
            *(graph.CompareOp(k, a, b).result for k in Compare),
            graph.SelectOp(graph.CompareOp(Compare.LESS, a, b).result, a, b).result,
            *(graph.CastOp(a, t).result for t in (*PLAIN, i1)),
        ],
    )
    check(module)


@pytest.mark.parametrize("element", first_fast(2, PLAIN[1:]), ids=str)
def test_integer_arithmetic_wraps(element: Attribute):
    module = make_network(
        [(element, (64, 8)), (element, (8,))],
        lambda a, b: [graph.BinaryOp(k, a, b, result_element=element).result for k in Binary],
    )
    dtype = graph.numpy_dtype(element)
    info = np.iinfo(dtype.name)
    rng = np.random.default_rng(3)
    a = rng.integers(info.min, info.max, (64, 8), endpoint=True, dtype=dtype.name)
    corners = [info.min, info.max, 0, 1, 2, 3, min(10, info.max), max(-1, info.min)]
    a[0], b = corners, np.array(corners, dtype.name)
    got = check(module, {"input0": a, "input1": b})
    exact = [int(x) * int(y) for x, y in zip(a[5], b, strict=True)]
    names = list(got)
    product = got[names[list(Binary).index(Binary.MUL)]][5]
    assert [int(v) for v in product] == [
        (e - info.min) % (1 << 8 * dtype.itemsize) + info.min for e in exact
    ]


def test_casts_saturate():
    x = np.array(
        [np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -2.9, 127.5, -128.5, 255.9], np.float32
    )
    module = make_network(
        [(f32, x.shape)], lambda v: [graph.CastOp(v, t).result for t in PLAIN[1:]]
    )
    got = list(check(module, {"input0": x}).values())
    assert got[0].tolist() == [0, 127, -128, 127, -128, 2, -2, 127, -128, 127]
    assert got[1].tolist() == [0, 255, 0, 255, 0, 2, 0, 127, 0, 255]
    assert got[4].tolist()[3:5] == [2**63 - 1, -(2**63)]


def test_float_extremes_take_nan():
    a = np.array([1, np.nan, 2, np.nan], np.float32)
    b = np.array([np.nan, 1, 3, np.nan], np.float32)
    kinds = (Binary.MIN, Binary.MAX, Binary.POW, Binary.DIV)
    module = make_network(
        [(f32, (4,)), (f32, (4,))],
        lambda x, y: [graph.BinaryOp(k, x, y, result_element=f32).result for k in kinds],
    )
    got = list(check(module, {"input0": a, "input1": b}).values())
    assert np.isnan(got[0]).tolist() == [True, True, False, True]


def test_powers():
    a = np.array([2, -2, -2, 0, 0, 9, -8, 1.5, np.inf, 1e-40], np.float32)
    b = np.array([10, 3, 0.5, 0, -1, 0.5, 2, -3, -1, 1], np.float32)
    module = make_network(
        [(f32, a.shape), (f32, b.shape)],
        lambda x, y: [graph.BinaryOp(Binary.POW, x, y, result_element=f32).result],
    )
    with np.errstate(all="ignore"):
        (got,) = check(module, {"input0": a, "input1": b}).values()
        want = np.power(a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=3e-6)
