"""
Scale the channels of a float network, so that a scale per tensor represents all channels well.

The pass `equalize-channels` gives each channel a power of two, at no cost at run time. The pass
`level-rows` gives the output channels of a last layer a common weight scale. Both can insert float
multiplications with a factor for each channel.
"""

from dataclasses import dataclass
from math import prod

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
    WEIGHT_SCALES,
    drop_value_statistics,
    is_kept_in_float,
    keep_in_float,
    weight_bits,
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
    consuming_layers,
    is_channel_scale,
)
from ceras_ir.transforms.quantization.residuals import ResidualSpreadPass
from ceras_ir.transforms.rebuilding import (
    erase_unused,
    release_memory,
    replace_constant,
    spread_columns,
)

CHANNELS_REASON = "equalizes the channels before they share the steps of int8"


def insert_channel_scales(main: FuncOp, *, inputs: bool) -> None:
    """
    Insert float multiplications by a constant of 1 per channel, which can absorb factors of
    channels. They are inserted after float operations on the results of layers, such as a spectrum,
    if only quantized layers use the product. With `inputs`, they are also inserted after float
    graph inputs and float operations on inputs.
    """
    after = values_after_layers(main)
    states = {state.argument for state in states_of(main)}
    computed = [
        op.results[0]
        for op in main.body.block.ops
        if isinstance(op, graph.GraphOperation)
        and is_kept_in_float(op)
        and not is_channel_scale(op)
    ]
    for value in (*main.body.block.args, *computed):
        if value in states or width(value) != NARROW or not (inputs or value in after):
            continue
        layers = consuming_layers(main, value)
        if layers and not any(map(is_kept_in_float, layers)):
            multiply_by_ones(value)


def multiply_by_ones(value: SSAValue) -> graph.BinaryOp:
    """
    Multiply a value in float by a constant of 1 per channel, which can absorb factors of channels,
    and use the product in place of the value. Return the multiplication.
    """
    ones = np.ones(graph.shape_of(value)[-1:], np.float32)
    location = value.owner.location if isinstance(value.owner, Operation) else UnknownLoc()
    return multiply(value, ones, CHANNELS_REASON, location)


def multiply(
    value: SSAValue, factors: NDArray[np.float32], reason: str, location: LocationAttr
) -> graph.BinaryOp:
    """
    Multiply `value` in float by the constant `factors`, and use the product in place of the value.
    `reason` is the reason in the report why the multiplication is float. Return the multiplication.
    """
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


def simplify_channel_scales(main: FuncOp) -> None:
    """
    Remove float multiplications of channels by 1, and merge successive multiplications by
    constants.
    """
    for op in list(main.body.block.ops):
        if not is_channel_scale(op):
            continue
        factors = graph.known_array(op.rhs).astype(np.float32)
        if (factors == 1).all():
            _bypass(op, op.lhs)
        elif (before := _multiplication_before(op)) is not None:
            # The factors are powers of two, so the product is exact.
            constant = graph.known_array(before.rhs).astype(np.float32)
            replace_constant(before, before.rhs, constant * factors)
            _bypass(op, op.lhs)


def _multiplication_before(op: graph.BinaryOp) -> graph.BinaryOp | None:
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


MIN_COLLECTED_ELEMENTS = 1_000_000
"""The number of elements in all constants from which a garbage collection is worth the time."""

EXPONENTS = "input_exponents", "result_exponents"


