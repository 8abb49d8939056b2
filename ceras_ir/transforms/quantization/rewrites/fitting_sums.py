"""
Sums of the operations that `fold-qdq` makes, brought to fit 32 bits for every input.

Quantizers store a bias in steps of scale(input) * scale(weights). Where all weights of a channel
are tiny such a bias fills 32 bits or was cut off there, and no product more can be added. The same
channel in steps 2, 4, ... times as coarse has room again, and loses nothing that the result shows.
"""

from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network.integer import zero_points
from ceras_ir.transforms.quantization.analysis.rescaling import rescaling_by
from ceras_ir.transforms.rebuilding import rebuild_linear

MOST = 2.0**31 - 1
INVISIBLE = 0.25
"""How far coarser weights may move a result, in steps of the result."""


def fitted(made: list[GraphOperation]) -> list[GraphOperation] | None:
    """
    What computes the same with sums that fit, or None where nothing does. Of `made`, what is not
    in the result is erased.
    """
    new = _fitted(made)
    for op in reversed(made):
        if new is None or op not in new:
            op.erase()
    return new


def _fitted(made: list[GraphOperation]) -> list[GraphOperation] | None:
    match made[-1]:
        case graph.LinearOperation() as op:
            return _linear(made, op)
        case graph.BinaryOp() as op:
            a, b = _reach(op.lhs) * op.factors[0], _reach(op.rhs) * op.factors[1]
            bound = a * b if op.function is graph.Binary.MUL else a + b
            return made if bound + _half(op) <= MOST else None
        case graph.Pool2dOp() as op:
            bound = prod(op.kernel.get_values()) * _reach(op.input)
            return made if bound + _half(op) <= MOST else None
        case _:
            return made


def _reach(value: SSAValue) -> int:
    return graph.stored_element(value).reach


def _half(op: graph.LinearOperation | graph.BinaryOp | graph.Pool2dOp) -> float:
    """What rounding adds before the shift, unless a multiplier takes the sum to 64 bits first."""
    is_shift = op.requant is not None and op.requant.multipliers == (1,)
    return 2.0**op.requant.shift.data / 2 if op.requant is not None and is_shift else 0.0


def _linear(made: list[GraphOperation], op: graph.LinearOperation) -> list[GraphOperation] | None:
    assert op.requant is not None
    weights, bias = graph.constant_array(op.weights), _bias(op)
    if weights is None or bias is None:
        return made
    kind, rank = graph.stored_element(op.weights), weights.ndim
    points = zero_points(kind, rank)
    centred = weights.astype(np.float64) - points
    products = np.abs(centred).reshape(len(centred), -1).sum(axis=1) * _reach(op.input)
    bound = products + np.abs(bias) + _half(op)
    if op.residual is not None:
        bound = bound + (_reach(op.residual) << np.array(op.residual_shifts))
    if bound.max() <= MOST:
        return made
    if op.residual is not None:
        return None
    taps = centred[0].size
    # Rounding moves every weight, and the bias, by up to half a step.
    room = MOST - taps * _reach(op.input)
    if room <= 0:
        return None
    powers = np.exp2(np.ceil(np.log2(np.maximum(bound / room, 1.0))))
    scales = powers * [scale.data for scale in kind.scales]
    factors = scales * graph.scale_of(op.input) / graph.scale_of(op.result)
    moved = np.where(powers > 1.0, (taps * _reach(op.input) + 1.0) / 2.0 * factors, 0.0)
    if moved.max() > INVISIBLE:
        return None
    coarser = np.rint(centred / powers.reshape(-1, *(1,) * (rank - 1))) + points
    spread = np.broadcast_to(points.reshape(-1), scales.shape)
    new_weights = graph.ConstantOp.from_array(
        coarser.astype(weights.dtype),
        UniformType(scales.tolist(), spread.tolist(), storage=kind.storage, axis=0),
        location=op.weights.owner.location if isinstance(op.weights.owner, Operation) else None,
    )
    new_bias = graph.ConstantOp.from_array(
        np.rint(bias / powers).astype(np.int32),
        UniformType((scales * graph.scale_of(op.input)).tolist(), storage=i32, axis=0),
        location=op.location,
    )
    requant = op.requant
    rescaled = rescaling_by(
        factors.tolist(),
        requant.zero_point.data,
        (requant.low.data, requant.high.data),
        requant.mode,
    )
    new = rebuild_linear(
        op, {"requant": rescaled}, weights=new_weights.result, bias=new_bias.result
    )
    return [new_weights, new_bias, new]


def _bias(op: graph.LinearOperation) -> NDArray[np.float64] | None:
    """The stored bias, zeros where there is none; None where it is computed."""
    if op.bias is None:
        return np.zeros(graph.shape_of(op.weights)[0])
    array = graph.constant_array(op.bias)
    return None if array is None else array.astype(np.float64)
