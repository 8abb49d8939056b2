"""
When the values of a network are needed: buffers with half-open lifetimes.

A buffer is the memory of one value, or of several that are the same bytes: a reshape and its
operand, an elementwise operation and an operand that it is the last to read, or a concatenation
and operands that are written straight into their slices of it. Steps are the positions of
operations in `main`, constants not counted; a buffer lives from the step that writes it up to and
including the last step that reads it.
"""

from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.analysis.in_place import may_overwrite, slices
from ceras_ir.analysis.spans import Span, most_alive
from ceras_ir.dialects.graph import ConcatOp, ConstantOp, ReshapeOp, storage_type, tensor_type
from ceras_ir.dialects.mem import LaunchOp, block_of


def byte_size(value: SSAValue) -> int:
    """Bytes of a tensor value as it is stored."""
    kind = tensor_type(value)
    return prod(kind.get_shape()) * storage_type(kind.element_type).size


def steps(main: FuncOp) -> list[Operation]:
    """The operations that compute something, in the order they run."""
    return [op for op in main.body.block.ops if not isinstance(op, ConstantOp) and not op_ends(op)]


def op_ends(op: Operation) -> bool:
    """Whether `op` is the return of the network."""
    return isinstance(op, ReturnOp)


@dataclass
class Buffer:
    """Memory that must stay untouched during `[lower, upper)`."""

    values: list[SSAValue]
    size: int
    lower: int
    upper: int

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
    returned: frozenset[SSAValue] = frozenset()
    """Results of the network, which nothing may overwrite."""

    def add(self, value: SSAValue, lower: int, upper: int) -> None:
        buffer = Buffer([value], byte_size(value), lower, upper)
        self.buffers.append(buffer)
        self.by_value[value] = buffer

    def shared(self, op: Operation, step: int, in_place: bool) -> tuple[Buffer, int] | None:
        """The buffer of an operand that the result of `op` can take over, and where in it."""
        if isinstance(op, ReshapeOp):
            buffer = self.by_value.get(op.input)
            return None if buffer is None else (buffer, self.starts.get(op.input, 0))
        if not in_place:
            return None
        for operand in op.operands:
            buffer = self.by_value.get(operand)
            if buffer is None or buffer.upper != step + 1 or not may_overwrite(op, operand):
                continue
            # Other operands in the same bytes must be read the same way.
            others = [v for v in op.operands if self.by_value.get(v) is buffer]
            if any(v in self.returned for v in buffer.values):
                continue
            starts = {self.starts.get(other, 0) for other in others}
            if len(starts) == 1 and all(may_overwrite(op, other) for other in others):
                return buffer, starts.pop()
        return None

    def take_over(self, value: SSAValue, buffer: Buffer, start: int, upper: int) -> None:
        """Put `value` into a buffer that is there already."""
        buffer.values.append(value)
        buffer.upper = max(buffer.upper, upper)
        self.by_value[value] = buffer
        if start:
            self.starts[value] = start

    def merge(self, op: ConcatOp, upper: int) -> bool:
        """
        Make the buffers of operands parts of the result's; False if there are none. An operand
        qualifies that an operation makes and that has a buffer of its own size.
        """
        size = byte_size(op.result)
        merged: list[tuple[Buffer, int]] = []
        for operand, start in slices(op):
            buffer = self.by_value.get(operand)
            if buffer is None or not isinstance(operand.owner, Operation):
                continue
            if sum(self.by_value.get(other) is buffer for other in op.operands) > 1:
                continue  # The same bytes are needed in two places.
            if self.starts.get(operand, 0) == 0 and buffer.size == byte_size(operand) != size:
                merged.append((buffer, start))
        if not merged:
            return False
        whole = Buffer([op.result], size, min(b.lower for b, _ in merged), upper)
        self.by_value[op.result] = whole
        self.buffers[self.buffers.index(merged[0][0])] = whole
        for buffer, start in merged:
            for value in buffer.values:
                self.take_over(value, whole, start + self.starts.get(value, 0), buffer.upper)
        gone = [b for b, _ in merged]
        self.buffers = [b for b in self.buffers if all(b is not other for other in gone)]
        self.buffers.sort(key=lambda b: b.lower)
        return True

    @property
    def spans(self) -> list[Span]:
        """Bytes and lifetimes alone, in the order of `buffers`."""
        return [buffer.span for buffer in self.buffers]

    def lower_bound(self, alignment: int = 1) -> int:
        """The most bytes alive at one step: no plan needs fewer."""
        return most_alive(self.spans, alignment)


def analyse(
    main: FuncOp, *, include_io: bool = False, in_place: bool = True, in_slices: bool = False
) -> Liveness:
    """
    Lifetimes of what `main` computes. With `include_io`, arguments and results too; without,
    those are in the caller's memory and have no buffer. With `in_place`, elementwise operations
    overwrite what they read last; with `in_slices`, operands of a concatenation are written where
    they end up, if each is one run of bytes there. Constants that a launch reads are
    alive throughout, because the accelerator sees nothing but this memory.
    """
    order = steps(main)
    position = {op: i for i, op in enumerate(order)}
    # Arguments are there for a step even where nothing is computed.
    end = max(len(order), 1)
    returned: set[SSAValue] = set()
    for op in main.body.block.ops:
        if op_ends(op):
            returned.update(op.operands)
    result = Liveness(returned=frozenset(returned))
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
            if (shared := result.shared(op, position[op], in_place)) is not None:
                result.take_over(value, *shared, upper)
            elif not (in_slices and isinstance(op, ConcatOp) and result.merge(op, upper)):
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


def is_in_slices(main: FuncOp) -> bool:
    """Whether in the plan of `main` an operand of a concatenation lies in the result."""
    return any(
        operand_in_place(op, operand, start)
        for op in main.body.block.ops
        if isinstance(op, ConcatOp)
        for operand, start in slices(op)
    )


def operand_in_place(op: ConcatOp, operand: SSAValue, start: int) -> bool:
    """Whether the plan has `operand` at byte `start` of the result, where it is to be."""
    own, whole = block_of(operand), block_of(op.result)
    if own is None or whole is None:
        return False
    return own.region == whole.region and own.offset.data == whole.offset.data + start
