"""
Which launches start together: those with `mem.continues` with the one before them.

Nothing that the host does may be between them. A view that lies where its operand does is no work
of the host's, and neither is a constant.
"""

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph.attributes import viewed
from ceras_ir.dialects.mem import CONTINUES, LaunchOp, block_of
from ceras_ir.support.diagnostics import InputError, node_name
from ceras_ir.transforms.memory.analysis.liveness import steps


def is_host_work(op: Operation) -> bool:
    """Whether the host does something for `op`, a step of a finished plan."""
    if isinstance(op, LaunchOp):
        return False
    source = viewed(op)
    return source is None or _place(source) is None or _place(source) != _place(op.results[0])


def _place(value: SSAValue) -> tuple[str, int] | None:
    block = block_of(value)
    return None if block is None else (block.region.data, block.offset.data)


def starts_of(main: FuncOp) -> list[list[LaunchOp]]:
    """The launches of `main`, those that start together in one list, in the order they run."""
    found: list[list[LaunchOp]] = []
    is_open = False
    for op in steps(main):
        if not isinstance(op, LaunchOp):
            is_open = is_open and not is_host_work(op)
        elif CONTINUES not in op.attributes:
            found.append([op])
            is_open = True
        elif is_open:
            found[-1].append(op)
        else:
            raise InputError(
                f"launch '{node_name(op)}' has '{CONTINUES}', and what comes before it is no "
                "launch: run merge-launches again"
            )
    return found


def transients(main: FuncOp) -> set[SSAValue]:
    """
    Results that are read only by launches that start together with the one that makes them, and
    views of such: when the host goes on, something else may be in their place.
    """
    found: set[SSAValue] = set()
    for launches in starts_of(main):
        for op in launches[:-1]:
            for value in op.results:
                if readers := _readers(value, launches):
                    found |= readers
    return found


def _readers(value: SSAValue, launches: list[LaunchOp]) -> set[SSAValue]:
    """`value` and its views, if nothing but `launches` reads them; else nothing."""
    found = {value}
    for user in (use.operation for use in value.uses):
        if user in launches:
            continue
        if is_host_work(user):
            return set()
        for view in user.results:
            if not (more := _readers(view, launches)):
                return set()
            found |= more
    return found
