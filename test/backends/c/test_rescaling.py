"""Test requantization, binary operations and borders in C against plain Python integers."""

from fractions import Fraction
from math import ceil, floor, isnan

import numpy as np
import pytest
from c_harness import check, make_network
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    f32,
    i8,
    i16,
    i32,
)
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary
from ceras_ir.dialects.graph.elementwise import QUANTIZED_BINARIES
from ceras_ir.dialects.quant import SINGLE_ROUNDINGS, RequantAttr, Rounding, UniformType

CORNERS = sorted(
    {s * v + d for s in (-1, 1) for v in (0, 1, 2, 3, 512, 1024, 2**30) for d in (-1, 0, 1)}
    | {-(2**31), 1 - 2**31, 2**31 - 1, 2**31 - 2}
)


def rounded(value: Fraction, mode: Rounding) -> int:
    down = floor(value)
    rest = value - down
    if rest != Fraction(1, 2) and mode is not Rounding.FLOOR:
        return down + (rest > Fraction(1, 2))
    assert mode is not Rounding.DOUBLE_ROUND
    match mode:
        case Rounding.FLOOR:
            return down
        case Rounding.HALF_UP:
            return down + 1
        case Rounding.HALF_AWAY:
            return ceil(value) if value > 0 else down
        case Rounding.HALF_EVEN:
            return down + (down & 1)


def requant(value: int, how: RequantAttr) -> int:
    exact = Fraction(value * how.multiplier.data, 1 << how.shift.data)
    point = how.zero_point.data
    return min(max(rounded(exact, how.mode) + point, how.low.data), how.high.data)


SCALES = [(1, 0), (1, 1), (1, 10), (1, 30), (1, 31), (1, 32), (3, 10), (2**31 - 1, 62), (2**30, 38)]


def test_requantize_is_exact():
    """Check all modes and scales, from 32 bits to 8, zero points and ties included."""
    wide = UniformType(1.0, storage=i32)
    hows = [
        RequantAttr(s, multiplier=m, rounding=mode, zero_point=z, low=-128, high=127 - abs(z))
        for m, s in SCALES
        for mode in SINGLE_ROUNDINGS
        for z in (0, 5)
    ]
    narrow = UniformType(1.0)
    module = make_network(
        [(wide, (len(CORNERS),))],
        lambda x: [graph.RequantizeOp(x, narrow, how).result for how in hows],
    )
    got = check(module, {"input0": np.array(CORNERS, np.int32)})
    for i, how in enumerate(hows):
        assert got[f"output{i}"].tolist() == [requant(v, how) for v in CORNERS], how


@pytest.mark.parametrize("kind", sorted(QUANTIZED_BINARIES))
@pytest.mark.parametrize("stored", [i8, i16, IntegerType(8, Signedness.UNSIGNED)], ids=str)
def test_binary_is_exact(kind: Binary, stored: IntegerType):
    """Check operands at different shifts and zero points, over all pairs of corners."""
    left, right = UniformType(1.0, 3, storage=stored), UniformType(1.0, storage=stored)
    corners = [left.low, left.low + 1, 0, 1, 2, 3, 4, 5, left.high - 1, left.high]
    a, b = np.array(corners).reshape(-1, 1), np.array(corners).reshape(1, -1)
    shifts = (0, 0) if kind is Binary.MUL else (5, 2)
    hows = [RequantAttr(6, rounding=mode, zero_point=-1) for mode in SINGLE_ROUNDINGS]
    n = len(corners)
    module = make_network(
        [(left, (n, 1)), (right, (1, n))],
        lambda x, y: [
            graph.BinaryOp(
                kind, x, y, result_element=UniformType(2.0, -1), shifts=shifts, requant=how
            ).result
            for how in hows
        ],
    )
    dtype = graph.numpy_dtype(left)
    got = check(module, {"input0": a.astype(dtype), "input1": b.astype(dtype)})
    for i, how in enumerate(hows):
        for p, x in enumerate(corners):
            for q, y in enumerate(corners):
                u, v = (x - 3) << shifts[0], y << shifts[1]
                total = {Binary.ADD: u + v, Binary.SUB: u - v, Binary.MUL: u * v}[kind]
                assert got[f"output{i}"][p, q] == requant(total, how), (x, y, how)


@pytest.mark.parametrize("element", [
    UniformType(0.5), UniformType(0.1, 7), UniformType(3.0, -128),
    UniformType(0.5, 128, storage=IntegerType(8, Signedness.UNSIGNED)),
    UniformType(2.0**-20, storage=i32), UniformType(0.25, 3, storage=i16),
], ids=str)  # fmt: skip
def test_quantize_and_back(element: UniformType):
    """Check ties to even, saturation, and infinities; NaN becomes the zero point."""
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -3e38]
    ties = [element.scale * (k + 0.5) for k in range(-6, 7)]
    edges = [element.scale * (v + d) for v in (element.low, element.high) for d in (-1, -0.5, 0, 1)]
    x = np.array(special + ties + edges, np.float32)

    def build(v: SSAValue) -> list[SSAValue]:
        stored = graph.QuantizeOp(v, element).result
        return [stored, graph.DequantizeOp(stored).result]

    with np.errstate(over="ignore"):
        got = check(make_network([(f32, x.shape)], build), {"input0": x})
    for value, q in zip(x.tolist(), got["output0"].tolist(), strict=True):
        if isnan(value):
            assert q == element.zero_point
        elif abs(value) > 1e30:
            assert q == (element.high if value > 0 else element.low)
        else:
            quotient = float(np.float32(value) / np.float32(element.scale))
            exact = rounded(Fraction(quotient), Rounding.HALF_EVEN) + element.zero_point
            assert q == min(max(exact, element.low), element.high)


@pytest.mark.parametrize(
    "element",
    [UniformType(1.0, -14), UniformType(0.1), UniformType(2.0**-20, storage=i32)],
    ids=str,
)
@pytest.mark.parametrize("factor", [53.4085541, -1e38, 0.0])
def test_scaled_quantize(element: UniformType, factor: float):
    """The product is rounded to float32, then quantized. Some products overflow, or are 0 * inf."""
    rng = np.random.default_rng(0)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -3e38]
    x = np.concatenate([special, rng.normal(size=100) * 3]).astype(np.float32)
    module = make_network(
        [(f32, x.shape)], lambda v: [graph.ScaledQuantizeOp(v, factor, element).result]
    )
    with np.errstate(over="ignore", invalid="ignore"):
        got = check(module, {"input0": x})
        products = x * np.float32(factor)
        quotients = (products / np.float32(element.scale)).tolist()
    for value, q in zip(quotients, got["output0"].tolist(), strict=True):
        if isnan(value):
            assert q == element.zero_point
        elif abs(value) > 1e30:
            assert q == (element.high if value > 0 else element.low)
        else:
            exact = rounded(Fraction(value), Rounding.HALF_EVEN) + element.zero_point
            assert q == min(max(exact, element.low), element.high)


def test_lookup_takes_every_entry():
    rng = np.random.default_rng(0)
    table = rng.integers(-128, 128, 256).astype(np.int8)
    q = UniformType(0.5)
    value = graph.ConstantOp.from_array(table, i8).value
    assert isinstance(value, DenseIntOrFPElementsAttr)
    module = make_network(
        [(q, (256,))], lambda x: [graph.LookupOp(x, value, UniformType(0.25)).result]
    )
    got = check(module, {"input0": np.arange(-128, 128).astype(np.int8)})
    assert got["output0"].tolist() == table.tolist()
