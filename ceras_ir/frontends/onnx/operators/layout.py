"""Import data movement: reshapes, transposes, concatenation, slices, repetition and padding."""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64

from ceras_ir.dialects.graph import ConcatOp, Pad, PadOp
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import (
    COMPUTED_REMEDY,
    constant_operands,
    operator,
    rule,
)
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.model_file import MAX_TENSOR_ELEMENTS
from ceras_ir.frontends.onnx.model.node import Node, fix_with_set


@rule("Reshape")
def constant_shape(node: Node) -> str | None:
    """the shape must be known at compile time"""
    if node.is_constant(1):
        return None
    if decided := node.deciding_inputs(1):
        return f"it is computed; {fix_with_set(decided)}"
    return (
        "it is computed from data; simplify the model (onnxsim) with fixed input shapes, or "
        f"{COMPUTED_REMEDY}"
    )


@operator("Reshape")
def reshape(node: Node, emitter: Emitter) -> Value:
    """
    Import Reshape. In the shape, 0 copies the extent of the operand unless `allowzero`, and -1 is
    computed from the other extents.
    """
    old, target = emitter.shape(0), list(emitter.integers(1))
    allow_zero = node.flag("allowzero")
    if target.count(-1) > 1 or any(extent < -1 for extent in target):
        raise node.wrong(f"a shape with at most a single -1 expected, got {target}")
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
    """
    Import Flatten: reshape to two dimensions, the product of the extents before `axis` and the
    rest.
    """
    shape, axis = emitter.shape(0), node.integer("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise node.wrong(f"axis must be in [-{len(shape)}, {len(shape)}], got {axis}")
    axis = axis + len(shape) if axis < 0 else axis
    return emitter.reshaped(emitter.value(0), (prod(shape[:axis]), prod(shape[axis:])))


@operator("Squeeze")
def squeeze(node: Node, emitter: Emitter) -> Value:
    """Import Squeeze: remove dimensions of extent 1: all, or only the dimensions `axes`."""
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
    """Import Unsqueeze: insert dimensions of extent 1. `axes` are their indices in the result."""
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
    if node.opset < 13:
        return node.integers("axes")
    return emitter.integers(1) if node.has_input(1) else None


@operator("Transpose")
def transpose(node: Node, emitter: Emitter) -> Value:
    """Import Transpose: permute dimensions by `perm`, by default in reverse order."""
    rank = len(emitter.shape(0))
    order = node.integers("perm")
    order = tuple(reversed(range(rank))) if order is None else order
    if sorted(order) != list(range(rank)):
        raise node.wrong(f"attribute 'perm' must order {rank} dimensions, got {list(order)}")
    return emitter.transposed(emitter.value(0), order)


@operator("Concat")
def concat(node: Node, emitter: Emitter) -> Value:
    """Import Concat. Operands without elements, which exporters write, are omitted."""
    if not node.has_attribute("axis"):
        raise node.wrong("attribute 'axis' is missing")
    values = emitter.operands()
    shapes = [shape_of_value(v) for v in values]
    axis = node.axis(node.integer("axis", 0), len(shapes[0]))
    for shape in shapes:
        if shape[:axis] + shape[axis + 1 :] != shapes[0][:axis] + shapes[0][axis + 1 :]:
            shown = f"{list(shapes[0])} and {list(shape)}"
            raise node.wrong(f"operands of shapes {shown} differ in more than dimension {axis}")
    filled = [v for v, shape in zip(values, shapes, strict=True) if prod(shape)]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        raise node.wrong("all operands are empty")
    return emitter.emit(ConcatOp([emitter.materialize(v) for v in filled], axis))


constant_operands(
    {"Split": (1,), "Tile": (1,), "Expand": (1,)},
    "the selected elements must be known at compile time",
    f"export with fixed shapes, or {COMPUTED_REMEDY}",
)


constant_operands(
    {"Slice": (3, 4), "Pad": (3,)}, "axes and steps must be constants", "make it an initializer"
)
constant_operands(
    {"Pad": [2]}, "the value of the border must be a constant", "make it an initializer"
)


@operator("Slice")
def slice_(node: Node, emitter: Emitter) -> Value:
    """Import Slice, as in Python. The bounds are attributes before opset 10, then operands."""
    shape = emitter.shape(0)
    if node.opset < 10:
        starts, ends = node.bounds("starts") or (), node.bounds("ends") or ()
        axes, steps = node.integers("axes"), None
    else:
        starts, ends = emitter.integers(1), emitter.integers(2)
        axes = emitter.integers(3) if node.has_input(3) else None
        steps = emitter.integers(4) if node.has_input(4) else None
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise node.wrong(
            f"starts, ends, axes and steps must be lists of equal length without a step of 0, got "
            f"{list(starts)}, {list(ends)}, {list(axes)} and {list(steps)}"
        )
    first, sizes, strides = [0] * len(shape), list(shape), [1] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        i = node.axis(axis, len(shape), "axes")
        indices = range(*slice(start, end, step).indices(shape[i]))
        sizes[i] = len(indices)
        first[i], strides[i] = (indices[0], step) if indices else (0, 1)
    strides = [s if n > 1 else 1 for s, n in zip(strides, sizes, strict=True)]
    return emitter.sliced(emitter.value(0), first, sizes, strides)


@operator("Split")
def split(node: Node, emitter: Emitter) -> Sequence[Value]:
    """Import Split: parts of the given sizes, or of equal sizes with a smaller last part."""
    shape = emitter.shape(0)
    axis = node.axis(node.integer("axis", 0), len(shape))
    extent, count = shape[axis], len(node.outputs)
    sizes: Sequence[int] | None = node.integers("split") if node.opset < 13 else None
    if node.opset >= 13 and node.has_input(1):
        sizes = emitter.integers(1)
    if node.integer("num_outputs", count) != count:
        raise node.wrong(f"attribute 'num_outputs' must be {count}, the number of outputs")
    if sizes is None:
        part = -(-extent // count)
        sizes = [min(part, extent - i * part) for i in range(count)]
    if len(sizes) != count or sum(sizes) != extent or any(size < 0 for size in sizes):
        raise node.wrong(f"{count} parts of an extent of {extent} expected, got {list(sizes)}")
    return emitter.split(emitter.value(0), axis, sizes)


@operator("Pad")
def pad(node: Node, emitter: Emitter) -> Value:
    """Import Pad with the modes constant, reflect, edge and wrap. Negative pads crop."""
    shape = emitter.shape(0)
    rank = len(shape)
    mode = node.string("mode", "constant")
    if mode not in set(Pad):
        raise node.wrong(f"attribute 'mode' must be one of {', '.join(Pad)}, got '{mode}'")
    if node.opset >= 11 and node.has_attribute("pads"):
        raise node.malformed(
            f"attribute 'pads' in opset {node.opset}, where pads are an operand; declare opset 10, "
            "with a float attribute 'value'"
        )
    if node.opset < 11:
        pads = node.integers("pads") or node.integers("paddings") or ()
        value = node.bound("value", 0.0)
    else:
        pads = emitter.integers(1)
        array = emitter.array(2) if node.has_input(2) else np.zeros(1)
        if array.size != 1:
            raise node.wrong(f"operand 2 must be a scalar, got shape {list(array.shape)}")
        value = array.reshape(-1).tolist()[0]
    axes = emitter.integers(3) if node.has_input(3) else tuple(range(rank))
    axes = tuple(node.axis(a, rank, "axes") for a in axes)
    if len(pads) != 2 * len(axes) or len(set(axes)) != len(axes):
        raise node.wrong(f"{2 * len(axes)} pads expected, got {list(pads)}")
    low, high = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[i + len(axes)]
    cut = [max(-p, 0) for p in low], [max(-p, 0) for p in high]
    sizes = [n - a - b for n, a, b in zip(shape, *cut, strict=True)]
    if any(n < 1 for n in sizes):
        raise node.unsupported(f"pads {list(pads)} leave no elements of {list(shape)}")
    low, high = [max(p, 0) for p in low], [max(p, 0) for p in high]
    padded = [n + a + b for n, a, b in zip(sizes, low, high, strict=True)]
    if prod(padded) > MAX_TENSOR_ELEMENTS:
        raise node.wrong(f"a result of shape {padded} is too large")
    inner = emitter.materialize(emitter.sliced(emitter.value(0), cut[0], sizes))
    if not any(low) and not any(high):
        return inner
    filler = None
    if node.has_input(2) or value:
        is_float = emitter.is_float(inner)
        filler = FloatAttr(value, f32) if is_float else IntegerAttr(int(value), i64)
    return emitter.emit(PadOp(Pad(mode), inner, low, high, value=filler))


@operator("Tile")
def tile(node: Node, emitter: Emitter) -> Value:
    """Import Tile: repeat the operand along each dimension."""
    shape, repeats = emitter.shape(0), emitter.integers(1)
    if len(repeats) != len(shape) or any(r < 1 for r in repeats):
        raise node.wrong(f"{len(shape)} repeats >= 1 expected, got {list(repeats)}")
    if prod(shape) * prod(repeats) > MAX_TENSOR_ELEMENTS:
        raise node.wrong(f"a result of {prod(shape)} times {prod(repeats)} is too large")
    result = emitter.value(0)
    for axis, (extent, count) in enumerate(zip(shape, repeats, strict=True)):
        if count > 1:
            emitter.check_indices(extent * count)
            result = emitter.gathered(result, axis, [*range(extent)] * count)
    return result


@operator("Expand")
def expand(node: Node, emitter: Emitter) -> Value:
    """Import Expand: broadcast to a shape, as numpy does."""
    shape, target = emitter.shape(0), emitter.integers(1)
    rank = max(len(shape), len(target))
    lifted = (1,) * (rank - len(shape)) + shape
    wanted = (1,) * (rank - len(target)) + tuple(target)
    if any(a != b and 1 not in (a, b) for a, b in zip(lifted, wanted, strict=True)):
        raise node.wrong(f"shape {list(shape)} does not broadcast to {list(target)}")
    full = [max(a, b) for a, b in zip(lifted, wanted, strict=True)]
    if prod(full) > MAX_TENSOR_ELEMENTS:
        raise node.wrong(f"a result of shape {full} is too large")
    return emitter.expanded(emitter.reshaped(emitter.value(0), lifted), full)


@operator("DepthToSpace")
def depth_to_space(node: Node, emitter: Emitter) -> Value:
    """Import DepthToSpace: convert groups of channels to blocks of pixels."""
    (n, c, h, w), block, mode = _blocks(node, emitter)
    if mode not in ("DCR", "CRD") or c % block**2:
        raise node.wrong(f"{c} channels in mode {mode}, expected a multiple of {block**2}")
    depth = c // block**2
    # In NHWC, neighboring channels are contiguous.
    split = (block, block, depth) if mode == "DCR" else (depth, block, block)
    order = (0, 1, 3, 2, 4, 5) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return _regrouped(emitter, (n, h, w, *split), order, (n, h * block, w * block, depth))


@operator("SpaceToDepth")
def space_to_depth(node: Node, emitter: Emitter) -> Value:
    """
    Import SpaceToDepth: convert blocks of pixels to channels. The position in the block is the
    outer index of the channel.
    """
    (n, c, h, w), block, mode = _blocks(node, emitter)
    if mode not in ("DCR", "CRD") or h % block or w % block:
        raise node.wrong(f"{h}x{w} pixels in mode {mode}, expected multiples of {block}")
    shape = (n, h // block, block, w // block, block, c)
    order = (0, 1, 3, 2, 4, 5) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return _regrouped(emitter, shape, order, (n, h // block, w // block, c * block**2))


def _blocks(node: Node, emitter: Emitter) -> tuple[tuple[int, ...], int, str]:
    shape, block = emitter.shape(0), node.integer("blocksize", 0)
    if len(shape) != 4:
        raise node.wrong(f"input of shape {list(shape)}, expected [N, C, H, W]")
    if not 1 <= block < 1 << 15:
        raise node.wrong(f"attribute 'blocksize' must be >= 1, got {block}")
    return shape, block, node.string("mode", "DCR")


def _regrouped(
    emitter: Emitter, split: Sequence[int], order: Sequence[int], merged: Sequence[int]
) -> Value:
    features = emitter.reshaped(emitter.feature_map(emitter.value(0)), split)
    features = emitter.transposed(features, order)
    return emitter.from_feature_map(emitter.reshaped(features, merged), 4)
