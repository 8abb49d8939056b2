"""
Values that must share one scale, and the exponents of all scales.

Reshapes, pooling by maximum and the like tie their operand to their result at once. A
concatenation asks its operands for its own scale: an operand that nobody else reads is made
at that scale to begin with; another one is rescaled at run time.
"""

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import State
from ceras_ir.network.integer import WEIGHT_LOW, least_squares_exponent
from ceras_ir.network.quantizable import data_operands, is_alias, joins, keeps_scale
from ceras_ir.network.storage import (
    Storage,
    common_storage,
    exponent,
    missing_range,
    width,
    zero_point,
)

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
        return least_squares_exponent(owner.array().astype("float32", copy=False), WEIGHT_LOW)
    if isinstance(owner, Operation) and is_alias(owner):
        return value_exponent(owner.operands[0])
    raise missing_range(value)


def value_storage(value: SSAValue) -> Storage:
    """How `value` is stored, by what is recorded of it or of what it holds the elements of."""
    point = 0 if is_constant(value) else zero_point(source_of(value))
    return Storage(value_exponent(value), width(value), point)


def source_of(value: SSAValue) -> SSAValue:
    """The value whose elements `value` has in another order."""
    owner = value.owner
    while isinstance(owner, Operation) and is_alias(owner) and exponent(value) is None:
        value = owner.operands[0]
        owner = value.owner
    return value


def requantizations(ops: Iterable[Operation]) -> int:
    """How many values must be rescaled at run time because a reader asks for another scale."""
    asked: dict[tuple[SSAValue, Storage], None] = {}
    for op in ops:
        if not keeps_scale(op):
            continue
        wanted = value_storage(op.results[0])
        for value in data_operands(op):
            if not is_constant(value) and value_storage(value) != wanted:
                asked[value, wanted] = None
    return len(asked)


class ScaleClasses:
    """
    A partition of the quantized values of a network; all values of a class have the same storage.
    Without `joined`, a concatenation does not tie the operands to the result.
    """

    def __init__(
        self, ops: dict[Operation, None], states: Iterable[State] = (), *, joined: bool = True
    ):
        self.ops = ops
        values = [v for op in ops for v in (*data_operands(op), *op.results)]
        self.members: dict[SSAValue, list[SSAValue]] = {
            v: [v] for v in values if not is_constant(v)
        }
        self.root = {v: v for v in self.members}
        for op in ops:
            if keeps_scale(op) and not joins(op):
                self._join(op.operands[0], op.results[0])
        for state in states:
            # What is kept from call to call has one scale.
            if state.argument in self.root and state.result in self.root:
                self._join(state.argument, state.result)
        self.storages = {root: self._preferred(root) for root in self.members}
        if joined:
            self._merge_concatenations()
        self.raises = dict.fromkeys(self.members, 0)

    def __getitem__(self, value: SSAValue) -> int:
        """The exponent of a value, constants included."""
        return self.storage(value).exponent

    def storage(self, value: SSAValue) -> Storage:
        """How a value is stored; its class has the bits of the widest of its members."""
        return value_storage(value) if is_constant(value) else self.storages[self.root[value]]

    def coarsen(self, value: SSAValue, least: int) -> bool:
        """Raise the exponent of a value's class to `least`; whether it rose."""
        root = self.root[value]
        if self.storages[root].exponent >= least or self.raises[root] == MAX_RAISES:
            return False
        self.raises[root] += 1
        # A zero point at coarser steps leaves more room below zero than was asked for.
        self.storages[root] = self.storages[root]._replace(exponent=least)
        return True

    def _join(self, part: SSAValue, whole: SSAValue) -> None:
        """Make one class of two, stored like `whole`."""
        if is_constant(part) or (a := self.root[part]) is (b := self.root[whole]):
            return
        for member in self.members[a]:
            self.root[member] = b
        self.members[b] += self.members.pop(a)

    def _preferred(self, root: SSAValue) -> Storage:
        """What holds every member that is really computed with, in the bits of the widest."""
        members = self.members[root]
        read = [v for v in members if any(self._is_outside(u.operation, root) for u in v.uses)]
        bits = max(width(v) for v in members)
        return common_storage([value_storage(v) for v in read or members], bits)

    def _is_outside(self, reader: Operation, root: SSAValue) -> bool:
        """Whether a reader does more than move elements within the class."""
        moves = reader in self.ops and keeps_scale(reader)
        return not moves or self.root[reader.results[0]] is not root

    def _merge_concatenations(self) -> None:
        joined = [op for op in self.ops if joins(op)]
        changed = True
        while changed:
            changed = False
            # The last first: its scale is what an inner concatenation has to come to.
            for op in reversed(joined):
                (result,) = op.results
                for operand in op.operands:
                    if is_constant(operand) or self.root[operand] is self.root[result]:
                        continue
                    if self._may_become(self.root[operand], result):
                        self._join(operand, result)
                        changed = True

    def _may_become(self, root: SSAValue, whole: SSAValue) -> bool:
        """
        Whether the class is stored like `whole`, or is read only where that is asked for. A
        class in 16 bits does not give them up.
        """
        wanted = self.storage(whole)
        if self.storages[root] == wanted:
            return True
        if self.storages[root].bits > wanted.bits:
            return False
        for value in self.members[root]:
            for use in value.uses:
                reader = use.operation
                if not self._is_outside(reader, root):
                    continue
                if reader not in self.ops or not joins(reader):
                    return False
                if self.storage(reader.results[0]) != wanted:
                    return False
        return True
