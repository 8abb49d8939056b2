"""Rules of `keep-in-float`: data movement, pixels and cell states."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Cell
from ceras_ir.network.function import State, states_of
from ceras_ir.network.quantizable import (
    is_alias,
    joins,
    quantized_operations,
    uses_behind_moves,
)
from ceras_ir.network.storage import keep_in_float
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.byte_functions import byte_values
from ceras_ir.transforms.quantization.analysis.scale_classes import source_of

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
            readers = [use.operation for use in uses_behind_moves(value, joined=False)]
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
            joined = joins(move) and _hands_back(move, states)
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
    return any(joins(use.operation) for use in uses_behind_moves(value, joined=False))


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
    uses = uses_behind_moves(op.results[0], joined=False)
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
            if isinstance(layer, graph.RecurrenceOp) and layer.type_of_cell is Cell.LSTM:
                for use in layer.result.uses:
                    if isinstance(use.operation, graph.SliceOp):
                        keep_in_float(use.operation, CELL_STATE)
