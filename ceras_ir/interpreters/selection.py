"""Definitions in numpy: selection, padding, resizing, reduction, comparison and casts."""

from collections.abc import Iterator, Sequence
from math import ceil, floor, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Coordinates, Nearest
from ceras_ir.dialects.graph.selection import Pad
from ceras_ir.dialects.quant import Rounding
from ceras_ir.interpreters.elementwise import cast, chosen, combine, compare
from ceras_ir.interpreters.windows import index_of_extreme, reduce_rows
from ceras_ir.network import integer

Array = NDArray[np.generic]


def coordinate(index: int, scale: float, size: int, output: int, mode: Coordinates) -> float:
    """
    Return the position in an input of `size` elements for the output element `index` of `output`
    elements, as `graph.resize` defines it. Each step is rounded to float32.
    """
    if output == 1 and mode in (Coordinates.PYTORCH_HALF_PIXEL, Coordinates.ALIGN_CORNERS):
        return 0.0
    i, s, n, m = (np.float32(v) for v in (index, scale, size, output))
    half, one = np.float32(0.5), np.float32(1)
    match mode:
        case Coordinates.HALF_PIXEL | Coordinates.PYTORCH_HALF_PIXEL:
            return float((i + half) / s - half)
        case Coordinates.ALIGN_CORNERS:
            return float(i * (n - one) / (m - one))
        case Coordinates.ASYMMETRIC:
            return float(i / s)
        case Coordinates.HALF_PIXEL_SYMMETRIC:
            offset = n / np.float32(2) * (one - m / (s * n))
            return float(offset + (i + half) / s - half)


MAX_TIE_DISTANCE = 1e-6
"""The maximum distance of a coordinate from a tie: it can be inexact due to rounding."""


def nearest_indices(
    size: int, output: int, scale: float, mode: Coordinates, rounding: Nearest
) -> list[int]:
    """
    Return the index in an input of `size` elements of the nearest element for each of `output`
    elements, as `graph.resize` defines it.
    """
    result: list[int] = []
    for i in range(output):
        x = coordinate(i, scale, size, output, mode)
        match rounding:
            case Nearest.ROUND_PREFER_FLOOR:
                index = ceil(x - 0.5 - MAX_TIE_DISTANCE)
            case Nearest.ROUND_PREFER_CEIL:
                index = floor(x + 0.5 + MAX_TIE_DISTANCE)
            case Nearest.FLOOR:
                index = floor(x)
            case Nearest.CEIL:
                index = ceil(x)
        result.append(min(max(index, 0), size - 1))
    return result


def linear_weights(
    size: int, output: int, scale: float, mode: Coordinates
) -> tuple[list[int], list[int], NDArray[np.float32]]:
    """
    Return the indices in an input of `size` elements of the two neighbors of each of `output`
    elements, and the float32 weight of the second neighbor, as `graph.resize` defines them.
    """
    low: list[int] = []
    high: list[int] = []
    weight = np.zeros(output, np.float32)
    for i in range(output):
        x = min(max(coordinate(i, scale, size, output, mode), 0.0), size - 1.0)
        low.append(floor(x))
        high.append(min(floor(x) + 1, size - 1))
        weight[i] = np.float32(x - floor(x))
    return low, high, weight


FIXED_BITS = 10
"""The fraction bits of coordinates and weights in `fixed_weights`."""


