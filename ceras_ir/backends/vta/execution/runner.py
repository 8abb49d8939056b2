"""
Run launches in the built-in simulator or in an external program.

An external program gets the configuration, the DRAM image and the raw instructions as files. It
writes the image after execution to a file of the same size. `open_package` loads image, streams and
board from a compiled folder.
"""

import json
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xdsl.utils.hints import isa

from ceras_ir.backends.vta.execution.image import Dram
from ceras_ir.backends.vta.execution.stream_file import read_image
from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.machine.simulator import simulate
from ceras_ir.command.output_files import MANIFEST, is_inside
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.programs import run_program
from ceras_ir.support.user_files import read_bytes

PLACEHOLDERS = ("{config}", "{dram}", "{insns}", "{out}")
REQUIRED_PLACEHOLDERS = PLACEHOLDERS[1:]


def check_command(command: str) -> None:
    """
    Raise a `UsageError` if the command line of an external simulator has invalid quotes or does not
    contain `{dram}`, `{insns}` and `{out}`, which are replaced by file names.
    """
    if missing := [p for p in REQUIRED_PLACEHOLDERS if p not in command]:
        raise UsageError(
            f"the VTA runner '{command}' has no {', '.join(missing)}; "
            f"expected CMD {' '.join(PLACEHOLDERS)}"
        )
    try:
        shlex.split(command)
    except ValueError as error:
        raise UsageError(f"the VTA runner '{command}': {error}") from None


@dataclass(frozen=True)
class VtaRunner:
    """
    Runs the launches of a network in the external simulator `command`, or in the built-in simulator
    if it is `None`.
    """

    streams: Sequence[bytes]
    """The raw instructions of each launch."""
    board: VtaBoard
    command: str | None = None
    """
    The command line `CMD {config} {dram} {insns} {out}`, split as by a shell, but executed without
    a shell.
    """

    def __post_init__(self) -> None:
        if self.command is not None:
            check_command(self.command)

    def launch(self, index: int, dram: Dram) -> None:
        if index >= len(self.streams):
            count = len(self.streams)
            raise InputError(f"the host part runs launch {index}, but there are {count} launches")
        if self.command is None:
            simulate(dram, self.streams[index], self.board)
        else:
            dram[:], _ = self._run_external(self.command, index, dram)

    def cycles(self, index: int, dram: Dram) -> int:
        """
        Run launch `index` in the external simulator on a copy of `dram`, and return the cycles,
        which must be the last line of its output.
        """
        assert self.command is not None
        _, output = self._run_external(self.command, index, dram)
        last = (output.strip().splitlines() or [""])[-1]
        if not last.isdecimal():
            program = shlex.split(self.command)[0]
            raise InputError(
                f"--tune: the VTA runner '{program}' did not print the cycles of launch {index}: "
                f"expected an integer as the last line of output, got {last[:40]!r}"
            )
        return int(last)

    def _run_external(self, command: str, index: int, dram: Dram) -> tuple[Dram, str]:
        with tempfile.TemporaryDirectory(prefix="ceras-vta-") as folder:
            files = {p: Path(folder) / p.strip("{}") for p in PLACEHOLDERS}
            files["{config}"].write_text(json.dumps(self.board.config(), indent=2) + "\n")
            files["{dram}"].write_bytes(dram.tobytes())
            files["{insns}"].write_bytes(self.streams[index])
            arguments = [_fill(part, files) for part in shlex.split(command)]
            output = _execute(arguments, index)
            return _read_back(files["{out}"], arguments[0], index, len(dram)), output


def _fill(part: str, files: dict[str, Path]) -> str:
    for placeholder, path in files.items():
        part = part.replace(placeholder, str(path))
    return part


def _execute(arguments: list[str], index: int) -> str:
    try:
        done = run_program(arguments)
    except OSError as error:
        raise InputError(f"cannot run the VTA runner '{arguments[0]}': {error.strerror}") from error
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines()
        last = f": {output[-1]}" if output else ""
        raise InputError(
            f"the VTA runner '{arguments[0]}' failed on launch {index} "
            f"with exit status {done.returncode}{last}"
        )
    return done.stdout


def _read_back(path: Path, program: str, index: int, size: int) -> Dram:
    if not path.exists():
        raise InputError(f"the VTA runner '{program}' wrote no image for launch {index}")
    image = np.fromfile(path, np.uint8)
    if len(image) != size:
        raise InputError(
            f"the VTA runner '{program}' wrote {len(image)} bytes for launch {index}, "
            f"expected the DRAM image of {size}"
        )
    return image


Entry = Mapping[str, object]


def open_package(folder: Path, content: Entry, command: str | None) -> tuple[Dram, VtaRunner]:
    """
    Return the DRAM image of a compiled folder before the first launch, and the runner of its
    launches. `content` is the manifest; `command` is the external simulator or `None`, as in
    `VtaRunner`.
    """
    path = str(folder / MANIFEST)
    entry = content.get("vta")
    if not isa(entry, dict[str, object]):
        raise InputError("has no entry 'vta'", path)
    dram, launches = entry.get("dram"), entry.get("launches")
    if not isa(dram, dict[str, object]) or not isa(launches, list[dict[str, object]]):
        raise InputError("needs 'dram' and a list of 'launches' in the entry 'vta'", path)

    def named(entry: Entry, key: str) -> Path:
        name = entry.get(key)
        if not isinstance(name, str) or not is_inside(folder, name):
            raise InputError(f"'{key}' must name a file of the folder, got {name!r}", path)
        return folder / name

    board = load_board(str(named(entry, "config")))
    streams = [read_bytes(named(launch, "instructions")) for launch in launches]
    image = read_image(named(dram, "file"))
    if len(image) != dram.get("size"):
        raise InputError(f"{len(image)} bytes of DRAM, expected {dram.get('size')}", path)
    return image, VtaRunner(streams, board, command)
