"""
Running passes under observation: verification after each, dumps and timings on stderr.

What a user can cause stays a user's error. Anything else that a pass raises, and IR that is
invalid after it, is an `InternalError` that names the pass and leaves a reproducer.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from ceras_ir.command.exit_status import Diagnostic, InternalError, summary
from ceras_ir.pipeline.printing import print_module
from ceras_ir.pipeline.reproducer import Checkpoint
from ceras_ir.pipeline.verification import find_invalid, verify_module
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
    reproducer: str | None = None
    """Where a reproducer goes; None for a new file here, empty for nowhere."""
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)

    def run(
        self,
        ctx: Context,
        module: ModuleOp,
        passes: Sequence[ModulePass],
        level: str | None = None,
    ) -> None:
        """
        Apply `passes`, which lead to `level`, to `module` in order; it is verified before and
        after each.
        """
        verify_module(module)
        self.stopwatch.lap("(verify)")
        for pass_ in passes:
            for inner in flatten(pass_):
                self._run_one(ctx, module, inner, level)
            if pass_.name in self.print_after and not self.print_after_all:
                self._dump(module, [pass_.name])

    def _run_one(
        self, ctx: Context, module: ModuleOp, pass_: ModulePass, level: str | None
    ) -> None:
        self.checkpoint.before(module, pass_)
        try:
            pass_.apply(ctx, module)
            self.stopwatch.lap(pass_.name)
            if self.print_after_all:
                self._dump(module, [pass_.name])
            invalid = find_invalid(module)
        except InputError:
            raise
        except DiagnosticException as error:
            raise InputError(f"{pass_.name}: {str(error).strip()}") from error
        except (OSError, MemoryError):
            raise
        # Anything else is a mistake of the pass's author.
        except Exception as error:
            place = f" on the way to level '{level}'" if level else ""
            message = f"pass '{pass_.name}' crashed{place}: {summary(error)}"
            raise self._failure(ctx, level, [Diagnostic(message)]) from error
        if invalid:
            prefix = f"invalid after pass '{pass_.name}': "
            found = [replace(each, message=prefix + each.message) for each in invalid]
            raise self._failure(ctx, level, found)
        self.stopwatch.lap("(verify)")

    def _failure(
        self, ctx: Context, level: str | None, found: Sequence[Diagnostic]
    ) -> InternalError:
        if self.reproducer == "":
            return InternalError(found)
        return InternalError(found, self.checkpoint.save(ctx, self.reproducer, level))

    def _dump(self, module: ModuleOp, names: Iterable[str]) -> None:
        print(f"// -----// IR Dump After {', '.join(names)} //----- //", file=sys.stderr)
        print_module(
            module,
            sys.stderr,
            elide=self.elide,
            debuginfo=self.debuginfo,
            generic=self.generic,
        )
