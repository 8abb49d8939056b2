"""
The unit of the sum that a quantized operation rounds, seen from its float form between Q/DQ.

What such an operation adds up before it is rounded are whole multiples of it; averages over
partial windows are not, but as far from a tie as the full ones.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.transforms.quantization.analysis.rescaling import only_shifts

Units = NDArray[np.float64]
"""One for the whole tensor, or one per channel of its last dimension."""
REACHABLE_BITS = 25
"""Ties of longer shifts are met by sums only that float32 does not hold."""


def tie_rooms(units: Units, multipliers: Sequence[int], shift: int) -> Units:
    """
    How much less must be added to sums so that it decides ties of a rescaling and nothing else:
    half a unit, divided by the odd part of the multiplier; 0 where no sum is a tie.
    """
    trailing = np.array([(m & -m).bit_length() - 1 for m in multipliers])
    odd = np.array(multipliers) >> trailing
    has_ties = (odd == 1) | (shift - trailing <= REACHABLE_BITS)
    return np.where(has_ties, units / (2 * odd), 0.0)


def accumulator_units(op: Operation, types: list[UniformType]) -> Units | None:
    """
    Of `op`, whose data operands (and weights) are stored as `types`; None where it has none:
    functions, and sums of scales that share no unit.
    """
    scales = [np.array([scale.data for scale in element.scales]) for element in types]
    match op:
        case graph.LinearOperation():
            return scales[0] * scales[1]
        case graph.BinaryOp() if op.function is graph.Binary.MUL:
            return scales[0] * scales[1]
        case graph.BinaryOp() if op.function in (graph.Binary.ADD, graph.Binary.SUB):
            return np.minimum(scales[0], scales[1]) if only_shifts(types) else None
        case graph.Pool2dOp() if op.function is graph.Pool.AVERAGE:
            return scales[0] / prod(op.kernel.get_values())
        case graph.RequantizeOp() | graph.DequantizeOp():
            return scales[0]
        case _:
            return None
