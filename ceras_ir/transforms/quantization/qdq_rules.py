"""Rules of `fold-qdq` that prepare a network with Q/DQ: signs, data movement and ties."""

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
from ceras_ir.network.storage import is_kept_in_float, network_values
from ceras_ir.transforms.pass_kinds import NetworkPass, PatternPass
from ceras_ir.transforms.quantization.analysis.qdq import (
    HALF_EVEN,
    accumulator_units,
    is_quantized_alike,
    only_moves,
    tie_rooms,
    tilt,
)
from ceras_ir.transforms.quantization.analysis.rescaling import fixed_point, only_shifts
from ceras_ir.transforms.rebuilding import with_data

# Stored numbers and zero points moved by the same constant, so that both types mean the same.


def store_moved(value: SSAValue, element: UniformType, distance: int) -> None:
    """Let the operation that makes `value` store it as `element`: numbers greater by `distance`."""
    op = value.owner
    assert isinstance(op, Operation)
    requant: Attribute | None = op.properties.get("requant")
    if isinstance(requant, RequantAttr):
        op.properties["requant"] = requant.replaced(
            zero_point=requant.zero_point.data + distance,
            low=requant.low.data + distance,
            high=requant.high.data + distance,
        )
    Rewriter.replace_value_with_new_type(value, graph.type_with_element(value, element))


# `graph.pad` on other numbers: floats instead of the integers that store them, and back.


def repadded(op: graph.PadOp, input: SSAValue, *, exactly: bool = True) -> graph.PadOp | None:
    """
    `op` around `input`, quantized where the operand of `op` is float or the other way round.
    None if `exactly` is asked for and no integer stands for the number that is put around.
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
    Store every value inside the network that has 8 or 16 unsigned bits in signed ones, so that
    accelerators and kernels meet int8 only. Activations with one scale per channel stay. Arguments
    and results of the function keep their types; a `graph.requantize` of multiplier 1 stands at
    each.

    Exact: stored numbers and zero points move by the same constant, so `q - zero_point` stays.
    Clamp ranges move with them.
    """

    name = "signs"

    def change(self, main: FuncOp) -> None:
        unsigned = [v for v in network_values(main.body.block) if _signed(v) is not None]
        if not unsigned:
            return
        outside = [v for v in unsigned if not isinstance(v.owner, Operation)]
        for value in unsigned:
            if isinstance(value.owner, Operation) and not _is_border(value):
                _convert(value)
        for argument in outside:
            _at_argument(main, argument)
        _at_results(main)


def _signed(value: SSAValue) -> UniformType | None:
    """The signed type of an unsigned value, None for any other."""
    if not is_tensor(value.type):
        return None
    element = value.type.element_type
    if not isinstance(element, UniformType) or element.is_signed or element.high >= 1 << 16:
        return None
    # No requantization could bring activations with a scale per channel back at the border.
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
    """The unsigned type of which `element` is the signed one, per tensor."""
    width = element.storage.width.data
    storage = IntegerType(width, Signedness.UNSIGNED)
    return UniformType(element.scale, element.zero_point + (1 << width - 1), storage=storage)


def _is_border(value: SSAValue) -> bool:
    """Whether this pass has made `value` for a result of the function."""
    owner = value.owner
    only_returned = all(isinstance(use.operation, ReturnOp) for use in value.uses)
    return isinstance(owner, RequantizeOp) and only_returned and _moves(owner.requant)


def _moves(requant: RequantAttr) -> bool:
    return requant.multipliers == (1,) and requant.shift.data == 0


def _moved(value: SSAValue, element: UniformType) -> RequantizeOp:
    """The same number stored as `element`, whose zero point alone differs."""
    low, high = element.low, element.high
    return RequantizeOp(
        value, element, RequantAttr(0, zero_point=element.zero_point, low=low, high=high)
    )


def _convert(value: SSAValue) -> None:
    """Let the operation that makes `value` make the signed numbers."""
    op, element = value.owner, _signed(value)
    assert isinstance(op, Operation) and element is not None
    half = 1 << element.storage.width.data - 1
    if isinstance(op, graph.ConstantOp):
        stored = op.array()
        moved = (stored.astype("int32") - half).astype(f"int{element.storage.width.data}")
        new = graph.ConstantOp.from_array(moved, element, location=op.location)
        Rewriter.insert_op(new, InsertPoint.before(op))
        value.replace_all_uses_with(new.result)
        Rewriter.erase_op(op)
        return
    if isinstance(op, graph.PadOp) and op.function is graph.Pad.CONSTANT:
        op.properties["value"] = IntegerAttr(int(op.stored_value) - half, i64)
    store_moved(value, element, -half)


def _at_argument(main: FuncOp, argument: SSAValue) -> None:
    readers = [use.operation for use in argument.uses]
    if all(isinstance(r, RequantizeOp) and _moves(r.requant) for r in readers):
        return
    element, first = _signed(argument), main.body.block.first_op
    assert element is not None and first is not None
    op = _moved(argument, element)
    op.location = first.location
    Rewriter.insert_op(op, InsertPoint.before(first))
    argument.replace_uses_with_if(op.result, lambda use: use.operation is not op)


def _at_results(main: FuncOp) -> None:
    """Results are returned in the types that the function declares."""
    last = main.body.block.last_op
    assert isinstance(last, ReturnOp)
    for i, (value, declared) in enumerate(
        zip(tuple(last.operands), tuple(main.function_type.outputs), strict=True)
    ):
        if value.type == declared:
            continue
        op = _moved(value, _unsigned(graph.stored_element(value)))
        if isinstance(value.owner, Operation):
            op.location = value.owner.location
        Rewriter.insert_op(op, InsertPoint.before(last))
        last.operands[i] = op.result


