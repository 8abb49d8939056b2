"""
Prove that a finished stream contains only operations that the array supports.

This check is independent of `stream.py`: it shares only the decoder and does not use the layers. It
checks each instruction separately, and that rows are written before they are read.
"""

from collections.abc import Iterator

from ceras_ir.support.diagnostics import InputError
from ceras_systolic.machine import WORD, Op, decode

BYTE, COUNT = (-128, 127), (0, 1 << 28)
BOUNDS = {"pad": BYTE, "point": BYTE, "low": BYTE, "high": BYTE, "shift": (0, 31), "left": (0, 23)}
"""The bounds of these words, for all instructions; all other words are counts."""


class StreamChecker:
    """The state of the memories while a stream is decoded."""

    def __init__(self, memory: int, writable: int, size: int, scratch: int, sums: int):
        self.memory, self.writable, self.size = memory, writable, size
        self.written = {"scratchpad": bytearray(scratch), "accumulators": bytearray(sums)}

    def findings(self, op: Op, word: dict[str, int]) -> Iterator[str]:
        """List all errors of the next instruction."""
        for name, value in word.items():
            low, high = BOUNDS.get(name, (0, self.size) if name == "cols" else COUNT)
            if not low <= value <= high:
                yield f"{name} must be in [{low}, {high}], got {value}"
                return
        rows = word.get("rows", 0)
        if not rows and op not in (Op.CONFIG, Op.MVIN):
            yield "there are no rows"
        if op is Op.CONFIG and word["low"] > word["high"]:
            yield "the clamp range is empty"
        if op is Op.COMPUTE and (rows > self.size or not word["step"]):
            yield f"the array has {self.size} rows, and no step of 0"
        if "dram" in word and rows:
            length = (rows - 1) * word.get("stride", 0) + word.get("cols", 4 * self.size)
            end = self.writable if op is Op.MVOUT else self.memory
            yield from _outside("memory", word["dram"], length, end)
        if "sp" in word:
            count = word["before"] + rows + word["after"]
            yield from self._rows("scratchpad", word["sp"], count, write=True)
        if "a" in word:
            yield from self._rows("scratchpad", word["a"], rows, max(1, word["step"]))
            yield from self._rows("scratchpad", word["b"], self.size)
        if "acc" in word:
            yield from self._rows("accumulators", word["acc"], rows, write=op is Op.PRELOAD)

    def _rows(
        self, name: str, start: int, rows: int, step: int = 1, *, write: bool = False
    ) -> Iterator[str]:
        memory, length = self.written[name], max(0, (rows - 1) * step + 1)
        yield from (wrong := [*_outside(name, start, length, len(memory))])
        if write and not wrong:
            memory[start : start + length] = b"\1" * length
        elif not wrong and not all(memory[start : start + length : step]):
            yield f"rows of the {name} from {start} are read before they are written"


def _outside(name: str, start: int, length: int, end: int) -> Iterator[str]:
    if start + length > end:
        yield f"[{start}, {start + length}) leaves the {end} of the {name}"


def check_stream(stream: bytes, checker: StreamChecker, file: str) -> None:
    """Reject a stream with an error that names the first wrong instruction."""
    if len(stream) % WORD.size:
        raise InputError("a stream ends within an instruction", file)
    for number, instruction in enumerate(decode(stream)):
        if number == 0 and instruction.op is not Op.CONFIG:
            raise InputError("a stream begins with CONFIG", file)
        for finding in checker.findings(instruction.op, instruction.fields):
            raise InputError(f"instruction {number} ({instruction}): {finding}", file)
