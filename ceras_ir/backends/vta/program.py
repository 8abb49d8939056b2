"""
A stream with its micro-ops as one value, and its form in the `vta` dialect, which holds the same
fields, one operation per instruction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.dialect import operations as vta
from ceras_ir.backends.vta.encoding import DEFAULT_BOARD, encode
from ceras_ir.backends.vta.isa import Instruction
from ceras_ir.backends.vta.micro_ops import MicroOps, encode_micro_ops


@dataclass(frozen=True, eq=False)
class VtaProgram:
    """Instructions, and the micro-op table that they load from element `uop_base` of DRAM."""

    instructions: Sequence[Instruction]
    micro_ops: MicroOps
    uop_base: int = 0
    """Where the table is, in 4-byte elements."""
    kernels: Sequence[int] = ()
    """For every instruction, the number of the kernel that it is of; empty if there is one."""

    def instruction_bytes(self, board: VtaBoard = DEFAULT_BOARD) -> bytes:
        """The stream as VTA fetches it."""
        return encode(self.instructions, board)

    def micro_op_bytes(self, board: VtaBoard = DEFAULT_BOARD) -> bytes:
        """The table as it must be in DRAM, at byte `4 * uop_base`."""
        return encode_micro_ops(self.micro_ops, board).astype("<u4").tobytes()


def program_to_op(program: VtaProgram, name: str) -> vta.ProgramOp:
    """`program` as operations."""
    body = [vta.from_instruction(i) for i in program.instructions]
    return vta.ProgramOp(name, program.micro_ops, program.uop_base, body)
