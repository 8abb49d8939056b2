"""
Describe the storage of a convolution: the window buffer and the weight memory.

1. A block that computes several output rows in parallel has a bank of memory for each row. A slot
   stores the input rows by which two adjacent groups of these output rows differ.
   `hdl/window_buffer.sv` describes slots, phases and addresses.
2. Weights are stored dense, or only nonzero weights. COO is the encoding of paper S5 (see
   `docs/papers.md`): each nonzero weight with row, column and channel. They are stored as the
   position of the input in the window buffer: the address relative to the first slot of the
   current rows, the rotation (it selects the bank of the first row), and the shift (the distance
   to the first column of the window, in strides). Delta encoding needs fewer bits: it stores the
   distance to the previous nonzero weight, in the order of rows, columns and channels. A word has
   an entry for each filter that is computed in parallel. Filters with fewer nonzero weights are
   padded with zeros.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.str_enum import StrEnum

from ceras_ir.backends.dataflow.blocks import Convolution


def ceiling(a: int, b: int) -> int:
    """Return a / b, rounded up."""
    return -(-a // b)


def bits(values: int) -> int:
    """
    Return the number of bits that can represent `values` different values: `bits(5)` is 3; at least
    1.
    """
    return max(1, (values - 1).bit_length())


@dataclass(frozen=True, eq=False)
class WindowBuffer:
    """
    The on-chip memory for the input rows of a convolution while it computes `banks` output rows in
    parallel.
    """

    layer: Convolution
    banks: int
    slots: int
    """
    The number of slots. A slot stores the input rows by which two groups of output rows differ;
    further rows are written to the remaining slots while a group is computed.
    """
    parts: int = 1
    """
    The number of parts of the columns, which are computed in sequence. Each part has separate
    words.
    """

    @property
    def groups(self) -> int:
        """
        The number of groups of `banks` output rows in a frame, computed in sequence. Each group
        reads all weights.
        """
        return ceiling(self.layer.feature.rows, self.banks)

    @property
    def slot_rows(self) -> int:
        """The number of input rows that a slot stores; rows of padding count."""
        return self.layer.windows.strides[0] * self.banks

    @property
    def last_rows(self) -> int:
        """The number of input rows that the windows of a frame span; rows of padding count."""
        w = self.layer.windows
        return w.strides[0] * (self.layer.feature.rows - 1) + w.reach[0] + 1

    @property
    def first_rows(self) -> int:
        """
        The number of input rows that the first group of output rows needs; rows of padding count.
        """
        w = self.layer.windows
        return min(self.last_rows, w.strides[0] * (self.banks - 1) + w.reach[0] + 1)

    def needed_rows(self, group: int) -> int:
        """
        Return the number of input rows that must be complete before the group with index `group` of
        output rows can be computed; rows of padding count.
        """
        return min(self.last_rows, self.first_rows + group * self.slot_rows)

    @property
    def padded_rows(self) -> int:
        """
        The number of input rows of a frame; rows of padding and rows that no window reads count.
        """
        return max(self.layer.windows.before[0] + self.layer.input.rows, self.last_rows)

    @property
    def frame_slots(self) -> int:
        return ceiling(self.padded_rows, self.slot_rows)

    @cached_property
    def residues(self) -> tuple[int, ...]:
        """
        The remainders of the columns that windows read, divided by the stride. With stride 2, a
        window of width 1 reads only even columns: (0,); a wider window reads all: (0, 1). Columns
        of padding count.
        """
        w = self.layer.windows
        steps = range(0, w.kernel[1] * w.dilations[1], w.dilations[1])
        return tuple(sorted({step % w.strides[1] for step in steps}))

    @property
    def phases(self) -> int:
        """
        The number of words in which the buffer stores a row of a channel: one for each part of the
        columns and each element of `residues`.
        """
        return self.parts * len(self.residues)

    @property
    def part_columns(self) -> int:
        """The number of output columns of a part; they are computed in parallel."""
        return ceiling(self.layer.feature.columns, self.parts)

    @property
    def starts(self) -> list[int]:
        """
        The input column of the first element in each of the words that store a row of a channel;
        negative in the padding on the left.
        """
        w = self.layer.windows
        return [
            w.strides[1] * (part * self.part_columns + self.columns.start) + residue - w.before[1]
            for part in range(self.parts)
            for residue in self.residues
        ]

    @property
    def max_shift(self) -> int:
        """
        The distance in input columns between the first and the last column of a window, divided by
        the stride and rounded down.
        """
        w = self.layer.windows
        return w.reach[1] // w.strides[1]

    @cached_property
    def columns(self) -> range:
        """
        The columns that a word stores, in multiples of the stride, relative to the first column of
        a part. With several parts, all columns are stored; otherwise, columns without any input are
        omitted.
        """
        if self.parts > 1:
            return range(self.part_columns + self.max_shift)
        w, width = self.layer.windows, self.layer.input.columns
        inside = [
            k
            for k in range(self.layer.feature.columns + self.max_shift)
            if any(0 <= w.strides[1] * k + r - w.before[1] < width for r in self.residues)
        ]
        return range(inside[0], inside[-1] + 1) if inside else range(1)

    @property
    def slot_words(self) -> int:
        """The number of words of a bank that belong to a slot."""
        return self.layer.windows.strides[0] * self.layer.input.channels * self.phases

    @property
    def depth(self) -> int:
        """The number of words of a bank."""
        return self.slots * self.slot_words

    @property
    def address_bits(self) -> int:
        return bits(self.depth)

    @property
    def rotation_bits(self) -> int:
        return bits(self.banks)

    @property
    def shift_bits(self) -> int:
        return bits(self.max_shift + 1)

    def row_position(self, row: int) -> tuple[int, int, int]:
        """
        Return the slot, the bank and the address in the bank of an input row. `row` and the slot
        are counted from the first row of padding of a frame.
        """
        stride = self.layer.windows.strides[0]
        slot, bank = row // self.slot_rows, row // stride % self.banks
        within = row % stride * self.layer.input.channels * self.phases
        return slot, bank, slot % self.slots * self.slot_words + within

    def tap_row(self, j: int) -> tuple[int, int]:
        """
        Return the address and the rotation of row `j` of a window, relative to the first row. The
        rotation is the number of banks by which the row is moved.
        """
        w = self.layer.windows
        strides, within = divmod(j * w.dilations[0], w.strides[0])
        address = strides // self.banks * self.slot_words
        return address + within * self.layer.input.channels * self.phases, strides % self.banks

    def tap_column(self, i: int) -> tuple[int, int]:
        """
        Return the location of column `i` of a window: the word of a row (the phase), and the shift
        in this word, which is the distance to the first column in multiples of the stride.
        """
        w = self.layer.windows
        shift, residue = divmod(i * w.dilations[1], w.strides[1])
        return self.residues.index(residue), shift


class WeightEncoding(StrEnum):
    """The forms in which a weight memory can store the weights of a layer: dense, COO or delta."""

    DENSE = "dense"
    COO = "coo"
    DELTA = "delta"

    @property
    def is_sparse(self) -> bool:
        """Whether zeros are omitted, so that parallel filters read different inputs."""
        return self is not WeightEncoding.DENSE


MAX_DELTA_ENTRIES = 1.05
"""The number of stored entries per nonzero weight up to which delta encoding is better than COO."""
GOOD_DELTA_ENTRIES = 1.01
"""
The number of stored entries per nonzero weight below which a wider delta is not worth its bits.
"""


def encodings_of(layer: Convolution) -> list[WeightEncoding]:
    """
    Return the encodings of weights that are worth a trial for a layer: sparse encodings only if
    there are zero weights, and delta only if the zeros that it must store are few.
    """
    found = [WeightEncoding.DENSE]
    if not layer.uniform and int(layer.non_zeros.sum()) < layer.weights.size:
        found.append(WeightEncoding.COO)
        bits = delta_bits(layer)
        if bits and _entry_counts(layer, bits).sum() <= MAX_DELTA_ENTRIES * layer.non_zeros.sum():
            found.append(WeightEncoding.DELTA)
    return found


@lru_cache(maxsize=64)
def delta_bits(layer: Convolution) -> int:
    """
    Return the bits of a delta, the distance to the previous nonzero weight; 0 if the layer cannot
    use delta encoding. A delta is smaller than the number of channels, so it passes the end of at
    most a single tap. Filters must read all channels.
    """
    if layer.groups > 1 or layer.uniform:
        return 0
    sizes = [bits for bits in range(1, 13) if 1 << bits <= layer.weights.shape[3]]
    limit = GOOD_DELTA_ENTRIES * layer.non_zeros.sum()
    good = (bits for bits in sizes if _entry_counts(layer, bits).sum() <= limit)
    return next(good, sizes[-1] if sizes else 0)


@lru_cache(maxsize=64)
def _entry_counts(layer: Convolution, bits: int) -> NDArray[np.int64]:
    # Per filter: the nonzero weights, and the zero weights that bridge longer gaps.
    flat, max_delta = layer.weights.reshape(len(layer.weights), -1), (1 << bits) - 1
    filters, positions = np.nonzero(flat)
    # The first delta of a filter is relative to the first weight.
    gaps = np.diff(positions, prepend=0)
    is_first = np.diff(filters, prepend=-1) > 0
    gaps[is_first] = positions[is_first]
    entries = np.maximum(1, -(-gaps // max_delta))
    return np.bincount(filters, entries, len(flat)).astype(np.int64)


def _deltas(weights: NDArray[np.int64], bits: int) -> list[tuple[int, int]]:
    # Pairs of delta and weight. A weight of 0 bridges a longer gap.
    max_delta, at, found = (1 << bits) - 1, 0, list[tuple[int, int]]()
    flat = weights.reshape(-1)
    for position in np.flatnonzero(flat).tolist():
        while position - at > max_delta:
            found.append((max_delta, 0))
            at += max_delta
        found.append((position - at, int(flat[position])))
        at = position
    return found


@dataclass(frozen=True, eq=False)
class WeightMemory:
    """
    The memory with the weights of a convolution that computes `filters` filters in parallel. A word
    has an entry for each of these filters.
    """

    layer: Convolution
    filters: int
    encoding: WeightEncoding

    @property
    def blocks(self) -> int:
        """The number of blocks of `filters` filters, which are computed one after the other."""
        return ceiling(len(self.layer.weights), self.filters)

    def lengths(self) -> list[int]:
        """
        Return the number of words of each block of filters. A word is used per cycle, so this is
        also the number of cycles for an output of each filter of the block.
        """
        if self.encoding is WeightEncoding.DENSE:
            return [self.layer.taps] * self.blocks
        counts = self.layer.non_zeros
        if self.encoding is WeightEncoding.DELTA:
            counts = _entry_counts(self.layer, delta_bits(self.layer))
        counts = np.maximum(counts, 1)
        return [
            int(counts[i : i + self.filters].max()) for i in range(0, len(counts), self.filters)
        ]

    @property
    def entries(self) -> int:
        """The number of words of the weight memory."""
        return sum(self.lengths())

    def width(self, buffer: WindowBuffer) -> int:
        """
        Return the number of bits of a word. `buffer` determines the bits of a position in COO
        encoding.
        """
        if self.encoding is WeightEncoding.DENSE:
            return self.filters * self.layer.weight_bits
        return self.filters * self._entry_bits(buffer) + 1

    def words(self, buffer: WindowBuffer) -> Iterator[int]:
        """
        Yield the words of the weight memory as unsigned integers. `buffer` is the window buffer to
        which the positions of sparse weights refer.
        """
        return self._dense() if self.encoding is WeightEncoding.DENSE else self._sparse(buffer)

    def _dense(self) -> Iterator[int]:
        # The counters of the circuit run in the order of channels-last weights.
        rows = self.layer.weights.reshape(len(self.layer.weights), -1)
        size = self.layer.weight_bits
        for start in range(0, len(rows), self.filters):
            for column in rows[start : start + self.filters].T:
                yield _packed([int(w) & (1 << size) - 1 for w in column], size)

    def _entry_bits(self, buffer: WindowBuffer) -> int:
        if self.encoding is WeightEncoding.DELTA:
            return delta_bits(self.layer) + self.layer.weight_bits
        position_bits = buffer.address_bits + buffer.rotation_bits + buffer.shift_bits
        return position_bits + self.layer.weight_bits

    def _sparse(self, buffer: WindowBuffer) -> Iterator[int]:
        layer, size = self.layer, self._entry_bits(buffer)
        if self.encoding is WeightEncoding.DELTA:
            bits, mask = layer.weight_bits, (1 << layer.weight_bits) - 1
            all_deltas = (_deltas(f, delta_bits(layer)) for f in layer.weights)
            entries = [[delta << bits | weight & mask for delta, weight in f] for f in all_deltas]
        else:
            entries = [_coo_entries(layer, buffer, f) for f in range(len(layer.weights))]
        for start, length in zip(range(0, len(entries), self.filters), self.lengths(), strict=True):
            block = entries[start : start + self.filters]
            for n in range(length):
                word = _packed([e[n] if n < len(e) else 0 for e in block], size)
                yield word | (n == length - 1) << size * self.filters


def _packed(values: list[int], size: int) -> int:
    # The first value has the least significant bits.
    return sum(value << size * n for n, value in enumerate(values))


def _coo_entries(layer: Convolution, buffer: WindowBuffer, number: int) -> list[int]:
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
