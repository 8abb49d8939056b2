"""
The unit of the sum that a quantized operation rounds, seen from its float form between Q/DQ.

What such an operation adds up before it is rounded are whole multiples of it; averages over
partial windows are not, but as far from a tie as the full ones.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.transforms.quantization.analysis.qdq import only_shifts

Units = NDArray[np.float64]
"""One for the whole tensor, or one per channel of its last dimension."""


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
