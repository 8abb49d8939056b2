"""Import operators that interpolate between elements at computed positions."""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Binary, Compare, Function, Reduce
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import operator, rule
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node

CUBIC_COEFFICIENT = -0.75
"""The coefficient of cubic interpolation."""

OLDER_MODES = {"bilinear": "linear", "bicubic": "cubic"}


class Tap(NamedTuple):
    """Elements along a dimension, at integers stored as floats, and their weights."""

    at: Value
    weight: Value | None


@operator("GridSample")
def grid_sample(node: Node, emitter: Emitter) -> Value:
    """
    Emit weighted sums around grid positions; outside are zeros, the border, or mirrored input.
    """
    shape, grid = emitter.shape(0), emitter.shape(1)
    n, channels, *extents = shape
    if len(grid) != len(shape) or grid[0] != n or grid[-1] != len(extents):
        raise node.wrong(f"a grid of {list(grid)} for an input of {list(shape)}")
    mode = node.string("mode", "linear")
    mode, padding = OLDER_MODES.get(mode, mode), node.string("padding_mode", "zeros")
    corners = node.flag("align_corners")
    places = [n, prod(grid[1:-1])]
    taps = [
        taps_around(
            emitter,
            # The grid has the coordinates in reverse order.
            _unscaled(emitter, _column(emitter, emitter.value(1), -1 - d, places), size, corners),
            size,
            (mode, padding, corners),
        )
        for d, size in enumerate(extents)
    ]
    base = np.arange(n, dtype=np.int64).reshape(n, 1) * prod(extents)
    rows = rows_of_channels(emitter, emitter.value(0))
    result = weighted_rows(emitter, rows, taps, extents, emitter.constant(base, "batch"))
    back = emitter.reshaped(result, (n, *grid[1:-1], channels))
    return emitter.transposed(back, (0, len(shape) - 1, *range(1, len(shape) - 1)))


@rule("GridSample")
def _modes(node: Node) -> str | None:
    """modes are linear, nearest and cubic, the latter in two dimensions; padding zeros, border and
    reflection"""
    mode, padding = node.string("mode", "linear"), node.string("padding_mode", "zeros")
    if OLDER_MODES.get(mode, mode) not in ("linear", "nearest", "cubic"):
        return f"got mode {mode}"
    return None if padding in ("zeros", "border", "reflection") else f"got padding {padding}"


@operator("RoiAlign")
def roi_align(node: Node, emitter: Emitter) -> Value:
    """Average, or maximize, `sampling_ratio` positions along each side of each bin of a region."""
    (_, channels, *extents), (count, _) = emitter.shape(0), emitter.shape(1)
    bins = node.integer("output_height", 1), node.integer("output_width", 1)
    ratio, scale = node.integer("sampling_ratio", 0), node.number("spatial_scale", 1.0)
    half = (
        node.opset >= 16
        and node.string("coordinate_transformation_mode", "half_pixel") != "output_half_pixel"
    )
    offset = 0.5 if half else 0.0
    places: list[Value] = []
    for d in range(2):
        bounds = (_column(emitter, emitter.value(1), at, [count, 1]) for at in (1 - d, 3 - d))
        scaled = (emitter.mul(end, _number(emitter, scale)) for end in bounds)
        low, high = (emitter.sub(end, _number(emitter, offset)) for end in scaled)
        extent = emitter.sub(high, low)
        if not half:
            extent = emitter.binary(Binary.MAX, extent, _number(emitter, 1.0))
        centers = np.arange(bins[d] * ratio, dtype=np.float32) + np.float32(0.5)
        steps = centers / np.float32(bins[d] * ratio)
        inside = emitter.mul(extent, emitter.constant(steps.reshape(1, -1), f"steps{d}"))
        places.append(emitter.add(low, inside))
    height, width = bins[0] * ratio, bins[1] * ratio
    y = emitter.expanded(emitter.reshaped(places[0], (count, height, 1)), (count, height, width))
    x = emitter.expanded(emitter.reshaped(places[1], (count, 1, width)), (count, height, width))
    flat = (count, height * width)
    bounds = [(emitter.reshaped(v, flat), size) for v, size in zip((y, x), extents, strict=True)]
    there = _within_one(emitter, bounds)
    taps = [_region_taps(emitter, value, size, there) for value, size in bounds]
    numbers = emitter.cast(emitter.reshaped(emitter.value(2), (count, 1)), i64)
    base = emitter.mul(numbers, emitter.constant(np.array([prod(extents)], np.int64), "image"))
    rows = rows_of_channels(emitter, emitter.value(0))
    maximum = node.string("mode", "avg") == "max"
    reduce = Reduce.MAX if maximum else Reduce.SUM
    sampled = weighted_rows(
        emitter, rows, taps, extents, base, Binary.MAX if maximum else Binary.ADD
    )
    parts = emitter.reshaped(sampled, (count, bins[0], ratio, bins[1], ratio, channels))
    result = emitter.reduce(reduce, parts, (2, 4))
    if not maximum:
        result = emitter.div(result, emitter.number(ratio * ratio, result))
    return emitter.transposed(emitter.reshaped(result, (count, *bins, channels)), (0, 3, 1, 2))


