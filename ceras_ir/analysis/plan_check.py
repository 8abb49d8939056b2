"""
Check a memory plan the slow way: walk the network, keep a map of who owns which bytes.

Shares no code with liveness or the allocators. Every operation's operands must still be in
place when it runs, and its result must fit its block and the arena. Regions are ranges of one line
of addresses, so far from each other that nothing reaches from one into the next.
"""

from collections.abc import Callable
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.analysis.in_place import may_overwrite
from ceras_ir.diagnostics import node_name
from ceras_ir.dialects.graph import (
    ConcatOp,
    ConstantOp,
    ReshapeOp,
    shape_of,
    storage_type,
    tensor_type,
)
from ceras_ir.dialects.mem import BlockAttr, arena_of, block_of, regions_of

FAR = 1 << 60
"""Between the first bytes of two regions."""


def check_plan(main: FuncOp) -> list[str]:
    """What is wrong with the plan of `main`, in words; nothing for a good plan."""
    arena = arena_of(main)
    if arena is None:
        return ["function has no mem.arena"]
    sizes = {r.region.data: r.size.data for r in regions_of(main)}
    findings = _check_regions(main)
    if findings:
        return findings
    sizes = sizes or {"": arena.size.data}
    starts = {region: i * FAR for i, region in enumerate(sizes)}
    owners: list[tuple[int, int, SSAValue]] = []

    def at(block: BlockAttr) -> int:
        return starts[block.region.data] + block.offset.data

    # In a slice of a concatenation, values are aligned to their elements only.
    parts = [
        place
        for op in main.body.block.ops
        if isinstance(op, ConcatOp)
        for _, place in _in_place(op, at)
    ]

    def claim(value: SSAValue, where: str, kept: list[tuple[int, int]] | None = None) -> None:
        block = block_of(value)
        if block is None:
            return
        kind = tensor_type(value)
        needed = prod(kind.get_shape()) * storage_type(kind.element_type).size
        lower, upper = at(block), at(block) + block.size.data
        end, size = block.offset.data + block.size.data, sizes[block.region.data]
        if needed > block.size.data:
            findings.append(f"{where}: {needed} bytes in a block of {block.size.data}")
        is_part = any(a <= lower and upper <= b for a, b in parts)
        unit = storage_type(kind.element_type).size if is_part else arena.alignment.data
        if lower % unit:
            findings.append(f"{where}: offset {block.offset.data} is not aligned to {unit}")
        if end > size:
            memory = f"region {block.region.data}" if block.region.data else "an arena"
            findings.append(f"{where}: bytes to {end} in {memory} of {size}")
        # Whoever owns these bytes still does if the same ones are written again.
        owners[:] = [
            o
            for o in owners
            if _common(o[:2], (lower, upper)) == sum(_common(o[:2], place) for place in kept or ())
        ]
        owners.append((lower, lower + needed, value))

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
            # A reshape writes the same bytes where its operand lives, a concatenation those of
            # operands that are in its result; an elementwise operation writes others there, and
            # the operand is gone.
            block = block_of(value)
            assert block is not None
            same = _in_place(op, at)
            for operand in op.operands:
                other = block_of(operand)
                if other is None or any(operand is v for v, _ in same):
                    continue
                if at(other) == at(block) and may_overwrite(op, operand):
                    continue
                if at(block) < at(other) + other.size.data and at(other) < (
                    at(block) + block.size.data
                ):
                    findings.append(f"{node_name(op)}: result overlaps an operand it reads")
            claim(value, node_name(op), [place for _, place in same])
    return findings


def _check_regions(main: FuncOp) -> list[str]:
    """What is wrong with the regions themselves, and with who is said to be where."""
    arena, regions = arena_of(main), regions_of(main)
    assert arena is not None
    findings: list[str] = []
    names = [region.region.data for region in regions]
    for region in regions:
        name, size, capacity = region.region.data, region.size.data, region.capacity.data
        if names.count(name) > 1:
            findings.append(f"several regions are called {name}")
        if size > capacity:
            findings.append(f"region {name}: {size} bytes are used of {capacity}")
    if regions and (total := sum(r.size.data for r in regions)) != arena.size.data:
        findings.append(f"regions of {total} bytes make an arena of {arena.size.data}")
    values: list[tuple[str, SSAValue]] = [(f"argument {a.index}", a) for a in main.body.block.args]
    values += [(node_name(op), result) for op in main.body.block.ops for result in op.results]
    for where, value in values:
        block = block_of(value)
        if block is not None and block.region.data not in (names or [""]):
            findings.append(f"{where}: there is no region '{block.region.data}'")
    return findings


def _common(a: tuple[int, int], b: tuple[int, int]) -> int:
    """How many bytes two ranges share."""
    return max(min(a[1], b[1]) - max(a[0], b[0]), 0)


def _in_place(
    op: Operation, at: Callable[[BlockAttr], int]
) -> list[tuple[SSAValue, tuple[int, int]]]:
    """Operands whose bytes are already where the result has them, and those bytes."""
    if not isinstance(op, ReshapeOp | ConcatOp):
        return []
    block = block_of(op.result)
    rows = 1 if isinstance(op, ReshapeOp) else prod(shape_of(op.result)[: op.axis.value.data])
    if block is None or rows != 1:
        return []
    found: list[tuple[SSAValue, tuple[int, int]]] = []
    start = at(block)
    for operand in op.operands:
        kind, own = tensor_type(operand), block_of(operand)
        end = start + prod(kind.get_shape()) * storage_type(kind.element_type).size
        if own is not None and at(own) == start:
            found.append((operand, (start, end)))
        start = end
    return found
