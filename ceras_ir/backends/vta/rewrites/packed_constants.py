"""Constants of a layer in the layout of a board's intrinsic: tiles, and vectors of B lanes."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ceras_ir.backends.vta.averaging import Averaging, multiplier_digits
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.channel_constants import border_values, folded_bias
from ceras_ir.backends.vta.channel_groups import widened
from ceras_ir.backends.vta.constant_products import digits, radix
from ceras_ir.backends.vta.hardware import RESIDUAL_WEIGHT_BITS
from ceras_ir.backends.vta.rescaling import further_shifts
from ceras_ir.backends.vta.schedule.borders import borders_of
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType

Array = NDArray[np.generic]


def packed_weights(op: graph.LinearOperation, board: VtaBoard) -> graph.ConstantOp:
    """
    [O, KH, KW, C] or [N, K] as [O/B, C/B, KH, KW, B out, B in], zeros in added lanes and between
    groups.
    """
    plain, lanes = graph.known_array(op.weights), board.block
    if isinstance(op, graph.Conv2dOp):
        plain = widened(op, plain, lanes)
    if plain.ndim == 2:
        plain = plain[:, None, None, :]
    o, kh, kw, c = plain.shape
    padded = np.pad(plain, ((0, -o % lanes), (0, 0), (0, 0), (0, -c % lanes)))
    split = padded.reshape(-1, lanes, kh, kw, padded.shape[3] // lanes, lanes)
    tiles = np.ascontiguousarray(split.transpose(0, 4, 2, 3, 1, 5))
    return graph.ConstantOp.from_array(tiles, UniformType(_scale(op.weights)))


def packed_bias(op: graph.LinearOperation, shape: Contraction, board: VtaBoard) -> graph.ConstantOp:
    """The bias with all constants in it that are known, as `_added`."""
    scale = _scale(op.input) * _scale(op.weights)
    return _added(folded_bias(op), board, shape.bias_tiles, scale)


def packed_shifts(op: graph.LinearOperation, board: VtaBoard) -> graph.ConstantOp:
    """By how many bits each channel goes right after all have, in the layout of the bias."""
    assert op.requant is not None
    return _vectors(np.array(further_shifts(op.requant), np.int64), board)


def uniform_shifts(op: graph.LinearOperation, board: VtaBoard) -> tuple[int, ...]:
    """What all lanes of each vector of `packed_shifts` are; -1 where they differ."""
    assert op.requant is not None
    shifts = np.array(further_shifts(op.requant), np.int64)
    blocks = np.pad(shifts, (0, -len(shifts) % board.block), "edge").reshape(-1, board.block)
    alike = blocks.min(axis=1) == blocks.max(axis=1)
    return tuple(np.where(alike, blocks[:, 0], -1).tolist())


def border_sums(op: graph.LinearOperation, shape: Contraction, board: VtaBoard) -> graph.ConstantOp:
    """What the zero point around the input contributes to sums at the edge, as `_added`."""
    return _added(border_values(op, borders_of(shape)), board, shape.border_tiles)


def packed_radix(board: VtaBoard) -> graph.ConstantOp:
    """What the digits of constants count, in every row of a vector."""
    rows = np.broadcast_to(radix(board.block), board.vector)
    return graph.ConstantOp.from_array(np.ascontiguousarray(rows), UniformType(1.0))


def one_number(value: int, *shape: int) -> graph.ConstantOp:
    """An int32 that every lane has."""
    array = np.full(shape, value, np.int32)
    return graph.ConstantOp.from_array(array, UniformType(1.0, storage=i32))


def residual_weights(op: graph.LinearOperation, board: VtaBoard) -> graph.ConstantOp:
    """
    The diagonal [B, B] that moves a residual left by up to six bits; [O/B, B, B] where channels go
    by different numbers of bits.
    """
    shifts = np.array(op.residual_shifts) - common_residual_shift(op)
    if len(shifts) == 1:
        return diagonal(1 << int(shifts[0]), board)
    lanes = np.pad(shifts, (0, -len(shifts) % board.block), "edge").reshape(-1, 1, board.block)
    tiles = np.eye(board.block, dtype=np.int64) << lanes
    return graph.ConstantOp.from_array(tiles.astype(np.int8), UniformType(1.0))


def common_residual_shift(op: graph.LinearOperation) -> int:
    """By how many bits the residual of every channel goes left behind these weights."""
    return max(0, max(op.residual_shifts) - RESIDUAL_WEIGHT_BITS)


def diagonal(factor: int, board: VtaBoard) -> graph.ConstantOp:
    """The tile that multiplies every lane by a factor."""
    tile = np.eye(board.block, dtype=np.int64) * factor
    return graph.ConstantOp.from_array(tile.astype(np.int8), UniformType(1.0))


def averaging_weights(a: Averaging, board: VtaBoard) -> graph.ConstantOp:
    """The digits of the multiplier as tiles [1 or 2, B, B]."""
    eye = np.eye(board.block, dtype=np.int64)
    tiles = np.stack([eye * digit for digit in multiplier_digits(a)])
    return graph.ConstantOp.from_array(tiles.astype(np.int8), UniformType(1.0))


def swish_constants(op: graph.ShiftSwishOp, board: VtaBoard) -> graph.ConstantOp:
    """The bends of every channel, negated, then the third and the fourth: [7, O/B, B]."""
    channels = graph.shape_of(op.result)[-1]
    bends = np.array(op.channel_bends, np.int32)
    rows = np.broadcast_to(bends, (channels, 5)).T
    return _vectors(np.concatenate([-rows, rows[2:4]]), board)


def _added(
    channels: NDArray[np.integer], board: VtaBoard, tiles: int, scale: float = 1.0
) -> graph.ConstantOp:
    """
    Constants of channels [.., O] as [.., O/B, B], or their digits in `tiles` [.., O/B, T, B, B].
    Added lanes repeat the last channel of a bias, so that one number stays one; others are zero.
    """
    if not tiles:
        return _vectors(channels, board, scale, "edge" if channels.ndim == 1 else "constant")
    ends = [(0, 0)] * (channels.ndim - 1) + [(0, -channels.shape[-1] % board.block)]
    padded = np.pad(channels, ends)
    vectors = padded.reshape(*channels.shape[:-1], -1, board.block)
    packed = digits(vectors, tiles, board.block).swapaxes(-3, -2)
    return graph.ConstantOp.from_array(np.ascontiguousarray(packed), UniformType(scale))


def _vectors(
    channels: NDArray[np.integer],
    board: VtaBoard,
    scale: float = 1.0,
    pad: Literal["edge", "constant"] = "edge",
) -> graph.ConstantOp:
    """int32 of channels [.., O] as [.., O/B, B], or [.., O/B, R, B] with equal rows."""
    ends = [(0, 0)] * (channels.ndim - 1) + [(0, -channels.shape[-1] % board.block)]
    padded = np.pad(channels.astype(np.int32), ends, mode=pad)
    packed = padded.reshape(*channels.shape[:-1], -1, *(1,) * (len(board.vector) - 1), board.block)
    full = np.broadcast_to(packed, (*packed.shape[: -len(board.vector)], *board.vector))
    return graph.ConstantOp.from_array(np.ascontiguousarray(full), UniformType(scale, storage=i32))


def _scale(value: SSAValue) -> float:
    """The scale for the type of a packed constant; 1 where each channel has its own."""
    element = graph.quantized_element(value)
    return 1.0 if element is None or element.is_per_axis else element.scale
