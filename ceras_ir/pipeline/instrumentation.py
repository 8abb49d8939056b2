"""
Running passes under observation: verification after each, dumps, timings, statistics.

What a user can cause stays a user's error. Anything else that a pass raises, and IR that is
invalid after it, is an `InternalError` that names the pass and leaves a reproducer.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from ceras_ir.command.exit_status import Diagnostic, InternalError, SourceError, summary
from ceras_ir.pipeline.dumps import Dumps
from ceras_ir.pipeline.reproducer import Checkpoint
from ceras_ir.pipeline.statistics import Statistics
from ceras_ir.pipeline.stopwatch import Stopwatch
from ceras_ir.pipeline.verification import Verification
from ceras_ir.support.diagnostics import InputError
from ceras_ir.transforms.pipeline import flatten, run_step

Watch: TypeAlias = Callable[[Context, ModuleOp], str | None]
"""Looks at the module behind every pass; says what is wrong, if anything."""

Watching: TypeAlias = Callable[[ModuleOp], Watch]
"""Looks at the module before the first of some passes, and makes what looks at it behind each."""


@dataclass(frozen=True)
class PassRunner:
    """Runs passes one by one; what is in a pipeline counts one by one too."""

    dumps: Dumps = field(default_factory=Dumps)
    reproducer: str | None = None
    """Where a reproducer goes; None for a new file here, empty for nowhere."""
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    verify_each: bool = True
    """Whether IR is verified behind every pass that changes it, or by nobody."""
    verification: Verification = field(default_factory=Verification)
    statistics: Statistics | None = None
    watch: Watch | None = None

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
        if self.verify_each:
            self.verification.check(module)
            self.stopwatch.lap("(verify)")
        for pass_ in passes:
            with self.dumps.around(module, pass_.name, inner=False):
                for inner in flatten(pass_):
                    self._run_one(ctx, module, inner, level)

    def _run_one(
        self, ctx: Context, module: ModuleOp, inner: ModulePass, level: str | None
    ) -> None:
        self.checkpoint.before(module, inner)
        counting = self.statistics.of(module, inner.name) if self.statistics else nullcontext()
        try:
            with self.dumps.around(module, inner.name, inner=True):
                with counting:
                    run_step(inner.name, inner, ctx, module)
                self.stopwatch.lap(inner.name)
            invalid = self.verification.find_invalid(module) if self.verify_each else []
        except InputError:
            raise
        except DiagnosticException as error:
            raise InputError(f"{inner.name}: {str(error).strip()}") from error
        except (OSError, MemoryError):
            raise
        # Anything else is a mistake of the pass's author.
        except Exception as error:
            place = f" on the way to level '{level}'" if level else ""
            message = f"pass '{inner.name}' crashed{place}: {summary(error)}"
            raise self._failure(ctx, level, [Diagnostic(message)]) from error
        if invalid:
            prefix = f"invalid after pass '{inner.name}': "
            found = [replace(each, message=prefix + each.message) for each in invalid]
            raise self._failure(ctx, level, found)
        self.stopwatch.lap("(verify)")
        if self.watch is not None and (wrong := self.watch(ctx, module)) is not None:
            message = f"pass '{inner.name}' {wrong}"
            raise SourceError([Diagnostic(message), *self._replay(ctx, level)])

    def _replay(self, ctx: Context, level: str | None) -> list[Diagnostic]:
        """How to run the last pass alone."""
        if self.reproducer == "":
            return []
        return [Diagnostic(self.checkpoint.save(ctx, self.reproducer, level), severity="note")]

    def _failure(
        self, ctx: Context, level: str | None, found: Sequence[Diagnostic]
    ) -> InternalError:
        if self.reproducer == "":
            return InternalError(found, "")
        return InternalError(found, self.checkpoint.save(ctx, self.reproducer, level))