def fixed_weights(
    size: int, output: int, mode: Coordinates
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """
    Return the two neighbors of each output index for resizing in integers, and the weight of the
    second in units of 2^-10; see `graph.resize`.
    """
    one = 1 << FIXED_BITS
    old, new = size, output
    if mode is Coordinates.ALIGN_CORNERS and output > 1:
        old, new = size - 1, output - 1
    step = (old * one + new // 2) // new
    x = np.arange(output, dtype=np.int64) * step
    if mode is Coordinates.HALF_PIXEL:
        x += step // 2 - one // 2
    low = np.clip(x >> FIXED_BITS, 0, size - 1)
    high = np.clip(x + one - 1 >> FIXED_BITS, 0, size - 1)
    # The weights of equal neighbors have no effect.
    return low, high, np.where(low == high, 0, x % one)


def border_indices(kind: Pad, extent: int, low: int, high: int) -> NDArray[np.int64]:
    """
    Return the index in an input of `extent` elements for each index of an axis with `low` and
    `high` additional elements, for a padding that repeats or mirrors elements.
    """
    index = np.arange(-low, extent + high, dtype=np.int64)
    match kind:
        case Pad.EDGE:
            return np.clip(index, 0, extent - 1)
        case Pad.WRAP:
            return index % extent
        case _:
            return (extent - 1) - np.abs((extent - 1) - np.abs(index))


BINARY_OF_REDUCTION = {
    graph.Reduce.SUM: graph.Binary.ADD,
    graph.Reduce.PRODUCT: graph.Binary.MUL,
    graph.Reduce.MAX: graph.Binary.MAX,
    graph.Reduce.MIN: graph.Binary.MIN,
}
"""The elementwise operation that a reduction repeats."""


# The first occurrence of each row, then the second, and so on.
def _occurrences(places: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    order = np.argsort(places, kind="stable")
    counts = np.unique(places, return_counts=True)[1]
    starts = np.cumsum(counts) - counts
    for number in range(counts.max(initial=0)):
        yield order[starts[counts > number] + number]


def clamped_rows(indices: Array, count: int) -> NDArray[np.int64]:
    """
    Return row numbers in [0, count): negative indices count from the end, and others are clamped.
    """
    given: NDArray[np.int64] = indices.astype(np.int64)
    counted = np.where(given < 0, given + np.int64(count), given)
    return np.minimum(np.maximum(counted, 0), count - 1)


@register_impls
class SelectionFunctions(InterpreterFunctions):
    """
    Interprets operations that select elements, reductions, comparisons and casts, with a method for
    each. Operands and results are arrays of the stored type.
    """

    @impl(graph.SliceOp)
    def slice(self, interpreter: Interpreter, op: graph.SliceOp, args: PythonValues):
        (x,) = args
        for axis, (start, stride, size) in enumerate(
            zip(
                op.starts.get_values(),
                op.strides.get_values(),
                graph.shape_of(op.result),
                strict=True,
            )
        ):
            end = start + size * stride
            interval = slice(start, end if end >= 0 else None, stride)
            x = x[(slice(None),) * axis + (interval,)]
        return (np.ascontiguousarray(x).reshape(graph.shape_of(op.result)),)

    @impl(graph.GatherOp)
    def gather(self, interpreter: Interpreter, op: graph.GatherOp, args: PythonValues):
        return (np.take(args[0], op.indices.get_values(), axis=op.axis.value.data),)

    @impl(graph.TakeOp)
    def take(self, interpreter: Interpreter, op: graph.TakeOp, args: PythonValues):
        x, indices = args
        return (np.take(x, clamped_rows(indices, len(x)), axis=0),)

    @impl(graph.PutOp)
    def put(self, interpreter: Interpreter, op: graph.PutOp, args: PythonValues):
        x, indices, rows = args
        result: Array = x.copy()
        count = len(x)
        given: NDArray[np.int64] = indices.astype(np.int64)
        places = np.where(given < 0, given + count, given)
        inside = (places >= 0) & (places < count)
        places, rows = places[inside], rows[inside]
        if (kind := op.function) is None:
            # numpy keeps the last row of equal indices.
            result[places] = rows
            return (result,)
        for turn in _occurrences(places):
            at = places[turn]
            result[at] = combine(BINARY_OF_REDUCTION[kind], result[at], rows[turn])
        return (result,)

    @impl(graph.UpdateOp)
    def update(self, interpreter: Interpreter, op: graph.UpdateOp, args: PythonValues):
        x, rows, *position = args
        axis, extent = op.axis.value.data, graph.shape_of(op.input)[op.axis.value.data]
        if not position:
            joined = np.concatenate([x, rows], axis)
            return (np.take(joined, np.arange(extent) + op.row_count, axis),)
        row = int(position[0].reshape(-1)[0])
        row += extent if op.wraps is not None and row < 0 else 0
        result: Array = x.copy()
        if 0 <= row < extent:
            result[(slice(None),) * axis + (slice(row, row + 1),)] = rows
        return (result,)

    @impl(graph.PadOp)
    def pad(self, interpreter: Interpreter, op: graph.PadOp, args: PythonValues):
        (x,) = args
        low, high = op.low.get_values(), op.high.get_values()
        if op.function is not graph.Pad.CONSTANT:
            for axis, before in enumerate(low):
                indices = border_indices(op.function, x.shape[axis], before, high[axis])
                x = np.take(x, indices, axis=axis)
            return (x,)
        result = np.full(graph.shape_of(op.result), op.stored_value, x.dtype)
        inside = tuple(
            slice(a, a + (n - 1) * (i + 1) + 1, i + 1)
            for n, a, i in zip(x.shape, low, op.interior.get_values(), strict=True)
        )
        result[inside] = x
        return (result,)

    @impl(graph.ReduceOp)
    def reduce(self, interpreter: Interpreter, op: graph.ReduceOp, args: PythonValues):
        (x,) = args
        axes = op.axes.get_values()
        kept = [i for i in range(x.ndim) if i not in axes]
        shape = graph.shape_of(op.result)
        rows = x.transpose([*axes, *kept]).reshape(-1, prod(shape))
        return (reduce_rows(op.function, rows).reshape(shape),)

    @impl(graph.ArgOp)
    def arg(self, interpreter: Interpreter, op: graph.ArgOp, args: PythonValues):
        x: Array = np.moveaxis(args[0], op.axis.value.data, 0)
        index = index_of_extreme(op.function, x.reshape(len(x), -1), last=op.takes_last)
        return (index.reshape(graph.shape_of(op.result)),)

    @impl(graph.TopKOp)
    def top_k(self, interpreter: Interpreter, op: graph.TopKOp, args: PythonValues):
        x: Array = args[0]
        if op.function is graph.Reduce.MAX:
            # A reversed stable sort keeps the first of equal elements first.
            order = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        else:
            order = np.argsort(x, axis=-1, kind="stable")
        is_nan = np.not_equal(x, x)
        if is_nan.any():
            is_last = np.take_along_axis(is_nan, order, -1)
            order = np.take_along_axis(order, np.argsort(is_last, axis=-1, kind="stable"), -1)
        count = graph.shape_of(op.result)[-1]
        return (np.ascontiguousarray(order[..., :count], np.int64),)

    @impl(graph.CompareOp)
    def compare(self, interpreter: Interpreter, op: graph.CompareOp, args: PythonValues):
        return (compare(op.function, args[0], args[1]),)

    @impl(graph.SelectOp)
    def select(self, interpreter: Interpreter, op: graph.SelectOp, args: PythonValues):
        return (chosen(*args),)

    @impl(graph.CastOp)
    def cast(self, interpreter: Interpreter, op: graph.CastOp, args: PythonValues):
        return (cast(args[0], graph.numpy_dtype(graph.element_of(op.result))),)

    @impl(graph.ResizeOp)
    def resize(self, interpreter: Interpreter, op: graph.ResizeOp, args: PythonValues):
        (x,) = args
        mode = op.coordinates.data
        shape = graph.shape_of(op.result)
        if op.has_kernel_form:
            return (_resized_integers(x, shape, mode),)
        for axis in (1, 2):
            scale = op.factors[axis - 1]
            if op.function is graph.Resize.NEAREST:
                rounding = op.rounding.data
                indices = nearest_indices(x.shape[axis], shape[axis], scale, mode, rounding)
                x = np.take(x, indices, axis=axis)
                continue
            low, high, t = linear_weights(x.shape[axis], shape[axis], scale, mode)
            weight = t.reshape([-1 if i == axis else 1 for i in range(4)])
            first, second = np.take(x, low, axis=axis), np.take(x, high, axis=axis)
            x = first * (np.float32(1) - weight) + second * weight
        return (x,)


def _resized_integers(x: Array, shape: Sequence[int], mode: Coordinates) -> Array:
    """Interpolate stored integers in fixed point."""
    total = x.astype(np.int64)
    for axis in (1, 2):
        low, high, t = fixed_weights(x.shape[axis], shape[axis], mode)
        weight = t.reshape([-1 if i == axis else 1 for i in range(4)])
        first, second = np.take(total, low, axis=axis), np.take(total, high, axis=axis)
        total = first * ((1 << FIXED_BITS) - weight) + second * weight
    return integer.round_shift(total, 2 * FIXED_BITS, Rounding.HALF_AWAY).astype(x.dtype)
