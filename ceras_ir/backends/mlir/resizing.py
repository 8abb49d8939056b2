"""Build `graph.resize`."""

import numpy as np
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from ceras_ir.backends.mlir.integers import round_shift, signless
from ceras_ir.backends.mlir.network import Network
from ceras_ir.backends.mlir.scalars import Scalars
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import Rounding
from ceras_ir.interpreters.selection import (
    FIXED_BITS,
    fixed_weights,
    linear_weights,
    nearest_indices,
)


def resize(network: Network, op: graph.ResizeOp) -> SSAValue:
    """Return the elements near the coordinates of each output index."""
    t, x, mode = network.tensors, network.get(op.input), op.coordinates.data
    sizes = graph.shape_of(op.result)
    if op.has_kernel_form:
        return _resize_integers(network, op)
    for axis in (1, 2):
        scale, source = op.factors[axis - 1], graph.shape_of(x)[axis]
        if op.function is graph.Resize.NEAREST:
            indices = nearest_indices(source, sizes[axis], scale, mode, op.rounding.data)
            x = t.selected(x, {axis: np.array(indices, np.int64)})
            continue
        low, high, weights = linear_weights(source, sizes[axis], scale, mode)
        first, second = (
            t.selected(x, {axis: np.array(indices, np.int64)}) for indices in (low, high)
        )
        factors = weights.reshape([-1 if d == axis else 1 for d in range(4)])
        operands = [
            first,
            t.constant(np.float32(1) - factors),
            second,
            t.constant(np.ascontiguousarray(factors)),
        ]
        x = t.elementwise(operands, graph.shape_of(first), f32, _interpolated)
    return x


def _interpolated(
    s: Scalars, a: SSAValue, before: SSAValue, b: SSAValue, after: SSAValue
) -> SSAValue:
    return s.add(s.mul(a, before), s.mul(b, after))


def _resize_integers(network: Network, op: graph.ResizeOp) -> SSAValue:
    """Interpolate stored integers in fixed point, in i64."""
    t, x, element = network.tensors, network.get(op.input), graph.stored_element(op.result)
    sizes, one = graph.shape_of(op.result), 1 << FIXED_BITS

    def combined(
        s: Scalars, a: SSAValue, before: SSAValue, b: SSAValue, after: SSAValue
    ) -> SSAValue:
        first, second = (s.resized(v, i64, signed=element.is_signed) for v in (a, b))
        return s.add(s.mul(first, before), s.mul(second, after))

    for axis in (1, 2):
        source = graph.shape_of(x)[axis]
        low, high, weights = fixed_weights(source, sizes[axis], op.coordinates.data)
        first, second = t.selected(x, {axis: low}), t.selected(x, {axis: high})
        factors = weights.reshape([-1 if d == axis else 1 for d in range(4)])
        operands = [first, t.constant(one - factors), second, t.constant(factors)]
        x = t.elementwise(operands, graph.shape_of(first), i64, combined)

    def rounded(s: Scalars, total: SSAValue) -> SSAValue:
        found = round_shift(s, total, 2 * FIXED_BITS, Rounding.HALF_AWAY)
        return s.resized(found, signless(element.storage))

    return t.elementwise([x], sizes, signless(element.storage), rounded)
