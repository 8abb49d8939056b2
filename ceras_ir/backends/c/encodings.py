"""
How weights of float matrix products may lie in flash, and in how many bytes.

The encodings are those of the dialect `sparse` whose places are whole bytes, and code: each weight
that is not zero is a literal of straight-line code. An operation whose weights are code says so
in `c.kernel`, and reads them from any encoding.
"""

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i8
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.sparse import CsrAttr

Array = NDArray[np.generic]

KERNEL, CODE = "c.kernel", "code"
"""The discardable attribute of an operation, and its one value."""


class Encoding(StrEnum):
    """How the weights of one layer lie in flash."""

    DENSE = "dense"
    """Every weight."""
    CSR_DELTA8 = "csr_delta8"
    """Weights row by row, each with its distance from the one before in 8 bits."""
    CSR_INDEX16 = "csr_index16"
    """Weights row by row, each with its column in 16 bits, as S4 has them."""
    CODE = "code"
    """Weights as literals of straight-line code."""


CODE_BYTES_PER_WEIGHT = 12
"""Flash per weight as code: three loads or sums of 4 bytes, less what literals share."""


def encoded(encoding: Encoding, weights: Array) -> CsrAttr | None:
    """`weights` [N, K] as a constant lists them; None where it has them all."""
    if encoding is Encoding.DENSE:
        return None
    element = i8 if weights.dtype == np.int8 else f32
    return CsrAttr.of(weights, element, delta=encoding is not Encoding.CSR_INDEX16)


def stored_weights(encoding: Encoding, weights: Array) -> int:
    """How many of `weights` are multiplied by."""
    found = encoded(encoding, weights)
    return weights.size if found is None else int(found.stored.sum())


def weight_bytes(encoding: Encoding, weights: Array) -> int:
    """Flash that the weights take, without alignment."""
    if encoding is Encoding.CODE:
        return CODE_BYTES_PER_WEIGHT * int(np.count_nonzero(weights)) + 8 * weights.shape[0]
    found = encoded(encoding, weights)
    return weights.nbytes if found is None else found.nbytes


def quantized_like_s4(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], float]:
    """
    S4's int8 weights and their scale S: `stored = clip(round(w * (127 / max|w|)), -128, 127)`,
    ties to even, and `w` is about `stored * S` with `S = max|w| / 127` rounded to float32.
    """
    largest = float(np.abs(weights).max(initial=0.0))
    if largest == 0.0:
        return np.zeros(weights.shape, np.int8), 1.0
    scaled = np.rint(weights.astype(np.float64) * (127.0 / largest))
    return np.clip(scaled, -128, 127).astype(np.int8), float(np.float32(largest / 127.0))
