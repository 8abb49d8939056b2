"""
Verify a module between passes, and report the invalid operations with their locations.

xDSL stops at the first error, without a place. Two checks are added: discardable attributes, and
the definition of each value before a use. All invalid operations are reported together.

An operand must be an argument or an earlier result of the same block, of a dominating block, or of
an enclosing block. The body of a module is a graph region, as in MLIR, and has no order. Operations
in unreachable blocks are not checked.
"""

from collections.abc import Iterator
from traceback import walk_tb
from weakref import ref

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.utils.exceptions import VerifyException

from ceras_ir.command.exit_status import Diagnostic, SourceError, at_operation


def undominated_uses(module: ModuleOp) -> Iterator[tuple[Operation, int]]:
    """
    Yield operations with an operand that is not defined before the use or is outside of the scope,
    with the index of the operand.
    """
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
    # The second visit of a block, marked by None, removes the definitions of the block.
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
    """
    Check the operations of `block` in order, and yield wrong uses. The arguments and results of the
    block are added to `visible`, and appended to `defined` so that the caller can remove them
    again.
    """
    visible.update(block.args)
    defined.extend(block.args)
    for op in block.ops:
        yield from _check_operation(op, visible)
        visible.update(op.results)
        defined.extend(op.results)


def _dominator_tree(region: Region, entry: Block) -> dict[Block, list[Block]]:
    """
    Return the dominator tree of a region: for each reachable block, the reachable blocks that it
    dominates immediately.
    """
    order = list[Block]()
    visited = {entry}
    pending = [entry]
    while pending:
        block = pending.pop()
        order.append(block)
        for successor in block.last_op.successors if block.last_op else ():
            if successor not in visited:
                visited.add(successor)
                pending.append(successor)

    info = DominanceInfo(region)
    children: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        dominators = [b for b in order if b is not block and info.dominates(b, block)]
        if dominators:
            # All other dominators dominate the immediate dominator.
            parent = max(dominators, key=lambda b: sum(info.dominates(a, b) for a in dominators))
            children[parent].append(block)
    return children


def verify_module(module: ModuleOp) -> None:
    """Raise a `SourceError` that names each invalid operation of `module`."""
    if found := find_invalid(module):
        raise SourceError(found)


class ChangeVerifier:
    """Verifies a module after each pass, but only if the pass changed the module."""

    def __init__(self) -> None:
        self._valid: list[tuple[object, ...]] | None = None

    def check(self, module: ModuleOp) -> None:
        """Raise a `SourceError` that names each invalid operation of `module`."""
        if found := self.find_invalid(module):
            raise SourceError(found)

    def find_invalid(self, module: ModuleOp) -> list[Diagnostic]:
        """
        Return an error for each invalid operation of `module`; nothing if the module is unchanged
        since the last valid result.
        """
        now = _contents(module)
        if now == self._valid:
            return []
        found = find_invalid(module)
        self._valid = None if found else now
        return found


def _contents(module: ModuleOp) -> list[tuple[object, ...]]:
    """
    Return all parts of a module on which verification depends, to find out whether it changed. The
    references are weak, so that replaced constants are freed; a dead reference equals no live
    object.
    """
    found: list[tuple[object, ...]] = []
    for op in module.walk():
        blocks = [block for region in op.regions for block in region.blocks]
        found.append(
            (
                ref(op),
                op.parent and ref(op.parent),
                (*map(ref, op.operands),),
                (*map(ref, op.successors),),
                (*op.properties, *map(ref, op.properties.values())),
                (*op.attributes, *map(ref, op.attributes.values())),
                (*(ref(result.type) for result in op.results),),
                (*((ref(block), *(ref(arg.type) for arg in block.args)) for block in blocks),),
            )
        )
    return found


def find_invalid(module: ModuleOp) -> list[Diagnostic]:
    """
    Return an error, with the location, for each invalid operation of `module`. Attributes, states
    and the order of definitions are checked only if all operations are valid.
    """
    try:
        module.verify()
    except Exception as error:
        found = list(_invalid_operations(module))
        if not found and not _means_invalid(error):
            raise
        return found or [Diagnostic(str(error))]
    # A command without verification imports no dialect.
    from ceras_ir.pipeline.discardable import refusals

    found = [at_operation(op, text) for op in module.walk() for text in refusals(op)]
    found = found or list(_bad_states(module))
    return found or list(_bad_uses(module))


def _bad_states(module: ModuleOp) -> Iterator[Diagnostic]:
    from ceras_ir.network.function import state_refusals

    for op in module.ops:
        if isinstance(op, FuncOp) and op.arg_attrs is not None and not op.is_declaration:
            yield from (at_operation(op, text) for text in state_refusals(op))


def _means_invalid(error: Exception) -> bool:
    """
    Return whether `error` means that a verifier refused the IR, and not that the verifier is
    defective. Memref operations of xDSL raise a plain `Exception`.
    """
    return isinstance(error, VerifyException) or type(error) is Exception


def _invalid_operations(module: ModuleOp) -> Iterator[Diagnostic]:
    for op in module.walk(region_first=True):
        try:
            op.verify(verify_nested_ops=False)
        except Exception as error:
            if _means_invalid(error):
                message = str(error).removeprefix("Operation does not verify: ").strip()
            # Other errors in verifiers of the compiler follow from errors that are reported.
            elif type(op).__module__.partition(".")[0] in ("ceras_ir", "xdsl"):
                continue
            else:
                message = _verifier_error(op, error)
            yield at_operation(op, message)


def _verifier_error(op: Operation, error: Exception) -> str:
    *_, (frame, line) = walk_tb(error.__traceback__)
    place = f"{frame.f_code.co_filename}:{line}"
    return (
        f"cannot be verified: {place}: the verifier of class {type(op).__name__} raised "
        f"{type(error).__name__}: {error}; raise xdsl.utils.exceptions.VerifyException to refuse "
        "an operation"
    )


def _bad_uses(module: ModuleOp) -> Iterator[Diagnostic]:
    for op, index in undominated_uses(module):
        name = op.operands[index].name_hint
        value = f"operand #{index}" + (f" (%{name})" if name else "")
        yield at_operation(op, f"{value} is used before its definition or outside its scope")
