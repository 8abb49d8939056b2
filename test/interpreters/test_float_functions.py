"""Check the float32 functions, which all targets compute with the same operations."""

from collections.abc import Callable
from math import erf
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.interpreters.float_functions import (
    MAX_CACHED_ELEMENTS,
    apply_function,
    clip,
    exp,
    for_statistics,
    softmax,
)

Doubles: TypeAlias = NDArray[np.float64]

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 88.5, -88.0, 1e-38], np.float32)


def test_exp_is_accurate_everywhere():
    x = np.linspace(-87.0, 88.0, 200_001, dtype=np.float32)
    reference = np.exp(x.astype(np.float64))
    assert np.max(np.abs(exp(x) / reference - 1)) < 1e-7


def test_exp_at_the_ends():
    result = exp(SPECIAL)
    assert result[:4].tolist() == [1.0, 1.0, np.inf, 0.0]
    assert np.isnan(result[4])
    assert result[5:].tolist() == [np.inf, 0.0, 1.0]


def test_exp_for_statistics_is_the_same_but_for_last_bits():
    x = np.linspace(-87.0, 88.0, 200_001, dtype=np.float32)
    expected = exp(x)
    with for_statistics():
        np.testing.assert_allclose(exp(x), expected, rtol=5e-7)
        assert exp(SPECIAL)[:4].tolist() == [1.0, 1.0, np.inf, 0.0]
    np.testing.assert_array_equal(exp(x), expected)


def test_softplus_keeps_its_relative_accuracy_near_zero():
    x = np.linspace(-87.0, 88.0, 200_001, dtype=np.float32)
    reference = np.logaddexp(x.astype(np.float64), 0)
    got = apply_function(FunctionAttr(Function.SOFTPLUS), x)
    assert np.max(np.abs(got / reference - 1)) < 3e-7
    special = apply_function(FunctionAttr(Function.SOFTPLUS), SPECIAL)
    assert special[2:4].tolist() == [np.inf, 0.0]
    assert np.isnan(special[4])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (FunctionAttr(Function.RELU), [-0.0, 0.0]),
        (FunctionAttr(Function.CLIP, [0.0, 6.0]), [-0.0, 0.0]),
        (FunctionAttr(Function.CLIP, [-1.0, -0.0]), [-0.0, 0.0]),
        (FunctionAttr(Function.ROUND), [-0.0, 0.0]),
        (FunctionAttr(Function.FLOOR), [-0.0, 0.0]),
        (FunctionAttr(Function.CEIL), [-0.0, 0.0]),
    ],
    ids=str,
)
def test_zeros_keep_their_sign(function: FunctionAttr, expected: list[float]):
    for size in (1, 64):  # numpy uses a scalar loop, and vectors.
        x = np.repeat(np.array([-0.0, 0.0], np.float32), size)
        result = apply_function(function, x)
        assert np.signbit(result).tolist() == np.signbit(np.repeat(expected, size)).tolist()


@pytest.mark.parametrize("size", [1, 64])
def test_hard_swish_is_the_identity_from_three_on(size: int):
    x = np.repeat(np.array([3.0, 3.0000002, 6e37, 3e38, np.inf], np.float32), size)
    assert apply_function(FunctionAttr(Function.HARD_SWISH), x).tobytes() == x.tobytes()


@pytest.mark.parametrize("high", [np.inf, 6.0, 0.0, -0.0, -2.0])
@pytest.mark.parametrize("low", [-np.inf, -1.0, -0.0, 0.0, 1.0])
def test_clip_chooses_by_two_comparisons(low: float, high: float):
    x = np.resize(np.append(SPECIAL, np.array([7.0, 1.0, -1.0, -np.nan], np.float32)), 133)
    a, b = np.float32(low), np.float32(high)
    expected = np.where(x < a, a, np.where(x > b, b, x))
    assert clip(x, a, b).tobytes() == expected.tobytes()
    numbers: list[Any] = list(x)  # Scalars of numpy.
    for number, kept in zip(numbers, expected, strict=True):
        assert clip(number, a, b).tobytes() == kept.tobytes()


def _sigmoid(x: Doubles) -> Doubles:
    return 1 / (1 + np.exp(-x))


