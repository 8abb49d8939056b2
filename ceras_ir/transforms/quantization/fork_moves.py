"""Move inputs once for floats and once for integers."""

from collections.abc import Container
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.network.precision import keep_in_float
from ceras_ir.network.quantizable import is_alias, quantized_operations
from ceras_ir.network.states import states_of
from ceras_ir.transforms.float_network_pass import FloatNetworkPass

REASON = "moves for floats what comes in floats; integers have a copy of their own"


@dataclass(frozen=True)
class ForkMovesPass(FloatNetworkPass):
    """
    Copy what only moves elements of an input, where integers and floats both read it. The copy gets
    `graph.precision = "f32"` and stands before its first reader.

    A network that removes noise adds to its input what it computes: read behind the transposition
    to channels last that a convolution needs, the input would come back in 256 steps. States stay
    as they are stored. Changes no value.
    """

    name = "fork-moves"

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
        keep_in_float(copy, REASON)
        Rewriter.insert_op(copy, InsertPoint.before(reader))
        copies[value] = copy.results[0]
    return copies[value]
