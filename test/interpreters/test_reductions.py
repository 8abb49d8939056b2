"""
Reductions, extremes and scatters are vectorized, but have the bits of scalar loops that combine
element after element.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from c_harness import make_network
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i8, i32, i64
from xdsl.ir import Attribute, SSAValue

from ceras_ir.dialects.graph import ArgOp, Pool2dOp, PutOp, Reduce, ReduceOp
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.interpreters.network import run
from ceras_ir.interpreters.windows import (
    Window,
    index_of_extreme,
    reduce_rows,
    window_maximum,
    window_sum,
)

Array = NDArray[np.generic]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, 2.0**-126]
SHAPES = [(1, 1), (2, 1), (1000, 1), (7, 3), (300, 3), (9, 4), (500, 5), (130, 16), (64, 100)]


def greater(a: np.generic, b: np.generic) -> np.generic:
    """Return the second of two equal values, the first of two NaN."""
    return a if np.greater(a, b) or np.isnan(a) else b


def less(a: np.generic, b: np.generic) -> np.generic:
    return a if np.less(a, b) or np.isnan(a) else b


def add(a: np.generic, b: np.generic) -> np.generic:
    return np.add(a, b)


def multiply(a: np.generic, b: np.generic) -> np.generic:
    return np.multiply(a, b)


SCALAR = {Reduce.SUM: add, Reduce.PRODUCT: multiply, Reduce.MAX: greater, Reduce.MIN: less}


def one_by_one(kind: Reduce, column: Sequence[np.generic]) -> np.generic:
    total = column[0]
    for element in column[1:]:
        total = SCALAR[kind](total, element)
    return total


def data(shape: tuple[int, ...], dtype: str, share_of_special: float = 0.0) -> Array:
    rng = np.random.default_rng(shape[0])
    if dtype != "float32":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    # Magnitudes differ, so that another order of a sum has other bits.
    values = rng.normal(size=shape) * 10.0 ** rng.uniform(-3, 3, shape)
    special = rng.choice(SPECIAL, shape)
    return np.where(rng.random(shape) < share_of_special, special, values).astype(np.float32)


def same_bits(actual: Array, expected: Array) -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if actual.dtype == np.float32:
        # The sign of NaN in a sum is not defined.
        actual, expected = (np.where(np.isnan(a), np.float32("nan"), a) for a in (actual, expected))
    assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", Reduce)
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int32", "int64", "uint64"])
def test_reduce_is_one_by_one(kind: Reduce, dtype: str):
    for shape, share in product(SHAPES, (0.0, 0.05, 1.0)):
        rows = data(shape, dtype, share)
        with np.errstate(all="ignore"):
            expected = np.array([one_by_one(kind, column) for column in rows.T], dtype)
            for layout in (rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2]):
                same_bits(reduce_rows(kind, layout), expected)


def test_sums_keep_minus_zero():
    for columns in (1, 3, 4, 40):
        zeros = np.full((100, columns), -0.0, np.float32)
        assert np.signbit(reduce_rows(Reduce.SUM, zeros)).all()


@pytest.mark.parametrize("kind", [Reduce.MAX, Reduce.MIN])
def test_zeros_and_nan(kind: Reduce):
    """Reduce all orders of zeros of both signs, NaN and an ordinary value."""
    other = np.float32(-1 if kind is Reduce.MAX else 1)
    for column in product([np.float32(0.0), np.float32(-0.0), np.float32("nan"), other], repeat=5):
        rows = np.array([column], np.float32).T
        for width in (1, 20):
            result = reduce_rows(kind, np.repeat(rows, width, axis=1))
            same_bits(result, np.full(width, one_by_one(kind, column), np.float32))


def test_the_first_nan_is_kept():
    bits = np.array([[0x3F800000], [0x7FC00001], [0x7FC00002], [0]], np.uint32)
    for kind in (Reduce.MAX, Reduce.MIN):
        (result,) = reduce_rows(kind, bits.view(np.float32)).view(np.uint32)
        assert result == 0x7FC00001


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", [Reduce.MAX, Reduce.MIN])
@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
def test_index_of_extreme(kind: Reduce, dtype: str, last: bool):
    for shape, share in product(SHAPES, (0.0, 0.3, 1.0)):
        rows = data(shape, dtype, share)
        if dtype != "float32":
            rows = np.asarray(np.remainder(rows, 3), dtype)
        index = index_of_extreme(kind, rows, last=last)
        for column, got in zip(rows.T, index, strict=True):
            best = 0
            for i, element in enumerate(column):
                a, b = (element, column[best]) if kind is Reduce.MAX else (column[best], element)
                best = i if np.greater(a, b) or (last and a == b) else best
            assert got == best, column


@pytest.mark.parametrize("reduction", [None, *Reduce])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_put_is_one_by_one(reduction: Reduce | None, dtype: str):
    element: Attribute = f32 if dtype == "float32" else i32
    shapes = (element, (5, 3)), (i64, (200,)), (element, (200, 3))

    def body(x: SSAValue, indices: SSAValue, rows: SSAValue) -> tuple[SSAValue, ...]:
        return (PutOp(x, indices, rows, reduction).result,)

    x, rows = data((5, 3), dtype, 0.2), data((200, 3), dtype, 0.2)
    indices = np.random.default_rng(0).integers(-7, 7, 200)
    expected = x.copy()
    with np.errstate(all="ignore"):
        for index, row in zip(indices, rows, strict=True):
            if -5 <= index < 5:
                for c in range(3):
                    old = expected[index, c]
                    new = row[c] if reduction is None else SCALAR[reduction](old, row[c])
                    expected[index, c] = new
    inputs = {"input0": x, "input1": indices, "input2": rows}
    (result,) = run(make_network(shapes, body), inputs).values()
    same_bits(result, expected)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(
    ("kernel", "strides", "dilations"),
    [((9, 9), (2, 3), (1, 1)), ((5, 13), (1, 1), (2, 1)), ((12, 6), (1, 2), (1, 3))],
)
def test_large_windows(dtype: str, kernel: tuple[int, int], strides: tuple[int, int],
                       dilations: tuple[int, int]):  # fmt: skip
    """Compare windows that are reduced as a matrix with scalar loops."""
    x = data((2, 14, 22, 2), dtype, 0.1)
    x = np.where(np.isnan(x), 0, x).astype(dtype)
    window = Window.of(kernel, strides, (0, 0, 0, 0), dilations)
    with np.errstate(all="ignore"):
        sums, maxima = window_sum(window, x), window_maximum(window, x)
        for n, i, j, c in np.ndindex(sums.shape):
            corner = (i * strides[0], j * strides[1])
            at = [
                slice(first, first + (k - 1) * d + 1, d)
                for first, k, d in zip(corner, kernel, dilations, strict=True)
            ]
            seen = x[(n, *at, c)]
            zero = x.dtype.type(0)
            rows = [one_by_one(Reduce.SUM, [zero, *row]) for row in seen]
            same_bits(sums[n, i, j, c][None], np.array([one_by_one(Reduce.SUM, rows) + zero]))
            expected = one_by_one(Reduce.MAX, list(seen.reshape(-1)[::-1]))
            same_bits(maxima[n, i, j, c][None], np.array([expected]))


@pytest.mark.parametrize("size", [2, 100])
def test_maximum_of_a_window_is_the_first_zero(size: int):
    """Only a larger element replaces the maximum, as in generated C."""
    x = np.full((1, 1, size, 2), -1, np.float32)
    x[0, 0, [0, -1]] = [[0.0, -0.0], [-0.0, 0.0]]
    maxima = window_maximum(Window.of((1, size), (1, 1), (0, 0, 0, 0), (1, 1)), x)
    assert np.signbit(maxima).ravel().tolist() == [False, True]


def calls(
    build: Callable[..., tuple[SSAValue, ...]], inputs: Sequence[tuple[Attribute, Array]]
) -> int:
    """Count the Python and C calls of a run."""
    module = make_network([(element, array.shape) for element, array in inputs], build)
    arrays = {f"input{i}": array for i, (_, array) in enumerate(inputs)}
    run(module, arrays)
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        run(module, arrays)
    finally:
        sys.setprofile(None)
    return count


LONG = [(f32, data((1, 10_000), "float32"))]
BYTES = [(i8, data((1, 10_000), "int8"))]
MAP = [(f32, data((1, 100, 100, 2), "float32"))]
PLACES = np.arange(10_000) % 1000
PUT = [(f32, data((1000, 1), "float32")), (i64, PLACES), (f32, data((10_000, 1), "float32"))]


@pytest.mark.parametrize("inputs", [LONG, BYTES])
@pytest.mark.parametrize("kind", Reduce)
def test_reduce_has_no_call_per_element(kind: Reduce, inputs: Sequence[tuple[Attribute, Array]]):
    def reduce(x: SSAValue) -> tuple[SSAValue, ...]:
        return (ReduceOp(kind, x, [1]).result,)

    assert calls(reduce, inputs) < 2000


@pytest.mark.parametrize("kind", Pool)
def test_pool_has_no_call_per_element(kind: Pool):
    def pool(x: SSAValue) -> tuple[SSAValue, ...]:
        return (Pool2dOp(kind, x, (100, 100), result_element=f32).result,)

    assert calls(pool, MAP) < 2000


def test_arg_and_put_have_no_call_per_element():
    def arg(x: SSAValue) -> tuple[SSAValue, ...]:
        return (ArgOp(Reduce.MAX, x, 1).result,)

    def put(x: SSAValue, indices: SSAValue, rows: SSAValue) -> tuple[SSAValue, ...]:
        return (PutOp(x, indices, rows, Reduce.MAX).result,)

    assert calls(arg, LONG) < 2000
    assert calls(put, PUT) < 3000
