"""
Determine the live ranges of the values of a network, as buffers with half-open intervals.

A buffer is the memory of a value, or of several values with the same bytes: a reshape and the
operand, an elementwise operation and an operand that it overwrites, or a concatenation and operands
that are written in place. Steps are the indices of operations in `main` without constants. A buffer
is live from the step that writes it up to and including the last use.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from operator import attrgetter

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.dialects.graph import (
    ConcatOp,
    ConstantOp,
    quantized_element,
    shape_of,
    tensor_type,
)
from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.dialects.graph.calls import bytes_of
from ceras_ir.dialects.mem import CONTINUES, LaunchOp, block_of
from ceras_ir.network.function import input_names, result_values
from ceras_ir.support.diagnostics import InputError, node_name
from ceras_ir.support.options import options
from ceras_ir.transforms.memory.offsets import Span, max_live_bytes
from ceras_ir.transforms.memory.slices import (
    Slice,
    Slicing,
    may_overwrite,
    row_bytes,
    row_count,
    slices,
    spread,
)


@options
class BufferOptions:
    """The options of the passes that prepare, create or print memory plans."""

    alignment: int = 16
    """Place buffers at multiples of this number of bytes, and round sizes up to it."""
    io: bool = False
    """Include arguments and results; otherwise they remain in the caller's memory."""


def overwritten_operands(op: Operation) -> tuple[SSAValue, ...]:
    """Return the operands that the result of `op` may overwrite, in order."""
    return tuple(operand for operand in op.operands if may_overwrite(op, operand))


def byte_size(value: SSAValue) -> int:
    """
    Return the number of bytes in which a target stores a tensor, without alignment. Elements of
    constants are packed if they have less than 8 bits; computed elements occupy whole bytes.
    """
    element = quantized_element(value)
    if element is not None and isinstance(value.owner, ConstantOp):
        return element.packed_bytes(shape_of(value))
    return bytes_of(tensor_type(value))


def steps(main: FuncOp) -> list[Operation]:
    """
    Return the operations of a function that compute values, in order; constants and the terminator
    are omitted.
    """
    return [op for op in main.body.block.ops if not isinstance(op, ConstantOp | ReturnOp)]


def value_name(main: FuncOp, value: SSAValue) -> str:
    """Return the name of the node or of the graph input that defines `value`."""
    if isinstance(value.owner, Operation):
        return node_name(value.owner)
    return input_names(main)[main.body.block.args.index(value)]


@dataclass
class Buffer:
    """
    A range of memory of `size` bytes for one or more values. It is in use from step `lower` on,
    until before step `upper`; a step is the execution of an operation.
    """

    size: int
    lower: int
    upper: int
    values: list[SSAValue] = field(default_factory=list[SSAValue])
    has_argument: bool = False
    """Whether the buffer has a graph input."""
    has_result: bool = False
    """Whether the buffer has a graph output, which no operation may overwrite."""

    @property
    def span(self) -> Span:
        return Span(self.size, self.lower, self.upper)


@dataclass(frozen=True, eq=False)
class Part:
    """Values that can share memory only with each other, and the steps that compute them."""

    values: frozenset[SSAValue]
    steps: Sequence[int]


class Steps:
    """
    The operations of `main` in order (a step each), and facts about the values that do not depend
    on the memory plan.
    """

    def __init__(self, main: FuncOp):
        self.order = steps(main)
        # Arguments are live for a step even without any operation.
        self.end = max(len(self.order), 1)
        self.returned = frozenset(result_values(main))
        self.launch_constants = [
            op.result
            for op in main.body.block.ops
            if isinstance(op, ConstantOp)
            and any(isinstance(use.operation, LaunchOp) for use in op.result.uses)
        ]
        self.byte_size = cache(byte_size)
        self.slices = cache(slices)
        self.overwritten = cache(overwritten_operands)
        self.viewed_operand = cache(viewed_operand)
        self._position = {op: i for i, op in enumerate(self.order)}
        self._last_uses: dict[SSAValue, int] = {}

    @cached_property
    def parts(self) -> list[Part]:
        """
        The parts of the network. A result is in the part of the operands that it can view, that it
        can overwrite, or that a concatenation could have in place.
        """
        root: dict[SSAValue, SSAValue] = {}

        def root_of(value: SSAValue) -> SSAValue:
            while (above := root.get(value, value)) is not value:
                root[value] = root.get(above, above)
                value = above
            return value

        for op in self.order:
            related = [*op.operands] if isinstance(op, ConcatOp) else [*self.overwritten(op)]
            if (source := self.viewed_operand(op)) is not None:
                related.append(source)
            for result in op.results:
                root[result] = result
                for operand in related:
                    root[root_of(operand)] = root_of(result)
        values, numbers = (
            defaultdict[SSAValue, set[SSAValue]](set),
            defaultdict[SSAValue, list[int]](list),
        )
        for value in root:
            values[root_of(value)].add(value)
        for step, op in enumerate(self.order):
            for top in dict.fromkeys(map(root_of, op.results)):
                numbers[top].append(step)
        return [Part(frozenset(found), numbers[top]) for top, found in values.items()]

    def last_use(self, value: SSAValue) -> int:
        """
        Return the index of the operation after the last use of `value`. A graph output lives to the
        end.
        """
        if value in self.returned:
            return self.end
        if (found := self._last_uses.get(value)) is None:
            owner = value.owner
            born = self._position[owner] if isinstance(owner, Operation) else 0
            found = max((self._position[use.operation] for use in value.uses), default=born) + 1
            self._last_uses[value] = found
        return found


