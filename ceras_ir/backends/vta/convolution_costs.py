"""
What convolutions take with a matrix of their windows that the host makes (im2col), beside what
they take as they are; in microseconds.
"""

from dataclasses import replace
from math import prod

from xdsl.ir import Operation

from ceras_ir.backends.vta.analysis.blocks import longest_row
from ceras_ir.backends.vta.analysis.estimates import estimate
from ceras_ir.backends.vta.analysis.tiling import best_blocks
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.placement import cycles_of, transfer
from ceras_ir.backends.vta.rules import graph_contraction, why_not
from ceras_ir.dialects import graph
from ceras_ir.dialects.mem import packed_shape
from ceras_ir.transforms.memory.analysis.liveness import byte_size


def im2col_pays(op: graph.Conv2dOp, board: VtaBoard) -> bool:
    """Whether the matrix takes less time, the host's work on it included."""
    _, kh, kw, channels = graph.shape_of(op.weights)
    if why_not(op, board) is not None:
        return False
    if -(-kh * kw * channels // board.block) >= kh * kw * -(-channels // board.block):
        # No fewer products than before, and a matrix to make.
        return False
    matrix = product_microseconds(op, board)
    if matrix is None:
        return False
    producer = op.input.owner
    here = isinstance(producer, Operation) and why_not(producer, board) is None
    matrix += host_microseconds(op, board) + here * transfer(op.input, board)
    direct = cycles_of(op, board) / board.clock + (not here) * transfer(op.input, board)
    return matrix < direct


def product_microseconds(op: graph.Conv2dOp, board: VtaBoard) -> float | None:
    """Of the product on VTA; None if it does not fit."""
    _, kh, kw, channels = graph.shape_of(op.weights)
    _, rows, columns, _ = graph.shape_of(op.result)
    shape = replace(
        graph_contraction(op, board),
        kblocks=-(-kh * kw * channels // board.block),
        height=rows,
        width=columns,
        kernel=(1, 1),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilations=(1, 1),
        outside=False,
    ).flattened(longest_row(board))
    blocks = best_blocks(shape, board)
    return None if blocks is None else estimate(shape, blocks, board) / board.clock


def host_microseconds(op: graph.Conv2dOp, board: VtaBoard) -> float:
    """
    Of making the matrix and of packing it: rows are gathered, then columns, then positions are
    put in order; each reads and writes.
    """
    n, _, width, channels = graph.shape_of(op.input)
    _, kh, kw, _ = graph.shape_of(op.weights)
    _, rows, columns, _ = graph.shape_of(op.result)
    _, left, _, right = op.padding.get_values()
    padded = any(op.padding.get_values()) * 2 * byte_size(op.input)
    gathered = n * rows * kh * (width + left + right) * channels
    matrix = n * rows * columns * kh * kw * channels
    packed = prod(packed_shape((n, rows, columns, kh * kw * channels), board.vector))
    return (padded + 2 * gathered + 4 * matrix + packed) / board.host_bytes_per_us