FORMULAS: list[tuple[FunctionAttr, Callable[[Doubles], Doubles]]] = [
    (FunctionAttr(Function.RELU), lambda x: np.maximum(x, 0)),
    (FunctionAttr(Function.CLIP, [-1.0, 6.0]), lambda x: np.clip(x, -1, 6)),
    (FunctionAttr(Function.LEAKY_RELU, [0.1]), lambda x: np.where(x < 0, 0.1 * x, x)),
    (FunctionAttr(Function.SIGMOID), _sigmoid),
    (FunctionAttr(Function.TANH), np.tanh),
    (FunctionAttr(Function.SWISH), lambda x: x * _sigmoid(x)),
    (FunctionAttr(Function.HARD_SIGMOID, [0.2, 0.5]), lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    (FunctionAttr(Function.HARD_SWISH), lambda x: x * (np.clip(x + 3, 0, 6) / 6)),
    (FunctionAttr(Function.EXP), np.exp),
    (FunctionAttr(Function.LOG), np.log),
    (FunctionAttr(Function.ERF), lambda x: _each(erf, x)),
    (FunctionAttr(Function.SQRT), np.sqrt),
    (FunctionAttr(Function.ABS), np.abs),
    (FunctionAttr(Function.SIGN), np.sign),
    (FunctionAttr(Function.FLOOR), np.floor),
    (FunctionAttr(Function.CEIL), np.ceil),
    (FunctionAttr(Function.ROUND), np.rint),
    (FunctionAttr(Function.ELU, [0.5]), lambda x: np.where(x >= 0, x, 0.5 * np.expm1(x))),
    (FunctionAttr(Function.CELU, [2.0]), lambda x: np.where(x >= 0, x, 2.0 * np.expm1(x / 2))),
    (FunctionAttr(Function.SOFTPLUS), lambda x: np.log1p(np.exp(x))),
    (FunctionAttr(Function.SOFTSIGN), lambda x: x / (1 + np.abs(x))),
    (FunctionAttr(Function.THRESHOLDED_RELU, [1.0]), lambda x: np.where(x > 1, x, 0)),
    (FunctionAttr(Function.MISH), lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    (FunctionAttr(Function.GELU), lambda x: x / 2 * (1 + _each(erf, x / np.sqrt(2)))),
    (
        FunctionAttr(Function.GELU_TANH),
        lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
    (FunctionAttr(Function.SIN), np.sin),
    (FunctionAttr(Function.COS), np.cos),
    (FunctionAttr(Function.ATAN), np.arctan),
]


def _each(function: Callable[[float], float], x: Doubles) -> Doubles:
    return np.array([function(float(v)) for v in x])


@pytest.mark.parametrize(("function", "formula"), FORMULAS, ids=[f.data for f, _ in FORMULAS])
def test_functions_follow_their_formulas(
    function: FunctionAttr, formula: Callable[[Doubles], Doubles]
):
    x = np.linspace(-20, 20, 4001, dtype=np.float32)
    with np.errstate(all="ignore"):
        expected = formula(x.astype(np.float64))
        result = apply_function(function, x)
    # With cancellation, as in gelu far below 0, the error is that of the largest summand.
    assert np.allclose(result, expected, rtol=3e-6, atol=1e-6, equal_nan=True)
    assert apply_function(function, x).dtype == np.float32


@pytest.mark.parametrize(
    ("function", "formula"),
    [case for case in FORMULAS if case[0].data in (Function.TANH, Function.ELU, Function.CELU)],
)
def test_nothing_cancels_near_zero(function: FunctionAttr, formula: Callable[[Doubles], Doubles]):
    x = np.linspace(-1.0, 1.0, 20_001, dtype=np.float32)
    x = np.concatenate([x, x * np.float32(1e-6), x * np.float32(1e-30)])
    result = apply_function(function, x)
    assert np.allclose(result, formula(x.astype(np.float64)), rtol=4e-7, atol=0)


def test_the_tail_of_a_sigmoid_keeps_its_bits():
    """Probabilities are often nearly 0; ONNX Runtime has an absolute error of 1e-7 there."""
    x = np.linspace(-30.0, -4.0, 20_001, dtype=np.float32)
    result = apply_function(FunctionAttr(Function.SIGMOID), x)
    assert np.allclose(result, _sigmoid(x.astype(np.float64)), rtol=2e-7, atol=0)


def test_every_function_has_a_formula():
    assert {f.data for f, _ in FORMULAS} == set(Function)


def test_softmax_adds_in_order():
    x = np.array([[1.0, 2.0, 3.0, 100.0], [-1e3, 0.0, 0.0, 0.0]], np.float32)
    result = softmax(x, 1)
    e = exp(x - x.max(axis=1, keepdims=True))
    total = np.float32(0)
    for value in e[1]:
        total = np.float32(total + value)
    assert result[1].tolist() == (e[1] / total).tolist()
    assert np.allclose(result.sum(axis=1), 1)


@pytest.mark.parametrize(
    "kind", [Function.SWISH, Function.EXP, Function.TANH, Function.ERF, Function.MISH]
)
def test_large_arrays_are_computed_in_pieces(kind: Function) -> None:
    # The second piece has elements outside of the range of exp; the last is short.
    x = np.random.default_rng(0).normal(size=(3, MAX_CACHED_ELEMENTS - 5)).astype(np.float32)
    x[1, : len(SPECIAL)] = SPECIAL
    x[1, len(SPECIAL) :: 7] *= 100
    function = FunctionAttr(kind)
    with np.errstate(all="ignore"):
        whole = apply_function(function, x)
        rows = [apply_function(function, row[:, None])[:, 0] for row in x]
    assert whole.shape == x.shape
    assert np.array_equal(whole, np.stack(rows), equal_nan=True)
