"""Measure the use of a board's memories by a linked program, and write its files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ceras_ir.backends.c.emulator import ARM_PREFIX
from ceras_ir.backends.c.runner import run_tool
from ceras_ir.network.artefacts import Artefact


@dataclass(frozen=True)
class Sizes:
    """The memories of the board that an ELF file uses."""

    flash: int
    sram: int
    """The size without the stack."""


def sizes(elf: Path, prefix: str = ARM_PREFIX) -> Sizes:
    """Return flash and SRAM of a linked program."""
    flash = sram = 0
    for line in run_tool([f"{prefix}size", "-A", str(elf)]).splitlines():
        name, *numbers = line.split() or [""]
        if name in (".vectors", ".text", ".ARM.exidx", ".data"):
            flash += int(numbers[0])
        if name in (".data", ".bss"):
            sram += int(numbers[0])
    return Sizes(flash, sram)


def write_files(artefacts: Sequence[Artefact], folder: Path) -> list[Path]:
    """Write the files of a model, and return the C sources of the model."""
    for artefact in artefacts:
        path = folder / artefact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as stream:
            artefact.write(stream)
    return sorted(folder.glob("model*.c"))
