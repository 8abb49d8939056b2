"""
How the weights of a convolution are stored: all of them, or those that are not zero as COO.

COO is S5's: every non-zero with its row, column and channel. Here these are where its input is in
the window buffer: an address, a rotation and a shift. Filters that are computed at once have
entries side by side; one with fewer non-zeros than another ends with zeros.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.utils.str_enum import StrEnum

from ceras_ir.backends.dataflow.blocks import Convolution
from ceras_ir.backends.dataflow.window import WindowBuffer, ceiling


class Encoding(StrEnum):
    """How the weights of a layer are stored."""

    DENSE = "dense"
    COO = "coo"


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
        counts = np.maximum(self.layer.non_zeros, 1)
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
        return self.filters * _entry_bits(buffer) + 1

    def words(self, buffer: WindowBuffer) -> Iterator[int]:
        """The memory's contents."""
        if self.encoding is Encoding.DENSE:
            yield from self._dense()
        else:
            yield from self._coo(buffer)

    def _dense(self) -> Iterator[int]:
        # Channels last is the order of the counters.
        rows = self.layer.weights.reshape(len(self.layer.weights), -1)
        size = self.layer.weight_bits
        for start in range(0, len(rows), self.filters):
            for column in rows[start : start + self.filters].T:
                yield _packed([int(w) & (1 << size) - 1 for w in column], size)

    def _coo(self, buffer: WindowBuffer) -> Iterator[int]:
        size, entries = (
            _entry_bits(buffer),
            [_entries(self.layer, buffer, f) for f in range(len(self.layer.weights))],
        )
        for start, length in zip(range(0, len(entries), self.filters), self.lengths(), strict=True):
            block = entries[start : start + self.filters]
            for n in range(length):
                word = _packed([e[n] if n < len(e) else 0 for e in block], size)
                yield word | (n == length - 1) << size * self.filters


def _packed(values: list[int], size: int) -> int:
    """Values side by side, the first in the lowest bits."""
    return sum(value << size * n for n, value in enumerate(values))


def _entry_bits(buffer: WindowBuffer) -> int:
    return buffer.address_bits + buffer.rotation_bits + buffer.shift_bits + buffer.layer.weight_bits


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
