"""Import Slice and Pad with bounds that are computed, or on extents that data decide."""

from collections.abc import Sequence
from dataclasses import dataclass

from ceras_ir.dialects.graph import Binary, Compare, Pad
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.extents import Extent, Linear, minus, plus
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.extents.registry import sized
from ceras_ir.frontends.onnx.extents.scalars import (
    counted_from_end,
    difference,
    divided,
    integers_of,
    maximum,
    minimum,
    scalar,
)
from ceras_ir.frontends.onnx.extents.statements import (
    along,
    both,
    finished,
    on_axis,
    resized,
    stated_shape,
    taken_within,
)
from ceras_ir.frontends.onnx.model.node import Node


def computed_operands(node: Node, *operands: int) -> list[int]:
    """Return those of the `operands` that are computed at run time."""
    return [i for i in operands if node.has_input(i) and not node.is_constant(i)]


@dataclass(frozen=True)
class Interval:
    """The elements of a slice along an axis: `start + i * step` for i below `extent`."""

    start: Extent
    step: int
    extent: Extent


@sized("Slice")
def slice_(node: Node, emitter: Emitter) -> Value:
    """Import Slice, as in Python. Axes and steps must be constants."""
    value = emitter.value(0)
    extents, shape = list(emitter.table.of(value)), shape_of_value(value)
    starts: Sequence[Extent]
    if node.opset < 10:
        starts, ends = node.bounds("starts") or (), node.bounds("ends") or ()
        axes, steps = node.integers("axes"), None
    else:
        starts, ends = integers_of(emitter, 1), integers_of(emitter, 2)
        axes = emitter.integers(3) if node.has_input(3) else None
        steps = emitter.integers(4) if node.has_input(4) else None
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise node.wrong("starts, ends, axes and steps must be of equal length, without a step 0")
    found: dict[int, Interval] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        i = node.axis(axis, len(shape), "axes")
        found[i] = _interval(emitter, start, end, step, extents[i])
        extents[i] = found[i].extent
    target = stated_shape(emitter, extents, shape, computed_operands(node, 1, 2))
    for axis, interval in sorted(found.items()):
        value = _along(emitter, value, axis, interval, int(target[axis]))
    return finished(emitter, value, extents, target)


def _interval(emitter: Emitter, start: Extent, end: Extent, step: int, extent: Extent) -> Interval:
    if not (isinstance(start, Linear) or isinstance(end, Linear) or isinstance(extent, Linear)):
        indices = range(*slice(start, end, step).indices(extent))
        return Interval(indices[0] if indices else 0, step, len(indices))
    start, end = (counted_from_end(emitter, n, extent) for n in (start, end))
    last = minus(extent, 1)
    if step > 0:
        start, end = (minimum(emitter, maximum(emitter, n, 0), extent) for n in (start, end))
        count = difference(emitter, end, start)
    else:
        start = minimum(emitter, maximum(emitter, start, 0), last)
        end = minimum(emitter, maximum(emitter, end, -1), last)
        count = difference(emitter, start, end)
    return Interval(start, step, divided(emitter, plus(count, abs(step) - 1), abs(step)))


def _along(emitter: Emitter, value: Value, axis: int, interval: Interval, count: int) -> Value:
    shape = shape_of_value(value)
    start, step, extent = interval.start, interval.step, shape[axis]
    if not isinstance(start, Linear) and step > 0 and start < extent:
        available = (extent - start - 1) // step + 1
        rank = len(shape)
        starts = [start if i == axis else 0 for i in range(rank)]
        strides = [step if i == axis else 1 for i in range(rank)]
        sizes = [min(count, available) if i == axis else n for i, n in enumerate(shape)]
        return resized(emitter, emitter.sliced(value, starts, sizes, strides), axis, count)
    steps = emitter.mul(along(emitter, count), scalar(emitter, step))
    indices = emitter.add(steps, scalar(emitter, start))
    return taken_within(emitter, value, axis, indices, extent)


