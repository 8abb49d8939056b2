"""
Constants that list what is not zero: three sections of bits, and how to read them.

A tensor counts as a matrix of filters, its first dimension, by the products of one filter. The
sections are `counts` (stored weights of each filter), `places` and `values`; each is filled up to
whole bytes. What is equal to zero bit by bit need not be stored, so that a negative zero is. Every
encoding decodes to exactly the elements that it was made of.

Encodings that list places: how many weights of each filter are stored, and where each stands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from xdsl.dialects.builtin import (
    BytesAttr,
    Float32Type,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Columns: TypeAlias = NDArray[np.int64]


StoredType: TypeAlias = TensorType[Attribute]

DISTANCE = "delta"
"""What a field of places is called that is a distance from the place before."""


def dtype_of(type: StoredType) -> np.dtype[np.generic]:
    """The numpy type of the elements."""
    import numpy as np

    element = type.element_type
    if isinstance(element, Float32Type):
        return np.dtype(np.float32)
    assert isa(element, IntegerType)
    unsigned = element.signedness.data == Signedness.UNSIGNED
    return np.dtype(f"{'u' if unsigned else ''}int{element.width.data}")


_WHOLE = (8, 16, 32, 64)


def packed_bytes(count: int, width: int) -> int:
    """Bytes that so many numbers take."""
    return -(-count * width // 8)


def pack(numbers: NDArray[np.generic], width: int) -> bytes:
    """The bytes of `numbers`, each below `2**width`."""
    import numpy as np

    flat = numbers.reshape(-1)
    if width in _WHOLE:
        return flat.astype(f"<u{width // 8}").tobytes()
    wide = flat.astype(np.uint64)[:, None]
    bits = (wide >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def unpack(data: bytes, width: int, count: int) -> NDArray[np.uint64]:
    """The first `count` numbers of some bytes, of which there are enough."""
    import numpy as np

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


class Stored(NamedTuple):
    """Which elements of [rows, columns] are stored: ordered by row, then column."""

    rows: Columns
    columns: Columns


def stored(nonzero: NDArray[np.bool_], farthest: int | None = None) -> Stored:
    """What is not zero, and, with a farthest distance, the zeros that bridge longer ones."""
    import numpy as np

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
    import numpy as np

    before = np.concatenate([[0], columns[:-1]])[: columns.size]
    before[np.concatenate([[True], rows[1:] != rows[:-1]])[: rows.size]] = 0
    return columns - before


def summed(rows: Columns, steps: Columns) -> Columns:
    """Columns from distances."""
    import numpy as np

    total = np.cumsum(steps)
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]])[: rows.size])
    base = np.zeros(rows.size, np.int64)
    if starts.size:
        lengths = np.diff(np.concatenate([starts, [rows.size]]))
        base = np.repeat(total[starts] - steps[starts], lengths)
    return total - base


class Encoded(ParametrizedAttribute, ABC):
    """The elements of a constant tensor, without most of those that are zero."""

    type: StoredType
    counts: BytesAttr
    places: BytesAttr
    values: BytesAttr

    @property
    @abstractmethod
    def spelling(self) -> str:
        """The encoding with its widths, as reports print it."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.get_shape()

    @property
    def matrix(self) -> tuple[int, int]:
        """Filters, and products of each."""
        return self.shape[0], prod(self.shape[1:])

    @property
    def nbytes(self) -> int:
        """Bytes of memory, without alignment."""
        return sum(len(section.data) for section in (self.counts, self.places, self.values))

    @property
    def stored(self) -> NDArray[np.bool_]:
        """Which elements are stored, zeros among them."""
        import numpy as np

        result = np.zeros(self.matrix, np.bool_)
        rows, columns = self.elements
        result[rows, columns] = True
        return result.reshape(self.shape)

    @property
    def array(self) -> NDArray[np.generic]:
        """All elements, read-only."""
        return _decoded(self)

    @property
    @abstractmethod
    def elements(self) -> Stored:
        """The stored elements, in the order of `values`."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return dtype_of(self.type)

    @property
    def elements_of_values(self) -> NDArray[np.generic]:
        """The values as numbers."""
        import numpy as np

        return np.frombuffer(self.values.data, self.dtype)

    def verify(self) -> None:
        element = self.type.element_type
        is_integer = isa(element, IntegerType) and element.width.data in (8, 16, 32)
        if not is_integer and not isinstance(element, Float32Type):
            raise VerifyException(f"elements must be f32, i8, i16 or i32, got {element}")
        if not self.shape or any(extent < 1 for extent in self.shape):
            raise VerifyException(f"static, non-empty shape expected, got {self.type}")
        if len(self.values.data) % self.dtype.itemsize:
            raise VerifyException(f"values of {len(self.values.data)} bytes are no {element}")
        self.verify_places()

    @abstractmethod
    def verify_places(self) -> None:
        """Counts and places against the shape and each other."""

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
        """What stands in front of the sections."""

    @abstractmethod
    def print_widths(self, printer: Printer) -> None:
        """The same, written."""


@lru_cache(maxsize=16)
def _decoded(constant: Encoded) -> NDArray[np.generic]:
    """Kept for a while, because passes ask again and again."""
    import numpy as np

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
    """Which elements of [filters, ...] are not zero bit by bit, as a matrix."""
    import numpy as np

    flat = np.ascontiguousarray(array).reshape(array.shape[0], -1)
    return flat.view(f"u{array.dtype.itemsize}") != 0


def stored_type(array: NDArray[np.generic], element: Attribute) -> StoredType:
    """The type of an encoded constant."""
    return TensorType(element, array.shape)


def parse_width(parser: AttrParser, name: str) -> int:
    parser.parse_keyword(name)
    return parser.parse_integer(allow_negative=False)


class Listed(Encoded, ABC):
    """An encoding by filters: how many weights of each are stored, and where each stands."""

    def _counts(self, filters: int, width: int) -> NDArray[np.int64]:
        import numpy as np

        if width == 0:
            items = len(self.values.data) // (self.dtype.itemsize * self.unit)
            return np.full(filters, items // filters, np.int64)
        return unpack(self.counts.data, width, filters).astype(np.int64)

    def _verify_lists(self, counts_width: int, place_width: int) -> None:
        if not 0 <= counts_width <= 32 or not 0 <= place_width <= 32:
            raise VerifyException("widths must be in [0, 32]")
        items = len(self.values.data) // (self.dtype.itemsize * self.unit)
        rows, columns = self.grid
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
                raise VerifyException(f"bits behind the last of {name} must be zero")
        counts = self._counts(rows, counts_width)
        if int(counts.sum()) != items:
            raise VerifyException(f"counts add up to {int(counts.sum())}, but {items} are stored")
        places = self.listed
        if items and (int(places.columns.max()) >= columns or int(places.columns.min()) < 0):
            raise VerifyException(f"a place is beyond the {columns} of a filter")
        import numpy as np

        same = places.rows[1:] == places.rows[:-1]
        if (np.diff(places.columns)[same] <= 0).any():
            raise VerifyException("places of a filter must ascend")

    @property
    def unit(self) -> int:
        """Elements that stand in each place."""
        return 1

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of what places count."""
        return self.matrix

    @property
    @abstractmethod
    def listed(self) -> Stored:
        """Rows and columns of the grid, as listed."""

    @property
    def elements(self) -> Stored:
        return self.listed

    def _listed(self, counts_width: int, place_width: int, *, is_distance: bool) -> Stored:
        import numpy as np

        rows, _ = self.grid
        items = len(self.values.data) // (self.dtype.itemsize * self.unit)
        index = np.repeat(np.arange(rows), self._counts(rows, counts_width))[:items]
        places = unpack(self.places.data, place_width, items).astype(np.int64)[: index.size]
        return Stored(index, summed(index, places) if is_distance else places)


def sections(
    places: Stored, filters: int, numbers: NDArray[np.generic], width: int, *, whole: bool
) -> tuple[BytesAttr, BytesAttr, int]:
    """The sections of counts and places, and the width of counts; of whole bytes if asked for."""
    import numpy as np

    counts = np.bincount(places.rows, minlength=filters)
    largest = int(counts.max(initial=0))
    bits = width_of(largest)
    if whole:
        bits = 8 if largest < 1 << 8 else 16 if largest < 1 << 16 else 32
    elif (counts == largest).all():
        bits = 0
    packed = pack(counts, bits) if bits else b""
    return BytesAttr(packed), BytesAttr(pack(numbers, width)), bits
