"""Multiply states of recurrent layers by weights of 8 bits."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Cell, Function
from ceras_ir.network.exponents import WEIGHT_LOW, fitting_exponent, least_squares_exponents
from ceras_ir.network.precision import FINER, seen_of_moved, stays_float
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.rebuilding import erase_unused

WITHIN_ONE = frozenset((Function.TANH, Function.SIGMOID, Function.HARD_SIGMOID, Function.SOFTSIGN))
"""Functions whose magnitude is at most 1."""

STATE_EXPONENT = -14
"""Of 16 bits, for a state within 1; twice of that is not clipped."""


@dataclass(frozen=True)
class QuantizeRecurrencePass(FloatNetworkPass):
    """
    Give recurrent layers of a float network weights of 8 bits, with a power of two for each row.
    The state is multiplied as integers of 16 bits, in steps of 2^-14, or, where the caller's first
    state was seen beyond 1, in steps that hold twice of it. Functions of the gates stay float: of a
    layer with 128 units they are less than one multiplication in 100.

    A layer is left alone where

    1. its weights are not constant floats;
    2. its functions do not keep the state within 1, as Relu;
    3. a sum could leave 32 bits; or
    4. it has `graph.precision = "f32"`.

    Not exact: weights and the state are rounded to the nearest.
    """

    name = "quantize-recurrence"

    def change(self, main: FuncOp) -> None:
        for layer in list(main.body.block.ops):
            if isinstance(layer, graph.RecurrenceOp) and not stays_float(layer):
                _quantize(layer)


def _quantize(layer: graph.RecurrenceOp) -> None:
    constant = layer.weights.owner
    if layer.is_integer or not isinstance(constant, graph.ConstantOp):
        return
    # What a state is made of: of an RNN by its one function, of others by gates of the last.
    last = layer.functions.data[-1]
    gates = layer.functions.data[:1] if layer.type_of_cell is not Cell.RNN else ()
    if not all(f.kind in WITHIN_ONE for f in (last, *gates)):
        return
    weights = np.asarray(constant.array(), np.float32)
    chosen = least_squares_exponents(weights)
    steps = np.exp2(chosen.astype(np.float32))[:, None]
    stored = np.clip(np.rint(weights / steps), WEIGHT_LOW, -WEIGHT_LOW).astype(np.int8)
    if layer.largest_sum(stored) >= 1 << 31:
        return
    integers = graph.ConstantOp.from_array(stored, i8, location=constant.location)
    new = graph.RecurrenceOp(
        layer.type_of_cell,
        layer.input,
        integers.result,
        layer.state,
        layer.functions.data,
        cell=layer.cell,
        bias=layer.bias,
        exponents=(_state_exponent(layer), chosen.tolist()),
    )
    new.attributes |= layer.attributes
    new.location = layer.location
    Rewriter.insert_op((integers, new), InsertPoint.before(layer))
    Rewriter.replace_op(layer, (), [new.result])
    erase_unused(constant)


def _state_exponent(layer: graph.RecurrenceOp) -> int:
    """Steps make states within 1; the first one comes from elsewhere."""
    first = graph.constant_array(layer.state)
    seen = seen_of_moved(layer.state) if first is None else (first.min(), first.max())
    largest = 0.0 if seen is None else float(max(-seen[0], seen[1]))
    return STATE_EXPONENT if largest <= 1 else fitting_exponent(largest) - FINER
