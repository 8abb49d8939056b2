"""
Give every value of the network a block of shared memory, forget the blocks again, or show when
values are alive.

The pass `clear-plan` removes the plan, so that operations may be added, moved and removed again.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.dialects import mem
from ceras_ir.dialects.graph import ConcatOp
from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.dialects.mem import (
    ARENA,
    BLOCK,
    COPIED,
    REGIONS,
    ArenaAttr,
    BlockAttr,
    RegionAttr,
)
from ceras_ir.network.function import input_names
from ceras_ir.support.diagnostics import UsageError, node_name
from ceras_ir.support.terminal import aligned
from ceras_ir.targets.capabilities import GapRule, takes_runs_only
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.memory.check_blocks import check_plan
from ceras_ir.transforms.memory.copies import choose_slices
from ceras_ir.transforms.memory.liveness import (
    Buffer,
    BufferOptions,
    Liveness,
    analyse,
    byte_size,
    steps,
)
from ceras_ir.transforms.memory.offsets import plan_offsets
from ceras_ir.transforms.memory.slices import (
    Slicing,
    row_bytes,
    row_count,
)
from ceras_ir.transforms.pass_kinds import NetworkPass

if TYPE_CHECKING:
    from ceras_ir.transforms.memory.regions import Region

# Forget where values lie, so that operations may be added, moved and removed again.


@dataclass(frozen=True)
class ClearPlanPass(NetworkPass):
    """
    Remove the memory plan of a network: `mem.block` and `mem.copied` of its operations and
    arguments, `mem.arena` and `mem.regions` of its functions.

    Exact: without a plan every value has memory of its own. Passes that come before the plan know
    nothing of it, so that it goes first where the text of the memory level is compiled again.
    """

    name = "clear-plan"

    def change(self, main: FuncOp) -> None:
        for function in (*called_functions(main), main):
            clear_plan(function)


def clear_plan(main: FuncOp) -> None:
    """Forget the plan of one function."""
    main.attributes.pop(ARENA, None)
    main.attributes.pop(REGIONS, None)
    for operation in main.body.block.ops:
        operation.attributes.pop(BLOCK, None)
        operation.attributes.pop(COPIED, None)
    if main.arg_attrs is not None:
        main.arg_attrs = ArrayAttr(
            DictionaryAttr({k: v for k, v in a.data.items() if k != BLOCK}) for a in main.arg_attrs
        )


# Interference graphs and their colouring: values that live at the same time never share a block.
#
# Lifetimes on a line make an interval graph, for which colouring in the order of birth with any
# free colour is optimal; which one it is decides how large the blocks become. After the block
# allocation of S2.


def interference(buffers: Sequence[Buffer]) -> dict[int, set[int]]:
    """Which buffers (by index) are alive together, by a sweep over the steps."""
    graph: dict[int, set[int]] = {i: set() for i in range(len(buffers))}
    alive: list[int] = []
    for i in sorted(graph, key=lambda i: (buffers[i].lower, i)):
        alive = [j for j in alive if buffers[j].upper > buffers[i].lower]
        for j in alive:
            graph[i].add(j)
            graph[j].add(i)
        alive.append(i)
    return graph


def fewest_blocks(buffers: Sequence[Buffer]) -> list[int]:
    """
    For each buffer the number of its block; as many blocks as the most alive at once. Of the
    free blocks a buffer takes the smallest that holds it, else the largest, which then grows.
    """
    graph = interference(buffers)
    order = sorted(graph, key=lambda i: (buffers[i].lower, i))
    colours: dict[int, int] = {}
    sizes: list[int] = []
    for node in order:
        taken = {colours[other] for other in graph[node] if other in colours}
        free = [c for c in range(len(sizes)) if c not in taken]
        need = buffers[node].size
        holding = [c for c in free if sizes[c] >= need]
        if holding:
            chosen = min(holding, key=lambda c: (sizes[c], c))
        elif free:
            chosen = max(free, key=lambda c: (sizes[c], -c))
            sizes[chosen] = need
        else:
            chosen = len(sizes)
            sizes.append(need)
        colours[node] = chosen
    return [colours[i] for i in range(len(buffers))]


@dataclass(frozen=True)
class AllocateBlocksPass(BufferOptions, NetworkPass):
    """
    Give every value a place in the arena: `mem.block` on every operation, `mem.arena` on the
    function. Places begin at multiples of `alignment` bytes, or of more where `mem.alignment` asks
    for it.

    With several memories every value gets one of them. The first memory carries as much of the
    traffic as it can, then the second, and so on. No memory holds more than its size. The plan of
    each goes to stderr. This needs `strategy=offsets` without `in-slices`.

    The body of a loop, or a branch, has an arena of its own, which every call begins anew: to its
    caller it is scratch memory.

    Correct because an independent check of the finished plan (`check_blocks.py`) finds nothing. It
    is asserted on every run.
    """

    name = "allocate-blocks"

    strategy: Literal["offsets", "colouring"] = "offsets"
    """
    colouring: values share whole blocks, as few as possible, each as large as its largest value
    (S2); offsets: values lie at byte offsets wherever they do not overlap while both are alive.
    """
    in_slices: bool = False
    """
    Place the operands of a concatenation inside its result, so that it copies nothing, as far as
    that needs no more memory; `mem.copied` on the concatenation keeps the reason for each other
    operand.
    """
    target: str | None = None
    """
    The target whose kernels can leave gaps between rows; without one `in-slices` places only
    operands that are one run of bytes.
    """
    regions: tuple[str, ...] = ()
    """The memories in order of preference, each `NAME:BYTES` or `NAME:BYTES:BYTES_PER_US`."""
    board: str | None = None
    """Take the regions from this board: a name or a TOML file."""

    def change(self, main: FuncOp) -> None:
        for body in called_functions(main):
            replace(self, regions=(), board=None, io=False)._place(body)
        self._place(main)

    def _place(self, main: FuncOp) -> None:
        """Place the values of `main`, or of what it calls."""
        regions = self._regions()
        clear_plan(main)
        alignment = max(self.alignment, mem.alignment_of(main))
        if regions:
            liveness = analyse(main, include_io=self.io)
            plan, used = region_plan(main, liveness, regions, alignment)
            main.attributes[REGIONS] = ArrayAttr(used)
            size = sum(region.size.data for region in used)
        elif self.strategy == "colouring":
            liveness = analyse(main, include_io=self.io)
            plan, size = coloured_plan(liveness, alignment)
        else:
            plan, size = self._offset_plan(main, alignment)
        for value, block in plan.items():
            _attach(main, value, block)
        main.attributes[ARENA] = ArenaAttr(size, alignment)
        findings = check_plan(main)
        if findings:
            raise AssertionError(findings)

    def _offset_plan(self, main: FuncOp, alignment: int) -> tuple[dict[SSAValue, BlockAttr], int]:
        """With slices if they are wanted, and need no more memory than a plan without."""
        if not self.in_slices:
            return offset_plan(analyse(main, include_io=self.io), alignment)
        rule = takes_runs_only if self.target is None else find_target(self.target).gap_rule()
        sliced, plain = choose_slices(main, include_io=self.io, alignment=alignment, rule=rule)
        plan, size = offset_plan(sliced, alignment)
        if size > plain.lower_bound(alignment):
            other, least = offset_plan(plain, alignment)
            if least < size:
                sliced, plan, size = plain, other, least
        for op, lines in reasons_to_copy(main, sliced, rule).items():
            op.attributes[COPIED] = StringAttr("; ".join(lines))
        return plan, size

    def _regions(self) -> "list[Region]":
        """The memories to use, or none for one arena of any size."""
        if not self.regions and self.board is None:
            return []
        if self.regions and self.board is not None:
            raise UsageError("allocate-blocks: either regions or a board, not both")
        if self.strategy != "offsets" or self.in_slices:
            raise UsageError("allocate-blocks: regions are for strategy=offsets without in_slices")
        from ceras_ir.transforms.memory.regions import board_regions, parse_regions

        return parse_regions(self.regions) if self.board is None else board_regions(self.board)


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
    return _blocks(liveness, [("", offset) for offset in found.offsets]), found.peak


def region_plan(
    main: FuncOp, liveness: Liveness, regions: "Sequence[Region]", alignment: int
) -> tuple[dict[SSAValue, BlockAttr], list[RegionAttr]]:
    """Blocks at byte offsets of several memories, and how much of each they use."""
    from ceras_ir.transforms.memory.regions import describe_regions, plan_in_regions

    found = plan_in_regions(main, liveness, regions, alignment)
    sys.stderr.write("".join(f"{line}\n" for line in describe_regions(regions, found)))
    offsets = [iter(plan.offsets) for plan in found.plans]
    places = [(regions[r].name, next(offsets[r])) for r in found.choice.places]
    used = [
        RegionAttr(plan.peak, region.capacity, region.name)
        for region, plan in zip(regions, found.plans, strict=True)
    ]
    return _blocks(liveness, places), used


def _blocks(liveness: Liveness, places: Sequence[tuple[str, int]]) -> dict[SSAValue, BlockAttr]:
    """The block of each value, from the region and the offset of each buffer."""
    numbers: dict[tuple[str, int, int], int] = {}
    plan: dict[SSAValue, BlockAttr] = {}
    for buffer, (region, offset) in zip(liveness.buffers, places, strict=True):
        numbers.setdefault((region, offset, buffer.size), len(numbers))
        for value in buffer.values:
            start, pitch = liveness.place_of(value)
            size = byte_size(value)
            if pitch:
                size = (row_count(value) - 1) * pitch + row_bytes(value)
            own = numbers.setdefault((region, offset + start, size), len(numbers))
            plan[value] = BlockAttr(own, offset + start, size, region, pitch)
    return plan


def reasons_to_copy(main: FuncOp, liveness: Liveness, rule: GapRule) -> dict[ConcatOp, list[str]]:
    """For each concatenation the operands that it copies, and why."""
    reasons: dict[ConcatOp, list[str]] = {}
    if liveness.slicing is None:
        liveness = analyse(main, slicing=Slicing(rule, frozenset()))
    for (op, operand), reason in liveness.copied.items():
        owner = operand.owner
        name = node_name(owner) if isinstance(owner, Operation) else "an input"
        reasons.setdefault(op, []).append(f"{name}: {reason}")
    return reasons


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


# Lifetimes and interference as text: a table with one row per buffer and a bar over the steps.


def describe(main: FuncOp, *, include_io: bool, alignment: int) -> str:
    """The table of `main`, and above it the most bytes alive and when that is."""
    liveness = analyse(main, include_io=include_io)
    order = steps(main)
    rows = list(_rows(main, liveness, len(order)))
    bound = liveness.lower_bound(alignment)
    heads = ("buffer", "bytes", "alive", "steps", "meets", "values")
    lines = [
        f"liveness of @{main.sym_name.data}: {len(order)} steps, {len(rows)} buffers, at most "
        f"{bound} bytes alive{_when(liveness, order, alignment)}"
    ]
    lines += aligned([heads, *rows], right=(0, 1))
    return "\n".join(lines) + "\n"


def _when(liveness: Liveness, order: list[Operation], alignment: int) -> str:
    bound = liveness.lower_bound(alignment)
    for step, op in enumerate(order):
        alive = [b for b in liveness.buffers if b.lower <= step < b.upper]
        if alive and sum(-(-b.size // alignment) * alignment for b in alive) == bound:
            return f" at step {step} '{node_name(op)}'"
    return ""


def _rows(main: FuncOp, liveness: Liveness, count: int) -> Iterator[tuple[str, ...]]:
    graph = interference(liveness.buffers)
    names = input_names(main)

    def name(value: SSAValue) -> str:
        match value.owner:
            case Operation() as op:
                return node_name(op)
            case _:
                return names[main.body.block.args.index(value)]

    for number, buffer in enumerate(liveness.buffers):
        bar = "".join("#" if buffer.lower <= i < buffer.upper else "." for i in range(count))
        meets = ",".join(map(str, sorted(graph[number]))) or "-"
        values = " = ".join(map(name, buffer.values))
        alive = f"[{buffer.lower}, {buffer.upper})"
        yield str(number), str(buffer.size), alive, bar, meets, values


@dataclass(frozen=True)
class PrintLivenessPass(BufferOptions, NetworkPass):
    """
    Print lifetimes and interference of the buffers of `@main` to stderr. A line has the bytes, the
    half-open lifetime in steps, the same as a bar, the buffers alive at some common step, and the
    values in the buffer. Changes nothing.
    """

    name = "print-liveness"

    def change(self, main: FuncOp) -> None:
        text = describe(main, include_io=self.io, alignment=self.alignment)
        sys.stderr.write(text)