class SinkDequantize(RewritePattern):
    """`move(dequantize(x))` becomes `dequantize(move(x))`, where all operands have one type."""

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
                # Exact where an integer stands for the number that is put around; for zero always.
                moved = repadded(op, stored[0])
            case graph.UnaryOp(channel_exponents=None) if op.function.kind is graph.Function.RELU:
                # The zero point stands for zero, and numbers above it for greater ones.
                point = element.zero_point
                requant = RequantAttr(0, zero_point=point, low=point, high=element.high)
                moved = graph.RequantizeOp(stored[0], element, requant)
            case _ if only_moves(op):
                # Elements are the same function of the integer wherever they lie, and that function
                # grows, so it commutes with a maximum.
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
    Move `graph.dequantize` below reshapes, transposes, maxima, concatenations and rectifiers, but
    not where `graph.precision` keeps these in float. Changes no value.
    """

    name = "sink"
    pattern = GreedyRewritePatternApplier([SinkDequantize()])


class HoistQuantize(RewritePattern):
    """
    `quantize(move(x, y))` becomes `move(quantize(x), quantize(y))`, where nobody else reads
    the moved floats.

    Exact: elements are quantized alike wherever they lie, by a function that does not fall, so
    it commutes with a maximum too.
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
        above = [graph.QuantizeOp(value, element) for value in move.data_operands]
        for quantizer in above:
            quantizer.location = op.location
            quantizer.attributes |= op.attributes
        stored = [quantize.result for quantize in above]
        if isinstance(move, graph.PadOp):
            # The number around is quantized as it would be in place.
            moved = repadded(move, stored[0], exactly=False)
            assert moved is not None
        else:
            moved = with_data(move, stored, element)
        rewriter.replace(op, (*above, moved))
        if move.output.first_use is None:
            rewriter.erase(move)


class HoistRule(PatternPass):
    """
    Move `graph.quantize` above reshapes, transposes, maxima and concatenations, but not where
    `graph.precision` keeps these in float. Changes no value.
    """

    name = "hoist"
    pattern = HoistQuantize()


@dataclass(frozen=True)
class TieRule(NetworkPass):
    """
    Remove additions and factors that only decide how QuantizeLinear rounds ties.

    1. `quantize(x + c)` becomes `quantize(x)` where c is positive and below half a unit of the sum
       x. Where an odd multiplier m rescales x, the limit is half an m-th.
    2. `quantize(x * f)` becomes `quantize(x)` where x is an average and f is so near to 1 that it
       decides only ties.

    `fold-qdq` makes integer operations of both that round half up, or as a reciprocal does.
    QuantizeLinear rounds ties to even, and with c or f no tie is left. So the network says in ONNX
    what the integer operation does: exact in the integers. Where anything was removed, every bit of
    the network is meant. All other quantizations then round as ONNX says: they get
    `graph.half_even`, which `fold-qdq` respects.
    """

    name = "ties"

    def change(self, main: FuncOp) -> None:
        ops = main.body.block.ops
        quantizes = [o for o in ops if isinstance(o, graph.QuantizeOp)]
        even = [quantize for quantize in quantizes if not _dropped(quantize)]
        if len(even) == len(quantizes):
            return
        for quantizer in even:
            quantizer.attributes[HALF_EVEN] = UnitAttr()


def _dropped(quantize: graph.QuantizeOp) -> bool:
    """Whether there were constants that only decided ties; they are gone."""
    steps = _constant_steps(quantize.input)
    for count in range(len(steps), 0, -1):
        found, value = steps[:count], steps[count - 1].value
        if all(_only_breaks_ties(step, value, quantize) for step in found):
            quantize.operands[0] = value
            for step in found:
                Rewriter.erase_op(step.op)
            return True
    return False


class _Step(NamedTuple):
    """A sum or product with a constant, which nobody else reads."""

    op: graph.BinaryOp
    value: SSAValue
    constant: NDArray[np.float32]


def _constant_steps(value: SSAValue) -> list[_Step]:
    """The sums and products with constants that end in `value`, the last one first."""
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
    """Whether the constant of a step, applied to `value`, does no more."""
    op, target = value.owner, graph.quantized_element(quantize.result)
    # What moves, rectifies or clips keeps whole multiples what they are.
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
            return bool((np.abs(constant - np.float32(1)) <= tilt(op, types[0], target)).all())
        # Where a factor decides, nothing is added.
        return bool((constant >= 0).all() and constant.any() and (constant < units / 2).all())
    channels = graph.shape_of(value)[-1:] or (1,)
    flat = constant.reshape(-1)
    if flat.size not in (1, channels[0]) or constant.shape[-1:] not in ((), (1,), channels):
        return False
    rooms = tie_rooms(units, *fixed_point(np.atleast_1d(units / target.scale).tolist()))
    small = np.where(rooms > 0, (flat > 0) & (flat < rooms), flat == 0)
    return bool(flat.any() and small.all()) and step.op.function is graph.Binary.ADD


def _clips(op: Operation) -> bool:
    return isinstance(op, graph.UnaryOp) and op.function.clip_range is not None


def _operand_types(op: Operation) -> list[UniformType] | None:
    """How the data operands, and weights, of a float operation are stored."""
    known = graph.DequantizeOp | graph.LinearOperation | graph.BinaryOp | graph.Pool2dOp
    if not isinstance(op, known):
        return None
    types: list[UniformType] = []
    for source in op.operands[:2]:
        # Moved elements are whole multiples of the same unit.
        while isinstance(source.owner, graph.GraphOperation) and only_moves(source.owner):
            source = source.owner.operands[0]
        source = source.owner.input if isinstance(source.owner, graph.DequantizeOp) else source
        element = graph.quantized_element(source)
        if element is None:
            return None
        types.append(element)
    return types
