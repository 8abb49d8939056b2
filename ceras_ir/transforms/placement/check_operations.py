"""Refuse what a target cannot run, before anything is calibrated for it."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from ceras_ir.network.function import states_of
from ceras_ir.network.quantizable import computes, is_quantized, keeps_scale
from ceras_ir.support.diagnostics import Finding, UnsupportedError, node_name
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import all_targets, find_target
from ceras_ir.transforms.memory.analysis.liveness import steps
from ceras_ir.transforms.network_pass import NetworkPass


@dataclass(frozen=True)
class CheckOperationsPass(NetworkPass):
    """
    Refuse the operations of a float network that stay as they are and that `target` cannot run.

    1. What has a quantized form, or only moves elements, is left to the target's own levels.
    2. Every other operation stays as it is; all that the target has nothing for are named at once.
    3. A node that became several operations is named once, with the last of them that is refused,
       which is what the node computes; those before only bring operands into shape.
    4. The states of any network are named with them where the target keeps none.

    Changes nothing. Operations of a quantized network are not looked at.
    """

    name = "check-operations"

    target: str
    """The target that is asked."""

    def change(self, main: FuncOp) -> None:
        found = find_target(self.target)
        states = state_findings(main, found)
        findings: dict[str, Finding] = {}
        for inner in () if is_quantized(main) else steps(main):
            if computes(inner) or keeps_scale(inner):
                continue
            if (reason := found.why_not(inner)) is not None:
                name = node_name(inner)
                findings[name] = Finding(name, inner.name, f"unsupported: {reason}")
        if states or findings:
            raise UnsupportedError([*states, *findings.values()])


def state_findings(main: FuncOp, target: type[Target]) -> list[Finding]:
    """The states of a network, if `target` keeps none."""
    states = states_of(main)
    if target.keeps_states or not states:
        return []
    keeping = ", ".join(cls.name for cls in all_targets() if cls.keeps_states and cls.compiles)
    return [
        Finding(
            state.name,
            "input",
            f"unsupported on target {target.name}, which keeps no states: leave out "
            f"--state {state.name}={state.result_name}, and hand the output back as the input, of "
            f"which calibration data needs examples; {keeping} keep states",
        )
        for state in states
    ]
