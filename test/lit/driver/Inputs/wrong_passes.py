"""Define passes with typical mistakes."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import ReturnOp
from xdsl.passes import ModulePass

from ceras_ir.dialects.graph import UnaryOp
from ceras_ir.dialects.graph.attributes import Function, FunctionAttr


@dataclass(frozen=True)
class MarkPass(ModulePass):
    """Add an attribute to each return."""

    name = "mark"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, ReturnOp):
                inner.attributes["marked"] = UnitAttr()


@dataclass(frozen=True)
class DropReturnedPass(ModulePass):
    """Return no values, whatever the type of the function."""

    name = "drop-returned"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, ReturnOp):
                inner.operands = ()


@dataclass(frozen=True)
class LookUpPass(ModulePass):
    """Look up a missing key."""

    name = "look-up"

    key: str = "k"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found: dict[str, str] = {}
        found[self.key]


@dataclass(frozen=True)
class ReluToAbsPass(ModulePass):
    """Replace rectifiers by absolute values, which is another function."""

    name = "relu-to-abs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, UnaryOp) and inner.function.data is Function.RELU:
                inner.function = FunctionAttr(Function.ABS)
