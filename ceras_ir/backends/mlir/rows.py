"""
Build reductions, softmax and normalizations in upstream dialects.

Float sums are loops of scf in the defined order, because reductions of linalg have no order.
Integer sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from xdsl.dialects.builtin import Float32Type, IntegerType, f32, i64
from xdsl.ir import SSAValue

from ceras_ir.backends.mlir.functions import Functions
from ceras_ir.backends.mlir.integers import (
    centred,
    half_away,
    high_product,
    newton_reciprocal,
    normalization_factor,
    requantize,
    shifted_by,
    signless,
)
from ceras_ir.backends.mlir.network import Network, element_type, is_signed
from ceras_ir.backends.mlir.scalars import INDEX, Carried, Scalars
from ceras_ir.backends.mlir.tensors import Indices
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Reduce
from ceras_ir.dialects.graph.fixed_point import SUM_SHIFT
from ceras_ir.dialects.graph.normalization import (
    RECIPROCAL_BITS,
    IntegerNormalizeOp,
    IntegerSoftmaxOp,
)

PARTIAL_SUMS = 16
"""
The number of partial sums of the denominator of a softmax, as the interpreter defines them: partial
sum k has elements k, k + 16, k + 32 and so on.
"""
Elements = Callable[[Scalars, SSAValue], SSAValue]
"""A function of an index along the reduced axis that returns the element at this index."""


def along(
    network: Network,
    x: SSAValue,
    axis: int,
    element: Float32Type | IntegerType,
    body: Callable[[Scalars, Elements], SSAValue],
) -> SSAValue:
    """
    Return a tensor of type `element` with an element per row of `x` along `axis`, which remains as
    an extent of 1. `body` computes it from a function that returns elements of the row by index.
    """
    shape = [1 if d == axis else n for d, n in enumerate(graph.shape_of(x))]

    def inside(s: Scalars, indices: Indices) -> SSAValue:
        def at(s: Scalars, index: SSAValue) -> SSAValue:
            return s.element(x, [index if d == axis else i for d, i in enumerate(indices)])

        return body(s, at)

    return network.tensors.computed(shape, element, inside)


def folded(
    s: Scalars, at: Elements, count: int, fold: Callable[[Scalars, SSAValue, SSAValue], SSAValue]
) -> SSAValue:
    """
    Combine the first `count` elements of a row in order: `fold(fold(e0, e1), e2)` for three
    elements. `at` returns an element by index.
    """

    def step(s: Scalars, index: SSAValue, carried: Carried) -> Carried:
        return [fold(s, carried[0], at(s, index))]

    first = at(s, s.integer(0, INDEX))
    return s.loop(s.integer(1, INDEX), s.integer(count, INDEX), 1, [first], step)[0]


def larger(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    """Return the larger of two floats: `a` if `a > b` or `a` is NaN, else `b`."""
    return s.select(s.either(s.compare("gt", a, b), s.is_nan(a)), a, b)


def smaller(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    """Return the smaller of two floats: `a` if `a < b` or `a` is NaN, else `b`."""
    return s.select(s.either(s.compare("lt", a, b), s.is_nan(a)), a, b)


def _added(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.add(a, b)


def reduction(network: Network, op: graph.ReduceOp) -> SSAValue:
    """
    Build `graph.reduce`, a sum, product, maximum or minimum along axes, and return the result.
    """
    t, element = network.tensors, element_type(op.input)
    axes, x = list(op.axes.get_values()), network.get(op.input)
    signed = is_signed(op.input)

    def fold(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        match op.function:
            case Reduce.SUM:
                return s.add(a, b)
            case Reduce.PRODUCT:
                return s.mul(a, b)
            case Reduce.MAX:
                return larger(s, a, b) if element == f32 else s.max(a, b, signed=signed)
            case Reduce.MIN:
                return smaller(s, a, b) if element == f32 else s.min(a, b, signed=signed)

    shape = graph.shape_of(op.input)
    kept = [d for d in range(len(shape)) if d not in axes]
    count = prod(shape[d] for d in axes)
    moved = t.transpose(x, [*axes, *kept])
    rows = t.reshape(moved, (count, prod(shape[d] for d in kept)))

    def body(s: Scalars, at: Elements) -> SSAValue:
        return folded(s, at, count, fold)

    return t.reshape(along(network, rows, 0, element, body), graph.shape_of(op.result))


def extreme_index(network: Network, op: graph.ArgOp) -> SSAValue:
    """
    Build `graph.arg`, the index of the maximum or minimum along an axis, and return the result.
    """
    axis, signed = op.axis.value.data, is_signed(op.input)
    relation = "gt" if op.function is Reduce.MAX else "lt"
    if op.takes_last:
        relation = relation.replace("t", "e")
    count = graph.shape_of(op.input)[axis]

    def body(s: Scalars, at: Elements) -> SSAValue:
        def step(s: Scalars, index: SSAValue, carried: Carried) -> Carried:
            best, place = carried
            element = at(s, index)
            replaces = s.compare(relation, element, best, signed=signed)
            return [s.select(replaces, element, best), s.select(replaces, index, place)]

        zero = s.integer(0, INDEX)
        start = [at(s, zero), zero]
        found = s.loop(s.integer(1, INDEX), s.integer(count, INDEX), 1, start, step)
        return s.of_index(found[1], i64)

    return along(network, network.get(op.input), axis, i64, body)


def softmax(network: Network, op: graph.SoftmaxOp) -> SSAValue:
    """Build `graph.softmax`, which is computed in float, and return the result."""
    axis, x = op.axis.value.data, network.get(op.input)
    count = graph.shape_of(op.input)[axis]
    top = along(network, x, axis, f32, lambda s, at: folded(s, at, count, larger))

    def exponential(s: Scalars, x: SSAValue, top: SSAValue) -> SSAValue:
        return Functions(s).exp(s.sub(x, top))

    e = network.mapped(op, [x, top], exponential)

    def total(s: Scalars, at: Elements) -> SSAValue:
        def partial(s: Scalars, first: SSAValue) -> SSAValue:
            def step(s: Scalars, index: SSAValue, carried: Carried) -> Carried:
                return [s.add(carried[0], at(s, index))]

            start, stop = s.add(first, s.integer(PARTIAL_SUMS, INDEX)), s.integer(count, INDEX)
            return s.loop(start, stop, PARTIAL_SUMS, [at(s, first)], step)[0]

        return folded(s, partial, min(count, PARTIAL_SUMS), _added)

    sums = along(network, e, axis, f32, total)
    return network.mapped(op, [e, sums], lambda s, e, sum: s.div(e, sum))


def normalization(network: Network, op: graph.NormalizeOp) -> SSAValue:
    """Build `graph.normalize`, which is computed in float, and return the result."""
    x = network.get(op.input)
    axis = len(graph.shape_of(op.input)) - 1
    count = graph.shape_of(op.input)[axis]

    def mean_of(x: SSAValue) -> SSAValue:
        def body(s: Scalars, at: Elements) -> SSAValue:
            return s.div(folded(s, at, count, _added), s.real(count))

        return along(network, x, axis, f32, body)

    c = x
    if op.is_centred:
        c = network.mapped(op, [x, mean_of(x)], lambda s, x, mean: s.sub(x, mean))
    squares = network.mapped(op, [c], lambda s, c: s.mul(c, c))
    operands = [c, mean_of(squares), network.get(op.scale)]
    if op.bias is not None:
        operands.append(network.get(op.bias))
    epsilon = float(np.float32(op.epsilon.value.data))

    def body(s: Scalars, c: SSAValue, mean: SSAValue, scale: SSAValue, *bias: SSAValue) -> SSAValue:
        y = s.div(c, s.sqrt(s.add(mean, s.real(epsilon))))
        y = s.mul(y, scale)
        return s.add(y, bias[0]) if bias else y

    return network.mapped(op, operands, body)


def _sum(network: Network, x: SSAValue, axis: int) -> SSAValue:
    # The sum of i64 along an axis.
    t = network.tensors
    return t.reduced(x, [axis], t.integer(0), _added)


def _integers(network: Network, op: IntegerSoftmaxOp | IntegerNormalizeOp) -> SSAValue:
    element, shape = graph.stored_element(op.input), graph.shape_of(op.input)
    x = network.get(op.input)
    return network.tensors.elementwise([x], shape, i64, lambda s, q: centred(s, q, element))


def fixed_point_softmax(network: Network, op: graph.FixedPointSoftmaxOp) -> SSAValue:
    """
    Build `graph.fixed_point_softmax`, the integer softmax of TensorFlow Lite, and return the
    result.
    """
    t, shape, target = network.tensors, graph.shape_of(op.input), graph.stored_element(op.result)
    axis, table = len(shape) - 1, network.get(op.table)
    q = t.elementwise([network.get(op.input)], shape, i64, lambda s, q: s.resized(q, i64))
    top = t.reduced(q, [axis], t.integer(-(1 << 62)), lambda s, q, most: s.max(q, most))

    def exponential(s: Scalars, q: SSAValue, top: SSAValue) -> SSAValue:
        return s.resized(s.element(table, [s.as_index(s.sub(top, q))]), i64)

    def addend(s: Scalars, e: SSAValue) -> SSAValue:
        return s.shift_right(s.add(e, s.integer(1 << SUM_SHIFT - 1)), s.integer(SUM_SHIFT))

    e = t.elementwise([q, top], shape, i64, exponential)
    sums = _sum(network, t.elementwise([e], shape, i64, addend), axis)

    def scaled(s: Scalars, e: SSAValue, sum: SSAValue) -> SSAValue:
        zeros = s.sub(s.leading_zeros(sum), s.integer(32))
        x = newton_reciprocal(s, s.shift_right(s.shift_left(sum, zeros), s.integer(1)))
        reciprocal = s.min(s.add(x, x), s.integer((1 << 31) - 1))
        shift = s.sub(s.integer(43 - target.storage.width.data), zeros)
        rounded = half_away(s, high_product(s, reciprocal, e), shift)
        moved = s.add(rounded, s.integer(target.low))
        return s.resized(s.clamp(moved, target.low, target.high), signless(target.storage))

    return network.mapped(op, [e, sums], scaled)


def integer_softmax(network: Network, op: IntegerSoftmaxOp) -> SSAValue:
    """Build `graph.integer_softmax`, with a table of exponentials, and return the result."""
    t, axis, shape = network.tensors, op.axis.value.data, graph.shape_of(op.input)
    q, table = _integers(network, op), network.get(op.table)
    last = graph.shape_of(op.table)[0] - 1
    lowest = t.integer(-(1 << 62))
    top = t.reduced(q, [axis], lowest, lambda s, q, most: s.max(q, most))

    def exponential(s: Scalars, q: SSAValue, top: SSAValue) -> SSAValue:
        distance = s.min(s.sub(top, q), s.integer(last))
        return s.resized(s.element(table, [s.as_index(distance)]), i64)

    e = t.elementwise([q, top], shape, i64, exponential)
    storage = graph.stored_element(op.result).storage

    def scaled(s: Scalars, e: SSAValue, sum: SSAValue) -> SSAValue:
        reciprocal = s.div(s.integer((1 << RECIPROCAL_BITS) - 1), sum)
        return requantize(s, s.mul(e, reciprocal), op.requant, storage)

    return network.mapped(op, [e, _sum(network, e, axis)], scaled)


def integer_normalization(network: Network, op: IntegerNormalizeOp) -> SSAValue:
    """Build `graph.integer_normalize`, with an integer square root, and return the result."""
    t, shape = network.tensors, graph.shape_of(op.input)
    axis, count = len(shape) - 1, shape[-1]
    row = [*shape[:-1], 1]
    c = _integers(network, op)
    if op.is_centred:
        sums = _sum(network, c, axis)

        def centre(s: Scalars, q: SSAValue, sum: SSAValue) -> SSAValue:
            return s.sub(s.mul(q, s.integer(count)), sum)

        c = t.elementwise([c, sums], shape, i64, centre)
    c = t.elementwise([c], shape, i64, lambda s, c: shifted_by(s, c, s.integer(op.shift)))
    squares = t.elementwise([c], shape, i64, lambda s, c: s.mul(c, c))
    w = _sum(network, squares, axis)
    factor = t.elementwise([w], row, i64, lambda s, w: normalization_factor(s, op, w)[0])
    shift = t.elementwise([w], row, i64, lambda s, w: normalization_factor(s, op, w)[1])
    storage = graph.stored_element(op.result).storage

    def scaled(
        s: Scalars, c: SSAValue, m: SSAValue, shift: SSAValue, scale: SSAValue, bias: SSAValue
    ) -> SSAValue:
        z = shifted_by(s, s.mul(c, m), shift)
        total = s.add(s.mul(z, s.resized(scale, i64)), s.resized(bias, i64))
        return requantize(s, total, op.requant, storage)

    operands = [c, factor, shift, network.get(op.scale), network.get(op.bias)]
    return network.mapped(op, operands, scaled)
