"""Say where operations run, and why."""

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.dialects.mem import COST, REASON, device_of
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import UsageError, node_name
from ceras_ir.transforms.memory.analysis.liveness import steps


@dataclass(frozen=True)
class ExplainPass(ModulePass):
    """
    Print the device of each operation and the reason to stderr, one line per operation. The line
    has the node, the device, and the reason where the accelerator does not run it. Where `place`
    had a board it also has the time on each device. Changes nothing.
    """

    name = "explain"

    node: str | None = None
    """Print this node only."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lines = explanation(op, self.node)
        if not lines:
            raise UsageError(f"explain: no node '{self.node}' in the network")
        sys.stderr.write("".join(f"{line}\n" for line in lines))


def explanation(module: ModuleOp, node: str | None = None) -> list[str]:
    """The lines of a placed network, or of one of its nodes."""
    found = [op for op in steps(main_function(module)) if node in (None, node_name(op))]
    return [_line(op) for op in found]


def _line(op: Operation) -> str:
    text = f"{node_name(op)} ({op.name}) on the {device_of(op)}"
    for name in (COST, REASON):
        attribute = op.attributes.get(name)
        if isinstance(attribute, StringAttr):
            text += f"; {attribute.data}"
    return text
