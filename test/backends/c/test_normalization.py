"""Test functions along an axis in C against the interpreter, and integers against real values."""

import numpy as np
import pytest
from c_harness import Array, check, constant, make_network
from c_tiles import BUILDS, VECTOR_BUILDS, source
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i16, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.machines import COptions
from ceras_ir.dialects.graph.normalization import (
    MIN_EPSILON,
    IntegerNormalizeOp,
    IntegerSoftmaxOp,
    NormalizeOp,
)
from ceras_ir.dialects.quant import RequantAttr, UniformType

I8, SHIFTED, I16 = UniformType(0.125), UniformType(0.0625, -77), UniformType(2.0**-9, storage=i16)


def exponentials(element: UniformType) -> NDArray[np.int32]:
    entries = min(4096, int(11.1 / element.scale) + 2)
    return np.rint(2.0**15 * np.exp(-np.arange(entries) * element.scale)).astype(np.int32)


def softmax_of(v: SSAValue, element: UniformType, axis: int) -> SSAValue:
    table = constant(exponentials(element), UniformType(2.0**-15, storage=i32))
    requant = RequantAttr(23, zero_point=-128)
    return IntegerSoftmaxOp(v, table, axis, UniformType(2.0**-8, -128), requant).result


def normalized(
    v: SSAValue, element: UniformType, channels: int, *, centred: bool, epsilon: int = MIN_EPSILON
) -> SSAValue:
    rng = np.random.default_rng(channels)
    scale = rng.integers(-32767, 32768, channels).astype(np.int16)
    bias = rng.integers(-(2**26), 2**26, channels).astype(np.int32)
    return IntegerNormalizeOp(
        v,
        constant(scale, UniformType(2.0**-14, storage=i16)),
        constant(bias, UniformType(2.0**-26, storage=i32)),
        epsilon=epsilon,
        centred=centred,
        element=I16,
        requant=RequantAttr(17, low=-32768, high=32767),
    ).result


def rows(element: UniformType, shape: tuple[int, ...]) -> Array:
    """Return rows of all magnitudes: constants, extremes, and small differences."""
    rng = np.random.default_rng(len(shape))
    spread = 2.0 ** rng.uniform(0, 15, (*shape[:-1], 1))
    drawn = rng.normal(size=shape) * spread
    drawn[0] = 5
    drawn[-1] = np.where(rng.random(shape[1:]) < 0.5, -1e9, 1e9)
    dtype = np.int8 if element.storage.width.data == 8 else np.int16
    return np.clip(drawn, element.low, element.high).astype(dtype)


@pytest.mark.parametrize("build", ["tiles", "loops"])
@pytest.mark.parametrize("element", [I8, SHIFTED, I16], ids=str)
def test_integers(element: UniformType, build: str):
    shape = (6, 7, 33)
    module = make_network(
        [(element, shape)],
        lambda v: [
            *(softmax_of(v, element, axis) for axis in (1, 2)),
            *(normalized(v, element, 33, centred=c) for c in (True, False)),
            normalized(v, element, 33, centred=True, epsilon=1 << 62),
        ],
    )
    check(module, {"input0": rows(element, shape)}, flags=BUILDS[build])


@pytest.mark.parametrize("build", ["tiles", "loops"])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 700, 4096, 1 << 15, (1 << 15) + 1])
def test_long_and_short_rows(n: int, build: str):
    module = make_network(
        [(I16, (5, n))], lambda v: [softmax_of(v, I16, 1), normalized(v, I16, n, centred=True)]
    )
    check(module, {"input0": rows(I16, (5, n))}, flags=BUILDS[build])


