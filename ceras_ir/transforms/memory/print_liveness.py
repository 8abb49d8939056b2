"""Show when values are alive."""

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.network.function import main_function
from ceras_ir.transforms.memory.analysis.liveness_text import describe


@dataclass(frozen=True)
class PrintLivenessPass(ModulePass):
    """
    Print lifetimes and interference of the buffers of `@main` to stderr. A line has the bytes, the
    half-open lifetime in steps, the same as a bar, the buffers alive at some common step, and the
    values in the buffer. Changes nothing.
    """

    name = "print-liveness"

    io: bool = False
    """Include arguments and results."""
    alignment: int = 16
    """Round sizes in the bound up to this."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        text = describe(main_function(op), include_io=self.io, alignment=self.alignment)
        sys.stderr.write(text)
