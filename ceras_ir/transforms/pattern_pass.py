"""Passes that are nothing but a rewrite pattern, applied wherever it matches."""

from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriteWalker, RewritePattern


class PatternPass(ModulePass):
    """
    Applies `pattern` to every operation; a `GreedyRewritePatternApplier` of several, or of one,
    also erases what nobody reads any more.
    """

    pattern: ClassVar[RewritePattern]
    repeats: ClassVar[bool] = True
    """Whether it looks again at what it has made."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        walker = PatternRewriteWalker(self.pattern, apply_recursively=self.repeats)
        walker.rewrite_module(op)
