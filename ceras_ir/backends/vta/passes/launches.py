"""Move and mark launches, so that launches between which the host does no work start together."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.dialects.graph.traits import CopiesAtBorder, MovesElements, viewed
from ceras_ir.dialects.mem import CONTINUES, FoldZeroPointOp, LaunchOp
from ceras_ir.transforms.memory.analysis.liveness import steps
from ceras_ir.transforms.memory.analysis.starts import is_host_work
from ceras_ir.transforms.network_pass import NetworkPass


@dataclass(frozen=True)
class GatherLaunchesPass(NetworkPass):
    """
    Move a launch to the one before where the host only moves elements for it, of what is there
    already: its operands are packed before the first of both. What the host does with results
    follows behind them. Heads of attention so start together (`merge-launches`).

    What computes for a launch stays where it is, as its results would lie in memory for longer: of
    scores and shares one head is alive at a time.

    Exact: no operation comes before what it reads. Launches keep their order.
    """

    name = "gather-launches"

    def change(self, main: FuncOp) -> None:
        group: list[LaunchOp] = []
        for launch in [step for step in steps(main) if isinstance(step, LaunchOp)]:
            if not (group and _follow(group, launch)):
                group.clear()
            group.append(launch)


def _follow(group: Sequence[LaunchOp], launch: LaunchOp) -> bool:
    """Move `launch` behind the launches of `group`, which are side by side, if that can be."""
    block = launch.parent
    assert block is not None
    behind = _between(group[-1], launch)
    inside = [op for op in _between(group[0], group[-1]) if op not in group]
    needed = _needed(launch, {*inside, *behind})
    waiting = set[Operation](group)
    """The group, and views of what it makes."""
    before: list[Operation] = []
    for op in [*inside, *behind]:
        if op not in needed:
            continue
        if any(operand.owner in waiting for operand in op.operands):
            if viewed(op) is None:
                return False
            waiting.add(op)
        elif _is_movement(op):
            before.append(op)
        else:
            return False
    for op in before:
        op.detach()
        block.insert_op_before(op, group[0])
    for op in reversed([op for op in behind if op not in needed]):
        op.detach()
        block.insert_op_after(op, launch)
    return True


def _between(first: Operation, last: Operation) -> list[Operation]:
    """The operations behind `first` and before `last`; none if both are one."""
    found: list[Operation] = []
    op = first if first is last else first.next_op
    while op is not None and op is not last:
        found.append(op)
        op = op.next_op
    return found


def _needed(launch: LaunchOp, among: set[Operation]) -> set[Operation]:
    """The operations of `among` that lead to an operand of `launch`."""
    found, left = set[Operation](), list[Operation]([launch])
    while left:
        for operand in left.pop().operands:
            owner = operand.owner
            if isinstance(owner, Operation) and owner in among and owner not in found:
                found.add(owner)
                left.append(owner)
    return found


def _is_movement(op: Operation) -> bool:
    """Whether nothing is computed but what packing takes."""
    if isinstance(op, ConstantOp | FoldZeroPointOp):
        return True
    return any(
        op.has_trait(trait, value_if_unregistered=False)
        for trait in (MovesElements, CopiesAtBorder)
    )


@dataclass(frozen=True)
class MergeLaunchesPass(NetworkPass):
    """
    Give `mem.continues` to every launch that follows another with no work of the host's between.
    No other launch has it then. A target may make one program of such launches.

    Values have their places already (`allocate-blocks`), as a view is work where it is a copy.

    Exact: launches keep their order; it only says that the host does not look in between.
    """

    name = "merge-launches"

    def change(self, main: FuncOp) -> None:
        follows = False
        for step in steps(main):
            if isinstance(step, LaunchOp):
                step.attributes.pop(CONTINUES, None)
                if follows:
                    step.attributes[CONTINUES] = UnitAttr()
                follows = True
            elif is_host_work(step):
                follows = False
