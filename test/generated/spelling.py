"""Write operators with the attributes or operands that the operator set requires."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from generated.builder import BOOL, INT64, Attributes, Builder, Unfit, Value, elem_type


def clip(b: Builder, x: Value, low: float | None = None, high: float | None = None) -> Value:
    """Clip to bounds; None means no bound."""
    if x.dtype.kind in "iu":
        b.since(12)
    if b.opset < 11:
        bounds: Attributes = {
            k: float(v) for k, v in (("min", low), ("max", high)) if v is not None
        }
        return b.emit("Clip", x, **bounds)
    operands = [None if v is None else b.constant(v, x.dtype) for v in (low, high)]
    while operands and operands[-1] is None:
        operands.pop()
    return b.emit("Clip", x, *operands, shape=x.shape)


def squeeze(b: Builder, x: Value, *axes: int) -> Value:
    gone = {a % x.rank for a in axes}
    shape = [s for i, s in enumerate(x.shape) if i not in gone]
    if b.opset < 13:
        return b.emit("Squeeze", x, shape=shape, axes=sorted(gone))
    return b.emit("Squeeze", x, b.integers(*axes), shape=shape)


def unsqueeze(b: Builder, x: Value, *axes: int) -> Value:
    rank = x.rank + len(axes)
    places, sizes = {a % rank for a in axes}, iter(x.shape)
    shape = [1 if i in places else next(sizes) for i in range(rank)]
    if b.opset < 13:
        return b.emit("Unsqueeze", x, shape=shape, axes=sorted(places))
    return b.emit("Unsqueeze", x, b.integers(*axes), shape=shape)


def reduced(x: Value, axes: Sequence[int], keep: bool) -> list[int]:
    """Return the shape of a reduction."""
    gone = {a % x.rank for a in axes}
    return [1 if i in gone else s for i, s in enumerate(x.shape) if keep or i not in gone]


def reduce(b: Builder, op: str, x: Value, *axes: int, keep: bool = True) -> Value:
    """Reduce along axes; negative axes count from the last axis (operator set 11)."""
    shape = reduced(x, axes, keep)
    if b.opset < 11:
        axes = tuple(a % x.rank for a in axes)
    if b.opset >= (13 if op == "ReduceSum" else 18):
        return b.emit(op, x, b.integers(*axes), shape=shape, keepdims=int(keep))
    return b.emit(op, x, shape=shape, axes=list(axes), keepdims=int(keep))


def arg(b: Builder, op: str, x: Value, axis: int, keep: bool = True) -> Value:
    last: Attributes = {"select_last_index": 1} if b.opset >= 12 and b.chance(0.3) else {}
    place = axis % x.rank
    shape = reduced(x, [axis], keep)
    return b.emit(op, x, shape=shape, dtype=INT64, axis=place, keepdims=int(keep), **last)


def softmax(b: Builder, x: Value, axis: int = -1, op: str = "Softmax") -> Value:
    """Append a softmax along an axis; before operator set 13, transpose unless it is the last."""
    axis %= x.rank
    if b.opset >= 13:
        return b.emit(op, x, axis=axis - (x.rank if b.chance(0.5) else 0))
    if axis == x.rank - 1:
        return b.emit(op, x, axis=axis)
    order = [i for i in range(x.rank) if i != axis] + [axis]
    moved = softmax(b, transpose(b, x, *order), -1, op)
    return transpose(b, moved, *np.argsort(order).tolist())


def transpose(b: Builder, x: Value, *order: int) -> Value:
    return b.emit("Transpose", x, shape=[x.shape[i] for i in order], perm=list(order))


def reshape(b: Builder, x: Value, *shape: int) -> Value:
    """Reshape; the target may have -1 for a single extent."""
    target = list(shape)
    if b.chance(0.3) and 0 not in target:
        target[b.size(0, len(target) - 1)] = -1
    return b.emit("Reshape", x, b.integers(*target), shape=shape)


def slices(
    b: Builder, x: Value, axis: int, start: int, stop: int | None = None, step: int = 1
) -> Value:
    """Slice an axis, with the arguments of a slice in Python."""
    size = x.shape[axis]
    extent = len(range(size)[start : stop if stop is not None else None : step])
    end = (2**31 - 1 if step > 0 else -(2**31) + 1) if stop is None else stop
    shape = [extent if i == axis % x.rank else s for i, s in enumerate(x.shape)]
    if extent == 0:
        raise Unfit("an empty slice")
    if b.opset < 10:
        if step != 1:
            raise Unfit("a step before operator set 10")
        return b.emit("Slice", x, shape=shape, axes=[axis % x.rank], starts=[start], ends=[end])
    operands = [b.integers(v) for v in (start, end, axis)]
    return b.emit("Slice", x, *operands, *([b.integers(step)] if step != 1 else []), shape=shape)


def pad(b: Builder, x: Value, pads: Sequence[int], value: float = 0, mode: str = "") -> Value:
    """Pad the axes: the counts before all axes, then the counts after all axes."""
    shape = [s + pads[i] + pads[i + x.rank] for i, s in enumerate(x.shape)]
    modes: Attributes = {"mode": mode} if mode else {}
    if b.opset < 11:
        rest: Attributes = {} if mode else {"value": float(value)}
        return b.emit("Pad", x, shape=shape, pads=list(pads), **modes, **rest)
    operands = [b.integers(*pads)] + ([] if mode else [b.constant(value, x.dtype)])
    return b.emit("Pad", x, *operands, shape=shape, **modes)


def split(b: Builder, x: Value, axis: int, *sizes: int) -> list[Value]:
    axis %= x.rank
    results = [([s if i == axis else e for i, e in enumerate(x.shape)], None) for s in sizes]
    if b.opset < 13:
        return b.emit_all("Split", [x], results, axis=axis, split=list(sizes))
    if b.opset >= 18 and len(set(sizes)) == 1 and b.chance(0.5):
        return b.emit_all("Split", [x], results, axis=axis, num_outputs=len(sizes))
    return b.emit_all("Split", [x, b.integers(*sizes)], results, axis=axis)


def top_k(b: Builder, x: Value, count: int, axis: int = -1) -> list[Value]:
    """Return the largest or smallest elements, and their indices."""
    axis %= x.rank
    shape = [count if i == axis else s for i, s in enumerate(x.shape)]
    results = [(shape, None), (shape, INT64)]
    if b.opset < 10:
        return b.emit_all("TopK", [x], results, axis=axis, k=count)
    order: Attributes = {"largest": b.pick(0, 1)} if b.opset >= 11 else {}
    return b.emit_all("TopK", [x, b.integers(count)], results, axis=axis, **order)


def cast(b: Builder, x: Value, dtype: npt.DTypeLike) -> Value:
    return b.emit("Cast", x, dtype=dtype, to=elem_type(dtype))


def compare(b: Builder, op: str, x: Value, y: Value) -> Value:
    """Compare, with the types that the operator set supports."""
    is_float = x.dtype.kind == "f"
    if op == "Equal" and is_float:
        b.since(11)
    if op in ("Greater", "Less") and not is_float:
        b.since(9)
    if op.endswith("OrEqual"):
        b.since(12)
    return b.emit(op, x, y, dtype=BOOL)


def where(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Append Where, or sums of products before operator set 9."""
    if b.opset >= 9:
        return b.emit("Where", condition, x, y, dtype=x.dtype)
    taken = cast(b, condition, x.dtype)
    other = cast(b, b.emit("Not", condition), x.dtype)
    return b.emit("Add", b.emit("Mul", taken, x), b.emit("Mul", other, y))


