"""Operators that move elements: reshapes of every kind, transposition, concatenation."""

from collections.abc import Sequence
from math import prod

from ceras_ir.dialects.graph import ConcatOp
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node, fix_with_set
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.values import Value


@rule("Reshape")
def constant_shape(node: Node) -> str | None:
    """the shape must be known at compile time"""
    if node.is_constant(1):
        return None
    if decided := node.deciding(1):
        return f"it is computed; {fix_with_set(decided)}"
    return (
        "it is computed from data; simplify the model (onnxsim) with fixed input shapes, or "
        f"{fix_with_set(())}"
    )


@operator("Reshape")
def reshape(node: Node, emitter: Emitter) -> Value:
    """0 copies an extent unless `allowzero`, -1 is the quotient of the elements."""
    old, target = emitter.shape(0), list(emitter.integers(1))
    allow_zero = node.flag("allowzero")
    if target.count(-1) > 1 or any(extent < -1 for extent in target):
        raise node.wrong(f"a shape with at most one -1 expected, got {target}")
    for i, extent in enumerate(target):
        if extent == 0 and not allow_zero:
            if i >= len(old):
                raise node.wrong(f"0 at index {i} copies no extent of {list(old)}")
            target[i] = old[i]
    if -1 in target:
        rest = prod(extent for extent in target if extent != -1)
        if not rest or prod(old) % rest:
            raise node.wrong(f"{list(old)} has {prod(old)} elements, expected a multiple of {rest}")
        target[target.index(-1)] = prod(old) // rest
    return emitter.reshaped(emitter.value(0), target)


@operator("Flatten")
def flatten(node: Node, emitter: Emitter) -> Value:
    """Two dimensions: those before `axis` and the rest."""
    shape, axis = emitter.shape(0), node.integer("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise node.wrong(f"axis must be in [-{len(shape)}, {len(shape)}], got {axis}")
    axis = axis + len(shape) if axis < 0 else axis
    return emitter.reshaped(emitter.value(0), (prod(shape[:axis]), prod(shape[axis:])))


@operator("Squeeze")
def squeeze(node: Node, emitter: Emitter) -> Value:
    """Extents of 1 go: those at `axes`, or all."""
    shape, axes = emitter.shape(0), _axes(node, emitter)
    if axes is None:
        return emitter.reshaped(emitter.value(0), [extent for extent in shape if extent != 1])
    dropped = {node.axis(a, len(shape), "axes") for a in axes}
    for axis in sorted(dropped):
        if shape[axis] != 1:
            raise node.wrong(f"dimension {axis} of {list(shape)} has extent {shape[axis]}, not 1")
    kept = [extent for i, extent in enumerate(shape) if i not in dropped]
    return emitter.reshaped(emitter.value(0), kept)


@operator("Unsqueeze")
def unsqueeze(node: Node, emitter: Emitter) -> Value:
    """Extents of 1 come in at `axes` of the result."""
    axes = _axes(node, emitter)
    if axes is None:
        raise node.wrong("axes are missing")
    rank = len(emitter.shape(0)) + len(axes)
    added = {node.axis(a, rank, "axes") for a in axes}
    if len(added) != len(axes):
        raise node.wrong(f"axes must differ, got {list(axes)}")
    extents = iter(emitter.shape(0))
    shape = [1 if i in added else next(extents) for i in range(rank)]
    return emitter.reshaped(emitter.value(0), shape)


def _axes(node: Node, emitter: Emitter) -> Sequence[int] | None:
    """An attribute before opset 13, then an operand."""
    if node.opset < 13:
        return node.integers("axes")
    return emitter.integers(1) if node.has_input(1) else None


@operator("Transpose")
def transpose(node: Node, emitter: Emitter) -> Value:
    """`perm` defaults to the reverse order."""
    rank = len(emitter.shape(0))
    order = node.integers("perm")
    if order is None:
        order = tuple(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise node.wrong(
            f"attribute 'perm' must order {rank} dimensions of {list(emitter.shape(0))}, "
            f"got {list(order)}"
        )
    return emitter.transposed(emitter.value(0), order)


@operator("Concat")
def concat(node: Node, emitter: Emitter) -> Value:
    """Operands without elements, which exporters leave behind, are left out."""
    if not node.has_attribute("axis"):
        raise node.wrong("attribute 'axis' is missing")
    values = [emitter.value(i) for i in range(max(len(node.inputs), 1))]
    shapes = [shape_of_value(v) for v in values]
    axis = node.axis(node.integer("axis", 0), len(shapes[0]))
    for shape in shapes:
        others = [(i, n) for i, n in enumerate(shape) if i != axis]
        if others != [(i, n) for i, n in enumerate(shapes[0]) if i != axis]:
            raise node.wrong(
                f"operands of shapes {list(shapes[0])} and {list(shape)} differ in more "
                f"than dimension {axis}"
            )
    filled = [v for v, shape in zip(values, shapes, strict=True) if prod(shape)]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        raise node.wrong("all operands are empty")
    return emitter.emit(ConcatOp([emitter.materialize(v) for v in filled], axis))
