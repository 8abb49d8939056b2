"""Modules on stderr while passes run: which, and how they are printed."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO

from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class Dumps:
    """What the user wants to see."""

    before: frozenset[str] = frozenset()
    """Names of passes and pipelines, as in `after`."""
    before_all: bool = False
    after: frozenset[str] = frozenset()
    after_all: bool = False
    diff: bool = False
    """What each pass changes, as a unified diff."""
    elide: bool = False
    debuginfo: bool = False
    generic: bool = False

    @contextmanager
    def around(self, module: ModuleOp, name: str, *, inner: bool) -> Generator[None]:
        """
        Show the module before and after the pass or pipeline called `name`; `inner` is a pass that
        does something, which may be in a pipeline.
        """
        if self.before_all if inner else name in self.before and not self.before_all:
            self._show(module, "Before", name)
        old = self._text(module) if inner and self.diff else ""
        yield
        if self.after_all if inner else name in self.after and not self.after_all:
            self._show(module, "After", name)
        if inner and self.diff:
            self._show_diff(old, self._text(module), name)

    def _show(self, module: ModuleOp, when: str, name: str) -> None:
        print(f"// -----// IR Dump {when} {name} //----- //", file=sys.stderr)
        sys.stderr.write(self._text(module))

    def _show_diff(self, old: str, new: str, name: str) -> None:
        # Few runs want it, and it takes a while to load.
        from difflib import unified_diff

        changed = "" if old != new else ": no change"
        print(f"// -----// IR Diff of {name}{changed} //----- //", file=sys.stderr)
        lines = unified_diff(old.splitlines(), new.splitlines(), "before", "after", lineterm="")
        sys.stderr.writelines(f"{line}\n" for line in lines)

    def _text(self, module: ModuleOp) -> str:
        # Few runs want it, and the start-up of all commands would include it.
        from ceras_ir.pipeline.printing import print_module

        stream = StringIO()
        print_module(
            module,
            stream,
            elide=self.elide,
            debuginfo=self.debuginfo,
            generic=self.generic,
        )
        return stream.getvalue()
