"""
Run launches: in the built-in simulator, or in a program that somebody else wrote.

An external program gets the configuration, the DRAM image and the raw instructions as files
and leaves the image after the run in a file of the same size.
"""

import json
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.image import Dram
from ceras_ir.backends.vta.simulator import simulate
from ceras_ir.support.diagnostics import InputError, UsageError

PLACEHOLDERS = ("{config}", "{dram}", "{insns}", "{out}")
NEEDED = PLACEHOLDERS[1:]


def check_command(command: str) -> None:
    """Refuse what cannot be the command of a runner."""
    if missing := [p for p in NEEDED if p not in command]:
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
    """Launches of one network, by number; `command` is None for the built-in simulator."""

    streams: Sequence[bytes]
    """Raw instructions of each launch."""
    board: VtaBoard
    command: str | None = None
    """`CMD {config} {dram} {insns} {out}`, split as a shell would; no shell runs it."""

    def __post_init__(self) -> None:
        if self.command is not None:
            check_command(self.command)

    def launch(self, index: int, dram: Dram) -> None:
        """Run launch number `index` on `dram`, in place."""
        if index >= len(self.streams):
            message = f"the host part runs launch {index}, and there are {len(self.streams)}"
            raise InputError(message)
        if self.command is None:
            simulate(dram, self.streams[index], self.board)
        else:
            dram[:], _ = self._run_external(self.command, index, dram)

    def cycles(self, index: int, dram: Dram) -> int:
        """What the external program says that launch number `index` takes, on a copy of `dram`."""
        assert self.command is not None
        _, said = self._run_external(self.command, index, dram)
        last = (said.strip().splitlines() or [""])[-1]
        if not last.isdecimal():
            program = shlex.split(self.command)[0]
            raise InputError(
                f"--tune: the VTA runner '{program}' did not print the cycles of launch {index}: a "
                f"whole number alone on its last line of output, got {last[:40]!r}"
            )
        return int(last)

    def _run_external(self, command: str, index: int, dram: Dram) -> tuple[Dram, str]:
        """The image after the launch, and what the program said."""
        with tempfile.TemporaryDirectory(prefix="ceras-vta-") as folder:
            files = {p: Path(folder) / p.strip("{}") for p in PLACEHOLDERS}
            files["{config}"].write_text(json.dumps(self.board.config(), indent=2) + "\n")
            files["{dram}"].write_bytes(dram.tobytes())
            files["{insns}"].write_bytes(self.streams[index])
            arguments = [_fill(part, files) for part in shlex.split(command)]
            said = _execute(arguments, index)
            return _read_back(files["{out}"], arguments[0], index, len(dram)), said


def _fill(part: str, files: dict[str, Path]) -> str:
    for placeholder, path in files.items():
        part = part.replace(placeholder, str(path))
    return part


def _execute(arguments: list[str], index: int) -> str:
    try:
        done = subprocess.run(arguments, capture_output=True, check=False)
    except OSError as error:
        raise InputError(f"cannot run the VTA runner '{arguments[0]}': {error.strerror}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        last = f": {said[-1]}" if said else ""
        raise InputError(
            f"the VTA runner '{arguments[0]}' failed on launch {index} "
            f"with exit status {done.returncode}{last}"
        )
    return done.stdout.decode(errors="replace")


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
