"""
Convert a network with Q/DQ to integer operations.

This file looks up the stored operands of a float operation between `graph.dequantize` and
`graph.quantize`. The operation remains float if integers would not match the model. `integer_forms`
creates the integer operation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import i8, i16
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.network import integer
from ceras_ir.network.function import SNAPPED
from ceras_ir.network.storage import HALF_EVEN, WIDE, is_kept_in_float
from ceras_ir.support.diagnostics import remark
from ceras_ir.transforms.graph.fuse_windows import PadRule
from ceras_ir.transforms.pass_kinds import PatternPass, RulePass
from ceras_ir.transforms.quantization.accumulators import fitted
from ceras_ir.transforms.quantization.analysis.qdq import (
    is_quantized_alike,
    needs_multiplier,
    stored_types,
)
from ceras_ir.transforms.quantization.analysis.rescaling import only_shifts, table
from ceras_ir.transforms.quantization.analysis.stored_operands import (
    constant_operand,
    stored_operand,
    stored_weights,
)
from ceras_ir.transforms.quantization.fold_thresholds import SumRule, ThresholdRule
from ceras_ir.transforms.quantization.integer_forms import (
    SAME_SCALE,
    accumulator_element,
    bias_in_accumulators,
    integer_form,
)
from ceras_ir.transforms.quantization.qdq_rules import HoistRule, SignRule, SinkRule, TieRule
from ceras_ir.transforms.quantization.residuals import ResidualSpreadPass
from ceras_ir.transforms.quantization_options import ResidualSpreadOptions, TieOptions
from ceras_ir.transforms.rebuilding import erase_dead

MAX_BIAS_ERROR = 2.0**-5
"""
The maximum rounding error of a bias whose scale differs from the products, in units of the result.
The error of networks with usual scales is far smaller, and it changes only results near a tie.
"""


def qdq_form(op: graph.GraphOperation, target: UniformType) -> list[graph.GraphOperation] | None:
    """
    Return integer operations that compute `quantize(op(dequantize(...)))` with a result of type
    `target`; the last operation computes the result. Return `None` if there is no such form, so
    that the operation remains float.
    """
    if target.is_per_axis or target.is_bipolar:
        return None
    if (lookup := _table(op, target)) is not None:
        lookup.location = op.location
        return [lookup]
    operands = _operands(op, target)
    stored = [operand for operand in operands if operand is not None]
    if not stored or len(stored) < len(operands):
        return None
    if isinstance(op, graph.LinearOperation) and op.bias is not None:
        accumulator = accumulator_element(*stored[:2])
        steps = bias_in_accumulators(stored[2], accumulator)
        scales = np.array([s.data for s in accumulator.scales])
        error = (np.abs(steps - np.rint(steps)) * scales).max(initial=0.0)
        if error > MAX_BIAS_ERROR * target.scale:
            return None
    return integer_form(op, stored, target)


def _operands(op: graph.GraphOperation, target: UniformType) -> Sequence[SSAValue | None]:
    match op:
        case graph.DequantizeOp():
            return [None if graph.is_per_axis(op.input) else op.input]
        case graph.UnaryOp() if op.channel_exponents is None and op.function.clip_range:
            return [stored_operand(op.input, None)]
        case graph.LinearOperation():
            return [
                stored_operand(op.input),
                stored_weights(op.weights),
                *([] if op.bias is None else [constant_operand(op.bias)]),
                *([] if op.residual is None else [stored_operand(op.residual)]),
            ]
        case graph.BinaryOp():
            return [stored_operand(op.lhs), stored_operand(op.rhs)]
        case graph.Pool2dOp() if op.function is graph.Pool.AVERAGE:
            return [None if _has_lost_ties(op, target) else stored_operand(op.input)]
        case _:
            return []


def _has_lost_ties(op: graph.Pool2dOp, target: UniformType) -> bool:
    """
    Return whether ties of an average are frequent, but an integer multiplier for the division would
    round them in a wrong direction.

    Ties are frequent if the result has the scale of the input, and a window (or a partial window at
    the border) has an even number of elements. Return False if the number of elements of a full
    window is a power of two, such as 2x2, because the multiplier is then exact.
    """
    if (stored := stored_operand(op.input)) is None:
        return True
    source, size = graph.stored_element(stored), prod(op.kernel.get_values())
    rescales = abs(source.scale / target.scale - 1.0) > SAME_SCALE
    if only_shifts((source, target)) or size & (size - 1) == 0 or rescales:
        return False
    return size % 2 == 0 or (any(op.padding.get_values()) and not op.includes_padding)


def _table(op: graph.GraphOperation, target: UniformType) -> graph.LookupOp | None:
    """
    Return the lookup table that computes `quantize(op)` from stored integers. Return `None` if `op`
    does not compute a function of one argument, or if the argument is not dequantized.

    A clip before the function limits a table of 16-bit operands to fewer entries. Products with
    constant powers of two before and after the function become scales per channel of the table.
    """
    value, after = _unscaled(op.output)
    match value.owner:
        case graph.UnaryOp(channel_exponents=None) as unary:
            function = unary.function
            argument, before = _unscaled(unary.input)
        case graph.BinaryOp(activation=graph.FunctionAttr() as function):
            # The function was fused into the product before it.
            argument, before = _unscaled(value, activated=True)
        case _:
            return None
    if function.clip_range is not None or target.storage not in (i8, i16):
        return None
    bounds = None
    clip = argument.owner
    if isinstance(clip, graph.UnaryOp) and clip.function.data is graph.Function.CLIP:
        argument, bounds = clip.input, clip.function.values
    if not isinstance(argument.owner, graph.DequantizeOp):
        return None
    stored = argument.owner.input
    if (entries := _entries(graph.stored_element(stored), bounds)) is None:
        return None
    if before is None and after is None:
        return table(function, stored, target, entries, None)
    channels = graph.shape_of(stored)[-1]
    lists = [[0] if e is None else e for e in (before, after)]
    if any(len(each) not in (1, channels) for each in lists):
        return None
    inputs, results = (each * (channels // len(each)) for each in lists)
    return table(function, stored, target, entries, (inputs, [-e for e in results]))


def _entries(source: UniformType, bounds: tuple[float, ...] | None) -> int | None:
    """
    Return the number of entries of a lookup table for operands of the type `source`, or `None` if
    no table is possible. `bounds` are the limits of a clip before the function. For 16-bit operands
    they must be the range of the table; for int8 operands there must be no clip.
    """
    if source.is_per_axis:
        return None
    if source.storage == i8:
        return 256 if bounds is None else None
    # The range of a table of 16-bit operands is symmetric about zero.
    wide = source.storage.width.data == WIDE and source.is_signed and not source.zero_point
    if bounds is None or not wide:
        return None
    low, high = bounds[0] / source.scale, bounds[1] / source.scale
    if not np.isfinite([low, high]).all():
        return None
    entries = int(high) + 1 - int(low)
    symmetric = low == -entries // 2 and high == entries // 2 - 1
    return entries if symmetric and entries.bit_count() == 1 and entries >= 256 else None


def _unscaled(value: SSAValue, *, activated: bool = False) -> tuple[SSAValue, list[int] | None]:
    """
    If `value` is a float product with constant powers of two, return the other operand and the
    exponents: a single exponent, or an exponent per channel. Otherwise return `value` and `None`.
    With `activated`, the product must have an activation in the output stage; without, it must have
    no activation.
    """
    product = value.owner
    if not isinstance(product, graph.BinaryOp) or (product.activation is not None) != activated:
        return value, None
    if product.function is not graph.Binary.MUL or product.is_quantized:
        return value, None
    for operand, other in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
        factors = graph.constant_array(other)
        if factors is None or factors.dtype != np.float32 or operand.type != value.type:
            continue
        if any(extent != 1 for extent in factors.shape[:-1]):
            continue
        mantissas, exponents = np.frexp(factors.reshape(-1).astype(np.float64))
        if bool((mantissas == 0.5).all()):
            return operand, [int(e) - 1 for e in exponents]
    return value, None


def folded(op: graph.DequantizeOp) -> graph.ConstantOp | None:
    """Return the float constant that `op` computes, or `None` if the operand is not a constant."""
    constant = op.input.owner
    if not isinstance(constant, graph.ConstantOp):
        return None
    real = integer.dequantize(constant.array(), graph.stored_element(op.input))
    return graph.ConstantOp.from_array(real, location=op.location)


class FoldDequantize(RewritePattern):
    """Replace `dequantize(constant)` by a float constant."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.DequantizeOp, rewriter: PatternRewriter, /):
        if (constant := folded(op)) is not None:
            rewriter.replace(op, constant)


