"""Read back what `emit` wrote: the DRAM image, the streams and the board of a compiled folder."""

from collections.abc import Mapping
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.backends.vta.board import load_board
from ceras_ir.backends.vta.image import Dram
from ceras_ir.backends.vta.runner import VtaRunner
from ceras_ir.backends.vta.stream_file import read_image
from ceras_ir.command.output_folder import MANIFEST, is_inside
from ceras_ir.support.diagnostics import InputError

Entry = Mapping[str, object]


def open_package(folder: Path, content: Entry, command: str | None) -> tuple[Dram, VtaRunner]:
    """
    The image before the first launch, and what runs launches by number; `content` is the manifest,
    which names all files.
    """
    path = str(folder / MANIFEST)
    entry = content.get("vta")
    if not isa(entry, dict[str, object]):
        raise InputError("has no entry 'vta'", path)
    dram, launches = entry.get("dram"), entry.get("launches")
    if not isa(dram, dict[str, object]) or not isa(launches, list[dict[str, object]]):
        raise InputError("needs 'dram' and a list of 'launches' in its entry 'vta'", path)

    def named(entry: Entry, key: str) -> Path:
        name = entry.get(key)
        if not isinstance(name, str) or not is_inside(folder, name):
            raise InputError(f"'{key}' must name a file of the folder, got {name!r}", path)
        return folder / name

    board = load_board(str(named(entry, "config")))
    streams = [named(launch, "instructions").read_bytes() for launch in launches]
    image = read_image(named(dram, "file"))
    if len(image) != dram.get("size"):
        raise InputError(f"{len(image)} bytes of DRAM, expected {dram.get('size')}", path)
    return image, VtaRunner(streams, board, command)
