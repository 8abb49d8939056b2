"""What the passes that compute a layer twice, once for each byte, have in common."""

from collections.abc import Sequence

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import Rounding
from ceras_ir.network.integer import HIGH, LOW
from ceras_ir.network.storage import NARROW, WIDE

BYTE = WIDE - NARROW

LEAST, MOST = LOW - (HIGH << BYTE), HIGH - (LOW << BYTE)
"""The least and the most that a lower byte less 2^8 times a negated upper one says."""


def may_be_split(op: graph.LinearOperation, widths: Sequence[int]) -> bool:
    """
    Whether a layer whose input and result have so many bits may be computed twice, by powers of two
    and with negated weights: int8 without zero point, at least -127.
    """
    types = [graph.quantized_element(v) for v in (op.input, op.results[0])]
    kind, weights = graph.quantized_element(op.weights), graph.constant_array(op.weights)
    if op.requant is None or op.table is not None or op.shares_nothing or None in types:
        return False
    if [t.storage.width.data for t in types if t] != list(widths):
        return False
    if kind is None or weights is None or op.encoded_weights is not None:
        return False
    if (
        kind.storage.width.data != NARROW
        or not kind.is_signed
        or any(p.data for p in kind.zero_points)
    ):
        return False
    powers = all(m & (m - 1) == 0 for m in op.requant.multipliers)
    return powers and op.requant.mode is Rounding.HALF_UP and weights.min(initial=0) >= -HIGH
