"""
Groups of channels as groups of blocks of channels.

A convolution's groups are narrower than a block, or do not end where blocks end; so several
together become one group of blocks, whose weights are zero between channels of different groups.
"""

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.channel_groups import block_diagonal
from ceras_ir.dialects import graph


def groups_together(op: graph.LinearOperation, block: int) -> int:
    """
    How many of the convolution's groups make one group of blocks of so many channels: the fewest
    that begin and end at blocks of input and output alike, or all of them. 1 for a matrix product.
    """
    if not isinstance(op, graph.Conv2dOp):
        return 1
    groups = op.group_count
    inputs, outputs = graph.shape_of(op.input)[-1], graph.shape_of(op.weights)[0]
    for together in range(1, groups):
        count = -(-groups // together)
        widths = [n // groups * together for n in (inputs, outputs)]
        whole = all(width % block == 0 for width in widths)
        if whole and all(
            -(-n // block) == count * width // block
            for n, width in zip((inputs, outputs), widths, strict=True)
        ):
            return together
    return groups


def block_groups(op: graph.LinearOperation, block: int) -> int:
    """How many groups of blocks there are."""
    if not isinstance(op, graph.Conv2dOp):
        return 1
    return -(-op.group_count // groups_together(op, block))


def widened(op: graph.Conv2dOp, weights: NDArray[np.generic], block: int) -> NDArray[np.generic]:
    """Weights [O, KH, KW, C/groups] for all channels of a group of blocks, zeros between groups."""
    return block_diagonal(weights, op.group_count, groups_together(op, block))
