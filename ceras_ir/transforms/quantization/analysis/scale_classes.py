"""
Partition values into classes with a common scale, and channels into slots with a common factor.

Data movement and maximum poolings give operand and result the same scale. A concatenation requires
its scale of the operands: an operand without other consumers is computed at this scale; any other
operand is requantized at run time.
"""

from collections.abc import Iterable
from math import inf
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import Float32Type
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation, is_tensor
from ceras_ir.network.function import State, data_operands, is_alias, is_join, keeps_scale
from ceras_ir.network.integer import least_squares_exponent, weight_bounds
from ceras_ir.network.storage import (
    Storage,
    common_storage,
    exponent,
    given_type,
    is_kept_in_float,
    missing_range,
    network_values,
    width,
    zero_point,
)
from ceras_ir.transforms.quantization.analysis.function_forms import is_table, separates

MAX_RAISES = 4
"""
The maximum number of times that the exponent of a class is raised. If a concatenation feeds a value
back into its class, there would be no end. Afterwards multipliers scale up the results.
"""


def is_constant(value: SSAValue) -> bool:
    """
    Return whether a value is a constant. Constants belong to no class of values with a common
    scale, because they are quantized separately for each consumer.
    """
    return isinstance(value.owner, graph.ConstantOp)


def value_exponent(value: SSAValue) -> int:
    """
    Return the exponent of the scale of `value`: the recorded exponent, or the exponent of the
    operand if the value has the same elements. For a constant, return the exponent with the
    smallest squared error. Raise an `InputError` for a value that was not calibrated.
    """
    owner = value.owner
    if (known := exponent(value)) is not None:
        return known
    if isinstance(owner, graph.ConstantOp):
        return least_squares_exponent(owner.array().astype("float32", copy=False), *weight_bounds())
    if isinstance(owner, Operation) and is_alias(owner):
        return value_exponent(owner.operands[0])
    raise missing_range(value)


def value_storage(value: SSAValue) -> Storage:
    """
    Return the exponent, width and zero point with which `value` is stored. The result of a data
    movement operation is stored like the operand.
    """
    point = 0 if is_constant(value) else zero_point(source_of(value))
    return Storage(value_exponent(value), width(value), point)


def source_of(value: SSAValue) -> SSAValue:
    """
    Return the value from which data movement created `value`, as far as no exponent is recorded in
    between. Return `value` if it is computed.
    """
    owner = value.owner
    while isinstance(owner, Operation) and is_alias(owner) and exponent(value) is None:
        value = owner.operands[0]
        owner = value.owner
    return value


def requantizations(ops: Iterable[Operation]) -> int:
    """
    Return the number of requantizations at run time that data movement operations, maximum poolings
    and concatenations need, because an operand has another storage (exponent, width, zero point)
    than the result. An operand that needs two other storages counts twice.
    """
    required: set[tuple[SSAValue, Storage]] = set()
    for op in ops:
        if not keeps_scale(op):
            continue
        wanted = value_storage(op.results[0])
        for value in data_operands(op):
            if not is_constant(value) and value_storage(value) != wanted:
                required.add((value, wanted))
    return len(required)


