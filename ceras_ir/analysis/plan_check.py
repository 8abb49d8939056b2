"""
Check a memory plan the slow way: walk the network, keep a map of who owns which bytes.

Shares no code with liveness or the allocators. Every operation's operands must still be in
place when it runs, and its result must fit its block and the arena.
"""

from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ceras_ir.analysis.in_place import may_overwrite
from ceras_ir.diagnostics import node_name
from ceras_ir.dialects.graph import ConstantOp, ReshapeOp, storage_type, tensor_type
from ceras_ir.dialects.mem import arena_of, block_of


def check_plan(main: FuncOp) -> list[str]:
    """What is wrong with the plan of `main`, in words; nothing for a good plan."""
    arena = arena_of(main)
    if arena is None:
        return ["function has no mem.arena"]
    findings: list[str] = []
    owners: list[tuple[int, int, SSAValue]] = []

    def claim(value: SSAValue, where: str, *, same_bytes: bool = False) -> None:
        block = block_of(value)
        if block is None:
            return
        kind = tensor_type(value)
        needed = prod(kind.get_shape()) * storage_type(kind.element_type).size
        lower, upper = block.offset.data, block.offset.data + block.size.data
        if needed > block.size.data:
            findings.append(f"{where}: {needed} bytes in a block of {block.size.data}")
        if lower % arena.alignment.data:
            findings.append(f"{where}: offset {lower} is not aligned to {arena.alignment.data}")
        if upper > arena.size.data:
            findings.append(f"{where}: bytes to {upper} in an arena of {arena.size.data}")
        # Whoever owns these bytes still does if the same ones are written again.
        kept = [o for o in owners if same_bytes or o[1] <= lower or o[0] >= upper]
        owners[:] = [*kept, (lower, lower + needed, value)]

    for argument in main.body.block.args:
        claim(argument, f"argument {argument.index}")
    for op in main.body.block.ops:
        if isinstance(op, ConstantOp):
            claim(op.result, node_name(op))
    for op in main.body.block.ops:
        if isinstance(op, ConstantOp):
            continue
        for i, operand in enumerate(op.operands):
            if block_of(operand) is not None and all(o[2] is not operand for o in owners):
                findings.append(f"{node_name(op)}: operand {i} was overwritten before it was read")
        outside = [r for r in op.results if block_of(r) is not None]
        for value in outside:
            # A reshape writes the same bytes where its operand lives; an elementwise operation
            # writes others there, and the operand is gone.
            source = op.input if isinstance(op, ReshapeOp) else None
            block = block_of(value)
            assert block is not None
            for operand in op.operands:
                other = block_of(operand)
                if operand is source or other is None:
                    continue
                if other.offset == block.offset and may_overwrite(op, operand):
                    continue
                if (
                    block.offset.data < other.offset.data + other.size.data
                    and other.offset.data < block.offset.data + block.size.data
                ):
                    findings.append(f"{node_name(op)}: result overlaps an operand it reads")
            place = block_of(source) if source is not None else None
            in_place = place is not None and place.offset == block.offset
            claim(value, node_name(op), same_bytes=in_place)
    return findings
