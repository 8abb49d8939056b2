"""Choose the blocks of each contraction by the cost model, and expand it."""

from dataclasses import dataclass
from typing import Literal, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.kernels.convolution import ConvolutionExpansion, MaximumExpansion
from ceras_ir.backends.vta.kernels.pooling import AverageExpansion, MaxExpansion, pooling_of
from ceras_ir.backends.vta.kernels.s3 import S3Expansion
from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.machine.isa import VtaBoardOptions
from ceras_ir.backends.vta.schedule.blocks import Blocks, S3Blocks, longest_row, misfit, s3_misfit
from ceras_ir.backends.vta.schedule.contraction import Contraction, contraction_of
from ceras_ir.backends.vta.schedule.search import (
    Convolution,
    Limits,
    averaging_blocks,
    best_blocks,
    pooling_blocks,
    search_all,
)
from ceras_ir.dialects import tile
from ceras_ir.support.diagnostics import UnsupportedError
from ceras_ir.support.options import options, with_options_of
from ceras_ir.targets.shared_options import ScheduleJobsOptions
from ceras_ir.transforms.pass_kinds import PipelinePass

Schedule = Literal["auto", "serial", "alg1", "alg2", "alg3"]


@options
class WindowOptions(VtaBoardOptions):
    """The options of `schedule-tiles` and `tune-tiles` for windows of several taps."""

    convolution: Convolution = "auto"
    """
    direct: loads the inputs of all taps of windows; kn2row: loads shifted inputs for each tap in
    turn if such a schedule fits; auto: the cheaper method.
    """


@options
class BlockOptions:
    """The loops and the blocks that `schedule-tiles` may choose."""

    schedule: Schedule = "auto"
    """
    auto: overlaps transfers with computation; serial: a single buffer of each kind; alg1, alg2,
    alg3: the loop nests of paper S3, for matrix products only.
    """
    mblock: int | None = None
    """The maximum number of output positions in a block."""
    kblock: int | None = None
    """Input channels in a block."""
    nblock: int | None = None
    """Output channels in a block."""


@options
class ScheduleOptions(ScheduleJobsOptions, WindowOptions, BlockOptions):
    """The options of `schedule-tiles`, including the board and the limits of schedules."""


