"""
Where averages of quantized numbers go that lie half way between two results.

The quantized operation multiplies a sum by a reciprocal of fixed point, which is a little more or
less than 1/k unless it is exact, so that a tie goes away from zero or towards it. What does the
same to a true average, and to no other number, is a factor a little more or less than 1.
"""

from math import log2, prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.windows import Window, counts

FINEST = 2.0**-23
"""The least by which a float32 can differ from 1 on both sides, within a unit in the last place."""


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
