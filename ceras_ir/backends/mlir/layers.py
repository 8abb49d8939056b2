"""
Build convolutions, matrix products and pooling in upstream dialects: sums over windows, then the
output stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseIntElementsAttr, TensorType, f32, i32, i64
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import Conv2DNhwc_FhwcOp, Conv2DNhwgcGfhwcOp, MatmulOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from ceras_ir.backends.mlir.functions import Functions
from ceras_ir.backends.mlir.integers import centred, requantize, signless
from ceras_ir.backends.mlir.network import Network, centred_constant, element_type, is_signed
from ceras_ir.backends.mlir.scalars import INDEX, Carried, Scalars
from ceras_ir.backends.mlir.tensors import Indices, Tensors, dimension_map
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.dialects.graph.pooling import average_requant
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.interpreters.windows import Window, counts

Fold = Callable[[Scalars, SSAValue, SSAValue], SSAValue]
"""A function of an element of a window and the result so far that returns the next result."""
Step = Callable[[Scalars, Indices, SSAValue], SSAValue]
"""A function of loop indices and the result so far that returns the next result."""

PARALLEL, REDUCTION = IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction()


def linear(network: Network, op: graph.LinearOperation) -> SSAValue:
    """
    Build a convolution or matrix product with bias, residual, activation and requantization, and
    return the result.
    """
    t = network.tensors
    if not op.is_quantized:
        if op.ordered is not None:
            return _float_output(network, op, _sums_in_order(network, op))
        x, weights = network.get(op.input), network.get(op.weights)
        return _float_output(network, op, _sums(t, op, x, weights, t.real(0.0)))
    constant = centred_constant(op.weights)
    if constant is None or constant.dtype.itemsize > 2:
        x, weights = network.centred(op.input), network.centred(op.weights)
        sums = _sums(t, op, x, weights, t.integer(0, i32))
        return _integer_output(network, op, {"sum": sums})
    x, point = network.signed(op.input)
    sums = {"sum": _sums(t, op, x, t.constant(constant), t.integer(point, graph.element_of(x)))}
    if point:
        # The sum of (x - point) * w is the sum of x * w, minus the sum of point * w. Overflow of 32
        # bits cancels out.
        taps = constant.astype(np.int64).reshape(len(constant), -1).sum(axis=1)
        sums["offset"] = t.constant((-point * taps).astype(np.int32))
    return _integer_output(network, op, sums)


def _sums(
    t: Tensors, op: graph.LinearOperation, x: SSAValue, weights: SSAValue, border: SSAValue
) -> SSAValue:
    # The sums of products in f32 or i32. `border` is the element of the padding.
    shape = graph.shape_of(op.result)
    zero = t.real(0.0) if graph.element_of(x) == f32 else t.integer(0, i32)
    if isinstance(op, graph.MatmulOp):
        if graph.element_of(x) == f32:
            product = MatmulOp([x, t.transpose(weights, (1, 0))], [t.filled(shape, zero)])
            return t.add_operation(product)
        maps = [dimension_map(3, each) for each in ((0, 2), (1, 2), (0, 1))]
        iterators = [PARALLEL, PARALLEL, REDUCTION]
        return t.generic([x, weights], maps, iterators, t.filled(shape, zero), accumulated)
    assert isinstance(op, graph.Conv2dOp)
    x = _with_border(t, op, x, border)
    (n, oh, ow, o), groups = shape, op.group_count
    window = Window.of_operation(op)
    _, kh, kw, per_group = graph.shape_of(op.weights)
    strides, dilations = _pair(window.strides), _pair(window.dilations)
    if groups == 1:
        start = t.filled(shape, zero)
        return t.add_operation(
            Conv2DNhwc_FhwcOp(
                [x, weights], [start], [start.type], strides=strides, dilations=dilations
            )
        )
    if o == groups and per_group == 1:
        by_tap = t.transpose(t.reshape(weights, (o, kh, kw)), (1, 2, 0))
        window_map = _window_map(window, 6, (0, 1, 2, 4, 5, 3))
        maps = [window_map, dimension_map(6, (4, 5, 3)), dimension_map(6, (0, 1, 2, 3))]
        iterators = [PARALLEL] * 4 + [REDUCTION] * 2
        return t.generic([x, by_tap], maps, iterators, t.filled(shape, zero), accumulated)
    height, width = graph.shape_of(x)[1:3]
    split = t.reshape(x, (n, height, width, groups, per_group))
    filters = t.reshape(weights, (groups, o // groups, kh, kw, per_group))
    start = t.filled((n, oh, ow, groups, o // groups), zero)
    sums = t.add_operation(
        Conv2DNhwgcGfhwcOp(
            [split, filters], [start], [start.type], strides=strides, dilations=dilations
        )
    )
    return t.reshape(sums, shape)


def accumulated(s: Scalars, x: SSAValue, w: SSAValue, sum: SSAValue) -> SSAValue:
    """Return `sum + x * w`; integers `x` and `w` are sign-extended to the type of `sum` first."""
    if is_integer(sum.type):
        x, w = s.resized(x, sum.type), s.resized(w, sum.type)
    return s.add(sum, s.mul(x, w))


def _pair(values: Sequence[int]) -> DenseIntElementsAttr:
    return DenseIntElementsAttr.from_list(TensorType(i64, [2]), list(values))


def _with_border(
    t: Tensors, op: graph.Conv2dOp | graph.Pool2dOp, x: SSAValue, border: SSAValue
) -> SSAValue:
    top, left, bottom, right = op.padding.get_values()
    return t.padded(x, (0, top, left, 0), (0, bottom, right, 0), border)


def _window_map(window: Window, count: int, dimensions: Sequence[int]) -> AffineMap:
    # `dimensions` are the loops over image, row, column, row and column of the window, channel.
    n, y, x, i, j, c = (AffineDimExpr(d) for d in dimensions)
    (down, right), (high, wide) = window.strides, window.dilations
    results: tuple[AffineExpr, ...] = (n, y * down + i * high, x * right + j * wide, c)
    return AffineMap(count, 0, results)


def _sums_in_order(network: Network, op: graph.LinearOperation) -> SSAValue:
    # Loops of scf, because loops of linalg have no order.
    x, weights = network.get(op.input), network.get(op.weights)
    t, scale = network.tensors, op.weight_scale
    window = Window.of((1, 1), (1, 1), (0, 0, 0, 0), (1, 1))
    groups = 1
    if isinstance(op, graph.Conv2dOp):
        x, window, groups = (
            _with_border(t, op, x, t.real(0.0)),
            Window.of_operation(op),
            op.group_count,
        )
    filters = graph.shape_of(op.weights)
    per_output = filters[0] // groups

    def body(s: Scalars, indices: Indices) -> SSAValue:
        def product(s: Scalars, taps: Indices, sum: SSAValue) -> SSAValue:
            place = [indices[0], taps[0]]
            if isinstance(op, graph.Conv2dOp):
                rows = [
                    s.add(_times(s, at, stride), _times(s, tap, dilation))
                    for at, tap, stride, dilation in zip(
                        indices[1:3], taps, window.strides, window.dilations, strict=False
                    )
                ]
                place = [indices[0], *rows, taps[2]]
                if groups > 1:
                    group = s.div(indices[3], s.integer(per_output, INDEX))
                    place[3] = s.add(_times(s, group, filters[3]), taps[2])
            w = s.element(weights, [indices[-1], *taps])
            if is_integer(w.type):
                w = s.to_real(w)
            return s.add(sum, s.mul(s.element(x, place), w))

        total = nested(s, filters[1:], s.real(0.0), product)
        return total if scale is None else s.mul(total, s.real(float(np.float32(scale))))

    return t.computed(graph.shape_of(op.result), f32, body)


def _times(s: Scalars, index: SSAValue, factor: int) -> SSAValue:
    return index if factor == 1 else s.mul(index, s.integer(factor, INDEX))


def nested(s: Scalars, extents: Sequence[int], initial: SSAValue, body: Step) -> SSAValue:
    """
    Return the last result of `body`, which is called for all indices below `extents` in row-major
    order, each time with the previous result; `initial` is the first. Loops of scf keep this order.
    """

    def at(s: Scalars, outer: Indices, value: SSAValue) -> SSAValue:
        if len(outer) == len(extents):
            return body(s, outer, value)

        def step(s: Scalars, index: SSAValue, carried: Carried) -> Carried:
            return [at(s, [*outer, index], carried[0])]

        extent = s.integer(extents[len(outer)], INDEX)
        return s.loop(s.integer(0, INDEX), extent, 1, [value], step)[0]

    return at(s, [], initial)


def _float_output(network: Network, op: graph.LinearOperation, sums: SSAValue) -> SSAValue:
    addends = [network.get(v) for v in (op.bias, op.residual) if v is not None]
    if not addends and op.activation is None:
        return sums

    def body(s: Scalars, total: SSAValue, *others: SSAValue) -> SSAValue:
        for other in others:
            total = s.add(total, other)
        return total if op.activation is None else Functions(s).apply(op.activation, total)

    return network.mapped(op, [sums, *addends], body)


def _integer_output(
    network: Network, op: graph.LinearOperation, operands: dict[str, SSAValue]
) -> SSAValue:
    # `operands` has the i32 sum of products and an optional `offset`.
    t, requant = network.tensors, op.requant
    assert requant is not None
    if op.bias is not None:
        operands["bias"] = network.get(op.bias)
    if op.residual is not None:
        operands["residual"] = network.get(op.residual)
        operands["shift"] = t.constant(np.array(op.residual_shifts, np.int64))
    if requant.is_per_channel:
        multipliers, distances = requant.factors
        if requant.is_normalized:
            operands["distance"] = t.constant(np.array(distances, np.int64))
        else:
            multipliers = requant.multipliers
        operands["multiplier"] = t.constant(np.array(multipliers, np.int64))
    tables = None
    if op.tables is not None:
        tables = t.constant(op.tables)
        if op.channel_rows is not None:
            operands["row"] = t.constant(np.array(op.channel_rows, np.int64))
    storage = graph.storage_type(graph.element_of(op.result)) if tables is None else i64
    assert is_integer(storage)

    def body(s: Scalars, *elements: SSAValue) -> SSAValue:
        given = dict(zip(operands, elements, strict=True))
        total = given["sum"]
        if "offset" in given:
            total = s.add(total, given["offset"])
        total = s.resized(total, i64)
        if "bias" in given:
            total = s.add(total, s.resized(given["bias"], i64))
        if op.residual is not None:
            moved = centred(s, given["residual"], graph.stored_element(op.residual))
            total = s.add(total, s.shift_left(moved, given["shift"]))
        factor = given.get("multiplier"), given.get("distance")
        stored = requantize(s, total, requant, storage, *factor)
        return stored if tables is None else looked_up(s, tables, stored, given.get("row"))

    return network.mapped(op, list(operands.values()), body)


def looked_up(
    s: Scalars, tables: SSAValue, stored: SSAValue, row: SSAValue | None, *, pixels: bool = False
) -> SSAValue:
    """
    Return the entry of a lookup table for the integer `stored`. `tables` has the shape [tables,
    entries]; `row` selects the table, or `None` the first. The first entry is for the minimum
    integer, or for 0 if `pixels` (unsigned bytes).
    """
    place = s.resized(stored, i64, signed=not pixels)
    if not pixels:
        half = graph.shape_of(tables)[1] // 2
        place = s.add(s.clamp(place, -half, half - 1), s.integer(half))
    first = s.integer(0, INDEX) if row is None else s.as_index(row)
    return s.element(tables, [first, s.as_index(place)])


def pool(network: Network, op: graph.Pool2dOp) -> SSAValue:
    """Build a maximum or average pooling, and return the result."""
    if op.function is graph.Pool.MAX:
        return _maximum(network, op)
    if op.is_quantized:
        return _integer_average(network, op)
    return _float_average(network, op)


def _reduced_windows(
    network: Network, op: graph.Pool2dOp, x: SSAValue, initial: SSAValue, fold: Fold
) -> SSAValue:
    # An operand without elements specifies the extents of the window.
    t, window = network.tensors, Window.of_operation(op)
    extents = t.empty(window.kernel, graph.element_of(x))
    maps = [
        _window_map(window, 6, (0, 1, 2, 4, 5, 3)),
        dimension_map(6, (4, 5)),
        dimension_map(6, (0, 1, 2, 3)),
    ]
    iterators = [PARALLEL] * 4 + [REDUCTION] * 2

    def body(s: Scalars, element: SSAValue, _: SSAValue, result: SSAValue) -> SSAValue:
        return fold(s, element, result)

    start = t.filled(graph.shape_of(op.result), initial)
    return t.generic([x, extents], maps, iterators, start, body)


def _maximum(network: Network, op: graph.Pool2dOp) -> SSAValue:
    t, element = network.tensors, element_type(op.input)
    if is_integer(element):
        signed = is_signed(op.input)
        lowest = t.integer(-(1 << element.width.data - 1) if signed else 0, element)
        x = _with_border(t, op, network.get(op.input), lowest)

        def larger(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
            return s.max(a, b, signed=signed)

        return _reduced_windows(network, op, x, lowest, larger)
    # The sign of a zero and the choice of a NaN depend on the order.
    x = _with_border(t, op, network.get(op.input), t.real(-np.inf))

    def first(s: Scalars, element: SSAValue, largest: SSAValue) -> SSAValue:
        replaces = s.either(s.compare("gt", element, largest), s.is_nan(element))
        return s.select(replaces, element, largest)

    return _in_order(network, op, x, t.real(-np.inf), first)


def _in_order(
    network: Network, op: graph.Pool2dOp, x: SSAValue, initial: SSAValue, fold: Fold
) -> SSAValue:
    window = Window.of_operation(op)

    def body(s: Scalars, indices: Indices) -> SSAValue:
        def step(s: Scalars, taps: Indices, value: SSAValue) -> SSAValue:
            return fold(s, _tap(s, x, window, indices, taps), value)

        return nested(s, window.kernel, initial, step)

    return network.tensors.computed(graph.shape_of(op.result), f32, body)


def _tap(s: Scalars, x: SSAValue, window: Window, indices: Indices, taps: Indices) -> SSAValue:
    rows = [
        s.add(_times(s, indices[1 + axis], stride), _times(s, taps[axis], dilation))
        for axis, (stride, dilation) in enumerate(
            zip(window.strides, window.dilations, strict=True)
        )
    ]
    return s.element(x, [indices[0], *rows, indices[3]])


def _float_average(network: Network, op: graph.Pool2dOp) -> SSAValue:
    # Each row is added from left to right, then the rows from the top.
    t, window = network.tensors, Window.of_operation(op)
    x = _with_border(t, op, network.get(op.input), t.real(0.0))
    divisors = t.constant(_divisors(op).astype(np.float32))

    def body(s: Scalars, indices: Indices) -> SSAValue:
        def add_row(s: Scalars, i: Indices, total: SSAValue) -> SSAValue:
            def add(s: Scalars, j: Indices, sum: SSAValue) -> SSAValue:
                return s.add(sum, _tap(s, x, window, indices, [*i, *j]))

            return s.add(total, nested(s, window.kernel[1:], s.real(0.0), add))

        return nested(s, window.kernel[:1], s.real(0.0), add_row)

    sums = t.computed(graph.shape_of(op.result), f32, body)

    def divide(s: Scalars, sum: SSAValue, divisor: SSAValue) -> SSAValue:
        return s.div(sum, divisor)

    return network.mapped(op, [sums, divisors], divide)


def _divisors(op: graph.Pool2dOp) -> NDArray[np.int64]:
    window = Window.of_operation(op)
    if op.includes_padding or not any(window.padding):
        return np.full((1, 1, 1, 1), prod(window.kernel), np.int64)
    _, height, width, _ = graph.shape_of(op.input)
    return counts(height, width, window)[None, :, :, None]


def _integer_average(network: Network, op: graph.Pool2dOp) -> SSAValue:
    t, taps = network.tensors, prod(op.window)
    x, point = network.signed(op.input)
    x = _with_border(t, op, x, t.integer(point, graph.element_of(x)))
    sums = _reduced_windows(network, op, x, t.integer(-point * taps), _added)
    divisors = _divisors(op)
    if op.divides is not None:
        return _divided(network, op, sums, divisors)
    requant = average_requant(op, int(divisors.flat[0]))
    operands = [sums]
    if divisors.size > 1:
        multipliers = [
            average_requant(op, count).multiplier.data for count in divisors.reshape(-1).tolist()
        ]
        operands.append(t.constant(np.array(multipliers, np.int64).reshape(divisors.shape)))
    return network.mapped(op, operands, requantizing(op, requant))


def _divided(
    network: Network, op: graph.Pool2dOp, sums: SSAValue, divisors: NDArray[np.int64]
) -> SSAValue:
    # Quotients of sums of stored integers minus the zero point, which is added first.
    assert op.requant is not None
    point, requant = graph.stored_element(op.input).zero_point, op.requant
    storage = graph.stored_element(op.result).storage

    def body(s: Scalars, sum: SSAValue, count: SSAValue) -> SSAValue:
        total, zero = s.add(sum, s.mul(count, s.integer(point))), s.integer(0)
        half = s.div(count, s.integer(2))
        signed_half = s.select(s.compare("gt", total, zero), half, s.neg(half))
        quotient = s.div(s.add(total, signed_half), count)
        return s.resized(s.clamp(quotient, requant.low.data, requant.high.data), signless(storage))

    return network.mapped(op, [sums, network.tensors.constant(divisors)], body)


def requantizing(op: graph.GraphOperation, requant: RequantAttr) -> Callable[..., SSAValue]:
    """
    Return the body of a `linalg.generic` that requantizes an i64 accumulator to the type of the
    result of `op`. The body accepts a multiplier as second element, if it is not the same for all.
    """
    storage = graph.stored_element(op.output).storage

    def body(s: Scalars, sum: SSAValue, multiplier: SSAValue | None = None) -> SSAValue:
        return requantize(s, sum, requant, storage, multiplier)

    return body


def _added(s: Scalars, element: SSAValue, sum: SSAValue) -> SSAValue:
    return s.add(s.resized(element, i64), sum)
