"""Give strided convolutions of few channels more channels and no stride."""

from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.board import load_board
from ceras_ir.backends.vta.hardware import DEFAULT_BOARD_NAME
from ceras_ir.backends.vta.rewrites.reshaped_convolution import (
    arrangeable_weights,
    inserting_before,
    replace_convolution,
)
from ceras_ir.dialects import graph

Pair = tuple[int, int]


@dataclass(frozen=True)
class SpaceToDepthPass(ModulePass):
    """
    Replace a convolution with strides `sh`, `sw` by one without strides on the input as [N, H/sh,
    W/sw, sh*sw*C]. Its weights are sorted into the new channels, with zeros between them. The
    strides must divide the input's extents, and the convolution must not be grouped. Only where
    that needs fewer products on `board`: few channels, as in a stem, leave lanes of the multipliers
    empty.

    Exact: with `p = ceil(top / sh)`, output row y reads rows y*sh + i - top, which is new row y - p
    + (i + p*sh - top) // sh at new channel (i + p*sh - top) % sh; columns likewise. Every product
    is there once, and every new one has a zero weight. Zero points stay as they are.
    """

    name = "space-to-depth"

    board: str = DEFAULT_BOARD_NAME
    """The board: a name or VTA's .json file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = load_board(self.board).block
        for conv in list(op.walk()):
            if isinstance(conv, graph.Conv2dOp) and (axes := _axes(conv, block)) is not None:
                _rewrite(conv, *axes)


@dataclass(frozen=True)
class _Axis:
    """One direction of a convolution without stride."""

    stride: int
    kernel: int
    offset: int
    """Zeros before the old kernel."""
    before: int
    after: int
    """New padding."""

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
    """The new convolution, or None where there is none or it is no better."""
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
    """Weights [O, KH, KW, C] in the new channels, with zeros between them."""
    o, kh, kw, c = weights.shape
    wide = np.zeros((o, y.kernel * y.stride, x.kernel * x.stride, c), weights.dtype)
    wide[:, y.offset : y.offset + kh, x.offset : x.offset + kw] = weights
    tiles = wide.reshape(o, y.kernel, y.stride, x.kernel, x.stride, c)
    depth = y.stride * x.stride * c
    return tiles.transpose(0, 1, 3, 2, 4, 5).reshape(o, y.kernel, x.kernel, depth)
