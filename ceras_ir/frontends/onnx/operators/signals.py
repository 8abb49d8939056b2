"""Import operators on signals: interpolation at computed positions, and Fourier transforms."""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Binary, Compare, Function, Reduce
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import (
    COMPUTED_REMEDY,
    constant_operands,
    operator,
    rule,
)
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.convolution import SpatialWindow, convolved

CUBIC_COEFFICIENT = -0.75
"""The coefficient of cubic interpolation."""

OLDER_MODES = {"bilinear": "linear", "bicubic": "cubic"}


class Tap(NamedTuple):
    """
    Neighbors of positions along a dimension: their indices, as floats, and their weights in an
    interpolation (`None`: 1).
    """

    at: Value
    weight: Value | None


@operator("GridSample")
def grid_sample(node: Node, emitter: Emitter) -> Value:
    """
    Import GridSample: interpolate the input at the positions of a grid. Outside of the input are
    zeros, the border or a reflection.
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
    """
    modes must be linear, nearest or (in two dimensions) cubic; padding zeros, border, reflection
    """
    mode, padding = node.string("mode", "linear"), node.string("padding_mode", "zeros")
    if OLDER_MODES.get(mode, mode) not in ("linear", "nearest", "cubic"):
        return f"got mode {mode}"
    return None if padding in ("zeros", "border", "reflection") else f"got padding {padding}"


@operator("RoiAlign")
def roi_align(node: Node, emitter: Emitter) -> Value:
    """
    Import RoiAlign: divide each region into bins, interpolate `sampling_ratio` positions along each
    side of a bin, and take their average or maximum.
    """
    (_, channels, *extents), (count, _) = emitter.shape(0), emitter.shape(1)
    bins = node.integer("output_height", 1), node.integer("output_width", 1)
    ratio, scale = node.integer("sampling_ratio", 0), node.number("spatial_scale", 1.0)
    mode = node.string("coordinate_transformation_mode", "half_pixel")
    half = node.opset >= 16 and mode != "output_half_pixel"
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
    reduce, join = (Reduce.MAX, Binary.MAX) if maximum else (Reduce.SUM, Binary.ADD)
    sampled = weighted_rows(emitter, rows, taps, extents, base, join)
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
    """Return [N, C, ...] as rows of channels, [elements, C]."""
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
    """
    Return the neighbors of the positions `x` along a dimension of `size` elements, with their
    weights in the interpolation. `kind` has the mode, the padding and whether corners are aligned.
    """
    mode, padding, corners = kind
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    if mode == "nearest":
        x = emitter.unary(Function.ROUND, x)
    if padding == "border":
        x = _outside(emitter, x, low, high, _clamped(emitter, x, size))
    elif padding == "reflection":
        x = _outside(emitter, x, low, high, _mirrored(emitter, x, low, high))

    def tap(at: Value, weight: Value | None) -> Tap:
        inside = _clamped(emitter, at, size)
        if padding == "zeros":
            there = emitter.cast(emitter.compare(Compare.EQUAL, at, inside))
            return Tap(inside, there if weight is None else emitter.mul(weight, there))
        if padding == "reflection":
            inside = _clamped(emitter, _mirrored(emitter, at, low, high), size)
        return Tap(inside, weight)

    if mode == "nearest":
        return [tap(x, None)]
    first = emitter.unary(Function.FLOOR, x)
    part = emitter.sub(x, first)
    weights = _linear(emitter, part) if mode == "linear" else _cubic(emitter, part)
    numbered = enumerate(weights, 0 if mode == "linear" else -1)
    return [tap(emitter.add(first, _number(emitter, i)), weight) for i, weight in numbered]


def _within_one(emitter: Emitter, bounds: Sequence[tuple[Value, int]]) -> Value:
    """
    Return 1 for positions that are at most one element outside of the input, in all dimensions,
    else 0. `bounds` has the positions and the extent of each dimension.
    """
    there: Value | None = None
    for value, extent in bounds:
        for pair in ((_number(emitter, -1.0), value), (value, _number(emitter, extent))):
            inside = emitter.cast(emitter.compare(Compare.LESS_OR_EQUAL, *pair))
            there = inside if there is None else emitter.mul(there, inside)
    assert there is not None
    return there


def _region_taps(emitter: Emitter, x: Value, size: int, there: Value) -> list[Tap]:
    """
    Return the two neighbors of the positions `x` along a dimension of `size` elements. The weights
    are multiplied by `there`, which is 0 for positions outside.
    """
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
    """
    Return the positions `x` after reflection at `low` and `high`, as often as needed to be between
    them.
    """
    extent = high - low
    if extent == 0:
        return emitter.mul(x, _number(emitter, 0.0))
    distance = emitter.unary(Function.ABS, emitter.sub(x, _number(emitter, low)))
    period = _number(emitter, 2 * extent)
    periods = emitter.unary(Function.FLOOR, emitter.div(distance, period))
    rest = emitter.sub(distance, emitter.mul(periods, period))
    nearer = emitter.binary(Binary.MIN, rest, emitter.sub(period, rest))
    return emitter.add(nearer, _number(emitter, low))


def _linear(emitter: Emitter, part: Value) -> list[Value]:
    return [emitter.sub(_number(emitter, 1.0), part), part]


def _cubic(emitter: Emitter, part: Value) -> list[Value]:
    """
    Return the weights of the four nearest elements in Keys' cubic interpolation. `part` is the
    distance to the second of them.
    """
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
    """
    Emit the interpolation at a position: a sum of rows of channels, weighted by the products of the
    tap weights of all dimensions. `taps` has the neighbors of the position along each dimension;
    `rows` is [elements, channels], `extents` are the sizes of the dimensions, and `base` is the row
    of the first element. `join` is ADD, or MAX for the maximum of the weighted rows.
    """
    total = None
    for chosen in product(*taps):
        at, weight = base, None
        for d, tap in enumerate(chosen):
            stride = emitter.constant(np.array([prod(extents[d + 1 :])], np.int64), "stride")
            at = emitter.add(at, emitter.mul(emitter.cast(tap.at, i64), stride))
            if tap.weight is not None:
                weight = tap.weight if weight is None else emitter.mul(weight, tap.weight)
        count = prod(shape_of_value(at))
        gathered: Value = emitter.taken(rows, at)
        if weight is not None:
            gathered = emitter.mul(gathered, emitter.reshaped(weight, (count, 1)))
        total = gathered if total is None else emitter.binary(join, total, gathered)
    assert total is not None
    return total


MAX_TRANSFORM_ELEMENTS = 1 << 24
"""Maximum number of elements of a transform matrix."""

constant_operands({"DFT": [1, 2]}, "length and axis must be constants", COMPUTED_REMEDY)
constant_operands(
    {"STFT": [1, 2, 3]}, "step, window and length of a frame must be constants", "make them so"
)


@operator("DFT")
def dft(node: Node, emitter: Emitter) -> Value:
    """Import DFT as a product with a constant matrix of sines and cosines along an axis."""
    shape = emitter.shape(0)
    rank, parts = len(shape), shape[-1]
    if rank < 2 or parts not in (1, 2):
        raise node.wrong(f"a last dimension of 1 or 2, real and imaginary, got {list(shape)}")
    given = node.integer("axis", 1)
    if node.opset >= 20:
        given = emitter.integers(2)[0] if node.has_input(2) else -2
    axis = node.axis(given, rank)
    if axis == rank - 1:
        raise node.wrong("axis must not be the last dimension: real and imaginary parts")
    inverse, half = node.flag("inverse"), node.flag("onesided")
    length = 2 * (shape[axis] - 1) if inverse and half else shape[axis]
    length = emitter.integers(1)[0] if node.has_input(1) else length
    if length < 1:
        raise node.wrong(f"a length of at least 1, got {length}")
    order = [*(i for i in range(rank - 1) if i != axis), axis, rank - 1]
    last = emitter.transposed(emitter.value(0), order)
    used = min(length // 2 + 1 if inverse and half else length, shape[axis])
    used_rows = emitter.part(last, rank - 2, 0, used)
    count = length // 2 + 1 if half and not inverse else length
    matrix = _transform(node, (count, used, parts), length, inverse=inverse)
    if inverse and half:
        # The omitted half contributes equally, only to the real part.
        both = [1.0 if 2 * k in (0, length) else 2.0 for k in range(used)]
        matrix = matrix[:, :1] * np.array(both, np.float32).reshape(-1, 1)
    results = matrix.shape[1]
    rows = emitter.reshaped(
        used_rows, (prod(shape_of_value(used_rows)) // (used * parts), used * parts)
    )
    weights = emitter.constant(matrix.reshape(count * results, used * parts), "matrix")
    found = emitter.product(rows, weights)
    split = emitter.reshaped(found, (*shape_of_value(last)[:-2], count, results))
    return emitter.transposed(split, [order.index(i) for i in range(rank)])


@operator("STFT")
def stft(node: Node, emitter: Emitter) -> Value:
    """
    Import STFT as a convolution with constant sines and cosines, times the window. The stride is
    the distance of frames.
    """
    shape = emitter.shape(0)
    if len(shape) == 2:
        shape = (*shape, 1)
    if len(shape) != 3 or shape[2] not in (1, 2):
        raise node.wrong(f"a signal [N, L, 1 or 2] expected, got {list(shape)}")
    n, samples, parts = shape
    (step,) = emitter.integers(1)
    window = emitter.floats(2) if node.has_input(2) else None
    length = samples if window is None else len(window)
    length = emitter.integers(3)[0] if node.has_input(3) else length
    size = length if window is None else len(window)
    if length > samples:
        raise node.wrong(f"a frame of {length} samples does not fit a signal of {samples}")
    if step < 1 or not 1 <= size == length:
        raise node.unsupported(
            f"frames of {length} samples at a step of {step}, with a window of {size}; export it "
            "with windows as long as frames"
        )
    half = node.flag("onesided", True)
    if half and parts == 2:
        raise node.wrong("a complex signal has two sides: set onesided to 0")
    count = length // 2 + 1 if half else length
    matrix = _transform(node, (count, length, parts), length, inverse=False)
    if window is not None:
        matrix = matrix * window.reshape(1, 1, length, 1)
    weights = emitter.constant(matrix.reshape(2 * count, 1, length, parts), "matrix")
    signal = emitter.reshaped(emitter.value(0), (n, 1, samples, parts))
    frames = SpatialWindow((1, length), (1, step), (0, 0, 0, 0), (1, 1))
    result = convolved(emitter, signal, weights, None, frames, 1)
    return emitter.reshaped(result, (n, 1 + (samples - length) // step, count, 2))


def _transform(
    node: Node, sizes: tuple[int, int, int], length: int, *, inverse: bool
) -> NDArray[np.float32]:
    """
    Return the matrix of a Fourier transform [K, 2, N, P]: the factors of element n, real or
    imaginary (P is 1 or 2), in the real and the imaginary part of frequency k. `sizes` is (K, N,
    P), and `length` the number of elements of a period.
    """
    count, used, parts = sizes
    if 2 * count * used * parts > MAX_TRANSFORM_ELEMENTS:
        raise node.unsupported(
            f"a transform of {used} elements to {count}, by a matrix of more than 2^24 elements; "
            "compute the spectrum in the application"
        )
    # Reduce the angle exactly, as an integer.
    periods = np.outer(np.arange(count), np.arange(used)) % length
    angle = 2 * np.pi * periods / length * (1 if inverse else -1)
    cosine, sine = np.cos(angle), np.sin(angle)
    matrix = np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], 1)
    if inverse:
        matrix = matrix / length
    return np.ascontiguousarray(matrix[..., :parts], dtype=np.float32)
