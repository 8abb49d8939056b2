"""Give every value of the network a block of shared memory."""

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.analysis.colouring import fewest_blocks
from ceras_ir.analysis.exact_offsets import plan_offsets
from ceras_ir.analysis.liveness import Liveness, analyse, byte_size
from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.plan_check import check_plan
from ceras_ir.dialects.mem import ARENA, BLOCK, ArenaAttr, BlockAttr


@dataclass(frozen=True)
class AllocateBlocksPass(ModulePass):
    """
    Lifetimes become places: `mem.block` on every operation, `mem.arena` on the function.

    With `strategy=colouring`, values share whole blocks, as few as possible, each as large as
    the largest value in it (S2); with `strategy=offsets`, values lie at byte offsets wherever
    they do not overlap while both are alive. `io` places arguments and results too; otherwise
    they stay in the caller's memory. Correct because an independent check of the finished plan
    (`analysis/plan_check.py`) finds nothing; asserted on every run.
    """

    name = "allocate-blocks"

    strategy: Literal["offsets", "colouring"] = "offsets"
    alignment: int = 16
    io: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        clear_plan(main)
        liveness = analyse(main, include_io=self.io)
        if self.strategy == "colouring":
            plan, size = coloured_plan(liveness, self.alignment)
        else:
            plan, size = offset_plan(liveness, self.alignment)
        for value, block in plan.items():
            _attach(main, value, block)
        main.attributes[ARENA] = ArenaAttr(size, self.alignment)
        findings = check_plan(main)
        assert not findings, findings


def coloured_plan(liveness: Liveness, alignment: int) -> tuple[dict[SSAValue, BlockAttr], int]:
    """Blocks by graph colouring, one after the other in the order of their numbers."""
    colours = fewest_blocks(liveness.buffers)
    sizes = [0] * (max(colours, default=-1) + 1)
    for buffer, colour in zip(liveness.buffers, colours, strict=True):
        sizes[colour] = max(sizes[colour], -(-buffer.size // alignment) * alignment)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    plan = {
        value: BlockAttr(colour, starts[colour], sizes[colour])
        for buffer, colour in zip(liveness.buffers, colours, strict=True)
        for value in buffer.values
    }
    return plan, sum(sizes)


def offset_plan(liveness: Liveness, alignment: int) -> tuple[dict[SSAValue, BlockAttr], int]:
    """Blocks at byte offsets; values at the same offset and of one size have one number."""
    found = plan_offsets(liveness.spans, alignment)
    numbers: dict[tuple[int, int], int] = {}
    plan: dict[SSAValue, BlockAttr] = {}
    for buffer, offset in zip(liveness.buffers, found.offsets, strict=True):
        number = numbers.setdefault((offset, buffer.size), len(numbers))
        for value in buffer.values:
            plan[value] = BlockAttr(number, offset, byte_size(value))
    return plan, found.peak


def clear_plan(main: FuncOp) -> None:
    """Forget an earlier plan, so that a new one does not mix with it."""
    main.attributes.pop(ARENA, None)
    for operation in main.body.block.ops:
        operation.attributes.pop(BLOCK, None)
    if main.arg_attrs is not None:
        main.arg_attrs = ArrayAttr(
            DictionaryAttr({k: v for k, v in a.data.items() if k != BLOCK}) for a in main.arg_attrs
        )


def _attach(main: FuncOp, value: SSAValue, block: BlockAttr) -> None:
    if isinstance(value.owner, Operation):
        value.owner.attributes[BLOCK] = block
        return
    assert isinstance(value, BlockArgument)
    attributes = (
        list(main.arg_attrs)
        if main.arg_attrs is not None
        else [DictionaryAttr({}) for _ in main.body.block.args]
    )
    attributes[value.index] = DictionaryAttr({**attributes[value.index].data, BLOCK: block})
    main.arg_attrs = ArrayAttr(attributes)
