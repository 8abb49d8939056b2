"""
How much flash and SRAM a printed model takes on a board, before any compiler has run.

Constants and buffers are exact, alignment included. Code is estimated from the text of the C: so
many bytes for each operator in it (`board.py`), measured with gcc 12 -Os over the networks of
`test/backends/arduino/test_sizes.py`, which holds the estimate to its margin.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from ceras_ir.backends.c.board import Board, Core
from ceras_ir.backends.c.constants import Constant
from ceras_ir.backends.c.model import Model
from ceras_ir.backends.c.source import model_source
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.memory.liveness import Liveness, analyse, steps

BYTES_PER_INSTRUCTION = 4
"""Of assembler: few of its instructions have a short form."""

START_UP_BYTES = 700
"""Vectors, start-up code, memcpy and memset, and the caller."""

_OPERATORS = re.compile(r"[-+*/<>=?&|]+|\[|\(")
_LITERALS = re.compile(r"[0-9]f\b")
"""Floats, which lie in flash beside the code."""
_INSTRUCTION = re.compile(r'^ *"([^"]*)\\n\\t"', re.MULTILINE)
_COMMENTS = re.compile(r"/\*.*?\*/", re.DOTALL)


def code_bytes(text: str, core: Core) -> int:
    """The estimate for C source `text` on a core."""
    compiled = _for_dsp(_COMMENTS.sub("", text))
    operators = len(_OPERATORS.findall(_INSTRUCTION.sub("", compiled)))
    fixed = BYTES_PER_INSTRUCTION * _assembler(compiled) + 4 * len(_LITERALS.findall(compiled))
    return round(core.bytes_per_operator * operators) + fixed


def _for_dsp(text: str) -> str:
    """Of what is there with and without the DSP extension, the former: others have neither."""
    lines: list[str] = []
    taken: list[bool | None] = []
    for line in text.splitlines():
        if line.startswith("#if"):
            taken.append(True if "__ARM_FEATURE_DSP" in line else None)
        elif line.startswith("#else") and taken and taken[-1] is not None:
            taken[-1] = False
        elif line.startswith("#endif") and taken:
            taken.pop()
        elif False not in taken:
            lines.append(line)
    return "\n".join(lines)


def _assembler(text: str) -> int:
    """Instructions of assembler in `text`, repetitions included."""
    count, times = 0, 1
    for instruction in _INSTRUCTION.findall(text):
        if instruction.startswith(".rept"):
            times = int(instruction.split()[1])
        elif instruction.startswith(".endr"):
            times = 1
        elif not instruction.endswith(":"):
            count += times
    return count


def constant_bytes(constants: Sequence[Constant]) -> int:
    """Flash of constants in this order; each ends in the NUL of its string literal."""
    # Of variants under conditions one is compiled, and all have the same size.
    chosen = {c.name: c for c in constants}
    end = 0
    for constant in chosen.values():
        align = constant.alignment
        start = -(-end // align) * align
        end = start + -(-(constant.nbytes + 1) // align) * align
    return end


@dataclass(frozen=True)
class LayerSize:
    """What one layer adds to flash, and what lives in SRAM while it runs."""

    name: str
    flash: int
    sram: int
    kernel: str
    """How it is computed, where there is a choice."""


@dataclass(frozen=True)
class Footprint:
    """A model against its board."""

    board: Board
    layers: list[LayerSize]
    constants: int
    code: int
    arena: int
    buffers: int
    """Inputs and outputs of the sketch."""
    widest: tuple[int, int] | None = None
    """Of a chain of matrix products: its widest hidden layer, and the widest that would fit."""

    @property
    def flash(self) -> int:
        return self.constants + self.code

    @property
    def sram(self) -> int:
        return self.arena + self.buffers

    @property
    def excess(self) -> tuple[int, int]:
        """Bytes of SRAM and of flash that the board lacks."""
        sram, flash = self.sram - self.board.free_sram, self.flash - self.board.free_flash
        return max(sram, 0), max(flash, 0)

    @property
    def fits(self) -> bool:
        return self.excess == (0, 0)

    @classmethod
    def of(cls, model: Model, board: Board) -> "Footprint":
        liveness, core = analyse(model.program.main), board.known_core
        pool = model.pool.constants
        order = steps(model.program.main)
        own = set(model.functions.values())
        layers = [
            LayerSize(
                node_name(layer.op),
                constant_bytes([c for c in pool if c.name.startswith(f"layer_{layer.index}_")])
                + (code_bytes("\n".join(layer.lines), core) if layer.index in own else 0),
                alive(liveness, order, layer.op) + layer.scratch_bytes,
                layer.kernel,
            )
            for layer in model.layers
        ]
        code = code_bytes(model_source(model, 0), core) + code_bytes(model.kernels.text, core)
        code += core.float_library_bytes
        buffers = sum(t.nbytes for t in model.tensors)
        return cls(
            board, layers, constant_bytes(pool), code + START_UP_BYTES, model.arena_bytes, buffers
        )

    def to_json(self) -> dict[str, object]:
        """The board's side of the totals of `report.json`."""
        wide = {} if self.widest is None else {"largest_hidden_that_fits": self.widest[1]}
        return {
            **wide,
            "flash_bytes": self.flash,
            "sram_bytes": self.sram,
            "constant_bytes": self.constants,
            "code_bytes": self.code,
            "board_flash_bytes": self.board.free_flash,
            "board_sram_bytes": self.board.free_sram,
        }

    def line(self) -> str:
        """Both memories in a sentence."""
        return (
            f"{self.board.title}: flash {self.flash:,} of {self.board.free_flash:,} bytes "
            f"({share(self.flash, self.board.free_flash)}), SRAM {self.sram:,} of "
            f"{self.board.free_sram:,} bytes ({share(self.sram, self.board.free_sram)})"
        )

    def width_line(self) -> str:
        """How wide the hidden layers might be, in a sentence; nothing where that means nothing."""
        if self.widest is None:
            return ""
        now, most = self.widest
        return (
            f"hidden layers of up to {most:,} would fit as they are stored now; they have {now:,}"
        )


def share(part: int, whole: int) -> str:
    """`part` of `whole` in percent."""
    return f"{100 * part / whole:.0f}%"


def alive(liveness: Liveness, order: Sequence[Operation], op: Operation) -> int:
    """Bytes of the arena that hold something while `op` runs."""
    step = order.index(op)
    return sum(b.size for b in liveness.buffers if b.lower <= step < b.upper)
