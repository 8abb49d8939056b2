"""
Factors of channels in a float network, so that one scale for each tensor serves all channels.

The pass `equalize-channels` gives every channel its own power of two, at no cost at run time. The
pass `level-rows` gives the rows of a last layer's weights one scale. Both can insert float
multiplications that give channels of values factors of their own.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import LocationAttr, UnitAttr, UnknownLoc, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.function import (
    module_of,
    quantized_operations,
    states_of,
    values_after_layers,
)
from ceras_ir.network.integer import row_exponents_within
from ceras_ir.network.storage import (
    EQUALIZED,
    NARROW,
    ROW_EXPONENTS,
    WEIGHT_EXPONENT,
    drop_value_statistics,
    is_kept_in_float,
    keep_in_float,
    width,
)
from ceras_ir.targets.protocol import ROW_SPREAD
from ceras_ir.transforms.pass_kinds import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.calibration import CalibratedPass
from ceras_ir.transforms.quantization.analysis.channel_factors import ChannelFactors, Vector
from ceras_ir.transforms.quantization.analysis.function_forms import is_table
from ceras_ir.transforms.quantization.analysis.scale_classes import (
    ChannelSlots,
    absorbs,
    channel_addend,
    is_channel_scale,
    layers_behind,
)
from ceras_ir.transforms.quantization.residuals import ResidualSpreadPass
from ceras_ir.transforms.rebuilding import erase_unused, replace_constant, spread_columns

REASON = "brings channels near each other before they share the steps of int8"


def insert_channel_scales(main: FuncOp, *, inputs: bool) -> None:
    """
    Multiply by ones what floats make of sums of products, such as a spectrum, and only layers of
    integers read; with `inputs` also what callers hand over as floats, or floats make of that.
    """
    behind = values_after_layers(main)
    kept = {state.argument for state in states_of(main)}
    made = [op.results[0] for op in main.body.block.ops if _makes_floats(op)]
    for value in (*main.body.block.args, *made):
        if value in kept or width(value) != NARROW or not (inputs or value in behind):
            continue
        if _reaches_integers(main, value):
            multiply_by_ones(value)


def _makes_floats(op: Operation) -> bool:
    """Whether floats leave `op`, and no multiplication by channels is there yet."""
    return (
        isinstance(op, graph.GraphOperation) and is_kept_in_float(op) and not is_channel_scale(op)
    )


def _reaches_integers(main: FuncOp, value: SSAValue) -> bool:
    layers = layers_behind(main, value)
    return bool(layers) and not any(map(is_kept_in_float, layers))


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
    if not is_kept_in_float(before) or before.activation is not None or not op.lhs.has_one_use():
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


# Give every channel its own power of two, at no cost at run time.

EXPONENTS = "input_exponents", "result_exponents"
"""Of `graph.unary`."""


@dataclass(frozen=True)
class EqualizeChannelsPass(CalibratedPass):
    """
    Multiply channels by powers of two between layers, so that one scale per tensor serves large and
    small channels alike. The rows of one layer's weights, its bias and constants that are added to
    channels are divided; the columns of the next layer's weights are multiplied.

    Without data nothing is done. A channel that is raised keeps one bit of headroom, and as many
    bits more as two halves of the samples disagree on its range, or on those of all channels of its
    value (twice the root mean square); one that only a half has seen, or none, is not raised. With
    `rows` none is raised further than until its sums of products are exact in half a step.
    Recorded ranges of values that change are dropped. Functions other than relu and clip get
    `input_exponents` and `result_exponents`, which their tables take in. What callers hand over, or
    floats make, and only layers of integers read is multiplied in float: features in units of their
    own, a spectrum. Channels of inputs are raised by three octaves or more.

    Exact, because powers of two are, and relu, pooling, addition and moves commute with positive
    factors. A clip from 0 to a bound keeps its place: its channels are raised only so far that
    twice the largest value seen stays below the bound. Larger values are clipped earlier, as int8
    would clip them.

    `graph.equalized` on the function says that channels have changed.
    """

    name = "equalize-channels"

    rows: bool = False
    """Every row of weights will have its own scale, so activations alone decide."""
    inputs: bool = True
    """Multiply inputs too. They come in one scale where callers hand over integers."""

    def improve(self, main: FuncOp) -> None:
        from ceras_ir.transforms.quantization.analysis.calibration import channel_statistics

        insert_channel_scales(main, inputs=self.inputs)
        slots = ChannelSlots(main)
        data = self.data(main)
        statistics = channel_statistics(module_of(main), data, slots.ids, powers=not self.rows)
        factors = ChannelFactors(main, slots, statistics)
        exponents = factors.choose(rows=self.rows)
        if exponents.any():
            main.attributes[EQUALIZED] = UnitAttr()
        _apply(factors, exponents)
        settle_channel_scales(main)


def _apply(factors: ChannelFactors, exponents: Vector) -> None:
    slots = factors.slots
    for op in factors.layers:
        columns = spread_columns(op, exponents[slots[op.input]])
        rows = exponents[slots[op.result]]
        if not columns.any() and not rows.any():
            continue
        old = graph.known_array(op.weights)
        across = rows.reshape(-1, *[1] * (old.ndim - 1))
        scaled = old * np.exp2(columns - across)
        replace_constant(op, op.weights, scaled.astype(np.float32))
        for name in (WEIGHT_EXPONENT, ROW_EXPONENTS):
            op.attributes.pop(name, None)
        if op.bias is not None:
            bias = graph.known_array(op.bias)
            replace_constant(op, op.bias, (bias * np.exp2(-rows)).astype(np.float32))
    for op in list(factors.main.body.block.ops):
        if is_channel_scale(op):
            across = exponents[slots[op.lhs]] - exponents[slots[op.result]]
            old = graph.known_array(op.rhs)
            replace_constant(op, op.rhs, (old * np.exp2(across)).astype(np.float32))
        elif (added := channel_addend(op)) is not None:
            across = exponents[slots[op.results[0]]]
            if across.any():
                scaled = graph.known_array(added) * np.exp2(-across)
                replace_constant(op, added, scaled.astype(np.float32))
        elif isinstance(op, graph.UnaryOp) and is_table(op):
            old = op.channel_exponents or ((0,), (0,))
            pair = [
                exponents[slots[v]] + e for v, e in zip((op.input, op.result), old, strict=True)
            ]
            if any(side.any() for side in pair):
                for name, side in zip(EXPONENTS, pair, strict=True):
                    op.properties[name] = graph.integers([int(e) for e in side])
    for value, ids in slots.ids.items():
        if exponents[ids].any():
            drop_value_statistics(value)


# Give the rows of a last layer's weights one scale.


@dataclass(frozen=True)
class LevelRowsPass(FloatNetworkPass, ResidualSpreadPass):
    """
    Multiply the rows of a layer's weights, and its bias, by powers of two that bring all rows to
    one scale, and divide its channels by them in float. This is done where only floats read the
    layer, and its rows are more than `residual_spread` octaves apart.

    An accelerator that shifts a residual by as many bits in every channel can then make 16 bits of
    such a layer, see `split-wide{results}`. Runs before ranges are observed.

    Exact, because powers of two are.
    """

    name = "level-rows"

    def change(self, main: FuncOp) -> None:
        inside = quantized_operations(main)
        # What the next call reads goes there as integers.
        kept = {state.result for state in states_of(main)}
        for layer in inside:
            if not isinstance(layer, graph.LinearOperation) or not absorbs(layer):
                continue
            if layer.residual is not None or layer.activation is not None or layer.output in kept:
                continue
            read = any(use.operation in inside for use in layer.output.uses)
            if not read and _level(layer, self.residual_spread):
                main.attributes[EQUALIZED] = UnitAttr()


def _level(op: graph.LinearOperation, spread: int) -> bool:
    weights = graph.known_array(op.weights).astype(np.float32)
    exponents = row_exponents_within(weights, ROW_SPREAD)
    if exponents is None or max(exponents) - min(exponents) <= spread:
        return False
    factors = np.exp2(max(exponents) - np.array(exponents)).astype(np.float32)
    scaled = multiply_by_ones(op.output)
    replace_constant(scaled, scaled.rhs, (1 / factors).astype(np.float32))
    replace_constant(op, op.weights, weights * factors.reshape(-1, *[1] * (weights.ndim - 1)))
    if op.bias is not None:
        replace_constant(op, op.bias, graph.known_array(op.bias).astype(np.float32) * factors)
    drop_value_statistics(op.output)
    return True
