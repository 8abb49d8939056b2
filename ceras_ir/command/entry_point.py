"""Define commands as entry points, with settings that precede slow imports."""

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
    A command. `module` has the functions `main` and `make_parser`; completion and documentation use
    the latter.

    OpenBLAS, which numpy multiplies with, uses a single thread unless the environment specifies
    another number.
    """

    name: str
    purpose: str
    """The purpose, in a sentence that begins with a verb."""
    module: str

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run the command; an interrupt during imports prints one line, as later."""
        # Modules and IR have many objects that live until the end. By default, Python searches for
        # garbage after 700 new objects; a short command searches less often.
        gc.set_threshold(50_000, 20, 100)
        # Products are small and many, and idle threads of OpenBLAS spin.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        try:
            main: Callable[[Sequence[str] | None], int] = import_module(self.module).main
        except KeyboardInterrupt:
            print(f"{self.name}: interrupted", file=sys.stderr)
            return 130
        # Imported objects remain: the collector need not visit them again.
        gc.freeze()
        return main(argv)


def commands() -> "dict[str, EntryPoint]":
    """Return the installed commands by their names without prefix."""
    from importlib.metadata import distribution

    from ceras_ir.support.extensions import without_deleted

    points = distribution("ceras-ir").entry_points.select(group="console_scripts")
    return {p.name.removeprefix(PREFIX): p for p in sorted(without_deleted(points))}
