"""
Represent instructions of VTA as values, and check the limits that all implementations share.

Field names are from `hw_spec.h` in apache/tvm-vta. Sizes, strides and bases count elements of the
addressed memory. The functional simulator (`sim_driver.cc`), the HLS design (`vta.cc`) and the
Chisel RTL (`core/`) differ outside the portable subset. `violations` checks it for single
instructions; `check` has the rules that need micro-ops or the order of the stream. `encoding` has
the bits of instructions, `assembler` the text, `simulator` the semantics and `time` the cycles.
"""

from dataclasses import dataclass
from enum import IntEnum

from ceras_ir.support.options import inherited, options
from ceras_ir.targets.shared_options import BoardOptions

DEFAULT_BOARD_NAME = "tsim"
"""
The board of the Chisel design in the cycle-accurate simulator, on which the cycle model was
measured.
"""


@options
class VtaBoardOptions(BoardOptions):
    """The option `board` of the target vta and of its passes."""

    board: str = inherited(BoardOptions, "board", DEFAULT_BOARD_NAME)
    """Compile for this configuration of VTA: a built-in name, a .toml file or VTA's .json file."""


INSTRUCTION_BYTES = 16

PORTABLE_UOPS = 2048
"""
The number of micro-ops that all implementations can hold: that of the Chisel RTL (`uopMemDepth`),
in which higher indices wrap around.
"""

IMMEDIATE_RANGE = (-(2**15), 2**15 - 1)
"""The minimum and the maximum constant (immediate) of an ALU operation."""

SHR_RANGE = (-16, 15)
"""
The range of shift amounts: HLS uses five signed bits (`aluop_shr_arg_T`). Negative amounts shift
left.
"""

QUEUE_LENGTH = 512
"""
The number of instructions that can wait before a module (`instQueueEntries`, `STREAM_IN_DEPTH`).
"""

TOKEN_LIMIT = 255
"""The maximum number of tokens in a dependency queue: semaphores of the RTL have 8 bits."""

GEMM_PIPELINE = 2
"""
The number of other GEMM iterations that must be between two writes of the same accumulator: HLS
pipelines `acc_mem` with `DEPENDENCE inter false`.
"""

RESIDUAL_WEIGHT_BITS = 6
"""The maximum left shift n of a residual by a weight 2^n; 2^7 is not an int8."""


def is_immediate(value: int) -> bool:
    """Return whether an ALU operation can have `value` as a constant."""
    return IMMEDIATE_RANGE[0] <= value <= IMMEDIATE_RANGE[1]


class Opcode(IntEnum):
    """The kinds of instructions, with their values in bits [2:0]."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class MemoryType(IntEnum):
    """
    The on-chip memories. `ACC_8BIT` is the accumulator memory when it is loaded from int8 (not
    portable).
    """

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5


class AluOpcode(IntEnum):
    """The functions of the ALU on two int32 vectors; `MUL` is not part of the portable subset."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4


class Module(IntEnum):
    """
    The modules of VTA, which run concurrently. The token flags `prev` and `next` refer to the
    neighbor modules in this order.
    """

    LOAD = 0
    COMPUTE = 1
    STORE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """
    The token flags of an instruction: before execution, wait for a token of the previous or next
    module (pop); after execution, send it a token (push). Load has no previous module, store has no
    next one.
    """

    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


TOKEN_FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
"""The names of the token flags, which are the fields of `Tokens`."""


@dataclass(frozen=True, slots=True)
class Load(Tokens):
    """
    Copy `y_size` rows of `x_size` elements from DRAM to consecutive elements of `memory`, with
    zeros around them (the pads). Rows start `x_stride` elements apart in DRAM. A load with `x_size`
    0 copies no data and only carries tokens.
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
        return self.y_pad_top + self.y_size + self.y_pad_bottom

    @property
    def columns(self) -> int:
        return self.x_pad_left + self.x_size + self.x_pad_right

    @property
    def elements(self) -> int:
        """
        The number of elements, with padding, that the load writes on chip from `sram_base` on.
        """
        return self.rows * self.columns if self.x_size else 0


@dataclass(frozen=True, slots=True)
class Store(Tokens):
    """
    Copy consecutive elements of the memory OUT to `y_size` rows of `x_size` elements in DRAM. Rows
    start `x_stride` elements apart.
    """

    sram_base: int
    dram_base: int
    y_size: int
    x_size: int
    x_stride: int

    @property
    def elements(self) -> int:
        """The number of elements that the store reads on chip from `sram_base` on."""
        return self.y_size * self.x_size


class LoopNest:
    """
    The loops of GEMM and ALU instructions: an outer loop, an inner loop, and a range of micro-ops.
    """

    __slots__ = ()

    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int
    dst_factor_in: int
    src_factor_out: int
    src_factor_in: int

    @property
    def iterations(self) -> int:
        return self.iter_out * self.iter_in * max(0, self.uop_end - self.uop_bgn)

    @property
    def dst_factors(self) -> tuple[int, int]:
        return self.dst_factor_out, self.dst_factor_in

    @property
    def src_factors(self) -> tuple[int, int]:
        return self.src_factor_out, self.src_factor_in

    def last_index(self, first: int, factors: tuple[int, int]) -> int:
        """
        Return the maximum index of an operand, that of the last iteration, because factors are not
        negative. `first` is the index in the micro-op, `factors` are the increments of the outer
        and the inner loop.
        """
        return first + factors[0] * (self.iter_out - 1) + factors[1] * (self.iter_in - 1)


@dataclass(frozen=True, slots=True)
class Gemm(LoopNest, Tokens):
    """
    Accumulate products. For i < iter_out, j < iter_in and each micro-op u in [uop_bgn, uop_end):

    `acc[u.dst + i * dst_factor_out + j * dst_factor_in] += inp[u.src + ...] . wgt[u.wgt + ...]^T`

    in wrapping int32, and OUT at the same index becomes the low 8 bits. With `reset`, the
    accumulator becomes zero and OUT is not changed.
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
    def wgt_factors(self) -> tuple[int, int]:
        return self.wgt_factor_out, self.wgt_factor_in


