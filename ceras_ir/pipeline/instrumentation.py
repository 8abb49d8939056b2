"""
Run passes with verification, dumps on stderr, timings and statistics.

An error that a user can cause remains an error of the user. Any other error of a pass, and invalid
IR after it, becomes an `InternalError` that names the pass and leaves a reproducer. Statistics are
the operations that each pass created and erased, and the time and memory of the pass.
"""

import resource
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from ceras_ir.command.exit_status import (
    MAX_SUMMARY,
    Diagnostic,
    InternalError,
    SourceError,
    summary,
)
from ceras_ir.pipeline.printing import Checkpoint
from ceras_ir.pipeline.verification import ChangeVerifier
from ceras_ir.support.diagnostics import InputError, aligned, printable
from ceras_ir.support.options import option, options
from ceras_ir.transforms.pass_kinds import flatten, run_step


@options
class DumpOptions:
    """The options of printed IR. A pass or a pipeline has a name."""

    print_ir_before_all: bool = option(False, aliases=("--mlir-print-ir-before-all",))
    """Print the IR before each pass to stderr."""
    print_ir_after_all: bool = option(False, aliases=("--mlir-print-ir-after-all",), usual=True)
    """Print the IR after each pass to stderr."""
    print_ir_after_change: bool = option(False, aliases=("--mlir-print-ir-after-change",))
    """With --print-ir-after-all, leave out passes that change nothing."""
    print_ir_diff: bool = option(False, usual=True)
    """Print the changes of each pass to stderr, as a unified diff."""
    print_ir_before: tuple[str, ...] = option(
        (), metavar="PASS", action="append", read=str, aliases=("--mlir-print-ir-before",)
    )
    """Print the IR before this pass to stderr; may be repeated."""
    print_ir_after: tuple[str, ...] = option(
        (), metavar="PASS", action="append", read=str, aliases=("--mlir-print-ir-after",)
    )
    """Print the IR after this pass to stderr; may be repeated."""
    elide_constants: bool = option(False)
    """Print large constants as dense_resource<__elided__>."""
    elide_larger: int | None = option(
        None, metavar="N", minimum=0, aliases=("--mlir-elide-elementsattrs-if-larger",)
    )
    """Print constants of more than N elements in this form, unless all elements are equal."""
    print_debuginfo: bool = option(False, aliases=("--mlir-print-debuginfo",))
    """Print all locations; by default, the names of layers in the model or the text."""
    print_op_generic: bool = option(False, aliases=("--mlir-print-op-generic",))
    """Print operations in the generic form."""

    @property
    def largest_printed(self) -> int | None:
        """The number of elements above which constants are elided; `None` without a limit."""
        # The start of each command would import xDSL for this module.
        from ceras_ir.pipeline.printing import MAX_LISTED

        if self.elide_larger is not None:
            return self.elide_larger
        return MAX_LISTED if self.elide_constants else None


@dataclass(frozen=True)
class Dumps(DumpOptions):
    """Prints the IR before and after passes to stderr, as the options of the user request."""

    @contextmanager
    def around(self, module: ModuleOp, name: str, *, inner: bool) -> Generator[None]:
        """
        Print the module before and after the `with` block, which runs the pass or pipeline called
        `name`. `inner` is true for a single pass, to which the options for all passes apply, and
        false for the pass as the user requested it, which may contain other passes.
        """
        before_all, after_all = self.print_ir_before_all, self.print_ir_after_all
        if before_all if inner else name in self.print_ir_before and not before_all:
            self._show(module, "Before", name)
        compares = self.print_ir_diff or (after_all and self.print_ir_after_change)
        old = self._text(module) if inner and compares else ""
        yield
        shown = after_all if inner else name in self.print_ir_after and not after_all
        if shown and not (inner and self.print_ir_after_change and self._text(module) == old):
            self._show(module, "After", name)
        if inner and self.print_ir_diff:
            self._show_diff(old, self._text(module), name)

    def _show(self, module: ModuleOp, when: str, name: str) -> None:
        print(f"// -----// IR Dump {when} {name} //----- //", file=sys.stderr)
        sys.stderr.write(self._text(module))

    def _show_diff(self, old: str, new: str, name: str) -> None:
        # Few runs need it, and importing it takes time.
        from difflib import unified_diff

        changed = "" if old != new else ": no change"
        print(f"// -----// IR Diff of {name}{changed} //----- //", file=sys.stderr)
        lines = unified_diff(old.splitlines(), new.splitlines(), "before", "after", lineterm="")
        sys.stderr.writelines(f"{line}\n" for line in lines)

    def _text(self, module: ModuleOp) -> str:
        # Few runs need it; at the top, each command would import it.
        from ceras_ir.pipeline.printing import print_module

        stream = StringIO()
        print_module(
            module,
            stream,
            elide=self.largest_printed,
            debuginfo=self.print_debuginfo,
            generic=self.print_op_generic,
        )
        return stream.getvalue()


@dataclass
class Statistic:
    """The counts of changed operations, and the time and memory, of all runs of a pass."""

    runs: int = 0
    before: int = 0
    """The number of operations before the last run, as found after the run before it."""
    after: int = 0
    created: int = 0
    erased: int = 0
    changed: int = 0
    """
    The number of remaining operations with changed operands, properties, attributes, types or
    order.
    """
    seconds: float = 0.0
    growth: int = 0
    """The growth of the peak memory of the process during all runs of the pass, in KiB."""


