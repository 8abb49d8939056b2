"""
All that a bitstream of the circuits is made of, and what Linux has to know of it.

The scripts are text: no vendor's tool runs here.
"""

from pathlib import Path

from ceras_ir.backends.nnet.circuit_size import CircuitSize, circuit_sources

FOLDER = Path(__file__).parent / "board"


def write_board_files(folder: Path, size: CircuitSize) -> None:
    """Write sources, wrapper, block design and device tree of a core of `size`."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in circuit_sources():
        (folder / path.name).write_bytes(path.read_bytes())
    for path in sorted(FOLDER.iterdir()):
        text = path.read_text("ascii")
        for name, value in size.parameters().items():
            text = text.replace(f"@{name}@", str(value))
        (folder / path.name).write_text(text, "ascii")
