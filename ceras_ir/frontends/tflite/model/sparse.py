"""Decode sparse constants: pruned weights whose nonzero elements or blocks are listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.frontends.tflite.model.flatbuffer import Table, damaged

DENSE, LISTED = 0, 1
INDEX_TYPES = {1: "<i4", 2: "<u2", 3: "u1"}
"""The types of index vectors by their number in the union."""


@dataclass(frozen=True)
class _Level:
    """
    A dimension of a sparse constant, in the order of storage. A dense dimension has an `extent`; of
    a sparse one, the file lists the `indices` that are stored, in `segments` for each index of the
    dimension before.
    """

    extent: int
    segments: NDArray[np.int64] | None
    indices: NDArray[np.int64] | None


def dense_array(
    table: Table, values: NDArray[np.generic], shape: Sequence[int], name: str
) -> NDArray[np.generic]:
    """
    Return all elements of the sparse constant `name`; elements that are not stored are 0. `values`
    are the stored elements, and `table` has their indices. Raise an `InputError` if these are
    inconsistent.
    """
    order, blocks = table.integers(0), table.integers(1)
    levels = [_level(each) for each in table.entries(2)]
    rank = len(shape)
    if sorted(order) != list(range(len(levels))) or len(levels) != rank + len(blocks):
        raise damaged(f"the sparse tensor '{name}' has a wrong order of dimensions")
    if any(not 0 <= b < rank for b in blocks):
        raise damaged(f"the sparse tensor '{name}' has wrong blocks")
    places = _coordinates(levels, values.size, name)
    sizes = {rank + i: levels[order.index(rank + i)].extent for i in range(len(blocks))}
    result = np.zeros(shape, values.dtype)
    target = [np.zeros(len(places), np.int64) for _ in range(rank)]
    for level, dimension in enumerate(order):
        if dimension < rank:
            scale = prod(sizes[rank + i] for i, b in enumerate(blocks) if b == dimension)
            target[dimension] += places[:, level] * scale
        else:
            target[blocks[dimension - rank]] += places[:, level]
    for axis, extent in zip(target, shape, strict=True):
        if axis.size and not 0 <= axis.min() <= axis.max() < extent:
            raise damaged(f"the sparse tensor '{name}' has an index out of range")
    result[tuple(target)] = values
    return result


def _level(table: Table) -> _Level:
    kind = table.integer(0, "b")
    if kind == DENSE:
        return _Level(table.integer(1, "i"), None, None)
    if kind != LISTED:
        raise damaged(f"a sparse dimension of kind {kind}")
    return _Level(0, _indices(table, 2), _indices(table, 4))


def _indices(table: Table, field: int) -> NDArray[np.int64]:
    dtype, inner = INDEX_TYPES.get(table.integer(field, "B")), table.table(field + 1)
    if dtype is None or inner is None:
        raise damaged("a sparse dimension without indices")
    found = inner.vector(0, dtype)
    inner.buffer.spend(found.size)
    return found.astype(np.int64)


def _coordinates(levels: Sequence[_Level], count: int, name: str) -> NDArray[np.int64]:
    """
    Return the index of each of the `count` stored elements in each dimension (level):
    [count, levels].
    """
    places = np.zeros((1, 0), np.int64)
    for level in levels:
        if level.segments is None or level.indices is None:
            if not level.extent >= 1 or len(places) * level.extent > max(count, 1):
                raise damaged(f"the sparse tensor '{name}' has more places than values")
            repeated = np.repeat(places, level.extent, axis=0)
            column = np.tile(np.arange(level.extent), len(places))
        else:
            starts, ends = level.segments[:-1], level.segments[1:]
            lengths = ends - starts
            is_valid = len(level.segments) == len(places) + 1 and level.segments[0] == 0
            if not is_valid or lengths.min(initial=0) < 0 or ends[-1] != len(level.indices):
                raise damaged(f"the sparse tensor '{name}' has wrong segments")
            repeated, column = np.repeat(places, lengths, axis=0), level.indices
        places = np.concatenate([repeated, column[:, None]], axis=1)
    if len(places) != count:
        raise damaged(f"the sparse tensor '{name}' has {count} values for {len(places)} places")
    return places
