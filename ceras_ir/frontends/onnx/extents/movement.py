"""Import shapes and data movement on extents that data decide: Shape, Transpose, Concat, Gather."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Compare
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.extents import Extent, Linear, minus, plus
from ceras_ir.frontends.onnx.emission.values import Constant, Value, shape_of_value
from ceras_ir.frontends.onnx.extents.registry import refused, sized, standard
from ceras_ir.frontends.onnx.extents.scalars import scalar
from ceras_ir.frontends.onnx.extents.statements import along, bounded, resized, taken_within
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.indexing import taken_along


def shape_tensor(emitter: Emitter, extents: Sequence[Extent], name: str) -> Value:
    """Return `extents` as a tensor of i64: a constant if all are known."""
    numbers = [e for e in extents if not isinstance(e, Linear)]
    if len(numbers) == len(extents):
        return Constant.of(name, np.array(numbers, np.int64))
    return emitter.joined([scalar(emitter, e) for e in extents], 0)


@sized("Shape")
def shape(node: Node, emitter: Emitter) -> Value:
    """Import Shape: the extents of the operand, from `start` to `end`."""
    extents = emitter.table.of(emitter.value(0))
    start, end = node.integer("start", 0), node.integer("end", len(extents))
    return shape_tensor(emitter, extents[slice(start, end)], node.outputs[0])


@sized("Size")
def size(node: Node, emitter: Emitter) -> Value:
    """Import Size: the product of the extents."""
    total = scalar(emitter, 1)
    for extent in emitter.table.of(emitter.value(0)):
        total = emitter.mul(total, scalar(emitter, extent))
    return emitter.reshaped(total, ())


@sized("Transpose")
def transpose(node: Node, emitter: Emitter) -> Value:
    """Import Transpose: permute dimensions by `perm`, by default in reverse order."""
    extents = emitter.table.of(emitter.value(0))
    result = standard(node, emitter, {})
    order = node.integers("perm") or range(len(extents))[::-1]
    return bounded(emitter, result, [extents[p] for p in order])


@sized("Unsqueeze")
def unsqueeze(node: Node, emitter: Emitter) -> Value:
    """Import Unsqueeze: insert dimensions of extent 1."""
    known = emitter.table.of(emitter.value(0))
    result = standard(node, emitter, {})
    axes = node.integers("axes") if node.opset < 13 else emitter.integers(1)
    rank = len(shape_of_value(result))
    added = {axis % rank for axis in axes or ()}
    extents = iter(known)
    return bounded(emitter, result, [1 if i in added else next(extents) for i in range(rank)])


@sized("Squeeze")
def squeeze(node: Node, emitter: Emitter) -> Value:
    """
    Import Squeeze of `axes`. An axis with an extent that data decide keeps its first element.
    """
    value = emitter.value(0)
    extents = emitter.table.of(value)
    given = node.integers("axes") if node.opset < 13 else None
    if node.opset >= 13 and node.has_input(1):
        given = emitter.integers(1)
    if given is None:
        raise refused(emitter, f"without axes, of '{node.inputs[0]}'")
    dropped = {node.axis(axis, len(extents), "axes") for axis in given}
    for axis in sorted(dropped):
        if isinstance(extents[axis], Linear):
            value = emitter.part(value, axis, 0, 1)
    result = standard(node, emitter, {0: value})
    return bounded(emitter, result, [e for i, e in enumerate(extents) if i not in dropped])


@sized("Concat")
def concat(node: Node, emitter: Emitter) -> Value:
    """Import Concat. Along the axis, the elements of each operand follow those before it."""
    values = list(emitter.operands())
    known = [emitter.table.of(value) for value in values]
    rank = len(known[0])
    axis = node.axis(node.integer("axis", 0), rank)
    if any(len(extents) != rank for extents in known):
        raise node.wrong("operands have different numbers of dimensions")
    result = list(known[0])
    for other in range(rank):
        if other == axis:
            continue
        numbers = [e[other] for e in known if not isinstance(e[other], Linear)]
        if len({*numbers}) > 1:
            raise node.wrong(f"operands differ in more than dimension {axis}")
        result[other] = numbers[0] if numbers else known[0][other]
        shapes = [shape_of_value(value)[other] for value in values]
        numbers = [n for n in numbers if not isinstance(n, Linear)]
        count = next((n for n in numbers if not isinstance(n, Linear)), min(shapes))
        values = [resized(emitter, value, other, count) for value in values]
    joined = emitter.joined(values, axis)
    total: Extent = 0
    places = along(emitter, shape_of_value(joined)[axis])
    indices, is_plain, begin = places, True, 0
    for value, extents in zip(values[:-1], known[:-1], strict=True):
        maximum = shape_of_value(value)[axis]
        total, begin = plus(total, extents[axis]), begin + maximum
        if (gap := minus(maximum, extents[axis])) == 0:
            continue
        is_plain = False
        after = emitter.compare(Compare.LESS_OR_EQUAL, scalar(emitter, total), places)
        skipped = emitter.mul(emitter.cast(after, i64), scalar(emitter, gap))
        indices = emitter.add(indices, skipped)
    if not is_plain:
        joined = taken_within(emitter, joined, axis, indices, shape_of_value(joined)[axis])
    result[axis] = plus(total, known[-1][axis])
    return bounded(emitter, joined, result)


@sized("Gather")
def gather(node: Node, emitter: Emitter) -> Value:
    """Import Gather. Negative indices count from the end of the extent."""
    table, given = emitter.value(0), emitter.value(1)
    extents, at = emitter.table.of(table), emitter.table.of(given)
    axis = node.axis(node.integer("axis", 0), len(extents))
    result = (*extents[:axis], *at, *extents[axis + 1 :])
    if not isinstance(extents[axis], Linear):
        return bounded(emitter, standard(node, emitter, {}), result)
    if at != shape_of_value(given):
        raise refused(emitter, f"with indices '{node.inputs[1]}', of '{node.inputs[0]}'")
    flat = emitter.reshaped(given, (int(np.prod(shape_of_value(given))),))
    wide = emitter.cast(flat, i64)
    below = emitter.compare(Compare.LESS, wide, scalar(emitter, 0))
    end = scalar(emitter, extents[axis])
    indices = emitter.select(below, emitter.add(wide, end), wide)
    taken = taken_along(emitter, table, axis, indices)
    shapes = shape_of_value(table)
    target = (*shapes[:axis], *shape_of_value(given), *shapes[axis + 1 :])
    return bounded(emitter, emitter.reshaped(taken, target), result)
