"""
Storage of a convolution: the window buffer (slots, banks, phases, addresses) and the weight memory.

1. `hdl/window_buffer.sv` defines the terms of the buffer. A block computes `rows` output rows at
   once, so that as many banks are read in a cycle. An address in a weight is relative to the first
   slot of the current rows; the rotation selects the bank of the first row.
2. Weights are stored dense, or only non-zeros. COO is the encoding of S5: each non-zero with row,
   column and channel, here as the place of the input in the window buffer: address, rotation and
   shift. A delta is the distance to the previous weight by rows, columns and then channels, which
   needs fewer bits. Filters that are computed at once have entries side by side; a filter with
   fewer non-zeros than another ends with zeros.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.str_enum import StrEnum

from ceras_ir.backends.dataflow.blocks import Convolution


def ceiling(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def bits(values: int) -> int:
    """Bits that tell so many values apart, at least one."""
    return max(1, (values - 1).bit_length())


@dataclass(frozen=True, eq=False)
class WindowBuffer:
    """The buffer of a convolution that computes `banks` rows at once."""

    layer: Convolution
    banks: int
    slots: int
    """Those that a group reads, and those that are written meanwhile."""
    parts: int = 1
    """In how many parts columns are computed; each has words of its own."""

    @cached_property
    def reach(self) -> int:
        """Rows below its first that a window has, in strides."""
        w = self.layer.windows
        return (w.kernel[0] - 1) * w.dilations[0] // w.strides[0]

    @property
    def groups(self) -> int:
        """How often a frame's weights are read: once for every `banks` output rows."""
        return ceiling(self.layer.feature.rows, self.banks)

    @property
    def slot_rows(self) -> int:
        """Padded rows of a slot."""
        return self.layer.windows.strides[0] * self.banks

    @property
    def last_rows(self) -> int:
        """Padded rows that all windows of a frame need."""
        w = self.layer.windows
        return w.strides[0] * (self.layer.feature.rows - 1) + (w.kernel[0] - 1) * w.dilations[0] + 1

    @property
    def first_rows(self) -> int:
        """Padded rows that the first group needs."""
        w = self.layer.windows
        rows = w.strides[0] * (self.banks - 1) + (w.kernel[0] - 1) * w.dilations[0] + 1
        return min(self.last_rows, rows)

    @property
    def padded_rows(self) -> int:
        """Rows of a frame that are written, those that no window reads included."""
        return max(self.layer.windows.before[0] + self.layer.input.rows, self.last_rows)

    @property
    def frame_slots(self) -> int:
        return ceiling(self.padded_rows, self.slot_rows)

    @cached_property
    def residues(self) -> tuple[int, ...]:
        """Those of padded columns modulo the stride that windows read."""
        w = self.layer.windows
        steps = range(0, w.kernel[1] * w.dilations[1], w.dilations[1])
        return tuple(sorted({step % w.strides[1] for step in steps}))

    @property
    def phases(self) -> int:
        """Words for each row of a channel."""
        return self.parts * len(self.residues)

    @property
    def part_columns(self) -> int:
        """Columns of the result that are computed at once."""
        return ceiling(self.layer.feature.columns, self.parts)

    @property
    def starts(self) -> list[int]:
        """Which input column is the first that each phase stores."""
        w = self.layer.windows
        return [
            w.strides[1] * (part * self.part_columns + self.columns.start) + residue - w.before[1]
            for part in range(self.parts)
            for residue in self.residues
        ]

    @property
    def most_shift(self) -> int:
        """Columns, in strides, that a window's last is right of its first."""
        w = self.layer.windows
        return (w.kernel[1] - 1) * w.dilations[1] // w.strides[1]

    @cached_property
    def columns(self) -> range:
        """
        Columns of a part, in strides, that are stored: those with an input at any residue, or all
        where there are several parts.
        """
        if self.parts > 1:
            return range(self.part_columns + self.most_shift)
        w, width = self.layer.windows, self.layer.input.columns
        inside = [
            k
            for k in range(self.layer.feature.columns + self.most_shift)
            if any(0 <= w.strides[1] * k + r - w.before[1] < width for r in self.residues)
        ]
        return range(inside[0], inside[-1] + 1) if inside else range(1)

    @property
    def slot_words(self) -> int:
        """Words of a slot in each bank."""
        return self.layer.windows.strides[0] * self.layer.input.channels * self.phases

    @property
    def depth(self) -> int:
        """Words of a bank."""
        return self.slots * self.slot_words

    @property
    def address_bits(self) -> int:
        return bits(self.depth)

    @property
    def rotation_bits(self) -> int:
        return bits(self.banks)

    @property
    def shift_bits(self) -> int:
        return bits(self.most_shift + 1)

    def row_place(self, row: int) -> tuple[int, int, int]:
        """Slot in the frame, bank and address of a padded row, if the frame begins at 0."""
        stride = self.layer.windows.strides[0]
        slot, bank = row // self.slot_rows, row // stride % self.banks
        within = row % stride * self.layer.input.channels * self.phases
        return slot, bank, slot % self.slots * self.slot_words + within

    def tap_row(self, j: int) -> tuple[int, int]:
        """Address and rotation of row `j` of a window."""
        w = self.layer.windows
        strides, within = divmod(j * w.dilations[0], w.strides[0])
        address = strides // self.banks * self.slot_words
        return address + within * self.layer.input.channels * self.phases, strides % self.banks

    def tap_column(self, i: int) -> tuple[int, int]:
        """Phase and shift of column `i` of a window."""
        w = self.layer.windows
        shift, residue = divmod(i * w.dilations[1], w.strides[1])
        return self.residues.index(residue), shift


