"""
Determine which results can share the memory of operands.

An operation can overwrite an operand, and a concatenation can have operands that are written at
their positions in the result.
"""

from dataclasses import dataclass
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import ConcatOp, shape_of, storage_type, tensor_type
from ceras_ir.dialects.graph.attributes import MayOverwrite
from ceras_ir.dialects.mem import block_of
from ceras_ir.support.diagnostics import Finding, UnsupportedError, node_name
from ceras_ir.targets.capabilities import GapRule, takes_runs_only


def may_overwrite(op: Operation, operand: SSAValue) -> bool:
    """
    Return whether the result of `op` can be stored at the address of `operand`, without an error.
    The trait `MayOverwrite` declares it, and both must have equal shapes and stored types; a
    constant cannot be overwritten.
    """
    if not op.has_trait(MayOverwrite, value_if_unregistered=False):
        return False
    if isinstance(operand.owner, graph.ConstantOp):
        return False
    old, new = tensor_type(operand), tensor_type(op.results[0])
    stored = graph.numpy_dtype(old.element_type), graph.numpy_dtype(new.element_type)
    return old.get_shape() == new.get_shape() and stored[0] == stored[1]


# A contiguous operand is an ordinary value. Columns (along the last axis) alternate with columns of
# other operands: in place, the rows have a distance of `pitch` bytes, and the producer and all
# consumers must support gaps.


def accept_gaps(op: Operation, value: SSAValue) -> str | None:
    """
    Return `None`, so that gaps between rows are accepted. It is the rule for a finished memory
    plan, which already satisfies the rule of the target.
    """
    return None


@dataclass(frozen=True)
class Slicing:
    """
    The choice of operands of concatenations that are stored directly in the memory of the result:
    `wanted`, or all operands for which this is possible if it is `None`. `rule` specifies which
    kernels support gaps between rows.
    """

    rule: GapRule = takes_runs_only
    wanted: frozenset[tuple[Operation, SSAValue]] | None = None

    def wants(self, op: Operation, operand: SSAValue) -> bool:
        """
        Return whether `operand` of the concatenation `op` is to be stored directly in the memory of
        the result.
        """
        return self.wanted is None or (op, operand) in self.wanted


@dataclass(frozen=True)
class Slice:
    """
    The position of an operand of a concatenation in the memory of the result: from byte `start` on,
    either contiguous or in rows with gaps.
    """

    operand: SSAValue
    start: int
    width: int
    """The bytes of a row, or of the operand if it is contiguous."""
    pitch: int
    """The bytes from a row to the next; 0 if the operand is contiguous."""


def element_bytes(value: SSAValue) -> int:
    """Return the bytes of a stored element of `value`."""
    return storage_type(tensor_type(value).element_type).size


def row_bytes(value: SSAValue) -> int:
    """Return the bytes of a row, which has the elements along the last axis."""
    return (1, *shape_of(value))[-1] * element_bytes(value)


def row_count(value: SSAValue) -> int:
    """Return the number of rows: the product of all extents except the last."""
    return prod(shape_of(value)[:-1])


def slices(op: ConcatOp) -> list[Slice]:
    """
    Return the position of each operand of a concatenation in the memory of the result. Return an
    empty list if an operand would be neither contiguous there nor columns of rows, because the axis
    is in the middle.
    """
    axis, shape = op.axis.value.data, shape_of(op.result)
    is_run = prod(shape[:axis]) == 1
    if not is_run and axis != len(shape) - 1:
        return []
    pitch = 0 if is_run else row_bytes(op.result)
    found: list[Slice] = []
    start = 0
    for operand in op.operands:
        width = row_bytes(operand) * (row_count(operand) if is_run else 1)
        found.append(Slice(operand, start, width, pitch))
        start += width
    return found


def spread(start: int, row: int, pitch: int) -> int:
    """
    Return the new position of byte `start` if contiguous rows of `row` bytes are moved to a
    distance of `pitch` bytes from each other: (5, 4, 10) -> 11. A `pitch` of 0 means no gaps, and
    returns `start`.
    """
    return start // row * pitch + start % row if pitch else start


def slices_of_plan(main: FuncOp) -> Slicing:
    """
    Return the operands of concatenations that a finished memory plan stores directly in the memory
    of the result.
    """
    found = {
        (op, part.operand)
        for op in main.body.block.ops
        if isinstance(op, ConcatOp)
        for part in slices(op)
        if operand_in_place(op, part)
    }
    return Slicing(accept_gaps, frozenset(found))


def refuse_gaps(main: FuncOp, target: str) -> None:
    """
    Raise `UnsupportedError` if the memory plan of `main` has gaps between the rows of a value. A
    target without kernels for gaps, named `target` in the message, calls it.
    """
    for op in main.body.block.ops:
        if any((block := block_of(r)) is not None and block.pitch.data for r in op.results):
            reason = (
                f"unsupported: the plan has gaps between the rows of the result, which target "
                f"{target} does not support; run --allocate-blocks without target"
            )
            raise UnsupportedError([Finding(node_name(op), op.name, reason)])


def operand_in_place(op: ConcatOp, part: Slice) -> bool:
    """
    Return whether the memory plan stores an operand of the concatenation `op` at the position
    `part` in the memory of the result, so that it needs no copy.
    """
    part_block, result_block = block_of(part.operand), block_of(op.result)
    if part_block is None or result_block is None or part_block.region != result_block.region:
        return False
    start = spread(part.start, row_bytes(op.result), result_block.pitch.data)
    pitch = result_block.pitch.data or part.pitch
    if row_count(part.operand) <= 1 or pitch == row_bytes(part.operand):
        pitch = 0
    expected = result_block.offset.data + start, pitch
    return (part_block.offset.data, part_block.pitch.data) == expected
