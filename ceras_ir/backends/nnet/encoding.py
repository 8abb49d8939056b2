"""
The numbers and records of the format as the writer uses them; `reader.py` has its own.

A record packs itself; what its fields mean is in `docs/nnet-format.md`. Opcodes are the `Kind`s of
`layers/`; what makes a record of an operation stands there too, below `@encodes`.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import Operation

from ceras_ir.backends.nnet.file import Kind
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.dialects.mem import CPU
from ceras_ir.dialects.quant import RequantAttr, Rounding

MAGIC = b"NNET\r\n\x1a\n"
VERSION = 4
ALIGNMENT = 64
NONE = 0xFFFFFFFF
MAX_RANK = 8


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


STORAGES = {
    "float32": 0,
    "int8": 1,
    "uint8": 2,
    "int16": 3,
    "uint16": 4,
    "int32": 5,
    "int64": 6,
    "bool": 7,
}
ROUNDINGS = {
    Rounding.HALF_UP: 0,
    Rounding.HALF_AWAY: 1,
    Rounding.HALF_EVEN: 2,
    Rounding.FLOOR: 3,
}
DEVICES = {CPU: 0, FPGA: 1}
FUNCTIONS = {function: number for number, function in enumerate(Function, 1)}


@dataclass(frozen=True)
class TensorRecord:
    """64 bytes of the tensor table."""

    name: int
    storage: int
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    section: Section | None
    """Where a constant is; None for the arena."""
    block: int
    offset: int
    pitch: int = 0
    """Bytes from row to row; 0 if there are no gaps."""

    LOCATIONS = (None, Section.WEIGHTS, Section.BIASES, Section.FLOATS)

    def pack(self) -> bytes:
        location = self.LOCATIONS.index(self.section)
        head = struct.pack(
            "<IBBBBfiIIQ",
            self.name,
            self.storage,
            len(self.shape),
            location,
            0,
            self.scale,
            self.zero_point,
            self.block,
            self.pitch,
            self.offset,
        )
        return head + struct.pack("<8I", *self.shape, *[0] * (MAX_RANK - len(self.shape)))


@dataclass
class LayerRecord:
    """64 bytes of the layer table, and the lists that they point to."""

    kind: Kind
    operands: Sequence[int] = ()
    attributes: Sequence[int] = ()
    """Unsigned words."""
    bias: bool = False
    residual: bool = False
    function: int = 0
    parameters: Sequence[float] = ()
    requant: RequantAttr | None = None
    residual_shift: int = 0
    table: int = NONE
    fused: bool = False
    """Whether the table is behind a requantization."""
    name: int = field(default=0, kw_only=True)
    device: int = field(default=0, kw_only=True)
    result: int = field(default=0, kw_only=True)

    def pack(self, first_operand: int, first_attribute: int) -> bytes:
        requant = self.requant
        per_channel = requant is not None and requant.is_per_channel
        flags = (requant is not None) | self.bias << 1 | self.residual << 2 | per_channel << 3
        flags |= self.fused << 4
        p0, p1 = (*self.parameters, 0.0, 0.0)[:2]
        head = struct.pack(
            "<HBBIIIIIIBBBBff",
            self.kind.number,
            self.device,
            flags,
            self.name,
            first_operand,
            len(self.operands),
            self.result,
            first_attribute,
            len(self.attributes),
            self.function,
            0 if requant is None else ROUNDINGS[requant.mode],
            0 if requant is None else requant.shift.data,
            self.residual_shift,
            p0,
            p1,
        )
        fields = (
            (0, 0, 0, 0)
            if requant is None
            else (
                requant.multiplier.data,
                requant.zero_point.data,
                requant.low.data,
                requant.high.data,
            )
        )
        return head + struct.pack("<IiiiII", *fields, self.table, 0)

    def with_function(self, function: FunctionAttr | None) -> "LayerRecord":
        if function is not None:
            self.function = FUNCTIONS[function.kind]
            self.parameters = function.values
        return self


def words_of(*fields: DenseArrayBase[IntegerType]) -> list[int]:
    """Numbers of several lists, one after the other, as 32 bits."""
    return [int(v) & 0xFFFFFFFF for field in fields for v in field.get_values()]


def float_word(value: float) -> int:
    """The bits of an f32."""
    return struct.unpack("<I", struct.pack("<f", value))[0]


def table_words(tables: Sequence[int], rows: Sequence[int] | None) -> tuple[int, list[int]]:
    """The first table, and of several that of each channel."""
    first = tables[0 if rows is None else rows[0]]
    return first, [] if rows is None else [tables[row] for row in rows]


AddTable = Callable[[bytes], int]
"""Stores a table and gives the number of its first 256 bytes."""

OpT = TypeVar("OpT", bound=Operation)
Encoder = Callable[[OpT, AddTable], LayerRecord | None]
"""The record of an operation, operands and names left to the caller; None if there is none."""

ENCODERS: dict[type[Operation], Encoder[Operation]] = {}


def encodes(kind: type[OpT]) -> Callable[[Encoder[OpT]], Encoder[OpT]]:
    """Register what makes records of operations of exactly this class."""

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
    """Register records that hold no more than attributes and a requantization."""

    @encodes(op_class)
    def record(op: OpT, add_table: AddTable) -> LayerRecord:
        return LayerRecord(kind, attributes=attributes(op), requant=requant(op))
