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
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}::"
    term = _TERMS.get(f"{domain}{node.op_type}")
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


def _resize(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """
    Weights of interpolation follow from coordinates that float32 rounds, which can reach the extent
    of a dimension. They have the sum 1, and so act on differences of elements.
    """
    mode = next((a.s for a in node.attribute if a.name == "mode"), b"nearest")
    if mode == b"nearest":
        return np.zeros(())
    x = operands[0].astype(np.float64)
    peak, spread = np.abs(x).max(initial=0.0), np.ptp(x)
    return np.asarray(8 * UNIT * (spread * sum(extent + 2 for extent in x.shape[2:]) + peak))


def _unpooling(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """ONNX Runtime takes indices for those of the given output shape, not of the inferred one."""
    return np.full((), inf if len(operands) > 2 else 0.0)


def _regressor(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """ONNX Runtime does not transform a single target."""
    given = {attribute.name: attribute for attribute in node.attribute}
    is_single = "n_targets" not in given or given["n_targets"].i == 1
    is_plain = "post_transform" not in given or given["post_transform"].s == b"NONE"
    return np.full((), inf if is_single and not is_plain else 0.0)


def _classifier(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """ONNX Runtime exchanges two classes that both have weights and base values."""
    given = {attribute.name: attribute for attribute in node.attribute}
    ids = set(given["class_ids"].ints) if "class_ids" in given else set[int]()
    return np.full((), inf if ids == {0, 1} and "base_values" in given else 0.0)


def _quotient(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """ONNX does not define integers that are divided by 0."""
    divisor = operands[1]
    is_open = (divisor == 0) & (divisor.dtype.kind in "iu")
    return np.where(is_open, inf, 0.0)


def _cache(node: onnx.NodeProto, operands: Sequence[Array], rank: int) -> Doubles:
    """Caches, which have rank 4, are not specified after the length of the sequence."""
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
