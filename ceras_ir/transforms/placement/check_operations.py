"""Refuse what a target cannot run, before anything is calibrated for it."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import computes, is_quantized, keeps_scale
from ceras_ir.support.diagnostics import Finding, UnsupportedError, node_name
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.memory.analysis.liveness import steps


@dataclass(frozen=True)
class CheckOperationsPass(ModulePass):
    """
    Refuse the operations of a float network that stay as they are and that `target` cannot run.

    1. What has a quantized form, or only moves elements, is left to the target's own levels.
    2. Every other operation stays as it is; all that the target has nothing for are named at once.
    3. A node that became several operations is named once, with the last of them that is refused,
       which is what the node computes; those before only bring operands into shape.

    Changes nothing. A quantized network is not looked at.
    """

    name = "check-operations"

    target: str
    """The target that is asked."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        found = find_target(self.target)
        findings: dict[str, Finding] = {}
        for inner in steps(main):
            if computes(inner) or keeps_scale(inner):
                continue
            if (reason := found.why_not(inner)) is not None:
                name = node_name(inner)
                findings[name] = Finding(name, inner.name, f"unsupported: {reason}")
        if findings:
            raise UnsupportedError(list(findings.values()))
