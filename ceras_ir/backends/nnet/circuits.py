"""
The circuits in SystemVerilog: sizes, sources, registers, and the files for a board.

Each number is defined in a single source and read from there: registers in
`hdl/layer_registers.sv`, sizes of the core in the other modules of `hdl/`, and limits of the engine
in the headers of `runtime/`. The header `registers.h` of the engine and the table in
docs/nnet-board.md are printed from these. The scripts for a board are text: no tool of a vendor
runs here.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from ceras_ir.support.native import STREAM_FIFO

PACKAGE = Path(__file__).parent

_NUMBER = re.compile(
    # A minimum, as in `LANES < 8 ? LANES : 8`, is read as the upper limit.
    r"(?:constexpr \w+|localparam|parameter) (\w+) = (?:u?int64_t\{|\w+ < \d+ \? \w+ : )?"
    r"(\d+)u?\}?(?: << (\d+))?[;,\s]"
)


@cache
def _numbers(source: str) -> dict[str, int]:
    text = (PACKAGE / source).read_text("ascii")
    return {name: int(n) << int(shift or 0) for name, n, shift in _NUMBER.findall(text)}


def number(source: str, name: str) -> int:
    """The integer constant `name` in a C++ or SystemVerilog source of this package."""
    return _numbers(source)[name]


ALIGNMENT = 64
"""Bytes between places for values in the memory arena: a multiple of the bus."""
TOP = "nnet_core"
CORE = f"hdl/{TOP}.sv"
FIRST = "layer_registers.sv"
"""A package, which every reader of the sources wants to see before its users."""


@dataclass(frozen=True)
class CircuitSize:
    """Parameters of `hdl/nnet_core.sv`; the defaults are those of the module."""

    lanes: int = number(CORE, "LANES")
    """Rows and columns of the array."""
    bus_bytes: int = number(CORE, "BUS_BYTES")
    line_bytes: int = number(CORE, "LINE_BYTES")
    """Rows of the input on chip."""
    result_bytes: int = number(CORE, "RESULT_BYTES")
    """Results, and as much of the residual, in two halves."""
    paired: bool = bool(number(CORE, "PAIRED"))
    """Two products in one multiplier."""
    tables: int = number(CORE, "TABLES")
    """Function tables that the channels of a layer may have; none where it is 0."""

    def parameters(self) -> dict[str, int]:
        """By the names of the module."""
        return {name.upper(): int(value) for name, value in asdict(self).items()}


DEFAULT = CircuitSize()
CHAIN_SOURCE = "hdl/product_array.sv"
SHARED_NUMBERS = {
    "PIXELS": (CORE, "of a block, at most"),
    "CHAIN": (CHAIN_SOURCE, "rows of the array that add up in a column, at most"),
}
"""Numbers of the core that `registers.h` gives to the engine, with their sources."""


def package_source() -> Path:
    """The package that lists the registers."""
    return PACKAGE / "hdl" / FIRST


def circuit_sources() -> list[Path]:
    """The modules, the package of registers first."""
    own = sorted(package_source().parent.glob("*.sv"), key=lambda path: path.name != FIRST)
    return [*own, STREAM_FIFO]


HEADER = "registers.h"
_CONSTANT = re.compile(r"^  localparam (\w+) = (\d+);(?:  // (.*))?$", re.MULTILINE)
_FIELD = re.compile(r"^    logic \[(\d+):0\] (\w+);(?:  // (.*))?$", re.MULTILINE)
_COUNTED = re.compile(r"(signed )?(\d+) bits(?:; )?")


@dataclass(frozen=True)
class RegisterConstant:
    """A number of the package, and what its comment says."""

    name: str
    value: int
    meaning: str


@dataclass(frozen=True)
class Field:
    """A register of a launch: its first word of a layer's, and its bits there."""

    name: str
    word: int
    shift: int
    bits: int
    """Of which there is room."""
    counted: int
    """Which the circuits look at."""
    signed: bool
    meaning: str

    @property
    def least(self) -> int:
        return -(1 << (self.counted - 1)) if self.signed else 0

    @property
    def most(self) -> int:
        return (1 << (self.counted - self.signed)) - 1

    def read(self, words: Sequence[int]) -> int:
        """The value of the register in the words of a layer."""
        low = words[self.word] | (words[self.word + 1] << 32 if self.bits > 32 else 0)
        value = low >> self.shift & (1 << self.bits) - 1
        return value - (1 << self.bits) if self.signed and value >> self.bits - 1 else value


