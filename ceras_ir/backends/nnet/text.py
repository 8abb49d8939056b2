"""`ceras-opt -t nnet`: the file as text, as `ceras-nnet dump` prints it."""

from dataclasses import dataclass
from io import BytesIO
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from ceras_ir.backends.nnet.dump import dump
from ceras_ir.backends.nnet.writer import emit


@dataclass(frozen=True)
class NnetText(Target):
    """Blocks, tensors and layers of a module whose values and ends have places in memory."""

    name = "nnet"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        (file,) = emit(module)
        file.write(stream := BytesIO())
        output.write(dump(stream.getvalue()))
