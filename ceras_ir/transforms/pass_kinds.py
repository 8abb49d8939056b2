"""
Kinds of passes: passes over the function `main`, passes over a network that is not quantized, and
passes that consist of a rewrite pattern.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriteWalker, RewritePattern

from ceras_ir.network.function import is_quantized, main_function

# Passes over one function, `main`.


@dataclass(frozen=True)
class NetworkPass(ModulePass):
    """Changes a network by `change`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.change(main_function(op))

    @abstractmethod
    def change(self, main: FuncOp) -> None:
        """Do what the pass does, to the network `main`."""


# Passes over float networks, that is over what nobody has quantized yet.


@dataclass(frozen=True)
class FloatNetworkPass(NetworkPass):
    """Changes a float network by `change`; a quantized one stays as it is."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not is_quantized(main_function(op)):
            super().apply(ctx, op)


# Passes that are nothing but a rewrite pattern, applied wherever it matches.


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