@dataclass(frozen=True, slots=True)
class Alu(LoopNest, Tokens):
    """
    Apply `acc[dst] = opcode(acc[dst], operand)` sequentially, in the loop order of `Gemm`. The
    operand is the immediate or `acc[src]`. OUT at `dst` becomes the low 8 bits.
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


@dataclass(frozen=True, slots=True)
class Finish(Tokens):
    """Signal the end of the stream to the host. This is the last instruction."""


Instruction = Load | Store | Gemm | Alu | Finish


def module_of(instruction: Instruction) -> Module:
    match instruction:
        case Store():
            return Module.STORE
        case Load(memory=MemoryType.INP | MemoryType.WGT):
            return Module.LOAD
        case _:
            return Module.COMPUTE


def describe(instruction: Instruction) -> str:
    """Return a short name of an instruction for messages, such as `load inp` or `alu add`."""
    match instruction:
        case Load(memory=memory):
            return f"load {memory.name.lower()}"
        case Alu(opcode=opcode):
            return f"alu {opcode.name.lower()}"
        case _:
            return type(instruction).__name__.lower()


TokenQueue = tuple[int, int]
"""
A dependency queue: the numbers of the module that pushes and of the module that pops its tokens.
"""


def tokens_popped(i: Instruction) -> list[TokenQueue]:
    """
    Return the dependency queues from which `i` pops a token. A flag for a neighbor module that does
    not exist is ignored.
    """
    m = module_of(i)
    return [(other, int(m)) for other in _neighbours(m, i.pop_prev, i.pop_next)]


def tokens_pushed(i: Instruction) -> list[TokenQueue]:
    """
    Return the dependency queues to which `i` pushes a token. A flag for a neighbor module that does
    not exist is ignored.
    """
    m = module_of(i)
    return [(int(m), other) for other in _neighbours(m, i.push_prev, i.push_next)]


def _neighbours(module: Module, has_previous: bool, has_next: bool) -> list[int]:
    either = ((module - 1, has_previous), (module + 1, has_next))
    return [other for other, is_set in either if is_set and 0 <= other <= Module.STORE]


def violations(instruction: Instruction) -> list[str]:
    """
    Return messages that explain how a single instruction violates the portable subset, on which all
    implementations of VTA agree; an empty list if it does not.
    """
    found = _token_violations(instruction)
    match instruction:
        case Load() as i:
            found += _load_violations(i)
        case Store() as i:
            if i.x_size and not i.y_size:
                found.append("y_size must not be 0 unless x_size is")
        case Gemm() | Alu() as i:
            found += _loop_violations(i)
        case Finish() as i:
            if i.pop_prev or i.pop_next or i.push_prev or i.push_next:
                found.append("finish must carry no tokens: drain with no-ops before it")
    return found


def _token_violations(i: Instruction) -> list[str]:
    module = module_of(i)
    if module is Module.LOAD and (i.pop_prev or i.push_prev):
        return ["the load module has no previous module: pop_prev and push_prev must be off"]
    if module is Module.STORE and (i.pop_next or i.push_next):
        return ["the store module has no next module: pop_next and push_next must be off"]
    return []


def _load_violations(i: Load) -> list[str]:
    found: list[str] = []
    padded = i.y_pad_top or i.y_pad_bottom or i.x_pad_left or i.x_pad_right
    if i.memory is MemoryType.ACC_8BIT:
        found.append("acc_8bit loads exist in newer implementations only: load acc")
    if i.x_size == 0:
        if padded:
            found.append("a no-op (x_size 0) must have no pads")
        return found
    if i.y_size == 0:
        found.append("y_size must not be 0 unless x_size is")
    if i.memory is MemoryType.UOP and i.y_size != 1:
        found.append(f"micro-op loads must have y_size 1, got {i.y_size}")
    if padded and i.memory in (MemoryType.WGT, MemoryType.UOP):
        found.append(f"{i.memory.name.lower()} loads must have no pads")
    return found


def _loop_violations(i: Gemm | Alu) -> list[str]:
    found: list[str] = []
    if not i.uop_bgn < i.uop_end:
        found.append(f"empty micro-op range [{i.uop_bgn}, {i.uop_end})")
    if i.uop_end > PORTABLE_UOPS:
        found.append(f"uop_end must be at most {PORTABLE_UOPS}, got {i.uop_end}")
    if i.iter_out < 1 or i.iter_in < 1:
        found.append(f"iterations must be at least 1, got {i.iter_out} x {i.iter_in}")
    if isinstance(i, Gemm):
        return found
    if i.opcode is AluOpcode.MUL:
        found.append("mul exists in newer implementations only")
    low, high = SHR_RANGE
    if i.opcode is AluOpcode.SHR and i.use_imm and not low <= i.imm <= high:
        found.append(f"shift amount must be in [{low}, {high}], got {i.imm}")
    if i.use_imm and i.src_factors != i.dst_factors:
        found.append(
            f"an immediate operation must have src factors equal to dst factors, "
            f"got {list(i.src_factors)} and {list(i.dst_factors)}"
        )
    return found
