"""
Bytes that are only moved from one place to another, and how many of them no plan could save.

A concatenation moves the operands that are not written where they end up, a reshape one that
lies elsewhere, and data changes layout at the border of an accelerator of its own memory
(`mem.pack`, `mem.unpack`). Both sides of nnet share one memory: what changes sides is not moved.
"""

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.dialects.graph import ConcatOp, ConstantOp
from ceras_ir.dialects.graph.attributes import CopiesAtBorder, viewed
from ceras_ir.dialects.mem import block_of
from ceras_ir.transforms.memory.analysis.liveness import byte_size, steps
from ceras_ir.transforms.memory.analysis.slices import operand_in_place, slices


def copied_bytes(main: FuncOp) -> int:
    """Bytes that the plan of `main` moves."""
    return sum(map(bytes_copied_by, steps(main)))


def bytes_copied_by(op: Operation) -> int:
    """Bytes that an operation of a finished plan moves without computing anything."""
    if isinstance(op, ConcatOp):
        there = {part.operand for part in slices(op) if operand_in_place(op, part)}
        return sum(byte_size(v) for v in op.operands if v not in there)
    if (source := viewed(op)) is not None:
        old, new = block_of(source), block_of(op.results[0])
        here = (
            old is not None
            and new is not None
            and (old.region, old.offset) == (new.region, new.offset)
        )
        return 0 if here else byte_size(op.results[0])
    return byte_size(op.results[0]) if _crosses(op) else 0


def _crosses(op: Operation) -> bool:
    return op.has_trait(CopiesAtBorder, value_if_unregistered=False)


def fewest_copied_bytes(main: FuncOp) -> int:
    """
    Bytes that every plan moves, if producers could write rows of any distance: an operand that a
    concatenation has twice, or that nobody in the network makes, or that is in two of them,
    unless all of the first is, in its order, a part of the second.
    """
    total = 0
    placed: dict[SSAValue, list[SSAValue]] = {}
    for op in steps(main):
        if _crosses(op):
            total += byte_size(op.results[0])
        if not isinstance(op, ConcatOp):
            continue
        own, seen = list(op.operands), set[SSAValue]()
        for operand in own:
            before = placed.get(operand)
            is_free = before is None or _is_run(before, own)
            if operand in seen or not is_free or not _is_made(operand):
                total += byte_size(operand)
            seen.add(operand)
        placed |= {operand: own for operand in own if _is_run(placed.get(operand, []), own)}
    return total


def _is_run(part: list[SSAValue], whole: list[SSAValue]) -> bool:
    """Whether all of `part` is in `whole`, side by side and in its order."""
    starts = range(len(whole) - len(part) + 1)
    return any(all(a is b for a, b in zip(part, whole[i:], strict=False)) for i in starts)


def _is_made(value: SSAValue) -> bool:
    return not isinstance(value, BlockArgument) and not isinstance(value.owner, ConstantOp)
