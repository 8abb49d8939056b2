"""
Instructions as `.vtas` text, one per line; `assembler` reads it back to the same values.

What is left out has a default: no pads, factors 0. The four token flags are words at the end
of the line.
"""

from collections.abc import Iterable

from ceras_ir.backends.vta.assembler import KEYS
from ceras_ir.backends.vta.isa import FLAGS, Alu, Gemm, Instruction, Load
from ceras_ir.backends.vta.program import VtaProgram

_ALWAYS = frozenset({"sram", "dram", "y", "x", "stride", "uops", "iter"})
"""What is printed even where it is zero."""


def print_instruction(instruction: Instruction) -> str:
    """The line of `instruction`."""
    match instruction:
        case Load(memory=memory):
            words = [f"load.{memory.name.lower()}"]
        case Gemm(reset=True):
            words = ["gemm.reset"]
        case Alu(opcode=opcode):
            words = [f"alu.{opcode.name.lower()}"]
        case _:
            words = [type(instruction).__name__.lower()]
    keys = dict(KEYS[type(instruction)])
    if isinstance(instruction, Alu):
        del keys["unused_imm" if instruction.use_imm else "imm"]
    for key, names in keys.items():
        values = [getattr(instruction, name) for name in names]
        if any(values) or key in _ALWAYS or key == "imm":
            words.append(f"{key}={(':' if key == 'uops' else ',').join(map(str, values))}")
    words += [flag for flag in FLAGS if getattr(instruction, flag)]
    return " ".join(words)


def disassemble(instructions: Iterable[Instruction]) -> str:
    """The text of a stream without its micro-ops, a comment with the index every 16 lines."""
    lines: list[str] = []
    for index, instruction in enumerate(instructions):
        line = print_instruction(instruction)
        lines.append(f"{line}  ; {index}\n" if index % 16 == 0 else f"{line}\n")
    return "".join(lines)


def disassemble_program(program: VtaProgram) -> str:
    """The text of a program: micro-op table with its place in DRAM, then the stream."""
    lines = [f".uops {program.uop_base}\n"]
    rows: list[list[int]] = program.micro_ops.tolist()
    lines += [f"uop {dst}, {src}, {wgt}\n" for dst, src, wgt in rows]
    return "".join(lines) + "\n" + disassemble(program.instructions)