def extremum(b: Builder, op: str, x: Value, y: Value) -> Value:
    """Append Max or Min; before operator set 8, the shapes must be equal."""
    if x.dtype.kind != "f":
        b.since(12)
    if b.opset < 8 and x.shape != y.shape:
        raise Unfit("broadcast before operator set 8")
    return b.emit(op, x, y)


def round_even(b: Builder, x: Value) -> Value:
    b.since(11)
    return b.emit("Round", x)


def linear(b: Builder, x: Value, outputs: int, *, bias: bool = True, gain: float = 1.0) -> Value:
    """Multiply by constant weights, as MatMul and Add, or Gemm for two dimensions."""
    inputs = x.shape[-1]
    matrix = b.weights(inputs, outputs, gain=gain)
    shape = (*x.shape[:-1], outputs)
    if x.rank == 2 and b.chance(0.5):
        offset = b.constant(b.random.normal(0, 0.3, outputs))
        if b.chance(0.5):
            values = b.random.normal(0, gain / np.sqrt(inputs), (outputs, inputs))
            return b.emit("Gemm", x, b.constant(values), offset, shape=shape, transB=1)
        return b.emit("Gemm", x, matrix, offset, shape=shape, alpha=b.pick(1.0, 0.5))
    product = b.emit("MatMul", x, matrix, shape=shape)
    if not bias:
        return product
    operands = [product, b.constant(b.random.normal(0, 0.3, outputs))]
    return b.emit("Add", *(operands if b.chance(0.7) else operands[::-1]))
