"""Give every value of the network a block of shared memory."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.dialects import mem
from ceras_ir.dialects.graph import ConcatOp
from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.dialects.mem import ARENA, BLOCK, COPIED, REGIONS, ArenaAttr, BlockAttr, RegionAttr
from ceras_ir.support.diagnostics import UsageError, node_name
from ceras_ir.targets.capabilities import GapRule, takes_runs_only
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.memory.analysis.colouring import fewest_blocks
from ceras_ir.transforms.memory.analysis.exact_offsets import plan_offsets
from ceras_ir.transforms.memory.analysis.liveness import BufferOptions, Liveness, analyse, byte_size
from ceras_ir.transforms.memory.analysis.plan_check import check_plan
from ceras_ir.transforms.memory.analysis.slice_choice import choose_slices
from ceras_ir.transforms.memory.analysis.slices import Slicing, row_bytes, row_count
from ceras_ir.transforms.memory.clear_plan import clear_plan
from ceras_ir.transforms.network_pass import NetworkPass

if TYPE_CHECKING:
    from ceras_ir.transforms.memory.analysis.regions import Region


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

    Correct because an independent check of the finished plan (`plan_check.py`) finds nothing. It is
    asserted on every run.
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
        from ceras_ir.transforms.memory.analysis.regions import board_regions, parse_regions

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
    from ceras_ir.transforms.memory.analysis.region_plan import describe_regions, plan_in_regions

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
