"""Describe an array: its sizes, its speed and the speed of its host."""

from dataclasses import dataclass
from pathlib import Path

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.files import parse_toml
from ceras_ir.targets import board_field, read_fields

MAX_NUMBER = 1 << 20


@dataclass(frozen=True)
class Board:
    """An array, the memories around it, and the host."""

    size: int = board_field(minimum=1, maximum=256, example="8")
    """Rows and columns of the array; also the bytes of a row of the scratchpad."""
    scratchpad_rows: int = board_field(minimum=1, maximum=MAX_NUMBER, example="8192")
    """Rows of the scratchpad."""
    accumulator_rows: int = board_field(minimum=1, maximum=MAX_NUMBER, example="512")
    """Rows of `size` accumulators with 32 bits."""
    clock_mhz: int = board_field(minimum=1, maximum=MAX_NUMBER, example="200")
    """The clock of the array."""
    dma_bytes_per_cycle: int = board_field(minimum=1, maximum=MAX_NUMBER, example="8")
    """The bandwidth between memory and scratchpad."""
    dma_latency_cycles: int = board_field(minimum=1, maximum=MAX_NUMBER, example="4")
    """Cycles of a transfer in addition to the bytes."""
    host_macs_per_us: int = board_field(minimum=1, maximum=MAX_NUMBER, example="100")
    """Products that the host computes in a microsecond."""
    host_bytes_per_us: int = board_field(minimum=1, maximum=MAX_NUMBER, example="400")
    """Bytes that the host moves in a microsecond."""
    handover_us: int = board_field(minimum=1, maximum=MAX_NUMBER, example="2")
    """The time of a value that one side computes and the other side uses."""

    def dma(self, count: int) -> int:
        """Return the cycles to transfer so many bytes."""
        return self.dma_latency_cycles + -(-count // self.dma_bytes_per_cycle)


def load_board(name: str | None) -> Board:
    """Load a board of this package by name (default: `edge`), or from a TOML file."""
    name = name or "edge"
    own = Path(__file__).parent / "boards" / f"{name}.toml"
    try:
        text = (Path(name) if name.endswith(".toml") else own).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"no board of the array: {error}", name) from None
    return read_fields(Board, parse_toml(text, name), name)