class WeightEncoding(StrEnum):
    """How the weights of a layer are stored."""

    DENSE = "dense"
    COO = "coo"
    DELTA = "delta"

    @property
    def is_sparse(self) -> bool:
        """Whether zeros are left out, so that filters have indices of their own."""
        return self is not WeightEncoding.DENSE


MOST_STEPS = 1.05
"""Entries for each non-zero, those that only bridge a gap included, from which COO is better."""
FEW_STEPS = 1.01
"""As few that more bits of a delta would not pay."""


def encodings_of(layer: Convolution) -> list[WeightEncoding]:
    """How the weights of a layer may be stored, as far as it pays."""
    found = [WeightEncoding.DENSE]
    if not layer.uniform and int(layer.non_zeros.sum()) < layer.weights.size:
        found.append(WeightEncoding.COO)
        bits = delta_bits(layer)
        if bits and _steps(layer, bits).sum() <= MOST_STEPS * layer.non_zeros.sum():
            found.append(WeightEncoding.DELTA)
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
class WeightMemory:
    """The weight memory of a convolution: `filters` filters at once, read in order."""

    layer: Convolution
    filters: int
    encoding: WeightEncoding

    @property
    def blocks(self) -> int:
        """How many times filters are computed for a group of rows."""
        return ceiling(len(self.layer.weights), self.filters)

    def lengths(self) -> list[int]:
        """Cycles of each block of filters."""
        if self.encoding is WeightEncoding.DENSE:
            return [self.layer.taps] * self.blocks
        counts = self.layer.non_zeros
        if self.encoding is WeightEncoding.DELTA:
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
        if self.encoding is WeightEncoding.DENSE:
            return self.filters * self.layer.weight_bits
        return self.filters * self._entry_bits(buffer) + 1

    def words(self, buffer: WindowBuffer) -> Iterator[int]:
        """The memory's contents."""
        if self.encoding is WeightEncoding.DENSE:
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
        if self.encoding is WeightEncoding.DELTA:
            return delta_bits(self.layer) + self.layer.weight_bits
        place = buffer.address_bits + buffer.rotation_bits + buffer.shift_bits
        return place + self.layer.weight_bits

    def _sparse(self, buffer: WindowBuffer) -> Iterator[int]:
        layer, size = self.layer, self._entry_bits(buffer)
        if self.encoding is WeightEncoding.DELTA:
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
