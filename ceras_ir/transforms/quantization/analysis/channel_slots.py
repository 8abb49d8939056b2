"""
Which channels of a float network may be rescaled together without changing what it computes.

Every channel (index of the last dimension) of every value belongs to a slot. Channels of one
slot must be multiplied by one factor; a slot that is pinned keeps factor 1. Convolutions and
matrix products with constant weights separate their operand's slots from their result's,
because their weights absorb any factor, and so do functions that become tables and float
multiplications of channels by constants; what commutes with positive factors ties slots. Constants
that are added to channels take the factors of the sum.
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
from ceras_ir.network.quantizable import keeps_scale
from ceras_ir.network.storage import network_values, stays_float
from ceras_ir.transforms.quantization.analysis.function_forms import is_table, separates

Slots = NDArray[np.int64]

ADDITIONS = graph.Binary.ADD, graph.Binary.SUB


def absorbs(op: Operation) -> bool:
    """Whether the weights and bias of `op` can take factors of its operand and result."""
    return (
        isinstance(op, graph.LinearOperation)
        and not op.is_quantized
        and not isinstance(op.input.owner, graph.ConstantOp)
        and isinstance(op.weights.owner, graph.ConstantOp)
        and (op.bias is None or isinstance(op.bias.owner, graph.ConstantOp))
    )


def is_channel_scale(op: Operation) -> TypeGuard[graph.BinaryOp]:
    """Whether `op` multiplies each channel by a constant of its own, in float."""
    if not isinstance(op, graph.BinaryOp) or op.function is not graph.Binary.MUL:
        return False
    if not _is_real(op.lhs) or op.activation is not None or not stays_float(op):
        return False
    shape, factors = graph.shape_of(op.result), graph.constant_array(op.rhs)
    return factors is not None and graph.shape_of(op.lhs) == shape and factors.shape == shape[-1:]


def channel_addend(op: Operation) -> SSAValue | None:
    """The constant that `op` adds or subtracts, if it has a number for each channel."""
    if not isinstance(op, graph.BinaryOp) or op.function not in ADDITIONS:
        return None
    channels = graph.shape_of(op.result)[-1:]
    for value, other in ((op.rhs, op.lhs), (op.lhs, op.rhs)):
        is_known = _is_float(value) and isinstance(value.owner, graph.ConstantOp)
        if channels and is_known and graph.shape_of(value)[-1:] == channels and _is_real(other):
            return value
    return None


def _scales_channels(op: graph.BinaryOp) -> bool:
    """Whether `op` multiplies by constants, as the slopes of a PRelu: factors pass."""
    constants = [isinstance(value.owner, graph.ConstantOp) for value in op.operands]
    return op.function is graph.Binary.MUL and any(constants) and not all(constants)


def _is_float(value: SSAValue) -> bool:
    return is_tensor(value.type) and isinstance(value.type.element_type, Float32Type)


def _is_real(value: SSAValue) -> bool:
    """Whether a value is computed, in float."""
    return _is_float(value) and not isinstance(value.owner, graph.ConstantOp)


def layers_behind(main: FuncOp, value: SSAValue) -> list[graph.LinearOperation]:
    """The layers that read a float value, moved at most; none if anything else does."""
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
    """The slots of a network; `cap` is the upper bound of a clip that a slot goes through."""

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

    def _function(self, value: SSAValue, function: graph.FunctionAttr | None) -> None:
        """What an activation lets pass: nothing above a bound, or no factor at all."""
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
                    self._same(op, [op.residual])
                self._function(result, op.activation)
            case graph.UnaryOp() if separates(op):
                pass
            case graph.UnaryOp() if is_table(op):
                self._same(op, [op.input])
            case graph.UnaryOp():
                self._same(op, [op.input])
                self._function(result, op.function)
            case graph.BinaryOp() if is_channel_scale(op):
                pass
            case graph.BinaryOp() if op.function in ADDITIONS:
                added = channel_addend(op)
                self._same(op, [v for v in (op.lhs, op.rhs) if v is not added])
                self._function(result, op.activation)
            case graph.BinaryOp() if _scales_channels(op):
                self._same(op, [op.lhs if op.lhs in self.ids else op.rhs])
                self._function(result, op.activation)
            case _ if op.keeps_channels:
                self._same(op, op.operands)
            case graph.ConcatOp():
                self._concatenate(op)
            case graph.ReshapeOp():
                self._reshape(op)
            case _:
                self._pin((*op.operands, result))

    def _same(self, op: GraphOperation, operands: Iterable[SSAValue]) -> None:
        """Operands of the result's shape share its slots; with others nothing can move."""
        result = op.results[0]
        for value in operands:
            if value in self.ids and len(self.ids[value]) == len(self.ids[result]):
                self._tie(self.ids[value], self.ids[result])
            else:
                self._pin([value, result])

    def _concatenate(self, op: graph.ConcatOp) -> None:
        result = self.ids[op.result]
        if op.axis.value.data != len(graph.shape_of(op.result)) - 1:
            self._same(op, op.operands)
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
        # Where last dimensions are merged, channels repeat; elsewhere they are torn apart.
        if source is None or len(target) % len(source) or not _merges(op):
            self._pin([op.input, op.result])
        else:
            self._tie(target, np.tile(source, len(target) // len(source)))


def _merges(op: graph.ReshapeOp) -> bool:
    """Whether the last dimension of the result is made of whole last dimensions."""
    source, target = graph.shape_of(op.input), graph.shape_of(op.result)
    if not source or not target:
        return False
    product, i = 1, len(source)
    while i and product < target[-1]:
        i -= 1
        product *= source[i]
    return product == target[-1]
