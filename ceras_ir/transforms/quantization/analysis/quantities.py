"""
Which elements of an output are one quantity, whose errors can be added.

1. Parts that a concatenation joins, moved at most, are different quantities: boxes and scores.
2. The channels of a layer, with constants added and multiplied per channel at most, are different
   quantities if the standard deviations differ by more than `APART`: temperature and pressure.
3. All other elements of a value are one quantity: logits, pixels, the results of an activation
   function or of a softmax. Channels of these may be almost constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import module_of, output_names, result_values
from ceras_ir.network.quantizable import data_operands, keeps_scale

APART = 16.0
"""Ratio of the standard deviations of two channels from which they are different quantities."""

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Quantities:
    """The candidates for quantities of one value."""

    labels: Labels
    """The candidate of each element, in row-major order."""
    families: Labels
    """The value that each candidate is a channel of, or the candidate itself."""

    def groups(self, variance: NDArray[np.float64]) -> Labels:
        """Return the quantity of each element: families are split if channels lie far apart."""
        count = len(self.families)
        sizes = np.maximum(np.bincount(self.labels, minlength=count), 1)
        means = np.bincount(self.labels, variance, count) / sizes
        most, least = np.zeros(count), np.full(count, np.inf)
        varying = means > 0
        np.maximum.at(most, self.families[varying], means[varying])
        np.minimum.at(least, self.families[varying], means[varying])
        apart = (most > APART**2 * least)[self.families]
        return np.where(apart, np.arange(count), self.families)[self.labels]


def quantities_of_outputs(main: FuncOp) -> Mapping[str, Quantities]:
    """Return the quantities of the outputs that may have several, by name."""
    named = zip(output_names(main), result_values(main), strict=True)
    found = {name: quantities_of(main, value) for name, value in named}
    return {name: each for name, each in found.items() if each is not None}


def quantities_of(main: FuncOp, value: SSAValue) -> Quantities | None:
    """Return the quantities of a value; None if it is certainly a single quantity."""
    walk = _Walk(main)
    labels = walk.labels(value).reshape(-1).astype(np.int64)
    if len(np.unique(labels[labels > 0])) < 2:
        return None
    return Quantities(labels, np.array(walk.families))


class _Walk:
    """Labels values from their origins, through moves; label 0 is a constant or padding."""

    def __init__(self, main: FuncOp) -> None:
        self.interpreter = interpreter_of(module_of(main))
        self.families = [0]
        self.known: dict[SSAValue, NDArray[np.float64]] = {}

    def labels(self, value: SSAValue) -> NDArray[np.float64]:
        """Return the label of each element, in the shape of the value."""
        if value not in self.known:
            self.known[value] = self._labels(value)
        return self.known[value]

    def _labels(self, value: SSAValue) -> NDArray[np.float64]:
        op, shape = value.owner, graph.shape_of(value)
        match op:
            case graph.ConstantOp():
                return np.zeros(shape)
            case graph.QuantizeOp() | graph.DequantizeOp():
                return self.labels(op.operands[0])
            case Operation() if self._moves(op):
                return self._moved(op)
            case _:
                return self._origin(value, shape)

    def _moves(self, op: Operation) -> bool:
        if isinstance(op, graph.Pool2dOp | graph.ReduceOp | graph.ResizeOp):
            return False
        others = [v for v in op.operands if v not in data_operands(op)]
        is_float = all(graph.element_of(v) == f32 for v in (*data_operands(op), *op.results))
        constant = all(isinstance(v.owner, graph.ConstantOp) for v in others)
        return keeps_scale(op) and is_float and constant

    def _moved(self, op: Operation) -> NDArray[np.float64]:
        moved = data_operands(op)
        operands = tuple(
            self.labels(v) if v in moved else graph.known_array(v) for v in op.operands
        )
        return np.asarray(self.interpreter.run_op(op, operands)[0], np.float64)

    def _origin(self, value: SSAValue, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Number a value that is computed: each channel if the channels may differ."""
        first = len(self.families)
        axis = _channel_axis(value, shape)
        if axis is None:
            self.families.append(first)
            return np.full(shape, float(first))
        count = shape[axis]
        self.families += [first] * count
        along = [count if i == axis else 1 for i in range(len(shape))]
        return np.broadcast_to(np.arange(first, first + count, dtype=float).reshape(along), shape)


def _channel_axis(value: SSAValue, shape: tuple[int, ...]) -> int | None:
    """Return the axis of channels that may be different quantities; None if they are one."""
    layer = value.owner
    extents = [extent for extent in shape if extent > 1]
    if not extents or not _is_affine(layer):
        return None
    if isinstance(layer, graph.LinearOperation):
        return len(shape) - 1
    return shape.index(min(extents))


def _is_affine(op: object) -> bool:
    """Whether an operation is a layer without a function, or adds or multiplies constants to it."""
    if isinstance(op, graph.LinearOperation):
        return op.activation is None
    if not isinstance(op, graph.BinaryOp) or op.activation is not None:
        return False
    computed = [v for v in op.operands if not isinstance(v.owner, graph.ConstantOp)]
    return len(computed) == 1 and (_scales_apart(op) or _is_affine(_origin_of(computed[0])))


def _origin_of(value: SSAValue) -> object:
    owner = value.owner
    while isinstance(owner, Operation) and keeps_scale(owner) and len(data_operands(owner)) == 1:
        if isinstance(owner, graph.Pool2dOp | graph.ReduceOp):
            break
        owner = data_operands(owner)[0].owner
    return owner


def _scales_apart(op: graph.BinaryOp) -> bool:
    """Whether an operation multiplies by constants that differ by more than `APART`."""
    if op.function not in (graph.Binary.MUL, graph.Binary.DIV):
        return False
    constants = [graph.known_array(v) for v in op.operands if isinstance(v.owner, graph.ConstantOp)]
    sizes = np.abs(constants[0][constants[0] != 0])
    return bool(sizes.size) and float(sizes.max()) > APART * float(sizes.min())
