"""
Where transfers of a stream are in DRAM, if its image does not begin at address 0.

VTA adds the base register of a transfer's memory to its offset; drivers of VTA leave all registers
0 and have absolute addresses in streams, or one buffer for each memory and its address in the
register. Either way is brought to an image whose first byte is address 0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.isa import Instruction, Load, MemoryType, Store, describe
from ceras_ir.support.diagnostics import InputError

NAMES = {
    memory.name.lower(): memory
    for memory in (
        *(MemoryType.UOP, MemoryType.WGT, MemoryType.INP),
        *(MemoryType.ACC, MemoryType.OUT),
    )
}
"""Memories that have a base register."""

_REGISTER_OF = {MemoryType.ACC_8BIT: MemoryType.ACC}


def rebased(
    stream: Iterable[Instruction],
    board: VtaBoard,
    base: int = 0,
    pointers: Mapping[MemoryType, int] | None = None,
    *,
    ored: bool = False,
) -> list[Instruction]:
    """
    The same stream for an image whose first byte was at address `base`, with `pointers` in the
    base registers, or none; `ored` where registers are not added, as in VTA's Chisel design.
    """
    found: list[Instruction] = []
    for index, i in enumerate(stream):
        if not isinstance(i, Load | Store) or not i.x_size:
            found.append(i)
            continue
        memory = i.memory if isinstance(i, Load) else MemoryType.OUT
        unit = board.element_bytes(memory)
        pointer = (pointers or {}).get(_REGISTER_OF.get(memory, memory), 0)
        offset = i.dram_base * unit & 0xFFFFFFFF
        address = pointer | offset if ored else pointer + offset
        if address < base or (address - base) % unit:
            raise InputError(
                f"instruction {index} ({describe(i)}): address {address:#x} is not a multiple of "
                f"{unit} bytes from the image's, {base:#x}"
            )
        found.append(replace(i, dram_base=(address - base) // unit))
    return found


def parse_address(text: str, what: str) -> int:
    """An address as the command line has it."""
    try:
        address = int(text, 0)
    except ValueError:
        address = -1
    if not 0 <= address < 1 << 32:
        raise InputError(f"{what}: expected an address below 2^32, got '{text}'")
    return address


def parse_pointers(text: str) -> dict[MemoryType, int]:
    """`inp=0x1000,wgt=0x5000`: what is in base registers; the others are 0."""
    found: dict[MemoryType, int] = {}
    for part in text.split(","):
        name, _, address = part.partition("=")
        if name not in NAMES:
            raise InputError(f"no base register '{name}', known are {', '.join(NAMES)}")
        found[NAMES[name]] = parse_address(address, name)
    return found
