"""Passes that are a table of related rules."""

from abc import abstractmethod
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.support.diagnostics import UsageError, did_you_mean
from ceras_ir.transforms.pipeline import run_step


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
