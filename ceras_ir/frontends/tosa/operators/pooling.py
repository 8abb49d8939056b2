"""Import pooling, and resizing by ratios of integers."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, f32, i64
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Coordinates, Nearest, Pool, Resize, ResizeOp, element_of
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.frontends.onnx.emission.values import Value as EmittedValue
from ceras_ir.frontends.tosa.operation import PLAIN, Operation, operation
from ceras_ir.frontends.tosa.rescaling import floor_quotient
from ceras_ir.frontends.tosa.values import (
    STORAGE,
    Value,
    as_plain,
    stored_type,
)

MAX_POSITIONS = 1 << 16
"""The extent of a resized image."""


def _window(op: Operation) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int]]:
    """
    Return the kernel [height, width], the strides and the padding [top, left, bottom, right] of a
    pooling.
    """
    if len(op.shape(0)) != 4:
        raise op.wrong(f"four dimensions expected, got {list(op.shape(0))}")
    (kh, kw), (sh, sw) = op.window("kernel", 2), op.window("stride", 2)
    top, bottom, left, right = op.window("pad", 4, 0)
    return (kh, kw), (sh, sw), (top, left, bottom, right)


@operation("max_pool2d")
def max_pool(op: Operation) -> Value:
    """
    Import max_pool2d: the maximum of the elements of each window. Elements outside of the input do
    not count.
    """
    op.keeps_nan()
    kernel, strides, padding = _window(op)
    if op.is_float:
        x = op.emitter.materialize(op.real(0))
    else:
        value = op.value(0)
        known = graph.quantized_element(value) if isinstance(value, SSAValue) else None
        x = op.stored(0, op.result_zero_point if known is None else known.zero_point)
    pool = graph.Pool2dOp(
        Pool.MAX, x, kernel, result_element=element_of(x), strides=strides, padding=padding
    )
    return op.emitter.emit(pool)


def reciprocal(count: int) -> tuple[int, int]:
    """Return the multiplier and the right shift with which TOSA divides a sum by `count`."""
    bits = (count - 1).bit_length()
    return (((1 << 30) + 1) << bits) // count, 30 + bits


@operation("avg_pool2d")
def average_pool(op: Operation) -> Value:
    """
    Import avg_pool2d: the average of the elements of each window. Elements outside of the input do
    not count. A sum of integers is multiplied by a rounded reciprocal.
    """
    kernel, strides, padding = _window(op)
    if op.is_float:
        x = op.emitter.materialize(op.real(0))
        pool = graph.Pool2dOp(
            Pool.AVERAGE, x, kernel, result_element=f32, strides=strides, padding=padding
        )
        return op.emitter.emit(pool)
    input_zp, output_zp = op.zero_point(1, "input_zp"), op.zero_point(2, "output_zp")
    x, element = op.stored(0, input_zp), stored_type(STORAGE[op.element(0)], output_zp)
    if any(padding):
        return _with_borders(op, x, (input_zp, output_zp))
    multiplier, shift = reciprocal(kernel[0] * kernel[1])
    requant = RequantAttr(
        shift,
        multiplier=multiplier,
        zero_point=output_zp,
        low=element.low,
        high=element.high,
    )
    pool = graph.Pool2dOp(
        Pool.AVERAGE,
        x,
        kernel,
        result_element=element,
        strides=strides,
        requant=requant,
    )
    return op.emitter.emit(pool)


def _with_borders(op: Operation, x: SSAValue, points: tuple[int, int]) -> Value:
    """
    Return the averages of stored integers if windows have different numbers of elements, because of
    padding. `points` are the zero points of input and result.
    """
    (kh, kw), (sh, sw), (top, left, bottom, right) = _window(op)
    emitter, (height, width) = op.emitter, op.shape(0)[1:3]
    padded = emitter.padded(
        x, (0, top, left, 0), (0, bottom, right, 0), value=IntegerAttr(points[0], i64)
    )
    plain = emitter.cast(_centred(op, emitter.materialize(padded), points[0]), PLAIN["i32"])
    counts = list[list[int]]()
    extents = [
        (height + top + bottom - kh) // sh + 1,
        (width + left + right - kw) // sw + 1,
    ]
    if min(extents) < 1:
        raise op.wrong("the window does not fit the padded input")
    total: EmittedValue | None = None
    for axis, (k, s, size) in enumerate(((kh, sh, extents[0]), (kw, sw, extents[1])), 1):
        source = plain if total is None else total
        total = None
        for tap in range(k):
            shape = list(graph.shape_of(emitter.materialize(source)))
            shape[axis] = size
            starts, strides = [0] * 4, [1] * 4
            starts[axis], strides[axis] = tap, s
            part = emitter.sliced(source, starts, shape, strides)
            total = part if total is None else emitter.add(total, part)
        extent, before = ((height, top), (width, left))[axis - 1]
        starts = [i * s - before for i in range(size)]
        counts.append([min(a + k, extent) - max(a, 0) for a in starts])
    assert total is not None
    if min(*counts[0], *counts[1]) < 1:
        raise op.wrong("a window without elements of the input")
    pairs = [[reciprocal(a * b) for b in counts[1]] for a in counts[0]]
    table = np.array(pairs, np.int64).reshape(1, *extents, 1, 2)
    multipliers, shifts = table[..., 0], table[..., 1]
    wide = emitter.mul(emitter.cast(total, i64), emitter.constant(multipliers, "multipliers"))
    wide = emitter.add(wide, emitter.constant(np.int64(1) << shifts - 1, "round"))
    quotient = floor_quotient(emitter, wide, emitter.constant(np.int64(1) << shifts, "divisors"))
    element = stored_type(STORAGE[op.element(0)])
    shifted = emitter.add(quotient, emitter.number(points[1], quotient))
    return op.plain_result(emitter.bounded(shifted, element.low, element.high))


def _centred(op: Operation, x: SSAValue, point: int) -> SSAValue:
    """Return stored integers minus the zero point `point`, as i32."""
    emitter = op.emitter
    plain = emitter.cast(as_plain(emitter, x), PLAIN["i32"])
    return emitter.sub(plain, emitter.number(point, plain)) if point else emitter.materialize(plain)


@operation("resize")
def resize(op: Operation) -> Value:
    """
    Import resize of height and width by ratios of integers. The result of a bilinear resize of
    integers is not divided: it is larger by both numerators.
    """
    mode = op.word("mode", "NEAREST").upper()
    if mode == "NEAREST_NEIGHBOR":
        mode = "NEAREST"
    if mode not in ("NEAREST", "BILINEAR"):
        raise op.unsupported(f"mode {mode}; use NEAREST or BILINEAR")
    shape = op.shape(0)
    if len(shape) != 4:
        raise op.wrong(f"four dimensions expected, got {list(shape)}")
    scale, offset, border = (
        op.integers("scale", 1),
        op.integers("offset", 2),
        op.integers("border", 3),
    )
    if len(scale) != 4 or len(offset) != 2 or len(border) != 2 or min(scale) < 1:
        raise op.wrong(f"scale {list(scale)}, offset {list(offset)}, border {list(border)}")
    axes = [
        _Axis(op, shape[1 + i], scale[2 * i], scale[2 * i + 1], offset[i], border[i])
        for i in range(2)
    ]
    value = op.moved(0) if mode == "NEAREST" else op.plain(0)
    if mode == "NEAREST":
        for i, axis in enumerate(axes, 1):
            value = op.emitter.gathered(value, i, axis.nearest())
        return value
    if op.is_float and (known := _known(op, axes)) is not None:
        return known
    if not op.is_float:
        value = op.emitter.cast(value, PLAIN[op.result_element])
    for i, axis in enumerate(axes, 1):
        value = axis.blended(op, value, i)
    return value


class _Axis:
    """
    The positions of the results of a resize along an axis. They are in units of 1 / `numerator` of
    an input element.
    """

    def __init__(
        self, op: Operation, extent: int, numerator: int, denominator: int, offset: int, border: int
    ):
        span = (extent - 1) * numerator - offset + border
        self.count = span // denominator + 1
        if span % denominator or not 1 <= self.count <= MAX_POSITIONS:
            raise op.wrong(f"an extent of {extent} with a scale of {numerator}/{denominator}")
        self.extent, self.numerator, self.denominator = extent, numerator, denominator
        self.offset = offset
        places = np.arange(self.count, dtype=np.int64) * denominator + offset
        first = places // numerator
        self.rest = places - first * numerator
        self.lower = np.clip(first, 0, extent - 1)
        self.upper = np.clip(first + 1, 0, extent - 1)

    def nearest(self) -> list[int]:
        return np.where(2 * self.rest >= self.numerator, self.upper, self.lower).tolist()

    def blended(self, op: Operation, x: EmittedValue, axis: int) -> EmittedValue:
        """
        Return the weighted sum of both neighbors of each position along `axis`. For integers, the
        weights are multiplied by the numerator.
        """
        emitter = op.emitter
        shape = [1] * 4
        shape[axis] = self.count
        weights = np.stack([self.numerator - self.rest, self.rest])
        if op.is_float:
            weights = (weights / self.numerator).astype(np.float32)
        sides: list[EmittedValue] = []
        for indices, weight in zip((self.lower, self.upper), weights, strict=True):
            found = emitter.gathered(x, axis, indices.tolist())
            kind = np.float32 if op.is_float else _dtype(op)
            sides.append(
                emitter.mul(found, emitter.constant(weight.astype(kind).reshape(shape), "weights"))
            )
        return emitter.add(*sides)


def _dtype(op: Operation) -> type[np.generic]:
    return np.int64 if op.result_element == "i48" else np.int32


def _known(op: Operation, axes: list[_Axis]) -> SSAValue | None:
    """
    Return a resize operation of `graph` with the same coordinates, or `None` if there is no such
    operation.
    """
    scales = [axis.numerator / axis.denominator for axis in axes]
    for kind in (Coordinates.HALF_PIXEL, Coordinates.ASYMMETRIC):
        expected = [
            (axis.denominator - axis.numerator) / 2 if kind is Coordinates.HALF_PIXEL else 0
            for axis in axes
        ]
        if all(axis.offset == e for axis, e in zip(axes, expected, strict=True)):
            size = axes[0].count, axes[1].count
            x = op.emitter.materialize(op.real(0))
            pair = scales[0], scales[1]
            return op.emitter.emit(ResizeOp(Resize.LINEAR, x, size, pair, kind, Nearest.FLOOR))
    return None
