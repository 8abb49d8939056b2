"""Approximate Swish by HardSwish, which needs no exponential (S1, section 3.1.3)."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.storage import drop_statistics
from ceras_ir.support.diagnostics import remark

LARGEST_ERROR = 0.142
"""Of `|swish(x) - hard_swish(x)|` over all x, taken at x = -3 and x = 3: `3 / (1 + e^3)`."""


@dataclass(frozen=True)
class SwishToHardSwishPass(ModulePass):
    """
    Replace every swish, standing alone or fused, by hard_swish.

    Not exact: a value may change by 0.142 (`3 / (1 + e^3)`, at x = -3 and x = 3). A network that
    was not trained for it may lose its accuracy. So no pipeline runs this by default, and stderr
    says what it did. Recorded ranges are dropped: they no longer hold.
    """

    name = "swish-to-hard-swish"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if replaced := replace_swish(op):
            remark(
                f"{self.name}: note: {replaced} swish became hard_swish, each off by up to "
                f"{LARGEST_ERROR}; measure the accuracy, the network may need retraining"
            )


def replace_swish(module: ModuleOp) -> int:
    """Replace every swish, and forget ranges, which no longer hold; how many there were."""
    replaced = sum(_replace(inner) for inner in module.walk())
    if replaced:
        for inner in module.walk():
            drop_statistics(inner)
    return replaced


def _replace(op: Operation) -> bool:
    """Change the function of one operation in place, if it is swish."""
    match op:
        case graph.UnaryOp(function=swish) if swish.kind is graph.Function.SWISH:
            op.function = graph.FunctionAttr(graph.Function.HARD_SWISH, affine=swish.affine)
        case graph.LinearOperation() | graph.BinaryOp() if (
            swish := op.activation
        ) is not None and swish.kind is graph.Function.SWISH:
            op.activation = graph.FunctionAttr(graph.Function.HARD_SWISH, affine=swish.affine)
        case _:
            return False
    return True