@dataclass(frozen=True)
class EqualizeChannelsPass(CalibratedPass):
    """
    Multiply channels by powers of two between layers, so that a scale per tensor represents small
    and large channels.

    The weights of an output channel, the bias, and constants that are added to channels are divided
    by the factors. The corresponding weights of the next layer are multiplied. Functions other than
    relu and clip get `input_exponents` and `result_exponents`, which their tables absorb.

    1. Without data the pass does nothing.
    2. A raised channel keeps at least one unused bit. If two halves of the samples have different
       ranges, the margin grows by the difference in bits: that of the channel, or twice the root
       mean square over all channels, whichever is larger.
    3. A channel that is zero in a half of the samples is not raised.
    4. With `rows`, sums of products remain exact in half a step.
    5. Float values that only quantized layers use, such as graph inputs or a spectrum, are
       multiplied in float. Channels of graph inputs are raised by three octaves or more.
    6. Recorded ranges of changed values are removed. The attribute `graph.equalized` of the
       function records that channels have changed.

    Exact: products with powers of two are exact, and relu, pooling, addition and data movement
    commute with positive factors. A clip from 0 to a bound does not change, because twice the
    largest observed value of a raised channel is below the bound. Larger values are clipped
    earlier, as by int8.

    Before, with `calibration=samples.npz`:

        func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
          %w = graph.constant dense<[[1.0, 0.5], [0.015625, 0.0]]>
              : tensor<2x2xf32> : tensor<2x2xf32>
          %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
          %v = graph.constant dense<[[1.0, 64.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
          %y = graph.matmul %a, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }

    After:

        func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> attributes {graph.equalized} {
          %w = graph.constant dense<[[1.0, 0.5], [0.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
          %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
          %v = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
          %y = graph.matmul %a, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }
    """

    name = "equalize-channels"

    rows: bool = False
    """Each output channel has a weight scale, so only activations determine the factors."""
    inputs: bool = True
    """Also multiply graph inputs. Inputs that the caller passes as integers have a single scale."""

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
        simplify_channel_scales(main)
        # Release the memory of replaced constants before the next runs.
        constants = (op for op in main.body.block.ops if isinstance(op, graph.ConstantOp))
        if sum(prod(graph.shape_of(op.result)) for op in constants) >= MIN_COLLECTED_ELEMENTS:
            release_memory()


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
        for name in WEIGHT_SCALES:
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


@dataclass(frozen=True)
class LevelRowsPass(FloatNetworkPass, ResidualSpreadPass):
    """
    Multiply the weights of output channels by powers of two, so that a layer has a single weight
    scale, and divide the results in float.

    The bias is multiplied too. This is done if all consumers are float operations, and the largest
    weights of any two output channels differ by more than `residual_spread` octaves. Then
    `split-wide{results}` can divide a layer with a 16-bit result into two 8-bit layers: the second
    adds the result of the first, shifted by the same number of bits for all channels. Runs before
    ranges are observed.

    Exact: products with powers of two are exact.

    Before:

        func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
          %w = graph.constant dense<[[1.0, 0.5], [0.25, -0.25]]> : tensor<2x2xf32> : tensor<2x2xf32>
          %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
          %y = graph.unary <sigmoid> %a {graph.precision = "f32"} : tensor<1x2xf32>
          func.return %y : tensor<1x2xf32>
        }

    After:

        func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> attributes {graph.equalized} {
          %w = graph.constant dense<[[1.0, 0.5], [1.0, -1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
          %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
          %f = graph.constant dense<[1.0, 0.25]> : tensor<2xf32> : tensor<2xf32>
          %b = graph.binary mul %a, %f {graph.precision = "f32", graph.float_reason =
              "equalizes the channels before they share the steps of int8"}
              : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
          %y = graph.unary <sigmoid> %b {graph.precision = "f32"} : tensor<1x2xf32>
          func.return %y : tensor<1x2xf32>
        }
    """

    name = "level-rows"

    def change(self, main: FuncOp) -> None:
        inside = quantized_operations(main)
        # States are stored as integers.
        states = {state.result for state in states_of(main)}
        for layer in inside:
            if not isinstance(layer, graph.LinearOperation) or not absorbs(layer):
                continue
            if layer.residual is not None or layer.activation is not None or layer.output in states:
                continue
            is_used = any(use.operation in inside for use in layer.output.uses)
            if not is_used and _level(layer, self.residual_spread):
                main.attributes[EQUALIZED] = UnitAttr()


def _level(op: graph.LinearOperation, spread: int) -> bool:
    weights = graph.known_array(op.weights).astype(np.float32)
    exponents = row_exponents_within(weights, ROW_SPREAD, weight_bits(op))
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
