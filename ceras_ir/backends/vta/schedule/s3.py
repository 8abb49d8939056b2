"""
Block sizes of S3's Algorithms 1 to 3 (two-stage tiling of a matrix product), and what they need.

They exist to be compared with: their loop nests are the paper's, not the search's.
"""

from dataclasses import dataclass

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.schedule.blocks import Blocks, capacities
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.dialects.tile import Order


@dataclass(frozen=True)
class S3Blocks:
    """What the user fixes, in positions and vectors; None is the default of the algorithm."""

    order: Order
    mblock: int | None = None
    kblock: int | None = None
    nblock: int | None = None

    def blocks(self, shape: Contraction, board: VtaBoard) -> Blocks:
        """
        Algorithms 1 and 2 have blocks of one intrinsic for as many positions as it has lanes
        (16 x 16 in S3), as S3's second stage. Algorithm 3 fills the accumulators with an M-block
        of all N, and takes as much of K as two buffers hold.
        """
        step = board.block
        rows = _whole(shape.columns, step)
        if self.order is not Order.ALG3:
            m = min(self.mblock or step, rows)
            k, n = min(self.kblock or 1, shape.kblocks), min(self.nblock or 1, shape.nblocks)
            return Blocks(1, _whole(m, step), k, n, (1, 1, 1), self.order)
        free = board.acc - shape.constants * shape.nblocks
        most = max(step, free // shape.nblocks // step * step)
        tiles = board.wgt - shape.bias_tiles * shape.nblocks
        vectors = board.inp - shape.has_products
        deepest = max(1, min(vectors // (2 * step), tiles // 2, shape.kblocks))
        m, k = min(self.mblock or most, rows), min(self.kblock or deepest, shape.kblocks)
        return Blocks(1, _whole(m, step), k, 1, (2, 2, 1), self.order)


def s3_misfit(shape: Contraction, blocks: Blocks, board: VtaBoard) -> str | None:
    """Why an algorithm of S3 cannot run, or None."""
    if shape.swish:
        return "S3's algorithms have no swish; use schedule=auto"
    if not shape.is_flat or shape.groups > 1:
        return "S3's algorithms are for matrix products; use schedule=auto for convolutions"
    if blocks.positions % (step := board.block):
        return f"its M-block must be a multiple of {step} positions, got {blocks.positions}"
    if blocks.order is Order.ALG2 and (over := -shape.columns % blocks.positions) >= step:
        return (
            f"blocks of {blocks.positions} rows go {over} beyond the matrix, at most "
            f"{step - 1} can be padded"
        )
    alg3 = blocks.order is Order.ALG3
    rows = step if alg3 else blocks.positions
    needs = {
        "inp": blocks.stages[0] * rows * blocks.kblock + shape.has_products,
        "wgt": blocks.stages[1] * blocks.nblock * blocks.kblock + shape.bias_tiles * shape.nblocks,
        "acc": (blocks.positions + shape.constants) * shape.nblocks,
    }
    for name, need in needs.items():
        if need > (size := capacities(board)[name]):
            return f"its blocks need {need} elements of {name}, the board has {size}"
    return None


def _whole(positions: int, step: int) -> int:
    return -(-positions // step) * step
