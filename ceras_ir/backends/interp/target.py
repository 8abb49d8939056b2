"""
Define target interp: the interpreter, which defines the results of all other targets.

The interpreter runs a module at any level. If the module has a memory plan (an arena), values are
stored in the arena.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.names import EncodingOptions
from ceras_ir.targets import PROCESSOR_ARITHMETIC, Executable, Stage, Target
from ceras_ir.targets.capabilities import Array, Sample


class Interpreted:
    """A network that the interpreter runs, without a compiler."""

    def __init__(self, module: ModuleOp):
        self.module = module

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        from ceras_ir.interpreters.network import in_turn

        return in_turn(self.module, samples)


@dataclass(frozen=True)
class InterpTarget(EncodingOptions, Target):
    """The interpreter, on numpy. It writes no files."""

    name = "interp"
    compiles = False
    keeps_states = True
    # Float networks are quantized as for target c.
    arithmetic = PROCESSOR_ARITHMETIC

    def encode(self) -> list[Stage]:
        from ceras_ir.backends.c.target import encoding_stage

        return [] if self.encoding is None else [encoding_stage(self.encoding)]

    def interpret(self, module: ModuleOp) -> Executable:

        return Interpreted(module)