@sized("Pad")
def pad(node: Node, emitter: Emitter) -> Value:
    """
    Import Pad with the modes constant, reflect, edge and wrap. Negative pads crop. Axes and the
    value of the border must be constants.
    """
    value = emitter.value(0)
    before, shape = emitter.table.of(value), shape_of_value(value)
    rank = len(shape)
    mode = node.string("mode", "constant")
    if mode not in set(Pad):
        raise node.wrong(f"attribute 'mode' must be one of {', '.join(Pad)}, got '{mode}'")
    if node.opset < 11:
        pads: Sequence[Extent] = node.integers("pads") or node.integers("paddings") or ()
        border = node.bound("value", 0.0)
    else:
        pads = integers_of(emitter, 1)
        border = emitter.array(2).reshape(-1).tolist()[0] if node.has_input(2) else 0
    axes = emitter.integers(3) if node.has_input(3) else tuple(range(rank))
    axes = tuple(node.axis(a, rank, "axes") for a in axes)
    if len(pads) != 2 * len(axes) or len(set(axes)) != len(axes):
        raise node.wrong(f"{2 * len(axes)} pads expected, got {len(pads)}")
    low, high = [list[Extent]([0] * rank) for _ in range(2)]
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[i + len(axes)]
    extents = [plus(plus(n, a), b) for n, a, b in zip(before, low, high, strict=True)]
    extents = [maximum(emitter, extent, 0) for extent in extents]
    target = stated_shape(emitter, extents, shape, computed_operands(node, 1))
    condition: Value | None = None
    for axis in range(rank):
        if low[axis] == high[axis] == 0:
            value = resized(emitter, value, axis, int(target[axis]))
            continue
        places = Places.of(emitter, before[axis], low[axis], high[axis], int(target[axis]))
        if mode == Pad.CONSTANT:
            condition = both(emitter, condition, on_axis(emitter, places.inside(), axis, rank))
            if not isinstance(first := low[axis], Linear) and first >= 0:
                value = emitter.padded(value, _only(first, axis, rank), [0] * rank)
                value = resized(emitter, value, axis, int(target[axis]))
                continue
        indices = places.sources(Pad(mode))
        value = taken_within(emitter, value, axis, indices, before[axis])
    if condition is not None:
        value = emitter.select(condition, value, emitter.number(border, value))
    return finished(emitter, value, extents, target)


def _only(number: int, axis: int, rank: int) -> list[int]:
    return [number if i == axis else 0 for i in range(rank)]


@dataclass(frozen=True)
class Places:
    """The indices of the elements along an axis of a padded value, after negative pads crop it."""

    emitter: Emitter
    indices: Value
    """The index of each element in the cropped operand, negative before its first element."""
    extent: Extent
    """The extent of the cropped operand."""
    cropped: Extent
    """The number of elements that are cropped at the beginning."""

    @staticmethod
    def of(emitter: Emitter, extent: Extent, low: Extent, high: Extent, count: int) -> "Places":
        cut = [maximum(emitter, minus(0, n), 0) for n in (low, high)]
        inner = minus(minus(extent, cut[0]), cut[1])
        first = maximum(emitter, low, 0)
        indices = along(emitter, count)
        if first != 0:
            indices = emitter.sub(indices, scalar(emitter, first))
        return Places(emitter, indices, inner, cut[0])

    def inside(self) -> Value:
        """Return whether each element is an element of the operand."""
        emitter = self.emitter
        below = emitter.compare(Compare.LESS, self.indices, scalar(emitter, self.extent))
        begun = emitter.compare(Compare.LESS_OR_EQUAL, scalar(emitter, 0), self.indices)
        return both(emitter, begun, below)

    def sources(self, mode: Pad) -> Value:
        """Return the index in the operand of each element."""
        emitter, index = self.emitter, self.indices
        last = scalar(emitter, minus(self.extent, 1))
        match mode:
            case Pad.CONSTANT:
                pass
            case Pad.EDGE:
                index = emitter.binary(Binary.MIN, index, last)
                index = emitter.binary(Binary.MAX, index, scalar(emitter, 0))
            case Pad.REFLECT:
                index = emitter.sub(last, self._magnitude(index))
                index = emitter.sub(last, self._magnitude(index))
            case Pad.WRAP:
                size = scalar(emitter, maximum(emitter, self.extent, 1))
                rest = emitter.sub(index, emitter.mul(emitter.div(index, size), size))
                below = emitter.compare(Compare.LESS, rest, scalar(emitter, 0))
                index = emitter.select(below, emitter.add(rest, size), rest)
        return index if self.cropped == 0 else emitter.add(index, scalar(emitter, self.cropped))

    def _magnitude(self, index: Value) -> Value:
        return self.emitter.binary(
            Binary.MAX, index, self.emitter.sub(scalar(self.emitter, 0), index)
        )
