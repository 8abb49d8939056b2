"""
What convolutions take with parts of their windows side by side, which the host makes, beside what
they take as they are; in microseconds.
"""

from dataclasses import replace
from math import prod

from xdsl.ir import Operation

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.placement import cycles_of, transfer
from ceras_ir.backends.vta.rules import graph_contraction, why_not
from ceras_ir.backends.vta.schedule.blocks import longest_row
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.backends.vta.schedule.cost import estimate
from ceras_ir.backends.vta.schedule.tiling import best_blocks
from ceras_ir.backends.vta.schedule.windows import Windows
from ceras_ir.dialects import graph
from ceras_ir.dialects.mem_packing import packed_shape

COMPARED = 4
"""Ways, the best by products and bytes alone, whose schedules are searched for."""


def best_windows(op: graph.Conv2dOp, board: VtaBoard) -> Windows | None:
    """
    The parts of its windows with which `op` takes the least time, the host's work included; None
    where it takes less as it is.
    """
    _, kh, kw, channels = graph.shape_of(op.weights)
    if prod(op.dilations.get_values()) != 1 or why_not(op, board) is not None:
        return None
    shape = graph_contraction(op, board)
    ways: list[tuple[float, int, Windows]] = []
    for windows in Windows.of((kh, kw), (shape.strides[0], shape.strides[1])):
        fewer = _with(windows, shape, channels, board)
        if fewer.taps * fewer.kblocks < shape.taps * shape.kblocks:
            cycles = fewer.taps * fewer.kblocks * shape.nblocks * shape.rows * shape.columns
            rough = shape.batch * cycles / board.clock + host_microseconds(op, windows, board)
            ways.append((rough, len(ways), windows))
    if not ways:
        return None
    producer = op.input.owner
    here = isinstance(producer, Operation) and why_not(producer, board) is None
    plain = packed_shape(graph.shape_of(op.input), board.vector)
    moved = prod(graph.shape_of(op.input)) + prod(plain)
    best, least = None, cycles_of(op, board) / board.clock
    least += (not here) * moved / board.host_bytes_per_us
    for _, _, windows in sorted(ways)[:COMPARED]:
        time = product_microseconds(op, windows, board)
        if time is None:
            continue
        time += host_microseconds(op, windows, board) + here * transfer(op.input, board)
        if time < least:
            best, least = windows, time
    return best


def product_microseconds(op: graph.Conv2dOp, windows: Windows, board: VtaBoard) -> float | None:
    """Of the convolution that is left on VTA; None if it does not fit."""
    channels = graph.shape_of(op.weights)[-1]
    shape = _with(windows, graph_contraction(op, board), channels, board)
    shape = shape.flattened(longest_row(board))
    blocks = best_blocks(shape, board)
    return None if blocks is None else estimate(shape, blocks, board) / board.clock


def _with(windows: Windows, shape: Contraction, channels: int, board: VtaBoard) -> Contraction:
    """The convolution that is left of `shape`."""
    height, width = windows.plane((shape.rows, shape.columns))
    return replace(
        shape,
        kblocks=-(-prod(windows.size) * channels // board.block),
        height=height,
        width=width,
        kernel=windows.kernel,
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilations=windows.dilations,
        outside=False,
        border_tiles=0,
    )


def host_microseconds(op: graph.Conv2dOp, windows: Windows, board: VtaBoard) -> float:
    """Of packing the parts: every element of them is read, every lane written."""
    n, _, _, channels = graph.shape_of(op.input)
    _, rows, columns, _ = graph.shape_of(op.result)
    parts = (n, *windows.plane((rows, columns)), prod(windows.size) * channels)
    return (prod(parts) + prod(packed_shape(parts, board.vector))) / board.host_bytes_per_us
