"""
What is in an nnet file, once it is read: tables of which each entry is a record here.

`reader.py` makes it, `checks.py` and `memory_checks.py` judge it; nothing here is the writer's.
"""

from dataclasses import dataclass
from math import prod

from ceras_ir.support.diagnostics import InputError

BYTES = {"f32": 4, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4}


@dataclass(frozen=True)
class Tensor:
    name: str
    storage: str
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    location: str
    block: int | None
    offset: int
    pitch: int
    """Bytes from row to row, gaps included; 0 if there are none."""

    @property
    def nbytes(self) -> int:
        """Of its elements."""
        return prod(self.shape) * BYTES[self.storage]

    @property
    def rows(self) -> tuple[int, int, int]:
        """How many rows, bytes of each, and from one to the next; one row without gaps."""
        if not self.pitch:
            return 1, self.nbytes, self.nbytes
        return prod(self.shape[:-1]), self.shape[-1] * BYTES[self.storage], self.pitch

    @property
    def end(self) -> int:
        """Behind its last byte."""
        count, width, pitch = self.rows
        return self.offset + (count - 1) * pitch + width

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest stored integer."""
        bits = 8 * BYTES[self.storage]
        if self.storage.startswith("u"):
            return 0, (1 << bits) - 1
        return -(1 << bits - 1), (1 << bits - 1) - 1


@dataclass(frozen=True)
class Block:
    id: int
    offset: int
    size: int


@dataclass(frozen=True)
class Requant:
    multiplier: int
    shift: int
    rounding: str
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True)
class Layer:
    opcode: str
    device: str
    name: str
    operands: tuple[int, ...]
    bias: bool
    residual: bool
    multipliers: bool
    result: int
    attributes: tuple[int, ...]
    function: str
    parameters: tuple[float, float]
    requant: Requant | None
    residual_shift: int
    table: int | None


@dataclass(frozen=True)
class NnetFile:
    """The content of a file; numbers refer to the tuples here."""

    arena_size: int
    alignment: int
    tensors: tuple[Tensor, ...]
    blocks: tuple[Block, ...]
    inputs: tuple[tuple[int, str], ...]
    outputs: tuple[tuple[int, str], ...]
    layers: tuple[Layer, ...]
    sections: dict[str, bytes]

    def data(self, tensor: Tensor) -> bytes:
        """The bytes of a constant."""
        return self.sections[tensor.location][tensor.offset :][: tensor.nbytes]


def expect(condition: bool, message: str) -> None:
    """Refuse the file with `message` unless `condition` holds."""
    if not condition:
        raise InputError(f"not a valid nnet file: {message}")
