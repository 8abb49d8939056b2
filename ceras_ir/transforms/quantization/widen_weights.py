"""
Store weights of less than 8 bits as the network and the target need them.

`float-weights` and `keep-weights` apply to networks without quantized activations. `widen-weights`
applies to targets, which declare the widths that they store in `Arithmetic.weight_widths`. Other
passes accept constants of any width.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntAttr,
    IntegerAttr,
    TensorType,
    f32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.hints import isa

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.dialects.graph.operation import is_tensor
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
from ceras_ir.network.function import module_of, quantized_layers
from ceras_ir.network.integer import dequantize, quantize, scales, zero_points
from ceras_ir.network.storage import (
    BITS,
    STORED_TYPE,
    given_type,
    set_row_scales,
)
from ceras_ir.support.diagnostics import remark
from ceras_ir.support.options import inherited
from ceras_ir.targets.protocol import Arithmetic
from ceras_ir.targets.registry import find_target
from ceras_ir.targets.shared_options import TargetNameOptions
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, NetworkPass
from ceras_ir.transforms.quantization.analysis.qdq import carries_quantization
from ceras_ir.transforms.quantization.analysis.rescaling import has_power_scales
from ceras_ir.transforms.quantization.fold_qdq import folded
from ceras_ir.transforms.quantization_options import FloatFormOptions
from ceras_ir.transforms.rebuilding import erase_unused


@dataclass(frozen=True)
class FloatWeightsPass(FloatFormOptions, NetworkPass):
    """
    Replace dequantized constants of less than 8 bits by float constants, if no activation is
    quantized. The layers are then float layers, which are fused, and can be quantized. A note on
    stderr gives the number of layers.

    Exact: the interpreter computes the constants.

    Before:

        %w = graph.constant dense<[[7, -8]]> : tensor<1x2xi4>
            : tensor<1x2x!quant.uniform<i4:f32, 0.5>>
        %y = graph.dequantize %w : (tensor<1x2x!quant.uniform<i4:f32, 0.5>>) -> tensor<1x2xf32>

    After:

        %y = graph.constant dense<[[3.5, -4.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
    """

    name = "float-weights"

    def change(self, main: FuncOp) -> None:
        found = [op for op in module_of(main).walk() if isinstance(op, graph.DequantizeOp)]
        found = [op for op in found if graph.stored_element(op.input).width < BYTE_BITS]
        if not found or carries_quantization(module_of(main)):
            return
        layers: dict[int, dict[Operation, None]] = {}
        for op in found:
            constant, element = op.input.owner, graph.stored_element(op.input)
            users = [use.operation for use in op.result.uses]
            for user in users if self.quantizes else ():
                if isinstance(user, graph.LinearOperation) and user.weights is op.result:
                    user.attributes[STORED_TYPE] = element
            layers.setdefault(element.width, {}).update(dict.fromkeys(users))
            new = folded(op)
            # Only constants are dequantized if no activation is quantized.
            assert new is not None and isinstance(constant, graph.ConstantOp)
            Rewriter.replace_op(op, new)
            erase_unused(constant)
        for width, users in sorted(layers.items()) if not self.quantizes else ():
            remark(f"{self.name}: note: {_counted(len(users), width)} computed in float32")


@dataclass(frozen=True)
class KeepWeightsPass(FloatNetworkPass):
    """
    Choose the scales of the model for weights that `float-weights` converted to float.
    `quantize-graph` then stores them in the integers of the model again.

    Other layers are stored in 8 bits, with scales that later passes choose: if a pass such as
    `fold-affine` changed the weights, and if the target does not compute such zero points or
    scales. A note on stderr gives the number of these layers. Changes no value.

    Before:

        %w = graph.constant dense<[[3.5, -4.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
        %y = graph.matmul %x, %w {graph.stored_type = !quant.uniform<i4:f32, 0.5>}
            : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>

    After:

        %w = graph.constant dense<[[3.5, -4.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
        %y = graph.matmul %x, %w {graph.stored_type = !quant.uniform<i4:f32, 0.5>,
            graph.weight_bits = 4 : i64, graph.weight_exponent = -1 : i64}
            : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
    """

    name = "keep-weights"

    channel_shifts: bool = True
    """The target has a shift per output channel."""
    multipliers: bool = True
    """The target multiplies sums, so that scales need not be powers of two."""

    def change(self, main: FuncOp) -> None:
        widened: dict[int, int] = {}
        for op in quantized_layers(main):
            if (element := given_type(op)) is None:
                continue
            if BITS in op.attributes:  # The user decides.
                del op.attributes[STORED_TYPE]
            elif self._computes(element) and _holds(element, op.weights):
                scales = [scale.data for scale in element.scales]
                rows = graph.shape_of(op.weights)[0]
                op.attributes[BITS] = IntegerAttr(element.width, i64)
                set_row_scales(op, scales if element.is_per_axis else scales * rows)
            else:
                del op.attributes[STORED_TYPE]
                widened[element.width] = widened.get(element.width, 0) + 1
        for width, count in sorted(widened.items()):
            remark(f"{self.name}: note: {_counted(count, width)} quantized to int8 again")

    def _computes(self, element: UniformType) -> bool:
        axis = element.axis.data if isinstance(element.axis, IntAttr) else 0
        scales = {scale.data for scale in element.scales}
        # The signed integers, as which the weights will be stored, have the zero point 0.
        centre = 0 if element.is_signed else 1 << element.width - 1
        return (
            axis == 0
            and all(point.data == centre for point in element.zero_points)
            and (self.channel_shifts or len(scales) == 1)
            and (self.multipliers or has_power_scales(element))
        )


def _holds(element: UniformType, weights: SSAValue) -> bool:
    """Return whether constant float weights are exactly integers of the type `element`."""
    real = graph.constant_array(weights)
    if real is None or (element.is_per_axis and len(real) != len(element.scales)):
        return False
    real = real.astype(np.float32, copy=False)
    return bool((dequantize(quantize(real, element), element) == real).all())


@dataclass(frozen=True)
class WidenWeightsPass(TargetNameOptions, NetworkPass):
    """
    Store constants of few bits in the next width that the target stores, such as 8 bits. A note on
    stderr gives the number of layers.

    Values that are moved from such a constant, such as rows of a table, get the same type.

    Exact: integers, scales and zero points do not change.

    Before:

        %w = graph.constant dense<[[7, -8]]> : tensor<1x2xi4>
            : tensor<1x2x!quant.uniform<i4:f32, 0.5>>
        %y = graph.dequantize %w : (tensor<1x2x!quant.uniform<i4:f32, 0.5>>) -> tensor<1x2xf32>

    After:

        %w = graph.constant dense<[[7, -8]]> : tensor<1x2xi8>
            : tensor<1x2x!quant.uniform<i8:f32, 0.5>>
        %y = graph.dequantize %w : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2xf32>
    """

    name = "widen-weights"

    target: str | None = inherited(TargetNameOptions, "target", None)
    """The target that stores the weights; default: a target that stores weights in 8 bits."""

    def change(self, main: FuncOp) -> None:
        arithmetic = Arithmetic() if self.target is None else find_target(self.target).arithmetic
        changed: list[tuple[graph.ConstantOp, UniformType]] = []
        layers: dict[tuple[int, int], dict[Operation, None]] = {}
        functions = (main, *called_functions(main))
        for constant in (op for function in functions for op in function.body.block.ops):
            if not isinstance(constant, graph.ConstantOp):
                continue
            if (element := graph.quantized_element(constant.result)) is None:
                continue
            if (
                width := arithmetic.stored_width(element, arithmetic.weight_widths)
            ) == element.width:
                continue
            changed.append((constant, element.widened(width)))
            users = dict.fromkeys(_layers(constant.result))
            layers.setdefault((element.width, width), {}).update(users)
        for constant, element in changed:
            _widen(constant, element)
        stored = " or ".join(map(str, arithmetic.weight_widths))
        for (old, new), users in sorted(layers.items()):
            owner = "the target" if self.target is None else f"target {self.target}"
            remark(
                f"{self.name}: note: {_counted(len(users), old)} stored as int{new}: {owner} "
                f"stores weights in {stored} bits"
            )


def _counted(layers: int, bits: int) -> str:
    """Return the beginning of a sentence about layers with weights of `bits` bits."""
    return (
        f"{layers} layers with {bits}-bit weights are"
        if layers != 1
        else (f"1 layer with {bits}-bit weights is")
    )


def _moved(value: SSAValue) -> Iterator[SSAValue]:
    """Yield the results that have the element type of `value` because they are moved from it."""
    for use in value.uses:
        if "requant" not in use.operation.properties:
            for result in use.operation.results:
                if graph.element_of(result) == graph.element_of(value):
                    yield result


def _layers(value: SSAValue) -> Iterator[Operation]:
    """Yield the operations that compute with `value`, after data movement and dequantization."""
    moved = set(_moved(value))
    for op in (use.operation for use in value.uses):
        if isinstance(op, graph.DequantizeOp):
            yield from (use.operation for use in op.result.uses)
        elif moved.isdisjoint(op.results):
            yield op
    for result in moved:
        yield from _layers(result)


def _widen(constant: graph.ConstantOp, element: UniformType) -> None:
    kind, held = TensorType(element.storage, graph.shape_of(constant.result)), constant.value
    if isinstance(held, DenseResourceAttr):
        constant.value = DenseResourceAttr(held.resource_handle, kind)
    elif isa(held, DenseIntOrFPElementsAttr):
        constant.value = graph.ConstantOp.from_array(constant.array(), element).value
    values: list[SSAValue] = [constant.result]
    for value in values:  # The list grows in the loop.
        values += _moved(value)
        Rewriter.replace_value_with_new_type(value, graph.type_with_element(value, element))


@dataclass(frozen=True)
class WidenActivationsPass(TargetNameOptions, NetworkPass):
    """
    Store activations of few bits in the next width that the target stores, such as 8 bits. A note
    on stderr gives the number of values, without data movement.

    Float operations before `graph.quantize` limit the integers, where the wider type does not: a
    clip, or the sign of a bipolar value. Other operations have a clamp range, or only move values.

    Exact: integers, scales and zero points do not change.

    Before:

        %y = graph.quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<u4:f32, 0.5>>

    After:

        %c = graph.unary <clip, 0.0, 7.5> %x : tensor<2xf32>
        %y = graph.quantize %c : (tensor<2xf32>) -> tensor<2x!quant.uniform<u8:f32, 0.5>>
    """

    name = "widen-activations"

    target: str | None = inherited(TargetNameOptions, "target", None)
    """The target that stores the activations; default: a target that stores 8 bits."""

    def change(self, main: FuncOp) -> None:
        arithmetic = Arithmetic() if self.target is None else find_target(self.target).arithmetic
        counts: dict[tuple[int, int], int] = {}
        for function in (main, *called_functions(main)):
            ops = list(function.body.block.ops)
            # `widen-weights` widens constants, and values that are moved from them.
            constants = [op.result for op in ops if isinstance(op, graph.ConstantOp)]
            reached = [v for v in constants if graph.quantized_element(v) is not None]
            weights: set[SSAValue] = set(reached)
            for value in reached:  # The list grows in the loop.
                added = [v for v in _moved(value) if v not in weights]
                weights.update(added)
                reached += added
            for op in ops:
                for value in (result for result in op.results if result not in weights):
                    element = graph.quantized_element(value) if is_tensor(value.type) else None
                    if element is None or element.width > BYTE_BITS:
                        continue
                    width = arithmetic.stored_width(element, arithmetic.activation_widths)
                    if width == element.width:
                        continue
                    if isinstance(op, graph.QuantizeOp):
                        _limit(op, element)
                    if isinstance(op, graph.QuantizeOp) or "requant" in op.properties:
                        counts[element.width, width] = counts.get((element.width, width), 0) + 1
                    new = graph.type_with_element(value, element.widened(width))
                    Rewriter.replace_value_with_new_type(value, new)
            function.update_function_type()
        owner = "the target" if self.target is None else f"target {self.target}"
        stored = " or ".join(map(str, arithmetic.activation_widths))
        for (old, new), count in sorted(counts.items()):
            values = "1 activation" if count == 1 else f"{count} activations"
            remark(
                f"{self.name}: note: {values} of {old} bits in int{new}: {owner} stores "
                f"activations in {stored} bits"
            )


def _limit(op: graph.QuantizeOp, element: UniformType) -> None:
    """
    Insert float operations before `op` that give its results in the integers of `element`, if it
    has a wider type: a clip to the range of the type, or for bipolar results the sign.
    """
    rank = len(graph.shape_of(op.input))
    scale, points = scales(element, rank), zero_points(element, rank)
    low, high = ((end - points).astype(np.float32) * scale for end in (element.low, element.high))
    lower, upper = (graph.ConstantOp.from_array(end, location=op.location) for end in (low, high))
    if element.is_bipolar:
        zero = graph.ConstantOp.from_array(np.zeros((1,) * rank, np.float32), location=op.location)
        is_positive = graph.CompareOp(graph.Compare.LESS_OR_EQUAL, zero.result, op.input)
        sign = graph.SelectOp(is_positive.result, upper.result, lower.result)
        new: list[Operation] = [zero, lower, upper, is_positive, sign]
    elif element.is_per_axis:
        above = graph.BinaryOp(graph.Binary.MAX, op.input, lower.result, result_element=f32)
        below = graph.BinaryOp(graph.Binary.MIN, above.result, upper.result, result_element=f32)
        new = [lower, upper, above, below]
    else:
        clip = graph.FunctionAttr(graph.Function.CLIP, [float(low), float(high)])
        new = [graph.UnaryOp(op.input, clip)]
    for each in new:
        each.location = op.location
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.operands[0] = new[-1].results[0]
