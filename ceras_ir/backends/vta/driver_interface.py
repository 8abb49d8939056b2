"""
Where a driver finds a board's VTA: three keys of its JSON that VTA's own does not have.

`DRIVER_FLOW` says whose registers (`hls`: VTA's HLS design, four modules a page apart; `chisel`:
the shell of its Chisel design), `DRIVER_REGISTERS` the physical address of the first, and
`DRIVER_ADDRESS_OFFSET` what VTA adds to physical addresses of memory. Addresses are numbers, or
text such as "0x43C00000".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from ceras_ir.support.diagnostics import InputError

Flow = Literal["hls", "chisel"]
FLOWS: tuple[Flow, ...] = get_args(Flow)
DRIVER_KEYS = FLOW, REGISTERS, OFFSET = "DRIVER_FLOW", "DRIVER_REGISTERS", "DRIVER_ADDRESS_OFFSET"
PAGE = 4096
"""Registers and memory are mapped by pages, and VTA fetches in bursts that must not leave one."""


@dataclass(frozen=True)
class DriverInterface:
    """What a driver has to know of a board."""

    flow: Flow
    registers: int
    address_offset: int = 0

    def config(self) -> dict[str, str]:
        """The same as keys of a board's JSON."""
        offset = {OFFSET: f"{self.address_offset:#x}"} if self.address_offset else {}
        return {FLOW: self.flow, REGISTERS: f"{self.registers:#x}", **offset}


def parse_driver(config: Mapping[str, object], file: str | None) -> DriverInterface | None:
    """What `config` says of a driver, if anything; `file` is named in messages."""
    if FLOW not in config:
        if key := next((key for key in (REGISTERS, OFFSET) if key in config), None):
            raise InputError(f"{key} without {FLOW}", file)
        return None
    flow: Flow | None = next((name for name in FLOWS if name == config[FLOW]), None)
    if flow is None:
        raise InputError(f"{FLOW} must be hls or chisel, got {config[FLOW]!r}", file)

    def address(key: str) -> int:
        value = config.get(key, 0)
        if isinstance(value, str):
            try:
                value = int(value, 0)
            except ValueError:
                raise InputError(f"{key} is no address: {value!r}", file) from None
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"{key} is no address: {value!r}", file)
        if not 0 <= value < 1 << 32 or value % PAGE:
            message = f"{key} must be a multiple of {PAGE} below 2^32, got {value:#x}"
            raise InputError(message, file)
        return value

    if not (registers := address(REGISTERS)):
        raise InputError(f"{FLOW} without {REGISTERS}", file)
    return DriverInterface(flow, registers, address(OFFSET))
