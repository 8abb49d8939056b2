"""
Terms that ONNX operators add to the bounds of our operations.

Our operations can be exact where another algorithm rounds: with constants that the importer has
folded, or with another order of steps. An operator that the reference is known to compute
differently from ONNX's definition has no bound.
"""

from collections.abc import Callable, Sequence
from math import inf

import numpy as np
import onnx

from ceras_ir.driver.verify.rounding.real import UNIT, Array, Doubles, gamma

Term = Callable[[onnx.NodeProto, Sequence[Array], int], Doubles]


def term_of(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """The term of a node, which broadcasts to a result of `rank`; 0 without one."""
    term = _TERMS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    with np.errstate(all="ignore"):
        return np.zeros(()) if term is None else term(node, operands, rank)


def _batch_normalization(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """As x * s + (B - mean * s), where s = scale / sqrt(var + epsilon)."""
    if len(operands) < 5:
        return np.zeros(())
    scale, bias, mean, variance = (array.astype(np.float64) for array in operands[1:5])
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    offset = np.abs(bias) + np.abs(mean * scale) / np.sqrt(variance + epsilon)
    return 4 * UNIT * offset.reshape([-1 if axis == 1 else 1 for axis in range(rank)])


def _determinant(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """By elimination, of which no minor exceeds the product of the norms of the rows."""
    matrix = operands[0].astype(np.float64)
    extent = matrix.shape[-1]
    return gamma(extent**3) * np.prod(np.linalg.norm(matrix, axis=-1), axis=-1)


def _fourier(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """Sums of as many terms as the longest dimension has, by factors that are rounded."""
    extent = max(operands[0].shape, default=1)
    peak = np.abs(operands[0]).max(initial=0.0)
    return np.asarray(gamma(extent + 8) * extent * peak, np.float64)


def _unpooling(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """ONNX Runtime takes indices for those of the given output shape, not of the inferred one."""
    return np.full((), inf if len(operands) > 2 else 0.0)


_TERMS: dict[str, Term] = {
    "BatchNormalization": _batch_normalization,
    "Det": _determinant,
    "DFT": _fourier,
    "STFT": _fourier,
    "MaxUnpool": _unpooling,
}
