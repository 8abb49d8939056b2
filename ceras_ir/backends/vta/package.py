"""Read back what `emit` wrote: the DRAM image, the streams and the board of a compiled folder."""

from pathlib import Path

from ceras_ir.backends.vta.board import load_board
from ceras_ir.backends.vta.emit import CONFIG_FILE, DRAM_FILE, instruction_file
from ceras_ir.backends.vta.image import Dram
from ceras_ir.backends.vta.runner import VtaRunner
from ceras_ir.backends.vta.stream_file import read_image


def open_package(folder: Path, command: str | None) -> tuple[Dram, VtaRunner]:
    """The image before the first launch, and what runs launches by number."""
    board = load_board(str(folder / CONFIG_FILE))
    streams: list[bytes] = []
    while (path := folder / instruction_file(len(streams))).exists():
        streams.append(path.read_bytes())
    return read_image(folder / DRAM_FILE), VtaRunner(streams, board, command)
