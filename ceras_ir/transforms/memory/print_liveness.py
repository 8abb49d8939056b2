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
    Lifetimes and interference of the buffers of `@main` on stderr: bytes, half-open lifetime
    in steps, the same as a bar, the buffers that are alive at some common step, and the values
    that lie there. `io` includes arguments and results; sizes in the bound are rounded up to
    `alignment`. Changes nothing.
    """

    name = "print-liveness"

    io: bool = False
    alignment: int = 16

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        text = describe(main_function(op), include_io=self.io, alignment=self.alignment)
        sys.stderr.write(text)
