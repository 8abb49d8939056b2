"""
Prove of a finished stream that it does nothing that the array cannot do.

A second answer beside `stream.py`: it shares only the decoder, knows nothing of layers, and looks
at each instruction alone and at which rows have been written before they are read. A stream from
a file is not run unless this finds nothing.
"""

from collections.abc import Iterator

from ceras_ir.support.diagnostics import InputError
from ceras_systolic.isa import FIELDS, Instruction, Op, decode

BOUNDS: dict[str, tuple[int, int]] = {
    "pad": (-128, 127),
    "point": (-128, 127),
    "low": (-128, 127),
    "high": (-128, 127),
    "shift": (0, 31),
    "left": (0, 23),
    "stride": (1, 1 << 30),
    "step": (1, 1 << 16),
    "rows": (1, 1 << 24),
}
"""Of words whatever they are used for."""


class StreamChecker:
    """What is known of the array's memories while a stream is read."""

    def __init__(self, memory: int, writable: int, size: int, scratchpad: int, accumulators: int):
        self.memory, self.writable, self.size = memory, writable, size
        self.written = {"sp": bytearray(scratchpad), "acc": bytearray(accumulators)}
        self.configured = False

    def findings(self, instruction: Instruction) -> Iterator[str]:
        """Everything that is wrong with the next instruction."""
        op, word = instruction.op, dict(zip(FIELDS[instruction.op], instruction.words, strict=True))
        wrong = [
            f"{name} must be in [{low}, {high}], got {word[name]}"
            for name, (low, high) in BOUNDS.items()
            if name in word and not low <= word[name] <= high
        ]
        if "cols" in word and not 1 <= word["cols"] <= self.size:
            wrong.append(f"cols must be in [1, {self.size}], got {word['cols']}")
        if wrong:
            yield from wrong
            return
        if op is Op.CONFIG:
            self.configured = True
            if word["low"] > word["high"]:
                yield "the clamp range is empty"
        elif op in (Op.FILL, Op.MVOUT) and not self.configured:
            yield "nothing has been configured before"
        if "dram" in word:
            length = (word["rows"] - 1) * word.get("stride", 0) + word.get("cols", 4 * self.size)
            if op is Op.PRELOAD:
                length = 4 * self.size
            end = self.writable if op is Op.MVOUT else self.memory
            yield from _outside(f"memory of {end} bytes", word["dram"], length, end)
            if op is Op.PRELOAD and word["dram"] % 4:
                yield f"a bias begins at a multiple of 4, got {word['dram']}"
            if op is Op.MVOUT and word["rows"] > 1 and word["stride"] < word["cols"]:
                yield "rows of the result overlap"
        match op:
            case Op.MVIN | Op.FILL:
                yield from self._rows("sp", word["sp"], word["rows"], write=True)
            case Op.PRELOAD:
                yield from self._rows("acc", word["acc"], word["rows"], write=True)
            case Op.ADD | Op.MVOUT:
                yield from self._rows("acc", word["acc"], word["rows"])
            case Op.COMPUTE:
                if word["rows"] > self.size:
                    yield f"the array has {self.size} rows, got {word['rows']}"
                yield from self._rows("sp", word["a"], word["rows"], word["step"])
                yield from self._rows("sp", word["b"], self.size)
                yield from self._rows("acc", word["acc"], word["rows"])
            case Op.CONFIG:
                pass

    def _rows(
        self, which: str, start: int, count: int, step: int = 1, *, write: bool = False
    ) -> Iterator[str]:
        memory = self.written[which]
        length = (count - 1) * step + 1
        if outside := [*_outside(f"{which} of {len(memory)} rows", start, length, len(memory))]:
            yield from outside
        elif write:
            memory[start : start + length] = b"\1" * length
        elif not all(memory[start : start + length : step]):
            yield f"rows of {which} from {start} are read before they are written"


def _outside(what: str, start: int, length: int, end: int) -> Iterator[str]:
    if start < 0 or start + length > end:
        yield f"[{start}, {start + length}) is outside of the {what}"


def check_stream(stream: bytes, checker: StreamChecker, file: str) -> None:
    """Refuse a stream with the first instruction that is wrong."""
    for number, instruction in enumerate(decode(stream)):
        for finding in checker.findings(instruction):
            raise InputError(f"instruction {number} ({instruction}): {finding}", file)
