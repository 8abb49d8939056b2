"""
Prepare a network with Q/DQ for integers: rules of `fold-qdq` for signs, data movement and ties.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    UnitAttr,
    f32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import RequantizeOp
from ceras_ir.dialects.graph.operation import is_tensor
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.network.integer import dequantize, quantize
from ceras_ir.network.storage import HALF_EVEN, is_kept_in_float, network_values
from ceras_ir.transforms.pass_kinds import NetworkPass, PatternPass
from ceras_ir.transforms.quantization.analysis.qdq import (
    accumulator_units,
    is_quantized_alike,
    max_tie_tilt,
    only_moves,
    tie_break_bounds,
)
from ceras_ir.transforms.quantization.analysis.rescaling import fixed_point, only_shifts
from ceras_ir.transforms.rebuilding import with_data


def shift_storage(value: SSAValue, element: UniformType, distance: int) -> None:
    """
    Change the type of `value` to `element`, in which each stored integer is greater by `distance`
    and represents the same real value. Zero point and clamp range of the producer are adapted.
    """
    op = value.owner
    assert isinstance(op, Operation)
    requant: Attribute | None = op.properties.get("requant")
    if isinstance(requant, RequantAttr):
        op.properties["requant"] = requant.replaced(
            zero_point=requant.zero_point.data + distance,
            low=requant.low.data + distance,
            high=requant.high.data + distance,
        )
    if isinstance(op, graph.ThresholdOp):
        op.properties["offset"] = graph.integers((op.offsets + distance).tolist())
    Rewriter.replace_value_with_new_type(value, graph.type_with_element(value, element))


def repadded(op: graph.PadOp, input: SSAValue, *, exactly: bool = True) -> graph.PadOp | None:
    """
    Return a copy of the pad `op` with another operand. If `op` pads floats, `input` is quantized
    and the padding value becomes an integer; if `op` pads integers, `input` is float. With
    `exactly`, return `None` if no integer represents the padding value exactly.
    """
    value: Attribute
    target = graph.quantized_element(input)
    if target is not None:
        real = np.array(op.stored_value, np.float32)
        integer = quantize(real, target)
        is_used = op.function is graph.Pad.CONSTANT
        if exactly and is_used and dequantize(integer, target) != real:
            return None
        value = IntegerAttr(int(integer), i64)
    else:
        source = graph.stored_element(op.input)
        real = dequantize(np.array(op.stored_value, np.int64), source)
        value = FloatAttr(float(real), f32)
    new = graph.PadOp(
        op.function,
        input,
        op.low.get_values(),
        op.high.get_values(),
        interior=op.interior.get_values(),
        value=value,
    )
    new.location = op.location
    return new


@dataclass(frozen=True)
class SignRule(NetworkPass):
    """
    Store unsigned 8-bit and 16-bit values inside the network as signed integers, so that
    accelerators and kernels need no unsigned types.

    Activations with per-channel scales are left unchanged. Arguments and results of the function
    keep their types, by a `graph.requantize` with multiplier 1.

    Exact: stored integers, zero points and clamp ranges change by the same constant, so `q -
    zero_point` does not change.

    Before:

        %a = graph.quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<u8:f32, 0.5:128>>
        %y = graph.dequantize %a : (tensor<2x!quant.uniform<u8:f32, 0.5:128>>) -> tensor<2xf32>

    After:

        %a = graph.quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
        %y = graph.dequantize %a : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf32>
    """

    name = "signs"

    def change(self, main: FuncOp) -> None:
        unsigned = [v for v in network_values(main.body.block) if _signed(v) is not None]
        if not unsigned:
            return
        arguments = [v for v in unsigned if not isinstance(v.owner, Operation)]
        for value in unsigned:
            if isinstance(value.owner, Operation) and not _is_border(value):
                _store_signed(value)
        for argument in arguments:
            _requantize_argument(main, argument)
        _requantize_results(main)


def _signed(value: SSAValue) -> UniformType | None:
    if not is_tensor(value.type):
        return None
    element = value.type.element_type
    if not isinstance(element, UniformType) or element.is_signed or element.high >= 1 << 16:
        return None
    if element.width == 1:  # There is no signed type of one bit.
        return None
    # A requantization at the border could not restore per-channel scales of activations.
    if element.is_per_axis and not isinstance(value.owner, graph.ConstantOp):
        return None
    half = element.high // 2 + 1
    return UniformType(
        [scale.data for scale in element.scales],
        [point.data - half for point in element.zero_points],
        storage=IntegerType(element.storage.width.data),
        axis=element.axis.data if isinstance(element.axis, IntAttr) else None,
    )


def _unsigned(element: UniformType) -> UniformType:
    width = element.storage.width.data
    storage = IntegerType(width, Signedness.UNSIGNED)
    return UniformType(element.scale, element.zero_point + (1 << width - 1), storage=storage)


def _is_border(value: SSAValue) -> bool:
    owner = value.owner
    only_returned = all(isinstance(use.operation, ReturnOp) for use in value.uses)
    return isinstance(owner, RequantizeOp) and only_returned and _is_unscaled(owner.requant)


def _is_unscaled(requant: RequantAttr) -> bool:
    return requant.multipliers == (1,) and requant.shift.data == 0


def _requantized(value: SSAValue, element: UniformType) -> RequantizeOp:
    low, high = element.low, element.high
    return RequantizeOp(
        value, element, RequantAttr(0, zero_point=element.zero_point, low=low, high=high)
    )


def _store_signed(value: SSAValue) -> None:
    op, element = value.owner, _signed(value)
    assert isinstance(op, Operation) and element is not None
    half = 1 << element.storage.width.data - 1
    if isinstance(op, graph.ConstantOp):
        stored = op.array()
        moved = (stored.astype("int32") - half).astype(graph.numpy_dtype(element))
        new = graph.ConstantOp.from_array(moved, element, location=op.location)
        Rewriter.insert_op(new, InsertPoint.before(op))
        value.replace_all_uses_with(new.result)
        Rewriter.erase_op(op)
        return
    if isinstance(op, graph.PadOp) and op.function is graph.Pad.CONSTANT:
        op.properties["value"] = IntegerAttr(int(op.stored_value) - half, i64)
    shift_storage(value, element, -half)


def _requantize_argument(main: FuncOp, argument: SSAValue) -> None:
    users = [use.operation for use in argument.uses]
    if all(isinstance(u, RequantizeOp) and _is_unscaled(u.requant) for u in users):
        return
    element, first = _signed(argument), main.body.block.first_op
    assert element is not None and first is not None
    op = _requantized(argument, element)
    op.location = first.location
    Rewriter.insert_op(op, InsertPoint.before(first))
    argument.replace_uses_with_if(op.result, lambda use: use.operation is not op)


def _requantize_results(main: FuncOp) -> None:
    last = main.body.block.last_op
    assert isinstance(last, ReturnOp)
    for i, (value, declared) in enumerate(
        zip(tuple(last.operands), tuple(main.function_type.outputs), strict=True)
    ):
        if value.type == declared:
            continue
        op = _requantized(value, _unsigned(graph.stored_element(value)))
        if isinstance(value.owner, Operation):
            op.location = value.owner.location
        Rewriter.insert_op(op, InsertPoint.before(last))
        last.operands[i] = op.result


class SinkDequantize(RewritePattern):
    """
    Replace `move(dequantize(x))` by `dequantize(move(x))`, where `move` is data movement, a
    maximum, a pad or a ReLU, and all data operands are dequantized from the same type.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.GraphOperation, rewriter: PatternRewriter, /):
        owners = [value.owner for value in op.data_operands]
        stored = [owner.input for owner in owners if isinstance(owner, graph.DequantizeOp)]
        if not stored or len(stored) != len(owners) or is_kept_in_float(op):
            return
        element = graph.stored_element(stored[0])
        if element.is_per_axis or any(graph.quantized_element(v) != element for v in stored):
            return
        match op:
            case graph.PadOp():
                # Exact if an integer represents the padding value, which is true for zero.
                moved = repadded(op, stored[0])
            case graph.UnaryOp(channel_exponents=None) if op.function.data is graph.Function.RELU:
                # The zero point represents 0, and larger integers represent larger values.
                point = element.zero_point
                requant = RequantAttr(0, zero_point=point, low=point, high=element.high)
                moved = graph.RequantizeOp(stored[0], element, requant)
            case _ if only_moves(op):
                # Dequantization is the same increasing function of each element, so it commutes
                # with data movement and with a maximum.
                moved = with_data(op, stored, element)
            case _:
                return
        if moved is None:
            return
        below = graph.DequantizeOp(moved.output)
        moved.location = below.location = op.location
        rewriter.replace(op, (moved, below))


