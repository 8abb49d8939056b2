"""Read back what `emit` wrote: the DRAM image, the streams and the board of a compiled folder."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.board import load_board
from ceras_ir.backends.vta.emit import CONFIG_FILE, DRAM_FILE, instruction_file
from ceras_ir.backends.vta.runner import VtaRunner
from ceras_ir.support.diagnostics import InputError


def open_package(folder: Path, command: str | None) -> tuple[NDArray[np.uint8], VtaRunner]:
    """The image before the first launch, and what runs launches by number."""
    board = load_board(str(folder / CONFIG_FILE))
    streams: list[bytes] = []
    while (path := folder / instruction_file(len(streams))).exists():
        streams.append(path.read_bytes())
    try:
        image = np.fromfile(folder / DRAM_FILE, np.uint8)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(folder / DRAM_FILE)) from None
    return image, VtaRunner(streams, board, command)
