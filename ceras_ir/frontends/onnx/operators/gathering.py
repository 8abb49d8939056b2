"""Operators that take elements by indices: constant ones are structure, others are computed."""

from math import prod

import numpy as np
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Compare, TakeOp
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.tensors import MAX_ELEMENTS
from ceras_ir.frontends.onnx.values import Constant, Value


@operator("Gather")
def gather(node: Node, emitter: Emitter) -> Value:
    """
    Indices of any shape, negative ones counted from the end. Of computed ones each that leaves the
    operand is the nearest that does not.
    """
    shape, given = emitter.shape(0), emitter.value(1)
    axis = node.axis(node.integer("axis", 0), len(shape))
    _check_indices(node, given)
    extent, count = shape[axis], prod(shape_of_value(given))
    if count * prod(shape) // extent > MAX_ELEMENTS:
        raise node.wrong(f"a result of {count} times {prod(shape) // extent} is too large")
    target = (*shape[:axis], *shape_of_value(given), *shape[axis + 1 :])
    if isinstance(given, Constant):
        flat = [int(i) for i in given.load().reshape(-1)]
        if outside := [i for i in flat if not -extent <= i < extent]:
            raise node.wrong(f"indices must be in [-{extent}, {extent}), got {outside[0]}")
        taken = Composer(emitter).gathered(emitter.value(0), axis, [i % extent for i in flat])
        return emitter.reshaped(taken, target)
    rest = [i for i in range(len(shape)) if i != axis]
    first = emitter.transposed(emitter.value(0), (axis, *rest))
    width = prod(shape) // extent
    taken = _taken(emitter, emitter.reshaped(first, (extent, width)), given)
    rows = emitter.reshaped(taken, (count, *(shape[i] for i in rest)))
    # Back to where the axis was.
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
    return emitter.reshaped(emitter.transposed(rows, order), target)


@operator("GatherElements")
def gather_elements(node: Node, emitter: Emitter) -> Value:
    """One element for each index, from the same place along all axes but one."""
    compose = Composer(emitter)
    shape, given = emitter.shape(0), emitter.value(1)
    axis = node.axis(node.integer("axis", 0), len(shape))
    _check_indices(node, given)
    target = shape_of_value(given)
    if len(target) != len(shape) or any(
        t > n for i, (t, n) in enumerate(zip(target, shape, strict=True)) if i != axis
    ):
        raise node.wrong(f"indices of shape {list(target)} for an operand of {list(shape)}")
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    places = np.indices(target)
    base = sum(
        (places[i] * strides[i] for i in range(len(shape)) if i != axis), np.zeros(target, int)
    )
    along = compose.mul(_counted(compose, given, shape[axis]), _integer(emitter, strides[axis]))
    at = compose.add(along, emitter.constant(base.astype(np.int64), "places"))
    column = emitter.reshaped(emitter.value(0), (prod(shape), 1))
    return emitter.reshaped(_taken(emitter, column, at), target)


@operator("GatherND")
def gather_nd(node: Node, emitter: Emitter) -> Value:
    """Slices at tuples of indices, for every element of the batch."""
    compose = Composer(emitter)
    shape, given = emitter.shape(0), emitter.value(1)
    target, batch = shape_of_value(given), node.integer("batch_dims", 0)
    _check_indices(node, given)
    depth = (0, *target)[-1]
    if not 0 <= batch < min(len(target), len(shape)) or not 1 <= depth <= len(shape) - batch:
        raise node.wrong(f"indices of shape {list(target)} for an operand of {list(shape)}")
    if shape[:batch] != target[:batch]:
        raise node.wrong(f"batches of {list(shape)} and {list(target)} differ")
    end = batch + depth
    strides = [prod(shape[i + 1 : end]) for i in range(end)]
    at: Value | None = None
    for i in range(depth):
        part = compose.part(given, len(target) - 1, i, 1)
        along = compose.mul(
            _counted(compose, part, shape[batch + i]), _integer(emitter, strides[batch + i])
        )
        at = along if at is None else compose.add(at, along)
    assert at is not None
    if batch:
        places = np.indices(shape[:batch])
        base = sum((p * s for p, s in zip(places, strides, strict=False)), np.zeros((), int))
        base = np.asarray(base).reshape((*shape[:batch], *(1,) * (len(target) - batch)))
        at = compose.add(at, emitter.constant(base.astype(np.int64), "places"))
    rows = emitter.reshaped(emitter.value(0), (prod(shape[:end]), prod(shape[end:])))
    return emitter.reshaped(_taken(emitter, rows, at), (*target[:-1], *shape[end:]))


def _taken(emitter: Emitter, rows: Value, indices: Value) -> Value:
    count = prod(shape_of_value(indices))
    flat = emitter.materialize(emitter.reshaped(indices, (count,)))
    return emitter.emit(TakeOp(emitter.materialize(rows), flat))


def _integer(emitter: Emitter, number: int) -> Value:
    return emitter.constant(np.array([number], np.int64), "stride")


def _counted(compose: Composer, indices: Value, extent: int) -> Value:
    """Indices as i64, negative ones counted from the end; none leaves its dimension."""
    wide = compose.cast(indices, i64)
    below = compose.compare(Compare.LESS, wide, _integer(compose.emitter, 0))
    whole = compose.add(wide, _integer(compose.emitter, extent))
    counted = compose.select(below, whole, wide)
    return compose.bounded(counted, 0, extent - 1)


def _check_indices(node: Node, indices: Value) -> None:
    dtype = dtype_of_value(indices)
    if dtype.kind not in "iu":
        raise node.wrong(f"indices must be integers, got {dtype}")
