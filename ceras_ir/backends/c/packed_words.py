"""
Pack weights of 1 to 7 bits in words, in an order that shifts and masks expand.

A field is a weight plus half the range, so it is unsigned. It consists of planes of 4, 2 and 1
bits: 7 bits need all three, 5 bits need 4 and 1. A word of a plane has fields of all four bytes,
for the next words of the result: a shift and a mask extract them. Weights of 1 bit are -1 and 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.quant import BYTE_BITS

WORD_BYTES = 4

VECTOR_WORDS = 16
"""The adjacent words with equal shifts on processors with vectors: the words of 512 bits."""

BYTES = 0x01010101
"""The lowest bit of each byte of a word."""


@dataclass(frozen=True)
class Format:
    """The order of the bits of weights of `bits` bits in words of 32 bits."""

    bits: int
    lanes: int
    """The number of adjacent words that are expanded with the same shifts."""

    @property
    def planes(self) -> list[int]:
        """The bits of each plane, the lowest bits of a weight first."""
        return [plane for plane in (4, 2, 1) if self.bits & plane]

    @property
    def half(self) -> int:
        """The distance of fields from weights: a weight is `field * 2**up - half`."""
        return 1 << (self.bits - 1)

    @property
    def up(self) -> int:
        """The left shift of fields: 1 for the weights -1 and 1, otherwise 0."""
        return int(self.bits == 1)

    @property
    def words(self) -> int:
        """The number of words that a lane of a unit expands to."""
        return BYTE_BITS // min(self.planes)

    @property
    def unit(self) -> int:
        """The number of weights that are expanded together."""
        return self.words * self.lanes * WORD_BYTES

    @property
    def packed_words(self) -> int:
        """The number of stored words of a lane of a unit."""
        return self.words * self.bits // BYTE_BITS

    def padded(self, count: int) -> int:
        """Return the number of weights, rounded up to complete units."""
        return -(-count // self.unit) * self.unit

    def pack(self, panels: NDArray[np.int8]) -> NDArray[np.uint32]:
        """Pack panels of weights, [panels, weights], as [panels, words]."""
        count, size = panels.shape
        fields = np.full((count, self.padded(size)), self.half >> self.up, np.uint8)
        fields[:, :size] = panels.astype(np.int16) + self.half >> self.up
        words = fields.view("<u4").reshape(count, -1, self.words, self.lanes)
        stored: list[NDArray[np.uint32]] = []
        low = 0
        for plane in self.planes:
            part = (words >> low) & (BYTES * ((1 << plane) - 1))
            each = BYTE_BITS // plane
            split = part.reshape(*part.shape[:2], -1, each, self.lanes)
            shifts = (np.arange(each, dtype=np.uint32) * plane)[:, None]
            stored.append(np.bitwise_or.reduce(split << shifts, axis=3))
            low += plane
        return np.concatenate(stored, axis=2).reshape(count, -1).astype("<u4")

    def fields(self, word: int, mask: int, ahead: int = 0, first: int = 0) -> str:
        """
        Return the C expression of the fields of result word `word`, shifted left by `up`, from the
        stored words `p0`, `p1`, ... The number of the first of them is `first`. `mask` selects the
        lowest bit of each field, after a further shift by `ahead`.
        """
        terms: list[str] = []
        low, start = self.up, first
        for plane in self.planes:
            each = BYTE_BITS // plane
            at, shift = start + word // each, word % each * plane + ahead
            moved = f"(p{at} >> {shift})" if shift else f"p{at}"
            term = f"({moved} & 0x{mask * ((1 << plane) - 1):08x}u)"
            terms.append(f"({term} << {low})" if low else term)
            start += self.words * plane // BYTE_BITS
            low += plane
        return " | ".join(terms) if len(terms) == 1 else f"({' | '.join(terms)})"