@dataclass(frozen=True)
class Statistics:
    """The statistics of each pass by name, in the order of first use."""

    found: dict[str, Statistic] = field(default_factory=dict[str, Statistic])

    @contextmanager
    def of(self, module: ModuleOp, name: str) -> Generator[None]:
        """
        Count the changes to `module` inside the `with` block, and add them to the statistics of the
        pass `name`.
        """
        before = {op: look(op) for op in module.walk()}
        peak, started = _peak(), time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        after = {op: look(op) for op in module.walk()}
        entry = self.found.setdefault(name, Statistic())
        entry.runs += 1
        entry.before, entry.after = len(before), len(after)
        entry.created += len(after.keys() - before.keys())
        entry.erased += len(before.keys() - after.keys())
        entry.changed += len(changed_operations(before, after) & before.keys() & after.keys())
        entry.seconds += seconds
        entry.growth += max(0, _peak() - peak)

    def report(self) -> None:
        """Print the statistics as a table to stderr."""
        rows = [["pass", "ops before", "after", "made", "erased", "changed", "seconds", "peak KiB"]]
        for name, s in self.found.items():
            counts = (s.before, s.after, s.created, s.erased, s.changed)
            rows.append([name, *map(str, counts), f"{s.seconds:.4f}", f"+{s.growth:,}"])
        for line in aligned(rows, right=range(1, len(rows[0]))):
            print(line, file=sys.stderr)


def look(op: Operation) -> tuple[object, ...]:
    """
    Return the parts of an operation that a rewrite may change (operands, result types, properties,
    attributes), to compare them later.
    """
    types = tuple(result.type for result in op.results)
    return tuple(op.operands), types, dict(op.properties), dict(op.attributes)


Looks: TypeAlias = Mapping[Operation, tuple[object, ...]]


def changed_operations(before: Looks, after: Looks) -> set[Operation]:
    """
    Return the operations that were added, removed, changed or moved to another place in the order,
    between two snapshots by `look`.
    """
    found = {op for op, state in before.items() if after.get(op) != state}
    found |= after.keys() - before.keys()
    kept = [op for op in after if op in before]
    order = (op for op in before if op in after)
    return found | {op for op, other in zip(kept, order, strict=True) if op is not other}


def _peak() -> int:
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size // 1024 if sys.platform == "darwin" else size


@dataclass
class Stopwatch:
    """
    Seconds of wall time of each activity, such as a pass or `(verify)`, in the order of first use.
    """

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    _start: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        """Add the time since the last lap to `name`."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._start
        self._start = now

    def report(self) -> None:
        """Print the seconds and the share of each activity as a table to stderr."""
        total = sum(self.seconds.values())
        rows = [*self.seconds.items(), ("total", total)]
        width = max(len(name) for name, _ in rows)
        print(f"{'pass':{width}}  seconds  share", file=sys.stderr)
        for name, seconds in rows:
            share = seconds / total if total else 0.0
            print(f"{name:{width}}  {seconds:7.4f}  {share:5.1%}", file=sys.stderr)


Watch: TypeAlias = Callable[[Context, ModuleOp], str | None]
"""A function that checks the module after each pass, and returns an error or None."""

Watching: TypeAlias = Callable[[ModuleOp], Watch]
"""A function that receives the module before the first pass, and returns the check of each pass."""


MAX_MESSAGE_LINES = 10
"""The largest number of lines of a message; the message of a pass can contain the IR."""


def _bounded(text: str) -> str:
    lines = [printable(line, MAX_SUMMARY) for line in text.splitlines()]
    if (more := len(lines) - MAX_MESSAGE_LINES) > 0:
        lines = [*lines[:MAX_MESSAGE_LINES], f"... and {more} more lines"]
    return "\n".join(lines)


@dataclass(frozen=True)
class PassRunner:
    """
    Runs passes one by one, including the passes of a pipeline, with verification, dumps and
    statistics. If a pass fails, it writes a reproducer: the IR before the pass, and the command.
    """

    dumps: Dumps = field(default_factory=Dumps)
    reproducer: str | None = None
    """The file of a reproducer; None for a new file in the current folder, "" for no file."""
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    verify_each: bool = True
    """Whether IR is verified after each pass that changes it."""
    verification: ChangeVerifier = field(default_factory=ChangeVerifier)
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
        Apply `passes` to `module` in order. The module is verified before the first pass and after
        each pass. `level` is the name of the level to which the passes lead, for messages.
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
            raise InputError(f"{inner.name}: {_bounded(str(error).strip())}") from error
        except (OSError, MemoryError):
            raise
        # Other exceptions are errors in the pass.
        except Exception as error:
            place = f" before level '{level}'" if level else ""
            message = f"pass '{inner.name}' crashed{place}: {summary(error)}"
            failure = self._failure(ctx, level, [Diagnostic(message)])
            failure.source = getattr(sys.modules.get(type(inner).__module__), "__file__", None)
            raise failure from error
        if invalid:
            prefix = f"invalid after pass '{inner.name}': "
            found = [replace(each, message=prefix + each.message) for each in invalid]
            raise self._failure(ctx, level, found)
        self.stopwatch.lap("(verify)")
        if self.watch is not None and (wrong := self.watch(ctx, module)) is not None:
            message = f"pass '{inner.name}' {wrong}"
            raise SourceError([Diagnostic(message), *self._replay(ctx, level)])

    def _replay(self, ctx: Context, level: str | None) -> list[Diagnostic]:
        if self.reproducer == "":
            return []
        return [Diagnostic(self.checkpoint.save(ctx, self.reproducer, level), severity="note")]

    def _failure(
        self, ctx: Context, level: str | None, found: Sequence[Diagnostic]
    ) -> InternalError:
        if self.reproducer == "":
            return InternalError(found, "")
        return InternalError(found, self.checkpoint.save(ctx, self.reproducer, level))
