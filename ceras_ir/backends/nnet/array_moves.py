"""
What the array in Verilog does for operations that move elements: launches, each a layer of values.

A result has one pitch. The input may have two: from row to row and from pixel to pixel, each of
them zero where it is repeated. The engine finds the same launches (`core/plan_move.cpp`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.ir import SSAValue

from ceras_ir.backends.nnet.array_geometry import (
    PIXELS,
    Layer,
    Line,
    Window,
    even_length,
    image_width,
    pitch_of,
    start_of,
)
from ceras_ir.backends.nnet.circuit_size import CircuitSize
from ceras_ir.backends.nnet.rules import MOVERS, repetitions
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import shape_of
from ceras_ir.dialects.mem import block_of
from ceras_ir.transforms.memory.analysis.slices import element_bytes, operand_in_place, slices

MOST_LAUNCHES = 64
SHORT_BURST = 2
"""Words that take no longer than a burst of fewer bytes."""
STILL = Window(stride=0)
"""Rows of the result that lie in one line."""


@dataclass(frozen=True)
class _Axis:
    """A dimension of a box: bytes from one index to the next."""

    count: int
    start: int
    """Step of the input."""
    to: int


def moves_of(op: MOVERS, size: CircuitSize) -> list[Layer] | str:
    """The launches that move what `op` moves; or why the core does not take it."""
    found: list[Layer] = []
    for box in _boxes(op):
        own = _launches(box, size)
        if isinstance(own, str):
            return own
        found += own
    return found


@dataclass(frozen=True)
class _Box:
    """What is moved at once."""

    unit: int
    """Bytes of an element."""
    axes: list[_Axis]
    starts: tuple[int, int]
    """Where its first element is read and written, in bytes from a multiple of 64."""


def _boxes(op: MOVERS) -> list[_Box]:
    first = 0
    unit, whole, to = element_bytes(op.results[0]), shape_of(op.results[0]), _steps(op.results[0])
    source, own = shape_of(op.operands[0]), _steps(op.operands[0])
    match op:
        case graph.ReshapeOp():
            row = (1, *whole)[-1]
            gaps = {pitch_of(op.input), pitch_of(op.result)} != {row}
            dims = (prod(whole) // row, row) if gaps else (1, prod(whole))
            starts, ends = (pitch_of(op.input), 1), (pitch_of(op.result), 1)
        case graph.TransposeOp():
            order = op.permutation.get_values()
            dims, starts, ends = whole, [own[d] for d in order], to
        case graph.SliceOp():
            steps = zip(own, op.strides.get_values(), strict=True)
            dims, starts, ends = whole, [step * int(stride) for step, stride in steps], to
            first = sum(i * step for i, step in zip(op.starts.get_values(), own, strict=True))
        case graph.ResizeOp():
            rows, columns = repetitions(op) or (1, 1)
            dims = (source[0], source[1], rows, source[2], columns, source[3])
            starts = (own[0], own[1], 0, own[2], 0, own[3])
            ends = (to[0], to[1] * rows, to[1], to[2] * columns, to[2], to[3])
        case graph.ConcatOp():
            there = [
                part.operand
                for part in slices(op)
                if block_of(op.result) is not None and operand_in_place(op, part)
            ]
            boxes: list[_Box] = []
            for value in op.operands:
                places = (start_of(value), start_of(op.result, first * unit))
                axes = _axes(unit, shape_of(value), _steps(value), to)
                if value not in there:
                    boxes.append(_Box(unit, axes, places))
                first += shape_of(value)[op.axis.value.data] * to[op.axis.value.data]
            return boxes
    places = (start_of(op.operands[0], first * unit), start_of(op.results[0]))
    return [_Box(unit, _axes(unit, dims, starts, ends), places)]


def _axes(
    unit: int, dims: Sequence[int], starts: Sequence[int], ends: Sequence[int]
) -> list[_Axis]:
    """Of a box whose steps are elements."""
    given = zip(dims, starts, ends, strict=True)
    return [_Axis(count, start * unit, end * unit) for count, start, end in given]


def _steps(value: SSAValue) -> list[int]:
    """Elements from one index of each dimension to the next."""
    shape = shape_of(value)
    steps: list[int] = []
    elements = 1
    for d in reversed(range(len(shape))):
        steps.insert(0, elements)
        elements = pitch_of(value) if d + 1 == len(shape) else elements * shape[d]
    return steps


def _nests(outer: _Axis, inner: _Axis) -> bool:
    return outer.to == inner.to * inner.count


def _merged(unit: int, given: list[_Axis], size: CircuitSize) -> tuple[int, list[_Axis]]:
    """Bytes of a pixel, which are side by side in input and result, and the dimensions outside."""
    axes: list[_Axis] = []
    for axis in given:
        if axis.count == 1:
            continue
        if axes and _nests(axes[-1], axis) and axes[-1].start == axis.start * axis.count:
            axes[-1] = replace(axis, count=axes[-1].count * axis.count)
        else:
            axes.append(axis)
    run = unit
    if axes and axes[-1].start == axes[-1].to == run:
        run *= axes.pop().count
    dense = not axes or (len(axes) == 1 and axes[0].to == run)
    if dense and run > 8 * size.lanes:
        length = even_length(run, size.lanes)
        axes.append(_Axis(run // length, length, length))
        run = length
    return run, axes or [_Axis(1, run, run)]


def _launches(box: _Box, size: CircuitSize) -> list[Layer] | str:
    run, axes = _merged(box.unit, box.axes, size)
    if any(axis.start < 0 for axis in axes):
        return "it reads from the last element to the first"
    if axes[-1].start == 0 and axes[-1].count > PIXELS:
        return f"it repeats a pixel {axes[-1].count} times, a block has {PIXELS} pixels"
    found = _inner(run, axes, size)
    if found is None:
        return "its rows do not fit the line buffer"
    layer, taken = found
    launches = prod(axis.count for axis in axes[: len(axes) - taken])
    if launches > MOST_LAUNCHES:
        return f"it takes more than {MOST_LAUNCHES} launches"
    return [replace(layer, starts=(*box.starts, 0))] * launches


def _inner(run: int, all_axes: list[_Axis], size: CircuitSize) -> tuple[Layer, int] | None:
    """A launch and how many of the inner dimensions it has; None where it has not even one."""
    axes, repeats, pitch = list(all_axes), 1, all_axes[-1].to
    if axes[-1].start == 0:
        repeats = axes.pop().count
        if not axes or not _nests(axes[-1], all_axes[-1]):
            axes.append(_Axis(1, run, repeats * pitch))
    popped, pixels = len(all_axes) - len(axes), axes[-1]
    base = Layer(
        1, 1, 1, run, 1, 1, run, run, pitch, multiplies=False, by_channel=True, repeats=repeats
    )
    if len(axes) >= 2 and pixels.start > 0 and _nests(axes[-2], pixels):
        rows = axes[-2]
        columns = pixels.count * repeats
        if rows.start >= (pixels.count - 1) * pixels.start + run:
            line = replace(_line(pixels, run, size), step=rows.start)
            if line.bytes <= size.line_bytes:
                layer = replace(
                    base, height=rows.count, rows=rows.count, columns=columns, own_line=line
                )
                return layer, popped + 2
        elif rows.start == 0 or rows.start < pixels.start:
            whole = rows.start == 0 and len(axes) >= 3 and _nests(axes[-3], rows)
            images = axes[-3] if whole else _Axis(1, 0, 0)
            layer = _rows_in_lines(base, images, rows, pixels, size)
            if layer is not None:
                return replace(layer, columns=columns), popped + (3 if whole else 2)
    width = image_width(pixels.count, _step(pixels, run, size), size, PIXELS // repeats)
    if width is None:
        return None
    line = replace(_line(replace(pixels, count=width), run, size), step=width * pixels.start)
    rows = pixels.count // width
    layer = replace(base, height=rows, rows=rows, columns=width * repeats, own_line=line)
    return layer, popped + 1


def _rows_in_lines(
    base: Layer, images: _Axis, rows: _Axis, pixels: _Axis, size: CircuitSize
) -> Layer | None:
    """
    Several rows of the result of one line: all where they are the same one, or as many as have
    room for lines of all their pixels.
    """
    for part in range(1, rows.count + 1):
        if rows.count % part or (rows.start == 0 and part > 1):
            continue
        own = rows.count // part
        line = _line(pixels, (own - 1) * rows.start + base.channels, size)
        if 2 * line.bytes > size.line_bytes and part < rows.count and rows.start:
            continue
        if line.bytes > size.line_bytes:
            return None
        step = own * rows.start if rows.start else images.start
        count = part if rows.start else images.count
        return replace(base, images=count, rows=own, own_line=replace(line, step=step), down=STILL)
    return None


def _line(pixels: _Axis, run: int, size: CircuitSize) -> Line:
    """Pixels of `run` bytes; gaps between short runs are read with them."""
    if pixels.start == run or pixels.start <= SHORT_BURST * size.bus_bytes:
        return Line(1, (pixels.count - 1) * pixels.start + run, pixels.start, 0)
    return Line(pixels.count, run, pixels.start, 0)


def _step(pixels: _Axis, run: int, size: CircuitSize) -> int:
    """Bytes on chip from pixel to pixel."""
    line = _line(pixels, run, size)
    return pixels.start if line.runs == 1 else run
