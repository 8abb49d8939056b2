"""Compile generated sketches like the IDE, against the stub, and run them under qemu."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.emulator import build_elf, run_elf
from ceras_ir.backends.c.machines import load_board

STUB = Path(__file__).with_name("stub")


def build_sketch(
    sketch: Path, ino: Path, work: Path, *, board: str = "uno_r4_wifi", flags: tuple[str, ...] = ()
) -> Path:
    """
    Compile the `.ino` as C++ with the C of the folder `sketch`, with the optimization of Arduino.
    It permits fused multiply-add, which the C itself must forbid.
    """
    work.mkdir(exist_ok=True)
    sources = [STUB / "arduino.cpp", ino, *sorted(sketch.glob("*.c"))]
    return build_elf(
        sources,
        load_board(board),
        work,
        include=[STUB, sketch],
        flags=("-Os", "-ffp-contract=fast", *flags),
    )


def run_sketch(
    elf: Path, work: Path, numbers: NDArray[np.float32]
) -> tuple[NDArray[np.float32], str]:
    """Return the answer to `numbers` on the serial port: floats, and text."""
    numbers.astype(np.float32).tofile(work / "in.bin")
    text = run_elf(elf, work)
    return np.fromfile(work / "out.bin", np.float32), text
