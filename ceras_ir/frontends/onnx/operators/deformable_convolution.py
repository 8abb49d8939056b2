"""Convolution whose taps are moved by what the network computes."""

from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph import window_output
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import TO_NHWC, Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.convolution import convolved, kernel_of
from ceras_ir.frontends.onnx.operators.sampling import (
    rows_of_channels,
    taps_around,
    weighted_rows,
)
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.values import Value
from ceras_ir.frontends.onnx.windows import Window, read_window

LINEAR = "linear", "zeros", True
"""How elements between elements are read: outside there are zeros."""


@operator("DeformConv")
def deform_conv(node: Node, emitter: Emitter) -> Value:
    """
    All windows laid out as rows, with elements at places that offsets [N, 2 G KH KW, OH, OW] move
    in pairs of y and x, times a mask; weights then multiply them like a convolution of width KH KW.
    """
    shape, (outputs, per_group, *_), offsets = (emitter.shape(i) for i in range(3))
    kernel = kernel_of(node, emitter.shape(1))
    if len(shape) != 4 or len(kernel) != 2:
        raise node.unsupported(f"an input of {len(shape) - 2} spatial dimensions; two are taken")
    n, channels, *extents = shape
    parts, groups = node.integer("offset_group", 1), node.integer("group", 1)
    window = read_window(node, kernel, shape[2:])
    sizes = [
        window_output(
            extents[d],
            window.padding[d],
            window.padding[2 + d],
            kernel[d],
            window.strides[d],
            window.dilations[d],
        )
        for d in range(2)
    ]
    taps, places = prod(kernel), prod(sizes)
    if min(parts, groups) < 1 or channels % parts or channels != per_group * groups:
        raise node.wrong(
            f"{channels} channels in {parts} groups of offsets, and in {groups} of {per_group}"
        )
    if offsets != (n, 2 * parts * taps, *sizes):
        raise node.wrong(f"offsets {list(offsets)}, expected {[n, 2 * parts * taps, *sizes]}")
    compose = Composer(emitter)
    moved = emitter.reshaped(emitter.value(2), (n * parts * taps, 2, places))
    around = [
        taps_around(
            compose,
            compose.add(
                emitter.reshaped(compose.part(moved, 1, d, 1), (n * parts, taps * places)),
                emitter.constant(_places(window, sizes, d), f"places{d}"),
            ),
            extents[d],
            LINEAR,
        )
        for d in range(2)
    ]
    x = emitter.reshaped(emitter.value(0), (n * parts, channels // parts, *extents))
    base = np.arange(n * parts, dtype=np.int64).reshape(-1, 1) * prod(extents)
    seen = weighted_rows(
        compose, rows_of_channels(emitter, x), around, extents, emitter.constant(base, "image")
    )
    if node.has_input(4):
        if emitter.shape(4) != (n, parts * taps, *sizes):
            raise node.wrong(
                f"a mask {list(emitter.shape(4))}, expected {[n, parts * taps, *sizes]}"
            )
        seen = compose.mul(seen, emitter.reshaped(emitter.value(4), (n * parts * taps * places, 1)))
    rows = emitter.transposed(
        emitter.reshaped(seen, (n, parts, taps, places, channels // parts)), (0, 3, 2, 1, 4)
    )
    lifted = emitter.reshaped(emitter.value(1), (outputs, per_group, 1, taps))
    whole = Window((1, taps), (1, 1), (0, 0, 0, 0), (1, 1), (0, 0))
    result = convolved(
        emitter,
        emitter.reshaped(rows, (n, places, taps, channels)),
        emitter.transposed(lifted, TO_NHWC),
        emitter.tensor(3) if node.has_input(3) else None,
        whole,
        groups,
    )
    return emitter.transposed(emitter.reshaped(result, (n, *sizes, outputs)), (0, 3, 1, 2))


def _places(window: Window, sizes: list[int], dimension: int) -> NDArray[np.float32]:
    """Where the taps of all windows lie along one dimension, before they are moved."""
    first = np.arange(sizes[dimension]) * window.strides[dimension] - window.padding[dimension]
    tap = np.arange(window.kernel[dimension]) * window.dilations[dimension]
    shape = [1, 1, 1, 1]
    shape[dimension], shape[2 + dimension] = len(tap), len(first)
    whole = (tap[:, None] + first).reshape(shape)
    return np.broadcast_to(whole, (*window.kernel, *sizes)).reshape(1, -1).astype(np.float32)
