"""Keep moves in float where floats come in, and no integers need to."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.precision import keep_in_float
from ceras_ir.network.quantizable import (
    is_alias,
    joins,
    quantized_operations,
    uses_behind_moves,
)
from ceras_ir.network.states import State, states_of
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.scale_classes import source_of

PART = "takes a part of a float value: only that is rounded"
PARTS = "takes one of the parts of an input, which have a scale each"
CALLER = "hands an input back to the caller as it came"


@dataclass(frozen=True)
class KeepMovesInFloatPass(FloatNetworkPass):
    """
    Keep in float three kinds of operations that only move elements, which get
    `graph.precision = "f32"`:

    1. what takes a part of a value that floats compute and no other integers read, such as the
       last step of a recurrent layer, or rows by indices. Only the part is rounded, in steps of
       its own.
    2. what takes the parts of an input, if all that integers read of it are several parts, no
       larger together than the input, and nothing joins them again. The states of two layers in
       one array, or features of two kinds, have a scale each then.
    3. what joins inputs with other values for the caller, such as a cache of keys and values that
       comes back longer, or of which computed indices take rows, if half of the elements or more
       are the inputs'. These come back as they came; readers in integers round them as they would
       have rounded the inputs.

    None takes more time. States of the network stay as they are stored. Changes no value.
    """

    name = "keep-moves-in-float"

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
