"""
Give results with extents that data decide a shape: the one that the user states with `--shape`.

`0..640` is the maximum of an extent that data decide; a number is an extent that is always equal. A
result is cut to the stated shape. If it has fewer elements than a stated number, zeros follow. A
node without a statement is refused; the import continues with a possible maximum, so that all such
nodes are reported together.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Binary, Compare, ReshapeOp
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.extents import Extent, Linear, minus
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.extents.scalars import maximum_of, minimum, range_of, scalar
from ceras_ir.frontends.onnx.model.node import STATE_MAXIMUM, fix_with_set
from ceras_ir.frontends.onnx.operators.indexing import taken_along
from ceras_ir.network.lengths import UpTo

SET_REMEDY = "export with fixed sizes"


def stated_shape(
    emitter: Emitter,
    extents: Sequence[Extent],
    fallback: Sequence[int],
    deciding: Sequence[int],
) -> tuple[int, ...]:
    """
    Return the shape of the first result of the current node, which has `extents`. An `UpTo` in it
    is the maximum of an extent; an extent with an integer has this extent always. `deciding` are
    the operands that decide the extents and are computed. If there are any, or if an extent has no
    bound, the user must state the shape. `fallback` has a possible maximum for each extent without
    a bound.
    """
    node, name = emitter.node, emitter.node.outputs[0]
    proposal = tuple(_proposed(emitter, *pair) for pair in zip(extents, fallback, strict=True))
    if 0 in extents:
        raise node.unsupported("a result without elements, whatever the data; remove its consumers")
    if not any(isinstance(extent, Linear) for extent in extents):
        return proposal
    given = emitter.table.stated.get(name)
    if given is None:
        if deciding or any(maximum_of(emitter, extent) is None for extent in extents):
            _require(emitter, proposal, deciding)
        return proposal
    emitter.table.confirmed.add(name)
    fits = len(given) == len(extents) and all(
        isinstance(extent, Linear) or (extent == n and not isinstance(n, UpTo))
        for extent, n in zip(extents, given, strict=True)
    )
    if not fits or min(given) < 1:
        raise node.unsupported(
            f"--shape {name}={_text(given)} does not fit the shape of '{name}'; state for example "
            f"--shape {name}={_text(proposal)}"
        )
    # A maximum is no larger than what the operands permit.
    return tuple(
        n
        if not isinstance(n, UpTo) or (most := maximum_of(emitter, extent)) is None or n <= most
        else UpTo(max(most, 1))
        for extent, n in zip(extents, given, strict=True)
    )


def _proposed(emitter: Emitter, extent: Extent, fallback: int) -> int:
    if not isinstance(extent, Linear):
        return extent
    most = maximum_of(emitter, extent)
    return UpTo(max(fallback if most is None else most, 1))


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _require(emitter: Emitter, proposal: Sequence[int], deciding: Sequence[int]) -> None:
    node, name = emitter.node, emitter.node.outputs[0]
    decided = node.deciding_inputs(*deciding)
    names = list(dict.fromkeys(f"'{node.inputs[i]}'" for i in deciding))
    listed = " and ".join(names)
    verb = "decide" if names[1:] else "decides"
    reason = f"{listed} {verb} it" if listed else f"so does that of '{node.inputs[0]}'"
    emitter.assumed.append(
        node.refusal(
            f"the shape of '{name}' depends on data: {reason}; {STATE_MAXIMUM}, "
            f"for example with --shape {name}={_text(proposal)} (a number n instead of 0..n for an "
            f"extent that is always n), or {fix_with_set(decided) if decided else SET_REMEDY}"
        )
    )


def along(emitter: Emitter, count: int) -> Value:
    """Return the indices [count] of an axis."""
    return emitter.constant(np.arange(count, dtype=np.int64), "indices")


def on_axis(emitter: Emitter, vector: Value, axis: int, rank: int) -> Value:
    """Return `vector` [n] as a tensor with n elements along `axis` and 1 along the others."""
    count = shape_of_value(vector)[0]
    return emitter.reshaped(vector, [count if i == axis else 1 for i in range(rank)])


def inside(emitter: Emitter, shape: Sequence[int], extents: Sequence[Extent]) -> Value | None:
    """
    Return whether each element of a value of `shape` is within `extents`, as booleans that
    broadcast to the shape; `None` if all are.
    """
    condition: Value | None = None
    for axis, (count, extent) in enumerate(zip(shape, extents, strict=True)):
        if range_of(emitter, extent)[0] >= count:
            continue
        below = emitter.compare(Compare.LESS, along(emitter, count), scalar(emitter, extent))
        condition = both(emitter, condition, on_axis(emitter, below, axis, len(shape)))
    return condition


def both(emitter: Emitter, a: Value | None, b: Value) -> Value:
    """Return the conjunction of booleans; `b` without `a`."""
    return b if a is None else emitter.binary(Binary.AND, a, b)


def filled(
    emitter: Emitter,
    value: Value,
    extents: Sequence[Extent],
    number: float,
    axes: Sequence[int] | None = None,
) -> Value:
    """
    Return `value` with `number` in place of all elements outside of `extents`, along `axes` or all
    axes.
    """
    shape = shape_of_value(value)
    chosen = [e if axes is None or i in axes else shape[i] for i, e in enumerate(extents)]
    condition = inside(emitter, shape, chosen)
    if condition is None:
        return value
    return emitter.select(condition, value, emitter.number(number, value))


def taken_within(
    emitter: Emitter, value: Value, axis: int, indices: Value, extent: Extent
) -> Value:
    """
    Return the elements of `value` at `indices` [n] along `axis`, which has `extent`. Indices out of
    range are clamped.
    """
    at = emitter.binary(Binary.MIN, indices, scalar(emitter, minus(extent, 1)))
    at = emitter.binary(Binary.MAX, at, scalar(emitter, 0))
    return taken_along(emitter, value, axis, at)


def resized(emitter: Emitter, value: Value, axis: int, count: int) -> Value:
    """Return `value` with `count` elements along `axis`: cut, or followed by zeros."""
    shape = shape_of_value(value)
    if count <= shape[axis]:
        return emitter.part(value, axis, 0, count)
    more = [count - shape[axis] if i == axis else 0 for i in range(len(shape))]
    return emitter.padded(value, [0] * len(shape), more)


def finished(
    emitter: Emitter, value: Value, extents: Sequence[Extent], shape: Sequence[int]
) -> Value:
    """
    Return the result `value` of the current node, which has the stated `shape` in the IR and
    `extents` before it is cut. Zeros follow where an extent is stated as a number.
    """
    exact = [i for i, n in enumerate(shape) if not isinstance(n, UpTo)]
    value = filled(emitter, value, extents, 0.0, exact)
    kept = [
        minimum(emitter, e, int(n)) if isinstance(n, UpTo) else n
        for e, n in zip(extents, shape, strict=True)
    ]
    result = bounded(emitter, value, kept)
    if tuple(kept) != tuple(extents) and isinstance(result, SSAValue):
        emitter.table.cut.add(result)
    return result


def bounded(emitter: Emitter, value: Value, extents: Sequence[Extent]) -> Value:
    """Return `value` with `extents`: a copy if the value exists with other extents."""
    shape = shape_of_value(value)
    extents = tuple(extents)
    if extents == shape:
        return value
    result = emitter.materialize(value)
    known = emitter.table.extents.get(result)
    if known == extents:
        return result
    operands = [emitter.values.get(name) for name in emitter.node.inputs]
    if known is not None or not isinstance(value, SSAValue) or result in operands:
        result = emitter.emit(ReshapeOp(result, shape))
    emitter.table.extents[result] = extents
    return result
