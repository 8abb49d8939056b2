"""Recognize softmax and normalizations of rows by their values, in any spelling."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.graph.formulas import Reals
from ceras_ir.transforms.graph.row_functions import replace_row_functions
from ceras_ir.transforms.network_pass import NetworkPass

ULP = 2.0**-23
"""Relative difference of equal values: an ulp of float32."""


@dataclass(frozen=True)
class SoftmaxRule(NetworkPass):
    """
    Replace operations that compute softmax along the last dimension by `graph.softmax`.

    Exponentials divided by their sum, with the maximum taken off or not, times a reciprocal, or
    as the exponential of what the logarithm of the sum is taken off. Operations are not compared
    but what they compute, in double precision. Off by the rounding of the parts; what is spelled
    without the maximum is finite for all rows afterwards.
    """

    name = "softmax"

    def change(self, main: FuncOp) -> None:
        replace_row_functions(main.body.block, Softmax())


class Softmax:
    """The one function of its family."""

    functions = (graph.Function.EXP,)

    def rows(self, length: int) -> Reals:
        """Rows of several sizes, around several numbers."""
        random = np.random.default_rng(0)
        sizes = np.array([0.0, 0.1, 1.0, 1.0, 4.0, 8.0])[:, None]
        offsets = np.array([0.0, -3.0, 0.5, 8.0, 0.0, 2.0])[:, None]
        return random.uniform(-1, 1, (len(sizes), length)) * sizes + offsets

    def other_rows(self, length: int) -> Reals:
        """Return rows with results from 1e-220 to 1, and with tiny, equal and large arguments."""
        random = np.random.default_rng(1)
        offsets = np.array([0.0, -300.0, -40.0, 40.0, 300.0])[:, None, None]
        sizes = 2.0 ** np.arange(-3, 9)[:, None]
        return (random.uniform(-1, 1, (5, 12, length)) * sizes + offsets).reshape(-1, length)

    def recognized(self, rows: Reals, values: Reals) -> Literal[True] | None:
        """Return whether `values` are the softmax of `rows`."""
        powers = np.exp(rows - rows.max(axis=1, keepdims=True))
        expected = powers / powers.sum(axis=1, keepdims=True)
        alike = values.shape == rows.shape and (np.abs(values - expected) <= ULP * expected).all()
        return True if alike else None

    def agrees(self, found: Literal[True], rows: Reals, values: Reals) -> bool:
        """Return whether `values` are the softmax of `rows`."""
        return self.recognized(rows, values) is found

    def built(self, argument: SSAValue, found: Literal[True]) -> Sequence[Operation]:
        """The operation."""
        return [graph.SoftmaxOp(argument, len(graph.shape_of(argument)) - 1)]


NEAR = 2.0**-20
"""Difference of equal values, as a multiple of the product with the scale and of the bias."""
LARGE, TINY = 1e6, 1e-7
"""Magnitudes of rows beside which epsilon is nothing, and that are nothing beside epsilon."""
ZERO_ROW, LARGE_ROW, TINY_ROW = range(3)
MIN_EPSILON = 1e-20
"""A smaller epsilon is not distinct from 0 next to the variance of the tiny row."""


@dataclass(frozen=True)
class Normalization:
    """The parameters of a normalization of rows."""

    scale: NDArray[np.float32]
    bias: NDArray[np.float32] | None
    epsilon: float
    centred: bool


@dataclass(frozen=True)
class NormalizationRule(FloatNetworkPass):
    """
    Replace operations that normalize rows along the last dimension by `graph.normalize`.

    `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)`, or without the means of `x`, with
    constant factors and addends for the channels behind it. Exporters spell it as a dozen nodes in
    many ways: with powers, reciprocals, the mean of squares less the square of the mean, or as
    `x * factor + (bias - mean * factor)`. So operations are not compared but what they compute, in
    double precision. Off by the rounding of the parts. A quantized network stays as it is.
    """

    name = "normalization"

    def change(self, main: FuncOp) -> None:
        replace_row_functions(main.body.block, Normalizations())


class Normalizations:
    """Those with any parameters."""

    functions = (graph.Function.SQRT,)

    def rows(self, length: int) -> Reals:
        """A row of zeros, a large one, a tiny one, and others."""
        random = np.random.default_rng(0)
        sizes = np.array([0.0, LARGE, TINY, 1e-3, 1.0, 30.0])[:, None]
        offsets = np.array([0.0, 0.0, 0.0, 0.0, -2.0, 3.0])[:, None]
        return random.normal(size=(len(sizes), length)) * sizes + offsets

    def recognized(self, rows: Reals, values: Reals) -> Normalization | None:
        """The normalization that makes `values` of `rows`."""
        if values.shape != rows.shape or not np.isfinite(values).all():
            return None
        # Values of something else may be any numbers.
        with np.errstate(all="ignore"):
            found = _parameters(rows, values, centred=True)
            return found or _parameters(rows, values, centred=False)

    def other_rows(self, length: int) -> Reals:
        """
        Return rows of sizes 2^-66 to 2^22, with variances far below and above any epsilon. Powers
        of elements give rows that have few large elements, as far from the mean as possible.
        """
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

    def agrees(self, found: Normalization, rows: Reals, values: Reals) -> bool:
        """Return whether a normalization maps `rows` to `values`."""
        return values.shape == rows.shape and _agrees(found, rows, values)

    def built(self, argument: SSAValue, found: Normalization) -> Sequence[Operation]:
        """The operation, behind its constants."""
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


def _parameters(rows: Reals, values: Reals, *, centred: bool) -> Normalization | None:
    """With which parameters rows are normalized to these values."""
    parts = rows - rows.mean(axis=1, keepdims=True) if centred else rows
    variances = np.square(parts).mean(axis=1, keepdims=True)
    bias = values[ZERO_ROW]
    # No element of a large row is so near its mean that it would not tell the scale.
    normal = parts[LARGE_ROW] / np.sqrt(variances[LARGE_ROW])
    scale = (values[LARGE_ROW] - bias) / normal
    top = scale * parts[TINY_ROW]
    channel = int(np.abs(top).argmax())
    rooted = float(values[TINY_ROW, channel] - bias[channel])
    if rooted == 0.0:
        return None
    epsilon = float((top[channel] / rooted) ** 2 - variances[TINY_ROW, 0])
    if not MIN_EPSILON < epsilon < LARGE:
        return None
    epsilon = float(np.float32(epsilon))
    addend = bias.astype(np.float32) if bias.any() else None
    found = Normalization(scale.astype(np.float32), addend, epsilon, centred)
    return found if _agrees(found, rows, values) else None


def _agrees(found: Normalization, rows: Reals, values: Reals) -> bool:
    """Return whether elements differ by rounding only, relative to the element of the same row."""
    parts = rows - rows.mean(axis=1, keepdims=True) if found.centred else rows
    variances = np.square(parts).mean(axis=1, keepdims=True)
    products = found.scale * parts / np.sqrt(variances + found.epsilon)
    bias = np.zeros(1) if found.bias is None else found.bias.astype(np.float64)
    # An element near the mean is rounded as the largest element of the row is.
    sizes = np.abs(products) + NEAR * np.abs(products).max(axis=1, keepdims=True) + np.abs(bias)
    return bool((np.abs(values - (products + bias)) <= NEAR * sizes).all())
