"""Passes over one function, `main`."""

from abc import abstractmethod
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ceras_ir.network.function import main_function


@dataclass(frozen=True)
class NetworkPass(ModulePass):
    """Changes a network by `change`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.change(main_function(op))

    @abstractmethod
    def change(self, main: FuncOp) -> None:
        """Do what the pass does, to the network `main`."""
