"""
What the rounding of an ONNX operator adds, where an implementation computes other constants.

The bounds of our operations see constants that the importer has folded. An implementation that
computes a constant by a difference rounds the terms of the difference.
"""

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from ceras_ir.driver.verify.rounding.real import UNIT, Array, Doubles

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


_TERMS: dict[str, Term] = {"BatchNormalization": _batch_normalization}
