"""
When the values of a network are needed: buffers with half-open lifetimes.

A buffer is the memory of one value, or of several that are the same bytes: a reshape and its
operand, an elementwise operation and an operand that it is the last to read, or a concatenation
and operands that are written straight into their slices of it. Steps are the positions of
operations in `main`, constants not counted; a buffer lives from the step that writes it up to and
including the last step that reads it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.dialects.graph import ConcatOp, ConstantOp, tensor_type
from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.dialects.graph.calls import bytes_of
from ceras_ir.dialects.mem import CONTINUES, LaunchOp, block_of
from ceras_ir.network.function import result_values
from ceras_ir.support.diagnostics import InputError, node_name
from ceras_ir.support.options import options
from ceras_ir.transforms.memory.offsets import Span, most_alive
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
    """Which buffers are placed, of `allocate-blocks` and the passes that prepare or print plans."""

    alignment: int = 16
    """Place buffers at multiples of this number of bytes, and round sizes up to it."""
    io: bool = False
    """Include arguments and results; otherwise they stay in the caller's memory."""


def byte_size(value: SSAValue) -> int:
    """Bytes of a tensor value as it is stored."""
    return bytes_of(tensor_type(value))


def steps(main: FuncOp) -> list[Operation]:
    """The operations that compute something, in the order they run."""
    return [op for op in main.body.block.ops if not isinstance(op, ConstantOp | ReturnOp)]


@dataclass
class Buffer:
    """Memory that must stay untouched during `[lower, upper)`."""

    size: int
    lower: int
    upper: int
    values: list[SSAValue] = field(default_factory=list[SSAValue])
    has_argument: bool = False
    """Whether an input of the network is among them."""
    has_result: bool = False
    """Whether a result of the network is, which nothing may overwrite."""

    @property
    def span(self) -> Span:
        return Span(self.size, self.lower, self.upper)


@dataclass
class Liveness:
    """Buffers of a function in the order they come to life, and what they belong to."""

    buffers: list[Buffer] = field(default_factory=list[Buffer])
    by_value: dict[SSAValue, Buffer] = field(default_factory=dict[SSAValue, Buffer])
    starts: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """Where in its buffer a value begins, if not at its first byte."""
    pitches: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """Bytes from row to row of a value whose rows have gaps between them."""
    returned: frozenset[SSAValue] = frozenset()
    """Results of the network, which nothing may overwrite."""
    slicing: Slicing | None = None
    """Which operands of concatenations are written where they end up."""
    copied: dict[tuple[ConcatOp, SSAValue], str] = field(
        default_factory=dict[tuple[ConcatOp, SSAValue], str]
    )
    """With `slicing`: the operands that are not, and why."""

    def add(self, value: SSAValue, lower: int, upper: int) -> None:
        self.buffers.append(buffer := Buffer(byte_size(value), lower, upper))
        self._put(value, buffer)

    def _put(self, value: SSAValue, buffer: Buffer) -> None:
        buffer.values.append(value)
        buffer.has_argument |= isinstance(value, BlockArgument)
        buffer.has_result |= value in self.returned
        self.by_value[value] = buffer

    def shared(self, op: Operation, step: int, in_place: bool) -> SSAValue | None:
        """The operand whose bytes the result of `op` can take over."""
        if (source := viewed_operand(op)) is not None:
            fits = not self.pitches.get(source) or row_bytes(source) == row_bytes(op.results[0])
            return source if fits and self._has_room(op, source) else None
        if not in_place:
            return None
        for operand in op.operands:
            buffer = self.by_value.get(operand)
            if buffer is None or buffer.upper != step + 1 or buffer.has_result:
                continue
            if not may_overwrite(op, operand):
                continue
            # Other operands in the same bytes must be read the same way.
            others = [v for v in op.operands if self.by_value.get(v) is buffer]
            places = {(self.starts.get(v, 0), self.pitches.get(v, 0)) for v in others}
            same = len(places) == 1 and all(may_overwrite(op, other) for other in others)
            if same and self._has_room(op, operand) and not self._leaves(op, buffer):
                return operand
        return None

    def _has_room(self, op: Operation, operand: SSAValue) -> bool:
        """Whether the result of `op` can have the rows of `operand`."""
        if operand not in self.by_value:
            return False
        return operand not in self.pitches or self.why_without_gaps(op.results[0]) is None

    def _leaves(self, op: Operation, buffer: Buffer) -> bool:
        """Whether the result of `op` is wanted as columns, which an input of the network is not."""
        if self.slicing is None or not buffer.has_argument:
            return False
        (result,) = op.results
        return any(
            isinstance(use.operation, ConcatOp)
            and any(part.pitch for part in slices(use.operation))
            and self.slicing.wants(use.operation, result)
            for use in result.uses
        )

    def take_over(self, value: SSAValue, buffer: Buffer, place: tuple[int, int], upper: int):
        """Put `value` into a buffer that is there already, at a start and with a pitch."""
        buffer.upper = max(buffer.upper, upper)
        self._put(value, buffer)
        for known, number in zip((self.starts, self.pitches), place, strict=True):
            known.pop(value, None)
            if number:
                known[value] = number

    def place_of(self, value: SSAValue) -> tuple[int, int]:
        """Where in its buffer a value begins, and its pitch."""
        return self.starts.get(value, 0), self.pitches.get(value, 0)

    def merge(self, op: ConcatOp, upper: int) -> bool:
        """Make the buffers of operands parts of the result's; False if there are none."""
        parts, merged = slices(op), dict[int, tuple[Buffer, Slice, int]]()
        if not parts:
            reason = "it is neither one run of bytes nor columns of the result"
            self.copied |= {(op, operand): reason for operand in op.operands}
        for part in parts:
            if (reason := self.why_copied(op, part, parts)) is not None:
                self.copied[op, part.operand] = reason
                continue
            buffer = self.by_value[part.operand]
            merged[id(buffer)] = buffer, part, part.start - self._column(part)
        if not merged:
            return False
        gone = [buffer for buffer, _, _ in merged.values()]
        whole = Buffer(byte_size(op.result), min(b.lower for b in gone), upper)
        self._put(op.result, whole)
        self.buffers[self.buffers.index(gone[0])] = whole
        for buffer, part, shift in merged.values():
            width = self._width(part)
            for value in buffer.values:
                start, pitch = self.place_of(value)
                start = spread(start, width, part.pitch) + shift
                if part.pitch:
                    has_gaps = row_count(value) > 1 and part.pitch != row_bytes(value)
                    pitch = part.pitch if has_gaps else 0
                place = start, pitch
                self.take_over(value, whole, place, buffer.upper)
        self.buffers = [b for b in self.buffers if all(b is not other for other in gone)]
        self.buffers.sort(key=lambda b: b.lower)
        return True

    def _width(self, part: Slice) -> int:
        """Bytes of a row of the operand's buffer as the slice sees it, or of all of it."""
        if not part.pitch:
            return self.by_value[part.operand].size
        return self.pitches.get(part.operand, 0) or row_bytes(part.operand)

    def _column(self, part: Slice) -> int:
        """Where in such a row the operand begins."""
        return self.starts.get(part.operand, 0)

    def why_copied(self, op: ConcatOp, part: Slice, parts: Sequence[Slice]) -> str | None:
        """Why an operand is not where the result has it; None if its buffer can be a part of it."""
        operand, buffer = part.operand, self.by_value.get(part.operand)
        if sum(operand is other for other in op.operands) > 1:
            return "it is there more than once"
        if buffer is None or not isinstance(operand.owner, Operation):
            return "no operation of the network makes it"
        width, column = self._width(part), self._column(part)
        end = part.start - column + width
        rows = row_count(op.result) if part.pitch else 1
        # What else of it is in the buffer, and what else is there, must be the same bytes.
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
                or o.start - self._column(o) != part.start - column
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
        """Why the rows of a buffer, of `width` bytes, cannot have gaps between them."""
        for value in buffer.values:
            start, pitch = self.place_of(value)
            rows = row_count(value)
            if rows > 1 and (pitch or row_bytes(value)) != width:
                return "it is also seen with other rows"
            if start % width + row_bytes(value) > width:
                return "it is also seen with other rows"
            if (reason := self.why_without_gaps(value)) is not None:
                return reason
        return None

    def why_without_gaps(self, value: SSAValue) -> str | None:
        """Why the rows of `value` cannot have gaps between them, wherever they are."""
        if value in self.returned or isinstance(value, BlockArgument):
            return "inputs and outputs of the network have no gaps between rows"
        assert isinstance(value.owner, Operation) and self.slicing is not None
        for op in (value.owner, *(use.operation for use in value.uses)):
            if (reason := self.slicing.rule(op, value)) is not None:
                return reason
        return None

    @property
    def spans(self) -> list[Span]:
        """Bytes and lifetimes alone, in the order of `buffers`."""
        return [buffer.span for buffer in self.buffers]

    def lower_bound(self, alignment: int = 1) -> int:
        """The most bytes alive at one step: no plan needs fewer."""
        return most_alive(self.spans, alignment)


