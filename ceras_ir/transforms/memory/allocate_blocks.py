"""Assign a block of memory to each value, remove the blocks, or print the live ranges."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.utils.hints import isa

from ceras_ir.dialects import mem
from ceras_ir.dialects.graph import ConcatOp
from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.dialects.mem import ARENA, BLOCK, COPIED, REGIONS, BlockAttr, RegionAttr
from ceras_ir.support.diagnostics import UsageError, aligned, node_name
from ceras_ir.support.options import inherited
from ceras_ir.targets.capabilities import GapRule, takes_runs_only
from ceras_ir.targets.registry import find_target
from ceras_ir.targets.shared_options import BoardOptions, TargetNameOptions
from ceras_ir.transforms.memory.check_blocks import check_plan
from ceras_ir.transforms.memory.copies import choose_slices
from ceras_ir.transforms.memory.liveness import (
    Buffer,
    BufferOptions,
    Liveness,
    analyse,
    byte_size,
    steps,
    value_name,
)
from ceras_ir.transforms.memory.offsets import plan_offsets
from ceras_ir.transforms.memory.region_options import RegionOptions
from ceras_ir.transforms.memory.slices import (
    Slicing,
    row_bytes,
    row_count,
)
from ceras_ir.transforms.pass_kinds import NetworkPass

if TYPE_CHECKING:
    from ceras_ir.transforms.memory.regions import Region


@dataclass(frozen=True)
class ClearPlanPass(NetworkPass):
    """
    Remove the memory plan of a network.

    It removes `mem.block` and `mem.copied` of operations and arguments, and `mem.arena` and
    `mem.regions` of functions. Exact: without a plan each value has separate memory. Passes that
    precede the plan ignore it, so that it is removed first if the text of the memory level is
    compiled again.

    Before:

        !t = tensor<4xf32>
        %a = graph.unary <relu> %x {mem.block = #mem.block<id = 0, offset = 0, size = 16>} : !t
        %y = graph.unary <sigmoid> %a : !t

    After:

        %a = graph.unary <relu> %x : !t
        %y = graph.unary <sigmoid> %a : !t
    """

    name = "clear-plan"

    def change(self, main: FuncOp) -> None:
        for function in (*called_functions(main), main):
            clear_plan(function)


def clear_plan(main: FuncOp) -> None:
    """Remove the addresses of all values and the arena from a function."""
    main.attributes.pop(ARENA, None)
    main.attributes.pop(REGIONS, None)
    for operation in main.body.block.ops:
        operation.attributes.pop(BLOCK, None)
        operation.attributes.pop(COPIED, None)
    if main.arg_attrs is not None:
        main.arg_attrs = ArrayAttr(
            DictionaryAttr({k: v for k, v in a.data.items() if k != BLOCK}) for a in main.arg_attrs
        )


def interference(buffers: Sequence[Buffer]) -> dict[int, set[int]]:
    """
    Map the index of each buffer to the indices of the buffers that are live at the same time, which
    must not share memory.
    """
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
    Return the number of the block (a range of memory) of each buffer, with as few blocks as
    possible (paper S2). Buffers that share a block are never live at the same time.

    Live ranges form an interval graph, for which coloring in the order of the first step is
    optimal. A buffer gets the smallest free block that is large enough, otherwise the largest free
    block, which is enlarged.
    """
    graph = interference(buffers)
    order = sorted(graph, key=lambda i: (buffers[i].lower, i))
    colours: dict[int, int] = {}
    sizes: list[int] = []
    for node in order:
        neighbor_colours = {colours[other] for other in graph[node] if other in colours}
        free = [c for c in range(len(sizes)) if c not in neighbor_colours]
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
class AllocateBlocksPass(
    BoardOptions, RegionOptions, TargetNameOptions, BufferOptions, NetworkPass
):
    """
    Assign an address in the arena to each value: `mem.block` on each operation, `mem.arena` on the
    function. Addresses are multiples of `alignment` bytes, or of more if `mem.alignment` requires
    it.

    With several memories each value is assigned to a memory. The first memory carries as much of
    the traffic as possible, then the second, and so on. No memory exceeds the size. The plan of
    each memory is printed to stderr. This requires `strategy=offsets` without `in-slices`.

    The body of a loop or a branch has a separate arena, which each call reuses: to the caller it is
    a workspace.

    Correct because an independent check of the finished plan (`check_blocks.py`) finds no error. It
    is asserted in each run.

    Before:

        !t = tensor<4xf32>
        func.func @main(%x: !t) -> !t {
          %a = graph.unary <relu> %x : !t
          %b = graph.unary <sigmoid> %a : !t
          %c = graph.binary sub %b, %a : (!t, !t) -> !t
          %y = graph.unary <exp> %c : !t
          func.return %y : !t
        }

    After:

        #first = #mem.block<id = 0, offset = 0, size = 16>
        #second = #mem.block<id = 1, offset = 16, size = 16>
        func.func @main(%x: !t) -> !t
            attributes {mem.arena = #mem.arena<size = 32, alignment = 16>} {
          %a = graph.unary <relu> %x {mem.block = #first} : !t
          %b = graph.unary <sigmoid> %a {mem.block = #second} : !t
          %c = graph.binary sub %b, %a {mem.block = #second} : (!t, !t) -> !t
          %y = graph.unary <exp> %c : !t
          func.return %y : !t
        }
    """

    name = "allocate-blocks"

    strategy: Literal["offsets", "colouring"] = "offsets"
    """
    colouring: values share entire blocks, as few as possible, each as large as the largest value
    (paper S2); offsets: values have byte offsets that do not overlap while both are live.
    """
    in_slices: bool = False
    """
    Store the operands of a concatenation inside the result, so that it copies no data, if that
    needs no more memory; `mem.copied` on the concatenation has the reason for each other operand.
    """
    target: str | None = inherited(TargetNameOptions, "target", None)
    """
    The target with kernels that can leave gaps between rows; without a target `in-slices` applies
    only to contiguous operands.
    """

    def change(self, main: FuncOp) -> None:
        for body in called_functions(main):
            replace(self, regions=(), board=None, io=False)._place(body)
        self._place(main)

    def _place(self, main: FuncOp) -> None:
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
        main.attributes[ARENA] = mem.ArenaAttr(size, alignment)
        findings = check_plan(main)
        if findings:
            raise AssertionError(findings)

    def _offset_plan(self, main: FuncOp, alignment: int) -> tuple[dict[SSAValue, BlockAttr], int]:
        if not self.in_slices:
            return offset_plan(analyse(main, include_io=self.io), alignment)
        rule = takes_runs_only if self.target is None else find_target(self.target).gap_rule()
        sliced, plain = choose_slices(main, include_io=self.io, alignment=alignment, rule=rule)
        plan, size = offset_plan(sliced, alignment)
        if size > plain.lower_bound(alignment):
            plain_plan, plain_size = offset_plan(plain, alignment)
            if plain_size < size:
                sliced, plan, size = plain, plain_plan, plain_size
        for op, lines in reasons_to_copy(main, sliced, rule).items():
            op.attributes[COPIED] = StringAttr("; ".join(lines))
        return plan, size

    def _regions(self) -> "list[Region]":
        if not self.regions and self.board is None:
            return []
        if self.regions and self.board is not None:
            raise UsageError("allocate-blocks: regions and board exclude each other; leave one out")
        if self.strategy != "offsets" or self.in_slices:
            raise UsageError("allocate-blocks: regions require strategy=offsets without in-slices")
        from ceras_ir.transforms.memory.regions import board_regions, parse_regions

        return parse_regions(self.regions) if self.board is None else board_regions(self.board)


def coloured_plan(liveness: Liveness, alignment: int) -> tuple[dict[SSAValue, BlockAttr], int]:
    """
    Return the block of each value and the size of the arena in bytes, if values share complete
    blocks as in `fewest_blocks`. The sizes of blocks are multiples of `alignment`.
    """
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
    """
    Return the block of each value and the size of the arena in bytes, if each value has a separate
    byte offset, which a search chooses.
    """
    found = plan_offsets(liveness.spans, alignment)
    return _blocks(liveness, [("", offset) for offset in found.offsets]), found.peak


def region_plan(
    main: FuncOp, liveness: Liveness, regions: "Sequence[Region]", alignment: int
) -> tuple[dict[SSAValue, BlockAttr], list[RegionAttr]]:
    """
    Return the block of each value in one of several memories (regions), and the attribute of each
    region with the used bytes. Print the plan to stderr.
    """
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
    # `places` has the region and the offset of each buffer.
    numbers: dict[tuple[str, int, int], int] = {}
    plan: dict[SSAValue, BlockAttr] = {}
    for buffer, (region, offset) in zip(liveness.buffers, places, strict=True):
        numbers.setdefault((region, offset, buffer.size), len(numbers))
        for value in buffer.values:
            start, pitch = liveness.place_of(value)
            size = byte_size(value)
            if pitch:
                size = (row_count(value) - 1) * pitch + row_bytes(value)
            number = numbers.setdefault((region, offset + start, size), len(numbers))
            plan[value] = BlockAttr(number, offset + start, size, region, pitch)
    return plan


def reasons_to_copy(main: FuncOp, liveness: Liveness, rule: GapRule) -> dict[ConcatOp, list[str]]:
    """
    Map each concatenation that copies operands to texts: a text for each copied operand, with the
    reason why it cannot be stored directly in the memory of the result. `rule` specifies which
    kernels support gaps between rows.
    """
    reasons: dict[ConcatOp, list[str]] = {}
    if liveness.slicing is None:
        liveness = analyse(main, slicing=Slicing(rule, frozenset()))
    for (op, operand), reason in liveness.copied.items():
        owner = operand.owner
        name = node_name(owner) if isinstance(owner, Operation) else "an input"
        reasons.setdefault(op, []).append(f"{name}: {reason}")
    return reasons


def _attach(main: FuncOp, value: SSAValue, block: BlockAttr) -> None:
    if isinstance(value, OpResult):
        count, known = len(value.owner.results), value.owner.attributes.get(BLOCK)
        if count == 1:
            value.owner.attributes[BLOCK] = block
            return
        blocks = list(known) if isa(known, ArrayAttr[BlockAttr]) else [block] * count
        blocks[value.index] = block
        value.owner.attributes[BLOCK] = ArrayAttr(blocks)
        return
    assert isinstance(value, BlockArgument)
    attributes = (
        list(main.arg_attrs)
        if main.arg_attrs is not None
        else [DictionaryAttr({}) for _ in main.body.block.args]
    )
    attributes[value.index] = DictionaryAttr({**attributes[value.index].data, BLOCK: block})
    main.arg_attrs = ArrayAttr(attributes)


def describe(main: FuncOp, *, include_io: bool, alignment: int) -> str:
    """
    Return a text for the user: the peak of live bytes of `main`, and a table of the buffers with a
    bar over the steps (operations) in which each is live. `include_io` includes graph inputs and
    outputs. Sizes are rounded up to multiples of `alignment` bytes.
    """
    liveness = analyse(main, include_io=include_io)
    order = steps(main)
    rows = list(_rows(main, liveness, len(order)))
    bound = liveness.lower_bound(alignment)
    headings = ("buffer", "bytes", "alive", "steps", "meets", "values")
    lines = [
        f"liveness of @{main.sym_name.data}: {len(order)} steps, {len(rows)} buffers, at most "
        f"{bound} bytes alive{_step_of_peak(liveness, order, alignment)}",
        *aligned([headings, *rows], right=(0, 1)),
    ]
    return "\n".join(lines) + "\n"


def _step_of_peak(liveness: Liveness, order: list[Operation], alignment: int) -> str:
    bound = liveness.lower_bound(alignment)
    for step, op in enumerate(order):
        alive = [b for b in liveness.buffers if b.lower <= step < b.upper]
        if alive and sum(-(-b.size // alignment) * alignment for b in alive) == bound:
            return f" at step {step} '{node_name(op)}'"
    return ""


def _rows(main: FuncOp, liveness: Liveness, count: int) -> Iterator[tuple[str, ...]]:
    graph = interference(liveness.buffers)
    for number, buffer in enumerate(liveness.buffers):
        bar = "".join("#" if buffer.lower <= i < buffer.upper else "." for i in range(count))
        meets = ",".join(map(str, sorted(graph[number]))) or "-"
        values = " = ".join(value_name(main, v) for v in buffer.values)
        alive = f"[{buffer.lower}, {buffer.upper})"
        yield str(number), str(buffer.size), alive, bar, meets, values


@dataclass(frozen=True)
class PrintLivenessPass(BufferOptions, NetworkPass):
    """
    Print live ranges and interference of the buffers of `@main` to stderr.

    A line has the bytes, the half-open live range in steps, the same as a bar, the buffers that are
    live at the same time, and the values in the buffer. The pass does not change the network.

    Before:

        %a = graph.unary <relu> %x : tensor<4xf32> loc("a")
        %b = graph.unary <sigmoid> %a : tensor<4xf32> loc("b")
        %y = graph.binary sub %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("y")

    Message:

        liveness of @main: 3 steps, 2 buffers, at most 32 bytes alive at step 1 'b'
        buffer  bytes  alive   steps  meets  values
             0     16  [0, 3)  ###    1      a
             1     16  [1, 3)  .##    0      b
    """

    name = "print-liveness"

    def change(self, main: FuncOp) -> None:
        text = describe(main, include_io=self.io, alignment=self.alignment)
        sys.stderr.write(text)