@rule("RoiAlign")
def _ratio(node: Node) -> str | None:
    """sampling_ratio must be set, because otherwise data decide the number of samples"""
    return None if node.integer("sampling_ratio", 0) > 0 else "got 0"


def _number(emitter: Emitter, value: float) -> Value:
    return emitter.constant(np.array([value], np.float32), "number")


def _column(emitter: Emitter, value: Value, column: int, shape: Sequence[int]) -> Value:
    last = len(shape_of_value(value)) - 1
    extent = shape_of_value(value)[last]
    return emitter.reshaped(emitter.part(value, last, column % extent, 1), shape)


def rows_of_channels(emitter: Emitter, value: Value) -> Value:
    """Return [N, C, ...] as a row of channels for each element."""
    shape = shape_of_value(value)
    order = (0, *range(2, len(shape)), 1)
    return emitter.reshaped(emitter.transposed(value, order), (prod(shape) // shape[1], shape[1]))


def _unscaled(emitter: Emitter, x: Value, size: int, corners: bool) -> Value:
    above = emitter.add(x, _number(emitter, 1.0))
    if corners:
        return emitter.mul(above, _number(emitter, (size - 1) / 2))
    scaled = emitter.sub(emitter.mul(above, _number(emitter, size)), _number(emitter, 1.0))
    return emitter.mul(scaled, _number(emitter, 0.5))


def taps_around(emitter: Emitter, x: Value, size: int, kind: tuple[str, str, bool]) -> list[Tap]:
    """Return the elements around `x` with weights."""
    mode, padding, corners = kind
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    if mode == "nearest":
        x = emitter.unary(Function.ROUND, x)
    if padding == "border":
        x = _outside(emitter, x, low, high, _clamped(emitter, x, size))
    elif padding == "reflection":
        x = _outside(emitter, x, low, high, _mirrored(emitter, x, low, high))
    if mode == "nearest":
        return [_tap(emitter, x, None, size, (padding, low, high))]
    first = emitter.unary(Function.FLOOR, x)
    part = emitter.sub(x, first)
    weights = _linear(emitter, part) if mode == "linear" else _cubic(emitter, part)
    start, outside = (0 if mode == "linear" else -1), (padding, low, high)
    return [
        _tap(emitter, emitter.add(first, _number(emitter, start + i)), weight, size, outside)
        for i, weight in enumerate(weights)
    ]


def _tap(
    emitter: Emitter, at: Value, weight: Value | None, size: int, kind: tuple[str, float, float]
) -> Tap:
    padding, low, high = kind
    inside = _clamped(emitter, at, size)
    if padding == "zeros":
        there = emitter.cast(emitter.compare(Compare.EQUAL, at, inside))
        return Tap(inside, there if weight is None else emitter.mul(weight, there))
    if padding == "reflection":
        inside = _clamped(emitter, _mirrored(emitter, at, low, high), size)
    return Tap(inside, weight)


def _within_one(emitter: Emitter, bounds: Sequence[tuple[Value, int]]) -> Value:
    """Return 1 for positions at most one element outside, in all dimensions, else 0."""
    there: Value | None = None
    for value, extent in bounds:
        for kind, a, b in (
            (Compare.LESS_OR_EQUAL, _number(emitter, -1.0), value),
            (Compare.LESS_OR_EQUAL, value, _number(emitter, extent)),
        ):
            inside = emitter.cast(emitter.compare(kind, a, b))
            there = inside if there is None else emitter.mul(there, inside)
    assert there is not None
    return there


def _region_taps(emitter: Emitter, x: Value, size: int, there: Value) -> list[Tap]:
    """Return the two elements around `x`, with weights of 0 outside."""
    near = _clamped(emitter, x, size)
    first = emitter.unary(Function.FLOOR, near)
    part = emitter.sub(near, first)
    second = _clamped(emitter, emitter.add(first, _number(emitter, 1.0)), size)
    return [
        Tap(at, emitter.mul(weight, there))
        for at, weight in zip((first, second), _linear(emitter, part), strict=True)
    ]


def _clamped(emitter: Emitter, x: Value, size: int) -> Value:
    positive = emitter.binary(Binary.MAX, x, _number(emitter, 0.0))
    return emitter.binary(Binary.MIN, positive, _number(emitter, size - 1.0))


def _outside(emitter: Emitter, x: Value, low: float, high: float, instead: Value) -> Value:
    below = emitter.compare(Compare.LESS, x, _number(emitter, low))
    above = emitter.compare(Compare.LESS, _number(emitter, high), x)
    return emitter.select(below, instead, emitter.select(above, instead, x))


def _mirrored(emitter: Emitter, x: Value, low: float, high: float) -> Value:
    """Mirror `x` at `low` and `high` until it is between them."""
    extent = high - low
    if extent == 0:
        return emitter.mul(x, _number(emitter, 0.0))
    away = emitter.unary(Function.ABS, emitter.sub(x, _number(emitter, low)))
    period = _number(emitter, 2 * extent)
    periods = emitter.unary(Function.FLOOR, emitter.div(away, period))
    rest = emitter.sub(away, emitter.mul(periods, period))
    nearer = emitter.binary(Binary.MIN, rest, emitter.sub(period, rest))
    return emitter.add(nearer, _number(emitter, low))


def _linear(emitter: Emitter, part: Value) -> list[Value]:
    return [emitter.sub(_number(emitter, 1.0), part), part]


def _cubic(emitter: Emitter, part: Value) -> list[Value]:
    """Return Keys' weights of the four nearest elements."""
    a = CUBIC_COEFFICIENT

    def polynomial(x: Value, *coefficients: float) -> Value:
        value: Value = _number(emitter, coefficients[0])
        for c in coefficients[1:]:
            value = emitter.add(emitter.mul(value, x), _number(emitter, c))
        return value

    def inner(x: Value) -> Value:
        return polynomial(x, a + 2, -(a + 3), 0.0, 1.0)

    def outer(x: Value) -> Value:
        return polynomial(x, a, -5 * a, 8 * a, -4 * a)

    rest, one = emitter.sub(_number(emitter, 1.0), part), _number(emitter, 1.0)
    return [outer(emitter.add(part, one)), inner(part), inner(rest), outer(emitter.add(rest, one))]


def weighted_rows(
    emitter: Emitter,
    rows: Value,
    taps: Sequence[Sequence[Tap]],
    extents: Sequence[int],
    base: Value,
    join: Binary = Binary.ADD,
) -> Value:
    """Sum the rows at all combinations of taps, one tap for each dimension."""
    total = None
    for chosen in product(*taps):
        at, weight = base, None
        for d, tap in enumerate(chosen):
            stride = emitter.constant(np.array([prod(extents[d + 1 :])], np.int64), "stride")
            at = emitter.add(at, emitter.mul(emitter.cast(tap.at, i64), stride))
            if tap.weight is not None:
                weight = tap.weight if weight is None else emitter.mul(weight, tap.weight)
        count = prod(shape_of_value(at))
        taken: Value = emitter.taken(rows, at)
        if weight is not None:
            taken = emitter.mul(taken, emitter.reshaped(weight, (count, 1)))
        total = taken if total is None else emitter.binary(join, total, taken)
    assert total is not None
    return total