class ScaleClasses:
    """
    A partition of the quantized values of a network into classes. All values of a class have the
    same storage: exponent, width and zero point.

    Data movement puts operand and result into the same class. A concatenation does so only if
    `joined` is true and all other consumers of the operand permit it.
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
            if keeps_scale(op) and not is_join(op):
                self._join(op.operands[0], op.results[0])
        for state in states:
            # A state has the same scale in all calls.
            if state.argument in self.root and state.result in self.root:
                self._join(state.argument, state.result)
        self.storages = {root: self._preferred(root) for root in self.members}
        if joined:
            self._merge_concatenations()
        self.raises = dict.fromkeys(self.members, 0)

    def __getitem__(self, value: SSAValue) -> int:
        """Return the exponent of the scale of a value or constant."""
        return self.storage(value).exponent

    def storage(self, value: SSAValue) -> Storage:
        """
        Return the storage (exponent, width, zero point) of the class of a value. The width is the
        largest of the members.
        """
        return value_storage(value) if is_constant(value) else self.storages[self.root[value]]

    def coarsen(self, value: SSAValue, min_exponent: int) -> bool:
        """
        Raise the exponent of the class of `value` to at least `min_exponent`. Return whether the
        exponent changed; after `MAX_RAISES` changes it is final.
        """
        root = self.root[value]
        if self.storages[root].exponent >= min_exponent or self.raises[root] == MAX_RAISES:
            return False
        self.raises[root] += 1
        # With a coarser scale, the zero point leaves a larger negative range than required.
        self.storages[root] = self.storages[root]._replace(exponent=min_exponent)
        return True

    def _join(self, part: SSAValue, result: SSAValue) -> None:
        if is_constant(part) or (a := self.root[part]) is (b := self.root[result]):
            return
        for member in self.members[a]:
            self.root[member] = b
        self.members[b] += self.members.pop(a)

    def _preferred(self, root: SSAValue) -> Storage:
        """
        Return the storage that fits the values of a class. Only values with a consumer outside the
        class count, if there are any, because the other values are only moved.
        """
        members = self.members[root]
        used = [v for v in members if any(self._is_outside(u.operation, root) for u in v.uses)]
        bits = max(width(v) for v in members)
        return common_storage([value_storage(v) for v in used or members], bits)

    def _is_outside(self, user: Operation, root: SSAValue) -> bool:
        moves = user in self.ops and keeps_scale(user)
        return not moves or self.root[user.results[0]] is not root

    def _merge_concatenations(self) -> None:
        joined = [op for op in self.ops if is_join(op)]
        changed = True
        while changed:
            changed = False
            # From the last one, because it determines the scale of nested concatenations.
            for op in reversed(joined):
                (result,) = op.results
                for operand in op.operands:
                    if is_constant(operand) or self.root[operand] is self.root[result]:
                        continue
                    if self._can_join(self.root[operand], result):
                        self._join(operand, result)
                        changed = True

    def _can_join(self, root: SSAValue, result: SSAValue) -> bool:
        """
        Return whether the class of `root` can be merged with that of `result`, a result of a
        concatenation: both have the same storage, or all consumers of the class are concatenations
        that need the storage of `result`. A class with 16 bits does not become narrower.
        """
        wanted = self.storage(result)
        if self.storages[root] == wanted:
            return True
        if self.storages[root].bits > wanted.bits:
            return False
        for value in self.members[root]:
            for use in value.uses:
                user = use.operation
                if not self._is_outside(user, root):
                    continue
                if user not in self.ops or not is_join(user):
                    return False
                if self.storage(user.results[0]) != wanted:
                    return False
        return True


# Slots of channels that may be rescaled together without a change of the network function.
#
# Each channel (index of the last axis) of each value belongs to a slot. All channels of a slot have
# the same factor, and a pinned slot has the factor 1. Operations with constant weights separate the
# slots of operand and result, because the weights absorb any factor. Functions that become tables
# and float multiplications of channels by constants also separate them. Operations that commute
# with positive factors tie slots. Constants that are added to channels have the factors of the sum.

Slots = NDArray[np.int64]

ADDITIONS = graph.Binary.ADD, graph.Binary.SUB


def absorbs(op: Operation) -> bool:
    """
    Return whether `op` is a float layer with constant weights and bias. Factors of the channels of
    operand and result can then be moved into these constants. Weights of few bits in the model keep
    their integers.
    """
    return (
        isinstance(op, graph.LinearOperation)
        and not op.is_quantized
        and given_type(op) is None
        and not isinstance(op.input.owner, graph.ConstantOp)
        and isinstance(op.weights.owner, graph.ConstantOp)
        and (op.bias is None or isinstance(op.bias.owner, graph.ConstantOp))
    )


def is_channel_scale(op: Operation) -> TypeGuard[graph.BinaryOp]:
    """
    Return whether `op` multiplies each channel (last axis) by a constant and remains in float.
    """
    if not isinstance(op, graph.BinaryOp) or op.function is not graph.Binary.MUL:
        return False
    if not _is_real(op.lhs) or op.activation is not None or not is_kept_in_float(op):
        return False
    shape, factors = graph.shape_of(op.result), graph.constant_array(op.rhs)
    return factors is not None and graph.shape_of(op.lhs) == shape and factors.shape == shape[-1:]


def channel_addend(op: Operation) -> SSAValue | None:
    """
    Return the constant operand if `op` adds or subtracts a constant with an element for each
    channel, otherwise `None`.
    """
    if not isinstance(op, graph.BinaryOp) or op.function not in ADDITIONS:
        return None
    channels = graph.shape_of(op.result)[-1:]
    for value, other in ((op.rhs, op.lhs), (op.lhs, op.rhs)):
        is_known = _is_float(value) and isinstance(value.owner, graph.ConstantOp)
        if channels and is_known and graph.shape_of(value)[-1:] == channels and _is_real(other):
            return value
    return None


def _scales_channels(op: graph.BinaryOp) -> bool:
    constants = [isinstance(value.owner, graph.ConstantOp) for value in op.operands]
    return op.function is graph.Binary.MUL and any(constants) and not all(constants)


def _is_float(value: SSAValue) -> bool:
    return is_tensor(value.type) and isinstance(value.type.element_type, Float32Type)


def _is_real(value: SSAValue) -> bool:
    return _is_float(value) and not isinstance(value.owner, graph.ConstantOp)


def consuming_layers(main: FuncOp, value: SSAValue) -> list[graph.LinearOperation]:
    """
    Return the layers with constant weights that consume a float value, directly or after data
    movement. Return an empty list if the value has any other consumer.
    """
    found: list[graph.LinearOperation] = []
    if not _is_real(value):
        return found
    moved = {value}
    for op in main.body.block.ops:
        if moved.isdisjoint(op.operands):
            continue
        if isinstance(op, graph.LinearOperation) and absorbs(op) and op.residual not in moved:
            found.append(op)
        elif keeps_scale(op) and moved.issuperset(op.operands):
            moved.add(op.results[0])
        else:
            return []
    return found


class ChannelSlots:
    """
    A partition of the channels (last axis) of all values of a network into slots: sets of channels
    that must be multiplied by the same factor, so that the network computes the same function.

    `pinned` slots must have the factor 1. `cap` is, for each slot, the lowest upper bound of the
    clips on these channels. The observed magnitudes times the factor must not exceed it, because
    the bound of the clip does not change.
    """

    def __init__(self, main: FuncOp):
        self.ids: dict[SSAValue, Slots] = {}
        count = 0
        for value in network_values(main.body.block):
            if not _is_real(value):
                continue
            extent = (graph.shape_of(value) or (1,))[-1]
            self.ids[value] = np.arange(count, count + extent)
            count += extent
        self.parent = list(range(count))
        self.pinned = np.zeros(count, np.bool_)
        self.cap = np.full(count, inf)
        self._pin(main.body.block.args)
        for op in main.body.block.ops:
            if not isinstance(op, graph.ConstantOp):
                self._constrain(op)
        self._flatten()

    def __getitem__(self, value: SSAValue) -> Slots:
        return self.ids[value]

    def __len__(self) -> int:
        return len(self.parent)

    def _flatten(self) -> None:
        roots = np.array([self._root(i) for i in range(len(self.parent))], np.int64)
        pinned, cap = np.zeros_like(self.pinned), np.full_like(self.cap, inf)
        np.logical_or.at(pinned, roots, self.pinned)
        np.minimum.at(cap, roots, self.cap)
        self.pinned, self.cap = pinned, cap
        self.ids = {value: roots[ids] for value, ids in self.ids.items()}

    def _root(self, i: int) -> int:
        while self.parent[i] != i:
            self.parent[i] = self.parent[self.parent[i]]
            i = self.parent[i]
        return i

    def _tie(self, a: Slots, b: Slots) -> None:
        for i, j in zip(a.tolist(), b.tolist(), strict=True):
            self.parent[self._root(i)] = self._root(j)

    def _pin(self, values: Iterable[SSAValue]) -> None:
        for value in values:
            if value in self.ids:
                self.pinned[self.ids[value]] = True

    def _limit(self, value: SSAValue, function: graph.FunctionAttr | None) -> None:
        """
        Limit the factors of the channels of `value` because of the activation `function`. A
        homogeneous function, such as ReLU, sets no limit. A clip from 0 to a bound permits factors
        with which the observed magnitudes remain below the bound. Another function permits only the
        factor 1.
        """
        if function is None or function.is_homogeneous:
            return
        if function.clip_range is not None and function.clip_range[0] == 0.0:
            ids = self.ids[value]
            self.cap[ids] = np.minimum(self.cap[ids], function.clip_range[1])
            return
        self._pin([value])

    def _constrain(self, op: Operation) -> None:
        known = all(v in self.ids for v in op.results)
        if not isinstance(op, GraphOperation) or not known:
            self._pin((*op.operands, *op.results))
            return
        result = op.results[0]
        match op:
            case graph.LinearOperation() if absorbs(op):
                if op.residual is not None:
                    self._tie_operands(op, [op.residual])
                self._limit(result, op.activation)
            case graph.UnaryOp() if separates(op):
                pass
            case graph.UnaryOp() if is_table(op):
                self._tie_operands(op, [op.input])
            case graph.UnaryOp():
                self._tie_operands(op, [op.input])
                self._limit(result, op.function)
            case graph.BinaryOp() if is_channel_scale(op):
                pass
            case graph.BinaryOp() if op.function in ADDITIONS:
                added = channel_addend(op)
                self._tie_operands(op, [v for v in (op.lhs, op.rhs) if v is not added])
                self._limit(result, op.activation)
            case graph.BinaryOp() if _scales_channels(op):
                self._tie_operands(op, [op.lhs if op.lhs in self.ids else op.rhs])
                self._limit(result, op.activation)
            case _ if op.keeps_channels:
                self._tie_operands(op, op.operands)
            case graph.ConcatOp():
                self._concatenate(op)
            case graph.ReshapeOp():
                self._reshape(op)
            case _:
                self._pin((*op.operands, result))

    def _tie_operands(self, op: GraphOperation, operands: Iterable[SSAValue]) -> None:
        """
        Put each channel of the operands into the slot of the same channel of the result. If the
        numbers of channels differ, all of them must have the factor 1.
        """
        result = op.results[0]
        for value in operands:
            if value in self.ids and len(self.ids[value]) == len(self.ids[result]):
                self._tie(self.ids[value], self.ids[result])
            else:
                self._pin([value, result])

    def _concatenate(self, op: graph.ConcatOp) -> None:
        result = self.ids[op.result]
        if op.axis.value.data != len(graph.shape_of(op.result)) - 1:
            self._tie_operands(op, op.operands)
            return
        start = 0
        for value in op.operands:
            extent = graph.shape_of(value)[-1]
            part = result[start : start + extent]
            start += extent
            if value in self.ids:
                self._tie(self.ids[value], part)
            else:
                self.pinned[part] = True

    def _reshape(self, op: graph.ReshapeOp) -> None:
        source = self.ids.get(op.input)
        target = self.ids[op.result]
        # If complete last axes are merged, the channels repeat; otherwise channels are split.
        if source is None or len(target) % len(source) or not _merges(op):
            self._pin([op.input, op.result])
        else:
            self._tie(target, np.tile(source, len(target) // len(source)))


def _merges(op: graph.ReshapeOp) -> bool:
    """
    Return whether the last axis of a reshape result consists of complete last axes of the operand:
    [4, 2, 3] -> [4, 6], so that the channels repeat.
    """
    source, target = graph.shape_of(op.input), graph.shape_of(op.result)
    if not source or not target:
        return False
    product, i = 1, len(source)
    while i and product < target[-1]:
        i -= 1
        product *= source[i]
    return product == target[-1]
