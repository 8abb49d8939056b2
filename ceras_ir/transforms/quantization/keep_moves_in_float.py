"""
Rules of `keep-in-float`: fill values, masks of attention and infinities; data movement, pixels and
cell states.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Cell
from ceras_ir.network.function import (
    State,
    is_alias,
    is_join,
    keeps_scale,
    quantized_operations,
    states_of,
    uses_after_moves,
)
from ceras_ir.network.storage import keep_in_float
from ceras_ir.transforms.pass_kinds import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.scale_classes import source_of
from ceras_ir.transforms.quantization.residuals import split_residual
from ceras_ir.transforms.quantization.tabulate_pixels import byte_values

# Rules of `keep-in-float`: fill values, masks of attention, and infinities.

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
    uses = list(uses_after_moves(value, joined=True))
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


# Rules of `keep-in-float`: data movement, pixels and cell states.

TABULATED = "computes one pixel of a uint8 image: a table takes its place"


@dataclass(frozen=True)
class FloatPixelRule(FloatNetworkPass):
    """
    Keep in float the operations between a uint8 input and the first layer: casts, scaling,
    subtraction of means. Only the last value is quantized, in steps that fit it, and
    `tabulate-pixels` then replaces all of them by a table.

    Operations without a layer after them are unchanged. Changes no value.
    """

    name = "pixels"

    def change(self, main: FuncOp) -> None:
        values = byte_values(list(main.body.block.ops))
        kept: set[Operation] = set()
        for value, function in reversed(values.items()):
            readers = [use.operation for use in uses_after_moves(value, joined=False)]
            if any(isinstance(r, graph.LinearOperation | graph.Pool2dOp) for r in readers):
                kept.update(function.steps)
        for step in kept:
            if not isinstance(step, graph.TransposeOp):
                keep_in_float(step, TABULATED)


PART = "takes a part of a float value: only that is rounded"
PARTS = "takes one of the parts of an input, which have a scale each"
CALLER = "hands an input back to the caller as it came"


@dataclass(frozen=True)
class MoveRule(FloatNetworkPass):
    """
    Keep in float three kinds of operations that only move elements:

    1. Operations that select a part of a value that is computed in float and that no other integers
       use, such as the last step of a recurrent layer, or rows by indices. Only the part is
       rounded, in separate steps.
    2. Operations that select the parts of an input, if integers only use several parts, the parts
       are together no larger than the input, and nothing joins them again. The states of two layers
       in an array, or features of two kinds, then have separate scales.
    3. Operations that join inputs with other values for the caller, such as a cache of keys and
       values that is returned longer, or that select rows of the result by computed indices, if
       half of the elements or more belong to inputs. These are returned unchanged. Integer
       consumers round them as they would have rounded the inputs.

    None takes more time. States of the network keep their storage. Changes no value.
    """

    name = "moves"

    def change(self, main: FuncOp) -> None:
        inside = quantized_operations(main)
        states, handed = states_of(main), set[SSAValue]()
        divided = _divided(main, inside)
        for move in inside:
            follows = is_alias(move) and move.operands[0] in handed
            joined = is_join(move) and _hands_back(move, states)
            if (follows or joined) and _is_returned(move, states):
                keep_in_float(move, CALLER)
                handed.update(move.results)
            elif _is_part(move) and _is_computed_in_float(move, inside):
                keep_in_float(move, PART)
            elif _is_part(move) and move.operands[0] in divided:
                keep_in_float(move, PARTS)


def _divided(main: FuncOp, inside: Container[Operation]) -> set[SSAValue]:
    """The inputs of which integers read several parts, each for itself."""
    kept = {state.argument for state in states_of(main)}
    found = set[SSAValue]()
    for value in main.body.block.args:
        parts = [use.operation for use in value.uses if use.operation in inside]
        if len(parts) < 2 or value in kept or not all(_is_part(op) for op in parts):
            continue
        results = [op.results[0] for op in parts]
        if sum(map(_size, results)) <= _size(value) and not any(map(_is_joined, results)):
            found.add(value)
    return found


def _is_joined(value: SSAValue) -> bool:
    """Whether a value is put together with others, which have to have its scale."""
    return any(is_join(use.operation) for use in uses_after_moves(value, joined=False))


def _is_part(op: Operation) -> bool:
    part = isinstance(op, graph.TakeOp) or _size(op.results[0]) < _size(op.operands[0])
    return is_alias(op) and part


def _is_computed_in_float(move: Operation, inside: Container[Operation]) -> bool:
    """Whether floats compute what an operation moves, and no other integers read it."""
    while is_alias(move):
        value = move.operands[0]
        if any(u.operation in inside and u.operation is not move for u in value.uses):
            return False
        if not isinstance(value.owner, Operation):
            return False
        move = value.owner
    return move not in inside and not isinstance(move, graph.ConstantOp)


def _is_returned(op: Operation, states: Sequence[State]) -> bool:
    """Whether the caller gets what an operation makes, or rows that indices take of it."""
    hidden = {state.position for state in states}
    uses = uses_after_moves(op.results[0], joined=False)
    return any(isinstance(use.operation, ReturnOp) and use.index not in hidden for use in uses)


def _hands_back(op: Operation, states: Sequence[State]) -> bool:
    """Whether half of what an operation joins, or more, are floats of the caller's."""
    kept = {state.argument for state in states}
    sources = {value: source_of(value) for value in op.operands}
    given = sum(
        _size(value)
        for value, source in sources.items()
        if isinstance(source, BlockArgument) and source not in kept
    )
    return 2 * given >= _size(op.results[0])


