"""
The content of an nnet file after reading: tables whose entries are records of this module.

`reader.py` creates the records and `checks.py` checks them; the writer has separate records. A
`Kind` is the specification of an opcode in the format; the `*_layers.py` modules declare them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import prod

from ceras_ir.support.diagnostics import InputError

Place = tuple[int, int, int, int]
"""First byte, number of rows, bytes of each, and from one to the next."""

BYTES = {"f32": 4, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "i64": 8, "bool": 1}

ONLY_PLAIN = ("i64", "bool")
"""Storages that quantized numbers do not have."""


@dataclass(frozen=True)
class FileTensor:
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
    def place(self) -> Place:
        return self.offset, *self.rows

    @property
    def type(self) -> tuple[str, float, int]:
        """What an operation that moves elements keeps."""
        return self.storage, self.scale, self.zero_point

    @property
    def is_quantized(self) -> bool:
        return self.storage != "f32"

    @property
    def is_plain(self) -> bool:
        """Whether its numbers are integers or booleans and no more."""
        return self.is_quantized and self.type[1:] == (1.0, 0)

    @property
    def channels(self) -> int:
        """Extent of the last dimension."""
        return (1, *self.shape)[-1]

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
class FileBlock:
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
class FileLayer:
    kind: Kind
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
    fused: bool
    """Whether the table is behind a requantization."""

    @property
    def opcode(self) -> str:
        return self.kind.name


@dataclass(frozen=True)
class NnetFile:
    """The content of a file; numbers refer to the tuples here."""

    arena_size: int
    alignment: int
    tensors: tuple[FileTensor, ...]
    blocks: tuple[FileBlock, ...]
    inputs: tuple[tuple[int, str], ...]
    outputs: tuple[tuple[int, str], ...]
    states: int
    """How many of the inputs, the last of them, are what as many last outputs were before."""
    layers: tuple[FileLayer, ...]
    sections: dict[str, bytes]

    def data(self, tensor: FileTensor) -> bytes:
        """The bytes of a constant."""
        return self.sections[tensor.location][tensor.offset :][: tensor.nbytes]


def expect(condition: bool, message: str) -> None:
    """Refuse the file with `message` unless `condition` holds."""
    if not condition:
        raise InputError(f"not a valid nnet file: {message}")


@dataclass(frozen=True)
class Case:
    """A layer under judgement, with its tensors."""

    file: NnetFile
    number: int
    layer: FileLayer

    @cached_property
    def operands(self) -> list[FileTensor]:
        return [self.file.tensors[i] for i in self.layer.operands]

    @cached_property
    def result(self) -> FileTensor:
        return self.file.tensors[self.layer.result]

    @property
    def words(self) -> tuple[int, ...]:
        return self.layer.attributes

    @property
    def is_quantized(self) -> bool:
        """Whether it computes on integers, of which a fused table may make floats."""
        return self.layer.fused or self.result.is_quantized

    def must(self, condition: bool, message: str) -> None:
        """Refuse the file with `message` unless `condition` holds."""
        where = f"layer {self.number} '{self.layer.name}' ({self.layer.opcode})"
        expect(condition, f"{where}: {message}")

    def stored_as(self, operands: Iterable[str], results: Iterable[str], message: str) -> None:
        """Refuse an operand or a result of another storage."""
        self.must(all(t.storage in operands for t in self.operands), message)
        self.must(self.result.storage in results, message)

    def keeps_type(self) -> None:
        same = all(t.type == self.result.type for t in self.operands)
        self.must(same, "it must keep the type of its operands")


@dataclass(frozen=True)
class Kind:
    """What the format says of the layers of one opcode."""

    number: int
    """The opcode; numbers that exist never change."""
    name: str
    check: Callable[[Case], None] = lambda case: None
    """What must hold beyond what the fields below say."""
    _: KW_ONLY
    words: int | None = 0
    """How many attributes; None where `check` counts them."""
    operands: int | None = 1
    """Those of the epilogue not counted; None for one or more."""
    epilogue: bool = False
    """Whether bias, multipliers and residual may follow the operands."""
    function: bool = False
    table: bool = False
    requant: Callable[[FileLayer], bool] = lambda layer: False
    """Whether a quantized result is requantized; its operands are quantized like it then."""
    same_shape: bool = False
    same_type: bool = False
    all_storages: bool = False
    """Whether it takes integers of 64 bits and booleans too."""
    in_place: bool = False
    """Whether the result may replace an operand."""
    kept: Callable[[NnetFile, FileLayer], list[Place]] = lambda file, layer: []
    """Bytes of operands that are already where the result has them."""


def always(layer: FileLayer) -> bool:
    """`requant` of what is requantized whenever it is quantized."""
    return True
