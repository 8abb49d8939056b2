"""
Analyze Q/DQ networks, and the ties of their sums.

The queries find quantized networks, calibrated networks, and data movement.
"""

from collections.abc import Sequence
from math import log2, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.windows import Window, counts
from ceras_ir.network.function import keeps_scale
from ceras_ir.network.storage import exponent, network_values
from ceras_ir.transforms.quantization.analysis.rescaling import has_power_scales, only_shifts

COMES_QUANTIZED = (
    "the Q/DQ nodes of a quantized model specify the precision; calibrate the float model instead"
)
"""The reason why options of quantization do not apply to a quantized model."""


def only_moves(op: graph.GraphOperation) -> bool:
    """
    Return whether an operation only moves elements or selects maxima. Return False for a padding,
    because it adds elements.
    """
    return not isinstance(op, graph.PadOp) and keeps_scale(op)


def carries_exponents(main: FuncOp) -> bool:
    """
    Return whether a network is calibrated: whether the exponent of the scale of any value is
    recorded.
    """
    return any(exponent(value) is not None for value in network_values(main.body.block))


def carries_quantization(module: ModuleOp) -> bool:
    """
    Return whether an operation of a network has a quantized result or dequantizes a computed value.
    Constants do not count: the result is False for a float network in which only weights are
    dequantized.
    """
    for op in module.walk():
        if isinstance(op, graph.GraphOperation) and not isinstance(op, graph.ConstantOp):
            if op.is_quantized:
                return True
            is_dequantized = isinstance(op, graph.DequantizeOp)
            if is_dequantized and not isinstance(op.input.owner, graph.ConstantOp):
                return True
    return False


def is_quantized_alike(op: graph.QuantizeOp) -> bool:
    """
    Return whether all consumers of the operand of `op` are quantizations to the same type, so that
    the float value is not needed.
    """
    users = [use.operation for use in op.input.uses]
    return all(isinstance(u, graph.QuantizeOp) and u.result.type == op.result.type for u in users)


def stored_types(op: Operation) -> list[UniformType]:
    """Return the quantized element types of the operands and results of an operation."""
    found = (graph.quantized_element(value) for value in (*op.operands, *op.results))
    return [element for element in found if element is not None]


def needs_multiplier(op: Operation) -> bool:
    """
    Return whether an operation has a requantization and a scale that is not a power of two, so that
    shifts are not sufficient.
    """
    return "requant" in op.properties and not all(map(has_power_scales, stored_types(op)))


def scaling_factors(op: Operation, requant: RequantAttr) -> list[tuple[float, float]]:
    """
    Return pairs of factors from a stored operand to the stored result of a quantized operation: the
    factor that `requant` and shifts apply, and the factor that follows from the scales of the
    types. There is a pair for each operand or each output channel. In a valid network both factors
    of a pair are nearly equal.
    """
    factors = np.array(requant.multipliers) / 2.0**requant.shift.data
    first = float(factors[0])
    operands, target = op.operands, graph.scale_of(op.results[0])
    match op:
        case graph.LinearOperation():
            scales = np.array([s.data for s in graph.stored_element(op.weights).scales])
            scales = graph.scale_of(op.input) * scales
            pairs = _pairs(factors, scales / target)
            if op.residual is not None:
                residual = graph.scale_of(op.residual) / np.broadcast_to(scales, (len(pairs),))
                pairs += _pairs(np.exp2(op.residual_shifts), residual)
            return pairs
        case graph.BinaryOp() if op.function is graph.Binary.MUL:
            return [(first, graph.scale_of(op.lhs) * graph.scale_of(op.rhs) / target)]
        case graph.BinaryOp():
            addends = [1.0, 1.0]
            if op.addends is not None:
                addends = [a.multiplier.data / 2.0**a.shift.data for a in op.addends]
            return [
                (first * factor * addend, graph.scale_of(side) / target)
                for side, factor, addend in zip(operands, op.factors, addends, strict=True)
            ]
        case graph.Pool2dOp():
            size = 1 if op.divides is not None else prod(op.kernel.get_values())
            return [(first * size, graph.scale_of(op.input) / target)]
        case _:
            return [(first, graph.scale_of(operands[0]) / target)]


