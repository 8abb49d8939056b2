"""Turn scheduled contractions into loops over blocks in scratchpads."""

from dataclasses import dataclass
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.board import load_board
from ceras_ir.backends.vta.hardware import DEFAULT_BOARD_NAME
from ceras_ir.backends.vta.rewrites.expand_convolution import ConvolutionExpansion
from ceras_ir.backends.vta.rewrites.expand_maximum import MaximumExpansion
from ceras_ir.backends.vta.rewrites.expand_pool import AverageExpansion, MaxExpansion, pooling_of
from ceras_ir.backends.vta.rewrites.expand_s3 import S3Expansion
from ceras_ir.backends.vta.schedule.blocks import Blocks, longest_row, misfit
from ceras_ir.backends.vta.schedule.contraction import contraction_of
from ceras_ir.backends.vta.schedule.pooling_blocks import averaging_blocks, pooling_blocks
from ceras_ir.backends.vta.schedule.s3 import s3_misfit
from ceras_ir.dialects import tile
from ceras_ir.support.diagnostics import UnsupportedError


@dataclass(frozen=True)
class ExpandTilesPass(ModulePass):
    """
    Replace every pooling, and every `tile.conv2d` with a schedule, by `scf.for` loops around loads,
    GEMMs, ALU operations and stores. Convolutions without a schedule are left.

    Exact: one block computes each output position from a cleared accumulator, and adds the same
    products in another order. Positions and channels of the last block beyond the tensor are
    computed from zeros and never stored.
    """

    name = "expand-tiles"

    board: str = DEFAULT_BOARD_NAME
    """The board: a name or VTA's .json file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        board = load_board(self.board)
        for pool in list(op.walk()):
            if isinstance(pool, tile.MaxPoolOp):
                sizes = _fitting(pool, pooling_blocks(shape := pooling_of(pool), board))
                MaxExpansion(pool, shape, *sizes).build()
            elif isinstance(pool, tile.AveragePoolOp):
                tiles = tile.memref_type(pool.weights).get_shape()[0]
                blocks = averaging_blocks(shape := pooling_of(pool), tiles, board)
                AverageExpansion(pool, shape, *_fitting(pool, blocks)).build()
            else:
                continue
            pool.detach()
            pool.erase()
        for contraction in list(op.walk()):
            if not isinstance(contraction, tile.Conv2dOp) or contraction.schedule is None:
                continue
            blocks = Blocks.of(contraction.schedule)
            shape = contraction_of(contraction).flattened(longest_row(board))
            s3 = blocks.order.is_s3
            if reason := (s3_misfit if s3 else misfit)(shape, blocks, board):
                raise UnsupportedError(
                    f"unsupported schedule {contraction.schedule} on '{self.board}': {reason}"
                )
            whole = MaximumExpansion if shape.maximum else ConvolutionExpansion
            (S3Expansion if s3 else whole)(contraction, blocks.view(shape), blocks).build()
            contraction.detach()
            contraction.erase()


Sizes = TypeVar("Sizes")


def _fitting(op: Operation, sizes: Sizes | None) -> Sizes:
    """The blocks of a pooling, which the rules for VTA have found to exist."""
    if sizes is None:
        raise UnsupportedError(f"unsupported '{op.name}': no block of it fits the board's buffers")
    return sizes
