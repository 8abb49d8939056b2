"""Nested loops over strided operands, with neighbouring dimensions merged where they can be."""

from collections.abc import Callable, Sequence

from ceras_ir.backends.c.layer import Layer
from ceras_ir.dialects.graph import GraphOperation, shape_of


def row_major(shape: Sequence[int]) -> list[int]:
    """Elements between neighbours of each dimension."""
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def broadcast_strides(shape: Sequence[int], result: Sequence[int]) -> list[int]:
    """Strides of an operand of `shape` seen as `result`; 0 where it repeats."""
    padded = (1,) * (len(result) - len(shape)) + tuple(shape)
    strides = row_major(padded)
    return [0 if extent == 1 else s for extent, s in zip(padded, strides, strict=True)]


def merge(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """The fewest dimensions that walk the same elements of every operand in the same order."""
    extents: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    for i, extent in enumerate(shape):
        if extent == 1:
            continue
        if extents and all(m[-1] == s[i] * extent for m, s in zip(merged, strides, strict=True)):
            extents[-1] *= extent
            for m, s in zip(merged, strides, strict=True):
                m[-1] = s[i]
            continue
        extents.append(extent)
        for m, s in zip(merged, strides, strict=True):
            m.append(s[i])
    return (extents, merged) if extents else ([1], [[0] for _ in strides])


def nest(
    layer: Layer,
    shape: Sequence[int],
    strides: Sequence[Sequence[int]],
    body: Callable[[list[str]], list[str]],
) -> None:
    """Loops over `shape`; `body` gets one index expression per operand."""
    extents, merged = merge(shape, strides)
    indices = [
        " + ".join(
            f"i{d}" if stride == 1 else f"i{d} * {stride}"
            for d, stride in enumerate(operand)
            if stride
        )
        or "0"
        for operand in merged
    ]
    with layer.nested("i", extents) as depth:
        layer.block(body(indices), depth)


def broadcast_nest(
    layer: Layer, op: GraphOperation, body: Callable[[list[str]], list[str]]
) -> None:
    """Loops over the result of `op`; `body` gets its index, and one for each operand."""
    shape = shape_of(op.output)
    operands = (broadcast_strides(shape_of(v), shape) for v in op.operands)
    nest(layer, shape, [row_major(shape), *operands], body)
