"""Recognize layer and root-mean-square normalization by their values, however they are spelled."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.graph.formulas import Reals
from ceras_ir.transforms.graph.row_functions import replace_row_functions

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
class FuseNormalizationPass(FloatNetworkPass):
    """
    Replace operations that normalize rows along the last dimension by `graph.normalize`.

    `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)`, or without the means of `x`, with
    constant factors and addends for the channels behind it. Exporters spell it as a dozen nodes in
    many ways: with powers, reciprocals, the mean of squares less the square of the mean, or as
    `x * factor + (bias - mean * factor)`. So operations are not compared but what they compute, in
    double precision. Off by the rounding of the parts. A quantized network stays as it is.
    """

    name = "fuse-normalization"

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
