"""Convolution whose taps are moved by what the network computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import TO_NHWC, Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.convolution import convolved, kernel_of
from ceras_ir.frontends.onnx.operators.sampling import (
    Tap,
    rows_of_channels,
    taps_around,
    weighted_rows,
)
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.values import Value
from ceras_ir.frontends.onnx.windows import Window, read_window

LINEAR = "linear", "zeros", True
"""How elements between elements are read: outside there are zeros."""


@dataclass(frozen=True)
class _Shapes:
    """What the shapes of the operands and the attributes say."""

    images: int
    channels: int
    extents: tuple[int, ...]
    outputs: int
    groups: int
    parts: int
    """Groups of channels that have offsets of their own."""
    window: Window
    sizes: tuple[int, ...]
    """Of the result: height and width."""

    @classmethod
    def of(cls, node: Node, emitter: Emitter) -> "_Shapes":
        """Of a node whose operands fit each other."""
        shape, weights = emitter.shape(0), emitter.shape(1)
        if len(shape) != 4 or len(weights) != 4:
            raise node.unsupported(
                f"an input {list(shape)} and weights {list(weights)}; two spatial dimensions are "
                "taken"
            )
        (images, channels, *extents), (outputs, per_group, *_) = shape, weights
        parts, groups = node.integer("offset_group", 1), node.integer("group", 1)
        split = min(parts, groups) > 0 and channels % parts == 0 and outputs % groups == 0
        if not split or channels != per_group * groups:
            raise node.wrong(
                f"{channels} input and {outputs} output channels in {groups} groups of "
                f"{per_group}, with offsets for {parts}"
            )
        window = read_window(node, kernel_of(node, weights), shape[2:])
        sizes = window.outputs(*extents)
        moved = parts * prod(window.kernel)
        expected = {2: (images, 2 * moved, *sizes), 3: (outputs,), 4: (images, moved, *sizes)}
        for operand, fits in expected.items():
            if node.has_input(operand) and (given := emitter.shape(operand)) != fits:
                name = {2: "offsets", 3: "bias", 4: "mask"}[operand]
                raise node.wrong(f"{name} of shape {list(given)}, expected {list(fits)}")
        return cls(images, channels, (*extents,), outputs, groups, parts, window, sizes)


@operator("DeformConv")
def deform_conv(node: Node, emitter: Emitter) -> Value:
    """
    All windows laid out as rows, with elements at places that offsets [N, 2 G KH KW, OH, OW] move
    in pairs of y and x, times a mask; weights then multiply them like a convolution of width KH KW.
    """
    shapes = _Shapes.of(node, emitter)
    taps, places = prod(shapes.window.kernel), prod(shapes.sizes)
    rows = emitter.reshaped(
        _windows(node, emitter, shapes), (shapes.images, places, taps, shapes.channels)
    )
    per_group = shapes.channels // shapes.groups
    weights = emitter.reshaped(emitter.value(1), (shapes.outputs, per_group, 1, taps))
    result = convolved(
        emitter,
        rows,
        emitter.transposed(weights, TO_NHWC),
        emitter.tensor(3) if node.has_input(3) else None,
        Window((1, taps), (1, 1), (0, 0, 0, 0), (1, 1), (0, 0)),
        shapes.groups,
    )
    maps = emitter.reshaped(result, (shapes.images, *shapes.sizes, shapes.outputs))
    return emitter.transposed(maps, (0, 3, 1, 2))


def _windows(node: Node, emitter: Emitter, shapes: _Shapes) -> Value:
    """What all windows see, [N, OH OW, KH KW, G, C/G]."""
    compose = Composer(emitter)
    taps, places = prod(shapes.window.kernel), prod(shapes.sizes)
    images, channels = shapes.images * shapes.parts, shapes.channels // shapes.parts
    offsets = emitter.reshaped(emitter.value(2), (images * taps, 2, places))

    def around(d: int) -> list[Tap]:
        moves = emitter.reshaped(compose.part(offsets, 1, d, 1), (images, taps * places))
        still = emitter.constant(_places(shapes.window, shapes.sizes, d), f"places{d}")
        return taps_around(compose, compose.add(moves, still), shapes.extents[d], LINEAR)

    x = emitter.reshaped(emitter.value(0), (images, channels, *shapes.extents))
    first = np.arange(images, dtype=np.int64).reshape(-1, 1) * prod(shapes.extents)
    seen = weighted_rows(
        compose,
        rows_of_channels(emitter, x),
        [around(0), around(1)],
        shapes.extents,
        emitter.constant(first, "image"),
    )
    if node.has_input(4):
        seen = compose.mul(seen, emitter.reshaped(emitter.value(4), (images * taps * places, 1)))
    apart = emitter.reshaped(seen, (shapes.images, shapes.parts, taps, places, channels))
    return emitter.transposed(apart, (0, 3, 2, 1, 4))


def _places(window: Window, sizes: Sequence[int], dimension: int) -> NDArray[np.float32]:
    """Where the taps of all windows lie along one dimension, before they are moved."""
    first = np.arange(sizes[dimension]) * window.strides[dimension] - window.padding[dimension]
    tap = np.arange(window.kernel[dimension]) * window.dilations[dimension]
    shape = [1, 1, 1, 1]
    shape[dimension], shape[2 + dimension] = len(tap), len(first)
    whole = (tap[:, None] + first).reshape(shape)
    return np.broadcast_to(whole, (*window.kernel, *sizes)).reshape(1, -1).astype(np.float32)
