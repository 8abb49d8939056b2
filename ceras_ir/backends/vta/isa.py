"""
VTA's instructions as values: what the three modules execute, without bits and without text.

Field names are those of `hw_spec.h` in apache/tvm-vta. Sizes, strides and bases count elements
of the memory they address. `encoding` gives them bits, `assembler` text, `simulator` meaning.
"""

from dataclasses import dataclass
from enum import IntEnum


class Opcode(IntEnum):
    """Bits [2:0] of every instruction."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class MemoryType(IntEnum):
    """The on-chip memories; `ACC_8BIT` is the accumulator loaded from int8 (not portable)."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5


class AluOpcode(IntEnum):
    """What an ALU instruction does with two int32 vectors; `MUL` is not portable."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4


class Module(IntEnum):
    """The units that run concurrently; `prev` and `next` of a flag are neighbours here."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """
    Dependence flags: wait for a token of the previous or next module before running, give it
    one afterwards. Load has no previous module, store no next.
    """

    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
"""The fields of `Tokens`."""


@dataclass(frozen=True, slots=True)
class Load(Tokens):
    """
    Copy `y_size` rows of `x_size` elements, `x_stride` apart in DRAM, to consecutive elements
    of `memory`, with zeros around them. `x_size == 0` moves nothing and carries tokens.
    """

    memory: MemoryType
    sram_base: int
    dram_base: int
    y_size: int
    x_size: int
    x_stride: int
    y_pad_top: int = 0
    y_pad_bottom: int = 0
    x_pad_left: int = 0
    x_pad_right: int = 0

    @property
    def rows(self) -> int:
        """Rows written on chip, padding included."""
        return self.y_pad_top + self.y_size + self.y_pad_bottom

    @property
    def columns(self) -> int:
        """Elements of one row on chip, padding included."""
        return self.x_pad_left + self.x_size + self.x_pad_right

    @property
    def elements(self) -> int:
        """Elements written on chip, from `sram_base` on."""
        return self.rows * self.columns if self.x_size else 0


@dataclass(frozen=True, slots=True)
class Store(Tokens):
    """Copy consecutive elements of OUT to `y_size` rows in DRAM, `x_stride` apart."""

    sram_base: int
    dram_base: int
    y_size: int
    x_size: int
    x_stride: int

    @property
    def elements(self) -> int:
        """Elements read on chip, from `sram_base` on."""
        return self.y_size * self.x_size


@dataclass(frozen=True, slots=True)
class Gemm(Tokens):
    """
    For i < iter_out, j < iter_in and each micro-op u in [uop_bgn, uop_end):
    `acc[u.dst + i * dst_factor_out + j * dst_factor_in] += inp[u.src + ...] . wgt[u.wgt + ...]^T`
    in wrapping int32, and OUT at the same index becomes the low 8 bits. With `reset`, the
    accumulator becomes zero and OUT is left alone.
    """

    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int = 0
    dst_factor_in: int = 0
    src_factor_out: int = 0
    src_factor_in: int = 0
    wgt_factor_out: int = 0
    wgt_factor_in: int = 0
    reset: bool = False

    @property
    def iterations(self) -> int:
        """How many micro-operations run."""
        return self.iter_out * self.iter_in * max(0, self.uop_end - self.uop_bgn)


@dataclass(frozen=True, slots=True)
class Alu(Tokens):
    """
    In the loop order of `Gemm`, one after the other: `acc[dst] = opcode(acc[dst], other)` with
    `other` the immediate or `acc[src]`, and OUT at `dst` becomes the low 8 bits.
    """

    opcode: AluOpcode
    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int = 0
    dst_factor_in: int = 0
    src_factor_out: int = 0
    src_factor_in: int = 0
    use_imm: bool = False
    imm: int = 0

    @property
    def iterations(self) -> int:
        """How many micro-operations run."""
        return self.iter_out * self.iter_in * max(0, self.uop_end - self.uop_bgn)


@dataclass(frozen=True, slots=True)
class Finish(Tokens):
    """Tell the host that the stream is done; the last instruction."""


Instruction = Load | Store | Gemm | Alu | Finish


def module_of(instruction: Instruction) -> Module:
    """The module that executes `instruction`."""
    match instruction:
        case Store():
            return Module.STORE
        case Load(memory=MemoryType.INP | MemoryType.WGT):
            return Module.LOAD
        case _:
            return Module.COMPUTE


def describe(instruction: Instruction) -> str:
    """A short name for messages: `load inp`, `alu add`."""
    match instruction:
        case Load(memory=memory):
            return f"load {memory.name.lower()}"
        case Alu(opcode=opcode):
            return f"alu {opcode.name.lower()}"
        case _:
            return type(instruction).__name__.lower()


TokenQueue = tuple[int, int]
"""The numbers of the module that gives the tokens of a queue, and of the one that takes them."""


def tokens_taken(i: Instruction) -> list[TokenQueue]:
    """The queues that `i` takes a token from; flags for modules that do not exist are left out."""
    m = int(module_of(i))
    return [
        (other, m)
        for other, is_set in ((m - 1, i.pop_prev), (m + 1, i.pop_next))
        if is_set and 0 <= other <= Module.STORE
    ]


def tokens_given(i: Instruction) -> list[TokenQueue]:
    """The queues that `i` gives a token to, likewise."""
    m = int(module_of(i))
    return [
        (m, other)
        for other, is_set in ((m - 1, i.push_prev), (m + 1, i.push_next))
        if is_set and 0 <= other <= Module.STORE
    ]
