"""`ceras-opt -t c`: the readable part of the generated C as text, to look at and to test."""

from dataclasses import dataclass
from io import BytesIO
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.options import COptions
from ceras_ir.support.diagnostics import UsageError


@dataclass(frozen=True)
class CText(Target):
    """One file of the C backend, `model.c` unless `file` names another."""

    name = "c"

    file: str = "model.c"
    workspace: int = COptions.workspace

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        artefacts = {a.path: a for a in emit(module, COptions(workspace=self.workspace))}
        if self.file not in artefacts:
            raise UsageError(f"no file '{self.file}'; there are {', '.join(artefacts)}")
        artefacts[self.file].write(stream := BytesIO())
        output.write(stream.getvalue().decode("ascii"))
