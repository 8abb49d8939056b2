"""
Compute a network that has Q/DQ in integers.

The first part makes the operation on integers for a float one between `graph.dequantize` and
`graph.quantize`. What the operation reads is looked up here, and what has no integers that are
faithful to the model stays float; the rest is `integer_forms`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntAttr, i8, i16
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
from ceras_ir.network.storage import NARROW, WIDE, is_kept_in_float
from ceras_ir.transforms.graph.fuse_windows import PadRule
from ceras_ir.transforms.pass_kinds import PatternPass, RulePass
from ceras_ir.transforms.quantization.accumulators import fitted
from ceras_ir.transforms.quantization.analysis.qdq import (
    HALF_EVEN,
    is_quantized_alike,
    stored_types,
)
from ceras_ir.transforms.quantization.analysis.rescaling import only_shifts, table
from ceras_ir.transforms.quantization.integer_forms import (
    SAME_SCALE,
    accumulator_element,
    bias_in_accumulators,
    integer_form,
)
from ceras_ir.transforms.quantization.qdq_rules import HoistRule, SignRule, SinkRule, TieRule
from ceras_ir.transforms.quantization.residuals import ResidualSpreadPass
from ceras_ir.transforms.quantization_options import ResidualSpreadOptions
from ceras_ir.transforms.rebuilding import erase_dead

# The operation on integers for a float one between `graph.dequantize` and `graph.quantize`.
#
# What it reads is looked up here, and what has no integers that are faithful to the model stays
# float; the rest is `integer_forms`.

BIAS_ERROR = 2.0**-5
"""
How far a bias of another scale than the products may move, in units of the result. Networks with
ordinary scales are far below it, and results move only this close to a tie.
"""


def qdq_form(op: graph.GraphOperation, target: UniformType) -> list[graph.GraphOperation] | None:
    """
    The operations that compute `quantize(op(dequantize(...)))`, the last one its result; None
    where there is no such form and the numbers stay float.
    """
    if target.is_per_axis:
        return None
    if (made := _table(op, target)) is not None:
        made.location = op.location
        return [made]
    operands = _operands(op, target)
    stored = [operand for operand in operands if operand is not None]
    if not stored or len(stored) < len(operands):
        return None
    if isinstance(op, graph.LinearOperation) and op.bias is not None:
        accumulator = accumulator_element(*stored[:2])
        if _rounding_of_bias(stored[2], accumulator) > BIAS_ERROR * target.scale:
            return None
    return integer_form(op, stored, target)


def _rounding_of_bias(bias: SSAValue, accumulator: UniformType) -> float:
    """How far a real bias moves when it is rounded to accumulators, at most."""
    steps = bias_in_accumulators(bias, accumulator)
    scales = np.array([s.data for s in accumulator.scales])
    return float((np.abs(steps - np.rint(steps)) * scales).max(initial=0.0))


def _operands(op: graph.GraphOperation, target: UniformType) -> Sequence[SSAValue | None]:
    """The stored operands, with None for those that are not stored as integers take them."""
    match op:
        case graph.DequantizeOp():
            return [None if graph.is_per_axis(op.input) else op.input]
        case graph.UnaryOp() if op.channel_exponents is None and op.function.clip_range:
            return [_stored(op.input, None)]
        case graph.LinearOperation():
            return [
                _stored(op.input),
                _weights(op.weights),
                *([] if op.bias is None else [_constant(op.bias)]),
                *([] if op.residual is None else [_stored(op.residual)]),
            ]
        case graph.BinaryOp():
            return [_stored(op.lhs), _stored(op.rhs)]
        case graph.Pool2dOp() if op.function is graph.Pool.AVERAGE:
            return [None if _has_lost_ties(op, target) else _stored(op.input)]
        case _:
            return []


def _stored(value: SSAValue, widest: int | None = WIDE) -> SSAValue | None:
    """The integers, of one scale and so many bits at most, that the float `value` is made of."""
    owner = value.owner
    if not isinstance(owner, graph.DequantizeOp) or graph.is_per_axis(owner.input):
        return None
    bits = graph.stored_element(owner.input).storage.width.data
    return None if widest is not None and bits > widest else owner.input


def _weights(value: SSAValue) -> SSAValue | None:
    """Constant weights of 8 bits, which kernels unpack when compiled; computed ones stay float."""
    stored = _constant(value)
    kind = None if stored is None else graph.quantized_element(stored)
    if kind is None or kind.storage.width.data != NARROW:
        return None
    # Scales of another dimension than the outputs' cannot be taken out of the sum.
    return None if isinstance(kind.axis, IntAttr) and kind.axis.data != 0 else stored


def _constant(value: SSAValue) -> SSAValue | None:
    """The constant that `value` is, or is made of."""
    owner = value.owner
    source = owner.input if isinstance(owner, graph.DequantizeOp) else value
    return source if isinstance(source.owner, graph.ConstantOp) else None


def _has_lost_ties(op: graph.Pool2dOp, target: UniformType) -> bool:
    """
    Whether sums half way between two results are common but reciprocals would miss them: the
    result has the scale of the input, and some window an even number of elements. Only powers of
    two have a reciprocal in binary; and those of partial windows come from that of a full one.
    """
    if (stored := _stored(op.input)) is None:
        return True
    source, size = graph.stored_element(stored), prod(op.kernel.get_values())
    apart = abs(source.scale / target.scale - 1.0) > SAME_SCALE
    if only_shifts((source, target)) or size & (size - 1) == 0 or apart:
        return False
    return size % 2 == 0 or (any(op.padding.get_values()) and not op.includes_padding)


def _table(op: graph.GraphOperation, target: UniformType) -> graph.LookupOp | None:
    """
    The table that computes `quantize(op)`; None where `op` is no function. Before it may stand
    what a table on 16 bits has instead of more entries, a clip, and around it powers of two for the
    channels, as products with constants.
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
    if isinstance(clip, graph.UnaryOp) and clip.function.kind is graph.Function.CLIP:
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
    """How many entries a table has, from the clip that stands for its ends."""
    if source.is_per_axis:
        return None
    if source.storage == i8:
        return 256 if bounds is None else None
    # A table on 16 bits has zero in its middle.
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
    What is multiplied by constant powers of two, and their exponents, one or one a channel; of a
    product with a function behind it if it is `activated`.
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