@dataclass
class Liveness:
    """
    The buffers (ranges of memory) that the values of a function need, in the order of their first
    step, and the position of each value in a buffer.
    """

    steps: Steps
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    by_value: dict[SSAValue, Buffer] = field(default_factory=dict[SSAValue, Buffer])
    starts: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The offset in bytes of a value in the buffer, if it is not 0."""
    pitches: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The bytes from a row to the next, for values with gaps between rows."""
    slicing: Slicing | None = None
    """The operands of concatenations that are to be written in place."""
    copied: dict[tuple[ConcatOp, SSAValue], str] = field(
        default_factory=dict[tuple[ConcatOp, SSAValue], str]
    )
    """With `slicing`: the operands of concatenations that are copied, and the reasons."""

    def add(self, value: SSAValue, lower: int, upper: int) -> None:
        self.buffers.append(buffer := Buffer(self.steps.byte_size(value), lower, upper))
        self._put(value, buffer)

    def _put(self, value: SSAValue, buffer: Buffer) -> None:
        buffer.values.append(value)
        buffer.has_argument |= isinstance(value, BlockArgument)
        buffer.has_result |= value in self.steps.returned
        self.by_value[value] = buffer

    def shared(self, op: Operation, step: int, in_place: bool) -> SSAValue | None:
        """
        Return the operand that the result of `op` can replace in memory, or `None`. Either the
        result is a view of the operand (a reshape), or, with `in_place`, `op` may overwrite an
        operand that is not used after `step`, the position of `op` in the order of execution.
        """
        if (source := self.steps.viewed_operand(op)) is not None:
            fits = not self.pitches.get(source) or row_bytes(source) == row_bytes(op.results[0])
            return source if fits and self._has_room(op, source) else None
        if not in_place:
            return None
        for operand in (overwritten := self.steps.overwritten(op)):
            buffer = self.by_value.get(operand)
            if buffer is None or buffer.upper != step + 1 or buffer.has_result:
                continue
            # Other operands in the same buffer must have the same position.
            same = [v for v in op.operands if self.by_value.get(v) is buffer]
            places = {self.place_of(v) for v in same}
            can_overwrite = len(places) == 1 and all(v in overwritten for v in same)
            if can_overwrite and self._has_room(op, operand) and not self._is_column(op, buffer):
                return operand
        return None

    def _has_room(self, op: Operation, operand: SSAValue) -> bool:
        # The result of `op` can have the rows of `operand`.
        if operand not in self.by_value:
            return False
        return operand not in self.pitches or self.why_without_gaps(op.results[0]) is None

    def _is_column(self, op: Operation, buffer: Buffer) -> bool:
        # The result is to be columns of another value, which a graph input cannot be.
        if self.slicing is None or not buffer.has_argument:
            return False
        (result,) = op.results
        return any(
            isinstance(use.operation, ConcatOp)
            and any(part.pitch for part in self.steps.slices(use.operation))
            and self.slicing.wants(use.operation, result)
            for use in result.uses
        )

    def take_over(self, value: SSAValue, buffer: Buffer, place: tuple[int, int], upper: int):
        """
        Store `value` in an existing buffer, and extend the live range of the buffer to the step
        `upper`. `place` has the offset of `value` in the buffer, and the distance between the rows
        of `value` (0 without gaps), both in bytes.
        """
        buffer.upper = max(buffer.upper, upper)
        self._put(value, buffer)
        for known, number in zip((self.starts, self.pitches), place, strict=True):
            known.pop(value, None)
            if number:
                known[value] = number

    def place_of(self, value: SSAValue) -> tuple[int, int]:
        """
        Return the offset in bytes of a value in the buffer, and the distance in bytes between rows;
        0 if rows have no gaps between them.
        """
        return self.starts.get(value, 0), self.pitches.get(value, 0)

    def merge(self, op: ConcatOp, upper: int) -> bool:
        """
        Store operands of a concatenation directly in the memory of the result, so that they need no
        copy. An operand for which this is impossible is copied, with the reason in `copied`.

        `upper` is the step after the last use of the result. Return whether any operand is stored
        there; if not, the caller must add a buffer for the result.
        """
        parts, merged = self.steps.slices(op), dict[int, tuple[Buffer, Slice, int]]()
        if not parts:
            reason = "it is neither one run of bytes nor columns of the result"
            self.copied |= {(op, operand): reason for operand in op.operands}
        for part in parts:
            if (reason := self.why_copied(op, part, parts)) is not None:
                self.copied[op, part.operand] = reason
                continue
            buffer = self.by_value[part.operand]
            merged[id(buffer)] = buffer, part, part.start - self.starts.get(part.operand, 0)
        if not merged:
            return False
        old = [buffer for buffer, _, _ in merged.values()]
        result_buffer = Buffer(self.steps.byte_size(op.result), min(b.lower for b in old), upper)
        self._put(op.result, result_buffer)
        for buffer, part, shift in merged.values():
            width = self._width(part)
            for value in buffer.values:
                start, pitch = self.place_of(value)
                start = spread(start, width, part.pitch) + shift
                if part.pitch:
                    has_gaps = row_count(value) > 1 and part.pitch != row_bytes(value)
                    pitch = part.pitch if has_gaps else 0
                self.take_over(value, result_buffer, (start, pitch), buffer.upper)
        # The new buffer has the place of the first old buffer.
        self.buffers = [
            result_buffer if b is old[0] else b
            for b in self.buffers
            if b is old[0] or id(b) not in merged
        ]
        self.buffers.sort(key=attrgetter("lower"))
        return True

    def _width(self, part: Slice) -> int:
        # The bytes of a row of the operand's buffer, or of the buffer if it is contiguous.
        if not part.pitch:
            return self.by_value[part.operand].size
        return self.pitches.get(part.operand, 0) or row_bytes(part.operand)

    def why_copied(self, op: ConcatOp, part: Slice, parts: Sequence[Slice]) -> str | None:
        """
        Return the reason why an operand of a concatenation cannot be stored directly in the memory
        of the result, or `None` if it can. `part` is the position of the operand in the result, and
        `parts` has the positions of all operands.
        """
        operand, buffer = part.operand, self.by_value.get(part.operand)
        if sum(operand is other for other in op.operands) > 1:
            return "it is there more than once"
        if buffer is None or not isinstance(operand.owner, Operation):
            return "no operation of the network makes it"
        width, column = self._width(part), self.starts.get(operand, 0)
        end = part.start - column + width
        rows = row_count(op.result) if part.pitch else 1
        # The other operands in this buffer, or at these bytes, must have the same offset.
        covered = [
            o
            for o in parts
            if (o.start < end and o.start + o.width > end - width)
            or self.by_value.get(o.operand) is buffer
        ]
        fits = column <= part.start and column < width and buffer.size == width * rows
        fits = fits and (part.pitch != 0 or operand not in self.pitches)
        if (
            not fits
            or end > (part.pitch or byte_size(op.result))
            or any(
                self.by_value.get(o.operand) is not buffer
                or o.start - self.starts.get(o.operand, 0) != part.start - column
                for o in covered
            )
        ):
            return "it is part of another value"
        if part.pitch and (reason := self._why_not_spread(buffer, width)) is not None:
            return reason
        assert self.slicing is not None
        if not any(self.slicing.wants(op, o.operand) for o in covered):
            return "in its place, it would need more memory"
        return None

    def _why_not_spread(self, buffer: Buffer, width: int) -> str | None:
        # The reason why the rows of a buffer, of `width` bytes, cannot have gaps.
        for value in buffer.values:
            start, pitch = self.place_of(value)
            has_other_rows = row_count(value) > 1 and (pitch or row_bytes(value)) != width
            if has_other_rows or start % width + row_bytes(value) > width:
                return "it is also seen with other rows"
            if (reason := self.why_without_gaps(value)) is not None:
                return reason
        return None

    def why_without_gaps(self, value: SSAValue) -> str | None:
        """
        Return the reason why the rows (along the last axis) of `value` cannot have gaps between
        them in memory (for example because a kernel does not support it), or `None` if they can.
        """
        if value in self.steps.returned or isinstance(value, BlockArgument):
            return "inputs and outputs of the network have no gaps between rows"
        assert isinstance(value.owner, Operation) and self.slicing is not None
        for op in (value.owner, *(use.operation for use in value.uses)):
            if (reason := self.slicing.rule(op, value)) is not None:
                return reason
        return None

    @property
    def spans(self) -> list[Span]:
        """The size and the live range of each buffer, as input of the search for offsets."""
        return [buffer.span for buffer in self.buffers]

    def lower_bound(self, alignment: int = 1) -> int:
        """
        Return the maximum of bytes that are live at the same step, with sizes rounded up to
        multiples of `alignment`. No memory plan needs less.
        """
        return max_live_bytes(self.spans, alignment)


