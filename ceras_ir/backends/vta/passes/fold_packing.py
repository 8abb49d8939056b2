"""Keep the accelerator's layout between neighbouring launches."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.backends.vta.rewrites.folded_windows import folded_windows
from ceras_ir.dialects import graph, mem


class CancelPackOfUnpack(RewritePattern):
    """
    `pack(unpack(x))` becomes `x`.

    Exact where packed values are read by launches, whose weights are zero in lanes past the
    last channel, and by `mem.unpack`, which drops those lanes.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: mem.PackOp, rewriter: PatternRewriter, /):
        unpack = op.input.owner
        if not isinstance(unpack, mem.UnpackOp) or unpack.input.type != op.result.type:
            return
        if not _only_for_vta(op):
            return
        rewriter.replace(op, [], [unpack.input])
        if not unpack.result.uses:
            rewriter.erase(unpack)


class PackOfFlattened(RewritePattern):
    """
    `pack(reshape(unpack(x)))` becomes `reshape(x)` where one position of one image becomes a row.

    Exact where the first pattern is: both layouts are the vectors of channels in order.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: mem.PackOp, rewriter: PatternRewriter, /):
        reshape = op.input.owner
        if not isinstance(reshape, graph.ReshapeOp):
            return
        unpack = reshape.input.owner
        if not isinstance(unpack, mem.UnpackOp) or not _only_for_vta(op):
            return
        shapes = graph.shape_of(unpack.result), graph.shape_of(op.input)
        channels = shapes[1][-1]
        if set(shapes) != {(1, 1, 1, channels), (1, channels)}:
            return
        rewriter.replace(op, graph.ReshapeOp(unpack.input, graph.shape_of(op.result)))
        if not reshape.result.uses:
            rewriter.erase(reshape)


class SharePack(RewritePattern):
    """A value that is packed twice is packed once, where it is made."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: mem.PackOp, rewriter: PatternRewriter, /):
        block = op.parent
        assert block is not None
        packs = [u.operation for u in op.input.uses if isinstance(u.operation, mem.PackOp)]
        if len(packs) < 2:
            return
        first = min(packs, key=block.get_operation_index)
        if first is not op:
            rewriter.replace(op, [], [first.results[0]])


class PackOfWindows(RewritePattern):
    """
    Windows that the host puts side by side are packed in one step, straight from the image.

    Exact: every element goes where gathers and transpose took it.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: mem.PackOp, rewriter: PatternRewriter, /):
        if (windows := folded_windows(op.input)) is None:
            return
        packed = mem.PackWindowsOp(
            windows.source,
            graph.shape_of(op.result),
            kernel=windows.kernel,
            strides=windows.strides,
            offset=windows.offset,
            value=windows.value,
        )
        steps: list[Operation] = []
        step = op.input
        while step is not windows.source:
            assert isinstance(step.owner, Operation)
            steps.append(step.owner)
            step = step.owner.operands[0]
        packed.attributes.update(op.attributes)
        packed.location = op.location
        rewriter.replace(op, packed)
        for old in steps:
            rewriter.erase(old)


class PackTilesOfTransposed(RewritePattern):
    """
    Weights that are only transposed to become tiles are read as they are.

    Exact: tiles of [N, K] are read from [K, N].
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: mem.PackTilesOp, rewriter: PatternRewriter, /):
        transpose = op.input.owner
        if not isinstance(transpose, graph.TransposeOp):
            return
        if tuple(transpose.permutation.get_values()) != (1, 0):
            return
        lanes = graph.shape_of(op.result)[-1]
        tiles = mem.PackTilesOp(transpose.input, lanes, transposed=op.transposed is None)
        tiles.attributes.update(op.attributes)
        tiles.location = op.location
        rewriter.replace(op, tiles)
        if not transpose.result.uses:
            rewriter.erase(transpose)


class EraseUnusedUnpack(RewritePattern):
    """An unpacked value that nothing reads need not be unpacked."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: mem.UnpackOp, rewriter: PatternRewriter, /):
        if not op.result.uses:
            rewriter.erase(op)


def _only_for_vta(op: mem.PackOp) -> bool:
    """Whether nothing looks at lanes past the last channel but through zero weights."""
    return {type(use.operation) for use in op.result.uses} <= {mem.LaunchOp, mem.UnpackOp}


@dataclass(frozen=True)
class FoldPackingPass(ModulePass):
    """
    Remove `mem.unpack` followed by `mem.pack`, also around a flattened vector, and pack no value
    twice. What the host only gathers into windows is packed in one step, and a transpose goes into
    `mem.pack_tiles`. Data is then packed only where it comes from the CPU, and unpacked only where
    the CPU reads it. Changes no value.
    """

    name = "fold-packing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns: list[RewritePattern] = [
            CancelPackOfUnpack(),
            PackOfFlattened(),
            SharePack(),
            PackOfWindows(),
            PackTilesOfTransposed(),
            EraseUnusedUnpack(),
        ]
        PatternRewriteWalker(GreedyRewritePatternApplier(patterns)).rewrite_module(op)
