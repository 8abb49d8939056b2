"""
Read a flatbuffer. Each offset and length is checked before it is used.

A file can be hostile: offsets may point anywhere, and many fields may share a table. Each read is
inside the file, and the entries that are read in total are limited by the size of the file, so that
shared vectors do not multiply the work. Errors are `InputError`s.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from ceras_ir.support.diagnostics import InputError

_FORMATS = {name: Struct(f"<{name}") for name in "bBhHiIqQf?"}

READS_PER_BYTE = 8
"""Entries that may be read per byte of a file; files of converters need less than one."""


def damaged(what: str) -> InputError:
    """Return the error for a file that contradicts the format; `what` is the finding."""
    return InputError(f"not a TensorFlow Lite model, or a damaged one: {what}; export it again")


class Flatbuffer:
    """
    The bytes of a flatbuffer file. The number of entries that may still be read is limited, so that
    a file with overlapping vectors does not cause much work.
    """

    def __init__(self, data: bytes):
        self.data = data
        self._left = READS_PER_BYTE * len(data) + 1024

    def spend(self, entries: int) -> None:
        """
        Count `entries` that are read. Raise an `InputError` if they exceed the limit, which the
        size of the file determines.
        """
        self._left -= entries
        if self._left < 0:
            raise damaged("its vectors overlap")

    def number(self, kind: str, at: int) -> int | float:
        """
        Return the number at byte `at`; `kind` is the format as in the module `struct`, such as "I".
        Raise an `InputError` if it is outside of the file.
        """
        form = _FORMATS[kind]
        if not 0 <= at <= len(self.data) - form.size:
            raise damaged(f"an offset leads to byte {at} of {len(self.data)}")
        return form.unpack_from(self.data, at)[0]

    def integer(self, kind: str, at: int) -> int:
        return int(self.number(kind, at))

    def root(self) -> Table:
        """Return the root table, to which the offset at byte 0 leads."""
        return self.table(0)

    def target(self, at: int) -> int:
        """Return the position to which the offset stored at byte `at` leads."""
        return at + self.integer("I", at)

    def table(self, at: int) -> Table:
        """Return the table to which the offset stored at byte `at` leads."""
        return Table.read(self, self.target(at))

    def span(self, at: int, size: int) -> tuple[int, int]:
        """
        Return the position and the number of elements of the vector to which the offset stored at
        byte `at` leads. An element has `size` bytes. Raise an `InputError` if it is longer than the
        file.
        """
        start = self.target(at)
        length = self.integer("I", start)
        if length * size > len(self.data) - start - 4:
            raise damaged(f"a vector of {length} elements at byte {start} is longer than the file")
        return start + 4, length


@dataclass(frozen=True)
class Table:
    """A table of a flatbuffer, with fields by number. A field that the file omits has a default."""

    buffer: Flatbuffer
    position: int
    size: int
    fields: tuple[int, ...]
    """The offset of each field in the table; 0 if omitted."""

    @classmethod
    def read(cls, buffer: Flatbuffer, position: int) -> Table:
        index = position - buffer.integer("i", position)
        length, size = (buffer.integer("H", index + 2 * i) for i in range(2))
        if length < 4 or length % 2 or size < 4 or position + size > len(buffer.data):
            raise damaged(f"the table at byte {position} has no valid index")
        count = length // 2 - 2
        buffer.spend(count + 1)
        buffer.integer("H", index + length - 2)  # The entire index is in the file.
        offsets = Struct(f"<{count}H").unpack_from(buffer.data, index + 4)
        return cls(buffer, position, size, offsets)

    @classmethod
    def empty(cls) -> Table:
        """Return a table in which all fields have their defaults."""
        return cls(Flatbuffer(b""), 0, 0, ())

    def _place(self, field: int, size: int) -> int | None:
        offset = self.fields[field] if field < len(self.fields) else 0
        if not offset:
            return None
        if offset + size > self.size:
            raise damaged(f"field {field} is outside of its table at byte {self.position}")
        return self.position + offset

    def integer(self, field: int, kind: str, default: int = 0) -> int:
        """
        Return the integer field number `field`, of the `struct` format `kind`; `default` if it is
        omitted.
        """
        place = self._place(field, _FORMATS[kind].size)
        return default if place is None else self.buffer.integer(kind, place)

    def flag(self, field: int) -> bool:
        return bool(self.integer(field, "B"))

    def number(self, field: int, default: float = 0.0) -> float:
        """Return the float field number `field`; `default` if it is omitted."""
        place = self._place(field, 4)
        return default if place is None else float(self.buffer.number("f", place))

    def table(self, field: int) -> Table | None:
        """Return the table in field number `field`, or `None` if it is omitted."""
        place = self._place(field, 4)
        return None if place is None else self.buffer.table(place)

    def _span(self, field: int, size: int) -> tuple[int, int]:
        place = self._place(field, 4)
        if place is None:
            return 0, 0
        start, length = self.buffer.span(place, size)
        return start, length

    def text(self, field: int) -> str:
        """Return the string in field number `field`; "" if it is omitted."""
        start, length = self._span(field, 1)
        self.buffer.spend(length)
        try:
            return self.buffer.data[start : start + length].decode()
        except UnicodeDecodeError:
            raise damaged(f"a name at byte {start} is not UTF-8") from None

    def count(self, field: int) -> int:
        """Return the number of tables in the vector in field number `field`; 0 if it is omitted."""
        return self._span(field, 4)[1]

    def entry(self, field: int, index: int) -> Table:
        """Return table `index` of the vector of tables in field number `field`."""
        start, length = self._span(field, 4)
        if not 0 <= index < length:
            raise damaged(f"index {index} of a list with {length} entries")
        return self.buffer.table(start + 4 * index)

    def entries(self, field: int) -> list[Table]:
        """Return all tables of the vector in field number `field`."""
        start, length = self._span(field, 4)
        self.buffer.spend(length)
        return [self.buffer.table(start + 4 * i) for i in range(length)]

    def vector(self, field: int, dtype: str) -> NDArray[np.generic]:
        """
        Return the numbers in the vector field `field` as a read-only array of `dtype` (such as
        `<i4`), which is a view of the file. The array is empty if the file omits the field.
        """
        kind = np.dtype(dtype)
        start, length = self._span(field, kind.itemsize)
        if not length:
            return np.zeros(0, kind)
        return np.frombuffer(self.buffer.data, kind, length, start)

    def integers(self, field: int, dtype: str = "<i4") -> tuple[int, ...]:
        """
        Return the vector of integers in field number `field`, of the numpy type `dtype`; () if it
        is omitted.
        """
        found = self.vector(field, dtype)
        self.buffer.spend(found.size)
        return tuple(found.tolist())
