"""Check the memory plan of a network, apart from what made it."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.support.diagnostics import InputError
from ceras_ir.transforms.memory.analysis.plan_check import check_plan
from ceras_ir.transforms.network_pass import NetworkPass


@dataclass(frozen=True)
class CheckBlocksPass(NetworkPass):
    """
    Refuse a memory plan, of `allocate-blocks` or edited, that changes what the network computes.

    1. Blocks and the arena or its regions hold what lies in them.
    2. Places are aligned as `mem.arena` says.
    3. Every operand is still in its place when it is read.
    4. No result lies over an operand, unless elements are written where they were read.

    Changes nothing.
    """

    name = "check-blocks"

    def change(self, main: FuncOp) -> None:
        findings = [
            finding
            for function in (*called_functions(main), main)
            for finding in check_plan(function)
        ]
        if findings:
            raise InputError(findings)
