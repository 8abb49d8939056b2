"""A compiled sketch on its board's core: cross-compiled, and run in an emulator of a Cortex-M4."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ceras_ir.backends.c.board import Board, load_board
from ceras_ir.backends.c.emulator import EmulatedModel, available
from ceras_ir.backends.c.prefix import Prefix
from ceras_ir.targets.execution import Array, Manifest, Sample


def emulated_board(name: str) -> Board | None:
    """The board, if there is an emulator for its core, and the compiler."""
    board = load_board(name)
    return board if board.known_core.is_emulated and available() else None


@dataclass(frozen=True)
class EmulatedSketch:
    """The sketch in `folder` on the core of its board."""

    folder: Path
    manifest: Manifest
    board: Board

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        ends = self.manifest.inputs, self.manifest.outputs
        sources = sorted(self.folder.glob("*.c"))
        with tempfile.TemporaryDirectory(prefix="ceras-board-") as work:
            prefix = Prefix.of_manifest(self.manifest.content)
            model = EmulatedModel(
                sources, *ends, self.board, Path(work), flags=("-Os",), prefix=prefix
            )
            yield from model.run(samples)
