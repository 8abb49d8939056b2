"""
Import transposed convolutions, and deformable convolutions with computed offsets of the taps.

A transposed convolution is a convolution over the input with zeros between the elements. A single
`graph.pad` adds the border and these zeros. The filter is reversed in each dimension, and input and
output channels are exchanged. This is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph import window_extent
from ceras_ir.frontends.onnx.emission.emitter import TO_NHWC, Emitter
from ceras_ir.frontends.onnx.emission.registry import operator
from ceras_ir.frontends.onnx.emission.values import Constant, Value, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.convolution import (
    SpatialWindow,
    convolved,
    kernel_of,
    read_window,
)
from ceras_ir.frontends.onnx.operators.signals import (
    Tap,
    rows_of_channels,
    taps_around,
    weighted_rows,
)


@operator("ConvTranspose")
def conv_transpose(node: Node, emitter: Emitter) -> Value:
    """
    Import ConvTranspose as a convolution of stride 1 over the input with zeros between elements.
    """
    shape, weights = emitter.shape(0), emitter.shape(1)
    rank = len(shape) - 2
    if len(weights) != len(shape) or rank < 1:
        raise node.wrong(f"{list(shape)} and weights {list(weights)} must have the same rank >= 3")
    if rank > 3:
        raise node.unsupported(f"{rank} spatial dimensions, expected one to three")
    groups = node.integer("group", 1)
    if groups < 1 or shape[1] != weights[0] or weights[0] % groups:
        raise node.wrong(f"{shape[1]} channels and weights {list(weights)} in {groups} groups")
    kernel, outputs = kernel_of(node, rank, weights), weights[1] * groups
    strides = node.per_dimension("strides", rank)
    dilations = node.per_dimension("dilations", rank)
    before, after = _padding(node, shape[2:], kernel, strides, dilations)
    # The border, which is cropped if it is negative.
    extents = [window_extent(k, d) for k, d in zip(kernel, dilations, strict=True)]
    low = [size - 1 - p for size, p in zip(extents, before, strict=True)]
    high = [size - 1 - p for size, p in zip(extents, after, strict=True)]
    bias = None
    if node.has_input(2):
        if emitter.shape(2) != (outputs,):
            raise node.wrong(f"bias of shape {list(emitter.shape(2))}, expected [{outputs}]")
        bias = emitter.tensor(2)
    given = emitter.value(1)
    if not emitter.is_float(given):
        raise node.wrong(f"operand 1 must be float32, got {dtype_of_value(given)}")
    group_channels = shape[1] // groups
    spatial = range(3, 3 + rank)
    between = [s - 1 for s in strides]
    order, packed_shape = (0, 2, *spatial, 1), (outputs, *kernel, group_channels)
    if isinstance(given, Constant):
        full = given.reshaped((groups, group_channels, weights[1], *kernel)).reversed(spatial)
        packed: Value = full.transposed(order).reshaped(packed_shape)
    else:
        turned: Value = emitter.reshaped(given, (groups, group_channels, weights[1], *kernel))
        for axis in spatial:
            turned = emitter.reversed(turned, axis)
        packed = emitter.reshaped(emitter.transposed(turned, order), packed_shape)
    if rank == 3 and not isinstance(packed, Constant):
        found = node.computed(1, "make it an initializer")
        raise node.unsupported(f"weights in three dimensions must be a constant; {found}")
    if rank == 3:
        assert isinstance(packed, Constant)
        x = emitter.transposed(emitter.value(0), (0, 2, 3, 4, 1))
        spread = _spread(emitter, x, low, high, between)
        taps = packed.transposed((1, 0, 2, 3, 4))
        (deep, *flat), (apart, *rest) = kernel, dilations
        depth = SpatialWindow((deep, 1), (1, 1), (0, 0, 0, 0), (apart, 1))
        sides = (flat[0], flat[1]), (1, 1), (0, 0, 0, 0), (rest[0], rest[1])
        summed = convolved(emitter, spread, taps, bias, SpatialWindow(*sides, depth=depth), groups)
        return emitter.transposed(summed, (0, 4, 1, 2, 3))
    one, none = (1,) * (2 - rank), (0,) * (2 - rank)
    x = emitter.feature_map(emitter.value(0))
    spread = _spread(emitter, x, [*none, *low], [*none, *high], [*none, *between])
    sides, apart = (*one, *kernel), (*one, *dilations)
    taps = emitter.reshaped(packed, (outputs, *sides, group_channels))
    window = SpatialWindow((sides[0], sides[1]), (1, 1), (0, 0, 0, 0), (apart[0], apart[1]))
    result = convolved(emitter, spread, taps, bias, window, groups)
    return emitter.from_feature_map(result, len(shape))


def _spread(
    emitter: Emitter, x: Value, low: Sequence[int], high: Sequence[int], between: Sequence[int]
) -> Value:
    """
    Add zeros between the elements of the feature map `x`, and around them (`low` before, `high`
    after). Negative numbers in `low` and `high` crop.
    """
    zeros = (0, *(max(p, 0) for p in low), 0), (0, *(max(p, 0) for p in high), 0)
    padded = emitter.padded(emitter.materialize(x), *zeros, interior=(0, *between, 0))
    shape = shape_of_value(padded)
    starts = (0, *(max(-p, 0) for p in low), 0)
    trailing = (0, *(max(-p, 0) for p in high), 0)
    sizes = [n - a - b for n, a, b in zip(shape, starts, trailing, strict=True)]
    if any(n < 1 for n in sizes):
        raise emitter.node.wrong("the padding leaves no elements")
    return emitter.sliced(padded, starts, sizes)


def _padding(
    node: Node,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[list[int], list[int]]:
    """
    Return, for each dimension, the number of elements of the full result to crop at the start and
    at the end. Negative numbers add zeros.
    """
    rank = len(shape)
    extra = node.per_dimension("output_padding", rank, 0, 0)
    steps = [max(s, d) for s, d in zip(strides, dilations, strict=True)]
    if any(e >= step for e, step in zip(extra, steps, strict=True)):
        raise node.wrong(f"attribute 'output_padding' is {list(extra)}, expected less than {steps}")
    auto = node.string("auto_pad", "NOTSET")
    pads = node.integers("pads") or (0,) * (2 * rank)
    if len(pads) != 2 * rank or any(p < 0 for p in pads):
        raise node.wrong(f"attribute 'pads' must be {2 * rank} integers >= 0")
    full = [
        (n - 1) * s + window_extent(k, d) + e
        for n, s, k, d, e in zip(shape, strides, kernel, dilations, extra, strict=True)
    ]
    wanted = node.integers("output_shape")
    if wanted is not None:
        wanted = wanted[-rank:]
        if len(wanted) != rank or any(w < 1 for w in wanted):
            raise node.wrong(f"attribute 'output_shape' must be {rank} integers >= 1")
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(n * s for n, s in zip(shape, strides, strict=True))
    elif auto not in ("NOTSET", "VALID"):
        raise node.wrong(f"attribute 'auto_pad' must not be '{auto}'")
    if wanted is None:
        before, after = list(pads[:rank]), list(pads[rank:])
        if auto == "VALID":
            before, after = [0] * rank, [0] * rank
    else:
        total = [max(f - w, 0) for f, w in zip(full, wanted, strict=True)]
        short = [max(w - f, 0) for f, w in zip(full, wanted, strict=True)]
        if any(short) and auto in ("SAME_UPPER", "SAME_LOWER"):
            raise node.unsupported(
                f"auto_pad={auto} with a result of {list(wanted)}, which is larger than the "
                f"{full} of the window and the strides; ONNX and ONNX Runtime place the added "
                "zeros differently; write 'pads' and 'output_padding'"
            )
        if any(n >= step for n, step in zip(short, steps, strict=True)):
            raise node.wrong(f"attribute 'output_shape' is {list(wanted)}, more than {full} allows")
        half = [t // 2 for t in total]
        rest = [t - h for t, h in zip(total, half, strict=True)]
        before, after = (half, rest) if auto == "SAME_UPPER" else (rest, half)
        after = [a - s for a, s in zip(after, short, strict=True)]
    for f, b, a in zip(full, before, after, strict=True):
        if f - b - a < 1:
            raise node.wrong(f"padding {before} and {after} leave no elements of {full}")
    return before, [a - e for a, e in zip(after, extra, strict=True)]


LINEAR = "linear", "zeros", True
"""Linear interpolation with zeros outside."""


@dataclass(frozen=True)
class _Shapes:
    images: int
    channels: int
    extents: tuple[int, ...]
    outputs: int
    groups: int
    parts: int
    """The number of channel groups with separate offsets."""
    window: SpatialWindow
    sizes: tuple[int, ...]
    """Height and width of the result."""

    @classmethod
    def of(cls, node: Node, emitter: Emitter) -> "_Shapes":
        shape, weights = emitter.shape(0), emitter.shape(1)
        if len(shape) != 4 or len(weights) != 4:
            given = f"input {list(shape)} and weights {list(weights)}"
            raise node.unsupported(f"{given}, expected two spatial dimensions")
        (images, channels, *extents), (outputs, per_group, *_) = shape, weights
        parts, groups = node.integer("offset_group", 1), node.integer("group", 1)
        split = min(parts, groups) > 0 and channels % parts == 0 and outputs % groups == 0
        if not split or channels != per_group * groups:
            raise node.wrong(
                f"{channels} input and {outputs} output channels in {groups} groups of "
                f"{per_group}, with offsets for {parts}"
            )
        window = read_window(node, shape[2:], weights)
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
    Import DeformConv: gather the elements of windows at positions that are moved by offsets
    [N, 2 G KH KW, OH, OW] (pairs of y and x), multiply by a mask, and then multiply by the weights.
    """
    shapes = _Shapes.of(node, emitter)
    taps, places = prod(shapes.window.kernel), prod(shapes.sizes)
    windows = _windows(node, emitter, shapes)
    rows = emitter.reshaped(windows, (shapes.images, places, taps, shapes.channels))
    per_group = shapes.channels // shapes.groups
    weights = emitter.reshaped(emitter.value(1), (shapes.outputs, per_group, 1, taps))
    result = convolved(
        emitter,
        rows,
        emitter.transposed(weights, TO_NHWC),
        emitter.tensor(3) if node.has_input(3) else None,
        SpatialWindow((1, taps), (1, 1), (0, 0, 0, 0), (1, 1)),
        shapes.groups,
    )
    maps = emitter.reshaped(result, (shapes.images, *shapes.sizes, shapes.outputs))
    return emitter.transposed(maps, (0, 3, 1, 2))


