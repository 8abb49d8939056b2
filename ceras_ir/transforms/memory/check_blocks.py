"""
Check a memory plan by a simulation that tracks the value in each byte: the pass `check-blocks`.

It shares no code with liveness or the allocators, and tests whether an operation is elementwise
instead of whether it may overwrite. Each operand must be in place when the consumer runs, and each
result must fit the block and the arena. Regions are ranges of a single address space, at distances
that exclude overlaps. Rows with gaps are counted separately.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.dialects.graph import ConcatOp, ConstantOp, shape_of, storage_type, tensor_type
from ceras_ir.dialects.graph.attributes import Elementwise, View
from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.dialects.mem import BlockAttr, arena_of, block_of, regions_of
from ceras_ir.support.diagnostics import Finding, InputError, node_name
from ceras_ir.transforms.pass_kinds import NetworkPass

REGION_DISTANCE = 1 << 48
"""The distance between the first bytes of two regions."""


@dataclass(frozen=True)
class Rows:
    """
    The bytes of a value in memory: `count` rows of `width` bytes, with a distance of `pitch` bytes
    between the first bytes of rows.
    """

    start: int
    count: int
    width: int
    pitch: int

    @property
    def end(self) -> int:
        return self.start + (self.count - 1) * self.pitch + self.width


class _Owners:
    """
    The values that are complete in memory, and the bytes of each. `count` is the maximum number of
    values that are added. A search for overlaps is a vector operation, because thousands of values
    can be complete at the same time.
    """

    def __init__(self, count: int):
        self.places: dict[SSAValue, tuple[int, Rows]] = {}
        self.values: list[SSAValue] = []
        self.bounds = np.full((2, count), -1, np.int64)
        """The first byte of each added value, and the first byte after it; -1 if it was removed."""

    def __contains__(self, value: SSAValue) -> bool:
        return value in self.places

    def add(self, value: SSAValue, place: Rows) -> None:
        index = len(self.values)
        self.values.append(value)
        self.places[value] = index, place
        self.bounds[:, index] = place.start, place.end

    def remove(self, value: SSAValue) -> None:
        index, _ = self.places.pop(value)
        self.bounds[:, index] = -1

    def near(self, place: Rows) -> list[tuple[SSAValue, Rows]]:
        """Return the values with a byte between the first and the last byte of `place`."""
        starts, ends = self.bounds[:, : len(self.values)]
        found = np.flatnonzero((starts < place.end) & (place.start < ends)).tolist()
        return [(value, self.places[value][1]) for value in map(self.values.__getitem__, found)]


def check_plan(main: FuncOp) -> list[Finding]:
    """
    Return the errors in the memory plan of `main`, with locations; empty for a correct plan.
    Without a plan, return this as an error.
    """
    arena = arena_of(main)
    if arena is None:
        return [_of(main, "no mem.arena: values have no addresses; run --allocate-blocks first")]
    sizes = {r.region.data: r.size.data for r in regions_of(main)}
    findings = _check_regions(main)
    if findings:
        return findings
    sizes = sizes or {"": arena.size.data}
    starts = {region: i * REGION_DISTANCE for i, region in enumerate(sizes)}
    count = len(main.body.block.args) + sum(len(op.results) for op in main.body.block.ops)
    owners = _Owners(count)

    def at(value: SSAValue) -> Rows | None:
        block = block_of(value)
        return None if block is None else _rows(value, block, starts[block.region.data])

    # Values inside the result of a concatenation are only aligned to their elements.
    results = [
        (op.result, result)
        for op in main.body.block.ops
        if isinstance(op, ConcatOp) and _in_place(op, at) and (result := at(op.result)) is not None
    ]

    def claim(value: SSAValue, kept: Sequence[Rows] = ()) -> None:
        block, place = block_of(value), at(value)
        if block is None or place is None:
            return
        offset, needed = block.offset.data, place.end - place.start
        end, size = offset + block.size.data, sizes[block.region.data]
        if needed > block.size.data:
            findings.append(_at(value, f"{needed} bytes in a block of {block.size.data}"))
        if place.pitch < place.width:
            findings.append(_at(value, f"rows of {place.width} bytes are {place.pitch} apart"))
        is_part = any(
            result is not value and a.start <= place.start and place.end <= a.end
            for result, a in results
        )
        element = storage_type(tensor_type(value).element_type).size
        unit = element if is_part else arena.alignment.data
        if offset % unit or place.pitch % element:
            findings.append(_at(value, f"offset {offset} is not aligned to {unit}"))
        if end > size:
            memory = f"region {block.region.data}" if block.region.data else "an arena"
            findings.append(_at(value, f"bytes to {end} in {memory} of {size}"))
        # A value remains valid if the same bytes are written again.
        for owner, rows in owners.near(place):
            if (lost := _common(rows, place)) and lost != sum(_common(rows, k) for k in kept):
                owners.remove(owner)
        owners.add(value, place)

    for argument in main.body.block.args:
        claim(argument)
    for op in main.body.block.ops:
        if isinstance(op, ConstantOp):
            claim(op.result)
    for op in main.body.block.ops:
        if isinstance(op, ConstantOp):
            continue
        for i, operand in enumerate(op.operands):
            if block_of(operand) is not None and operand not in owners:
                findings.append(_of(op, f"operand {i} was overwritten before it was read"))
        for value in op.results:
            if (place := at(value)) is None:
                continue
            # A reshape writes the same bytes to the address of the operand, as a concatenation
            # does for operands in place. An elementwise operation overwrites the operand.
            same = _in_place(op, at)
            for operand in op.operands:
                other = at(operand)
                if other is None or any(operand is v for v, _ in same):
                    continue
                if other == place and _is_elementwise(op, operand):
                    continue
                if _common(place, other):
                    findings.append(_of(op, "result overlaps an operand it reads"))
            claim(value, [place for _, place in same])
    return findings


def _of(op: Operation, message: str) -> Finding:
    node = op.sym_name.data if isinstance(op, FuncOp) else node_name(op)
    return Finding(node, op.name, message)


def _at(value: SSAValue, message: str) -> Finding:
    if isinstance(value, BlockArgument):
        return Finding(f"argument {value.index}", FuncOp.name, message)
    assert isinstance(value.owner, Operation)
    return _of(value.owner, message)


def _is_elementwise(op: Operation, operand: SSAValue) -> bool:
    if not op.has_trait(Elementwise, value_if_unregistered=False):
        return False
    old, new = tensor_type(operand), tensor_type(op.results[0])
    sizes = (storage_type(kind.element_type).size for kind in (old, new))
    return old.get_shape() == new.get_shape() and len({*sizes}) == 1


def _check_regions(main: FuncOp) -> list[Finding]:
    arena, regions = arena_of(main), regions_of(main)
    assert arena is not None
    findings: list[Finding] = []
    names = [region.region.data for region in regions]
    for region in regions:
        name, size, capacity = region.region.data, region.size.data, region.capacity.data
        if names.count(name) > 1:
            findings.append(_of(main, f"several regions have the name {name}"))
        if size > capacity:
            findings.append(_of(main, f"region {name}: {size} bytes exceed {capacity}"))
    if regions and (total := sum(r.size.data for r in regions)) != arena.size.data:
        message = f"regions of {total} bytes make an arena of {arena.size.data}"
        findings.append(_of(main, message))
    results = [result for op in main.body.block.ops for result in op.results]
    for value in (*main.body.block.args, *results):
        block = block_of(value)
        if block is not None and block.region.data not in (names or [""]):
            findings.append(_at(value, f"there is no region '{block.region.data}'"))
    return findings


def _rows(value: SSAValue, block: BlockAttr, base: int) -> Rows:
    # Without gaps, the value is a single row.
    kind = tensor_type(value)
    size, shape = storage_type(kind.element_type).size, kind.get_shape()
    start, pitch = base + block.offset.data, block.pitch.data
    if not pitch:
        return Rows(start, 1, prod(shape) * size, prod(shape) * size)
    return Rows(start, prod(shape[:-1]), shape[-1] * size if shape else size, pitch)


def _below(rows: Rows, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
    # The number of bytes of `rows` below each address.
    complete, rest = np.divmod(addresses - rows.start, rows.pitch)
    inside = complete * rows.width + np.minimum(rest, rows.width)
    return np.clip(inside, 0, rows.count * rows.width)


def _common(a: Rows, b: Rows) -> int:
    # The number of bytes that two values share.
    if a.end <= b.start or b.end <= a.start:
        return 0
    first = a.start + a.pitch * np.arange(a.count)
    return int((_below(b, first + a.width) - _below(b, first)).sum())


def _in_place(op: Operation, at: Callable[[SSAValue], Rows | None]) -> list[tuple[SSAValue, Rows]]:
    # Operands with bytes that are already in place in the result, and these bytes.
    is_view = op.has_trait(View, value_if_unregistered=False)
    result_rows = at(op.results[0])
    if result_rows is None or not (is_view or isinstance(op, ConcatOp)):
        return []
    shape = shape_of(op.results[0])
    if not isinstance(op, ConcatOp):
        return [(op.operands[0], result_rows)] if at(op.operands[0]) == result_rows else []
    axis, last = op.axis.value.data, len(shape) - 1
    if prod(shape[:axis]) != 1 and axis != last:
        return []
    size = storage_type(tensor_type(op.result).element_type).size
    row = shape[-1] * size
    pitch = row if result_rows.count == 1 else result_rows.pitch
    found: list[tuple[SSAValue, Rows]] = []
    index = 0  # The index of the operand's first byte in a result without gaps.
    for operand in op.operands:
        *outer, columns = shape_of(operand)
        count, width = prod(outer), columns * size
        first = result_rows.start + index // row * pitch + index % row
        rows = Rows(first, count, width, pitch)
        if count == 1 or pitch == width:
            rows = Rows(first, 1, count * width, count * width)
        if at(operand) == rows:
            found.append((operand, rows))
        index += width if axis == last else count * width
    return found


@dataclass(frozen=True)
class CheckBlocksPass(NetworkPass):
    """
    Refuse a memory plan, of `allocate-blocks` or edited, that changes the results of the network.

    1. Values fit their blocks, and blocks fit the arena or the regions.
    2. Addresses have the alignment of `mem.arena`.
    3. Each operand is still in place when it is read.
    4. No result overlaps an operand, unless each element replaces the element that it depends on.

    The pass does not change the network.

    Before:

        !t = tensor<4xf32>
        #block = #mem.block<id = 0, offset = 0, size = 16>
        func.func @main(%x: !t) -> !t
            attributes {mem.arena = #mem.arena<size = 16, alignment = 16>} {
          %a = graph.unary <relu> %x {mem.block = #block} : !t loc("a")
          %b = graph.unary <sigmoid> %x {mem.block = #block} : !t loc("b")
          %y = graph.binary add %a, %b : (!t, !t) -> !t loc("y")
          func.return %y : !t
        }

    Message:

        node 'y' (graph.binary): error: operand 0 was overwritten before it was read
    """

    name = "check-blocks"

    def change(self, main: FuncOp) -> None:
        if findings := [f for each in (*called_functions(main), main) for f in check_plan(each)]:
            raise InputError(findings)
