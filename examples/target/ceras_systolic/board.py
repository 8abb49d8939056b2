"""What one array is made of, and how fast it and its host are."""

from dataclasses import dataclass, fields
from pathlib import Path

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.files import parse_toml


@dataclass(frozen=True)
class Board:
    """The fields of a board's TOML file, all integers of at least 1."""

    size: int
    """Rows and columns of the array; also the bytes of a row of the scratchpad."""
    scratchpad_rows: int
    accumulator_rows: int
    """Of `size` accumulators with 32 bits."""
    clock_mhz: int
    dma_bytes_per_cycle: int
    dma_latency_cycles: int
    host_macs_per_us: int
    host_bytes_per_us: int
    handover_us: int
    """For a value that one side makes and the other reads."""

    def dma(self, count: int) -> int:
        """Cycles to move so many bytes."""
        return self.dma_latency_cycles + -(-count // self.dma_bytes_per_cycle)


def load_board(name: str | None) -> Board:
    """A board of this package by name (`edge` without one), or one described in a TOML file."""
    name = name or "edge"
    own = Path(__file__).parent / "boards" / f"{name}.toml"
    try:
        text = (Path(name) if name.endswith(".toml") else own).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"no board of the array: {error}", name) from None
    content, known = parse_toml(text, name), [field.name for field in fields(Board)]
    if wrong := sorted(set(content) ^ set(known)):
        raise InputError(f"unknown or missing '{wrong[0]}' (fields: {', '.join(known)})", name)
    for field, value in content.items():
        most = 256 if field == "size" else 1 << 20
        if type(value) is not int or not 1 <= value <= most:
            raise InputError(f"{field} must be an integer in [1, {most}], got {value!r}", name)
    return Board(**content)