class FoldQuantize(RewritePattern):
    """Replace `quantize(constant)` by an integer constant."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.QuantizeOp, rewriter: PatternRewriter, /):
        constant, element = op.input.owner, graph.quantized_element(op.result)
        if isinstance(constant, graph.ConstantOp) and element is not None:
            real = constant.array().astype("float32", copy=False)
            stored = integer.quantize(real, element, op.mode)
            new = graph.ConstantOp.from_array(stored, element, location=op.location)
            rewriter.replace(op, new)


class QdqConstantRule(PatternPass):
    """
    Fold dequantization and quantization of constants, and remove unused constants.

    Exact: the interpreter computes the constants.

    Before:

        %c = graph.constant dense<[0.25, 1000.0]> : tensor<2xf32> : tensor<2xf32>
        %y = graph.quantize %c : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.125>>

    After:

        %y = graph.constant dense<[2, 127]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32, 0.125>>
    """

    name = "constants"
    pattern = GreedyRewritePatternApplier([FoldDequantize(), FoldQuantize()])


@dataclass(frozen=True)
class QdqOperationRule(TieOptions, ResidualSpreadPass):
    """
    Replace `quantize(op(dequantize(x), ...))` by `op` on integers.

    The result has a requantization with multiplier, shift and zero point. A clipping activation
    becomes the clamp range; other functions become lookup tables. `quantize(dequantize(x))` becomes
    `x`, or `graph.requantize`.

    A float result remains float in each of these cases:

    1. `graph.precision` requires it.
    2. It has other consumers, or is quantized to several types.
    3. `graph.half_even` requires even ties, but the integer operation multiplies by an inexact
       reciprocal, or the target rounds half up and the operation is no layer.
    4. The per-channel shifts of the residual would differ by more than `residual_spread`.
    5. The quantization rounds ties away from zero.
    6. The scales of other values are snapped to powers of two, and it has other scales because it
       has only arguments and results.

    In a network that already has integer operations, `quantize(dequantize(x))` between two types is
    kept: a shift could round ties differently, and a quantized network must keep its results.

    Shifts round half up, and half to even with `graph.half_even`. If the target does not round half
    to even, a note on stderr gives the number of layers that round half up instead.

    Only adjacent operations are replaced; `signs`, `sink` and `hoist` make them adjacent. Results
    differ from the float operations by at most one unit (see `integer_forms`). Exact for the
    identity.
    """

    name = "operations"

    def change(self, main: FuncOp) -> None:
        block, moved = main.body.block, 0
        has_integers = any(
            "requant" in op.properties and not isinstance(op, graph.RequantizeOp)
            for op in block.ops
        )
        for quantize in list(block.ops):
            if not isinstance(quantize, graph.QuantizeOp):
                continue
            source, target = quantize.input.owner, graph.quantized_element(quantize.result)
            assert target is not None
            if not isinstance(source, graph.GraphOperation) or is_kept_in_float(source):
                continue
            # No requantization rounds as a kernel does.
            if quantize.has_kernel_form and quantize.input.type != quantize.result.type:
                continue
            # An ordered float sum was left in float on purpose.
            if isinstance(source, graph.LinearOperation) and source.ordered is not None:
                continue
            if isinstance(source, graph.DequantizeOp):
                if source.input.type == quantize.result.type:
                    quantize.result.replace_all_uses_with(source.input)
                    continue
                if has_integers:
                    continue
            elif not is_quantized_alike(quantize):
                continue
            new = qdq_form(source, target)
            if new is None or (new := fitted(new)) is None or self._exceeds_spread(new[-1]):
                continue
            if HALF_EVEN in quantize.attributes and _rounds_half_up(new[-1]):
                if self.even and _shifts_only(new[-1]):
                    _round_to_even(new[-1], source, target)
                elif isinstance(source, graph.LinearOperation):
                    moved += 1
                else:
                    continue
            # The scales of arguments and results are not snapped, and the target cannot multiply.
            if SNAPPED in main.attributes and needs_multiplier(new[-1]):
                continue
            Rewriter.insert_op(new, InsertPoint.before(quantize))
            new[-1].output.name_hint = quantize.result.name_hint
            for use in list(quantize.input.uses):
                user = use.operation
                if isinstance(user, graph.QuantizeOp) and user.result.type == quantize.result.type:
                    user.result.replace_all_uses_with(new[-1].output)
        for op in block.ops:
            op.attributes.pop(HALF_EVEN, None)
        erase_dead(block)
        if moved:
            layers = "1 layer rounds" if moved == 1 else f"{moved} layers round"
            remark(f"fold-qdq: note: {layers} ties up, not to even as in the model")

    def _exceeds_spread(self, op: graph.GraphOperation) -> bool:
        shifts = op.residual_shifts if isinstance(op, graph.LinearOperation) else (0,)
        return max(shifts) - min(shifts) > self.residual_spread


def _rounds_half_up(op: graph.GraphOperation) -> bool:
    """
    Return whether the integers of `op` are rounded half up by a shift, so that ties are frequent.
    """
    requant = op.properties.get("requant")
    if not isinstance(requant, RequantAttr) or requant.mode is not Rounding.HALF_UP:
        return False
    if isinstance(op, graph.LinearOperation):
        return _shifts_only(op) and max(requant.net_shifts) > 0
    return only_shifts(stored_types(op)) and requant.shift.data > 0


def _shifts_only(op: graph.GraphOperation) -> bool:
    """Return whether all multipliers of the requantization of `op` are powers of two."""
    requant = op.properties["requant"]
    assert isinstance(requant, RequantAttr)
    return all(m.bit_count() == 1 for m in requant.multipliers)


def _round_to_even(
    op: graph.GraphOperation, source: graph.GraphOperation, target: UniformType
) -> None:
    """
    Change the rounding of the integers of `op` to half to even, that of the clamp range included.
    `source` is the float form, of which the results have the type `target`.
    """
    requant = op.properties["requant"]
    assert isinstance(requant, RequantAttr)
    low, high = target.low, target.high
    name = "function" if isinstance(source, graph.UnaryOp) else "activation"
    if isinstance(activation := source.properties.get(name), graph.FunctionAttr):
        clip = np.array(activation.clip_range, np.float32)
        low, high = (int(bound) for bound in integer.quantize(clip, target))
    op.properties["requant"] = requant.replaced(rounding=Rounding.HALF_EVEN, low=low, high=high)


@dataclass(frozen=True)
class FoldQdqPass(TieOptions, ResidualSpreadOptions, RulePass):
    """
    Convert a network with QuantizeLinear and DequantizeLinear to integers.

    The first rules move both next to the operations between them, so that `operations` only handles
    adjacent operations. In a network without Q/DQ, only quantization and dequantization of
    constants is folded.

    Before:

        %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
        %b = graph.dequantize %z : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
        %c = graph.binary add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %y = graph.quantize %c : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.0>>

    After:

        %y = graph.binary add %x, %z
            {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>}
            : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>)
            -> tensor<4x!quant.uniform<i8:f32, 1.0>>
    """

    name = "fold-qdq"

    thresholds: bool = False
    """The target has `graph.threshold`."""

    def table(self) -> tuple[ModulePass, ...]:
        return (
            SignRule(),
            SinkRule(),
            HoistRule(),
            TieRule(),
            QdqOperationRule(self.residual_spread, self.even),
            *((ThresholdRule(), SumRule()) if self.thresholds else ()),
            # `sink` can move a zero padding before a layer that `operations` leaves in float.
            PadRule(),
            QdqConstantRule(),
        )