@dataclass(frozen=True)
class ScheduleTilesPass(ScheduleOptions, ModulePass):
    """
    Set the cheapest schedule with blocks that fit `board` on each `tile.conv2d` without a schedule.

    No value changes: a schedule only determines the order.

    Before:

        !m = memref<1x1x1x8x16xi8, "dram">
        !w = memref<1x1x1x1x16x16xi8, "dram">
        !b = memref<1x16xi32, "dram">
        func.func @kernel(%x: !m, %w: !w, %b: !b, %y: !m) {
          tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>,
              padding = array<i64: 0, 0, 0, 0>, shift = 7, low = 0, high = 127} : !m, !w, !b to !m
          func.return
        }

    After:

        #blocks = #tile.schedule<rows = 1, columns = 8, kblock = 1, nblock = 1, inp_stages = 2,
            wgt_stages = 2, acc_stages = 2, order = nmk>
        func.func @kernel(%x: !m, %w: !w, %b: !b, %y: !m) {
          tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>,
              padding = array<i64: 0, 0, 0, 0>, shift = 7, low = 0, high = 127, schedule = #blocks}
              : !m, !w, !b to !m
          func.return
        }
    """

    name = "schedule-tiles"

    def __post_init__(self) -> None:
        if self.jobs == 0 or self.jobs < -1:
            raise ValueError(f"jobs must be at least 1, or -1 for all cores, got {self.jobs}")
        for field in ("mblock", "kblock", "nblock"):
            if (value := getattr(self, field)) is not None and value < 1:
                raise ValueError(f"{field} must be at least 1, got {value}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        board = load_board(self.board)
        shapes = {
            contraction: contraction_of(contraction).flattened(longest_row(board))
            for contraction in op.walk()
            if isinstance(contraction, tile.Conv2dOp) and contraction.schedule is None
        }
        if self.schedule in ("auto", "serial"):
            search_all(shapes.values(), board, self._limits(board), self.jobs)
        for contraction, shape in shapes.items():
            blocks = self._blocks(shape, board)
            if blocks is None:
                raise UnsupportedError(
                    f"unsupported block sizes: no schedule with mblock={self.mblock} "
                    f"kblock={self.kblock} nblock={self.nblock} fits the buffers of "
                    f"'{self.board}' for {contraction.weights.type}; omit some of them"
                )
            contraction.schedule = blocks.attribute()

    def _sizes(self, board: VtaBoard) -> tuple[int | None, int | None, int | None]:
        k, n = (c and -(-c // board.block) for c in (self.kblock, self.nblock))
        return self.mblock, k, n

    def _limits(self, board: VtaBoard) -> Limits:
        return Limits(*self._sizes(board), self.schedule == "serial", self.convolution)

    def _blocks(self, shape: Contraction, board: VtaBoard) -> Blocks | None:
        if self.schedule in ("auto", "serial"):
            return best_blocks(shape, board, self._limits(board))
        order, sizes = tile.Order(self.schedule), self._sizes(board)
        blocks = S3Blocks(order, *sizes).blocks(shape, board)
        if reason := s3_misfit(shape, blocks, board):
            raise UnsupportedError(f"unsupported schedule={self.schedule}: {reason}")
        return blocks


@dataclass(frozen=True)
class ExpandTilesPass(VtaBoardOptions, ModulePass):
    """
    Replace each pooling, and each `tile.conv2d` with a schedule, by `scf.for` loops around loads,
    GEMMs, ALU operations and stores. Convolutions without a schedule are not changed.

    Exact: a single block computes each output position from a cleared accumulator, and adds the
    same products in a different order. Positions and channels of the last block outside the tensor
    are computed from zeros and not stored.

    Before:

        !x = memref<1x2x1x8x16xi8, "dram">
        !w = memref<1x2x1x1x16x16xi8, "dram">
        !b = memref<1x16xi32, "dram">
        !y = memref<1x1x1x8x16xi8, "dram">
        #blocks = #tile.schedule<rows = 1, columns = 8, kblock = 1, nblock = 1, inp_stages = 1,
            wgt_stages = 1, acc_stages = 1, order = nmk>
        func.func @conv(%x: !x, %w: !w, %b: !b, %y: !y) {
          tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>,
              padding = array<i64: 0, 0, 0, 0>, shift = 0, low = -128, high = 127, never_below,
              never_above, uniform_bias = 0, schedule = #blocks} : !x, !w, !b to !y
          func.return
        }

    After:

        !x3 = memref<1x2x8x16xi8, "dram">
        !y3 = memref<1x1x8x16xi8, "dram">
        !w2 = memref<1x2x16x16xi8, "dram">
        !inp = memref<1x8x1x16xi8, "inp">
        !wgt = memref<1x16x16xi8, "wgt">
        !acc = memref<1x8x1x16xi32, "acc">
        func.func @conv(%x: !x, %w: !w, %b: !b, %y: !y) {
          %0 = arith.constant 0 : index
          %2 = arith.constant 2 : index
          %1 = arith.constant 1 : index
          %vx = tile.view %x : !x to !x3
          %vy = tile.view %y : !y to !y3
          %vw = tile.view %w : !w to !w2
          %inp = memref.alloc() : memref<1x1x8x1x16xi8, "inp">
          %wgt = memref.alloc() : memref<1x1x16x16xi8, "wgt">
          %acc = memref.alloc() : memref<1x1x8x1x16xi32, "acc">
          %c = tile.rotate %acc : memref<1x1x8x1x16xi32, "acc"> to !acc
          tile.clear %c[] {extents = array<i64: 8>} : !acc
          scf.for %k = %0 to %2 step %1 {
            %i = tile.rotate %inp : memref<1x1x8x1x16xi8, "inp"> to !inp
            %t = tile.rotate %wgt : memref<1x1x16x16xi8, "wgt"> to !wgt
            tile.load %vx[%0, %k, %0] to %i[] {box = array<i64: 1, 8>} : !x3 to !inp
            tile.load %vw[%0, %k] to %t[] {box = array<i64: 1, 1>} : !w2 to !wgt
            tile.gemm %c[], %i[], %t[] {extents = array<i64: 1, 8>, acc_strides = array<i64: 8, 1>,
                inp_strides = array<i64: 8, 1>, wgt_strides = array<i64: 0, 0>} : !acc, !inp, !wgt
          }
          tile.store %c[] to %vy[%0, %0, %0] {box = array<i64: 1, 8>} : !acc to !y3
          func.return
        }
    """

    name = "expand-tiles"

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
            convolution = MaximumExpansion if shape.maximum else ConvolutionExpansion
            (S3Expansion if s3 else convolution)(contraction, blocks.view(shape), blocks).build()
            contraction.detach()
            contraction.erase()


Sizes = TypeVar("Sizes")


def _fitting(op: Operation, sizes: Sizes | None) -> Sizes:
    if sizes is None:
        raise UnsupportedError(f"unsupported '{op.name}': no block of it fits the board's buffers")
    return sizes


@dataclass(frozen=True)
class TilePass(ScheduleOptions, PipelinePass):
    """Run `schedule-tiles` with these options, then `expand-tiles`."""

    name = "tile"

    def passes(self) -> tuple[ModulePass, ...]:
        return (
            with_options_of(ScheduleTilesPass, self),
            with_options_of(ExpandTilesPass, self),
        )
