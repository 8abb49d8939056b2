"""Turn convolutions into products of a matrix of their windows, where that takes less time."""

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.hardware import DEFAULT_BOARD_NAME
from ceras_ir.backends.vta.rescaling import zero_point
from ceras_ir.backends.vta.rewrites.reshaped_convolution import (
    inserting_before,
    replace_convolution,
)
from ceras_ir.dialects import graph


@dataclass(frozen=True)
class Im2colPass(ModulePass):
    """
    Replace int8 convolutions with windows of several taps by 1x1 convolutions on the matrix of
    their windows, [N, OH, OW, KH*KW*C]. Padding, two gathers and a transpose make the matrix;
    weights are reshaped. Grouped convolutions stay.

    This pays where few channels leave lanes of the multipliers empty: the matrix has empty lanes at
    its end only.

    Exact: the same products are added. For padding, rows of the matrix have what the taps read:
    zeros, or the zero point.
    """

    name = "im2col"

    convolution: Literal["auto", "im2col"] = "auto"
    """
    auto: where VTA's cost model for `board` says that it takes less, with the host's time to make
    and pack the matrix; im2col: all.
    """
    board: str = DEFAULT_BOARD_NAME
    """The board: a name or VTA's .json file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from ceras_ir.backends.vta.board import load_board
        from ceras_ir.backends.vta.convolution_costs import im2col_pays

        board = load_board(self.board)
        for conv in list(op.walk()):
            if not isinstance(conv, graph.Conv2dOp) or not _has_matrix(conv):
                continue
            if self.convolution == "im2col" or im2col_pays(conv, board):
                _rewrite(conv)


def _has_matrix(op: graph.Conv2dOp) -> bool:
    """Whether `op` is quantized, and its window is not 1x1 already."""
    weights, element = graph.constant_array(op.weights), graph.quantized_element(op.input)
    if weights is None or element is None or element.is_per_axis or op.group_count != 1:
        return False
    return prod(weights.shape[1:3]) > 1


def _rewrite(op: graph.Conv2dOp) -> None:
    weights = graph.known_array(op.weights)
    insert, value = inserting_before(op), op.input
    n, rows, columns, o = graph.shape_of(op.result)
    _, kh, kw, c = weights.shape
    (sh, sw), (dh, dw) = op.strides.get_values(), op.dilations.get_values()
    top, left, bottom, right = op.padding.get_values()
    if any((top, left, bottom, right)):
        low, high = (0, top, left, 0), (0, bottom, right, 0)
        zero = IntegerAttr(zero_point(op.input), i64)
        value = insert(graph.PadOp(graph.Pad.CONSTANT, value, low, high, value=zero))
    width = graph.shape_of(value)[2]
    down = [y * sh + i * dh for y, i in product(range(rows), range(kh))]
    value = insert(graph.GatherOp(value, 1, down))
    value = insert(graph.ReshapeOp(value, (n, rows, kh, width, c)))
    across = [x * sw + j * dw for x, j in product(range(columns), range(kw))]
    value = insert(graph.GatherOp(value, 3, across))
    value = insert(graph.ReshapeOp(value, (n, rows, kh, columns, kw, c)))
    value = insert(graph.TransposeOp(value, (0, 1, 3, 2, 4, 5)))
    value = insert(graph.ReshapeOp(value, (n, rows, columns, kh * kw * c)))
    replace_convolution(op, insert, value, weights.reshape(o, 1, 1, kh * kw * c))
