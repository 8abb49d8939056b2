"""
Numbers of any width side by side, the lowest bit of a byte first, filled up with zeros.

Where the weights that are not zero stand in their rows: as columns, or as distances.

A distance is how many columns a weight stands after the one before it in its row, the first after
column 0. Where it would exceed what the width holds, zeros are stored in between.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.uint64]

_WHOLE = (8, 16, 32, 64)


def packed_bytes(count: int, width: int) -> int:
    """Bytes that so many numbers take."""
    return -(-count * width // 8)


def pack(numbers: NDArray[np.generic], width: int) -> bytes:
    """The bytes of `numbers`, each below `2**width`."""
    flat = numbers.reshape(-1)
    if width in _WHOLE:
        return flat.astype(f"<u{width // 8}").tobytes()
    wide = flat.astype(np.uint64)[:, None]
    bits = (wide >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def unpack(data: bytes, width: int, count: int) -> Numbers:
    """The first `count` numbers of some bytes, of which there are enough."""
    if width == 0:
        return np.zeros(count, np.uint64)
    if width in _WHOLE:
        return np.frombuffer(data, f"<u{width // 8}", count).astype(np.uint64)
    raw = np.frombuffer(data, np.uint8, packed_bytes(count, width))
    bits = np.unpackbits(raw, count=count * width, bitorder="little").reshape(count, width)
    return bits.astype(np.uint64) @ (np.uint64(1) << np.arange(width, dtype=np.uint64))


def width_of(largest: int) -> int:
    """Bits of numbers up to `largest`; none for zero alone."""
    return int(largest).bit_length()


Columns = NDArray[np.int64]


class Stored(NamedTuple):
    """Which elements of [rows, columns] are stored: ordered by row, then column."""

    rows: Columns
    columns: Columns


def stored(nonzero: NDArray[np.bool_], farthest: int | None = None) -> Stored:
    """What is not zero, and, with a farthest distance, the zeros that bridge longer ones."""
    rows, columns = np.nonzero(nonzero)
    if farthest is None or not rows.size:
        return Stored(rows, columns)
    fill = np.maximum(distances(rows, columns) - 1, 0) // farthest
    total = np.cumsum(fill + 1)
    index = np.repeat(np.arange(rows.size), fill + 1)
    # How many places before its weight each entry stands, and that in columns.
    order = np.arange(index.size)
    back: Columns = (total[index] - 1 - order) * farthest
    start = columns[index] - distances(rows, columns)[index]
    ahead = np.minimum(start + (fill[index] + 1) * farthest - back, columns[index])
    return Stored(rows[index], ahead)


def distances(rows: Columns, columns: Columns) -> Columns:
    """Of each stored element from the one before it in its row, or from column 0."""
    before = np.concatenate([[0], columns[:-1]])[: columns.size]
    before[np.concatenate([[True], rows[1:] != rows[:-1]])[: rows.size]] = 0
    return columns - before


def summed(rows: Columns, steps: Columns) -> Columns:
    """Columns from distances."""
    total = np.cumsum(steps)
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]])[: rows.size])
    base = np.zeros(rows.size, np.int64)
    if starts.size:
        lengths = np.diff(np.concatenate([starts, [rows.size]]))
        base = np.repeat(total[starts] - steps[starts], lengths)
    return total - base