def analyse(
    main: FuncOp,
    *,
    include_io: bool = False,
    in_place: bool = True,
    slicing: Slicing | None = None,
    known: Steps | None = None,
    part: Part | None = None,
) -> Liveness:
    """
    Return the buffers that the values of `main` need, with live ranges. `known` has the steps of
    `main`, if they were computed before. If `part` is given, only its values are included.

    1. Graph inputs and outputs have no buffers, because they are in the caller's memory, unless
       `include_io` is true.
    2. With `in_place`, elementwise operations overwrite operands that have no later use.
    3. With `slicing`, operands of a concatenation are stored directly in the memory of the result.
    4. Constant operands of a launch are live throughout, because the accelerator accesses only this
       memory.
    """
    known = known or Steps(main)
    result = Liveness(known, slicing=slicing)
    for constant in known.launch_constants:
        if part is None or constant in part.values:
            result.add(constant, 0, known.end)
    for argument in main.body.block.args if include_io else ():
        if part is None or argument in part.values:
            result.add(argument, 0, known.last_use(argument))
    for step in range(len(known.order)) if part is None else part.steps:
        op = known.order[step]
        for value in op.results:
            if value in known.returned and not include_io:
                continue
            if part is not None and value not in part.values:
                continue
            upper = known.last_use(value)
            if (same := result.shared(op, step, in_place)) is not None:
                result.take_over(value, result.by_value[same], result.place_of(same), upper)
            elif slicing is None or not isinstance(op, ConcatOp) or not result.merge(op, upper):
                result.add(value, step, upper)
    return result


