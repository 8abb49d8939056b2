"""
Define kinds of passes: on `main`, on a float network, from a pattern, from passes, from rules.

The command line expands pipelines, so that dumps and timings show each pass. The options of a
pipeline load neither the dialects nor numpy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriteWalker, RewritePattern

from ceras_ir.support.diagnostics import UsageError, did_you_mean

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp


@dataclass(frozen=True)
class NetworkPass(ModulePass):
    """Base class of passes that change the function `main`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from ceras_ir.network.function import main_function

        self.change(main_function(op))

    @abstractmethod
    def change(self, main: FuncOp) -> None:
        """Apply the pass to the network `main`."""


@dataclass(frozen=True)
class FloatNetworkPass(NetworkPass):
    """
    Base class of passes that change a float network. They leave a quantized network unchanged.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from ceras_ir.network.function import is_quantized, main_function

        if not is_quantized(main_function(op)):
            super().apply(ctx, op)


class PatternPass(ModulePass):
    """
    Base class of passes that apply the rewrite `pattern` to each operation. A
    `GreedyRewritePatternApplier` also erases dead code.
    """

    pattern: ClassVar[RewritePattern]
    repeats: ClassVar[bool] = True
    """Whether the pattern is also applied to the operations that it creates."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        walker = PatternRewriteWalker(self.pattern, apply_recursively=self.repeats)
        walker.rewrite_module(op)


Step: TypeAlias = Callable[[str, ModuleOp, Callable[[], None]], None]
"""A function of the name of a step, the module, and a function that runs the step."""

AROUND: ContextVar[Step | None] = ContextVar("around_steps", default=None)
"""
A function that runs or omits each step, if it is set. Measurements of the benefit of passes set it.
"""


def run_step(name: str, step: ModulePass, ctx: Context, op: ModuleOp) -> None:
    """
    Apply `step`, a pass or a rule of a pass. If the variable `AROUND` has a function, it is called
    instead, and decides whether the step runs.
    """
    if (wrapper := AROUND.get()) is None:
        step.apply(ctx, op)
    else:
        wrapper(name, op, lambda: step.apply(ctx, op))


@dataclass(frozen=True)
class PipelinePass(ModulePass):
    """
    Base class of passes that run a sequence of other passes. The fields are options, which it gives
    to these passes.
    """

    @abstractmethod
    def passes(self) -> tuple[ModulePass, ...]:
        """Return the passes in order. Each can also be a pipeline."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in flatten(self):
            run_step(inner.name, inner, ctx, op)


def flatten(pass_: ModulePass) -> Iterator[ModulePass]:
    """Yield the pass itself, or the passes inside a pipeline at any depth."""
    if isinstance(pass_, PipelinePass):
        for inner in pass_.passes():
            yield from flatten(inner)
    else:
        yield pass_


@dataclass(frozen=True)
class RulePass(ModulePass):
    """
    Base class of passes that consist of related rules, which apply in the order of `table`. The
    option `rules` selects some of them.
    """

    rules: tuple[str, ...] = field(default=(), kw_only=True)
    """The rules that apply; all rules by default."""

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.table()]
        for name in self.rules:
            if name not in names:
                hint = did_you_mean(name, names) or f" (rules: {', '.join(names)})"
                raise UsageError(f"pass '{self.name}' has no rule '{name}'{hint}")

    @abstractmethod
    def table(self) -> tuple[ModulePass, ...]:
        """Return all rules of the pass in order. The rules have the options of the pass."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for rule in self.table():
            if not self.rules or rule.name in self.rules:
                run_step(f"{self.name}{{{rule.name}}}", rule, ctx, op)
