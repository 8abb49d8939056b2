"""Print an nnet file byte by byte, each field with its name: the example of the document."""

from collections.abc import Iterator

from ceras_ir.backends.nnet.reader import SECTIONS, read

Field = tuple[str, int]
HEADER: tuple[Field, ...] = (
    ("magic", 8), ("version", 4), ("flags", 4), ("file size", 8), ("sections", 4),
    ("CRC-32 of header and section table", 4),
)  # fmt: skip
ENTRY: tuple[Field, ...] = (("type", 4), ("CRC-32", 4), ("offset", 8), ("size", 8))
WORD: tuple[Field, ...] = (("", 4),)
BORDER: tuple[Field, ...] = (("tensor", 4), ("name", 4))
RECORDS: dict[str, tuple[Field, ...]] = {
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
    "inputs": BORDER,
    "outputs": BORDER,
    "layers": (
        ("opcode", 2), ("device", 1), ("flags", 1), ("name", 4), ("first operand", 4),
        ("operands", 4), ("result", 4), ("first attribute", 4), ("attributes", 4),
        ("function", 1), ("rounding", 1), ("shift", 1), ("residual shift", 1),
        ("parameter 0", 4), ("parameter 1", 4), ("multiplier", 4), ("zero point", 4),
        ("low", 4), ("high", 4), ("table", 4), ("reserved", 4),
    ),
    "operands": WORD,
    "attributes": WORD,
    "biases": WORD,
    "floats": WORD,
}  # fmt: skip
"""Sections made of records; the others are shown as plain bytes."""
WIDTH = 8


def annotate(data: bytes) -> str:
    """Every byte of a valid file that is not padding between sections."""
    return "\n".join(_lines(data)) + "\n"


def _lines(data: bytes) -> Iterator[str]:
    sections = read(data).sections
    yield "header"
    yield from _fields(data, 0, HEADER)
    for i, name in enumerate(SECTIONS):
        yield f"section table: {name}"
        yield from _fields(data, 32 + 24 * i, ENTRY)
    for i, (name, content) in enumerate(sections.items()):
        entry = 32 + 24 * i
        start = int.from_bytes(data[entry + 8 : entry + 16], "little")
        if name not in RECORDS:
            if content:
                yield f"{name}:"
            for at in range(0, len(content), WIDTH):
                yield _line(data, start + at, min(WIDTH, len(content) - at), "")
            continue
        size = sum(length for _, length in RECORDS[name])
        for number in range(len(content) // size):
            yield f"{name}: {number}"
            yield from _fields(data, start + number * size, RECORDS[name])


def _fields(data: bytes, at: int, fields: tuple[Field, ...]) -> Iterator[str]:
    for name, length in fields:
        yield _line(data, at, length, name)
        at += length


def _line(data: bytes, at: int, length: int, name: str) -> str:
    return f"  {at:04x}  {data[at : at + length].hex(' '):{3 * WIDTH - 1}}  {name}".rstrip()
