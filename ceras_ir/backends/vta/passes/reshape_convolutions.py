"""
Replace convolutions with few channels by convolutions that fill the lanes of the multipliers.

`space-to-depth` removes strides, `im2col` converts taps of a window to channels of a position.
Both keep the epilogue of the convolution. Lanes that are still unused can add the bias.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.isa import VtaBoardOptions
from ceras_ir.backends.vta.rules.channel_constants import (
    MAX_DIGIT,
    folded_bias,
    tiles_for,
    zero_point,
)
from ceras_ir.backends.vta.rules.placement import WindowSplit, best_windows
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.mem.packing import packed_shape
from ceras_ir.dialects.sparse import MASK, MaskAttr
from ceras_ir.transforms.rebuilding import erase_unused

MIN_SPARE_LANES = 2
"""
The minimum number of unused lanes that can hold a bias: a lane with the constant 1, and a lane with
a larger constant.
"""


@dataclass(frozen=True, eq=False)
class SpareLanes:
    """
    A bias that is moved into unused input lanes: constant input channels, weights that include
    theirs, and the bias that remains.
    """

    channels: tuple[int, ...]
    """The constant input of each added channel."""
    weights: NDArray[np.generic]
    bias: NDArray[np.int32]


def bias_in_spare_lanes(
    op: graph.Conv2dOp, weights: NDArray[np.generic], lanes: int
) -> SpareLanes | None:
    """
    Return `weights` [O, KH, KW, C] with additional weights in the lanes that they leave unused,
    which multiply constants and so add the bias of `op`. `lanes` is the number of lanes of a
    vector.

    The lanes hold the entire bias, or so much of it that a constant tile is sufficient for the
    rest; `None` if neither is possible. Each position must have all taps, because the added
    channels are not padded.

    Exact: the sum of the added products is subtracted from the bias.
    """
    o, kh, kw, c = weights.shape
    spare, taps, total = -c % lanes, kh * kw, folded_bias(op)
    if spare < MIN_SPARE_LANES or op.bias is None or not total.any():
        return None
    reach = MAX_DIGIT * MAX_DIGIT * (spare - 1) * taps
    part = np.clip(total, -reach, reach)
    before, after = tiles_for(total, lanes), tiles_for(total - part, lanes)
    if (part != total).any() and not (after == 1 and before != 1):
        return None
    rest = (part + MAX_DIGIT // 2) // MAX_DIGIT
    added = np.zeros((o, kh, kw, spare), np.int64)
    added[:, 0, 0, 0] = part - MAX_DIGIT * rest
    for tap in np.ndindex(kh, kw):
        for lane in range(1, spare):
            digit = np.clip(rest, -MAX_DIGIT, MAX_DIGIT)
            added[:, *tap, lane] = digit
            rest = rest - digit
    assert not rest.any()
    channels = (1, *(MAX_DIGIT,) * (spare - 1))
    sums = (added * (np.array(channels) - zero_point(op.input))).reshape(o, -1).sum(axis=1)
    bias = graph.known_array(op.bias).astype(np.int64) - sums
    wide = np.concatenate([weights, added.astype(weights.dtype)], axis=3)
    return SpareLanes(channels, wide, bias.astype(np.int32))


Weights = NDArray[np.generic]
Insert = Callable[[graph.GraphOperation], SSAValue]
"""A function that inserts an operation at the position of a rewrite and returns the result."""


def inserting_before(op: graph.GraphOperation) -> Insert:
    at = InsertPoint.before(op)

    def insert(new: graph.GraphOperation) -> SSAValue:
        new.location = op.location
        Rewriter.insert_op(new, at)
        return new.output

    return insert


def arrangeable_weights(op: graph.Conv2dOp) -> Weights | None:
    """
    Return the constant weights of a quantized convolution if zeros may be inserted between them, or
    `None`. With a zero point of weights, which the accelerator does not support either, a stored 0
    is not the real value 0.
    """
    weights, element = graph.constant_array(op.weights), graph.quantized_element(op.input)
    kind = graph.quantized_element(op.weights)
    if element is None or element.is_per_axis or kind is None:
        return None
    return None if any(point.data for point in kind.zero_points) else weights


def replace_convolution(
    op: graph.Conv2dOp,
    insert: Insert,
    value: SSAValue,
    arranged: Callable[[Weights], Weights],
    padding: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    spare: SpareLanes | None = None,
) -> None:
    """
    Replace `op` by a convolution of `value` without strides, with the same residual and
    requantization.

    `arranged` computes the new weights [O, KH, KW, C] from the old weights, and the new mask of
    pruned weights from the old mask; all added elements are zero. Weights and bias of `spare`, if
    any, replace the computed weights and the bias.
    """
    weights = arranged(graph.known_array(op.weights)) if spare is None else spare.weights
    weights = np.ascontiguousarray(weights)
    constant = graph.ConstantOp.from_array(weights, graph.element_of(op.weights))
    added = op.bias
    if spare is not None and added is not None:
        added = insert(graph.ConstantOp.from_array(spare.bias, graph.element_of(added)))
    new = graph.Conv2dOp(
        value,
        insert(constant),
        added,
        op.residual,
        result_element=graph.element_of(op.result),
        padding=padding,
        dilations=dilations,
        activation=op.activation,
        requant=op.requant,
        residual_shift=None if op.residual_shift is None else op.residual_shifts,
    )
    new.attributes.update(op.attributes)
    if isinstance(mask := op.attributes.get(MASK), MaskAttr):
        kept = np.ones(weights.shape, np.bool_)
        plain = arranged(mask.array) != 0
        kept[..., : plain.shape[-1]] = plain
        new.attributes[MASK] = MaskAttr.of(kept)
    producers = [value.owner for value in (op.weights, op.bias) if value is not None]
    op.result.replace_all_uses_with(insert(new))
    op.detach()
    op.erase()
    for old in producers:
        if isinstance(old, Operation):
            erase_unused(old)


Pair = tuple[int, int]


@dataclass(frozen=True)
class SpaceToDepthPass(VtaBoardOptions, ModulePass):
    """
    Replace a convolution with strides `sh`, `sw` by a convolution without strides on the input as
    [N, H/sh, W/sw, sh*sw*C].

    The weights are rearranged for the new channels, with zeros between them. The strides must
    divide the extents of the input, and the convolution must not be grouped. The rule applies only
    if it needs fewer products on `board`: with few channels, as in a stem, lanes of the multipliers
    are unused.

    Exact: with `p = ceil(top / sh)`, output row y uses rows y*sh + i - top, which is new row y - p
    + (i + p*sh - top) // sh at new channel (i + p*sh - top) % sh; columns likewise. Each product
    occurs a single time, and each added product has a zero weight. Zero points are unchanged.

    Before:

        !q = !quant.uniform<i8:f32, 0.5>
        #r = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>
        %w = graph.constant dense<[[[[1], [2]], [[3], [4]]]]>
            : tensor<1x2x2x1xi8> : tensor<1x2x2x1x!q>
        %y = graph.conv2d %x, %w {strides = array<i64: 2, 2>, requant = #r}
            : (tensor<1x4x4x1x!q>, tensor<1x2x2x1x!q>) -> tensor<1x2x2x1x!q>

    After:

        %a = graph.reshape %x : (tensor<1x4x4x1x!q>) -> tensor<1x2x2x2x2x1x!q>
        %b = graph.transpose %a {permutation = array<i64: 0, 1, 3, 2, 4, 5>}
            : (tensor<1x2x2x2x2x1x!q>) -> tensor<1x2x2x2x2x1x!q>
        %c = graph.reshape %b : (tensor<1x2x2x2x2x1x!q>) -> tensor<1x2x2x4x!q>
        %w = graph.constant dense<[[[[1, 2, 3, 4]]]]> : tensor<1x1x1x4xi8> : tensor<1x1x1x4x!q>
        %y = graph.conv2d %c, %w {requant = #r}
            : (tensor<1x2x2x4x!q>, tensor<1x1x1x4x!q>) -> tensor<1x2x2x1x!q>
    """

    name = "space-to-depth"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = load_board(self.board).block
        for conv in list(op.walk()):
            if isinstance(conv, graph.Conv2dOp) and (axes := _axes(conv, block)) is not None:
                _rewrite(conv, *axes)


@dataclass(frozen=True)
class _Axis:
    """
    The parameters of an axis (rows or columns) of the equivalent convolution, whose stride is 1;
    `stride` is the old stride.
    """

    stride: int
    kernel: int
    offset: int
    """The number of zeros before the old kernel in the new kernel."""
    before: int
    after: int
    """The new padding after the input; `before` is the new padding before it."""

    @classmethod
    def of(cls, extent: int, result: int, kernel: int, stride: int, before: int) -> "_Axis | None":
        new_before = -(-before // stride)
        offset = new_before * stride - before
        new_kernel = -(-(kernel + offset) // stride)
        after = result - 1 + new_kernel - extent // stride - new_before
        if extent % stride or after < 0:
            return None
        return cls(stride, new_kernel, offset, new_before, after)


def _axes(op: graph.Conv2dOp, block: int) -> tuple[_Axis, _Axis] | None:
    """
    Return the axes of the new convolution, or `None` if the conditions of the pass do not hold or
    it does not need fewer tiles of weights.
    """
    sh, sw = strides = op.strides.get_values()
    if prod(strides) == 1 or op.group_count != 1 or prod(op.dilations.get_values()) != 1:
        return None
    if (weights := arrangeable_weights(op)) is None:
        return None
    _, h, w, c = graph.shape_of(op.input)
    _, rows, columns, _ = graph.shape_of(op.result)
    _, kh, kw, _ = weights.shape
    top, left, _, _ = op.padding.get_values()
    y, x = _Axis.of(h, rows, kh, sh, top), _Axis.of(w, columns, kw, sw, left)
    if y is None or x is None:
        return None
    old, new = kh * kw * -(-c // block), y.kernel * x.kernel * -(-c * sh * sw // block)
    return (y, x) if new < old else None


def _rewrite(op: graph.Conv2dOp, y: _Axis, x: _Axis) -> None:
    n, h, w, c = graph.shape_of(op.input)
    insert = inserting_before(op)
    split = (n, h // y.stride, y.stride, w // x.stride, x.stride, c)
    value = insert(graph.ReshapeOp(op.input, split))
    value = insert(graph.TransposeOp(value, (0, 1, 3, 2, 4, 5)))
    depth = y.stride * x.stride * c
    value = insert(graph.ReshapeOp(value, (n, h // y.stride, w // x.stride, depth)))

    padding = (y.before, x.before, y.after, x.after)
    replace_convolution(op, insert, value, partial(_sorted, y=y, x=x), padding)


def _sorted(weights: NDArray[np.generic], y: _Axis, x: _Axis) -> NDArray[np.generic]:
    """
    Return weights [O, KH, KW, C] for the new channels, each of which is a tap in a block of
    `stride` adjacent taps; missing taps are zero.
    """
    o, kh, kw, c = weights.shape
    wide = np.zeros((o, y.kernel * y.stride, x.kernel * x.stride, c), weights.dtype)
    wide[:, y.offset : y.offset + kh, x.offset : x.offset + kw] = weights
    tiles = wide.reshape(o, y.kernel, y.stride, x.kernel, x.stride, c)
    depth = y.stride * x.stride * c
    return tiles.transpose(0, 1, 3, 2, 4, 5).reshape(o, y.kernel, x.kernel, depth)


@dataclass(frozen=True)
class Im2colPass(VtaBoardOptions, ModulePass):
    """
    Replace int8 convolutions with several taps by convolutions with fewer taps and more channels.

    With all taps of a window, the result is a 1x1 convolution on the matrix of windows, [N, OH, OW,
    KH*KW*C]; a part of the taps needs fewer bytes. The host creates the channels: with `auto` in a
    single step with packing (`mem.pack_windows`), otherwise by padding, two gathers and a
    transpose. Grouped convolutions are not changed.

    This is faster if few channels leave lanes of the multipliers unused. Lanes that are still
    unused hold constants; their products with weights are the bias.

    Exact: the same products are added, each a single time. Padding is explicit: zeros, or the zero
    point. The contribution of constants is subtracted from the bias.

    Before:

        !q = !quant.uniform<i8:f32, 0.5>
        #r = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>
        %w = graph.constant dense<[[[[1, 2], [3, 4]]]]> : tensor<1x1x2x2xi8> : tensor<1x1x2x2x!q>
        %y = graph.conv2d %x, %w {requant = #r}
            : (tensor<1x3x3x2x!q>, tensor<1x1x2x2x!q>) -> tensor<1x3x2x1x!q>

    After:

        %p = mem.pack_windows %x {kernel = array<i64: 1, 2>, strides = array<i64: 1, 1>,
            offset = array<i64: 0, 0>, value = 0, constants = array<i64>}
            : (tensor<1x3x3x2x!q>) -> tensor<1x1x3x2x16x!q>
        %u = mem.unpack %p : (tensor<1x1x3x2x16x!q>) -> tensor<1x3x2x4x!q>
        %w = graph.constant dense<[[[[1, 2, 3, 4]]]]> : tensor<1x1x1x4xi8> : tensor<1x1x1x4x!q>
        %y = graph.conv2d %u, %w {requant = #r}
            : (tensor<1x3x2x4x!q>, tensor<1x1x1x4x!q>) -> tensor<1x3x2x1x!q>
    """

    name = "im2col"

    convolution: Literal["auto", "im2col"] = "auto"
    """
    auto: parts of windows with the shortest time in the cost model of VTA for `board`, including
    the time of the host to create and pack them; im2col: all taps of all convolutions.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:

        board = load_board(self.board)
        for conv in list(op.walk()):
            if not isinstance(conv, graph.Conv2dOp) or not has_windows(conv):
                continue
            _, kh, kw, _ = graph.shape_of(conv.weights)
            sh, sw = conv.strides.get_values()
            if self.convolution == "im2col":
                apply_windows(conv, WindowSplit.unsplit((kh, kw), (sh, sw)))
            elif (windows := best_windows(conv, board)) is not None:
                apply_windows(conv, windows, board.vector)


def has_windows(op: graph.Conv2dOp) -> bool:
    weights = arrangeable_weights(op)
    return weights is not None and op.group_count == 1 and prod(weights.shape[1:3]) > 1


def apply_windows(op: graph.Conv2dOp, windows: WindowSplit, vector: Sequence[int] = ()) -> None:
    """
    Replace `op` by a convolution in which parts of the window are channels, as `windows` specifies.

    With `vector`, the shape of vectors of the accelerator, the host gathers and packs the parts in
    a single step, and unused lanes hold the bias.
    """
    arranged, insert = partial(sorted_weights, windows=windows), inserting_before(op)
    spare = None
    if vector:
        spare = bias_in_spare_lanes(op, arranged(graph.known_array(op.weights)), vector[-1])
    value = _packed(op, windows, vector, spare) if vector else _gathered(op, windows)
    replace_convolution(op, insert, value, arranged, dilations=windows.dilations, spare=spare)


def sorted_weights(weights: NDArray[np.generic], windows: WindowSplit) -> NDArray[np.generic]:
    """
    Return weights [O, KH, KW, C] for a convolution in which parts of the window are channels. Each
    tap occurs a single time; other positions are zero.
    """
    o, _, _, c = weights.shape
    (kh, kw), (a, b) = windows.kernel, windows.size
    parts = np.zeros((o, kh, kw, a, b, c), weights.dtype)
    for y, i in product(range(kh), range(a)):
        for x, j in product(range(kw), range(b)):
            tap = windows.down.tap(y, i), windows.across.tap(x, j)
            if tap[0] is not None and tap[1] is not None:
                parts[:, y, x, i, j] = weights[:, tap[0], tap[1]]
    return parts.reshape(o, kh, kw, a * b * c)


def _packed(
    op: graph.Conv2dOp, windows: WindowSplit, vector: Sequence[int], spare: SpareLanes | None
) -> SSAValue:
    """
    Insert operations that gather and pack the parts of windows from the image in a single step, and
    return the unpacked result; `fold-packing` then removes the unpacking.
    """
    insert, (top, left, _, _) = inserting_before(op), op.padding.get_values()
    n, rows, columns, _ = graph.shape_of(op.result)
    constants = () if spare is None else spare.channels
    channels = prod(windows.size) * graph.shape_of(op.input)[3] + len(constants)
    plain = (n, *windows.plane((rows, columns)), channels)
    packed = mem.PackWindowsOp(
        op.input,
        packed_shape(plain, vector),
        kernel=windows.size,
        strides=op.strides.get_values(),
        offset=(top, left),
        value=zero_point(op.input),
        constants=constants,
    )
    return insert(mem.UnpackOp(insert(packed), TensorType(graph.element_of(op.input), plain)))


def _gathered(op: graph.Conv2dOp, windows: WindowSplit) -> SSAValue:
    insert, value = inserting_before(op), op.input
    n, rows, columns, _ = graph.shape_of(op.result)
    _, height, width, c = graph.shape_of(op.input)
    (sh, sw), (dh, dw) = op.strides.get_values(), op.dilations.get_values()
    top, left, _, _ = op.padding.get_values()
    (a, b), (rows, columns) = windows.size, windows.plane((rows, columns))
    bottom = max(0, (rows - 1) * sh + (a - 1) * dh + 1 - top - height)
    right = max(0, (columns - 1) * sw + (b - 1) * dw + 1 - left - width)
    if any((top, left, bottom, right)):
        low, high = (0, top, left, 0), (0, bottom, right, 0)
        zero = IntegerAttr(zero_point(op.input), i64)
        value = insert(graph.PadOp(graph.Pad.CONSTANT, value, low, high, value=zero))
    width = graph.shape_of(value)[2]
    down = [y * sh + i * dh for y, i in product(range(rows), range(a))]
    value = insert(graph.GatherOp(value, 1, down))
    value = insert(graph.ReshapeOp(value, (n, rows, a, width, c)))
    across = [x * sw + j * dw for x, j in product(range(columns), range(b))]
    value = insert(graph.GatherOp(value, 3, across))
    value = insert(graph.ReshapeOp(value, (n, rows, a, columns, b, c)))
    value = insert(graph.TransposeOp(value, (0, 1, 3, 2, 4, 5)))
    return insert(graph.ReshapeOp(value, (n, rows, columns, a * b * c)))
