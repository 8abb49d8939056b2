"""
Import Resize and Upsample with scales or sizes that are computed, or on extents that data decide.

The positions are computed at run time, in the steps of `interpreters/selection.py`. Elements of
mode nearest are selected; linear interpolation remains in float in a quantized network.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Binary, Compare, Coordinates, Function, Nearest, element_of
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.extents import Element, Extent, Linear
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.extents.registry import refused, sized
from ceras_ir.frontends.onnx.extents.scalars import (
    computed,
    integers_of,
    number,
    numbers_of,
    range_of,
    scaled,
)
from ceras_ir.frontends.onnx.extents.slices import computed_operands
from ceras_ir.frontends.onnx.extents.statements import (
    finished,
    on_axis,
    resized,
    stated_shape,
    taken_within,
)
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.resize import CROP, RESIZE_MODES, TENSORFLOW
from ceras_ir.interpreters.selection import MAX_TIE_DISTANCE


@dataclass(frozen=True)
class Sampling:
    """The positions in an axis of an operand that the elements of the result have."""

    where: str
    """The coordinate transformation mode."""
    extent: Extent
    """The extent of the operand."""
    result: Extent
    """The extent of the result, before it is cut to the maximum."""
    scale: Element
    region: tuple[Element, Element] = (0.0, 1.0)
    """The part of the operand with mode tf_crop_and_resize."""

    @property
    def changes(self) -> bool:
        """Whether the result has other elements than the operand, as far as it is known."""
        is_whole = self.region == (0.0, 1.0) or self.where != CROP
        return self.scale != 1.0 or not is_whole


@sized("Resize", "Upsample")
def resize(node: Node, emitter: Emitter) -> Value:
    """Import Resize with mode nearest or linear, and Upsample."""
    value, mode = emitter.value(0), node.string("mode", "nearest")
    if mode not in RESIZE_MODES or node.flag("antialias") or node.flag("exclude_outside"):
        is_known = mode in RESIZE_MODES
        kind = "antialias or exclude_outside" if is_known else f"mode {mode}"
        if emitter.table.has(value):
            raise refused(emitter, f"{kind} of '{node.inputs[0]}'")
        raise node.unsupported(
            f"computed scales or sizes with {kind}; export with mode='linear' or fixed sizes"
        )
    samplings, deciding = _samplings(node, emitter)
    extents = [s.result for s in samplings]
    target = stated_shape(emitter, extents, shape_of_value(value), deciding)
    if mode == "nearest":
        rounding = Nearest(node.string("nearest_mode", Nearest.ROUND_PREFER_FLOOR.value))
        if node.opset < 11 or node.operator == "Upsample":
            rounding = Nearest.FLOOR
        elif samplings[0].where == Coordinates.HALF_PIXEL and _is_tensorflow(node):
            rounding = Nearest.ROUND_PREFER_CEIL
        for axis, sampling in enumerate(samplings):
            value = _nearest(emitter, value, axis, sampling, int(target[axis]), rounding)
        return finished(emitter, value, extents, target)
    if isinstance(element := element_of(emitter.materialize(value)), UniformType):
        raise node.unsupported("computed sizes of a quantized value; resize before QuantizeLinear")
    with emitter.in_float():
        value, outside = emitter.cast(value), None
        for axis, sampling in enumerate(samplings):
            value, out = _linear(emitter, value, axis, sampling, int(target[axis]))
            outside = outside if out is None else _either(emitter, outside, out)
        if outside is not None:
            filler = emitter.number(node.bound("extrapolation_value", 0.0))
            value = emitter.select(outside, filler, value)
    value = emitter.cast(value, element)
    return finished(emitter, value, extents, target)


def _is_tensorflow(node: Node) -> bool:
    return node.string("coordinate_transformation_mode", "half_pixel") == TENSORFLOW


def _either(emitter: Emitter, a: Value | None, b: Value) -> Value:
    return b if a is None else emitter.binary(Binary.OR, a, b)


def _samplings(node: Node, emitter: Emitter) -> tuple[list[Sampling], list[int]]:
    """
    Return the sampling along each axis, and the indices of the computed operands that decide the
    sizes.
    """
    extents = emitter.table.of(emitter.value(0))
    rank = len(extents)
    if node.opset < 11 or node.operator == "Upsample":
        index = 1
        scales: Sequence[Element] = (
            (node.numbers("scales") or ()) if node.opset < 9 else numbers_of(emitter, index)
        )
        if len(scales) != rank:
            raise node.wrong(f"{rank} scales expected, got {len(scales)}")
        found = [
            Sampling(Coordinates.ASYMMETRIC, e, scaled(emitter, e, s), s)
            for e, s in zip(extents, scales, strict=True)
        ]
        return found, computed_operands(node, index)
    where = node.string("coordinate_transformation_mode", "half_pixel")
    where = Coordinates.HALF_PIXEL.value if where == TENSORFLOW else where
    given = node.integers("axes")
    axes = list(range(rank)) if given is None else [node.axis(a, rank, "axes") for a in given]
    found = [Sampling(where, extent, extent, 1.0) for extent in extents]
    has_scales = node.has_input(2) and emitter.shape(2) != (0,)
    has_sizes = node.has_input(3) and emitter.shape(3) != (0,)
    if has_scales == has_sizes:
        raise node.wrong("either scales or sizes expected")
    elements = numbers_of(emitter, 2) if has_scales else integers_of(emitter, 3)
    if len(elements) != len(axes):
        raise node.wrong(f"{len(axes)} scales or sizes expected, got {len(elements)}")
    ratio = _ratio(node, emitter, [extents[i] for i in axes], elements) if has_sizes else None
    for i, given_element in zip(axes, elements, strict=True):
        extent = extents[i]
        if isinstance(given_element, float):
            found[i] = Sampling(
                where, extent, scaled(emitter, extent, given_element), given_element
            )
        elif has_scales:
            size = scaled(emitter, extent, given_element)
            found[i] = Sampling(where, extent, size, given_element)
        elif ratio is not None:
            found[i] = Sampling(where, extent, _rounded(emitter, extent, ratio), ratio)
        else:
            found[i] = Sampling(
                where, extent, given_element, _quotient(emitter, given_element, extent)
            )
    if where == CROP and node.has_input(1) and emitter.shape(1) != (0,):
        ends = numbers_of(emitter, 1)
        if len(ends) != 2 * len(axes):
            raise node.wrong(f"a region of {2 * len(axes)} numbers expected, got {len(ends)}")
        for k, i in enumerate(axes):
            found[i] = replace(found[i], region=(ends[k], ends[k + len(axes)]))
    return found, computed_operands(node, 2, 3)


def _quotient(emitter: Emitter, size: Extent, extent: Extent) -> Element:
    if size == extent:
        return 1.0
    if not isinstance(size, Linear) and not isinstance(extent, Linear):
        return size / max(extent, 1)
    with emitter.in_float():
        result = emitter.div(number(emitter, size), number(emitter, extent))
    return Linear.of(result)


def _ratio(
    node: Node, emitter: Emitter, extents: Sequence[Extent], sizes: Sequence[Element]
) -> Element | None:
    """Return the common scale of `keep_aspect_ratio_policy`; `None` for stretch."""
    policy = node.string("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return None
    if policy not in ("not_larger", "not_smaller"):
        raise node.wrong(f"attribute 'keep_aspect_ratio_policy' must not be '{policy}'")
    kind = Binary.MIN if policy == "not_larger" else Binary.MAX
    with emitter.in_float():
        quotients = [
            emitter.div(number(emitter, size), number(emitter, extent))
            for size, extent in zip(sizes, extents, strict=True)
        ]
        result = quotients[0]
        for quotient in quotients[1:]:
            result = emitter.binary(kind, result, quotient)
    return Linear.of(result)


def _rounded(emitter: Emitter, extent: Extent, ratio: Element) -> Extent:
    """Return `extent * ratio`, rounded to the nearest integer."""
    with emitter.in_float():
        product = emitter.mul(number(emitter, extent), number(emitter, ratio))
        half_up = emitter.unary(Function.FLOOR, emitter.add(product, emitter.number(0.5)))
        size = emitter.cast(half_up, i64)
    bounded = emitter.binary(Binary.MAX, size, emitter.constant(np.array([0], np.int64), "zero"))
    return computed(emitter, bounded, 0, inf)


def _positions(emitter: Emitter, sampling: Sampling, count: int) -> Value:
    """Return the position in the operand of each of `count` elements, as float32 [count]."""
    extent, size = (number(emitter, e) for e in (sampling.extent, sampling.result))
    scale = number(emitter, sampling.scale)
    index = emitter.constant(np.arange(count, dtype=np.float32), "indices")
    half, one = emitter.number(0.5), emitter.number(1)
    shifted = emitter.constant(np.arange(count, dtype=np.float32) + np.float32(0.5), "centers")
    match sampling.where:
        case Coordinates.HALF_PIXEL | Coordinates.PYTORCH_HALF_PIXEL:
            found = emitter.sub(emitter.div(shifted, scale), half)
        case Coordinates.ALIGN_CORNERS:
            last = emitter.sub(size, one)
            found = emitter.div(emitter.mul(index, emitter.sub(extent, one)), last)
        case Coordinates.ASYMMETRIC:
            found = emitter.div(index, scale)
        case Coordinates.HALF_PIXEL_SYMMETRIC:
            rest = emitter.sub(one, emitter.div(size, emitter.mul(scale, extent)))
            offset = emitter.mul(emitter.div(extent, emitter.number(2)), rest)
            found = emitter.sub(emitter.add(offset, emitter.div(shifted, scale)), half)
        case _:
            return _cropped(emitter, sampling, index, extent, size)
    if sampling.where in (Coordinates.ALIGN_CORNERS, Coordinates.PYTORCH_HALF_PIXEL):
        low, high = range_of(emitter, sampling.result)
        if low <= 1 <= high:
            single = emitter.compare(Compare.EQUAL, size, one)
            found = emitter.select(single, emitter.number(0), found)
    return found


def _cropped(
    emitter: Emitter, sampling: Sampling, index: Value, extent: Value, size: Value
) -> Value:
    one = emitter.number(1)
    start, end = (number(emitter, e) for e in sampling.region)
    last = emitter.sub(extent, one)
    first, length = emitter.mul(start, last), emitter.mul(emitter.sub(end, start), last)
    steps = emitter.div(emitter.mul(index, length), emitter.sub(size, one))
    middle = emitter.mul(length, emitter.number(0.5))
    single = emitter.compare(Compare.EQUAL, size, one)
    return emitter.add(first, emitter.select(single, middle, steps))


def _nearest(
    emitter: Emitter,
    value: Value,
    axis: int,
    sampling: Sampling,
    count: int,
    rounding: Nearest,
) -> Value:
    if not sampling.changes:
        return resized(emitter, value, axis, count)
    with emitter.in_float():
        x = _positions(emitter, sampling, count)
        half, distance = emitter.number(0.5), emitter.number(MAX_TIE_DISTANCE)
        match rounding:
            case Nearest.ROUND_PREFER_FLOOR:
                x = emitter.sub(emitter.sub(x, half), distance)
                x = emitter.unary(Function.CEIL, x)
            case Nearest.ROUND_PREFER_CEIL:
                x = emitter.add(emitter.add(x, half), distance)
                x = emitter.unary(Function.FLOOR, x)
            case Nearest.FLOOR:
                x = emitter.unary(Function.FLOOR, x)
            case Nearest.CEIL:
                x = emitter.unary(Function.CEIL, x)
    indices = emitter.cast(x, i64)
    return taken_within(emitter, value, axis, indices, sampling.extent)


def _linear(
    emitter: Emitter, value: Value, axis: int, sampling: Sampling, count: int
) -> tuple[Value, Value | None]:
    """
    Return the interpolated value and, with mode tf_crop_and_resize, whether each element is outside
    of the operand.
    """
    if not sampling.changes:
        return resized(emitter, value, axis, count), None
    rank = len(shape_of_value(value))
    x = _positions(emitter, sampling, count)
    zero, one = emitter.number(0), emitter.number(1)
    last = emitter.sub(number(emitter, sampling.extent), one)
    outside = None
    if sampling.where == CROP:
        below = emitter.compare(Compare.LESS, x, zero)
        outside = _either(emitter, below, emitter.compare(Compare.LESS, last, x))
        outside = on_axis(emitter, outside, axis, rank)
    x = emitter.binary(Binary.MAX, emitter.binary(Binary.MIN, x, last), zero)
    low = emitter.unary(Function.FLOOR, x)
    weight = on_axis(emitter, emitter.sub(x, low), axis, rank)
    indices = emitter.cast(low, i64)
    following = emitter.add(indices, emitter.constant(np.array([1], np.int64), "one"))
    first = taken_within(emitter, value, axis, indices, sampling.extent)
    second = taken_within(emitter, value, axis, following, sampling.extent)
    rest = emitter.sub(one, weight)
    total = emitter.add(emitter.mul(first, rest), emitter.mul(second, weight))
    return total, outside
