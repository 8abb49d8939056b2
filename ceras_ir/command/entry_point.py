"""A command as an entry point, and what it does before anything is imported that takes time."""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PREFIX = "ceras-"


@dataclass(frozen=True)
class Command:
    """
    A command: `module` has its `main` and, for completion and documentation, its `make_parser`.

    OpenBLAS, which numpy multiplies with, has one thread unless the environment says how many.
    """

    name: str
    purpose: str
    """What it does, in a sentence that begins with a verb."""
    module: str

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run the command; an interrupt while it is imported prints one line, as later."""
        # Modules and IR make many objects that remain until the end. Python looks through them
        # for garbage after every 700 new ones; commands are short and do so less often.
        gc.set_threshold(50_000, 20, 100)
        # Products here are small and many, and its threads wait for the next one by spinning.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        try:
            main: Callable[[Sequence[str] | None], int] = import_module(self.module).main
        except KeyboardInterrupt:
            print(f"{self.name}: interrupted", file=sys.stderr)
            return 130
        # What was imported stays: the collector need not look at it again.
        gc.freeze()
        return main(argv)


def commands() -> "dict[str, EntryPoint]":
    """Return the installed commands by their names without prefix."""
    from importlib.metadata import distribution

    from ceras_ir.support.extensions import without_deleted

    points = distribution("ceras-ir").entry_points.select(group="console_scripts")
    return {p.name.removeprefix(PREFIX): p for p in sorted(without_deleted(points))}
