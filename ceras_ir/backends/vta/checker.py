"""
Prove a stream good, without trust in whoever made it.

Token balance, hazards between modules, ranges, initialised reads and the portable subset.
Apart from decoding, nothing here is shared with the builder or the simulator.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.check_memory import MemoryChecker
from ceras_ir.backends.vta.check_order import find_order
from ceras_ir.backends.vta.encoding import DEFAULT_BOARD, decode
from ceras_ir.backends.vta.findings import StreamFinding
from ceras_ir.backends.vta.isa import Instruction
from ceras_ir.backends.vta.micro_ops import encode_micro_ops
from ceras_ir.backends.vta.portable import violations
from ceras_ir.backends.vta.program import VtaProgram

MOST_FINDINGS = 100
"""After these many there is little to learn from more."""


def check_stream(
    instructions: bytes | Sequence[Instruction],
    uop_words: NDArray[np.uint32],
    uop_base: int = 0,
    board: VtaBoard = DEFAULT_BOARD,
    dram_bytes: int | None = None,
    most: int = MOST_FINDINGS,
) -> list[StreamFinding]:
    """
    What is wrong with a stream, in the order of the stream and `most` at most; empty for a good
    one. `uop_words` is what DRAM holds from 4-byte element `uop_base` on: a micro-op table, or a
    whole image, which has the amounts of shifts by vectors too.
    """
    stream = decode(instructions, board) if isinstance(instructions, bytes) else instructions
    found: list[StreamFinding] = []
    for index, i in enumerate(stream):
        found += [StreamFinding(index, "portable", message) for message in violations(i)]
    order, token_findings = find_order(stream)
    found += token_findings

    def report(index: int, rule: str, message: str) -> None:
        found.append(StreamFinding(index, rule, message))

    memory = MemoryChecker(stream, order, board, uop_words, uop_base, dram_bytes, report)
    for index in order.sequence:
        memory.visit(index)
        if len(found) >= most:
            break
    return sorted(found, key=lambda f: f.index)[:most]


def check_program(
    program: VtaProgram,
    board: VtaBoard = DEFAULT_BOARD,
    dram_bytes: int | None = None,
    most: int = MOST_FINDINGS,
) -> list[StreamFinding]:
    """What is wrong with `program`; empty for a good one."""
    words = encode_micro_ops(program.micro_ops, board)
    base = program.uop_base
    return check_stream(program.instructions, words, base, board, dram_bytes, most)
