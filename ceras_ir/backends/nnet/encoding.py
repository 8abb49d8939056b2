"""
Encode the records and sections of an nnet file; `reader.py` has separate definitions.

`docs/nnet-format.md` specifies the fields of records. The encoders of operations (`@encodes`) are
declared with the `Kind` of each layer. A section holds records or constants. Constants are written
directly from the arrays of the module, without a copy. The bytes are deterministic.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import prod
from typing import BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.circuits import number
from ceras_ir.backends.nnet.file import Kind
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects.graph import (
    ConstantOp,
    Function,
    FunctionAttr,
    element_of,
    numpy_dtype,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.mem import CPU
from ceras_ir.dialects.quant import RequantAttr, Rounding, packed

MAGIC = b"NNET\r\n\x1a\n"
PLAIN_VERSION = number("runtime/format.h", "OLDEST_VERSION")
"""The version of files without packed constants."""
PACKED_VERSION = number("runtime/format.h", "VERSION")
SECTION_ALIGNMENT = number("runtime/format.h", "SECTION_ALIGNMENT")
NO_INDEX = 0xFFFFFFFF
MAX_RANK = number("runtime/format.h", "MAX_RANK")


class Section(IntEnum):
    NETWORK = 1
    TENSORS = 2
    BLOCKS = 3
    INPUTS = 4
    OUTPUTS = 5
    LAYERS = 6
    OPERANDS = 7
    ATTRIBUTES = 8
    STRINGS = 9
    TABLES = 10
    BIASES = 11
    FLOATS = 12
    WEIGHTS = 13


_STORAGES = ("float32", "int8", "uint8", "int16", "uint16", "int32", "int64", "bool")
STORAGE_NUMBERS = {name: n for n, name in enumerate(_STORAGES)}
_ROUNDINGS = (Rounding.HALF_UP, Rounding.HALF_AWAY, Rounding.HALF_EVEN, Rounding.FLOOR)
ROUNDING_NUMBERS = {mode: n for n, mode in enumerate(_ROUNDINGS)}
DEVICE_NUMBERS = {CPU: 0, FPGA: 1}
FUNCTION_NUMBERS = {function: number for number, function in enumerate(Function, 1)}


@dataclass(frozen=True)
class TensorRecord:
    """
    An entry of the tensor table of an nnet file (64 bytes). `name`, `storage` and `block` are
    indices into other tables of the file.
    """

    name: int
    storage: int
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    section: Section | None
    """The section of a constant; a value in the arena has no section."""
    block: int
    offset: int
    pitch: int = 0
    """The bytes from a row to the next; 0 if there are no gaps between rows."""
    bits: int = 0
    """The bits of each integer of a packed constant; 0 for other tensors."""

    LOCATIONS = (None, Section.WEIGHTS, Section.BIASES, Section.FLOATS)

    def pack(self) -> bytes:
        location = self.LOCATIONS.index(self.section)
        head = struct.pack(
            "<IBBBBfiIIQ", self.name, self.storage, len(self.shape), location, self.bits,
            self.scale, self.zero_point, self.block, self.pitch, self.offset,
        )  # fmt: skip
        return head + struct.pack("<8I", *self.shape, *[0] * (MAX_RANK - len(self.shape)))


@dataclass
class LayerRecord:
    """
    An entry of the layer table of an nnet file (64 bytes), and the lists to which it refers.
    `operands` and `result` are indices of tensors.
    """

    kind: Kind
    operands: Sequence[int] = ()
    attributes: Sequence[int] = ()
    """The attributes of the operation, as unsigned words of 32 bits."""
    bias: bool = False
    residual: bool = False
    function: int = 0
    parameters: Sequence[float] = ()
    requant: RequantAttr | None = None
    residual_shift: int = 0
    table: int = NO_INDEX
    fused: bool = False
    """Whether a lookup table is applied to the requantized result."""
    name: int = field(default=0, kw_only=True)
    device: int = field(default=0, kw_only=True)
    result: int = field(default=0, kw_only=True)

    def pack(self, first_operand: int, first_attribute: int) -> bytes:
        requant = self.requant
        flags = self.bias << 1 | self.residual << 2 | self.fused << 4
        mode = shift = 0
        fields = (0, 0, 0, 0)
        if requant is not None:
            flags |= 1 | requant.is_per_channel << 3
            mode, shift = ROUNDING_NUMBERS[requant.mode], requant.shift.data
            limits = (requant.low.data, requant.high.data)
            fields = (requant.multiplier.data, requant.zero_point.data, *limits)
        parameters = (*self.parameters, 0.0, 0.0)[:2]
        head = struct.pack(
            "<HBBIIIIIIBBBBff", self.kind.number, self.device, flags, self.name, first_operand,
            len(self.operands), self.result, first_attribute, len(self.attributes), self.function,
            mode, shift, self.residual_shift, *parameters,
        )  # fmt: skip
        return head + struct.pack("<IiiiII", *fields, self.table, 0)

    def with_function(self, function: FunctionAttr | None) -> "LayerRecord":
        if function is not None:
            self.function = FUNCTION_NUMBERS[function.data]
            self.parameters = function.values
        return self


def words_of(*fields: DenseArrayBase[IntegerType]) -> list[int]:
    """
    Return the elements of all arguments in a single list, as unsigned 32-bit words: -1 is
    0xFFFFFFFF.
    """
    return [int(v) & 0xFFFFFFFF for field in fields for v in field.get_values()]


def float_word(value: float) -> int:
    """Return the bits of `value` as float32, as an unsigned integer: 1.0 is 0x3F800000."""
    return struct.unpack("<I", struct.pack("<f", value))[0]


def table_words(tables: Sequence[int], rows: Sequence[int] | None) -> tuple[int, list[int]]:
    """
    Return the number of the first used table, and a list with the number of the table of each
    channel. The list is empty if `rows`, the index in `tables` for each channel, is `None`: all
    channels use the first table.
    """
    if rows is None:
        return tables[0], []
    return tables[rows[0]], [tables[row] for row in rows]


AddTable = Callable[[bytes], int]
"""
A function that stores the bytes of a table and returns its number: the index of its first block of
256 bytes.
"""

OpT = TypeVar("OpT", bound=Operation)
Encoder = Callable[[OpT, AddTable], LayerRecord | None]
"""
A function that returns the record of an operation, or `None` if the operation has no layer. The
caller adds operands and names.
"""

ENCODERS: dict[type[Operation], Encoder[Operation]] = {}


def encodes(kind: type[OpT]) -> Callable[[Encoder[OpT]], Encoder[OpT]]:
    """
    Register the decorated function as the encoder of operations of the class `kind`, without
    subclasses.
    """

    def register(encoder: Encoder[OpT]) -> Encoder[OpT]:
        def checked(op: Operation, add_table: AddTable) -> LayerRecord | None:
            assert isinstance(op, kind)
            return encoder(op, add_table)

        ENCODERS[kind] = checked
        return encoder

    return register


def record_as(
    kind: Kind,
    op_class: type[OpT],
    attributes: Callable[[OpT], Sequence[int]] = lambda op: (),
    requant: Callable[[OpT], RequantAttr | None] = lambda op: None,
) -> None:
    """
    Register an encoder for operations of `op_class`: their layers of kind `kind` have only the
    words that `attributes` returns and the requantization that `requant` returns.
    """

    @encodes(op_class)
    def record(op: OpT, add_table: AddTable) -> LayerRecord:
        return LayerRecord(kind, attributes=attributes(op), requant=requant(op))


PACKED_WIDTHS = (2, 4)
"""The bits of integers that the format packs, ascending."""


def packed_bits(value: SSAValue) -> int:
    """
    Return the bits in which the integers of a value are packed in the file: 2 or 4 for constants of
    at most 4 bits, otherwise 0.
    """
    element = quantized_element(value)
    if element is None or not isinstance(value.owner, ConstantOp):
        return 0
    return next((bits for bits in PACKED_WIDTHS if bits >= element.width), 0)


def stored(constant: ConstantOp) -> NDArray[np.generic]:
    """Return the array that an nnet file stores for a constant: little-endian, or packed bytes."""
    array: NDArray[np.generic] = np.ascontiguousarray(constant.array())
    if bits := packed_bits(constant.result):
        return packed(array, bits)
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


CONSTANT_ALIGNMENT = {Section.WEIGHTS: 64, Section.BIASES: 4, Section.FLOATS: 4}


@dataclass
class Constants:
    """
    The constants of a section of an nnet file. Offsets are multiples of `alignment` and of the
    element size. Constants with equal bytes, such as the weights of all steps of a loop, share an
    offset.
    """

    alignment: int
    size: int = 0
    """The bytes of the section up to now, with padding."""
    parts: list[ConstantOp] = field(default_factory=list[ConstantOp])
    offsets: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """The offset of each stored constant, by digest."""

    def padding(self, constant: ConstantOp, size: int) -> int:
        """
        Return the number of bytes of padding between the first `size` bytes of the section and
        `constant`, so that it is aligned.
        """
        return -size % max(self.alignment, numpy_dtype(element_of(constant.result)).itemsize)

    def add(self, constant: ConstantOp) -> int:
        """
        Add a constant, unless a constant with equal bytes is stored, and return its offset in the
        section.
        """
        digest, shape = constant.digest(), shape_of(constant.result)
        size = prod(shape) * numpy_dtype(element_of(constant.result)).itemsize
        element = quantized_element(constant.result)
        if (bits := packed_bits(constant.result)) and element is not None:
            size = element.widened(bits).packed_bytes(shape)
            # Rows of another length have other unused bits.
            digest += struct.pack("<Q", shape[0] if shape else 1)
        if digest not in self.offsets:
            self.offsets[digest] = offset = self.size + self.padding(constant, self.size)
            self.size = offset + size
            self.parts.append(constant)
        return self.offsets[digest]

    def chunks(self) -> Iterator[bytes | memoryview]:
        """
        Yield the bytes of the section in order, in pieces, so that the section need not fit in
        memory again.
        """
        size = 0
        for constant in self.parts:
            yield (padding := bytes(self.padding(constant, size)))
            little = stored(constant)
            yield little.data.cast("B") if little.ndim else little.tobytes()
            size += len(padding) + little.nbytes


@dataclass
class Sections:
    """The contents of the sections of an nnet file while it is written."""

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

    @property
    def version(self) -> int:
        """The version of the format of the file: the oldest that can store all constants."""
        weights = [constant.result for constant in self.constants[Section.WEIGHTS].parts]
        return PACKED_VERSION if any(map(packed_bits, weights)) else PLAIN_VERSION

    def header(self) -> bytes:
        """
        Return the bytes at the start of the file: signature, version, table of sections, and the
        checksum of these.
        """
        end = 32 + 24 * len(Section)
        table = bytearray()
        for section in Section:
            crc = 0
            for chunk in self.chunks(section):
                crc = zlib.crc32(chunk, crc)
            offset = end + -end % SECTION_ALIGNMENT
            end = offset + self.size(section)
            table += struct.pack("<IIQQ", section, crc, offset, self.size(section))
        head = MAGIC + struct.pack("<IIQI", self.version, 0, end, len(Section))
        return head + struct.pack("<I", zlib.crc32(table, zlib.crc32(head))) + table

    def write(self, stream: BinaryIO) -> None:
        """Write the header and all sections to `stream`."""
        header = self.header()
        stream.write(header)
        end = len(header)
        for section in Section:
            stream.write(padding := bytes(-end % SECTION_ALIGNMENT))
            for chunk in self.chunks(section):
                stream.write(chunk)
            end += len(padding) + self.size(section)
