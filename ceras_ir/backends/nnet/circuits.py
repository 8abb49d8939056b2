"""
Describe the circuits in SystemVerilog: sizes, sources, registers, and the files for a board.

Each number is defined in a single source, which this module parses: registers in
`hdl/layer_registers.sv`, sizes of the core in the other modules of `hdl/`, and limits of the engine
in the headers of `runtime/`. The header `registers.h` of the engine and the table in
docs/nnet-board.md are printed from these. The files for a board are written without tools of
vendors.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from ceras_ir.support.block_design import PROCESSORS, BusCore, design_files
from ceras_ir.support.native import AXI_LITE_PORT, SKID_BUFFER, STREAM_FIFO
from ceras_ir.support.registers import RegisterConstant, register_constants

NNET_FOLDER = Path(__file__).parent

_NUMBER = re.compile(
    # Of a minimum, such as `LANES < 8 ? LANES : 8`, the upper limit is read.
    r"(?:constexpr \w+|localparam|parameter) (\w+) = (?:u?int64_t\{|\w+ < \d+ \? \w+ : )?"
    r"(\d+)u?\}?(?: << (\d+))?[;,\s]"
)


@cache
def _numbers(source: str) -> dict[str, int]:
    text = (NNET_FOLDER / source).read_text("ascii")
    return {name: int(n) << int(shift or 0) for name, n, shift in _NUMBER.findall(text)}


def number(source: str, name: str) -> int:
    """
    Return the integer constant `name` of a C++ or SystemVerilog file of this package; `source` is
    the path of the file, such as "hdl/nnet_core.sv".
    """
    return _numbers(source)[name]


ARENA_ALIGNMENT_BYTES = 64
"""The alignment in bytes of values in the memory arena: a multiple of the bus width."""
CORE_MODULE = "nnet_core"
CORE_SOURCE = f"hdl/{CORE_MODULE}.sv"
REGISTER_PACKAGE = "layer_registers.sv"
"""
The SystemVerilog file that declares the registers. Tools must read it before the modules that use
it.
"""


@dataclass(frozen=True)
class CircuitSize:
    """
    The size of the FPGA core: the parameters of the SystemVerilog module `hdl/nnet_core.sv`, which
    is the source of the defaults.
    """

    lanes: int = number(CORE_SOURCE, "LANES")
    """The number of rows and of columns of the array."""
    bus_bytes: int = number(CORE_SOURCE, "BUS_BYTES")
    line_bytes: int = number(CORE_SOURCE, "LINE_BYTES")
    """The size of the line buffer, which holds rows of the input."""
    result_bytes: int = number(CORE_SOURCE, "RESULT_BYTES")
    """The size of the buffer of results, and of the residual buffer; both have two halves."""
    paired: bool = bool(number(CORE_SOURCE, "PAIRED"))
    """Whether a multiplier of the FPGA computes two products of int8 per cycle."""
    tables: int = number(CORE_SOURCE, "TABLES")
    """The maximum number of function tables of a layer; 0 if the core has no tables."""

    def parameters(self) -> dict[str, int]:
        """Return the values of the parameters by their names in SystemVerilog."""
        return {name.upper(): int(value) for name, value in asdict(self).items()}


DEFAULT = CircuitSize()
CHAIN_SOURCE = "hdl/product_array.sv"
SHARED_NUMBERS = {
    "PIXELS": (CORE_SOURCE, "of a block, at most"),
    "CHAIN": (CHAIN_SOURCE, "rows of the array that are added in a column, at most"),
}
"""The limits of the core that `registers.h` repeats for the engine: source file, and comment."""


def package_source() -> Path:
    """Return the path of the SystemVerilog package that declares the registers."""
    return NNET_FOLDER / "hdl" / REGISTER_PACKAGE


def circuit_sources() -> list[Path]:
    """
    Return the SystemVerilog sources of all modules; the package that declares the registers is
    first.
    """
    package = package_source()
    own = sorted({*package.parent.glob("*.sv")} - {package})
    return [package, AXI_LITE_PORT, *own, STREAM_FIFO, SKID_BUFFER]


HEADER = "registers.h"
_FIELD = re.compile(r"^    logic \[(\d+):0\] (\w+);(?:  // (.*))?$", re.MULTILINE)
_USED_BITS = re.compile(r"(signed )?(\d+) bits(, not 0)?(?:; )?")
_NOT_WORDS = ("WORDS", "VERSION", "LAYER", "DESCRIPTOR_BYTES")
"""The constants of the package, before the registers of a launch, that are no word of the port."""


@dataclass(frozen=True)
class RegisterField:
    """
    A register of a launch: `word` is the index of its first 32-bit word, `shift` its lowest bit in
    this word, because small registers share a word.
    """

    name: str
    word: int
    shift: int
    bits: int
    """The width of the field in the words."""
    used_bits: int
    """The number of low bits that the circuits use; the others are 0, or copies of the sign."""
    signed: bool
    is_positive: bool
    """Whether a launch needs a value other than 0."""
    meaning: str

    @property
    def limits(self) -> tuple[int, int]:
        """The minimum and the maximum value that the register can have."""
        low = -(1 << (self.used_bits - 1)) if self.signed else int(self.is_positive)
        return low, (1 << (self.used_bits - self.signed)) - 1

    def read(self, words: Sequence[int]) -> int:
        """Return the value of the register from the words of all registers of a launch."""
        low = words[self.word] | (words[self.word + 1] << 32 if self.bits > 32 else 0)
        value = low >> self.shift & (1 << self.bits) - 1
        return value - (1 << self.bits) if self.signed and value >> self.bits - 1 else value


@dataclass(frozen=True)
class RegisterMap:
    """All registers of the core, parsed from SystemVerilog, in the order of their addresses."""

    control: Sequence[RegisterConstant]
    """The constants of the package: word indices of control registers, version, and sizes."""
    fields: Sequence[RegisterField]
    flags: Sequence[RegisterConstant]
    """The bits of the registers `mode`, `control` and `status`."""

    @property
    def words(self) -> Sequence[RegisterConstant]:
        """
        The control registers: words of the port that are not part of the description of a launch.
        """
        return [c for c in self.control if c.name not in _NOT_WORDS]

    def address(self, field: RegisterField) -> int:
        """Return the address in bytes of the first word of a register of a launch."""
        return 4 * (self.constant("LAYER") + field.word)

    def constant(self, name: str) -> int:
        return next(c.value for c in self.control if c.name == name)


@cache
def register_map() -> RegisterMap:
    """Return the registers that the SystemVerilog package declares."""
    text = package_source().read_text("ascii")
    start, end = text.index("typedef struct"), text.index("} layer_t;")
    control, flags = register_constants(text[:start]), register_constants(text[end:])
    fields: list[RegisterField] = []
    bit = 0
    for high, name, meaning in _FIELD.findall(text[start:end]):
        bits = int(high) + 1
        # The first field of a word has the most significant bits.
        word, shift = bit // 32, 0 if bits == 64 else 32 - bit % 32 - bits
        found = _USED_BITS.match(meaning)
        used, signed = (int(found[2]), bool(found[1])) if found else (bits, False)
        positive = found is not None and found[3] is not None
        rest = meaning[found.end() :] if found else meaning
        fields.append(RegisterField(name, word, shift, bits, used, signed, positive, rest))
        bit += bits
    known = RegisterMap(control, fields, flags)
    assert bit == 32 * known.constant("WORDS")
    return known


def registers_header() -> str:
    """
    Return the text of the C++ header `registers.h`, which contains word, bits and limits of each
    register for the engine.
    """
    known = register_map()
    lines = [
        "// The registers of the circuits, generated from hdl/layer_registers.sv.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
        "namespace ceras::registers {",
        "",
        "// The position of a field in the words of a layer, and the lowest and highest value.",
        "struct Field {",
        "  const char* name;",
        "  int word, shift, bits;",
        "  int64_t least, most;",
        "};",
        "",
    ]
    lines += [f"constexpr uint32_t {c.name} = {c.value};" for c in known.control]
    lines += [f"constexpr uint32_t {c.name} = 1u << {c.value};" for c in known.flags]
    for f in known.fields:
        # The circuits accept signed and unsigned bytes in fields of eight bits.
        low, high = (-128, 255) if f.used_bits == f.bits == 8 else f.limits
        position = f'"{f.name}", {f.word}, {f.shift}, {f.bits}'
        lines.append(f"constexpr Field {f.name.upper()}{{{position}, {low}, {high}}};")
    lines += ["", "}  // namespace ceras::registers", "", "namespace ceras {", ""]
    for name, (source, meaning) in SHARED_NUMBERS.items():
        lines.append(f"constexpr int CORE_{name} = {number(source, name)};  // {meaning}")
    return "\n".join([*lines, "", "}  // namespace ceras", ""])


def register_table() -> str:
    """Return the registers of the core as a Markdown table: address, name, bits with meaning."""
    known = register_map()
    rows = [(4 * c.value, c.name.lower(), c.meaning) for c in known.words]
    for f in known.fields:
        bits = f"bits {f.shift + f.bits - 1}:{f.shift}" if f.bits < 32 else ""
        low, high = f.limits
        limit = f"{low} to {high}" if f.signed else f"{f'{low} to' if low else 'up to'} {high:#x}"
        rows.append((known.address(f), f.name, "; ".join(filter(None, (bits, limit, f.meaning)))))
    lines = ["| address | register | values, meaning |", "|---|---|---|"]
    rows.sort(key=lambda row: row[0])
    lines += [f"| {at:#05x} | `{name}` | {text} |" for at, name, text in rows]
    return "\n".join(lines) + "\n"


LIMITS_MODULE = "register_limits"


def limits_module() -> str:
    """
    Return the text of the SystemVerilog module that tests whether a word of a launch is outside the
    limits of the registers, so that the core can refuse the launch.
    """
    known = register_map()
    faults: dict[int, list[str]] = {}
    for f in known.fields:
        # The circuits use the lowest bits of a field.
        high = f.shift + min(f.bits, 32) - 1
        used = f.used_bits if f.bits <= 32 else f.used_bits - 32
        word = f.word if f.bits <= 32 else f.word + 1
        bits = f"value[{high}:{f.shift + used - f.signed}]"
        if used < min(f.bits, 32):
            faults.setdefault(word, []).append(
                f"({bits} != 0 && {bits} != '1)" if f.signed else f"{bits} != 0"
            )
        if f.is_positive:
            faults.setdefault(word, []).append(f"value[{high}:{f.shift}] == 0")
    words = known.constant("WORDS")
    positive = sum({1 << f.word for f in known.fields if f.is_positive})
    cases = [f"      6'd{word}: outside = {' || '.join(t)};" for word, t in sorted(faults.items())]
    return "\n".join(
        [
            "// The limits of the words of a layer, generated from layer_registers.sv.",
            f"module {LIMITS_MODULE} (",
            "    input logic [5:0] word,",
            "    input logic [31:0] value,",
            "    output logic outside,",
            f"    output logic [{words - 1}:0] zero_outside  // for each word, with the value 0",
            ");",
            f"  assign zero_outside = {words}'h{positive:x};",
            "",
            "  always_comb begin",
            "    case (word)",
            *cases,
            "      default: outside = 0;",
            "    endcase",
            "  end",
            "endmodule",
            "",
        ]
    )


ADDRESS_BITS = 9
"""The width of addresses of registers."""
BOARD = {
    "board": "the ZCU104",
    "part": "xczu7ev-ffvc1156-2-e",
    "board_files": "xilinx.com:zcu104",
}
CLOCK_MHZ = 200


def write_board_files(folder: Path, size: CircuitSize) -> None:
    """
    Write to `folder`, which is created if necessary, the sources, wrapper, block design and device
    tree for a core of `size`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in circuit_sources():
        (folder / path.name).write_bytes(path.read_bytes())
    parameters = {k: v for k, v in size.parameters().items() if k != "BUS_BYTES"}
    core = BusCore(
        "nnet",
        CORE_MODULE,
        size.bus_bytes,
        ADDRESS_BITS,
        parameters,
        ports="    // Resets only the core: transfers in progress are finished.\n"
        "    input wire core_reset,\n",
        connections={"core_rst": "core_reset", "m_rlast": "m_axi_rlast"},
    )
    found = design_files(
        core, PROCESSORS["zynq_ultrascale"], **BOARD, clock_mhz=CLOCK_MHZ, sources=["*.sv"]
    )
    for name, text in found.items():
        (folder / name).write_text(text, "ascii")
