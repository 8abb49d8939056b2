"""
Every value is defined before it is used, which xDSL itself does not check.

An operand must be visible: an argument or an earlier result of the same block, of a block
that dominates it, or of an enclosing block. The body of a module is a graph region, as in
MLIR: order means nothing there. Operations in unreachable blocks are left alone.
"""

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo


def undominated_uses(module: ModuleOp) -> Iterator[tuple[Operation, int]]:
    """Operations that use a value before its definition, with the operand's index."""
    visible = set[SSAValue]()
    for region in module.regions:
        for block in region.blocks:
            visible.update(result for op in block.ops for result in op.results)
            visible.update(block.args)
        for block in region.blocks:
            for op in block.ops:
                yield from _check_operation(op, visible)


def _check_operation(op: Operation, visible: set[SSAValue]) -> Iterator[tuple[Operation, int]]:
    for index, operand in enumerate(op.operands):
        if operand not in visible:
            yield op, index
    if isinstance(op, ModuleOp):
        yield from undominated_uses(op)
    else:
        for region in op.regions:
            yield from _check_region(region, visible)


def _check_region(region: Region, visible: set[SSAValue]) -> Iterator[tuple[Operation, int]]:
    first = region.blocks.first
    if first is None:
        return
    if first.next_block is None:
        defined = list[SSAValue]()
        yield from _check_block(first, visible, defined)
        visible.difference_update(defined)
        return

    children = _dominator_tree(region, first)
    # The second visit of a block, marked by None, takes its definitions away again.
    pending: list[tuple[Block, list[SSAValue] | None]] = [(first, None)]
    while pending:
        block, defined = pending.pop()
        if defined is not None:
            visible.difference_update(defined)
            continue
        defined = list[SSAValue]()
        yield from _check_block(block, visible, defined)
        pending.append((block, defined))
        pending.extend((child, None) for child in reversed(children[block]))


def _check_block(
    block: Block, visible: set[SSAValue], defined: list[SSAValue]
) -> Iterator[tuple[Operation, int]]:
    """Check `block` in order; its values become visible and are appended to `defined`."""
    visible.update(block.args)
    defined.extend(block.args)
    for op in block.ops:
        yield from _check_operation(op, visible)
        visible.update(op.results)
        defined.extend(op.results)


def _dominator_tree(region: Region, entry: Block) -> dict[Block, list[Block]]:
    """The reachable blocks that each reachable block dominates immediately."""
    order = list[Block]()
    seen = {entry}
    pending = [entry]
    while pending:
        block = pending.pop()
        order.append(block)
        for successor in block.last_op.successors if block.last_op else ():
            if successor not in seen:
                seen.add(successor)
                pending.append(successor)

    info = DominanceInfo(region)
    children: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        dominators = [b for b in order if b is not block and info.dominates(b, block)]
        if dominators:
            # The immediate dominator is the one that all others dominate.
            parent = max(dominators, key=lambda b: sum(info.dominates(a, b) for a in dominators))
            children[parent].append(block)
    return children
