"""Target interp: the interpreter, which defines what every other target computes."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.choices import ENCODING_HELP, EncodingChoice
from ceras_ir.targets import ROW_SPREAD, Arithmetic, Executable, Stage, Target, option


@dataclass(frozen=True)
class InterpTarget(Target):
    """The interpreter, on numpy; it makes no files."""

    name = "interp"
    compiles = False
    keeps_states = True
    # That of target C: both make the same network of a float one.
    arithmetic = Arithmetic(residual_spread=ROW_SPREAD)

    encoding: EncodingChoice | None = option(None, ENCODING_HELP)

    def encode(self) -> list[Stage]:
        from ceras_ir.backends.c.target import encoding_stage

        return [] if self.encoding is None else [encoding_stage(self.encoding)]

    def interpret(self, module: ModuleOp) -> Executable:
        from ceras_ir.backends.interp.interpreted import Interpreted

        return Interpreted(module)
