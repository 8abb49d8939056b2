"""
Encode constants without most zeros as sections of bits, and convert them to and from arrays.

A tensor is treated as a matrix: filters (the first dimension) by the products of a filter. The
sections are `counts` (stored weights of each filter), `places` (positions) and `values`, each
padded to bytes. Only elements of zero bits may be omitted, so a negative zero is stored. Decoding
returns exactly the encoded elements.

Positions in a row are columns or distances. A distance is the number of columns from the previous
weight of the row; the first counts from column 0. If a distance does not fit the width, zeros are
stored in between. Integers of any width are concatenated, the lowest bit of a byte first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BytesAttr,
    Float32Type,
    IntAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from ceras_ir.dialects.quant import stored_dtype

Columns: TypeAlias = NDArray[np.int64]
StoredType: TypeAlias = TensorType[Attribute]

DISTANCE = "delta"
"""The keyword of distances in `places`."""


_BYTE_WIDTHS = (8, 16, 32, 64)


def packed_bytes(count: int, width: int) -> int:
    """Return the number of bytes of `count` integers of `width` bits, stored without gaps."""
    return -(-count * width // 8)


def pack(numbers: NDArray[np.generic], width: int) -> bytes:
    """Store integers below `2**width` without gaps in bytes, the lowest bit first."""
    flat = numbers.reshape(-1)
    if width in _BYTE_WIDTHS:
        return flat.astype(f"<u{width // 8}").tobytes()
    wide = flat.astype(np.uint64)[:, None]
    bits = (wide >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def unpack(data: bytes, width: int, count: int) -> NDArray[np.uint64]:
    """Return the first `count` integers of `width` bits that `pack` stored in `data`."""
    if width == 0:
        return np.zeros(count, np.uint64)
    if width in _BYTE_WIDTHS:
        return np.frombuffer(data, f"<u{width // 8}", count).astype(np.uint64)
    raw = np.frombuffer(data, np.uint8, packed_bytes(count, width))
    bits = np.unpackbits(raw, count=count * width, bitorder="little").reshape(count, width)
    return bits.astype(np.uint64) @ (np.uint64(1) << np.arange(width, dtype=np.uint64))


class Stored(NamedTuple):
    """The row and the column of each stored element of a matrix, ordered by row, then column."""

    rows: Columns
    columns: Columns


def stored(nonzero: NDArray[np.bool_], farthest: int | None = None) -> Stored:
    """
    Return the positions of the nonzero elements of a matrix. If `farthest` is given, positions of
    zeros are added, so that no distance between stored elements of a row exceeds it.
    """
    rows, columns = np.nonzero(nonzero)
    if farthest is None or not rows.size:
        return Stored(rows, columns)
    fill = np.maximum(distances(rows, columns) - 1, 0) // farthest
    total = np.cumsum(fill + 1)
    index = np.repeat(np.arange(rows.size), fill + 1)
    # The distance of each entry to its weight, in entries and then in columns.
    order = np.arange(index.size)
    back: Columns = (total[index] - 1 - order) * farthest
    start = columns[index] - distances(rows, columns)[index]
    ahead = np.minimum(start + (fill[index] + 1) * farthest - back, columns[index])
    return Stored(rows[index], ahead)


def distances(rows: Columns, columns: Columns) -> Columns:
    """
    Return the number of columns from the previous stored element of the row to each stored element;
    for the first of a row, from column 0.
    """
    before = np.concatenate([[0], columns[:-1]])[: columns.size]
    before[np.concatenate([[True], rows[1:] != rows[:-1]])[: rows.size]] = 0
    return columns - before


def summed(rows: Columns, steps: Columns) -> Columns:
    """
    Return the column of each stored element. `steps` are the distances from the previous stored
    element of the row, or from column 0; `rows` are the rows of the elements.
    """
    total = np.cumsum(steps)
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]])[: rows.size])
    base = np.zeros(rows.size, np.int64)
    if starts.size:
        lengths = np.diff(np.concatenate([starts, [rows.size]]))
        base = np.repeat(total[starts] - steps[starts], lengths)
    return total - base


@dataclass(frozen=True, init=False)
class Encoded(ParametrizedAttribute, ABC):
    """Base class of encodings of a constant tensor that omit most zeros."""

    type: StoredType
    counts: BytesAttr
    places: BytesAttr
    values: BytesAttr

    @property
    @abstractmethod
    def spelling(self) -> str:
        """The name of the encoding in reports, such as `csr_delta8`."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.get_shape()

    @property
    def matrix(self) -> tuple[int, int]:
        """The number of filters (first axis), and the number of weights in each filter."""
        return self.shape[0], prod(self.shape[1:])

    @property
    def nbytes(self) -> int:
        """The size of the encoded constant in bytes, without alignment."""
        return sum(len(section.data) for section in (self.counts, self.places, self.values))

    @property
    def stored(self) -> NDArray[np.bool_]:
        """
        A mask in the shape of the tensor: true for each element that is stored. Some stored
        elements can be zero.
        """
        result = np.zeros(self.matrix, np.bool_)
        rows, columns = self.elements
        result[rows, columns] = True
        return result.reshape(self.shape)

    @property
    def array(self) -> NDArray[np.generic]:
        """The decoded array with all elements, read-only."""
        return _decoded(self)

    @property
    @abstractmethod
    def elements(self) -> Stored:
        """The row and the column of each stored element, in the order of `values`."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return stored_dtype(self.type.element_type)

    @property
    def elements_of_values(self) -> NDArray[np.generic]:
        """The values of the stored elements."""
        return np.frombuffer(self.values.data, self.dtype)

    def verify(self) -> None:
        element = self.type.element_type
        is_integer = isa(element, IntegerType) and element.width.data in (8, 16, 32)
        if not is_integer and not isinstance(element, Float32Type):
            raise VerifyException(f"elements must be f32, i8, i16 or i32, got {element}")
        if not self.shape or any(extent < 1 for extent in self.shape):
            raise VerifyException(f"static, non-empty shape expected, got {self.type}")
        if len(self.values.data) % self.dtype.itemsize:
            raise VerifyException(
                f"{len(self.values.data)} bytes of values are not a multiple of {element}"
            )
        self.verify_positions()

    @abstractmethod
    def verify_positions(self) -> None:
        """
        Raise a `VerifyException` if counts and positions do not match the shape or each other.
        """

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            widths = cls.parse_widths(parser)
            sections: list[Attribute] = []
            for name in ("counts", "places", "values"):
                parser.parse_keyword(name)
                sections.append(parse_bytes(parser))
                parser.parse_punctuation("," if name != "values" else ":")
            kind = parser.parse_type()
            if not isa(kind, StoredType):
                parser.raise_error("tensor type expected")
            return [kind, *sections, *widths]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self.print_widths(printer)
            for name in ("counts", "places", "values"):
                section = getattr(self, name).data
                end = ", " if name != "values" else " : "
                printer.print_string(f'{name} "0x{section.hex().upper()}"{end}')
            printer.print_attribute(self.type)

    @classmethod
    @abstractmethod
    def parse_widths(cls, parser: AttrParser) -> Sequence[Attribute]:
        """
        Parse the parameters of the encoding, such as widths in bits, that precede the sections of
        bytes.
        """

    @abstractmethod
    def print_widths(self, printer: Printer) -> None:
        """
        Print the parameters of the encoding, such as widths in bits, that precede the sections of
        bytes.
        """


# Passes decode the same constants repeatedly.
@lru_cache(maxsize=16)
def _decoded(constant: Encoded) -> NDArray[np.generic]:
    result = np.zeros(constant.matrix, constant.dtype)
    rows, columns = constant.elements
    result[rows, columns] = constant.elements_of_values
    result.flags.writeable = False
    return result.reshape(constant.shape)


def parse_bytes(parser: AttrParser) -> BytesAttr:
    text = parser.parse_str_literal()
    try:
        return BytesAttr(bytes.fromhex(text.removeprefix("0x")))
    except ValueError:
        parser.raise_error(f"bytes expected as '0x' and pairs of hexadecimal digits, got '{text}'")


def nonzero_bits(array: NDArray[np.generic]) -> NDArray[np.bool_]:
    """
    Return a matrix [filters, weights of a filter] that is true for each element with any bit set. A
    negative zero has a bit set, so it is stored.
    """
    flat = np.ascontiguousarray(array).reshape(array.shape[0], -1)
    return flat.view(f"u{array.dtype.itemsize}") != 0


def parse_width(parser: AttrParser, name: str) -> int:
    parser.parse_keyword(name)
    return parser.parse_integer(allow_negative=False)


@dataclass(frozen=True, init=False)
class Listed(Encoded, ABC):
    """
    Base class of encodings that list the number of stored weights of each filter, and the position
    of each weight (or block of weights).
    """

    counts_width: IntAttr
    delta: IntAttr
    """The width of distances between positions, or 0 for absolute positions."""

    @property
    def filter_counts(self) -> NDArray[np.int64]:
        """
        The number of stored elements or blocks in each row of the matrix (a filter or, with blocks,
        a group of filters).
        """
        filters, width = self.grid[0], self.counts_width.data
        if width == 0:
            return np.full(filters, self._items // filters, np.int64)
        return unpack(self.counts.data, width, filters).astype(np.int64)

    @property
    def _items(self) -> int:
        return len(self.values.data) // (self.dtype.itemsize * self.unit)

    def _verify_lists(self) -> None:
        counts_width, place_width = self.counts_width.data, self.place_width
        if not 0 <= counts_width <= 32 or not 0 <= place_width <= 32:
            raise VerifyException("widths must be in [0, 32]")
        items, (rows, columns) = self._items, self.grid
        for name, section, size, width in (
            ("counts", self.counts.data, rows, counts_width),
            ("places", self.places.data, items, place_width),
        ):
            if len(section) != packed_bytes(size, width):
                raise VerifyException(
                    f"{size} {name} of {width} bits take {packed_bytes(size, width)} bytes, "
                    f"got {len(section)}"
                )
            spare = len(section) * 8 - size * width
            if spare and section[-1] >> 8 - spare:
                raise VerifyException(f"bits after the last of {name} must be zero")
        if (total := int(self.filter_counts.sum())) != items:
            raise VerifyException(f"counts add up to {total}, but {items} values are stored")
        places = self.listed
        if items and (int(places.columns.max()) >= columns or int(places.columns.min()) < 0):
            raise VerifyException(f"a place must be below {columns}, the size of a filter")
        same = places.rows[1:] == places.rows[:-1]
        if (np.diff(places.columns)[same] <= 0).any():
            raise VerifyException("places of a filter must be ascending")

    @property
    def unit(self) -> int:
        """The number of elements that share a stored position: the size of a block, or 1."""
        return 1

    @property
    def grid(self) -> tuple[int, int]:
        """
        The number of rows and columns of the matrix in which positions are counted: elements, or
        blocks of elements.
        """
        return self.matrix

    @property
    def place_width(self) -> int:
        """The number of bits in which a position is stored."""
        return self.delta.data

    @property
    def listed(self) -> Stored:
        """The row and column of each stored element or block, counted in elements or blocks."""
        index = np.repeat(np.arange(self.grid[0]), self.filter_counts)[: self._items]
        places = unpack(self.places.data, self.place_width, self._items).astype(np.int64)
        places = places[: index.size]
        return Stored(index, summed(index, places) if self.delta.data else places)

    @property
    def elements(self) -> Stored:
        return self.listed


def sections(
    stored: Stored, filters: int, places: NDArray[np.generic], width: int, *, in_bytes: bool
) -> tuple[BytesAttr, BytesAttr, int]:
    """
    Return three parts of an encoding: the counts of stored elements of each of `filters` filters,
    the `places` (positions) packed in `width` bits each, and the number of bits of a count.

    With `in_bytes`, a count has 8, 16 or 32 bits. Otherwise it has as few bits as possible: 0 if
    all counts are equal.
    """
    counts = np.bincount(stored.rows, minlength=filters)
    largest = int(counts.max(initial=0))
    bits = largest.bit_length()
    if in_bytes:
        bits = 8 if largest < 1 << 8 else 16 if largest < 1 << 16 else 32
    elif (counts == largest).all():
        bits = 0
    packed = pack(counts, bits) if bits else b""
    return BytesAttr(packed), BytesAttr(pack(places, width)), bits
