"""
The sections of a file under construction: tables that grow, and constants that stay arrays.

Constants are written straight from the module's bytes, so that no copy of them is made;
`write` gives the same bytes every time.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.nnet.encoding import ALIGNMENT, MAGIC, VERSION, Section
from ceras_ir.dialects.graph import ConstantOp, element_of, numpy_dtype

CONSTANT_ALIGNMENT = {Section.WEIGHTS: 64, Section.BIASES: 4, Section.FLOATS: 4}


def _padding(size: int, alignment: int) -> bytes:
    return bytes(-size % alignment)


@dataclass
class Constants:
    """
    Constants of one section, each at a multiple of `alignment` and of its elements; those with
    equal bytes, such as weights of the steps of a loop, are one.
    """

    alignment: int
    size: int = 0
    parts: list[ConstantOp] = field(default_factory=list[ConstantOp])
    known: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """The offsets of what is there."""

    def padding(self, constant: ConstantOp, size: int) -> int:
        """Bytes before a constant behind `size` others."""
        return -size % max(self.alignment, numpy_dtype(element_of(constant.result)).itemsize)

    def add(self, constant: ConstantOp, size: int) -> int:
        """The offset at which the constant will lie, or an equal one lies."""
        if (there := self.known.get(digest := constant.digest())) is not None:
            return there
        self.known[digest] = offset = self.size + self.padding(constant, self.size)
        self.size = offset + size
        self.parts.append(constant)
        return offset

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The section's bytes."""
        size = 0
        for constant in self.parts:
            yield (padding := bytes(self.padding(constant, size)))
            array: NDArray[np.generic] = np.ascontiguousarray(constant.array())
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            yield little.data.cast("B") if little.ndim else little.tobytes()
            size += len(padding) + little.nbytes


@dataclass
class Sections:
    """Everything of a file but its header."""

    tables: dict[Section, bytearray] = field(
        default_factory=lambda: {s: bytearray() for s in Section if s not in CONSTANT_ALIGNMENT}
    )
    constants: dict[Section, Constants] = field(
        default_factory=lambda: {s: Constants(a) for s, a in CONSTANT_ALIGNMENT.items()}
    )

    def chunks(self, section: Section) -> Iterator[bytes | bytearray | memoryview]:
        if section in self.tables:
            yield self.tables[section]
        else:
            yield from self.constants[section].chunks()

    def size(self, section: Section) -> int:
        if section in self.tables:
            return len(self.tables[section])
        return self.constants[section].size

    def header(self) -> bytes:
        """Magic, version, section table and their checksum."""
        end = 32 + 24 * len(Section)
        table = bytearray()
        for section in Section:
            crc = 0
            for chunk in self.chunks(section):
                crc = zlib.crc32(chunk, crc)
            offset = end + -end % ALIGNMENT
            end = offset + self.size(section)
            table += struct.pack("<IIQQ", section, crc, offset, self.size(section))
        head = MAGIC + struct.pack("<IIQI", VERSION, 0, end, len(Section))
        return head + struct.pack("<I", zlib.crc32(table, zlib.crc32(head))) + table

    def write(self, stream: BinaryIO) -> None:
        """The whole file."""
        header = self.header()
        stream.write(header)
        end = len(header)
        for section in Section:
            padding = _padding(end, ALIGNMENT)
            stream.write(padding)
            for chunk in self.chunks(section):
                stream.write(chunk)
            end += len(padding) + self.size(section)
