"""Softmax and normalization of rows on stored integers: their tables and constants."""

from math import ceil, frexp, log2

import numpy as np
from xdsl.dialects.builtin import i16, i32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.normalization import (
    FRACTION,
    LEAST_POWER,
    ONE,
    RECIPROCAL,
    deviation_shift,
)
from ceras_ir.dialects.quant import RequantAttr, UniformType

VANISHES = (ONE + 1) * 0.6931472
"""From here on an exponential is below half a unit of the table."""


def row_form(
    op: graph.SoftmaxOp | graph.NormalizeOp, input: SSAValue, target: UniformType
) -> list[graph.GraphOperation] | None:
    """
    Constants and the operation on a stored `input`; None where steps are no powers of two, or so
    fine that a table would be too long.
    """
    if isinstance(op, graph.SoftmaxOp):
        return _softmax(op, input, target)
    return _normalized(op, input, target)


def _exponent(scale: float) -> int | None:
    mantissa, exponent = frexp(scale)
    return exponent - 1 if mantissa == 0.5 else None


def _rescaled(shift: int, target: UniformType) -> RequantAttr:
    return RequantAttr(shift, zero_point=target.zero_point, low=target.low, high=target.high)


def _softmax(
    op: graph.SoftmaxOp, input: SSAValue, target: UniformType
) -> list[graph.GraphOperation] | None:
    source, exponent = graph.stored_element(input), _exponent(target.scale)
    entries = max(ceil(VANISHES / source.scale) + 1, 2)
    entries = min(entries, 1 << source.storage.width.data)
    if exponent is None or not 1 <= RECIPROCAL + exponent <= RECIPROCAL:
        return None
    if entries > graph.IntegerSoftmaxOp.MAX_TABLE:
        return None
    real = np.exp(-np.arange(entries) * source.scale)
    table = graph.ConstantOp.from_array(
        np.rint(real * 2.0**ONE).astype(np.int32),
        UniformType(2.0**-ONE, storage=i32),
        location=op.location,
    )
    requant = _rescaled(RECIPROCAL + exponent, target)
    axis = op.axis.value.data
    return [table, graph.IntegerSoftmaxOp(input, table.result, axis, target, requant)]


def _normalized(
    op: graph.NormalizeOp, input: SSAValue, target: UniformType
) -> list[graph.GraphOperation] | None:
    source, exponent = graph.stored_element(input), _exponent(target.scale)
    scale = graph.constant_array(op.scale)
    bias = np.zeros(1) if op.bias is None else graph.constant_array(op.bias)
    if exponent is None or scale is None or bias is None:
        return None
    n = graph.shape_of(input)[-1]
    scale = scale.astype(np.float64)
    bias = np.broadcast_to(bias.astype(np.float64), scale.shape)
    # As fine as 16 and 32 bits hold, and no finer than a shift of the result leaves.
    room = [(float(np.abs(scale).max()), 15), (float(np.abs(bias).max()), 31 + FRACTION)]
    step = max(ceil(log2(max(most, 2.0**-60) * (1 + 2.0**-14))) - bits for most, bits in room)
    step = min(max(step, exponent + FRACTION - RequantAttr.MAX_SHIFT), exponent + FRACTION)
    stored = np.rint(np.ldexp(scale, -step)), np.rint(np.ldexp(bias, FRACTION - step))
    if np.abs(stored[0]).max() > 32767 or np.abs(stored[1]).max() >= 2.0**31:
        return None
    up = deviation_shift(input, centred=op.is_centred)
    unit = (n if op.is_centred else 1) * 2.0**up / source.scale
    epsilon = op.epsilon.value.data * n * unit * unit
    constants = [
        graph.ConstantOp.from_array(array.astype(kind), element, location=op.location)
        for array, kind, element in (
            (stored[0], np.int16, UniformType(2.0**step, storage=i16)),
            (stored[1], np.int32, UniformType(2.0 ** (step - FRACTION), storage=i32)),
        )
    ]
    new = graph.IntegerNormalizeOp(
        input,
        constants[0].result,
        constants[1].result,
        epsilon=round(min(max(epsilon, LEAST_POWER), 2.0**62)),
        centred=op.is_centred,
        element=target,
        requant=_rescaled(exponent + FRACTION - step, target),
    )
    return [*constants, new]