@pytest.mark.parametrize("build", ["tiles", "loops"])
def test_rows_of_bytes(build: str):
    """
    Check complete vectors, additional elements, a single vector, and several rows in a vector;
    tables of different length.
    """
    long = [(6, n) for n in (64, 65, 127, 128, 1500)]
    short = [(16, 16), (7, 1), (9, 3), (6, 15), (37, 16)]
    shapes = [*long, *short, (6, 17), (6, 63)]
    elements = [I8, SHIFTED, UniformType(1.0)]
    cases = [(e, shape) for e in elements for shape in shapes]

    def layers(*values: SSAValue) -> list[SSAValue]:
        return [softmax_of(v, e, 1) for v, (e, _) in zip(values, cases, strict=True)]

    module = make_network(cases, layers)
    inputs = [rows(e, shape) for e, shape in cases]
    text = source(module)
    assert text.count("  softmax_bytes(") == len(elements) * len(long)
    assert text.count("  softmax_short(") == len(elements) * len(short)
    check(module, {f"input{i}": x for i, x in enumerate(inputs)}, flags=BUILDS[build])


@pytest.mark.parametrize("step", [0.5, 2.0**-5, 2.0**-8, 0.003])
def test_factors_of_exponentials(step: float):
    """
    Check all distances, and that processors without vectors store factors instead of the table,
    unless an entry is not the product of two.
    """
    element = UniformType(step, storage=i16)
    distances = np.arange(exponentials(element).size + 2)
    pairs = np.stack([0 * distances, -distances], 1).astype(np.int16)
    inputs, options = {"input0": pairs}, COptions(vectors=False)
    module = make_network([(element, pairs.shape)], lambda v: [softmax_of(v, element, 1)])
    assert "COARSE" in source(module, options=options)
    check(module, inputs, options=options)

    def inexact(v: SSAValue) -> list[SSAValue]:
        table = exponentials(element)
        table[-2] += 1
        stored = constant(table, UniformType(2.0**-15, storage=i32))
        target, requant = UniformType(2.0**-8, -128), RequantAttr(23, zero_point=-128)
        return [IntegerSoftmaxOp(v, stored, 1, target, requant).result]

    module = make_network([(element, pairs.shape)], inexact)
    assert "COARSE" not in source(module, options=options)
    check(module, inputs, options=options)


def float_rows(n: int) -> NDArray[np.float32]:
    """
    Return rows of `n` floats: of all magnitudes, equal elements, both zeros, quotients near the
    smallest floats, infinities and NaN.
    """
    rng = np.random.default_rng(n)
    x = rng.normal(3, 2, (37, n))
    x[1:20] = rng.normal(size=(19, n)) * 10.0 ** rng.uniform(-44, 38, (19, 1))
    x[20], x[21], x[22] = 0.0, -0.0, 5.0
    x[23] = np.where(rng.random(n) < 0.5, -0.0, 0.0)
    x[24] = rng.normal(size=n) * 10.0 ** rng.uniform(-40, 3, n)
    x[25, rng.integers(n)], x[26, rng.integers(n)], x[27, rng.integers(n)] = np.inf, -np.inf, np.nan
    return x.astype(np.float32)


@pytest.mark.parametrize("n", [1, 15, 16, 31, 48, 192])
def test_floats(n: int):
    x = float_rows(n)

    def build(v: SSAValue):
        scale, bias = (
            constant(np.random.default_rng(s).normal(size=n).astype(np.float32)) for s in (1, 2)
        )
        return [
            NormalizeOp(v, scale, b, epsilon=e, centred=c).result
            for c, e in ((True, 1e-5), (False, 1e-5), (True, 1e-38), (False, 0.0))
            for b in (None, bias)
        ]

    for flags in (*VECTOR_BUILDS, ("-O1",)):
        with np.errstate(all="ignore"):
            check(make_network([(f32, x.shape)], build), {"input0": x}, flags=flags)


def test_two_types_of_rows_in_one_model():
    """Both types share the function of the root."""
    module = make_network(
        [(I16, (3, 8)), (SHIFTED, (3, 8))],
        lambda a, b: [normalized(a, I16, 8, centred=True), normalized(b, SHIFTED, 8, centred=True)],
    )
    check(module)
