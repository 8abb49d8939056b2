"""
How the weights of a convolution are stored: all of them, or those that are not zero.

COO is S5's: every non-zero with its row, column and channel. Here these are where its input is in
the window buffer: an address, a rotation and a shift. Deltas say how many weights each is behind
the last, by rows, columns and then channels, which takes fewer bits. Filters that are computed at
once have entries side by side; one with fewer non-zeros than another ends with zeros.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.str_enum import StrEnum

from ceras_ir.backends.dataflow.blocks import Convolution
from ceras_ir.backends.dataflow.window import WindowBuffer, ceiling


class Encoding(StrEnum):
    """How the weights of a layer are stored."""

    DENSE = "dense"
    COO = "coo"
    DELTA = "delta"

    @property
    def is_sparse(self) -> bool:
        """Whether zeros are left out, so that filters have indices of their own."""
        return self is not Encoding.DENSE


MOST_STEPS = 1.05
"""Entries for each non-zero, those that only bridge a gap included, from which COO is better."""
FEW_STEPS = 1.01
"""As few that more bits of a delta would not pay."""


def encodings_of(layer: Convolution) -> list[Encoding]:
    """How the weights of a layer may be stored, as far as it pays."""
    found = [Encoding.DENSE]
    if not layer.uniform and int(layer.non_zeros.sum()) < layer.weights.size:
        found.append(Encoding.COO)
        bits = delta_bits(layer)
        if bits and _steps(layer, bits).sum() <= MOST_STEPS * layer.non_zeros.sum():
            found.append(Encoding.DELTA)
    return found


@lru_cache(maxsize=64)
def delta_bits(layer: Convolution) -> int:
    """
    Bits of a delta, 0 where there is none. It passes the end of a tap at most once, and filters
    read all channels.
    """
    if layer.groups > 1 or layer.uniform:
        return 0
    sizes = [bits for bits in range(1, 13) if 1 << bits <= layer.weights.shape[3]]
    most = FEW_STEPS * layer.non_zeros.sum()
    few = (bits for bits in sizes if _steps(layer, bits).sum() <= most)
    return next(few, sizes[-1] if sizes else 0)


@lru_cache(maxsize=64)
def _steps(layer: Convolution, bits: int) -> NDArray[np.int64]:
    """Entries of each filter: a non-zero, and what bridges the gap before it."""
    flat, most = layer.weights.reshape(len(layer.weights), -1), (1 << bits) - 1
    filters, places = np.nonzero(flat)
    # The first of a filter is counted from its first weight.
    gaps = np.diff(places, prepend=0)
    begins = np.diff(filters, prepend=-1) > 0
    gaps[begins] = places[begins]
    entries = np.maximum(1, -(-gaps // most))
    return np.bincount(filters, entries, len(flat)).astype(np.int64)


def _deltas(weights: NDArray[np.int64], bits: int) -> list[tuple[int, int]]:
    """The entries of a filter: how far behind the last, and the weight; one that is 0 bridges."""
    most, at, found = (1 << bits) - 1, 0, list[tuple[int, int]]()
    flat = weights.reshape(-1)
    for place in np.flatnonzero(flat).tolist():
        while place - at > most:
            found.append((most, 0))
            at += most
        found.append((place - at, int(flat[place])))
        at = place
    return found


@dataclass(frozen=True, eq=False)
class StoredWeights:
    """The weight memory of a convolution: `filters` filters at once, read in order."""

    layer: Convolution
    filters: int
    encoding: Encoding

    @property
    def blocks(self) -> int:
        """How many times filters are computed for a group of rows."""
        return ceiling(len(self.layer.weights), self.filters)

    def lengths(self) -> list[int]:
        """Cycles of each block of filters."""
        if self.encoding is Encoding.DENSE:
            return [self.layer.taps] * self.blocks
        counts = self.layer.non_zeros
        if self.encoding is Encoding.DELTA:
            counts = _steps(self.layer, delta_bits(self.layer))
        counts = np.maximum(counts, 1)
        return [
            int(counts[i : i + self.filters].max()) for i in range(0, len(counts), self.filters)
        ]

    @property
    def entries(self) -> int:
        """Words of the memory."""
        return sum(self.lengths())

    def width(self, buffer: WindowBuffer) -> int:
        """Bits of a word."""
        if self.encoding is Encoding.DENSE:
            return self.filters * self.layer.weight_bits
        return self.filters * self._entry_bits(buffer) + 1

    def words(self, buffer: WindowBuffer) -> Iterator[int]:
        """The memory's contents."""
        if self.encoding is Encoding.DENSE:
            yield from self._dense()
        else:
            yield from self._sparse(buffer)

    def _dense(self) -> Iterator[int]:
        # Channels last is the order of the counters.
        rows = self.layer.weights.reshape(len(self.layer.weights), -1)
        size = self.layer.weight_bits
        for start in range(0, len(rows), self.filters):
            for column in rows[start : start + self.filters].T:
                yield _packed([int(w) & (1 << size) - 1 for w in column], size)

    def _entry_bits(self, buffer: WindowBuffer) -> int:
        if self.encoding is Encoding.DELTA:
            return delta_bits(self.layer) + self.layer.weight_bits
        place = buffer.address_bits + buffer.rotation_bits + buffer.shift_bits
        return place + self.layer.weight_bits

    def _sparse(self, buffer: WindowBuffer) -> Iterator[int]:
        layer, size = self.layer, self._entry_bits(buffer)
        if self.encoding is Encoding.DELTA:
            bits, mask = layer.weight_bits, (1 << layer.weight_bits) - 1
            all_deltas = (_deltas(f, delta_bits(layer)) for f in layer.weights)
            entries = [[delta << bits | weight & mask for delta, weight in f] for f in all_deltas]
        else:
            entries = [_entries(layer, buffer, f) for f in range(len(layer.weights))]
        for start, length in zip(range(0, len(entries), self.filters), self.lengths(), strict=True):
            block = entries[start : start + self.filters]
            for n in range(length):
                word = _packed([e[n] if n < len(e) else 0 for e in block], size)
                yield word | (n == length - 1) << size * self.filters


def _packed(values: list[int], size: int) -> int:
    """Values side by side, the first in the lowest bits."""
    return sum(value << size * n for n, value in enumerate(values))


def _entries(layer: Convolution, buffer: WindowBuffer, number: int) -> list[int]:
    """The non-zeros of one filter."""
    weights, found = layer.weights[number], list[int]()
    per_group = len(layer.weights) // layer.groups
    base = number // per_group * weights.shape[2]
    for j, i, c in np.argwhere(weights).tolist():
        (address, rotation), (phase, shift) = buffer.tap_row(j), buffer.tap_column(i)
        entry = address + (base + c) * buffer.phases + phase
        entry = entry << buffer.rotation_bits | rotation
        entry = entry << buffer.shift_bits | shift
        weight = int(weights[j, i, c]) & (1 << layer.weight_bits) - 1
        found.append(entry << layer.weight_bits | weight)
    return found
