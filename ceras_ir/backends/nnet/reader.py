"""
Read an nnet file and check all of its content, as `docs/nnet-format.md` specifies it.

Reader and writer share the table of kinds of layers but no code. A test that compares them
therefore compares both with the document. `read` checks the container and each table; `check`
checks that the tables agree. `ceras-nnet dump` and `ceras-opt -t nnet` print the tables, and a
checksum for each constant.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import isfinite, isnan
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from ceras_ir.backends.nnet.file import (
    ONLY_PLAIN,
    STORAGE_BYTES,
    FileBlock,
    FileLayer,
    FileTensor,
    NnetFile,
    Requant,
    check,
    expect,
)
from ceras_ir.backends.nnet.layers import LAYER_KINDS
from ceras_ir.backends.nnet.writer import emit
from ceras_ir.dialects.graph import Function

MAGIC = b"NNET\r\n\x1a\n"
SECTIONS = (
    "network", "tensors", "blocks", "inputs", "outputs", "layers", "operands", "attributes",
    "strings", "tables", "biases", "floats", "weights",
)  # fmt: skip
STORAGES = ("f32", "i8", "u8", "i16", "u16", "i32", "i64", "bool")
LOCATIONS = ("arena", "weights", "biases", "floats")
DEVICES = ("cpu", "fpga")
ROUNDINGS = ("half_up", "half_away", "half_even", "floor")
FUNCTIONS = ("none", *Function)
NO_INDEX = 0xFFFFFFFF
VERSIONS = (4, PACKED := 5)
"""The versions of the format; the constants of the older version are not packed."""


def read_sections(data: bytes) -> tuple[int, dict[str, bytes]]:
    """
    Return the version and the sections, by name, of an nnet file. An `InputError` is raised if the
    header or a checksum is wrong.
    """
    expect(
        data[:8] == MAGIC,
        "it does not begin with the signature of nnet; ceras-compile MODEL.onnx --target nnet -o "
        "DIR writes DIR/model.nnet",
    )
    expect(len(data) >= 32, "the header is truncated")
    version, flags, size, count, crc = struct.unpack_from("<IIQII", data, 8)
    older = f"version {version} is from an older compiler; compile the model again"
    expect(version not in (1, 2, 3), older)
    expect(version in VERSIONS, f"unknown version {version}")
    expect(flags == 0, f"unknown flags {flags:#x}")
    expect(size == len(data), f"the header specifies {size} bytes, the file has {len(data)}")
    expect(count == len(SECTIONS), f"{len(SECTIONS)} sections expected, got {count}")
    end = 32 + 24 * count
    expect(len(data) >= end, "the section table is truncated")
    expect(zlib.crc32(data[:28] + data[32:end]) == crc, "the header checksum does not match")
    sections: dict[str, bytes] = {}
    for i, name in enumerate(SECTIONS):
        kind, crc, offset, size = struct.unpack_from("<IIQQ", data, 32 + 24 * i)
        expect(kind == i + 1, f"section {i + 1} expected, got {kind}")
        expect(offset == -(-end // 64) * 64, f"section '{name}' has the wrong offset {offset}")
        expect(offset + size <= len(data), f"section '{name}' is truncated")
        expect(not any(data[end:offset]), f"bytes before section '{name}' are not zero")
        sections[name] = data[offset : offset + size]
        expect(zlib.crc32(sections[name]) == crc, f"checksum of section '{name}' does not match")
        end = offset + size
    expect(end == len(data), "bytes follow the last section")
    return version, sections


class _FileReader:
    def __init__(self, data: bytes):
        self.version, self.sections = read_sections(data)
        self.next_operand = self.next_attribute = 0

    def records(self, section: str, layout: str, count: int) -> list[tuple[int, ...]]:
        size = struct.calcsize(layout)
        data = self.sections[section]
        expect(len(data) == size * count, f"section '{section}' does not hold {count} entries")
        return list(struct.iter_unpack(layout, data))

    def string(self, offset: int) -> str:
        strings = self.sections["strings"]
        expect(offset < len(strings), f"string {offset} is outside the section")
        return strings[offset : strings.index(0, offset)].decode("utf-8", "replace")

    def read(self) -> NnetFile:
        network, strings = self.sections["network"], self.sections["strings"]
        expect(len(network) == 40, "the network section does not have 40 bytes")
        expect(strings[:1] == b"\0" == strings[-1:], "strings must start and end with a zero")
        arena, alignment, *counts, states, reserved = struct.unpack("<QI5III", network)
        expect(reserved == 0, "reserved bytes are not zero")
        expect(alignment.bit_count() == 1 and alignment <= 4096, f"alignment {alignment}")
        expect(len(self.sections["tables"]) % 256 == 0, "a lookup table is truncated")
        records = enumerate(self.records("blocks", "<IIQQ", counts[1]))
        blocks = tuple(self.block(i, record, arena) for i, record in records)
        records = enumerate(self.records("tensors", "<IBBBBfiIIQ8I", counts[0]))
        tensors = tuple(self.tensor(i, record, blocks) for i, record in records)
        records = enumerate(self.records("layers", "<HBBIIIIIIBBBBffIiiiII", counts[4]))
        layers = tuple(self.layer(i, record, len(tensors)) for i, record in records)
        for name, end in (("operands", self.next_operand), ("attributes", self.next_attribute)):
            expect(4 * end == len(self.sections[name]), f"the layers do not use all of '{name}'")
        inputs, outputs = (
            self.named_tensors(section, counts[i], tensors)
            for i, section in ((2, "inputs"), (3, "outputs"))
        )
        return NnetFile(
            arena, alignment, tensors, blocks, inputs, outputs, states, layers, self.sections,
            self.version,
        )  # fmt: skip

    def named_tensors(
        self, section: str, count: int, tensors: Sequence[FileTensor]
    ) -> tuple[tuple[int, str], ...]:
        entries = self.records(section, "<II", count)
        expect(all(t < len(tensors) for t, _ in entries), f"'{section}': a tensor does not exist")
        dense = all(tensors[t].pitch == 0 for t, _ in entries)
        expect(dense, f"'{section}': a tensor has gaps between rows")
        return tuple((t, self.string(name)) for t, name in entries)

    def block(self, number: int, record: tuple[int, ...], arena: int) -> FileBlock:
        id, reserved, offset, size = record
        expect(reserved == 0, f"block {number}: reserved bytes are not zero")
        expect(offset + size <= arena, f"block {number} is not inside the arena")
        return FileBlock(id, offset, size)

    def tensor(
        self, number: int, record: tuple[int, ...], blocks: Sequence[FileBlock]
    ) -> FileTensor:
        name, storage, rank, location, bits, scale, point, block, pitch, offset = record[:10]
        extents = record[10:]

        def must(condition: bool, message: str) -> None:
            expect(condition, f"tensor {number}: {message}")

        must(storage < len(STORAGES), f"unknown storage {storage}")
        must(location < len(LOCATIONS), f"unknown location {location}")
        must(rank <= 8 and not any(extents[rank:]), "rank and extents disagree")
        must(bits == 0 or self.version == PACKED, "reserved bytes are not zero")
        must(all(extents[:rank]), "an extent is zero")
        tensor = FileTensor(
            self.string(name), STORAGES[storage], extents[:rank], scale, point,
            LOCATIONS[location], None if block == NO_INDEX else block, offset, pitch, bits,
        )  # fmt: skip
        if tensor.storage == "f32":
            must(scale == 0 and point == 0, "a float tensor has no scale or zero point")
        else:
            must(isfinite(scale) and scale > 0, f"scale {scale}")
            must(tensor.limits[0] <= point <= tensor.limits[1], f"zero point {point}")
        must(tensor.is_plain or tensor.storage not in ONLY_PLAIN, "scale 1, no zero point expected")
        must(
            offset % STORAGE_BYTES[tensor.storage] == 0, "the offset is not aligned to the elements"
        )
        if pitch:
            count, width, _ = tensor.rows
            must(count > 1 and pitch > width, "the pitch leaves no gaps")
            must(
                pitch % STORAGE_BYTES[tensor.storage] == 0, "the pitch is no multiple of an element"
            )
        if tensor.location == "arena":
            must(bits == 0, "a value in the arena is not packed")
            must(tensor.block is not None and tensor.block < len(blocks), "no such block")
            place = blocks[block]
            inside = place.offset <= offset and tensor.end <= place.offset + place.size
            must(inside, "the tensor is not inside the block")
            return tensor
        must(tensor.block is None, "a constant has no block")
        must(pitch == 0, "a constant has no gaps between rows")
        wide = STORAGE_BYTES[tensor.storage] > 1
        home = "floats" if tensor.storage == "f32" else "biases" if wide else "weights"
        must(tensor.location == home, f"{tensor.storage} belongs into '{home}'")
        if bits:
            narrow = bits in (2, 4) and tensor.storage in ("i8", "u8")
            must(narrow, "integers of 8 bits, packed in 2 or 4 bits, expected")
        end = offset + tensor.stored_bytes
        must(end <= len(self.sections[home]), f"the end of '{home}' is exceeded")
        if bits and (unused := -tensor.row_bits % 8):
            row_bytes = -(-tensor.row_bits // 8)
            last = self.sections[home][offset + row_bytes - 1 : end : row_bytes]
            zero = not any(byte >> 8 - unused for byte in last)
            must(zero, "unused bits of a packed row are not zero")
        return tensor

    def words(self, section: str, first: int, count: int) -> tuple[int, ...]:
        data = self.sections[section]
        expect(4 * (first + count) <= len(data), f"a list is outside section '{section}'")
        return struct.unpack_from(f"<{count}I", data, 4 * first)

    def layer(self, number: int, record: tuple[int, ...], tensors: int) -> FileLayer:
        opcode, device, flags, name, operand, operands, result, word, words = record[:9]
        function, rounding, shift, residual_shift, p0, p1 = record[9:15]
        multiplier, point, low, high, table, zero = record[15:]

        def must(condition: bool, message: str) -> None:
            expect(condition, f"layer {number}: {message}")

        must(opcode in LAYER_KINDS, f"unknown opcode {opcode}")
        must(device < len(DEVICES), f"unknown device {device}")
        must(flags < 32, f"unknown flags {flags:#x}")
        must(function < len(FUNCTIONS), f"unknown function {function}")
        must(rounding < len(ROUNDINGS), f"unknown rounding {rounding}")
        must(zero == 0, "reserved bytes are not zero")
        must(not isnan(p0) and not isnan(p1), "a parameter is not a number")
        follows = operand == self.next_operand and word == self.next_attribute
        must(follows, "the lists do not follow those of the previous layer")
        self.next_operand += operands
        self.next_attribute += words
        ids = self.words("operands", operand, operands)
        must(all(i < tensors for i in (*ids, result)), "a tensor does not exist")
        must(
            table == NO_INDEX or table < len(self.sections["tables"]) // 256, "no such lookup table"
        )
        requant = Requant(multiplier, shift, ROUNDINGS[rounding], point, low, high)
        return FileLayer(
            LAYER_KINDS[opcode], DEVICES[device], self.string(name), ids, bool(flags & 2),
            bool(flags & 4), bool(flags & 8), result, self.words("attributes", word, words),
            FUNCTIONS[function], (p0, p1), requant if flags & 1 else None, residual_shift,
            None if table == NO_INDEX else table, bool(flags & 16),
        )  # fmt: skip


def read(data: bytes) -> NnetFile:
    """
    Return the content of an nnet file. An `InputError` names the first fault of an invalid file.
    """
    file = _FileReader(data).read()
    check(file)
    return file


def dump(data: bytes) -> str:
    """
    Return the content of an nnet file as text, with a line for each section, block, tensor and
    layer. An invalid file raises an `InputError`.
    """
    file = read(data)
    lines = [f"nnet version {file.version}, {len(data)} bytes", "sections:"]
    lines += [f"  {name}: {len(content)} bytes" for name, content in file.sections.items()]
    lines.append(f"arena: {file.arena_size} bytes, aligned to {file.alignment}")
    lines.append("blocks:")
    lines += [
        f"  {i}: block {block.id}, bytes [{block.offset}, {block.offset + block.size})"
        for i, block in enumerate(file.blocks)
    ]
    lines.append("tensors:")
    lines += [f"  {i}: {_tensor(file, t)}" for i, t in enumerate(file.tensors)]
    for title, named in (("inputs", file.inputs), ("outputs", file.outputs)):
        lines.append(f"{title}:")
        lines += [f"  '{name}' = tensor {id}" for id, name in named]
    if file.states:
        lines.append("states:")
        pairs = zip(file.inputs[-file.states :], file.outputs[-file.states :], strict=True)
        lines += [f"  '{name}' = '{last}' of the previous run" for (_, name), (_, last) in pairs]
    lines.append("layers:")
    lines += [f"  {i}: {_layer(layer)}" for i, layer in enumerate(file.layers)]
    return "\n".join(lines) + "\n"


def _tensor(file: NnetFile, tensor: FileTensor) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    packed = f" in {tensor.bits} bits" if tensor.bits else ""
    text = f"'{tensor.name}' {shape} {tensor.storage}{packed}"
    if tensor.storage != "f32":
        point = f":{tensor.zero_point}" if tensor.zero_point else ""
        text += f" scale {tensor.scale!r}{point}"
    if tensor.location == "arena":
        gaps = f", rows {tensor.pitch} bytes apart" if tensor.pitch else ""
        return f"{text} in block {tensor.block} at {tensor.offset}{gaps}"
    crc = zlib.crc32(file.data(tensor))
    return f"{text} in {tensor.location} at {tensor.offset}, crc {crc:08x}"


def _layer(layer: FileLayer) -> str:
    operands = ", ".join(map(str, layer.operands))
    text = f"{layer.opcode} on {layer.device} '{layer.name}' ({operands}) -> {layer.result}"
    if layer.attributes:
        text += f" attributes {list(layer.attributes)}"
    if layer.function != "none":
        text += f" function {layer.function} {list(layer.parameters)}"
    if layer.residual:
        text += f" residual << {layer.residual_shift}"
    if (r := layer.requant) is not None:
        factor = f"* {r.multiplier} " if r.multiplier != 1 else ""
        factor = "* multipliers " if layer.multipliers else factor
        point = f" + {r.zero_point}" if r.zero_point else ""
        text += f" requant {factor}>> {r.shift} {r.rounding}{point} in [{r.low}, {r.high}]"
    return text if layer.table is None else f"{text} table {layer.table}"


Fields = tuple[tuple[str, int], ...]
"""The names of the fields of a record, and their sizes in bytes."""

HEADER_FIELDS: Fields = (
    ("magic", 8), ("version", 4), ("flags", 4), ("file size", 8), ("sections", 4),
    ("CRC-32 of header and section table", 4),
)  # fmt: skip
SECTION_FIELDS: Fields = (("type", 4), ("CRC-32", 4), ("offset", 8), ("size", 8))
WORD_FIELDS: Fields = (("", 4),)
NAMED_TENSOR_FIELDS: Fields = (("tensor", 4), ("name", 4))
RECORD_FIELDS: dict[str, Fields] = {
    "network": (
        ("arena size", 8), ("alignment", 4), ("tensors", 4), ("blocks", 4), ("inputs", 4),
        ("outputs", 4), ("layers", 4), ("states", 4), ("reserved", 4),
    ),
    "tensors": (
        ("name", 4), ("storage", 1), ("rank", 1), ("location", 1), ("packed bits", 1), ("scale", 4),
        ("zero point", 4), ("block", 4), ("pitch", 4), ("offset", 8),
        *((f"extent {i}", 4) for i in range(8)),
    ),
    "blocks": (("id", 4), ("reserved", 4), ("offset", 8), ("size", 8)),
    "inputs": NAMED_TENSOR_FIELDS,
    "outputs": NAMED_TENSOR_FIELDS,
    "layers": (
        ("opcode", 2), ("device", 1), ("flags", 1), ("name", 4), ("first operand", 4),
        ("operands", 4), ("result", 4), ("first attribute", 4), ("attributes", 4),
        ("function", 1), ("rounding", 1), ("shift", 1), ("residual shift", 1),
        ("parameter 0", 4), ("parameter 1", 4), ("multiplier", 4), ("zero point", 4),
        ("low", 4), ("high", 4), ("table", 4), ("reserved", 4),
    ),
    **dict.fromkeys(("operands", "attributes", "biases", "floats"), WORD_FIELDS),
}  # fmt: skip
"""The fields of the sections that consist of records. The other sections are printed as bytes."""
LINE_BYTES = 8


def annotate(data: bytes) -> str:
    """
    Return the bytes of a valid nnet file as hexadecimal text with the names of fields, without the
    padding between sections.
    """
    return "\n".join(_lines(data)) + "\n"


def _lines(data: bytes) -> Iterator[str]:
    sections = read(data).sections
    yield "header"
    yield from _fields(data, 0, HEADER_FIELDS)
    for i, name in enumerate(SECTIONS):
        yield f"section table: {name}"
        yield from _fields(data, 32 + 24 * i, SECTION_FIELDS)
    for i, (name, content) in enumerate(sections.items()):
        entry = 32 + 24 * i
        start = int.from_bytes(data[entry + 8 : entry + 16], "little")
        if (fields := RECORD_FIELDS.get(name)) is None:
            if content:
                yield f"{name}:"
            for at in range(0, len(content), LINE_BYTES):
                yield _line(data, start + at, min(LINE_BYTES, len(content) - at), "")
            continue
        size = sum(length for _, length in fields)
        for number in range(len(content) // size):
            yield f"{name}: {number}"
            yield from _fields(data, start + number * size, fields)


def _fields(data: bytes, at: int, fields: Fields) -> Iterator[str]:
    for name, length in fields:
        yield _line(data, at, length, name)
        at += length


def _line(data: bytes, at: int, length: int, name: str) -> str:
    return f"  {at:04x}  {data[at : at + length].hex(' '):{3 * LINE_BYTES - 1}}  {name}".rstrip()


@dataclass(frozen=True)
class NnetText(Target):
    """
    The target of `ceras-opt -t nnet`: print the blocks, tensors and layers of a module after memory
    planning.
    """

    name = "nnet"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        (file,) = emit(module)
        file.write(stream := BytesIO())
        output.write(dump(stream.getvalue()))
