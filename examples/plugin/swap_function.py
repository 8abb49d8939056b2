"""Define a pass of twenty lines that replaces an elementwise function in the entire network."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.dialects.graph import Function, FunctionAttr


@dataclass(frozen=True)
class SwapFunctionPass(ModulePass):
    """Replace the function `old` by `new`, fused or not. The network must be trained for it."""

    name = "swap-function"

    old: str = "swish"
    new: str = "hard_swish"

    def __post_init__(self) -> None:
        for function in (self.old, self.new):
            Function(function)  # a ValueError here is reported as wrong usage

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        old, new = FunctionAttr(Function(self.old)), FunctionAttr(Function(self.new))
        for inner in op.walk():
            for key, value in inner.properties.items():
                if value == old:
                    inner.properties[key] = new