def analyse(
    main: FuncOp,
    *,
    include_io: bool = False,
    in_place: bool = True,
    slicing: Slicing | None = None,
) -> Liveness:
    """
    Lifetimes of what `main` computes. With `include_io`, arguments and results too; without,
    those are in the caller's memory and have no buffer. With `in_place`, elementwise operations
    overwrite what they read last; with `slicing`, operands of a concatenation are written where
    they end up. Constants that a launch reads are alive throughout, because the accelerator sees
    nothing but this memory.
    """
    order = steps(main)
    position = {op: i for i, op in enumerate(order)}
    # Arguments are there for a step even where nothing is computed.
    end = max(len(order), 1)
    returned = set(result_values(main))
    result = Liveness(returned=frozenset(returned), slicing=slicing)
    for op in main.body.block.ops:
        if isinstance(op, ConstantOp) and any(
            isinstance(use.operation, LaunchOp) for use in op.result.uses
        ):
            result.add(op.result, 0, end)
    if include_io:
        for argument in main.body.block.args:
            result.add(argument, 0, last_use(argument, position, end, returned))
    for op in order:
        for value in op.results:
            if value in returned and not include_io:
                continue
            upper = last_use(value, position, end, returned)
            if (same := result.shared(op, position[op], in_place)) is not None:
                buffer, place = result.by_value[same], result.place_of(same)
                result.take_over(value, buffer, place, upper)
            elif slicing is None or not isinstance(op, ConcatOp) or not result.merge(op, upper):
                result.add(value, position[op], upper)
    return result


def last_use(
    value: SSAValue, position: dict[Operation, int], end: int, returned: set[SSAValue]
) -> int:
    """One past the last step that reads `value`; results of the network live to the end."""
    if value in returned:
        return end
    born = 0 if isinstance(value, BlockArgument) else position[value.owner]  # pyright: ignore
    return max((position[use.operation] for use in value.uses), default=born) + 1


# Which launches start together: those with `mem.continues` with the one before them.
#
# Nothing that the host does may be between them. A view that lies where its operand does is no work
# of the host's, and neither is a constant.


def is_host_work(op: Operation) -> bool:
    """Whether the host does something for `op`, a step of a finished plan."""
    if isinstance(op, LaunchOp):
        return False
    source = viewed_operand(op)
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