@dataclass(frozen=True)
class RegisterMap:
    """All of them, in the order of their addresses."""

    control: Sequence[RegisterConstant]
    """Numbers of words, and what else the package counts."""
    fields: Sequence[Field]
    modes: Sequence[RegisterConstant]
    """Bits of the register `mode`."""

    def address(self, field: Field) -> int:
        """Of the word that `field` begins in, in bytes."""
        return 4 * (self.constant("LAYER") + field.word)

    def constant(self, name: str) -> int:
        return next(c.value for c in self.control if c.name == name)


@cache
def register_map() -> RegisterMap:
    """What the package says."""
    text = package_source().read_text("ascii")
    start, end = text.index("typedef struct"), text.index("} layer_t;")
    constants = [
        [
            RegisterConstant(name, int(value), meaning)
            for name, value, meaning in _CONSTANT.findall(part)
        ]
        for part in (text[:start], text[end:])
    ]
    fields: list[Field] = []
    bit = 0
    for high, name, meaning in _FIELD.findall(text[start:end]):
        bits = int(high) + 1
        # Within a word the first is at the top.
        word, shift = bit // 32, 0 if bits == 64 else 32 - bit % 32 - bits
        found = _COUNTED.match(meaning)
        counted, signed = (int(found[2]), bool(found[1])) if found else (bits, False)
        rest = meaning[found.end() :] if found else meaning
        fields.append(Field(name, word, shift, bits, counted, signed, rest))
        bit += bits
    known = RegisterMap(constants[0], fields, constants[1])
    assert bit == 32 * known.constant("WORDS")
    return known


def registers_header() -> str:
    """`registers.h` of the engine."""
    known = register_map()
    lines = [
        "// The registers of the circuits, made of hdl/layer_registers.sv.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
        "namespace ceras::registers {",
        "",
        "// Where a field is in the words of a layer, and the numbers that it holds.",
        "struct Field {",
        "  const char* name;",
        "  int word, shift, bits;",
        "  int64_t least, most;",
        "};",
        "",
    ]
    lines += [f"constexpr uint32_t {c.name} = {c.value};" for c in known.control]
    lines += [f"constexpr uint32_t {c.name} = 1u << {c.value};" for c in known.modes]
    for f in known.fields:
        # Bytes of either sign are what the circuits take of eight bits.
        least, most = (-128, 255) if f.counted == f.bits == 8 else (f.least, f.most)
        place = f'"{f.name}", {f.word}, {f.shift}, {f.bits}'
        lines.append(f"constexpr Field {_constant_name(f)}{{{place}, {least}, {most}}};")
    lines += ["", "}  // namespace ceras::registers", "", "namespace ceras {", ""]
    for name, (source, meaning) in SHARED_NUMBERS.items():
        lines.append(f"constexpr int CORE_{name} = {number(source, name)};  // {meaning}")
    return "\n".join([*lines, "", "}  // namespace ceras", ""])


def register_table() -> str:
    """The same for people: address, name, what it is."""
    known = register_map()
    words = [c for c in known.control if c.name not in ("WORDS", "VERSION", "LAYER")]
    rows = [(4 * c.value, c.name.lower(), "", c.meaning) for c in words]
    for f in known.fields:
        bits = f"{f.shift + f.bits - 1}:{f.shift}" if f.bits < 32 else ""
        limit = f"{f.least} to {f.most}" if f.signed else f"up to {f.most:#x}"
        rows.append((known.address(f), f.name, bits, "; ".join(filter(None, (limit, f.meaning)))))
    lines = ["| address | register | bits | what it is |", "|---|---|---|---|"]
    rows.sort(key=lambda row: row[0])
    lines += [f"| {at:#05x} | `{name}` | {bits} | {text} |" for at, name, bits, text in rows]
    return "\n".join(lines) + "\n"


def _constant_name(field: Field) -> str:
    return field.name.upper()


FOLDER = PACKAGE / "board"


def write_board_files(folder: Path, size: CircuitSize) -> None:
    """Write sources, wrapper, block design and device tree of a core of `size`."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in circuit_sources():
        (folder / path.name).write_bytes(path.read_bytes())
    for path in sorted(FOLDER.iterdir()):
        text = path.read_text("ascii")
        for name, value in size.parameters().items():
            text = text.replace(f"@{name}@", str(value))
        (folder / path.name).write_text(text, "ascii")
