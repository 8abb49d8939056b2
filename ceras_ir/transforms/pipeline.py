"""
Passes that consist of other passes: a pipeline is a sequence, a pass of rules is a table.

The command line sees through pipelines, so that dumps and timings show the passes inside.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.support.diagnostics import UsageError, did_you_mean

Step: TypeAlias = Callable[[str, ModuleOp, Callable[[], None]], None]
"""Gets the name of a step, the module, and a function that runs the step."""

AROUND: ContextVar[Step | None] = ContextVar("around_steps", default=None)
"""Runs each step, or leaves it out; measurements of the benefit of passes set it."""


def run_step(name: str, step: ModulePass, ctx: Context, op: ModuleOp) -> None:
    """Apply `step`, which is a pass, or the rule `pass{rule}` of one."""
    if (around := AROUND.get()) is None:
        step.apply(ctx, op)
    else:
        around(name, op, lambda: step.apply(ctx, op))


@dataclass(frozen=True)
class PipelinePass(ModulePass):
    """A named sequence of passes; its fields are options that it hands on to them."""

    @abstractmethod
    def passes(self) -> tuple[ModulePass, ...]:
        """The passes to run, in order. They may be pipelines themselves."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in flatten(self):
            run_step(inner.name, inner, ctx, op)


def flatten(pass_: ModulePass) -> Iterator[ModulePass]:
    """The passes that `pass_` stands for: itself, or those inside a pipeline, at any depth."""
    if isinstance(pass_, PipelinePass):
        for inner in pass_.passes():
            yield from flatten(inner)
    else:
        yield pass_


# Passes that are a table of related rules.


@dataclass(frozen=True)
class RulePass(ModulePass):
    """
    A pass of related rules. Each rule has a reason and a test. Rules apply in the order of the
    table.
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
        """All rules, in order, with the options of the pass."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for rule in self.table():
            if not self.rules or rule.name in self.rules:
                run_step(f"{self.name}{{{rule.name}}}", rule, ctx, op)