class FoldDequantize(RewritePattern):
    """`dequantize(constant)` becomes a float constant."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.DequantizeOp, rewriter: PatternRewriter, /):
        constant, element = op.input.owner, graph.quantized_element(op.input)
        if isinstance(constant, graph.ConstantOp) and element is not None:
            real = integer.dequantize(constant.array(), element)
            rewriter.replace(op, graph.ConstantOp.from_array(real, location=op.location))


class FoldQuantize(RewritePattern):
    """`quantize(constant)` becomes a constant of integers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.QuantizeOp, rewriter: PatternRewriter, /):
        constant, element = op.input.owner, graph.quantized_element(op.result)
        if isinstance(constant, graph.ConstantOp) and element is not None:
            stored = integer.quantize(constant.array().astype("float32", copy=False), element)
            new = graph.ConstantOp.from_array(stored, element, location=op.location)
            rewriter.replace(op, new)


class QdqConstantRule(PatternPass):
    """
    Dequantize and quantize constants at compile time, and drop those that nobody reads.

    Exact: the interpreter itself computes them.
    """

    name = "constants"
    pattern = GreedyRewritePatternApplier([FoldDequantize(), FoldQuantize()])


@dataclass(frozen=True)
class QdqOperationRule(ResidualSpreadPass):
    """
    Replace `quantize(op(dequantize(x), ...))` by `op` on integers. The result has a requantization
    of multiplier, shift and zero point. An activation that clips becomes its clamp range; other
    functions become tables. `quantize(dequantize(x))` becomes `x`, or `graph.requantize`.

    A float result stays float if its `graph.precision` says so, if anything else reads it, if it
    is quantized in two ways, if the integer operation cannot round as its `graph.half_even` asks,
    or if it would have to shift residuals further apart than `residual_spread`. If the network
    already has integer operations, `quantize(dequantize(x))` of two types also remains: a shift can
    round ties to the other side, and a quantized network has to compute the same again.

    Only neighbours count, as `signs`, `sink` and `hoist` leave them. Off by at most one unit of the
    result against the float operations (see `integer_forms`); exact for the identity.
    """

    name = "operations"

    def change(self, main: FuncOp) -> None:
        block = main.body.block
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
            # The order of sums is chosen for what was left in floats.
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
            if new is None or (new := fitted(new)) is None or self._is_apart(new[-1]):
                continue
            if HALF_EVEN in quantize.attributes and _takes_ties_up(new[-1]):
                continue
            Rewriter.insert_op(new, InsertPoint.before(quantize))
            new[-1].output.name_hint = quantize.result.name_hint
            for use in list(quantize.input.uses):
                reader = use.operation
                if isinstance(reader, graph.QuantizeOp) and reader.result.type == (
                    quantize.result.type
                ):
                    reader.result.replace_all_uses_with(new[-1].output)
        for left in block.ops:
            left.attributes.pop(HALF_EVEN, None)
        erase_dead(block)

    def _is_apart(self, op: graph.GraphOperation) -> bool:
        """Whether the residual's shifts of a sum are too far apart."""
        shifts = op.residual_shifts if isinstance(op, graph.LinearOperation) else (0,)
        return max(shifts) - min(shifts) > self.residual_spread


def _takes_ties_up(op: graph.GraphOperation) -> bool:
    """Whether ties of a rescaling by shifts go up, other than in a product, which always does."""
    requant = op.properties.get("requant")
    if isinstance(op, graph.LinearOperation) or not isinstance(requant, RequantAttr):
        return False
    shifts = only_shifts(stored_types(op))
    return shifts and requant.mode is Rounding.HALF_UP and requant.shift.data > 0


@dataclass(frozen=True)
class FoldQdqPass(ResidualSpreadOptions, RulePass):
    """
    Compute a network with QuantizeLinear and DequantizeLinear in integers.

    The first rules bring both next to the operations between them, so that `operations` only has
    to look at neighbours. A network without Q/DQ is unchanged, except that constants that are
    dequantized or quantized are computed.
    """

    name = "fold-qdq"

    def table(self) -> tuple[ModulePass, ...]:
        return (
            SignRule(),
            SinkRule(),
            HoistRule(),
            TieRule(),
            QdqOperationRule(self.residual_spread),
            # `sink` can move zeros to a layer that `operations` then leaves in float.
            PadRule(),
            QdqConstantRule(),
        )
