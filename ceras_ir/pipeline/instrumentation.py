"""
Running passes under observation: verification after each, dumps and timings on stderr.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from ceras_ir.pipeline.printing import print_module
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import InputError
from ceras_ir.transforms.pipeline import flatten


@dataclass
class Stopwatch:
    """Seconds of wall time by what they were spent on, in the order of first use."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    _start: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        """Book the time since the last lap under `name`."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._start
        self._start = now

    def report(self) -> None:
        """Print the table to stderr."""
        total = sum(self.seconds.values())
        rows = [*self.seconds.items(), ("total", total)]
        width = max(len(name) for name, _ in rows)
        print(f"{'pass':{width}}  seconds  share", file=sys.stderr)
        for name, seconds in rows:
            share = seconds / total if total else 0.0
            print(f"{name:{width}}  {seconds:7.4f}  {share:5.1%}", file=sys.stderr)


@dataclass(frozen=True)
class PassRunner:
    """Runs passes one by one; what is in a pipeline counts one by one too."""

    print_after: frozenset[str] = frozenset()
    print_after_all: bool = False
    elide: bool = False
    debuginfo: bool = False
    generic: bool = False
    stopwatch: Stopwatch = field(default_factory=Stopwatch)

    def run(self, ctx: Context, module: ModuleOp, passes: Sequence[ModulePass]) -> None:
        """Apply `passes` to `module` in order; it is verified before and after each."""
        verify_module(module)
        self.stopwatch.lap("(verify)")
        for pass_ in passes:
            for inner in flatten(pass_):
                self._run_one(ctx, module, inner)
            if pass_.name in self.print_after and not self.print_after_all:
                self._dump(module, [pass_.name])

    def _run_one(self, ctx: Context, module: ModuleOp, pass_: ModulePass) -> None:
        try:
            pass_.apply(ctx, module)
        except InputError:
            raise
        except DiagnosticException as error:
            raise InputError(f"{pass_.name}: {str(error).strip()}") from error
        self.stopwatch.lap(pass_.name)
        if self.print_after_all:
            self._dump(module, [pass_.name])
        verify_module(module)
        self.stopwatch.lap("(verify)")

    def _dump(self, module: ModuleOp, names: Iterable[str]) -> None:
        print(f"// -----// IR Dump After {', '.join(names)} //----- //", file=sys.stderr)
        print_module(
            module,
            sys.stderr,
            elide=self.elide,
            debuginfo=self.debuginfo,
            generic=self.generic,
        )
