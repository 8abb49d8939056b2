"""Forget where values lie, so that operations may be added, moved and removed again."""

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.dialects.mem import ARENA, BLOCK, COPIED, REGIONS
from ceras_ir.transforms.network_pass import NetworkPass


@dataclass(frozen=True)
class ClearPlanPass(NetworkPass):
    """
    Remove the memory plan of a network: `mem.block` and `mem.copied` of its operations and
    arguments, `mem.arena` and `mem.regions` of its functions.

    Exact: without a plan every value has memory of its own. Passes that come before the plan know
    nothing of it, so that it goes first where the text of the memory level is compiled again.
    """

    name = "clear-plan"

    def change(self, main: FuncOp) -> None:
        for function in (*called_functions(main), main):
            clear_plan(function)


def clear_plan(main: FuncOp) -> None:
    """Forget the plan of one function."""
    main.attributes.pop(ARENA, None)
    main.attributes.pop(REGIONS, None)
    for operation in main.body.block.ops:
        operation.attributes.pop(BLOCK, None)
        operation.attributes.pop(COPIED, None)
    if main.arg_attrs is not None:
        main.arg_attrs = ArrayAttr(
            DictionaryAttr({k: v for k, v in a.data.items() if k != BLOCK}) for a in main.arg_attrs
        )
