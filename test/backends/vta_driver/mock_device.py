"""
Simulate a board: the VTA simulator serves the files of `backends.device.folder`.

    python mock_device.py FOLDER {hls,chisel} CONFIG.json BASE [--hang]

This command serves FOLDER with the memory at address BASE. The device stops on errors that would
hang the hardware: addresses outside the memory, and streams that are not aligned to a page.
"""

import mmap
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from ceras_ir.backends.vta.execution.image import Dram
from ceras_ir.backends.vta.execution.stream_file import rebased
from ceras_ir.backends.vta.machine import simulator
from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.machine.encoding import decode
from ceras_ir.backends.vta.machine.isa import (
    Finish,
    Instruction,
    MemoryType,
    Module,
    Store,
    module_of,
)
from ceras_ir.backends.vta.machine.simulator import VtaSimulator, simulate
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.support.diagnostics import InputError

REGISTERS = {"hls": 0x43C00000, "chisel": 0xFF220000}
IDLE, START, RESTARTING = 4, 1, 0x81
DIRTY, LINE = "dirty", 64
"""The name of a file that `caches.c` writes, and the bytes of a cache line."""
STALE_SECONDS = 0.02
"""The time during which `done` of the HLS design keeps the old value when a stream starts."""


class BusError(Exception):
    """Raised if an AXI bus would respond with an error. VTA would not report it."""


class Overwritten(VtaSimulator):
    """Simulator with caches that write dirty lines back after the stores of VTA."""

    lines: ClassVar[dict[int, bytes]] = {}
    """Address -> contents of the cache line."""

    def store(self, i: Store) -> None:
        super().store(i)
        size = self.board.element_bytes(MemoryType.OUT)
        for row in range(i.y_size):
            first = (i.dram_base + row * i.x_stride) * size
            for at in range(first // LINE * LINE, first + i.x_size * size, LINE):
                if at in self.lines:
                    self.dram[at : at + LINE] = np.frombuffer(self.lines[at], np.uint8)


class Device:
    """A device with registers and memory that executes streams."""

    def __init__(self, folder: Path, flow: str, board: VtaBoard, base: int):
        self.folder, self.flow, self.board, self.base = folder, flow, board, base
        self.memory: Dram = np.memmap(folder / "dev" / "udmabuf0", np.uint8, "r+")
        with open(folder / "mem", "r+b") as file:
            self.registers = mmap.mmap(file.fileno(), 0x4000, offset=REGISTERS[flow])
        if flow == "hls":
            self.write(0, IDLE)

    def read(self, at: int) -> int:
        return struct.unpack_from("<I", self.registers, at)[0]

    def write(self, at: int, value: int) -> None:
        struct.pack_into("<I", self.registers, at, value)

    def serve(self) -> None:
        """Respond to starts without end."""
        while True:
            if self.read(0) & START:
                try:
                    self.run_hls() if self.flow == "hls" else self.run_chisel()
                except (BusError, InputError) as error:
                    print(f"device stopped: {error}", flush=True)
                    self.write(0, 0)
            time.sleep(0.0002)

    def run_hls(self) -> None:
        """
        Run a stream as the HLS design does. Fetch finishes early; `done` becomes 0 late, and 1 with
        the last instruction.
        """
        modules = {Module.LOAD: 0x1000, Module.COMPUTE: 0x2000, Module.STORE: 0x3000}
        stream = self.fetch(self.read(0x18), self.read(0x10))
        pointers = {
            MemoryType.INP: self.read(0x1010),
            MemoryType.WGT: self.read(0x1018),
            MemoryType.UOP: self.read(0x2020),
            MemoryType.ACC: self.read(0x2028),
            MemoryType.OUT: self.read(0x3010),
        }
        self.write(0, IDLE)
        for i in stream:
            if self.read(at := modules[module_of(i)]) != RESTARTING:
                raise BusError(f"module at {at:#x} was not started")
        time.sleep(STALE_SECONDS)
        self.write(0x2018, 0)
        self.execute(rebased(stream, self.board, self.base, pointers))
        if isinstance(stream[-1], Finish):
            self.write(0x2018, 1)

    def run_chisel(self) -> None:
        """
        Run a stream as the Chisel design does: a control word starts it, and cycles are counted.
        """
        count, address, uop, inp, wgt, acc, out = (self.read(at) for at in range(0x08, 0x24, 4))
        pointers: dict[MemoryType, int] = {
            MemoryType.UOP: uop,
            MemoryType.INP: inp,
            MemoryType.WGT: wgt,
            MemoryType.ACC: acc,
            MemoryType.OUT: out,
        }
        stream = self.fetch(address, count)
        moved = rebased(stream, self.board, self.base, pointers, ored=True)
        self.execute(moved)
        self.write(4, simulate_time(moved, self.board).cycles)
        self.write(0, 2)

    def fetch(self, address: int, count: int) -> list[Instruction]:
        start, end = address - self.base, address - self.base + 16 * count
        if start < 0 or end > len(self.memory) or address % 4096:
            raise BusError(f"{count} instructions at {address:#x}")
        return decode(self.memory[start:end].tobytes(), self.board)

    def execute(self, stream: Sequence[Instruction]) -> None:
        """Execute a stream. A stream without a finish, the no-op of the driver, has no effect."""
        if any(isinstance(i, Finish) for i in stream):
            Overwritten.lines = self.dirty()
            simulate(self.memory, stream, self.board)

    def dirty(self) -> dict[int, bytes]:
        """
        Return the lines that are dirty when a stream starts, if `caches.c` writes them to the file.
        """
        found = self.folder / DIRTY
        data = found.read_bytes() if found.exists() else b""
        entries = (data[at : at + 8 + LINE] for at in range(0, len(data), 8 + LINE))
        return {struct.unpack_from("<Q", entry)[0]: entry[8:] for entry in entries}


def main() -> None:
    folder, flow, config, base = sys.argv[1:5]
    simulator.VtaSimulator = Overwritten
    device = Device(Path(folder), flow, load_board(config), int(base, 0))
    print("ready", flush=True)
    if "--hang" in sys.argv:
        time.sleep(3600)
    device.serve()


if __name__ == "__main__":
    main()
