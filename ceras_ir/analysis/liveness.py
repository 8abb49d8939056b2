"""
When the values of a network are needed: buffers with half-open lifetimes.

A buffer is the memory of one value, or of several that are the same bytes: a reshape and its
operand, or an elementwise operation and an operand that it is the last to read. Steps are the
positions of operations in `main`, constants not counted; a buffer lives from the step that
writes it up to and including the last step that reads it.
"""

from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.analysis.in_place import may_overwrite
from ceras_ir.analysis.spans import Span, most_alive
from ceras_ir.dialects.graph import ConstantOp, ReshapeOp, storage_type, tensor_type
from ceras_ir.dialects.mem import LaunchOp


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

    def add(self, value: SSAValue, lower: int, upper: int) -> None:
        buffer = Buffer([value], byte_size(value), lower, upper)
        self.buffers.append(buffer)
        self.by_value[value] = buffer

    def shared(self, op: Operation, step: int, in_place: bool) -> Buffer | None:
        """The buffer of an operand that the result of `op` can take over."""
        if isinstance(op, ReshapeOp):
            return self.by_value.get(op.input)
        if not in_place:
            return None
        for operand in op.operands:
            buffer = self.by_value.get(operand)
            if buffer is None or buffer.upper != step + 1 or not may_overwrite(op, operand):
                continue
            # Other operands in the same bytes must be read the same way.
            others = [v for v in op.operands if self.by_value.get(v) is buffer]
            if all(may_overwrite(op, other) for other in others):
                return buffer
        return None

    @property
    def spans(self) -> list[Span]:
        """Bytes and lifetimes alone, in the order of `buffers`."""
        return [buffer.span for buffer in self.buffers]

    def lower_bound(self, alignment: int = 1) -> int:
        """The most bytes alive at one step: no plan needs fewer."""
        return most_alive(self.spans, alignment)


def analyse(main: FuncOp, *, include_io: bool = False, in_place: bool = True) -> Liveness:
    """
    Lifetimes of what `main` computes. With `include_io`, arguments and results too; without,
    those are in the caller's memory and have no buffer. With `in_place`, elementwise operations
    overwrite what they read last. Constants that a launch reads are
    alive throughout, because the accelerator sees nothing but this memory.
    """
    order = steps(main)
    position = {op: i for i, op in enumerate(order)}
    end = len(order)
    returned: set[SSAValue] = set()
    for op in main.body.block.ops:
        if op_ends(op):
            returned.update(op.operands)
    result = Liveness()
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
                shared.values.append(value)
                shared.upper = max(shared.upper, upper)
                result.by_value[value] = shared
            else:
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
