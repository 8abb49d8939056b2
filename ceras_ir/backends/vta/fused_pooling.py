"""Which maxima over windows are taken of a convolution's sums, before these are rescaled."""

from dataclasses import replace

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.pooling_rules import graph_pooling
from ceras_ir.backends.vta.rules import graph_contraction
from ceras_ir.backends.vta.schedule.blocks import longest_row
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.backends.vta.schedule.cost import estimate
from ceras_ir.backends.vta.schedule.pooling_blocks import maximum_cycles, pooling_blocks
from ceras_ir.backends.vta.schedule.tiling import best_blocks
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.tile import WindowMaximum


def window_maximum(op: graph.Pool2dOp) -> WindowMaximum:
    """The windows of `op`."""
    top, left, _, _ = op.padding.get_values()
    return WindowMaximum.of((*op.kernel.get_values(), *op.strides.get_values(), top, left))


def maximum_after(op: graph.LinearOperation, board: VtaBoard) -> graph.Pool2dOp | None:
    """
    The maximum over windows that comes next, is the only reader of `op` on the same device, and
    costs less with it.
    """
    if not isinstance(op, graph.Conv2dOp):
        return None
    pool = op.next_op
    while isinstance(pool, graph.ConstantOp):
        pool = pool.next_op
    if not isinstance(pool, graph.Pool2dOp) or pool.function is not Pool.MAX:
        return None
    if pool.input is not op.result or not op.result.has_one_use() or op.residual is not None:
        return None
    if mem.device_of(pool) != mem.device_of(op) or set(pool.dilations.get_values()) != {1}:
        return None
    maximum, (_, rows, columns, _) = window_maximum(pool), graph.shape_of(op.result)
    shape = graph_contraction(op, board)
    if shape.groups > 1 or not maximum.fits(rows, columns):
        return None
    if graph.shape_of(pool.result)[1:3] != maximum.results(rows, columns):
        return None
    return pool if _pays(pool, replace(shape, maximum=maximum), board) else None


def _pays(pool: graph.Pool2dOp, fused: Contraction, board: VtaBoard) -> bool:
    """Whether `fused` takes less than the convolution and the maximum one after the other."""
    alone, windows = replace(fused, maximum=None), graph_pooling(pool, board)
    blocks, sizes = best_blocks(fused, board), pooling_blocks(windows, board)
    if blocks is None or sizes is None:
        return blocks is not None
    apart = best_blocks(flat := alone.flattened(longest_row(board)), board)
    if apart is None:
        return True
    cycles = estimate(flat, apart, board) + maximum_cycles(windows, *sizes) * windows.planes
    return estimate(fused, blocks, board) < cycles
