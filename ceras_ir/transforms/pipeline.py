"""
Pipelines: passes that are nothing but a sequence of other passes.

The command line sees through them, so that dumps and timings show the passes inside.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class PipelinePass(ModulePass):
    """A named sequence of passes; its fields are options that it hands on to them."""

    @abstractmethod
    def passes(self) -> tuple[ModulePass, ...]:
        """The passes to run, in order. They may be pipelines themselves."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in flatten(self):
            inner.apply(ctx, op)


def flatten(pass_: ModulePass) -> Iterator[ModulePass]:
    """The passes that `pass_` stands for: itself, or those inside a pipeline, at any depth."""
    if isinstance(pass_, PipelinePass):
        for inner in pass_.passes():
            yield from flatten(inner)
    else:
        yield pass_
