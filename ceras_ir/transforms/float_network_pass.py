"""Passes over float networks, that is over what nobody has quantized yet."""

from abc import abstractmethod
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized


@dataclass(frozen=True)
class FloatNetworkPass(ModulePass):
    """Changes a float network by `change`; a quantized one stays as it is."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if not is_quantized(main):
            self.change(main)

    @abstractmethod
    def change(self, main: FuncOp) -> None:
        """Do what the pass does, to the network `main`."""
