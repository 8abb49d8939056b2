"""
Print an nnet file as tables, or byte by byte with the name of each field.

`ceras-nnet dump` and `ceras-opt -t nnet` print the tables, and a checksum for each constant.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from ceras_ir.backends.nnet.file import FileLayer, FileTensor, NnetFile
from ceras_ir.backends.nnet.reader import SECTIONS, read
from ceras_ir.backends.nnet.writer import emit


def dump(data: bytes) -> str:
    """Return the content of a file as text with a line per entry."""
    file = read(data)
    lines = [f"nnet version 4, {len(data)} bytes", "sections:"]
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
    text = f"'{tensor.name}' {shape} {tensor.storage}"
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
        ("name", 4), ("storage", 1), ("rank", 1), ("location", 1), ("reserved", 1), ("scale", 4),
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
"""The fields of the sections that consist of records. Other sections are printed as bytes."""
LINE_BYTES = 8


def annotate(data: bytes) -> str:
    """Return the bytes of a valid file, except padding between sections, with field names."""
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
    """Print the blocks, tensors and layers of a module after memory planning."""

    name = "nnet"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        (file,) = emit(module)
        file.write(stream := BytesIO())
        output.write(dump(stream.getvalue()))