def is_host_work(op: Operation) -> bool:
    """
    Return whether the CPU must do work for `op`: it is not a launch of an accelerator, and not a
    view, such as a reshape, that has the address of the operand.
    """
    if isinstance(op, LaunchOp):
        return False
    source = viewed_operand(op)
    return source is None or _place(source) is None or _place(source) != _place(op.results[0])


def _place(value: SSAValue) -> tuple[str, int] | None:
    block = block_of(value)
    return None if block is None else (block.region.data, block.offset.data)


def launch_groups(main: FuncOp) -> list[list[LaunchOp]]:
    """
    Return the launches of the accelerator in `main`, in order, as groups that start together as a
    single program. A launch with `mem.continues` belongs to the group of the launch before it.
    Raise `InputError` if the host does work between them.
    """
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
                f"launch '{node_name(op)}' has '{CONTINUES}', but no launch precedes it: run "
                "merge-launches again"
            )
    return found


def overwritten_values(main: FuncOp) -> set[SSAValue]:
    """
    Return the values that only launches of the same group use. The accelerator may overwrite their
    memory within the group, so that they cannot be read after it.
    """
    found: set[SSAValue] = set()
    for launches in launch_groups(main):
        for op in launches[:-1]:
            for value in op.results:
                found |= _views(value, launches)
    return found


def _views(value: SSAValue, launches: list[LaunchOp]) -> set[SSAValue]:
    # The value and the views, if only `launches` read them; otherwise empty.
    found = {value}
    for user in (use.operation for use in value.uses):
        if user in launches:
            continue
        if is_host_work(user):
            return set()
        for view in user.results:
            if not (more := _views(view, launches)):
                return set()
            found |= more
    return found
