"""Show when values are alive."""

import sys
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from ceras_ir.transforms.memory.analysis.liveness import BufferOptions
from ceras_ir.transforms.memory.analysis.liveness_text import describe
from ceras_ir.transforms.network_pass import NetworkPass


@dataclass(frozen=True)
class PrintLivenessPass(BufferOptions, NetworkPass):
    """
    Print lifetimes and interference of the buffers of `@main` to stderr. A line has the bytes, the
    half-open lifetime in steps, the same as a bar, the buffers alive at some common step, and the
    values in the buffer. Changes nothing.
    """

    name = "print-liveness"

    def change(self, main: FuncOp) -> None:
        text = describe(main, include_io=self.io, alignment=self.alignment)
        sys.stderr.write(text)
