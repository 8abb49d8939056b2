"""Keep the layout of the accelerator between launches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.utils.hints import isa

from ceras_ir.dialects import graph, mem


@dataclass(frozen=True)
class FoldedWindows:
    """
    Windows of `kernel` elements that the network gathers from the image `source` at regular
    strides. The first window starts `offset` before the image, and elements outside the image have
    the stored integer `value`.
    """

    source: SSAValue
    kernel: tuple[int, int]
    strides: tuple[int, int]
    offset: tuple[int, int] = (0, 0)
    value: int = 0


def folded_windows(value: SSAValue) -> FoldedWindows | None:
    """
    Return the windows of which `value` [N, Y, X, KH * KW * C] consists, or `None` if it is computed
    in another way.

    All intermediate values must have a single consumer. The windows are gathered rows, then
    columns, after padding, or a reshape if windows do not overlap.
    """
    flat = _sole_producer(value)
    if not isinstance(flat, graph.ReshapeOp) or len(graph.shape_of(flat.result)) != 4:
        return None
    order = _sole_producer(flat.input)
    if not isinstance(order, graph.TransposeOp):
        return None
    if tuple(order.permutation.get_values()) != (0, 1, 3, 2, 4, 5):
        return None
    split = _sole_producer(order.input)
    if not isinstance(split, graph.ReshapeOp):
        return None
    n, rows, kh, columns, kw, channels = graph.shape_of(split.result)
    if graph.shape_of(flat.result) != (n, rows, columns, kh * kw * channels):
        return None
    if graph.shape_of(split.input) == (n, rows * kh, columns * kw, channels):
        return FoldedWindows(split.input, (kh, kw), (kh, kw))
    across = _gathered(split.input, 3)
    between = None if across is None else _sole_producer(across.input)
    down = _gathered(between.input, 1) if isinstance(between, graph.ReshapeOp) else None
    if across is None or down is None:
        return None
    if graph.shape_of(across.input) != (n, rows, kh, graph.shape_of(down.input)[2], channels):
        return None
    strides = _stride(down, rows, kh), _stride(across, columns, kw)
    if 0 in strides:
        return None
    return _without_padding(FoldedWindows(down.input, (kh, kw), strides))


def _sole_producer(value: SSAValue) -> Operation | None:
    return value.owner if isinstance(value.owner, Operation) and value.has_one_use() else None


def _gathered(value: SSAValue, axis: int) -> graph.GatherOp | None:
    op = _sole_producer(value)
    return op if isinstance(op, graph.GatherOp) and op.axis.value.data == axis else None


def _stride(op: graph.GatherOp, count: int, size: int) -> int:
    """
    Return the distance between `count` windows of `size` adjacent indices of a gather; 0 if the
    distance varies or the indices are not adjacent.
    """
    indices: Sequence[int] = op.indices.get_values()
    stride = indices[size] - indices[0] if count > 1 else 1
    regular = [y * stride + i for y in range(count) for i in range(size)]
    return stride if stride > 0 and list(indices) == regular else 0


def _without_padding(windows: FoldedWindows) -> FoldedWindows:
    """
    Return windows of the image before padding, if the source of `windows` is the result of a
    constant padding of rows and columns; otherwise return `windows`. The padding becomes the offset
    and the value outside.
    """
    pad = _sole_producer(windows.source)
    if not isinstance(pad, graph.PadOp) or pad.function is not graph.Pad.CONSTANT:
        return windows
    value, low, high = pad.value, pad.low.get_values(), pad.high.get_values()
    other_pads = (low[0], low[3], high[0], high[3], *pad.interior.get_values())
    if any(other_pads) or min(*low, *high) < 0 or not isa(value, IntegerAttr):
        return windows
    return replace(windows, source=pad.input, offset=(low[1], low[2]), value=value.value.data)


class CancelPackOfUnpack(RewritePattern):
    """
    Replace `pack(unpack(x))` by `x`.

    Exact: all consumers ignore the lanes after the last channel. Launches have zero weights there,
    and `mem.unpack` drops these lanes.
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
    Replace `pack(reshape(unpack(x)))` by `reshape(x)` if a position of an image becomes a row.

    Exact as `CancelPackOfUnpack`: both layouts are the vectors of channels in order.
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
    """
    If a value is packed several times, replace all but the first packing by the result of the
    first.
    """

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
    Pack windows that the host gathers directly from the image, with `mem.pack_windows`.

    Exact: each element has the position to which gathers and transpose move it.
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
    Pack the tiles of transposed weights directly from the weights before the transpose.

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
    """Erase `mem.unpack` operations whose results have no consumers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: mem.UnpackOp, rewriter: PatternRewriter, /):
        if not op.result.uses:
            rewriter.erase(op)


def _only_for_vta(op: mem.PackOp) -> bool:
    """Return whether all consumers of a packed tensor ignore the lanes after the last channel."""
    return {type(use.operation) for use in op.result.uses} <= {mem.LaunchOp, mem.UnpackOp}


@dataclass(frozen=True)
class FoldPackingPass(ModulePass):
    """
    Remove `mem.unpack` followed by `mem.pack`, also around a flattened vector, and share packings.

    Windows that the host only gathers are packed in a single step, and a transpose is folded into
    `mem.pack_tiles`. Data is then packed only if the CPU computes it, and unpacked only if the
    CPU uses it. No value changes.

    Before:

        %u = mem.unpack %x : (tensor<1x4x16xf32>) -> tensor<4x3xf32>
        %p = mem.pack %u : (tensor<4x3xf32>) -> tensor<1x4x16xf32>
        %y = mem.launch @kernel(%p) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
        func.func @kernel(%0: memref<1x4x16xf32>, %1: memref<1x4x16xf32>) { func.return }

    After:

        %y = mem.launch @kernel(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
        func.func @kernel(%0: memref<1x4x16xf32>, %1: memref<1x4x16xf32>) { func.return }
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
