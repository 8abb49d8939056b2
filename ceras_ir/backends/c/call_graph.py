"""
Bound the stack of a program: the sum of the frames along the deepest path of the call graph.

Frames of the printed C are those that gcc writes with `-fcallgraph-info=su`. Frames of library
functions, and all calls, follow from the disassembly. Each instruction that lowers the stack
pointer counts once, which is a bound if it is not in a loop; library functions for memory and
floats have no such loop. There is no bound with recursion, calls through pointers, or frames whose
size is computed at run time.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

INDIRECT = "__indirect_call"
"""The callee that gcc writes for a call through a pointer."""


class NoBoundError(Exception):
    """The stack of a program has no known bound. The message is the reason, a clause."""


@dataclass
class Function:
    """
    A function of the linked program: the bytes of the stack frame, and the symbols of the functions
    that it calls.
    """

    frame: float = 0
    """The bytes of the frame; infinite if they are computed at run time."""
    callees: set[str] = field(default_factory=set[str])
    next: str = ""
    """The function in which an assembler routine continues."""


@dataclass(frozen=True)
class StackBound:
    """
    The path of calls with the largest sum of stack frames: pairs of a function and the bytes of its
    frame.
    """

    frames: tuple[tuple[str, int], ...]

    @property
    def nbytes(self) -> int:
        return sum(frame for _, frame in self.frames)


_NODE = re.compile(r'node: \{ title: "([^"]*)" label: "[^"]*?\\n([0-9]+) bytes \(([a-z,]*)\)')
_EDGE = re.compile(r'edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"')


def compiled_functions(call_graph: str) -> dict[str, Function]:
    """
    Return the functions in a file that gcc writes with `-fcallgraph-info=su`, by symbol. The frame
    of a function is infinite if its size is not known at compile time.
    """
    found: dict[str, Function] = {}
    for title, size, kind in _NODE.findall(call_graph):
        is_static = kind == "static" or kind.endswith("bounded")
        found[_symbol(title)] = Function(int(size) if is_static else inf)
    for caller, callee in _EDGE.findall(call_graph):
        found.setdefault(_symbol(caller), Function(inf)).callees.add(_symbol(callee))
    return found


def _symbol(title: str) -> str:
    """
    Remove the file name from the title of a static function in the call graph: `model.c:layer_0` ->
    `layer_0`.
    """
    return title.rpartition(":")[2]


@dataclass(frozen=True)
class InstructionSet:
    """
    The instructions of a processor that change the stack pointer or the flow of control, as
    patterns for a disassembly.
    """

    lowers: re.Pattern[str]
    """An instruction that lowers the stack pointer: group `bytes`, or `registers` of a list."""
    computed: re.Pattern[str]
    """An instruction that changes the stack pointer by the value of a register."""
    indirect: re.Pattern[str]
    """A call of the address in a register. Jumps are tables of cases in library functions."""
    calls: re.Pattern[str]
    """An instruction that stores a return address."""
    leaves: re.Pattern[str]
    """An instruction after which the next is not executed."""


THUMB = InstructionSet(
    lowers=re.compile(
        r"(?:v?push|v?stmdb|stmfd)\S*\s(?:sp!, )?\{(?P<registers>[^}]*)\}"
        r"|subw?(?:\.w)?\s(?:sp, )?sp, #(?P<bytes>[0-9]+)"
        r"|sub\ssp, #(?P<short>[0-9]+)"
        r"|v?str\S*\s.*\[sp, #-(?P<indexed>[0-9]+)\]!"
    ),
    computed=re.compile(r"(?:add|sub)\S*\s(?:sp, )?sp, r[0-9]+|msr\s[mp]sp"),
    indirect=re.compile(r"blx\s(?:r[0-9]+|ip|lr)"),
    calls=re.compile(r"blx?\s"),
    leaves=re.compile(r"b(?:\.[nw])?\s|bx\s|pop\S*\s\{.*pc\}|ldm\S*\s.*pc\}|mov\spc, lr|udf"),
)
RISCV = InstructionSet(
    lowers=re.compile(r"(?:c\.)?addi?(?:16sp)?\ssp,(?:sp,)?-(?P<bytes>[0-9]+)"),
    computed=re.compile(r"(?:add|sub)\ssp,sp,[ast]|mv\ssp,(?!s0)"),
    indirect=re.compile(r"jalr\s(?:ra,)?(?:0\()?[ast][0-9]+\)?$"),
    calls=re.compile(r"jalr?\s"),
    leaves=re.compile(r"j\s|ret$|jr\s|mret|unimp|ebreak"),
)
INSTRUCTION_SETS: Mapping[str, InstructionSet] = {
    "arm-none-eabi-": THUMB,
    "riscv64-unknown-elf-": RISCV,
}
"""The instruction set by the prefix of the compiler."""

SAVE_ROUTINE, SAVE_BYTES = "__riscv_save_", 64
"""The routines with which RISC-V functions store registers, and the most bytes that they take."""

_LABEL = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
_INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\t(.+)$")
# objdump 2.40 prints VCTP of Helium as a branch future (`bfcsel`), which gcc does not use.
_TARGET = re.compile(r"(?:b(?!f)|cb|j)\S*\s.*<(?P<name>[^>+]+)(?P<offset>\+0x[0-9a-f]+)?>")
_RANGE = re.compile(r"([a-z]+)([0-9]+)-[a-z]+([0-9]+)")


def linked_functions(disassembly: str, instructions: InstructionSet) -> dict[str, Function]:
    """
    Return the functions of a linked program, by symbol: frames and calls according to
    `disassembly`, the output of `objdump -d --no-show-raw-insn`.
    """
    found: dict[str, Function] = {}
    name, falls_into = "", False
    for line in disassembly.splitlines():
        if label := _LABEL.match(line):
            if falls_into:
                found[name].next = label[1]
            name, falls_into = label[1], False
            found.setdefault(name, Function())
        elif (instruction := _INSTRUCTION.match(line)) and not instruction[1].startswith("."):
            text, current = instruction[1], found[name]
            if text.startswith("nop"):
                continue
            if lowered := instructions.lowers.match(text):
                current.frame += _lowered_bytes(lowered)
            if instructions.computed.match(text):
                current.frame = inf
            if instructions.indirect.match(text):
                current.callees.add(INDIRECT)
            elif target := _TARGET.match(text):
                if target["name"].startswith(SAVE_ROUTINE):
                    current.frame += SAVE_BYTES
                elif target["name"] != name or _calls_start(target, instructions):
                    current.callees.add(target["name"])
            falls_into = not instructions.leaves.match(text)
    return found


def _calls_start(target: re.Match[str], instructions: InstructionSet) -> bool:
    """
    Return whether an instruction with `target`, a symbol and an offset in the same function, calls
    the start of this function (recursion). A far jump inside the function is the same instruction,
    but with an offset from the start.
    """
    return target["offset"] is None and instructions.calls.match(target[0]) is not None


def _lowered_bytes(instruction: re.Match[str]) -> int:
    groups = instruction.groupdict()
    if (registers := groups.get("registers")) is None:
        return int(next(v for k, v in groups.items() if k != "registers" and v is not None))
    return sum(_register_bytes(part.strip()) for part in registers.split(","))


def _register_bytes(part: str) -> int:
    """
    Return the bytes of the registers in `part` of a push: a register, or a range such as r4-r7
    (16).
    """
    size = 8 if part.startswith("d") else 4
    known = _RANGE.fullmatch(part)
    return size if known is None else size * (int(known[3]) - int(known[2]) + 1)


def stack_bound(
    root: str, compiled: Mapping[str, Function], linked: Mapping[str, Function]
) -> StackBound:
    """
    Return the path of calls from the function `root` with the most bytes of stack.

    The frame of a function is from `compiled`, the report of the compiler, or if that does not have
    the function, from `linked`, the disassembled program. Calls are from `linked`. Recursion, calls
    through pointers and frames of unknown size raise `NoBoundError`.
    """
    known: dict[str, tuple[tuple[str, int], ...]] = {}

    def visit(name: str, callers: Sequence[str]) -> tuple[tuple[str, int], ...]:
        if name in callers:
            raise NoBoundError(f"{name} is recursive")
        if name not in known:
            own, function = compiled.get(name), linked.get(name)
            if function is None:
                raise NoBoundError(f"{callers[-1]} calls {name}, which is not in the program")
            frame = function.frame if own is None else _frame(own, function)
            callees = function.callees - {INDIRECT}
            if own is None and function.next:
                callees.add(function.next)
            if INDIRECT in (function if own is None else own).callees:
                raise NoBoundError(f"{name} calls a function through a pointer")
            if frame == inf:
                raise NoBoundError(f"the frame of {name} has no fixed size")
            paths = [visit(callee, [*callers, name]) for callee in sorted(callees)]
            deepest = max(paths, key=_depth, default=())
            known[name] = ((name, int(frame)), *deepest)
        return known[name]

    return StackBound(visit(root, []))


def _frame(own: Function, function: Function) -> float:
    """
    Return the bytes of the frame of a function: the larger of `own`, reported by the compiler, and
    `function`, from the disassembly. The compiler does not report assembler statements, and the
    disassembly does not have the size of every large frame.
    """
    return own.frame if function.frame == inf else max(own.frame, function.frame)


def _depth(path: Sequence[tuple[str, int]]) -> int:
    return sum(frame for _, frame in path)
