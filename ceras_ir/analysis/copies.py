"""
Bytes that are only moved from one place to another, and how many of them no plan could save.

A concatenation moves the operands that are not written where they end up, a reshape one that
lies elsewhere, and data changes layout at the border of an accelerator of its own memory
(`mem.pack`, `mem.unpack`). Both sides of nnet share one memory: what changes sides is not moved.
"""

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from ceras_ir.analysis.in_place import slices
from ceras_ir.analysis.liveness import byte_size, operand_in_place, steps
from ceras_ir.dialects.graph import ConcatOp, ConstantOp, ReshapeOp
from ceras_ir.dialects.mem import PackOp, UnpackOp, block_of


def copied_bytes(main: FuncOp) -> int:
    """Bytes that the plan of `main` moves."""
    total = 0
    for op in steps(main):
        match op:
            case ConcatOp():
                there = {v for v, start in slices(op) if operand_in_place(op, v, start)}
                total += sum(byte_size(v) for v in op.operands if v not in there)
            case ReshapeOp():
                old, new = block_of(op.input), block_of(op.result)
                here = (
                    old is not None
                    and new is not None
                    and (old.region, old.offset) == (new.region, new.offset)
                )
                total += 0 if here else byte_size(op.result)
            case PackOp() | UnpackOp():
                total += byte_size(op.result)
            case _:
                pass
    return total


def fewest_copied_bytes(main: FuncOp) -> int:
    """
    Bytes that every plan moves, if producers could write rows of any distance: an operand that a
    concatenation has twice, or that is in two of them, or that nobody in the network makes.
    """
    total = 0
    placed: set[SSAValue] = set()
    for op in steps(main):
        if isinstance(op, PackOp | UnpackOp):
            total += byte_size(op.result)
        if not isinstance(op, ConcatOp):
            continue
        for operand in op.operands:
            if operand in placed or not _is_made(operand):
                total += byte_size(operand)
            placed.add(operand)
    return total


def _is_made(value: SSAValue) -> bool:
    return not isinstance(value, BlockArgument) and not isinstance(value.owner, ConstantOp)
