"""
Between what numbers the rescaled sums of an operation are, for all inputs that its producers can
make: a clamp beyond them changes nothing and is left out.
"""

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.vta.addition_rules import constant_of, terms_of
from ceras_ir.backends.vta.channel_constants import folded_bias, has_computed_weights
from ceras_ir.backends.vta.rescaling import zero_point
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.quant import RequantAttr

Range = tuple[NDArray[np.int64], NDArray[np.int64]]


def proven_clamps(op: Operation) -> tuple[bool, bool]:
    """
    Whether no sum is rescaled to less than the lower, or to more than the upper end. Nothing is
    known of sums with computed weights.
    """
    match op:
        case graph.LinearOperation() if op.requant is not None and not has_computed_weights(op):
            requant, (least, most) = op.requant, _products(op)
        case graph.BinaryOp() if op.requant is not None:
            requant, (least, most) = op.requant, _addition(op)
        case _:
            return False, False
    low, high = _shifted(least, requant), _shifted(most, requant)
    return bool((low >= requant.low.data).all()), bool((high <= requant.high.data).all())


def stored_range(value: SSAValue) -> tuple[int, int]:
    """What a value of int8 can hold, by the clamp of what makes it."""
    producer = value.owner
    if isinstance(producer, graph.Pool2dOp) and producer.function is Pool.MAX:
        return stored_range(producer.input)
    if isinstance(producer, graph.LinearOperation | graph.BinaryOp) and producer.requant:
        return producer.requant.low.data, producer.requant.high.data
    return -128, 127


def _products(op: graph.LinearOperation) -> Range:
    """Of the sums of every channel; a tap outside of the input adds nothing."""
    weights = graph.known_array(op.weights).astype(np.int64)
    weights = weights.reshape(len(weights), -1)
    point = zero_point(op.input)
    low, high = (end - point for end in stored_range(op.input))
    low, high = min(low, 0), max(high, 0)
    constant = folded_bias(op) + point * weights.sum(axis=1)
    ends = weights * low, weights * high
    least, most = (pick(*ends).sum(axis=1) + constant for pick in (np.minimum, np.maximum))
    if op.residual is not None:
        start, end = stored_range(op.residual)
        least, most = (
            total + (number << np.array(op.residual_shifts))
            for total, number in ((least, start), (most, end))
        )
    return least, most


def _addition(op: graph.BinaryOp) -> Range:
    terms = terms_of(op)
    assert terms is not None
    least = most = constant_of(op, terms)
    for term in terms:
        ends = sorted(term.sign * number << term.bits for number in stored_range(term.value))
        least, most = least + ends[0], most + ends[1]
    return np.array([least]), np.array([most])


def _shifted(sums: NDArray[np.int64], requant: RequantAttr) -> NDArray[np.int64]:
    """Sums that have all constants in them, floored by the shift of each channel."""
    shifts = np.broadcast_to(np.array(requant.net_shifts, np.int64), sums.shape)
    return np.where(shifts >= 0, sums >> np.maximum(shifts, 0), sums << np.maximum(-shifts, 0))
