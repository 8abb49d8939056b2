"""
Which results may share the memory of operands: an operation that overwrites its operand, and the
operands of a concatenation that are written where they end up.
"""

from dataclasses import dataclass
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import (
    ConcatOp,
    ConstantOp,
    numpy_dtype,
    shape_of,
    storage_type,
    tensor_type,
)
from ceras_ir.dialects.graph.attributes import MayOverwrite
from ceras_ir.dialects.mem import block_of
from ceras_ir.support.diagnostics import Finding, UnsupportedError, node_name
from ceras_ir.targets.capabilities import GapRule, takes_runs_only

# Which operations may write their result over an operand that nothing reads afterwards.
#
# An operation says so by the trait `MayOverwrite`: it reads element `i` of the operand for element
# `i` of the result and for nothing else, and every target's kernel is exact with both at one
# address.


def may_overwrite(op: Operation, operand: SSAValue) -> bool:
    """Whether `op` is exact when its result lies where `operand` lies."""
    if not op.has_trait(MayOverwrite, value_if_unregistered=False):
        return False
    if isinstance(operand.owner, ConstantOp):
        return False
    old, new = tensor_type(operand), tensor_type(op.results[0])
    stored = numpy_dtype(old.element_type), numpy_dtype(new.element_type)
    return old.get_shape() == new.get_shape() and stored[0] == stored[1]


# Where the operands of a concatenation are in its result, and who can write or read them there.
#
# An operand that is one run of bytes there is like any other value. Columns (the last dimension)
# alternate with those of other operands: in its place, an operand has rows that are `pitch` bytes
# apart, and all that make or read it must be able to leave the gaps alone.


def takes_gaps(op: Operation, value: SSAValue) -> str | None:
    """The rule under which a finished plan is read: it was made under a target's own."""
    return None


@dataclass(frozen=True)
class Slicing:
    """Which operands are to lie in their places: all that can, or those of `wanted`."""

    rule: GapRule = takes_runs_only
    wanted: frozenset[tuple[Operation, SSAValue]] | None = None

    def wants(self, op: Operation, operand: SSAValue) -> bool:
        """Whether this operand of a concatenation is to lie in its place."""
        return self.wanted is None or (op, operand) in self.wanted


@dataclass(frozen=True)
class Slice:
    """The bytes of one operand in the result, if that has no gaps itself."""

    operand: SSAValue
    start: int
    width: int
    """Of each row of it, or of all of it if it is one run."""
    pitch: int
    """From row to row; 0 if it is one run."""


def element_bytes(value: SSAValue) -> int:
    """Bytes of one element as it is stored."""
    return storage_type(tensor_type(value).element_type).size


def row_bytes(value: SSAValue) -> int:
    """Bytes of one row, which is what the last dimension counts."""
    return (1, *shape_of(value))[-1] * element_bytes(value)


def row_count(value: SSAValue) -> int:
    """How many rows a value has."""
    return prod(shape_of(value)[:-1])


def slices(op: ConcatOp) -> list[Slice]:
    """The operands in the result; none where they alternate and are not columns."""
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
    """Where byte `start` of rows of `row` bytes is when they are `pitch` bytes apart."""
    return start // row * pitch + start % row if pitch else start


def slices_of_plan(main: FuncOp) -> Slicing:
    """The operands that a finished plan has in their places."""
    found = {
        (op, part.operand)
        for op in main.body.block.ops
        if isinstance(op, ConcatOp)
        for part in slices(op)
        if operand_in_place(op, part)
    }
    return Slicing(takes_gaps, frozenset(found))


def refuse_gaps(main: FuncOp, target: str) -> None:
    """Refuse a plan with gaps between rows, for a target whose kernels know none."""
    for op in main.body.block.ops:
        if any((block := block_of(r)) is not None and block.pitch.data for r in op.results):
            reason = (
                f"unsupported: the plan has gaps between the rows of its result, which target "
                f"{target} knows nothing of; run --allocate-blocks without target"
            )
            raise UnsupportedError([Finding(node_name(op), op.name, reason)])


def operand_in_place(op: ConcatOp, part: Slice) -> bool:
    """Whether the plan has an operand where the result is to have it."""
    own, whole = block_of(part.operand), block_of(op.result)
    if own is None or whole is None or own.region != whole.region:
        return False
    start = spread(part.start, row_bytes(op.result), whole.pitch.data)
    pitch = whole.pitch.data or part.pitch
    there = pitch if row_count(part.operand) > 1 and pitch != row_bytes(part.operand) else 0
    return own.offset.data == whole.offset.data + start and own.pitch.data == there
