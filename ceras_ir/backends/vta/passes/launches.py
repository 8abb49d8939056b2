"""Move and mark launches so that they start together, and show their instruction streams."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.lowering.image import build_image
from ceras_ir.backends.vta.machine import dialect as vta
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.encoding import DEFAULT_BOARD, VtaProgram
from ceras_ir.backends.vta.machine.isa import BoardOptions
from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.dialects.graph.attributes import ConvertsLayout, MovesElements, viewed_operand
from ceras_ir.dialects.mem import CONTINUES, FoldZeroPointOp, LaunchOp
from ceras_ir.support.diagnostics import UnsupportedError
from ceras_ir.transforms.memory.liveness import is_host_work, steps
from ceras_ir.transforms.pass_kinds import NetworkPass


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
            if viewed_operand(op) is None:
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
        for trait in (MovesElements, ConvertsLayout)
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


LOGS = ("log_uops", "log_inp", "log_wgt", "log_acc")


@dataclass(frozen=True)
class ConvertTileToVtaPass(BoardOptions, ModulePass):
    """
    Append `vta.program @launch_<i>` for the i-th `mem.launch`. It is the kernels of the launch, and
    of those that start together with it (`mem.continues`), with all loops expanded, at the
    addresses that `mem.block` gives their operands.

    Launches and kernels stay as the meaning that programs are held to. Values must have their
    places already. Boards with larger buffers than the published ones are refused, because indices
    would not fit the dialect.
    """

    name = "convert-tile-to-vta"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        board = load_board(self.board)
        if any(getattr(board, log) > getattr(DEFAULT_BOARD, log) for log in LOGS):
            raise UnsupportedError(
                f"unsupported board '{self.board}': the vta dialect has indices for the published "
                "buffer sizes; look at the streams as text (ceras-compile --save-temps)"
            )
        for old in [o for o in op.body.block.ops if isinstance(o, vta.ProgramOp)]:
            old.detach()
            old.erase()
        for index, launch in enumerate(build_image(op, board).launches):
            op.body.block.add_op(program_to_op(launch.program, f"launch_{index}"))


def program_to_op(program: VtaProgram, name: str) -> vta.ProgramOp:
    """`program` as operations."""
    body = [vta.from_instruction(i) for i in program.instructions]
    return vta.ProgramOp(name, program.micro_ops, program.uop_base, body)
