"""
Describe the weight memory of a convolution.

Weights are stored dense, or only nonzero weights. COO is the encoding of paper S5 (see
`docs/papers.md`): each nonzero weight with row, column and channel. They are stored as the position
of the input in the window buffer: the address relative to the first slot of the current rows, the
rotation (it selects the bank of the first row), and the shift (the distance to the first column of
the window, in strides). Delta encoding needs fewer bits: it stores the distance to the previous
nonzero weight, in the order of rows, columns and channels. A word has an entry for each filter that
is computed in parallel. Filters with fewer nonzero weights are padded with zeros.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.str_enum import StrEnum

from ceras_ir.backends.dataflow.blocks import Convolution
from ceras_ir.backends.dataflow.storage import WindowBuffer, ceiling


class WeightEncoding(StrEnum):
    """
    The forms in which a weight memory can store the weights of a layer. `by_row` has all weights,
    in the order of the rows of the window: a row of all filters, then the next row. A layer can
    then start when the first row exists, and stores a sum per filter.
    """

    DENSE = "dense"
    BY_ROW = "by_row"
    COO = "coo"
    DELTA = "delta"

    @property
    def is_sparse(self) -> bool:
        """Whether zeros are omitted, so that parallel filters read different inputs."""
        return self in (WeightEncoding.COO, WeightEncoding.DELTA)


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
    terms: int = 1
    """The weights of a filter in a word, for adjacent channels; 1 if zeros are omitted."""

    @property
    def blocks(self) -> int:
        """The number of blocks of `filters` filters, which are computed one after the other."""
        return ceiling(len(self.layer.weights), self.filters)

    def lengths(self) -> list[int]:
        """
        Return the number of words of each block of filters. A word is used per cycle, so this is
        also the number of cycles for an output of each filter of the block.
        """
        if not self.encoding.is_sparse:
            return [self.layer.taps // self.terms] * self.blocks
        counts = self.layer.non_zeros
        if self.encoding is WeightEncoding.DELTA:
            counts = _entry_counts(self.layer, delta_bits(self.layer))
        counts = np.maximum(counts, 1)
        return [
            int(counts[i : i + self.filters].max()) for i in range(0, len(counts), self.filters)
        ]

    @property
    def is_bipolar(self) -> bool:
        """Whether a weight is stored as a sign bit: 0 is 1, and 1 is -1."""
        # Sparse filters of different lengths are padded with zeros.
        return self.layer.is_bipolar and not self.encoding.is_sparse

    @property
    def weight_bits(self) -> int:
        """The bits of a stored weight."""
        return 1 if self.is_bipolar else self.layer.weight_bits

    @property
    def entries(self) -> int:
        """The number of words of the weight memory."""
        return sum(self.lengths())

    def width(self, buffer: WindowBuffer) -> int:
        """
        Return the number of bits of a word. `buffer` determines the bits of a position in COO
        encoding.
        """
        if not self.encoding.is_sparse:
            return self.filters * self.terms * self.weight_bits
        return self.filters * self._entry_bits(buffer) + 1

    def words(self, buffer: WindowBuffer) -> Iterator[int]:
        """
        Yield the words of the weight memory as unsigned integers. `buffer` is the window buffer to
        which the positions of sparse weights refer.
        """
        return self._sparse(buffer) if self.encoding.is_sparse else self._dense()

    def _dense(self) -> Iterator[int]:
        # The counters of the circuit run in the order of channels-last weights.
        by_row = self.encoding is WeightEncoding.BY_ROW
        turns = self.layer.weights.shape[1] if by_row else 1
        rows = self.layer.weights.reshape(len(self.layer.weights), turns, -1, self.terms)
        size, sign = self.weight_bits, int(self.is_bipolar)
        for turn in range(turns):
            for start in range(0, len(rows), self.filters):
                for word in rows[start : start + self.filters, turn].swapaxes(0, 1):
                    # The second lowest bit of -1 and 1 is the sign.
                    yield _packed([int(w) >> sign & (1 << size) - 1 for w in word.flat], size)

    def carries(self) -> NDArray[np.int64]:
        """Return the carries of each filter that a sum of several products omits."""
        # The bit is set in -1 and not in 1, too.
        return (self.layer.weights >> 1 & 1).sum(axis=(1, 2, 3)) * (self.terms > 1)

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
