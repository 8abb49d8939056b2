"""
Q/DQ networks: whether one is, or was calibrated to become integers, and which operations integers
pass as floats do.
"""

from collections.abc import Sequence
from math import log2, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.windows import Window, counts
from ceras_ir.network.function import keeps_scale
from ceras_ir.network.storage import exponent, network_values
from ceras_ir.transforms.quantization.analysis.rescaling import only_shifts

HALF_EVEN = "graph.half_even"
"""
Attribute of a quantization whose ties go to even, in a network that says where its ties go; without
it those between powers of two go up.
"""

COMES_QUANTIZED = (
    "a model that comes quantized has its precision in its Q/DQ nodes; calibrate the float model "
    "instead"
)
"""Why options of quantization have no say in a network."""


def only_moves(op: graph.GraphOperation) -> bool:
    """Whether elements are moved, or the greatest taken; what puts others around is apart."""
    return not isinstance(op, graph.PadOp) and keeps_scale(op)


def carries_exponents(main: FuncOp) -> bool:
    """Whether values have exponents, as calibrated text has them."""
    return any(exponent(value) is not None for value in network_values(main.body.block))


def carries_quantization(module: ModuleOp) -> bool:
    """
    Whether activations are quantized or dequantized anywhere; constants that are only stored
    in integers say nothing about activations.
    """
    for op in module.walk():
        if isinstance(op, graph.GraphOperation) and not isinstance(op, graph.ConstantOp):
            if op.is_quantized:
                return True
            if isinstance(op, graph.DequantizeOp) and not isinstance(
                op.input.owner, graph.ConstantOp
            ):
                return True
    return False


def is_quantized_alike(op: graph.QuantizeOp) -> bool:
    """Whether all that reads the operand of `op` quantizes it as `op` does."""
    readers = [use.operation for use in op.input.uses]
    return all(isinstance(r, graph.QuantizeOp) and r.result.type == op.result.type for r in readers)


def stored_types(op: Operation) -> list[UniformType]:
    """How the operands and results of an operation are stored, those that are quantized."""
    found = (graph.quantized_element(value) for value in (*op.operands, *op.results))
    return [element for element in found if element is not None]


# Sums half way between two results, seen from the float form of an operation between Q/DQ.
#
# What a quantized operation adds up before it is rounded are whole multiples of a unit; averages
# over partial windows are not, but as far from a tie as the full ones.
#
# An average multiplies a sum by a reciprocal of fixed point, which is a little more or less than
# 1/k unless it is exact, so that a tie goes away from zero or towards it. What does the same to a
# true average, and to no other number, is a factor a little more or less than 1.

Units = NDArray[np.float64]
"""One for the whole tensor, or one per channel of its last dimension."""
REACHABLE_BITS = 25
"""Ties of longer shifts are met by sums only that float32 does not hold."""
FINEST = 2.0**-23
"""The least by which a float32 can differ from 1 on both sides, within a unit in the last place."""


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


def tilt(op: graph.Pool2dOp, source: UniformType, target: UniformType) -> float:
    """
    By how much a factor may differ from 1 so that it decides ties and nothing else, with a margin
    of two for the rounding of float32.
    """
    # Averages are multiples of `ratio / k`; those that are no tie keep half of the smallest off.
    distance = min(source.scale / target.scale, 1.0) / (2 * prod(op.kernel.get_values()))
    room = distance / (2 * target.reach)
    return max(2.0 ** np.floor(log2(room)), FINEST)


def tie_directions(
    op: graph.Pool2dOp, source: UniformType, target: UniformType
) -> NDArray[np.int64]:
    """
    For every position [OH, OW] 1 where ties leave zero, -1 where they approach it, and 0 where
    the reciprocal is exact and they go up. Scales are powers of two, and ties round half up.
    """
    _, height, width, _ = graph.shape_of(op.input)
    windows = counts(height, width, Window.of_operation(op))
    if op.includes_padding:
        windows = np.full_like(windows, prod(op.kernel.get_values()))
    directions = np.zeros_like(windows)
    for count in np.unique(windows).tolist():
        requant = graph.average_requant(op, count)
        # multiplier / 2^shift against ratio / count, both sides times count and powers of two.
        ours = requant.multiplier.data * count
        exact = 2.0**requant.shift.data * (source.scale / target.scale)
        directions[windows == count] = (ours > exact) - (ours < exact)
    return directions
