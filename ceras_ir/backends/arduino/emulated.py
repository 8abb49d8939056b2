"""A compiled sketch on its board's core: cross-compiled, and run in an emulator of a Cortex-M4."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ceras_ir.backends.c.board import Board, load_board
from ceras_ir.backends.c.emulator import EmulatedModel, available
from ceras_ir.driver.pipeline.build import manifest_tensors, read_manifest
from ceras_ir.driver.run.execute import Array, Sample


def emulated_board(name: str) -> Board | None:
    """The board, if there is an emulator for its core, and the compiler."""
    board = load_board(name)
    return board if board.known_core.is_emulated and available() else None


def run_emulated(
    folder: Path, board: Board, samples: Sequence[Sample]
) -> Iterator[dict[str, Array]]:
    """The outputs of each sample on the board's core; `folder` is what `ceras-compile` wrote."""
    manifest = read_manifest(folder)
    inputs, outputs = (manifest_tensors(manifest, k, folder) for k in ("inputs", "outputs"))
    sources = sorted((folder / str(manifest["sketch"])).glob("*.c"))
    with tempfile.TemporaryDirectory(prefix="ceras-board-") as work:
        model = EmulatedModel(sources, inputs, outputs, board, Path(work), flags=("-Os",))
        yield from model.run(samples)