def _pairs(actual: NDArray[np.float64], expected: NDArray[np.float64]) -> list[tuple[float, float]]:
    a, b = np.broadcast_arrays(actual, expected)
    return list(zip(a.tolist(), b.tolist(), strict=True))


# Ties of sums, derived from the float form of an operation between Q/DQ:
#
# 1. The accumulator of a quantized operation is a multiple of a unit. Averages over partial windows
#    are not, but their distance from a tie is at least that of full windows.
# 2. An average is a product of a sum and a fixed-point reciprocal. If the reciprocal is not exact,
#    it is slightly above or below 1/k, which moves a tie away from zero or towards zero. A factor
#    slightly above or below 1 has the same effect on an exact average, and changes no other result.

Units = NDArray[np.float64]
"""The unit of the accumulator, for the tensor or for each channel of the last axis."""
MAX_TIE_SHIFT = 25
"""The longest shift with ties. Ties of longer shifts exceed the precision of float32."""
MIN_TILT = 2.0**-23
"""The smallest difference from 1 that float32 can represent above and below 1."""


def tie_break_bounds(units: Units, multipliers: Sequence[int], shift: int) -> Units:
    """
    Return upper bounds of a constant that, added to real sums, changes only the rounding of ties:
    half a unit divided by the odd part of the multiplier. `units` are the units of the accumulator.
    The bound is 0 if no sum can be a tie.
    """
    trailing = np.array([(m & -m).bit_length() - 1 for m in multipliers])
    odd = np.array(multipliers) >> trailing
    has_ties = (odd == 1) | (shift - trailing <= MAX_TIE_SHIFT)
    return np.where(has_ties, units / (2 * odd), 0.0)


def accumulator_units(op: Operation, types: list[UniformType]) -> Units | None:
    """
    Return the real value of 1 in the accumulator of `op`, for the tensor or for each channel, if
    the operands are stored as `types`. Return `None` for functions, and for sums of operands
    without a common unit.
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


def max_tie_tilt(op: graph.Pool2dOp, source: UniformType, target: UniformType) -> float:
    """
    Return a small number t: multiplying an average by a factor from 1 - t to 1 + t changes only the
    rounding of ties. `source` and `target` are the stored types of operand and result.
    """
    # Averages are multiples of `ratio / k`. An average that is not a tie differs from a tie by half
    # of this or more.
    distance = min(source.scale / target.scale, 1.0) / (2 * prod(op.kernel.get_values()))
    room = distance / (2 * target.reach)
    return max(2.0 ** np.floor(log2(room)), MIN_TILT)


def tie_directions(
    op: graph.Pool2dOp, source: UniformType, target: UniformType
) -> NDArray[np.int64]:
    """
    Return the direction in which the requantization of an average pooling rounds ties at each
    position [OH, OW]: 1 away from zero, -1 towards zero, 0 half up.

    The multiplier approximates the ratio of the scales divided by the number of elements. If it is
    too large, ties are rounded away from zero; if too small, towards zero; if exact, half up.
    `source` and `target` are the stored types; the scales must be powers of two, and the rounding
    half up.
    """
    _, height, width, _ = graph.shape_of(op.input)
    windows = counts(height, width, Window.of_operation(op))
    if op.includes_padding:
        windows = np.full_like(windows, prod(op.kernel.get_values()))
    directions = np.zeros_like(windows)
    for count in np.unique(windows).tolist():
        requant = graph.average_requant(op, count)
        # Compare multiplier / 2^shift with ratio / count, both times count and a power of two.
        ours = requant.multiplier.data * count
        exact = 2.0**requant.shift.data * (source.scale / target.scale)
        directions[windows == count] = (ours > exact) - (ours < exact)
    return directions
