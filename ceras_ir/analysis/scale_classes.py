"""
Values that must share one scale, and the exponents of all scales.

Reshapes, pooling by maximum and the like tie their operand to their result at once. A
concatenation asks its operands for its own scale: an operand that nobody else reads is made
at that scale to begin with; another one is rescaled at run time.
"""

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from ceras_ir.analysis.precision import width
from ceras_ir.analysis.quantizable import data_operands, is_alias, keeps_scale
from ceras_ir.analysis.ranges import exponent, missing_range
from ceras_ir.dialects import graph

MAX_RAISES = 4
"""How often one scale may be raised; where a value is fed back into its own class by a
concatenation, it could go on for ever. Afterwards results are scaled up by multipliers."""


def is_constant(value: SSAValue) -> bool:
    """Whether a value is quantized anew for every reader, at the scale that it asks for."""
    return isinstance(value.owner, graph.ConstantOp)


def value_exponent(value: SSAValue) -> int:
    """
    The exponent recorded for `value`; that of the operand for a result that has none because
    it holds the same elements; chosen now for a constant.
    """
    owner = value.owner
    if (known := exponent(value)) is not None:
        return known
    if isinstance(owner, graph.ConstantOp):
        from ceras_ir.analysis.exponents import WEIGHT_LOW, least_squares_exponent

        return least_squares_exponent(owner.array().astype("float32", copy=False), WEIGHT_LOW)
    if isinstance(owner, Operation) and is_alias(owner):
        return value_exponent(owner.operands[0])
    raise missing_range(value)


def source_of(value: SSAValue) -> SSAValue:
    """The value whose elements `value` has in another order."""
    owner = value.owner
    while isinstance(owner, Operation) and is_alias(owner) and exponent(value) is None:
        value = owner.operands[0]
        owner = value.owner
    return value


def requantizations(ops: Iterable[Operation]) -> int:
    """How many values must be rescaled at run time because a reader asks for another scale."""
    asked: dict[tuple[SSAValue, int, int], None] = {}
    for op in ops:
        if not keeps_scale(op):
            continue
        wanted = value_exponent(op.results[0]), width(op.results[0])
        for value in op.operands:
            if not is_constant(value) and (value_exponent(value), width(value)) != wanted:
                asked[value, *wanted] = None
    return len(asked)


class ScaleClasses:
    """A partition of the quantized values of a network; each class has one exponent."""

    def __init__(self, ops: dict[Operation, None]):
        self.ops = ops
        values = [v for op in ops for v in (*data_operands(op), *op.results)]
        self.members: dict[SSAValue, list[SSAValue]] = {
            v: [v] for v in values if not is_constant(v)
        }
        self.root = {v: v for v in self.members}
        for op in ops:
            if keeps_scale(op) and not isinstance(op, graph.ConcatOp):
                self._join(op.operands[0], op.results[0])
        self.exponents = {root: self._preferred(root) for root in self.members}
        self.widths = {root: max(width(v) for v in self.members[root]) for root in self.members}
        self._merge_concatenations()
        self.raises = dict.fromkeys(self.members, 0)

    def __getitem__(self, value: SSAValue) -> int:
        """The exponent of a value, constants included."""
        return value_exponent(value) if is_constant(value) else self.exponents[self.root[value]]

    def width(self, value: SSAValue) -> int:
        """In how many bits a value is stored; its class follows the widest of its members."""
        return width(value) if is_constant(value) else self.widths[self.root[value]]

    def coarsen(self, value: SSAValue, least: int) -> bool:
        """Raise the exponent of a value's class to `least`; whether it rose."""
        root = self.root[value]
        if self.exponents[root] >= least or self.raises[root] == MAX_RAISES:
            return False
        self.raises[root] += 1
        self.exponents[root] = least
        return True

    def _join(self, part: SSAValue, whole: SSAValue) -> None:
        """Make one class of two, with the exponent of `whole`."""
        if is_constant(part) or (a := self.root[part]) is (b := self.root[whole]):
            return
        for member in self.members[a]:
            self.root[member] = b
        self.members[b] += self.members.pop(a)

    def _preferred(self, root: SSAValue) -> int:
        """The coarsest exponent that a member which is really computed with was given."""
        members = self.members[root]
        read = [v for v in members if any(self._is_outside(u.operation, root) for u in v.uses)]
        return max(value_exponent(v) for v in read or members)

    def _is_outside(self, reader: Operation, root: SSAValue) -> bool:
        """Whether a reader does more than move elements within the class."""
        moves = reader in self.ops and keeps_scale(reader)
        return not moves or self.root[reader.results[0]] is not root

    def _merge_concatenations(self) -> None:
        concats = [op for op in self.ops if isinstance(op, graph.ConcatOp)]
        changed = True
        while changed:
            changed = False
            # The last first: its scale is what an inner concatenation has to come to.
            for op in reversed(concats):
                for operand in op.inputs:
                    if is_constant(operand) or self.root[operand] is self.root[op.result]:
                        continue
                    if self._may_become(self.root[operand], op.result):
                        self._join(operand, op.result)
                        changed = True

    def _may_become(self, root: SSAValue, whole: SSAValue) -> bool:
        """
        Whether the class is stored like `whole`, or is read only where that is asked for. A
        class in 16 bits does not give them up.
        """
        wanted = self._form(whole)
        if (self.exponents[root], self.widths[root]) == wanted:
            return True
        if self.widths[root] > wanted[1]:
            return False
        for value in self.members[root]:
            for use in value.uses:
                reader = use.operation
                if not self._is_outside(reader, root):
                    continue
                if reader not in self.ops or not isinstance(reader, graph.ConcatOp):
                    return False
                if self._form(reader.result) != wanted:
                    return False
        return True

    def _form(self, value: SSAValue) -> tuple[int, int]:
        """Exponent and width of a value."""
        return self[value], self.width(value)
