"""Rules of `keep-in-float`: fill values, masks of attention, and infinities."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue, Use

from ceras_ir.dialects import graph
from ceras_ir.network.quantizable import keeps_scale, uses_behind_moves
from ceras_ir.network.storage import keep_in_float
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.rewrites.residuals import split_residual

FILL = 1e4
"""Magnitude from which a constant is taken to stand for no number: the least that exporters use."""

FILLED = "may have a number as large as no other, beside which int8 has no steps"


@dataclass(frozen=True)
class FillRule(FloatNetworkPass):
    """
    Keep in float the operations that place values next to a fill, and the operations that use their
    results.

    A fill is a constant with an element of magnitude 10,000 or more into which rows are scattered,
    or that a selection or a concatenation joins with other values: -1e9 if a maximum over the
    points of a cell has no point. Sums, maxima, minima, magnitudes and data movement also propagate
    it. A consumer such as a ReLU bounds it. Changes no value.
    """

    name = "fills"

    def change(self, main: FuncOp) -> None:
        filled: set[SSAValue] = set()
        for op in main.body.block.ops:
            if not op.results or isinstance(op, graph.LinearOperation | graph.ConstantOp):
                continue
            reads = not filled.isdisjoint(op.operands)
            if makes := _makes_fill(op, reads=reads):
                filled.update(op.results)
            if reads or makes:
                keep_in_float(op, FILLED)


def _makes_fill(op: Operation, *, reads: bool) -> bool:
    """Whether a result may have a fill, as an operand has if it `reads` one."""
    if graph.element_of(op.results[0]) != f32:
        return False
    match op:
        case graph.PutOp() | graph.SelectOp() | graph.ConcatOp():
            return reads or any(map(_is_fill, op.operands))
        case graph.BinaryOp(function=graph.Binary.ADD | graph.Binary.MAX | graph.Binary.MIN):
            return reads
        case graph.UnaryOp(function=graph.FunctionAttr(kind=graph.Function.LEAKY_RELU)):
            return reads  # Of slope -1 a magnitude.
        case _:
            return reads and keeps_scale(op)


def _is_fill(value: SSAValue) -> bool:
    op = value.owner
    if not isinstance(op, graph.ConstantOp) or graph.element_of(value) != f32:
        return False
    return bool((np.abs(op.array()) >= FILL).any())


HIDING = 64.0
"""Magnitude from which a number among scores hides some of them: exp(-64) is nothing beside 1."""

MASKED = "masks scores: beside a mask int8 has no steps for them"
INFINITE = "has or reads infinities, which integers have not"


@dataclass(frozen=True)
class MaskRule(FloatNetworkPass):
    """
    Keep in float the operations from a mask to the softmax of an attention, and the softmax. In
    int8 the mask and the scores would share a scale, without steps for the scores. A mask is

    1. a constant that has an element of magnitude 64 or more, infinities included, and reaches the
       softmax only by elementwise operations, selections, scatters and data movement; or
    2. an input of the network that is only added to operands of softmaxes.

    Integers have no infinities. If a mask or a padding value has infinities, each operation that
    uses them also remains in float: the exponential of a segment of sums, a maximum, a comparison.

    A mask that `fuse-epilogues` made the residual of a product is added by a separate operation
    again, which is exact. Changes no value.
    """

    name = "masks"

    def change(self, main: FuncOp) -> None:
        ops = list(main.body.block.ops)
        inputs = [value for value in main.body.block.args if _is_mask(value)]
        hidden = _hidden(ops, inputs, lambda array: np.abs(array) >= HIDING)
        infinite = _hidden(ops, [], np.isinf)
        for inner in ops:
            # Products are of numbers alone.
            reads = not isinstance(inner, graph.LinearOperation) and bool(inner.results)
            pads = isinstance(inner, graph.PadOp) and inner.result in infinite
            if pads or (reads and not infinite.isdisjoint(inner.operands)):
                keep_in_float(inner, INFINITE)
        leading: set[SSAValue] = set()
        for inner in reversed(ops):
            if isinstance(inner, graph.SoftmaxOp) and inner.input in hidden:
                keep_in_float(inner, MASKED)
            elif not hidden.intersection(inner.results) & leading:
                continue
            elif isinstance(inner, graph.LinearOperation):
                assert inner.residual is not None
                leading.add(inner.residual)
                keep_in_float(split_residual(inner, inner.residual)[1], MASKED)
                continue
            elif not isinstance(inner, graph.ConstantOp):
                keep_in_float(inner, MASKED)
            leading.update(hidden.intersection(inner.operands))


def _hidden(
    ops: Sequence[Operation],
    inputs: Sequence[SSAValue],
    hides: Callable[[NDArray[np.generic]], NDArray[np.bool_]],
) -> set[SSAValue]:
    """Masks, those among the `inputs` too, and all values that they reach element by element."""
    found = set(inputs)
    for op in ops:
        match op:
            case graph.ConstantOp():
                masks = graph.element_of(op.result) == f32 and bool(hides(op.array()).any())
            case graph.PadOp(value=FloatAttr(value=fill)) if hides(np.array(fill.data)).any():
                masks = True
            case graph.LinearOperation():
                masks = op.residual in found
            case graph.BinaryOp() | graph.SelectOp() | graph.PutOp():
                masks = not found.isdisjoint(op.operands)
            case _:
                masks = keeps_scale(op) and not found.isdisjoint(op.operands)
        if masks:
            found.update(op.results)
    return found


def _is_mask(value: SSAValue, *, added: bool = False) -> bool:
    """Whether an input, or a sum that it was added to, is for softmaxes alone."""
    uses = list(uses_behind_moves(value, joined=True))
    return bool(uses) and all(_hides(use, added=added) for use in uses)


def _hides(use: Use, *, added: bool) -> bool:
    op = use.operation
    match op:
        case graph.SoftmaxOp():
            return added
        case graph.LinearOperation():
            is_sum = op.operands[use.index] is op.residual and op.activation is None
            return is_sum and _is_mask(op.result, added=True)
        case graph.BinaryOp():
            is_sum = op.function is graph.Binary.ADD and op.activation is None
            return (added or is_sum) and _is_mask(op.result, added=True)
        case graph.SelectOp():
            return _is_mask(op.result, added=added)
        case _:
            return False
