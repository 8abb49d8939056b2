"""Operators that take elements between elements: at places that are computed, with weights."""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Binary, Compare, Function, Reduce, TakeOp
from ceras_ir.frontends.onnx.emission.compose import Composer
from ceras_ir.frontends.onnx.emission.constants import Value
from ceras_ir.frontends.onnx.emission.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.emission.registry import operator, rule
from ceras_ir.frontends.onnx.model.node import Node

SHARPNESS = -0.75
"""Of cubic interpolation."""

KINDS = {"bilinear": "linear", "bicubic": "cubic"}
"""Older names of modes."""


class Tap(NamedTuple):
    """Elements along one dimension, by floats that are whole, and how much they count."""

    at: Value
    weight: Value | None


@operator("GridSample")
def grid_sample(node: Node, emitter: Emitter) -> Value:
    """
    The input at places of a grid: a weighted sum of elements around each. Modes linear, nearest and
    cubic; outside there are zeros, the border, or the input mirrored.
    """
    compose = Composer(emitter)
    shape, grid = emitter.shape(0), emitter.shape(1)
    n, channels, *extents = shape
    if len(grid) != len(shape) or grid[0] != n or grid[-1] != len(extents):
        raise node.wrong(f"a grid of {list(grid)} for an input of {list(shape)}")
    mode = node.string("mode", "linear")
    mode, padding = KINDS.get(mode, mode), node.string("padding_mode", "zeros")
    corners = node.flag("align_corners")
    places = [n, prod(grid[1:-1])]
    taps = [
        taps_around(
            compose,
            # The last dimension counts in the other order.
            _unscaled(compose, _column(compose, emitter.value(1), -1 - d, places), size, corners),
            size,
            (mode, padding, corners),
        )
        for d, size in enumerate(extents)
    ]
    base = np.arange(n, dtype=np.int64).reshape(n, 1) * prod(extents)
    rows = rows_of_channels(emitter, emitter.value(0))
    result = weighted_rows(compose, rows, taps, extents, emitter.constant(base, "batch"))
    back = emitter.reshaped(result, (n, *grid[1:-1], channels))
    return emitter.transposed(back, (0, len(shape) - 1, *range(1, len(shape) - 1)))


@rule("GridSample")
def _modes(node: Node) -> str | None:
    """modes are linear, nearest and cubic, the latter in two dimensions; padding zeros, border and
    reflection"""
    mode, padding = node.string("mode", "linear"), node.string("padding_mode", "zeros")
    if KINDS.get(mode, mode) not in ("linear", "nearest", "cubic"):
        return f"got mode {mode}"
    return None if padding in ("zeros", "border", "reflection") else f"got padding {padding}"


@operator("RoiAlign")
def roi_align(node: Node, emitter: Emitter) -> Value:
    """Averages, or maxima, of `sampling_ratio` places along each side of every bin of a region."""
    compose = Composer(emitter)
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
        ends = (_column(compose, emitter.value(1), at, [count, 1]) for at in (1 - d, 3 - d))
        scaled = (compose.mul(end, _number(compose, scale)) for end in ends)
        low, high = (compose.sub(end, _number(compose, offset)) for end in scaled)
        extent = compose.sub(high, low)
        if not half:
            extent = emitter.binary(Binary.MAX, extent, _number(compose, 1.0))
        steps = (np.arange(bins[d] * ratio, dtype=np.float32) + np.float32(0.5)) / np.float32(
            bins[d] * ratio
        )
        inside = compose.mul(extent, emitter.constant(steps.reshape(1, -1), f"steps{d}"))
        places.append(compose.add(low, inside))
    height, width = bins[0] * ratio, bins[1] * ratio
    y = compose.expanded(emitter.reshaped(places[0], (count, height, 1)), (count, height, width))
    x = compose.expanded(emitter.reshaped(places[1], (count, 1, width)), (count, height, width))
    flat = (count, height * width)
    ends = [(emitter.reshaped(v, flat), size) for v, size in zip((y, x), extents, strict=True)]
    there = _within_one(compose, ends)
    taps = [_region_taps(compose, value, size, there) for value, size in ends]
    numbers = compose.cast(emitter.reshaped(emitter.value(2), (count, 1)), i64)
    base = compose.mul(numbers, emitter.constant(np.array([prod(extents)], np.int64), "image"))
    rows = rows_of_channels(emitter, emitter.value(0))
    maximum = node.string("mode", "avg") == "max"
    reduce = Reduce.MAX if maximum else Reduce.SUM
    sampled = weighted_rows(
        compose, rows, taps, extents, base, Binary.MAX if maximum else Binary.ADD
    )
    parts = emitter.reshaped(sampled, (count, bins[0], ratio, bins[1], ratio, channels))
    result = compose.reduce(reduce, parts, (2, 4))
    if not maximum:
        result = compose.div(result, compose.number(ratio * ratio, result))
    return emitter.transposed(emitter.reshaped(result, (count, *bins, channels)), (0, 3, 1, 2))


