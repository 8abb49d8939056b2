"""Open tools for circuits, which the optional extra `rtl` brings."""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ceras_ir.support.diagnostics import InputError

LINES = 12
"""Of what a tool said last."""


@dataclass(frozen=True)
class OpenTool:
    """A tool under the first of its commands that is installed."""

    name: str
    commands: tuple[str, ...]

    def find(self) -> str | None:
        """The command that runs it, if it is installed; on the PATH, or beside this Python."""
        # The extra puts commands there, and nobody has to activate an environment.
        own = sysconfig.get_path("scripts")
        places = os.pathsep.join([os.environ.get("PATH", os.defpath), own])
        return next((found for c in self.commands if (found := shutil.which(c, path=places))), None)

    def run(self, options: Sequence[str], folder: Path) -> None:
        """Run it in `folder`; an `InputError` if it is missing or fails."""
        command = self.find()
        if command is None:
            names = " or ".join(self.commands)
            raise InputError(f"no {self.name}: install the extra 'rtl', or put {names} on the PATH")
        done = subprocess.run(
            [command, *options], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            lines = "\n".join((done.stderr or done.stdout).splitlines()[-LINES:])
            raise InputError(f"{self.name} failed with exit status {done.returncode}:\n{lines}")
