"""
What is added to the sums of every output channel: the bias with all that is folded into it, and
what zero points around the input contribute at its edge; and which of it the GEMM core can add.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.constant_products import tiles_for
from ceras_ir.backends.vta.hardware import is_immediate
from ceras_ir.backends.vta.rescaling import rescaling_constants, zero_point
from ceras_ir.backends.vta.schedule.borders import Borders, borders_of
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.dialects import graph

TILES_FOR_CONSTANTS = 4
"""Constants take at most so great a part of the weight buffer, which products need."""


def has_computed_weights(op: graph.LinearOperation) -> bool:
    """Whether the host packs the weights, in each run."""
    return graph.constant_array(op.weights) is None


def computed_point(op: graph.LinearOperation) -> int:
    """The zero point of the input of which only the host can tell what it contributes; else 0."""
    return zero_point(op.input) if has_computed_weights(op) else 0


def folded_bias(op: graph.LinearOperation) -> NDArray[np.int64]:
    """
    What is added to the sum of products of stored numbers, for every output channel, before a
    floor shift: the bias, half a unit for rounding, and what zero points contribute, but for that
    of the input where weights are computed.
    """
    assert op.requant is not None
    channels = graph.shape_of(op.result)[-1]
    bias = np.zeros(channels, np.int64) + np.array(rescaling_constants(op.requant), np.int64)
    if not has_computed_weights(op):
        weights = graph.known_array(op.weights).astype(np.int64)
        bias -= zero_point(op.input) * weights.reshape(channels, -1).sum(axis=1)
    if op.residual is not None:
        bias -= zero_point(op.residual) << np.array(op.residual_shifts)
    if op.bias is not None:
        bias += graph.known_array(op.bias).astype(np.int64)
    return bias


def is_bordered(op: graph.LinearOperation) -> bool:
    """Whether the number around the input is not zero, with which loads pad."""
    padded = isinstance(op, graph.Conv2dOp) and any(op.padding.get_values())
    return padded and zero_point(op.input) != 0


def border_values(op: graph.LinearOperation, borders: Borders) -> NDArray[np.int64]:
    """
    What the zero point around the input contributes to sums at the edge, as [n, O]: for runs of
    rows, for runs of columns, and, because it is in both, negated for where they meet.
    """
    taps = graph.known_array(op.weights).astype(np.int64).sum(axis=3) * zero_point(op.input)
    down = [taps[:, list(run.taps)] for run in borders.rows]
    across = [list(run.taps) for run in borders.columns]
    kinds = [*down, *(taps[:, :, run] for run in across)]
    kinds += [-rows[:, :, run] for rows in down for run in across]
    return np.stack([kind.sum(axis=(1, 2)) for kind in kinds])


def with_products(shape: Contraction, op: graph.LinearOperation, board: VtaBoard) -> Contraction:
    """`shape`, the constants of `op` told: which are added as products, and what the bias takes."""
    bias, borders = folded_bias(op), borders_of(shape)
    most = board.wgt // TILES_FOR_CONSTANTS
    blocks = shape.nblocks * shape.groups
    by_host = computed_point(op) != 0
    is_one = not by_host and bool(np.all(bias == bias[0])) and is_immediate(int(bias[0]))
    bias_tiles = 0 if is_one or by_host else tiles_for(bias, board.block)
    if bias_tiles * blocks > most:
        bias_tiles = 0
    border_tiles = 0
    if borders.constants:
        border_tiles = tiles_for(border_values(op, borders), board.block)
        if blocks * (borders.constants * border_tiles + bias_tiles) > most:
            border_tiles = 0
    cycles = int(bool(bias[0])) if is_one else bias_tiles or 2
    return replace(shape, bias_cycles=cycles, bias_tiles=bias_tiles, border_tiles=border_tiles)
