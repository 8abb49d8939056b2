"""
The numbers and records of the format as the writer uses them; `reader.py` has its own.

A record packs itself; what its fields mean is in `docs/nnet-format.md`.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects.graph import Function
from ceras_ir.dialects.mem import CPU
from ceras_ir.dialects.quant import RequantAttr, Rounding

MAGIC = b"NNET\r\n\x1a\n"
VERSION = 2
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


class Opcode(IntEnum):
    CONV2D = 1
    MATMUL = 2
    POOL2D = 3
    UNARY = 4
    BINARY = 5
    LOOKUP = 6
    SOFTMAX = 7
    RESHAPE = 8
    TRANSPOSE = 9
    CONCAT = 10
    RESIZE = 11
    QUANTIZE = 12
    DEQUANTIZE = 13
    REQUANTIZE = 14
    SLICE = 15
    PAD = 16
    SHIFT_SWISH = 17


STORAGES = {"float32": 0, "int8": 1, "uint8": 2, "int16": 3, "uint16": 4, "int32": 5}
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

    opcode: Opcode
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
    name: int = field(default=0, kw_only=True)
    device: int = field(default=0, kw_only=True)
    result: int = field(default=0, kw_only=True)

    def pack(self, first_operand: int, first_attribute: int) -> bytes:
        requant = self.requant
        per_channel = requant is not None and requant.is_per_channel
        flags = (requant is not None) | self.bias << 1 | self.residual << 2 | per_channel << 3
        p0, p1 = (*self.parameters, 0.0, 0.0)[:2]
        head = struct.pack(
            "<HBBIIIIIIBBBBff",
            self.opcode,
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
