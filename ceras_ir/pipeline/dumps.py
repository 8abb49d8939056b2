"""Modules on stderr while passes run: which, and how they are printed."""

import sys
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.pipeline.printing import print_module


@dataclass(frozen=True)
class Dumps:
    """What the user wants to see."""

    after: frozenset[str] = frozenset()
    """Names of passes and pipelines."""
    after_all: bool = False
    elide: bool = False
    debuginfo: bool = False
    generic: bool = False

    def show(self, module: ModuleOp, name: str) -> None:
        """Print the module as the pass or pipeline called `name` left it."""
        print(f"// -----// IR Dump After {name} //----- //", file=sys.stderr)
        print_module(
            module,
            sys.stderr,
            elide=self.elide,
            debuginfo=self.debuginfo,
            generic=self.generic,
        )