def _size(value: SSAValue) -> int:
    return prod(graph.shape_of(value))


FORKED = "moves for floats what comes in floats; integers have a copy of their own"


@dataclass(frozen=True)
class ForkRule(FloatNetworkPass):
    """
    Copy an operation that only moves elements of an input if integers and floats both use the
    result. The copy remains in float, before its first consumer.

    A network that removes noise adds its result to its input. The input is transposed to channels
    last for a convolution; without the copy it would be returned in 256 steps. States keep their
    storage. Changes no value.
    """

    name = "forks"

    def change(self, main: FuncOp) -> None:
        inside = quantized_operations(main)
        states = states_of(main)
        stored = {state.argument for state in states}
        hidden = {state.position for state in states}
        copies: dict[SSAValue, SSAValue] = {}
        for reader in main.body.block.ops:
            if reader in inside:
                continue
            for index, value in enumerate(reader.operands):
                if isinstance(reader, ReturnOp) and index in hidden:
                    continue
                if _comes_in_floats(value, inside, stored):
                    reader.operands[index] = _copied(value, inside, reader, copies)


def _comes_in_floats(
    value: SSAValue, inside: Container[object], stored: Container[SSAValue]
) -> bool:
    """Whether integers move `value`, and the caller made it."""
    source = value
    while isinstance(move := source.owner, Operation) and move in inside and is_alias(move):
        source = move.operands[0]
    is_moved = source is not value
    return is_moved and isinstance(source, BlockArgument) and source not in stored


def _copied(
    value: SSAValue,
    inside: Container[object],
    reader: Operation,
    copies: dict[SSAValue, SSAValue],
) -> SSAValue:
    """`value` moved in float, from where it comes to in front of `reader`."""
    move = value.owner
    if not isinstance(move, Operation) or move not in inside:
        return value
    if value not in copies:
        moved = _copied(move.operands[0], inside, reader, copies)
        copy = move.clone()
        copy.operands[0] = moved
        keep_in_float(copy, FORKED)
        Rewriter.insert_op(copy, InsertPoint.before(reader))
        copies[value] = copy.results[0]
    return copies[value]


CELL_STATE = "parts the states of a recurrent layer, which is float, from its cell state"


@dataclass(frozen=True)
class CellStateRule(FloatNetworkPass):
    """
    Give the states of an LSTM and the last cell state separate scales. A single result contains
    both, and slices select them; the slices remain in float, so that each part has its range.
    States are within 1, but cell states grow with the steps: a common scale would leave few steps
    for the states.

    Runs before `observe-ranges`. Changes no value.
    """

    name = "cell-states"

    def change(self, main: FuncOp) -> None:
        for layer in main.body.block.ops:
            if isinstance(layer, graph.RecurrenceOp) and layer.cell_kind is Cell.LSTM:
                for use in layer.result.uses:
                    if isinstance(use.operation, graph.SliceOp):
                        keep_in_float(use.operation, CELL_STATE)