class SinkRule(PatternPass):
    """
    Move `graph.dequantize` after reshapes, transposes, maxima, concatenations and rectifiers,
    unless `graph.precision` keeps them in float. Changes no value.

    Before:

        %a = graph.dequantize %x : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2xf32>
        %y = graph.reshape %a : (tensor<2x2xf32>) -> tensor<4xf32>

    After:

        %a = graph.reshape %x : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>)
            -> tensor<4x!quant.uniform<i8:f32, 0.5>>
        %y = graph.dequantize %a : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
    """

    name = "sink"
    pattern = GreedyRewritePatternApplier([SinkDequantize()])


class HoistQuantize(RewritePattern):
    """
    Replace `quantize(move(x, y))` by `move(quantize(x), quantize(y))` if `move` is a data movement
    operation or an elementwise maximum, and its float result has no other consumer.

    Exact: quantization is the same nondecreasing function of each element, so it commutes with the
    selection of elements.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.QuantizeOp, rewriter: PatternRewriter, /):
        move = op.input.owner
        if not isinstance(move, graph.GraphOperation) or is_kept_in_float(move):
            return
        if not only_moves(move) and not isinstance(move, graph.PadOp):
            return
        element = graph.stored_element(op.result)
        if element.is_per_axis or not is_quantized_alike(op):
            return
        above = [graph.QuantizeOp(value, element, op.mode) for value in move.data_operands]
        for quantizer in above:
            quantizer.location = op.location
            quantizer.attributes |= op.attributes
        stored = [quantize.result for quantize in above]
        if isinstance(move, graph.PadOp):
            # The padding value is rounded as QuantizeLinear would round it.
            moved = repadded(move, stored[0], exactly=False)
            assert moved is not None
        else:
            moved = with_data(move, stored, element)
        rewriter.replace(op, (*above, moved))
        if move.output.first_use is None:
            rewriter.erase(move)


class HoistRule(PatternPass):
    """
    Move `graph.quantize` before reshapes, transposes, maxima and concatenations, unless
    `graph.precision` keeps them in float. Changes no value.
    """

    name = "hoist"
    pattern = HoistQuantize()


@dataclass(frozen=True)
class TieRule(NetworkPass):
    """
    Remove additions and factors that only decide how QuantizeLinear rounds ties.

    1. Replace `quantize(x + c)` by `quantize(x)` if c is positive and below half a unit of the sum
       x. If an odd multiplier m rescales x, the limit is half a unit divided by m.
    2. Replace `quantize(x * f)` by `quantize(x)` if x is an average and f is so near 1 that it only
       decides ties.

    `fold-qdq` converts both to integer operations, which round half up or use a reciprocal.
    QuantizeLinear rounds ties to even, but with c or f there is no tie. The network thus describes
    the integer operation in ONNX, and the removal is exact in the integers.

    If the pass removed a constant, the network specifies the rounding of all ties. The other
    quantizations then get `graph.half_even`, and `fold-qdq` keeps the rounding of ONNX. Layers do
    not get it: the constant of a layer can be in the bias, and rounding removes it.

    Before:

        %c = graph.constant dense<0.015625> : tensor<f32> : tensor<f32>
        %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.0625>>) -> tensor<4xf32>
        %b = graph.binary add %a, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        %y = graph.quantize %b : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>

    After:

        %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.0625>>) -> tensor<4xf32>
        %y = graph.quantize %a : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
    """

    name = "ties"

    def change(self, main: FuncOp) -> None:
        ops = main.body.block.ops
        quantizes = [o for o in ops if isinstance(o, graph.QuantizeOp)]
        even = [quantize for quantize in quantizes if not _remove_tie_breaks(quantize)]
        if len(even) == len(quantizes):
            return
        for quantizer in even:
            if not isinstance(quantizer.input.owner, graph.LinearOperation):
                quantizer.attributes[HALF_EVEN] = UnitAttr()


def _remove_tie_breaks(quantize: graph.QuantizeOp) -> bool:
    """
    Remove sums and products with constants before `quantize` that only change how ties are rounded.
    Return whether any were removed.
    """
    steps = _constant_steps(quantize.input)
    for count in range(len(steps), 0, -1):
        found, value = steps[:count], steps[count - 1].value
        if all(_only_breaks_ties(step, value, quantize) for step in found):
            quantize.operands[0] = value
            quantize.attributes.pop(HALF_EVEN, None)
            for step in found:
                Rewriter.erase_op(step.op)
            return True
    return False


class _Step(NamedTuple):
    """A float sum or product `op` of `value` with `constant`. The result has a single consumer."""

    op: graph.BinaryOp
    value: SSAValue
    constant: NDArray[np.float32]


def _constant_steps(value: SSAValue) -> list[_Step]:
    """
    Return the successive sums and products with constants that compute `value`, the last operation
    first.
    """
    steps: list[_Step] = []
    while isinstance(op := value.owner, graph.BinaryOp) and value.has_one_use():
        if op.activation is not None or op.is_quantized:
            break
        for operand, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            constant = graph.constant_array(other)
            if constant is not None and constant.dtype == "float32" and operand.type == value.type:
                steps.append(_Step(op, operand, constant.astype("float32")))
                break
        if not steps or steps[-1].op is not op:
            break
        value = steps[-1].value
    return steps


def _only_breaks_ties(step: _Step, value: SSAValue, quantize: graph.QuantizeOp) -> bool:
    """
    Return whether the constant of the sum or product `step` is so small (or so near 1) that,
    applied to `value`, it only changes how `quantize` rounds ties.
    """
    op, target = value.owner, graph.quantized_element(quantize.result)
    # Data movement, rectifiers and clips keep multiples of a unit.
    while isinstance(op, graph.GraphOperation) and (only_moves(op) or _clips(op)):
        op = op.operands[0].owner
    if not isinstance(op, Operation) or target is None:
        return False
    types = _operand_types(op)
    if types is None:
        return False
    if not isinstance(op, graph.LinearOperation) and not only_shifts((*types, target)):
        return False
    units, constant = accumulator_units(op, types), step.constant
    if units is None or step.op.function not in (graph.Binary.ADD, graph.Binary.MUL):
        return False
    if isinstance(op, graph.Pool2dOp):
        if step.op.function is graph.Binary.MUL:
            return bool(
                (np.abs(constant - np.float32(1)) <= max_tie_tilt(op, types[0], target)).all()
            )
        # The constant is 0 at positions where a factor decides the ties.
        return bool((constant >= 0).all() and constant.any() and (constant < units / 2).all())
    channels = graph.shape_of(value)[-1:] or (1,)
    flat = constant.reshape(-1)
    if flat.size not in (1, channels[0]) or constant.shape[-1:] not in ((), (1,), channels):
        return False
    rooms = tie_break_bounds(units, *fixed_point(np.atleast_1d(units / target.scale).tolist()))
    small = np.where(rooms > 0, (flat > 0) & (flat < rooms), flat == 0)
    return bool(flat.any() and small.all()) and step.op.function is graph.Binary.ADD


def _clips(op: Operation) -> bool:
    return isinstance(op, graph.UnaryOp) and op.function.clip_range is not None


def _operand_types(op: Operation) -> list[UniformType] | None:
    """
    Return the quantized types from which the first two operands of a float operation are
    dequantized, before data movement. Return `None` if an operand is not dequantized.
    """
    known = graph.DequantizeOp | graph.LinearOperation | graph.BinaryOp | graph.Pool2dOp
    if not isinstance(op, known):
        return None
    types: list[UniformType] = []
    for source in op.operands[:2]:
        # Data movement keeps multiples of a unit.
        while isinstance(source.owner, graph.GraphOperation) and only_moves(source.owner):
            source = source.owner.operands[0]
        source = source.owner.input if isinstance(source.owner, graph.DequantizeOp) else source
        element = graph.quantized_element(source)
        if element is None:
            return None
        types.append(element)
    return types
