"""
What one array is made of, and how fast it and its host are.

The model of time is simple: instructions run one after the other, the array takes `size` cycles
for each COMPUTE, and the DMA takes its latency and then its bytes.
"""

from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.toml_text import parse_toml

DEFAULT = "edge"
"""The board of streams where none is chosen."""

LARGEST = {"size": 128, "scratchpad_bytes": 1 << 28, "accumulator_bytes": 1 << 28}
"""Of numbers that memory is reserved for."""


@dataclass(frozen=True)
class Board:
    """The fields of a board's TOML file."""

    title: str
    size: int
    """Rows and columns of the array; also the bytes of a row of the scratchpad."""
    scratchpad_bytes: int
    accumulator_bytes: int
    """Accumulators have 32 bits; `size` of them are a row."""
    clock_mhz: int
    dma_bytes_per_cycle: int
    dma_latency_cycles: int
    host_macs_per_us: int
    host_bytes_per_us: int
    handover_us: int
    """For a value that one side makes and the other reads."""

    @property
    def scratchpad_rows(self) -> int:
        return self.scratchpad_bytes // self.size

    @property
    def accumulator_rows(self) -> int:
        return self.accumulator_bytes // (4 * self.size)

    def dma(self, count: int) -> int:
        """Cycles to move so many bytes."""
        return self.dma_latency_cycles + -(-count // self.dma_bytes_per_cycle)


def load_board(name: str | None) -> Board:
    """A board of this package by name, or one described in a TOML file."""
    name = name or DEFAULT
    source = Path(name)
    if not name.endswith(".toml"):
        folder = files("ceras_systolic") / "boards"
        known = sorted(f.name.removesuffix(".toml") for f in folder.iterdir())
        if name not in known:
            raise InputError(f"no board '{name}': choose from {', '.join(known)}, or a .toml file")
        return parse_board((folder / f"{name}.toml").read_text(encoding="utf-8"), name)
    try:
        return parse_board(source.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the board: {error}", name) from None


def parse_board(text: str, file: str) -> Board:
    """The board that the TOML `text` describes; `file` is named in messages."""
    content = parse_toml(text, file)
    known = [field.name for field in fields(Board)]
    if wrong := sorted(set(content) ^ set(known)):
        raise InputError(f"unknown or missing '{wrong[0]}' (fields: {', '.join(known)})", file)
    title = content.pop("title")
    for name, value in content.items():
        if type(value) is not int or not 1 <= value <= LARGEST.get(name, 1 << 30):
            most = LARGEST.get(name, 1 << 30)
            raise InputError(f"{name} must be an integer in [1, {most}], got {value!r}", file)
    return Board(str(title), **content)
