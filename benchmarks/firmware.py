"""What a linked program takes of a board's memories, and the files that it is built of."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ceras_ir.backends.c.emulator import ARM_PREFIX
from ceras_ir.backends.c.runner import run_tool
from ceras_ir.network.artefacts import Artefact


@dataclass(frozen=True)
class Sizes:
    """The memory of the board that an ELF file uses."""

    flash: int
    sram: int
    """Without the stack."""


def sizes(elf: Path, prefix: str = ARM_PREFIX) -> Sizes:
    """Flash and SRAM of a linked program."""
    flash = sram = 0
    for line in run_tool([f"{prefix}size", "-A", str(elf)]).splitlines():
        name, *numbers = line.split() or [""]
        if name in (".text", ".ARM.exidx", ".data"):
            flash += int(numbers[0])
        if name in (".data", ".bss"):
            sram += int(numbers[0])
    return Sizes(flash, sram)


def write_files(artefacts: Sequence[Artefact], folder: Path) -> list[Path]:
    """Write files of a model; returns the C sources of the model itself."""
    for artefact in artefacts:
        path = folder / artefact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as stream:
            artefact.write(stream)
    return sorted(folder.glob("model*.c"))
