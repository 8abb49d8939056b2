"""Float multiplications that give channels of values factors of their own."""

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import LocationAttr, UnknownLoc, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.function import states_of
from ceras_ir.network.quantizable import behind_layers
from ceras_ir.network.storage import NARROW, keep_in_float, stays_float, width
from ceras_ir.transforms.quantization.analysis.channel_slots import (
    is_channel_scale,
    layers_behind,
)
from ceras_ir.transforms.rebuilding import erase_unused, replace_constant

REASON = "brings channels near each other before they share the steps of int8"


def insert_channel_scales(main: FuncOp, *, inputs: bool) -> None:
    """
    Multiply by ones what floats make of sums of products, such as a spectrum, and only layers of
    integers read; with `inputs` also what callers hand over as floats, or floats make of that.
    """
    behind = behind_layers(main)
    kept = {state.argument for state in states_of(main)}
    made = [op.results[0] for op in main.body.block.ops if _makes_floats(op)]
    for value in (*main.body.block.args, *made):
        if value in kept or width(value) != NARROW or not (inputs or value in behind):
            continue
        if _reaches_integers(main, value):
            multiply_by_ones(value)


def _makes_floats(op: Operation) -> bool:
    """Whether floats leave `op`, and no multiplication by channels is there yet."""
    return isinstance(op, graph.GraphOperation) and stays_float(op) and not is_channel_scale(op)


def _reaches_integers(main: FuncOp, value: SSAValue) -> bool:
    layers = layers_behind(main, value)
    return bool(layers) and not any(map(stays_float, layers))


def multiply_by_ones(value: SSAValue) -> graph.BinaryOp:
    """Have all read a value times ones, one for each channel, in float."""
    ones = np.ones(graph.shape_of(value)[-1:], np.float32)
    location = value.owner.location if isinstance(value.owner, Operation) else UnknownLoc()
    return multiply(value, ones, REASON, location)


def multiply(
    value: SSAValue, factors: NDArray[np.float32], reason: str, location: LocationAttr
) -> graph.BinaryOp:
    """Have all read a value times constants, in float."""
    constant = graph.ConstantOp.from_array(factors, location=location)
    scaled = graph.BinaryOp(graph.Binary.MUL, value, constant.result, result_element=f32)
    scaled.location = location
    keep_in_float(scaled, reason)
    value.replace_uses_with_if(scaled.result, lambda use: use.operation is not scaled)
    owner = value.owner
    is_made = isinstance(owner, Operation)
    point = InsertPoint.after(owner) if is_made else InsertPoint.at_start(owner)
    Rewriter.insert_op((constant, scaled), point)
    return scaled


def settle_channel_scales(main: FuncOp) -> None:
    """
    Remove multiplications by ones that nothing was made of, and let those that multiply by a
    constant before them take in the others.
    """
    for op in list(main.body.block.ops):
        if not is_channel_scale(op):
            continue
        factors = graph.known_array(op.rhs).astype(np.float32)
        if (factors == 1).all():
            _bypass(op, op.lhs)
        elif (before := _multiplication_before(op)) is not None:
            # The factors are powers of two: nothing is rounded.
            constant = graph.known_array(before.rhs).astype(np.float32)
            replace_constant(before, before.rhs, constant * factors)
            _bypass(op, op.lhs)


def _multiplication_before(op: graph.BinaryOp) -> graph.BinaryOp | None:
    """The float multiplication by a constant whose result only `op` reads."""
    before = op.lhs.owner
    if not isinstance(before, graph.BinaryOp) or before.function is not graph.Binary.MUL:
        return None
    if not stays_float(before) or before.activation is not None or not op.lhs.has_one_use():
        return None
    constant = graph.constant_array(before.rhs)
    is_plain = constant is not None and constant.shape in ((), (1,), graph.shape_of(op.rhs))
    return before if is_plain and graph.shape_of(before.lhs) == graph.shape_of(op.lhs) else None


def _bypass(op: graph.BinaryOp, value: SSAValue) -> None:
    factors = op.rhs.owner
    op.result.replace_all_uses_with(value)
    Rewriter.erase_op(op)
    if isinstance(factors, Operation):
        erase_unused(factors)
