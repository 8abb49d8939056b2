"""`ceras-opt -t onnx`: the graph of a module as an ONNX model."""

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from ceras_ir.support.diagnostics import UsageError


@dataclass(frozen=True)
class OnnxText(Target):
    """
    A binary ONNX file, for `-o FILE.onnx`; `title` names the network in it. With `exact=false`
    QuantizeLinear rounds ties as ONNX does, to even, and no constants tell it otherwise.
    """

    name = "onnx"

    title: str = "main"
    exact: bool = True

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from ceras_ir.backends.onnx.export import export_model, serialized

        if output.isatty():
            raise UsageError("-t onnx writes a binary file: add -o FILE.onnx")
        data = serialized(export_model(module, self.title, exact=self.exact))
        output.flush()
        with open(output.fileno(), "wb", closefd=False) as stream:
            stream.write(data)
