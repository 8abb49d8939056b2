"""
Represent the content of an nnet file as tables of records, and check that the tables agree.

`reader.py` creates the records; the writer has separate records. A `Kind` specifies an opcode of
the format; the modules `*_layers.py` declare the kinds. The checks follow `docs/nnet-format.md`.
`check` follows the layers over the arena, the memory of all values: it refuses a memory plan in
which a value is overwritten before its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import prod

from ceras_ir.support.diagnostics import InputError

Place = tuple[int, int, int, int]
"""
The location of a tensor in the arena, in bytes: the first byte, the number of rows, the length of a
row, and the distance between the starts of two rows.
"""

STORAGE_BYTES = {"f32": 4, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "i64": 8, "bool": 1}

ONLY_PLAIN = ("i64", "bool")
"""The storage types that only plain tensors can have (scale 1, no zero point)."""


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
    """
    The bytes from the start of a row (the last axis) to the next, gaps included; 0 if there are no
    gaps.
    """
    bits: int
    """The bits of each integer of a packed constant, 2 or 4; 0 for other tensors."""

    @property
    def nbytes(self) -> int:
        """The bytes of the elements in memory. Integers are not packed there."""
        return prod(self.shape) * STORAGE_BYTES[self.storage]

    @property
    def row_bits(self) -> int:
        """The bits of a row of a packed constant: of all elements with the same first index."""
        return prod(self.shape[1:]) * self.bits

    @property
    def stored_bytes(self) -> int:
        """The bytes of the elements of a constant in the file; packed rows start at a byte."""
        return prod(self.shape[:1]) * -(-self.row_bits // 8) if self.bits else self.nbytes

    @property
    def rows(self) -> tuple[int, int, int]:
        """
        The number of rows in memory, the bytes of a row, and the bytes from the start of a row to
        the next. A tensor without gaps counts as a single row.
        """
        if not self.pitch:
            return 1, self.nbytes, self.nbytes
        return prod(self.shape[:-1]), self.shape[-1] * STORAGE_BYTES[self.storage], self.pitch

    @property
    def place(self) -> Place:
        return self.offset, *self.rows

    @property
    def type(self) -> tuple[str, float, int]:
        """Storage, scale and zero point, which data movement operations must preserve."""
        return self.storage, self.scale, self.zero_point

    @property
    def is_quantized(self) -> bool:
        return self.storage != "f32"

    @property
    def is_plain(self) -> bool:
        """Whether the elements are integers or booleans with scale 1 and zero point 0."""
        return self.is_quantized and self.type[1:] == (1.0, 0)

    @property
    def channels(self) -> int:
        return (1, *self.shape)[-1]

    @property
    def end(self) -> int:
        """
        The offset of the first byte after the tensor: in the arena, or, for a constant, in the
        section.
        """
        if self.bits:
            return self.offset + self.stored_bytes
        count, width, pitch = self.rows
        return self.offset + (count - 1) * pitch + width

    @property
    def limits(self) -> tuple[int, int]:
        """The minimum and the maximum integer that the storage type can hold; int8: (-128, 127)."""
        bits = 8 * STORAGE_BYTES[self.storage]
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
    """Whether a lookup table is applied to the requantized result."""

    @property
    def opcode(self) -> str:
        return self.kind.name


@dataclass(frozen=True)
class NnetFile:
    """
    The content of an nnet file. Operands, results and blocks in records are indices into these
    tuples. `inputs` and `outputs` are pairs of tensor index and name.
    """

    arena_size: int
    alignment: int
    tensors: tuple[FileTensor, ...]
    blocks: tuple[FileBlock, ...]
    inputs: tuple[tuple[int, str], ...]
    outputs: tuple[tuple[int, str], ...]
    states: int
    """
    The number S of states: in each later run, the last S inputs are the last S outputs of before.
    """
    layers: tuple[FileLayer, ...]
    sections: dict[str, bytes]
    version: int

    def data(self, tensor: FileTensor) -> bytes:
        """Return the stored bytes of a tensor that is a constant."""
        return self.sections[tensor.location][tensor.offset :][: tensor.stored_bytes]


def expect(condition: bool, message: str) -> None:
    """Refuse the file by an `InputError` with `message`, unless `condition` holds."""
    if not condition:
        raise InputError(f"not a valid nnet file: {message}")


@dataclass(frozen=True)
class Case:
    """A layer of an nnet file with its tensors, while it is checked. `number` is its index."""

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
        """
        Whether the layer computes on integers. The result may nevertheless be float: a fused table
        can convert integers to floats.
        """
        return self.layer.fused or self.result.is_quantized

    def must(self, condition: bool, message: str) -> None:
        """Refuse the file with `message` and the name of the layer, unless `condition` holds."""
        where = f"layer {self.number} '{self.layer.name}' ({self.layer.opcode})"
        expect(condition, f"{where}: {message}")

    def stored_as(self, operands: Iterable[str], results: Iterable[str], message: str) -> None:
        """
        Refuse the file with `message` unless the storage types of all operands are in `operands`
        and the storage type of the result is in `results`.
        """
        self.must(all(t.storage in operands for t in self.operands), message)
        self.must(self.result.storage in results, message)

    def keeps_type(self) -> None:
        same = all(t.type == self.result.type for t in self.operands)
        self.must(same, "the result must have the type of the operands")


@dataclass(frozen=True)
class Kind:
    """The specification of an opcode of the nnet format, from which the reader checks layers."""

    number: int
    """The opcode. Existing numbers never change."""
    name: str
    check: Callable[[Case], None] = lambda case: None
    """The check of all properties that the following fields do not express."""
    _: KW_ONLY
    words: int | None = 0
    """The number of attributes (32-bit words); `None` if it varies, and `check` tests it."""
    operands: int | None = 1
    """The number of operands without bias, multipliers and residual; `None` if it varies (>= 1)."""
    epilogue: bool = False
    """Whether a bias, multipliers and a residual may follow the operands."""
    function: bool = False
    """Whether an activation function is allowed; `table`: whether there is a lookup table."""
    table: bool = False
    requant: Callable[[FileLayer], bool] = lambda layer: False
    """
    Returns whether a quantized result is requantized. All operands must then be quantized, too.
    """
    same_shape: bool = False
    """Whether operand and result have equal shapes; `same_type`: equal types."""
    same_type: bool = False
    all_storages: bool = False
    """Whether the layer accepts integers of 64 bits and booleans, too."""
    in_place: bool = False
    """Whether the result may be stored at the address of an operand."""
    kept: Callable[[NnetFile, FileLayer], list[Place]] = lambda file, layer: []
    """Returns the locations of operands that are already in the result and need no copy."""


def always(layer: FileLayer) -> bool:
    """Return True: the `Kind.requant` of layers that requantize each quantized result."""
    return True


def check(file: NnetFile) -> None:
    """Refuse a file with layers, states or a memory plan that do not agree with each other."""
    for number, layer in enumerate(file.layers):
        _check_layer(Case(file, number, layer))
    _check_states(file)
    _check_memory(file)


def _check_states(file: NnetFile) -> None:
    count, inputs, outputs = file.states, file.inputs, file.outputs
    expect(count <= min(len(inputs), len(outputs)), f"{count} states, more than inputs or outputs")
    tensors, ids = file.tensors, [id for id, _ in inputs]
    for i in range(-count, 0):
        (id, name), (last, _) = inputs[i], outputs[i]
        expect(ids.count(id) == 1, f"state '{name}' is an input twice")
        same = tensors[id].shape == tensors[last].shape and tensors[id].type == tensors[last].type
        expect(same, f"state '{name}' and its next value have different types")


def _check_layer(case: Case) -> None:
    layer, result, must = case.layer, case.result, case.must
    kind = layer.kind
    own = max(1, len(case.operands)) if kind.operands is None else kind.operands
    expected = own + layer.bias + layer.multipliers + layer.residual
    must(len(case.operands) == expected, f"{expected} operands expected, got {len(case.operands)}")
    extra = layer.bias or layer.residual or layer.multipliers
    must(kind.epilogue or not extra, "bias, residual or multipliers are not allowed")
    must(layer.residual or layer.residual_shift == 0, "there is no residual to shift")
    counted = kind.words is None or layer.fused
    must(counted or kind.words == len(case.words), f"{kind.words} attributes expected")
    must(result.location == "arena", "the result is a constant")
    plain = any(t.storage in ONLY_PLAIN for t in (*case.operands, result))
    must(kind.all_storages or not plain, "no integers of 64 bits and no booleans expected")
    must(kind.epilogue or not layer.fused, "no table after a requantization expected")
    tabulated = kind.table or layer.fused
    must((layer.table is not None) == tabulated, "wrong lookup table")
    if layer.fused:
        _check_fused_tables(case)
    must(kind.function or layer.function == "none", "no function expected")
    _check_requant(case)
    must(not kind.same_shape or case.operands[0].shape == result.shape, "the shapes differ")
    if kind.same_type:
        case.keeps_type()
    kind.check(case)


def _check_requant(case: Case) -> None:
    layer, result, must = case.layer, case.result, case.must
    needed = layer.kind.requant(layer)
    must((layer.requant is not None) == (needed and case.is_quantized), "wrong requantization")
    if needed:
        same = all(t.is_quantized == case.is_quantized for t in case.operands)
        must(same, "float and quantized tensors are mixed")
        # The function of a layer with a table is the tabulated function.
        plain = layer.fused or not result.is_quantized or layer.function == "none"
        must(plain, "a quantized layer has no function")
    if (requant := layer.requant) is not None:
        valid = 1 <= requant.multiplier < 1 << 31 and requant.shift <= 62
        must(valid, "invalid multiplier or shift of the requantization")
        low, high = (-128, 127) if layer.fused else result.limits
        must(low <= requant.low <= requant.high <= high, "invalid clamp range")


def _check_fused_tables(case: Case) -> None:
    layer, result, must = case.layer, case.result, case.must
    must(result.storage in ("i8", "f32"), "a table of int8 or floats expected")
    must(layer.kind.words is not None, "no attributes except tables expected")
    first = layer.table
    assert first is not None
    by_channel = case.words[layer.kind.words or 0 :]
    must(len(case.words) >= (layer.kind.words or 0), "attributes are missing")
    must(len(by_channel) in (0, result.channels), "a single table or a table per channel expected")
    must(not by_channel or by_channel[0] == first, "the table is not that of the first channel")
    stored, pieces = len(case.file.sections["tables"]) // 256, STORAGE_BYTES[result.storage]
    must(all(t + pieces <= stored for t in (first, *by_channel)), "no such lookup table")


def check_window(case: Case, words: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    """
    Refuse the layer unless strides, padding and dilations in `words`, and the extents in `kernel`,
    give the shape of the result. `words` are strides, padding before, padding after and dilations,
    two each.
    """
    x, y, must = case.operands[0], case.result, case.must
    must(len(x.shape) == len(y.shape) == 4 and x.shape[0] == y.shape[0], "rank 4 expected")
    for axis in (0, 1):
        stride, dilation = words[axis], words[6 + axis]
        before, after = words[2 + axis], words[4 + axis]
        must(stride > 0 and dilation > 0 and kernel[axis] > 0, "a window attribute is zero")
        padded = x.shape[1 + axis] + before + after - (kernel[axis] - 1) * dilation - 1
        must(padded >= 0 and padded // stride + 1 == y.shape[1 + axis], "the window does not fit")


def _check_memory(file: NnetFile) -> None:
    alive: dict[int, FileTensor] = {}

    def write(id: int, kept: list[Place]) -> None:
        # A value that shares bytes with `id` is overwritten, unless all shared bytes are `kept`.
        new = file.tensors[id]
        for other, old in list(alive.items()):
            if not _survives(old.place, new.place, kept):
                del alive[other]
        alive[id] = new

    for id, name in file.inputs:
        expect(file.tensors[id].location == "arena", f"input '{name}' is a constant")
        write(id, [])
    expect(len(alive) == len({i for i, _ in file.inputs}), "two inputs overlap")
    for number, layer in enumerate(file.layers):
        result = file.tensors[layer.result]
        kept = layer.kind.kept(file, layer)
        for i, id in enumerate(layer.operands):
            operand = file.tensors[id]
            if operand.location != "arena":
                continue
            where = f"layer {number} '{layer.name}': operand {i}"
            expect(id in alive, f"{where} is not in memory")
            last_residual = layer.residual and i == len(layer.operands) - 1
            allowed = layer.kind.in_place or last_residual
            in_place = operand.place in kept or (allowed and _replaces(result, operand))
            disjoint = not _shared_bytes(operand.place, result.place)
            expect(disjoint or in_place, f"{where} overlaps the result")
        write(layer.result, kept)
    for id, name in file.outputs:
        stored = id in alive or file.tensors[id].location != "arena"
        expect(stored, f"output '{name}' is not in memory at the end")


def _replaces(result: FileTensor, operand: FileTensor) -> bool:
    if operand.pitch or result.pitch:
        return operand.place == result.place
    return operand.offset == result.offset and operand.nbytes >= result.nbytes


def _survives(old: Place, new: Place, kept: list[Place]) -> bool:
    if not (overwritten := _shared_bytes(new, old)):
        return True
    has_other_pitch = old[1] > 1 and new[1] > 1 and old[3] != new[3]
    return not has_other_pitch and overwritten == sum(_shared_bytes(k, old) for k in kept)


def _bytes_below(place: Place, address: int) -> int:
    start, count, width, pitch = place
    rows, rest = divmod(address - start, pitch)
    return min(max(rows * width + min(rest, width), 0), count * width)


def _shared_bytes(a: Place, b: Place) -> int:
    # The format defines that rows of different pitches share all bytes that their ranges share.
    end_addresses = [start + (count - 1) * pitch + width for start, count, width, pitch in (a, b)]
    if end_addresses[0] <= b[0] or end_addresses[1] <= a[0]:
        return 0
    if a[1] > 1 and b[1] > 1:
        return _shared_columns(a, b) if a[3] == b[3] else min(end_addresses) - max(a[0], b[0])
    single, rows = (a, b) if a[1] == 1 else (b, a)
    return _bytes_below(rows, single[0] + single[2]) - _bytes_below(rows, single[0])


def _shared_columns(a: Place, b: Place) -> int:
    # Rows of an equal pitch: each row of `b` begins in a row of `a` and may end in the next row.
    pitch = a[3]
    row, column = divmod(b[0] - a[0], pitch)
    in_row = max(min(a[2], column + b[2]) - column, 0)
    in_next_row = max(min(a[2], column + b[2] - pitch), 0)

    def pairs(shift: int) -> int:
        return max(min(a[1], b[1] + shift) - max(0, shift), 0)

    return in_row * pairs(row) + in_next_row * pairs(row + 1)
