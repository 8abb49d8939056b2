"""
Compute with values whose difference between two implementations is bounded.

A `Real` has the values of the interpreter, and a bound of the difference to the values that another
correct implementation computes from the same inputs. With u = 2^-24 and r the exact result:

1. Addition, subtraction, multiplication and division add 2u * |r|, unless r is a float32.
2. A sum of n terms t adds 2 * gamma(n) * sum(|t|) in any order, gamma(n) = n * u / (1 - n * u).
3. A function adds its row of `_OWN`, in units of 2u, and enlarges a difference by `_SLOPES`.
4. Each bound has 2^-126 more, because implementations differ in subnormal numbers. If the tensor of
   the reference is a float16, it is 2^-24, the distance of subnormal numbers of this type.

If the model computes in float16 or bfloat16, the unit of each result is the unit of the type, which
is added to u.

ONNX operators add terms to these bounds if our operations are exact and another algorithm rounds:
with constants that the importer has folded, or with another order of steps. An operator that the
reference computes differently from ONNX's definition has no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray

from ceras_ir.dialects.graph import Binary, Function, FunctionAttr
from ceras_ir.interpreters.float_functions import apply_function

Array: TypeAlias = NDArray[np.generic]
Doubles: TypeAlias = NDArray[np.float64]

UNIT = 2.0 * 2.0**-24
"""The largest relative difference between two roundings of a number to float32."""

MIN_NORMAL = 2.0**-126
"""The smallest normal float32."""


def smallest_step(dtype: np.dtype[np.generic]) -> float:
    """
    Return the absolute difference that is always permitted in results of a float type, because
    implementations differ in subnormal numbers.
    """
    return max(MIN_NORMAL, float(np.finfo(dtype.name).smallest_subnormal))


def gamma(terms: int) -> float:
    """
    Return the bound of the difference between two float32 sums of the same `terms` numbers in
    different orders, relative to the sum of the magnitudes.
    """
    rounded = terms * UNIT / 2
    return 2 * rounded / (1 - rounded) if rounded < 1 else inf


@dataclass(frozen=True)
class Real:
    """
    An array of numbers, and for each number a bound of the difference from the result of another
    implementation. Operators compute both. `unit` is the relative rounding error of each operation.
    """

    value: Doubles
    error: Doubles
    unit: float = UNIT

    def __post_init__(self) -> None:
        # The bound is unknown, as for 0 times infinity.
        if np.isnan(self.error).any():
            object.__setattr__(self, "error", np.nan_to_num(self.error, nan=inf, posinf=inf))

    @classmethod
    def of(cls, value: Array, error: Array, unit: float = UNIT) -> Real:
        return cls(value.astype(np.float64), np.asarray(error, np.float64), unit)

    @classmethod
    def exactly(cls, number: float, unit: float = UNIT) -> Real:
        return cls(np.array(number, np.float64), np.zeros(()), unit)

    def __add__(self, other: Real) -> Real:
        return self._rounded(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Real) -> Real:
        return self._rounded(self.value - other.value, self.error + other.error)

    def __mul__(self, other: Real) -> Real:
        # The product of an infinite value and an error of 0 is no error.
        spread = np.zeros(())
        if other.error.any():
            spread = _product(np.abs(self.value) + self.error, other.error)
        if self.error.any():
            spread = spread + _product(np.abs(other.value), self.error)
        return self._rounded(self.value * other.value, spread)

    def __truediv__(self, other: Real) -> Real:
        value = self.value / other.value
        left = np.abs(other.value) - other.error
        spread = self.error + _product(np.abs(value), other.error)
        known = np.where(left > 0, spread / left, inf)
        return self._rounded(value, np.where(spread > 0, known, 0.0))

    def maximum(self, other: Real) -> Real:
        error = np.maximum(self.error, other.error)
        return Real(np.maximum(self.value, other.value), error, self.unit)

    def minimum(self, other: Real) -> Real:
        error = np.maximum(self.error, other.error)
        return Real(np.minimum(self.value, other.value), error, self.unit)

    def power(self, other: Real) -> Real:
        """
        Return the power. It is computed by a logarithm; the rounding error of the logarithm is
        multiplied by the exponent.
        """
        value = np.power(self.value, other.value)
        log = np.abs(np.log(np.abs(self.value)))
        steps = np.where(np.isfinite(log), np.abs(other.value) * log, 0.0)
        spread = np.zeros(value.shape)
        if self.error.any() or other.error.any():
            left = np.abs(self.value) - self.error
            base = np.where(left > 0, np.abs(other.value) * self.error / left, inf)
            relative = base + _product(log, other.error)
            spread = np.where(relative > 0, np.abs(value) * np.expm1(relative), 0.0)
        rounding = np.where(np.isfinite(value), np.abs(value) * (8 + 8 * steps), 0.0)
        return Real(value, spread + self.unit * rounding, self.unit)

    def sqrt(self) -> Real:
        return self.apply(FunctionAttr(Function.SQRT))

    def apply(self, function: FunctionAttr) -> Real:
        """Return the result of an elementwise `function`, with the bounds."""
        value = apply_function(function, self.value.astype(np.float32)).astype(np.float64)
        return Real(value, self.function_error(function, value), self.unit)

    def function_error(self, function: FunctionAttr, result: Doubles) -> Doubles:
        """
        Return the bounds of `result`, the values of an elementwise `function` of these numbers.
        """
        magnitudes = np.abs(self.value), np.abs(result)
        own = _OWN[function.data](*magnitudes, function.values)
        if np.isscalar(own):
            own = np.where(magnitudes[0] >= 0, own, own)
        error = self.unit * np.asarray(own, np.float64)
        if self.error.any():
            error = error + self._spread(function, result)
        if (affine := function.affine) is not None:
            error = abs(affine[0]) * error + 2 * self.unit * (np.abs(result) + abs(affine[1]))
        return error

    def _spread(self, function: FunctionAttr, result: Doubles) -> Doubles:
        x, e, kind = self.value, self.error, function.data
        if kind in _STEPS:
            return np.abs(_STEPS[kind](x + e) - _STEPS[kind](x - e))
        match kind:
            case Function.EXP:
                return np.where(e > 0, np.abs(result) * np.expm1(e), 0.0)
            case Function.LOG:
                return np.where(e > 0, np.where(x > e, e / (x - e), inf), 0.0)
            case Function.SQRT:
                low = np.sqrt(np.maximum(x - e, 0.0))
                return np.where(e > 0, np.sqrt(x + e) - low, 0.0)
            case Function.THRESHOLDED_RELU:
                jump = np.abs(x - function.values[0]) <= e
                return np.where(jump & (e > 0), np.abs(x) + e, e)
            case _:
                spread = _SLOPES[kind](function.values) * e
                low, high = function.clip_range or _RANGES.get(kind, (-inf, inf))
                return np.minimum(spread, high - low)

    def _rounded(self, value: Doubles, spread: Doubles) -> Real:
        inexact = (value != value.astype(np.float32)) | (self.unit > UNIT) | (spread > 0)
        rounding = np.where(np.isfinite(value) & inexact, np.abs(value), 0.0)
        rounding *= self.unit
        return Real(value, spread + rounding, self.unit)


def _product(factor: Doubles, error: Doubles) -> Doubles:
    return np.where(error > 0, factor * error, 0.0)


def _without_zeros(real: Real) -> Real:
    return real if real.error.any() else Real(real.value, np.zeros(()), real.unit)


def binary_error(kind: Binary, a: Real, b: Real) -> Doubles:
    """
    Return the bound of each element of the result of the binary function `kind` of `a` and `b`.
    """
    a, b = _without_zeros(a), _without_zeros(b)
    match kind:
        case Binary.ADD:
            return (a + b).error
        case Binary.SUB:
            return (a - b).error
        case Binary.MUL:
            return (a * b).error
        case Binary.DIV:
            return (a / b).error
        case Binary.MIN:
            return a.minimum(b).error
        case Binary.MAX:
            return a.maximum(b).error
        case Binary.POW:
            return a.power(b).error
        case Binary.AND | Binary.OR | Binary.XOR:
            raise AssertionError(kind)


Own: TypeAlias = Callable[[Doubles, Doubles, Sequence[float]], float | Doubles]

_OWN: dict[Function, Own] = {
    Function.RELU: lambda x, r, p: 0.0,
    Function.CLIP: lambda x, r, p: 0.0,
    Function.ABS: lambda x, r, p: 0.0,
    Function.SIGN: lambda x, r, p: 0.0,
    Function.FLOOR: lambda x, r, p: 0.0,
    Function.CEIL: lambda x, r, p: 0.0,
    Function.ROUND: lambda x, r, p: 0.0,
    Function.THRESHOLDED_RELU: lambda x, r, p: 0.0,
    Function.LEAKY_RELU: lambda x, r, p: r,
    Function.SQRT: lambda x, r, p: r,
    Function.EXP: lambda x, r, p: 4 * r,
    Function.LOG: lambda x, r, p: 4 * r,
    Function.SIGMOID: lambda x, r, p: 4.0,
    Function.TANH: lambda x, r, p: 8 * r,
    Function.ERF: lambda x, r, p: 8 * r,
    Function.ATAN: lambda x, r, p: 8 * r,
    Function.SIN: lambda x, r, p: np.where(x < 2.0**22, 4.0, inf),
    Function.COS: lambda x, r, p: np.where(x < 2.0**22, 4.0, inf),
    Function.SWISH: lambda x, r, p: 4 * x + r,
    Function.HARD_SIGMOID: lambda x, r, p: 2 * (np.minimum(abs(p[0]) * x, abs(p[1]) + 1) + 1),
    Function.HARD_SWISH: lambda x, r, p: 2 * x + 4 * r,
    Function.ELU: lambda x, r, p: 4 * abs(p[0]) + r,
    Function.CELU: lambda x, r, p: 4 * abs(p[0]) + r,
    Function.SOFTPLUS: lambda x, r, p: 4 * (r + 1),
    Function.SOFTSIGN: lambda x, r, p: 4 * r,
    Function.MISH: lambda x, r, p: 8 * x,
    Function.GELU: lambda x, r, p: 8 * x,
    Function.GELU_TANH: lambda x, r, p: 8 * x,
}
"""
The units by which two implementations of f(x) = r with parameters p differ, from |x| and |r|: 0 if
f selects or rounds to integers, a few of |r| for a relative error. If exp(x) is added to a
constant, the unit is that of the constant.
"""

_STEPS: dict[Function, Callable[[Doubles], Doubles]] = {
    Function.FLOOR: np.floor,
    Function.CEIL: np.ceil,
    Function.ROUND: np.rint,
    Function.SIGN: np.sign,
}

_SLOPES: dict[Function, Callable[[Sequence[float]], float]] = {
    Function.RELU: lambda p: 1.0,
    Function.CLIP: lambda p: 1.0,
    Function.ABS: lambda p: 1.0,
    Function.LEAKY_RELU: lambda p: max(1.0, abs(p[0])),
    Function.SIGMOID: lambda p: 0.25,
    Function.TANH: lambda p: 1.0,
    Function.ERF: lambda p: 1.13,
    Function.ATAN: lambda p: 1.0,
    Function.SIN: lambda p: 1.0,
    Function.COS: lambda p: 1.0,
    Function.SWISH: lambda p: 1.1,
    Function.HARD_SIGMOID: lambda p: abs(p[0]),
    Function.HARD_SWISH: lambda p: 1.5,
    Function.ELU: lambda p: max(1.0, abs(p[0])),
    Function.CELU: lambda p: 1.0,
    Function.SOFTPLUS: lambda p: 1.0,
    Function.SOFTSIGN: lambda p: 1.0,
    Function.MISH: lambda p: 1.1,
    Function.GELU: lambda p: 1.13,
    Function.GELU_TANH: lambda p: 1.13,
}

_RANGES: dict[Function, tuple[float, float]] = {
    Function.SIGMOID: (0.0, 1.0),
    Function.HARD_SIGMOID: (0.0, 1.0),
    Function.TANH: (-1.0, 1.0),
    Function.ERF: (-1.0, 1.0),
    Function.SOFTSIGN: (-1.0, 1.0),
    Function.SIN: (-1.0, 1.0),
    Function.COS: (-1.0, 1.0),
    Function.ATAN: (-2.0, 2.0),
}


Term = Callable[[onnx.NodeProto, Sequence[Array], int], Doubles]


def term_of(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """
    Return the term that the ONNX operator of `node` adds to the error bound of the result, because
    the reference uses another algorithm; 0 for most operators. The term broadcasts to a result with
    `rank` dimensions.
    """
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}::"
    term = _TERMS.get(f"{domain}{node.op_type}")
    with np.errstate(all="ignore"):
        return np.zeros(()) if term is None else term(node, operands, rank)


def _batch_normalization(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """
    Return the term that BatchNormalization adds to the error bound, since the reference may compute
    x * s + (B - mean * s) with s = scale / sqrt(var + epsilon), or another order of steps.
    """
    if len(operands) < 5:
        return np.zeros(())
    scale, bias, mean, variance = (array.astype(np.float64) for array in operands[1:5])
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    offset = np.abs(bias) + np.abs(mean * scale) / np.sqrt(variance + epsilon)
    return 4 * UNIT * offset.reshape([-1 if axis == 1 else 1 for axis in range(rank)])


def _determinant(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """
    Return the term that Det adds to the error bound, since the reference computes a determinant by
    elimination. No minor exceeds the product of the norms of the rows.
    """
    matrix = operands[0].astype(np.float64)
    extent = matrix.shape[-1]
    return gamma(extent**3) * np.prod(np.linalg.norm(matrix, axis=-1), axis=-1)


def _fourier(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """
    Return the term that a Fourier transform adds to the error bound: that of sums with the length
    of the longest dimension, and of rounded factors.
    """
    extent = max(operands[0].shape, default=1)
    peak = np.abs(operands[0]).max(initial=0.0)
    return np.asarray(gamma(extent + 8) * extent * peak, np.float64)


def _resize(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """
    Return the term that Resize adds to the error bound, because of the weights of interpolation.
    The coordinates are rounded in float32, and can reach the extent of a dimension. The weights
    have the sum 1, so they apply to differences of elements.
    """
    mode = next((a.s for a in node.attribute if a.name == "mode"), b"nearest")
    if mode == b"nearest":
        return np.zeros(())
    x = operands[0].astype(np.float64)
    peak, spread = np.abs(x).max(initial=0.0), np.ptp(x) if x.size else 0.0
    return np.asarray(8 * UNIT * (spread * sum(extent + 2 for extent in x.shape[2:]) + peak))


def _unpooling(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """
    Return an infinite bound (no comparison) if the output shape is given: ONNX Runtime interprets
    indices in this shape, not in the inferred shape.
    """
    return np.full((), inf if len(operands) > 2 else 0.0)


def _regressor(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """
    Return an infinite bound (no comparison) for a single target with `post_transform`, which ONNX
    Runtime does not apply.
    """
    given = {attribute.name: attribute for attribute in node.attribute}
    is_single = "n_targets" not in given or given["n_targets"].i == 1
    is_plain = "post_transform" not in given or given["post_transform"].s == b"NONE"
    return np.full((), inf if is_single and not is_plain else 0.0)


def _classifier(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """
    Return an infinite bound (no comparison) if two classes both have weights and base values,
    because ONNX Runtime exchanges them.
    """
    given = {attribute.name: attribute for attribute in node.attribute}
    ids = set(given["class_ids"].ints) if "class_ids" in given else set[int]()
    return np.full((), inf if ids == {0, 1} and "base_values" in given else 0.0)


def _quotient(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """
    Return an infinite bound (no comparison) for integers that are divided by 0, which ONNX does not
    define.
    """
    divisor = operands[1]
    is_open = (divisor == 0) & (divisor.dtype.kind in "iu")
    return np.where(is_open, inf, 0.0)


def _cache(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """
    Return an infinite bound (no comparison) for caches, which have rank 4. The elements after the
    length of the sequence are unspecified.
    """
    return np.full((), inf if rank == 4 else 0.0)


_TERMS: dict[str, Term] = {
    "BatchNormalization": _batch_normalization,
    "Det": _determinant,
    "DFT": _fourier,
    "STFT": _fourier,
    "MaxUnpool": _unpooling,
    "Resize": _resize,
    "Upsample": _resize,
    "Div": _quotient,
    "Mod": _quotient,
    "ai.onnx.ml::TreeEnsembleRegressor": _regressor,
    "ai.onnx.ml::TreeEnsembleClassifier": _classifier,
    "com.microsoft::GroupQueryAttention": _cache,
}
