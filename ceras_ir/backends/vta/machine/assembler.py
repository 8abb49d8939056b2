"""
Read `.vtas` text, the assembly language of VTA, into instructions and micro-ops, and print them.

A line has a mnemonic, `key=value` fields in any order and token flags. A semicolon starts a
comment. `.uops N` is the position in DRAM (in 4-byte elements) of the table of the `uop` lines.
Printed text omits defaults (no padding, factors 0). Input text may omit `y=1`, and `stride` if
equal to `x`. Mistakes are `InputError`s at FILE:LINE:COL.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import (
    DEFAULT_VTA_BOARD,
    VtaProgram,
    field_limits,
    micro_op_limits,
    micro_ops,
)
from ceras_ir.backends.vta.machine.isa import (
    TOKEN_FLAGS,
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Store,
)
from ceras_ir.support.diagnostics import InputError

_TRANSFER = {
    "sram": ("sram_base",),
    "dram": ("dram_base",),
    "y": ("y_size",),
    "x": ("x_size",),
    "stride": ("x_stride",),
}
_PADS = {"pad": ("y_pad_top", "y_pad_bottom", "x_pad_left", "x_pad_right")}
_LOOP = {
    "uops": ("uop_bgn", "uop_end"),
    "iter": ("iter_out", "iter_in"),
    "dst": ("dst_factor_out", "dst_factor_in"),
    "src": ("src_factor_out", "src_factor_in"),
}
OPERAND_KEYS: dict[type[Instruction], dict[str, tuple[str, ...]]] = {
    Load: _TRANSFER | _PADS,
    Store: _TRANSFER,
    Gemm: _LOOP | {"wgt": ("wgt_factor_out", "wgt_factor_in")},
    Alu: _LOOP | {"imm": ("imm",), "unused_imm": ("imm",)},
    Finish: {},
}
"""For each kind of instruction, the keys of a line in order, and the fields that each key sets."""
_REQUIRED: dict[type[Instruction], tuple[str, ...]] = {
    Load: ("sram", "dram", "x"),
    Store: ("sram", "dram", "x"),
    Gemm: ("uops", "iter"),
    Alu: ("uops", "iter"),
    Finish: (),
}
_MNEMONICS: dict[str, type[Instruction]] = {
    **{f"load.{m.name.lower()}": Load for m in MemoryType if m is not MemoryType.OUT},
    "store": Store,
    "gemm": Gemm,
    "gemm.reset": Gemm,
    **{f"alu.{op.name.lower()}": Alu for op in AluOpcode},
    "finish": Finish,
}
_WORD = re.compile(r"[^\s,]+(?:,[^\s,]+)*,?")


@dataclass(frozen=True)
class _Line:
    """The file and the line number of a line of `.vtas` text, for messages."""

    file: str
    number: int

    def error(self, column: int, message: str) -> NoReturn:
        raise InputError(message, f"{self.file}:{self.number}:{column + 1}")

    def integer(self, text: str, column: int) -> int:
        try:
            return int(text, 0)
        except ValueError:
            self.error(column, f"expected an integer, got '{text}'")


def assemble_program(
    text: str, file: str = "<vtas>", board: VtaBoard = DEFAULT_VTA_BOARD
) -> VtaProgram:
    instructions: list[Instruction] = []
    table: list[list[int]] = []
    base = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = _Line(file, number)
        words = [(m[0], m.start()) for m in _WORD.finditer(raw.split(";", 1)[0])]
        if not words:
            continue
        (mnemonic, column), *rest = words
        match mnemonic:
            case ".uops":
                if len(rest) != 1:
                    line.error(column, "expected `.uops ELEMENT`")
                base = line.integer(*rest[0])
            case "uop":
                table.append(_micro_op(line, column, rest, board))
            case _:
                instructions.append(_instruction(line, mnemonic, column, rest, board))
    return VtaProgram(tuple(instructions), micro_ops(table), base)


def _micro_op(line: _Line, column: int, words: list[tuple[str, int]], board: VtaBoard) -> list[int]:
    values = [
        (line.integer(part, at), at) for word, at in words for part in word.rstrip(",").split(",")
    ]
    if len(values) != 3:
        line.error(column, "expected `uop DST, SRC, WGT`")
    for (value, at), limit in zip(values, micro_op_limits(board), strict=True):
        if not 0 <= value < limit:
            line.error(at, f"index must be in [0, {limit - 1}], got {value}")
    return [value for value, _ in values]


def _instruction(
    line: _Line, mnemonic: str, column: int, words: list[tuple[str, int]], board: VtaBoard
) -> Instruction:
    if (kind := _MNEMONICS.get(mnemonic)) is None:
        line.error(column, f"unknown instruction '{mnemonic}'")
    limits = field_limits(kind, board)
    fields: dict[str, int] = {}
    flags: dict[str, bool] = {}
    keys: set[str] = set()
    for word, at in words:
        key, equals, text = word.partition("=")
        if key in keys:
            line.error(at, f"'{key}' given twice")
        keys.add(key)
        if key in TOKEN_FLAGS and not equals:
            flags[key] = True
            continue
        if (names := OPERAND_KEYS[kind].get(key)) is None or not equals:
            known = ", ".join((*(f"{k}=" for k in OPERAND_KEYS[kind]), *TOKEN_FLAGS))
            line.error(at, f"unexpected '{word}' after '{mnemonic}', expected {known}")
        at += len(key) + 1
        parts = text.split(":" if key == "uops" else ",")
        if len(parts) != len(names):
            line.error(at, f"'{key}' takes {len(names)} values, got {len(parts)}")
        for name, part in zip(names, parts, strict=True):
            value = line.integer(part, at)
            low, high = limits[name]
            if not low <= value <= high:
                line.error(at, f"{name} must be in [{low}, {high}], got {value}")
            fields[name] = value
            at += len(part) + 1
    for key in _REQUIRED[kind]:
        if key not in keys:
            line.error(column, f"'{mnemonic}' without '{key}='")
    return _build(kind, mnemonic, fields, flags, use_imm="imm" in keys)


def _build(
    kind: type[Instruction],
    mnemonic: str,
    fields: dict[str, int],
    flags: dict[str, bool],
    use_imm: bool,
) -> Instruction:
    suffix = mnemonic.partition(".")[2].upper()
    if kind is Load or kind is Store:
        fields.setdefault("y_size", 1)
        fields.setdefault("x_stride", fields["x_size"])
    if kind is Load:
        return Load(MemoryType[suffix], **fields, **flags)
    if kind is Store:
        return Store(**fields, **flags)
    if kind is Gemm:
        return Gemm(**fields, reset=suffix == "RESET", **flags)
    if kind is Alu:
        return Alu(AluOpcode[suffix], use_imm=use_imm, **fields, **flags)
    return Finish(**flags)


_ALWAYS = frozenset({"sram", "dram", "y", "x", "stride", "uops", "iter"})
"""The keys that are printed even if they are zero."""


def print_instruction(instruction: Instruction) -> str:
    match instruction:
        case Load(memory=memory):
            words = [f"load.{memory.name.lower()}"]
        case Gemm(reset=True):
            words = ["gemm.reset"]
        case Alu(opcode=opcode):
            words = [f"alu.{opcode.name.lower()}"]
        case _:
            words = [type(instruction).__name__.lower()]
    keys = dict(OPERAND_KEYS[type(instruction)])
    if isinstance(instruction, Alu):
        del keys["unused_imm" if instruction.use_imm else "imm"]
    for key, names in keys.items():
        values = [getattr(instruction, name) for name in names]
        if any(values) or key in _ALWAYS or key == "imm":
            words.append(f"{key}={(':' if key == 'uops' else ',').join(map(str, values))}")
    words += [flag for flag in TOKEN_FLAGS if getattr(instruction, flag)]
    return " ".join(words)


def disassemble(instructions: Iterable[Instruction]) -> str:
    """
    Return instructions as `.vtas` text, a line each, without micro-ops. Each 16th line has the
    index of the instruction as comment.
    """
    lines: list[str] = []
    for index, instruction in enumerate(instructions):
        line = print_instruction(instruction)
        lines.append(f"{line}  ; {index}\n" if index % 16 == 0 else f"{line}\n")
    return "".join(lines)


def disassemble_program(program: VtaProgram) -> str:
    """
    Return a program as `.vtas` text: the position of the table of micro-ops in DRAM, the table, and
    the instructions.
    """
    lines = [f".uops {program.uop_base}\n"]
    rows: list[list[int]] = program.micro_ops.tolist()
    lines += [f"uop {dst}, {src}, {wgt}\n" for dst, src, wgt in rows]
    return "".join(lines) + "\n" + disassemble(program.instructions)