def _windows(node: Node, emitter: Emitter, shapes: _Shapes) -> Value:
    """
    Return the elements of all windows after their positions are moved, [N, OH OW, KH KW, G, C/G].
    """
    taps, places = prod(shapes.window.kernel), prod(shapes.sizes)
    images, channels = shapes.images * shapes.parts, shapes.channels // shapes.parts
    offsets = emitter.reshaped(emitter.value(2), (images * taps, 2, places))

    def axis_taps(d: int) -> list[Tap]:
        moves = emitter.reshaped(emitter.part(offsets, 1, d, 1), (images, taps * places))
        fixed = emitter.constant(_places(shapes.window, shapes.sizes, d), f"places{d}")
        return taps_around(emitter, emitter.add(moves, fixed), shapes.extents[d], LINEAR)

    x = emitter.reshaped(emitter.value(0), (images, channels, *shapes.extents))
    first = np.arange(images, dtype=np.int64).reshape(-1, 1) * prod(shapes.extents)
    elements = weighted_rows(
        emitter,
        rows_of_channels(emitter, x),
        [axis_taps(0), axis_taps(1)],
        shapes.extents,
        emitter.constant(first, "image"),
    )
    if node.has_input(4):
        elements = emitter.mul(
            elements, emitter.reshaped(emitter.value(4), (images * taps * places, 1))
        )
    window_axes = emitter.reshaped(elements, (shapes.images, shapes.parts, taps, places, channels))
    return emitter.transposed(window_axes, (0, 3, 2, 1, 4))


def _places(window: SpatialWindow, sizes: Sequence[int], dimension: int) -> NDArray[np.float32]:
    """
    Return the positions of the elements of all windows along `dimension` (0 or 1), before offsets
    are added.
    """
    first = np.arange(sizes[dimension]) * window.strides[dimension] - window.padding[dimension]
    tap = np.arange(window.kernel[dimension]) * window.dilations[dimension]
    shape = [1, 1, 1, 1]
    shape[dimension], shape[2 + dimension] = len(tap), len(first)
    positions = (tap[:, None] + first).reshape(shape)
    return np.broadcast_to(positions, (*window.kernel, *sizes)).reshape(1, -1).astype(np.float32)
