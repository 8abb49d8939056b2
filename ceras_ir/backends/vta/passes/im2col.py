"""Put taps of convolutions side by side as channels, where that takes less time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.hardware import DEFAULT_BOARD_NAME
from ceras_ir.backends.vta.rescaling import zero_point
from ceras_ir.backends.vta.rewrites.reshaped_convolution import (
    arrangeable_weights,
    inserting_before,
    replace_convolution,
)
from ceras_ir.backends.vta.rewrites.spare_lanes import SpareLanes, bias_in_spare_lanes
from ceras_ir.backends.vta.schedule.windows import Windows
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.mem_packing import packed_shape


@dataclass(frozen=True)
class Im2colPass(ModulePass):
    """
    Replace int8 convolutions with windows of several taps by convolutions of fewer taps on more
    channels. With all taps of a window that is a 1x1 convolution on the matrix of windows, [N, OH,
    OW, KH*KW*C]; a part of them needs fewer bytes. The host makes the channels: by cost in one step
    with packing (`mem.pack_windows`), else by padding, two gathers and a transpose. Weights are
    sorted into them. Grouped convolutions stay.

    This pays where few channels leave lanes of the multipliers empty.

    Where lanes are still empty they hold constants, whose products are the bias.

    Exact: the same products are added, each once. Padding is there as what the taps read: zeros, or
    the zero point. What constants add is taken from the bias.
    """

    name = "im2col"

    convolution: Literal["auto", "im2col"] = "auto"
    """
    auto: parts of windows as VTA's cost model for `board` says that they take least, with the
    host's time to make and pack them; im2col: all taps, of all convolutions.
    """
    board: str = DEFAULT_BOARD_NAME
    """The board: a name or VTA's .json file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from ceras_ir.backends.vta.board import load_board
        from ceras_ir.backends.vta.convolution_costs import best_windows

        board = load_board(self.board)
        for conv in list(op.walk()):
            if not isinstance(conv, graph.Conv2dOp) or not has_windows(conv):
                continue
            _, kh, kw, _ = graph.shape_of(conv.weights)
            sh, sw = conv.strides.get_values()
            if self.convolution == "im2col":
                put_together(conv, Windows.whole((kh, kw), (sh, sw)))
            elif (windows := best_windows(conv, board)) is not None:
                put_together(conv, windows, board.vector)


def has_windows(op: graph.Conv2dOp) -> bool:
    """Whether `op` is quantized, and its window is not 1x1 already."""
    weights = arrangeable_weights(op)
    return weights is not None and op.group_count == 1 and prod(weights.shape[1:3]) > 1


def put_together(op: graph.Conv2dOp, windows: Windows, vector: Sequence[int] = ()) -> None:
    """
    Replace `op` by a convolution of parts of its windows. Where it will run on vectors that are
    given, the parts are packed at once, with the bias in lanes that they leave empty, if any.
    """
    arranged, insert = partial(sorted_weights, windows=windows), inserting_before(op)
    spare = None
    if vector:
        spare = bias_in_spare_lanes(op, arranged(graph.known_array(op.weights)), vector[-1])
    value = _packed(op, windows, vector, spare) if vector else _gathered(op, windows)
    replace_convolution(op, insert, value, arranged, dilations=windows.dilations, spare=spare)


def sorted_weights(weights: NDArray[np.generic], windows: Windows) -> NDArray[np.generic]:
    """[O, KH, KW, C] for the convolution that is left, each tap once."""
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
    op: graph.Conv2dOp, windows: Windows, vector: Sequence[int], spare: SpareLanes | None
) -> SSAValue:
    """The parts, packed from the image in one step; `fold-packing` drops that they are unpacked."""
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


def _gathered(op: graph.Conv2dOp, windows: Windows) -> SSAValue:
    """The parts, by padding, two gathers and a transpose."""
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
