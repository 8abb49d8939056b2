"""
Replace softmax and normalizations along the last axis: rules of `fuse-functions`.

`row_functions.py` finds the operations that compute them. This file has the rows on which results
are compared, and the operations of `graph`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.transforms.graph.formulas import Doubles
from ceras_ir.transforms.graph.row_functions import replace_row_functions
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, NetworkPass

ULP = 2.0**-23
"""The relative difference of equal values: an ulp of float32."""


@dataclass(frozen=True)
class SoftmaxRule(NetworkPass):
    """
    Replace operations that compute softmax along the last axis by `graph.softmax`.

    The operations are exponentials divided by their sum, with or without a subtraction of the
    maximum, times a reciprocal, or the exponential of a difference from the logarithm of the sum.
    The pass compares the results in double precision, not the operations. The result differs by the
    rounding of the parts. Without the subtraction of the maximum the operations can overflow;
    `graph.softmax` is finite for all rows.

    Before:

        %a = graph.unary <exp> %x : tensor<3x2xf32>
        %s = graph.reduce sum %a {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
        %y = graph.binary div %a, %s : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>

    After:

        %y = graph.softmax %x {axis = 1 : i64} : tensor<3x2xf32>
    """

    name = "softmax"

    def change(self, main: FuncOp) -> None:
        replace_row_functions(main.body.block, Softmax())


class Softmax:
    """The family with softmax as the only member, for `replace_row_functions`."""

    functions = (graph.Function.EXP,)

    def rows(self, length: int) -> Doubles:
        random = np.random.default_rng(0)
        sizes = np.array([0.0, 0.1, 1.0, 1.0, 4.0, 8.0])[:, None]
        offsets = np.array([0.0, -3.0, 0.5, 8.0, 0.0, 2.0])[:, None]
        return random.uniform(-1, 1, (len(sizes), length)) * sizes + offsets

    def other_rows(self, length: int) -> Doubles:
        # Results from 1e-220 to 1, and tiny, equal and large arguments.
        random = np.random.default_rng(1)
        offsets = np.array([0.0, -300.0, -40.0, 40.0, 300.0])[:, None, None]
        sizes = 2.0 ** np.arange(-3, 9)[:, None]
        return (random.uniform(-1, 1, (5, 12, length)) * sizes + offsets).reshape(-1, length)

    def recognized(self, rows: Doubles, values: Doubles) -> Literal[True] | None:
        powers = np.exp(rows - rows.max(axis=1, keepdims=True))
        expected = powers / powers.sum(axis=1, keepdims=True)
        agrees = values.shape == rows.shape and (np.abs(values - expected) <= ULP * expected).all()
        return True if agrees else None

    def agrees(self, found: Literal[True], rows: Doubles, values: Doubles) -> bool:
        return self.recognized(rows, values) is found

    def built(self, argument: SSAValue, found: Literal[True]) -> Sequence[Operation]:
        return [graph.SoftmaxOp(argument, len(graph.shape_of(argument)) - 1)]


FORM_TOLERANCE = 2.0**-20
"""Difference of equal values, as a multiple of the product with the scale and of the bias."""
LARGE, TINY = 1e6, 1e-7
"""Magnitudes of rows: epsilon is negligible for the first, and dominates for the second."""
ZERO_ROW, LARGE_ROW, TINY_ROW = range(3)
MIN_VARIANCE_EPSILON = 1e-20
"""A smaller epsilon is not distinct from 0 in comparison with the variance of the tiny row."""


@dataclass(frozen=True)
class Normalization:
    """
    The parameters of a normalization of rows: scale and bias per channel, the addend `epsilon` of
    the variance, and whether the mean is subtracted (`centred`).
    """

    scale: NDArray[np.float32]
    bias: NDArray[np.float32] | None
    epsilon: float
    centred: bool


@dataclass(frozen=True)
class NormalizationRule(FloatNetworkPass):
    """
    Replace operations that normalize rows along the last axis by `graph.normalize`.

    The function is `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)`, or without the means of
    x, followed by constant factors and addends of the channels. Exporters write it as about twelve
    nodes in different ways: with powers, reciprocals, the mean of squares minus the square of the
    mean, or as `x * factor + (bias - mean * factor)`. The pass therefore compares the results in
    double precision, not the operations. The result differs by the rounding of the parts. A
    quantized network remains unchanged.

    Before:

        %n = graph.constant dense<2.0> : tensor<1xf32> : tensor<1xf32>
        %e = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
        %a = graph.binary mul %x, %x : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
        %s = graph.reduce sum %a {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
        %b = graph.binary div %s, %n : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
        %c = graph.binary add %b, %e {activation = #graph.function<sqrt>}
            : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
        %y = graph.binary div %x, %c : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>

    After:

        %s = graph.constant dense<1.0> : tensor<2xf32> : tensor<2xf32>
        %y = graph.normalize %x scale %s : tensor<2xf32> {epsilon = 0.5 : f32, centred = false}
            : tensor<3x2xf32> -> tensor<3x2xf32>
    """

    name = "normalization"

    def change(self, main: FuncOp) -> None:
        replace_row_functions(main.body.block, Normalizations())


class Normalizations:
    """The family of normalizations of rows with any parameters, for `replace_row_functions`."""

    functions = (graph.Function.SQRT,)

    def rows(self, length: int) -> Doubles:
        random = np.random.default_rng(0)
        sizes = np.array([0.0, LARGE, TINY, 1e-3, 1.0, 30.0])[:, None]
        offsets = np.array([0.0, 0.0, 0.0, 0.0, -2.0, 3.0])[:, None]
        return random.normal(size=(len(sizes), length)) * sizes + offsets

    def recognized(self, rows: Doubles, values: Doubles) -> Normalization | None:
        if values.shape != rows.shape or not np.isfinite(values).all():
            return None
        # The values of another function can be any numbers.
        with np.errstate(all="ignore"):
            found = _parameters(rows, values, centred=True)
            return found or _parameters(rows, values, centred=False)

    def other_rows(self, length: int) -> Doubles:
        # Magnitudes 2^-66 to 2^22, with variances far below and above any epsilon. Ninth powers
        # give rows with few large elements, which are as far from the mean as possible.
        random = np.random.default_rng(1)
        sizes = 2.0 ** np.arange(-66, 24, 2)[:, None]
        return np.concatenate(
            [
                random.normal(size=(len(sizes), length)) * sizes,
                random.normal(size=(16, length)) ** 9,
                np.eye(1, length),
                -np.eye(1, length),
            ]
        )

    def agrees(self, found: Normalization, rows: Doubles, values: Doubles) -> bool:
        return values.shape == rows.shape and _agrees(found, rows, values)

    def built(self, argument: SSAValue, found: Normalization) -> Sequence[Operation]:
        scale = graph.ConstantOp.from_array(found.scale)
        bias = None if found.bias is None else graph.ConstantOp.from_array(found.bias)
        new = graph.NormalizeOp(
            argument,
            scale.result,
            None if bias is None else bias.result,
            epsilon=found.epsilon,
            centred=found.centred,
        )
        return [scale, *([] if bias is None else [bias]), new]


def _parameters(rows: Doubles, values: Doubles, *, centred: bool) -> Normalization | None:
    parts = rows - rows.mean(axis=1, keepdims=True) if centred else rows
    variances = np.square(parts).mean(axis=1, keepdims=True)
    bias = values[ZERO_ROW]
    # Each element of the large row is far enough from the mean to determine the scale.
    normal = parts[LARGE_ROW] / np.sqrt(variances[LARGE_ROW])
    scale = (values[LARGE_ROW] - bias) / normal
    top = scale * parts[TINY_ROW]
    channel = int(np.abs(top).argmax())
    rooted = float(values[TINY_ROW, channel] - bias[channel])
    if rooted == 0.0:
        return None
    epsilon = float((top[channel] / rooted) ** 2 - variances[TINY_ROW, 0])
    if not MIN_VARIANCE_EPSILON < epsilon < LARGE:
        return None
    epsilon = float(np.float32(epsilon))
    addend = bias.astype(np.float32) if bias.any() else None
    found = Normalization(scale.astype(np.float32), addend, epsilon, centred)
    return found if _agrees(found, rows, values) else None


def _agrees(found: Normalization, rows: Doubles, values: Doubles) -> bool:
    # Elements differ by rounding only, relative to the element.
    parts = rows - rows.mean(axis=1, keepdims=True) if found.centred else rows
    variances = np.square(parts).mean(axis=1, keepdims=True)
    products = found.scale * parts / np.sqrt(variances + found.epsilon)
    bias = np.zeros(1) if found.bias is None else found.bias.astype(np.float64)
    # The rounding error of an element near the mean is that of the largest element of the row.
    sizes = (
        np.abs(products)
        + FORM_TOLERANCE * np.abs(products).max(axis=1, keepdims=True)
        + np.abs(bias)
    )
    return bool((np.abs(values - (products + bias)) <= FORM_TOLERANCE * sizes).all())