@rule("RoiAlign")
def _ratio(node: Node) -> str | None:
    """sampling_ratio must be set: else data decide how many places a bin has"""
    return None if node.integer("sampling_ratio", 0) > 0 else "got 0"


def _number(compose: Composer, value: float) -> Value:
    return compose.emitter.constant(np.array([value], np.float32), "number")


def _column(compose: Composer, value: Value, column: int, shape: Sequence[int]) -> Value:
    """One of the last dimension's numbers, of every row."""
    last = len(shape_of_value(value)) - 1
    extent = shape_of_value(value)[last]
    return compose.emitter.reshaped(compose.part(value, last, column % extent, 1), shape)


def rows_of_channels(emitter: Emitter, value: Value) -> Value:
    """[N, C, ...] as one row of channels for each element."""
    shape = shape_of_value(value)
    order = (0, *range(2, len(shape)), 1)
    return emitter.reshaped(emitter.transposed(value, order), (prod(shape) // shape[1], shape[1]))


def _unscaled(compose: Composer, x: Value, size: int, corners: bool) -> Value:
    """Places in [-1, 1] as numbers of elements."""
    above = compose.add(x, _number(compose, 1.0))
    if corners:
        return compose.mul(above, _number(compose, (size - 1) / 2))
    whole = compose.sub(compose.mul(above, _number(compose, size)), _number(compose, 1.0))
    return compose.mul(whole, _number(compose, 0.5))


def taps_around(compose: Composer, x: Value, size: int, kind: tuple[str, str, bool]) -> list[Tap]:
    """The elements around `x` that count."""
    mode, padding, corners = kind
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    if mode == "nearest":
        x = compose.unary(Function.ROUND, x)
    if padding == "border":
        x = _outside(compose, x, low, high, _clamped(compose, x, size))
    elif padding == "reflection":
        x = _outside(compose, x, low, high, _mirrored(compose, x, low, high))
    if mode == "nearest":
        return [_tap(compose, x, None, size, (padding, low, high))]
    first = compose.unary(Function.FLOOR, x)
    part = compose.sub(x, first)
    weights = _linear(compose, part) if mode == "linear" else _cubic(compose, part)
    start, outside = (0 if mode == "linear" else -1), (padding, low, high)
    return [
        _tap(compose, compose.add(first, _number(compose, start + i)), weight, size, outside)
        for i, weight in enumerate(weights)
    ]


def _tap(
    compose: Composer, at: Value, weight: Value | None, size: int, kind: tuple[str, float, float]
) -> Tap:
    padding, low, high = kind
    inside = _clamped(compose, at, size)
    if padding == "zeros":
        there = compose.cast(compose.compare(Compare.EQUAL, at, inside))
        return Tap(inside, there if weight is None else compose.mul(weight, there))
    if padding == "reflection":
        inside = _clamped(compose, _mirrored(compose, at, low, high), size)
    return Tap(inside, weight)


def _within_one(compose: Composer, ends: Sequence[tuple[Value, int]]) -> Value:
    """1 for places that are no further out than one element, along any dimension."""
    there: Value | None = None
    for value, extent in ends:
        for kind, a, b in (
            (Compare.LESS_OR_EQUAL, _number(compose, -1.0), value),
            (Compare.LESS_OR_EQUAL, value, _number(compose, extent)),
        ):
            inside = compose.cast(compose.compare(kind, a, b))
            there = inside if there is None else compose.mul(there, inside)
    assert there is not None
    return there


def _region_taps(compose: Composer, x: Value, size: int, there: Value) -> list[Tap]:
    """The two elements around `x`, where that counts."""
    near = _clamped(compose, x, size)
    first = compose.unary(Function.FLOOR, near)
    part = compose.sub(near, first)
    second = _clamped(compose, compose.add(first, _number(compose, 1.0)), size)
    return [
        Tap(at, compose.mul(weight, there))
        for at, weight in zip((first, second), _linear(compose, part), strict=True)
    ]


def _clamped(compose: Composer, x: Value, size: int) -> Value:
    least = compose.emitter.binary(Binary.MAX, x, _number(compose, 0.0))
    return compose.emitter.binary(Binary.MIN, least, _number(compose, size - 1.0))


def _outside(compose: Composer, x: Value, low: float, high: float, instead: Value) -> Value:
    """`instead` where `x` is not from `low` to `high`."""
    below = compose.compare(Compare.LESS, x, _number(compose, low))
    above = compose.compare(Compare.LESS, _number(compose, high), x)
    return compose.select(below, instead, compose.select(above, instead, x))


def _mirrored(compose: Composer, x: Value, low: float, high: float) -> Value:
    """`x`, mirrored at `low` and `high` until it is between them."""
    extent = high - low
    if extent == 0:
        return compose.mul(x, _number(compose, 0.0))
    away = compose.unary(Function.ABS, compose.sub(x, _number(compose, low)))
    period = _number(compose, 2 * extent)
    whole = compose.unary(Function.FLOOR, compose.div(away, period))
    rest = compose.sub(away, compose.mul(whole, period))
    nearer = compose.emitter.binary(Binary.MIN, rest, compose.sub(period, rest))
    return compose.add(nearer, _number(compose, low))


def _linear(compose: Composer, part: Value) -> list[Value]:
    return [compose.sub(_number(compose, 1.0), part), part]


def _cubic(compose: Composer, part: Value) -> list[Value]:
    """Keys' weights of the element before, the two around, and the one behind."""
    a = SHARPNESS

    def polynomial(x: Value, *coefficients: float) -> Value:
        value: Value = _number(compose, coefficients[0])
        for c in coefficients[1:]:
            value = compose.add(compose.mul(value, x), _number(compose, c))
        return value

    def inner(x: Value) -> Value:
        return polynomial(x, a + 2, -(a + 3), 0.0, 1.0)

    def outer(x: Value) -> Value:
        return polynomial(x, a, -5 * a, 8 * a, -4 * a)

    rest, one = compose.sub(_number(compose, 1.0), part), _number(compose, 1.0)
    return [outer(compose.add(part, one)), inner(part), inner(rest), outer(compose.add(rest, one))]


def weighted_rows(
    compose: Composer,
    rows: Value,
    taps: Sequence[Sequence[Tap]],
    extents: Sequence[int],
    base: Value,
    join: Binary = Binary.ADD,
) -> Value:
    """The sum of the rows that every choice of taps names, one tap for each dimension."""
    emitter, total = compose.emitter, None
    for chosen in product(*taps):
        at, weight = base, None
        for d, tap in enumerate(chosen):
            stride = emitter.constant(np.array([prod(extents[d + 1 :])], np.int64), "stride")
            at = compose.add(at, compose.mul(compose.cast(tap.at, i64), stride))
            if tap.weight is not None:
                weight = tap.weight if weight is None else compose.mul(weight, tap.weight)
        count = prod(shape_of_value(at))
        flat = emitter.materialize(emitter.reshaped(at, (count,)))
        taken: Value = emitter.emit(TakeOp(emitter.materialize(rows), flat))
        if weight is not None:
            taken = compose.mul(taken, emitter.reshaped(weight, (count, 1)))
        total = taken if total is None else emitter.binary(join, total, taken)
    assert total is not None
    return total
