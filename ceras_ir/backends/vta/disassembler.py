"""
Instructions as `.vtas` text, one per line; `assembler` reads it back to the same values.

What is left out has a default: no pads, factors 0. The four token flags are words at the end
of the line.
"""

from collections.abc import Iterable

from ceras_ir.backends.vta.isa import FLAGS, Alu, Finish, Gemm, Instruction, Load, Store
from ceras_ir.backends.vta.program import VtaProgram


def print_instruction(instruction: Instruction) -> str:
    """The line of `instruction`."""
    words: list[str] = []
    match instruction:
        case Load() as i:
            words += [f"load.{i.memory.name.lower()}", *_transfer(i)]
            pads = (i.y_pad_top, i.y_pad_bottom, i.x_pad_left, i.x_pad_right)
            if any(pads):
                words.append(f"pad={','.join(map(str, pads))}")
        case Store() as i:
            words += ["store", *_transfer(i)]
        case Gemm() as i:
            words += ["gemm.reset" if i.reset else "gemm", *_loop(i)]
            words += _pair("wgt", i.wgt_factor_out, i.wgt_factor_in)
        case Alu() as i:
            words += [f"alu.{i.opcode.name.lower()}", *_loop(i)]
            if i.use_imm:
                words.append(f"imm={i.imm}")
            elif i.imm:
                words.append(f"unused_imm={i.imm}")
        case Finish():
            words.append("finish")
    words += [flag for flag in FLAGS if getattr(instruction, flag)]
    return " ".join(words)


def _transfer(i: Load | Store) -> list[str]:
    size = [f"y={i.y_size}", f"x={i.x_size}", f"stride={i.x_stride}"]
    return [f"sram={i.sram_base}", f"dram={i.dram_base}", *size]


def _loop(i: Gemm | Alu) -> list[str]:
    words = [f"uops={i.uop_bgn}:{i.uop_end}", f"iter={i.iter_out},{i.iter_in}"]
    words += _pair("dst", i.dst_factor_out, i.dst_factor_in)
    return words + _pair("src", i.src_factor_out, i.src_factor_in)


def _pair(name: str, outer: int, inner: int) -> list[str]:
    return [f"{name}={outer},{inner}"] if outer or inner else []


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
