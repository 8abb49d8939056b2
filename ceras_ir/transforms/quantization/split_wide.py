"""
Convert layers with 16-bit operands or results to two 8-bit layers, for 8-bit accelerators.

Each of the two layers computes a byte of the operand or of the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.linear import MAX_RESIDUAL_SHIFT
from ceras_ir.dialects.quant import BYTE_BITS, RequantAttr, Rounding, UniformType
from ceras_ir.dialects.sparse import MASK
from ceras_ir.network.integer import INT8_HIGH, INT8_LOW
from ceras_ir.network.storage import LAYER, NARROW, WIDE
from ceras_ir.transforms.pass_kinds import RulePass
from ceras_ir.transforms.quantization.integer_forms import accumulator_element
from ceras_ir.transforms.quantization.residuals import ResidualSpreadPass
from ceras_ir.transforms.quantization_options import ResidualSpreadOptions
from ceras_ir.transforms.rebuilding import erase_unused, erase_with_constants, rebuild_linear

MIN_JOINED, MAX_JOINED = INT8_LOW - (INT8_HIGH << BYTE_BITS), INT8_HIGH - (INT8_LOW << BYTE_BITS)
"""The bounds of a lower byte minus 2^8 times a negated upper byte."""


def may_be_split(op: graph.LinearOperation, widths: Sequence[int]) -> bool:
    """
    Return whether a layer can be split into two layers with the same weights. `widths` are the
    required bits of operand and result. The scales must be powers of two, and no weight may be the
    lowest integer, such as -128, because the weights are negated.
    """
    types = [graph.quantized_element(v) for v in (op.input, op.results[0])]
    kind, weights = graph.quantized_element(op.weights), graph.constant_array(op.weights)
    if op.requant is None or op.table is not None or op.has_single_channel_groups or None in types:
        return False
    if [t.storage.width.data for t in types if t] != list(widths):
        return False
    if kind is None or weights is None or op.encoded_weights is not None:
        return False
    if kind.width > NARROW or not kind.is_signed or any(p.data for p in kind.zero_points):
        return False
    powers = all(m & (m - 1) == 0 for m in op.requant.multipliers)
    return powers and op.requant.mode is Rounding.HALF_UP and weights.min(initial=0) > kind.low


DEVIATIONS = 4.0
"""The standard deviations of sums of products with random bytes that 8 bits must represent."""


class Bytes(NamedTuple):
    """
    The two 8-bit halves of a 16-bit value after subtraction of the zero point: the value is `lower
    + 256 * upper` or, if `negated`, `lower - 256 * upper`.
    """

    upper: SSAValue
    lower: SSAValue
    negated: bool


@dataclass(frozen=True)
class WideInputRule(ResidualSpreadPass):
    """
    Convert a layer with a 16-bit operand to two layers with 8-bit operands. The operand `x` is
    `256 * upper + lower`, and both bytes have a sign.

    1. The first layer multiplies the weights by `lower`. The result has 8 bits. The scale is the
       smallest power of two with which four standard deviations of the sum are in range, if bytes
       are random.
    2. The second layer multiplies the weights by `upper`, and adds the result of the first layer as
       the residual.

    If the rule `results` split the producer of `x` into two layers, their results are the two
    bytes. Otherwise operations that extract the bytes are added. An 8-bit accelerator needs twice
    the time of a single layer, but it could not compute the 16-bit layer at all.

    A layer is left unchanged in each of these cases:

    1. It has a residual, a lookup table as activation, a requantization by a multiplier (which is
       not a power of two), or a result of more than 8 bits.
    2. It is depthwise.
    3. The largest scale of the output channels is more than `2^residual_spread` times the smallest.
    4. The scale of the first result would be larger than that of the final result.

    Not exact: the first result is rounded by at most half a step of the final result, it is clipped
    if bytes are far from random, and the bias is rounded to 2^8 steps of the accumulator. Values
    above 32639, the maximum of both bytes, become 32639.
    """

    name = "inputs"

    def change(self, main: FuncOp) -> None:
        known: dict[SSAValue, Bytes] = {}
        for linear in list(main.body.block.ops):
            if not isinstance(linear, graph.LinearOperation) or linear.residual is not None:
                continue
            if may_be_split(linear, (WIDE, NARROW)):
                _split_input(linear, known, self.residual_spread)


def _split_input(op: graph.LinearOperation, known: dict[SSAValue, Bytes], spread: int) -> None:
    requant = op.requant
    assert requant is not None
    weights = graph.known_array(op.weights).astype(np.int64)
    shifts = np.broadcast_to(requant.net_shifts, len(weights))
    rows = np.abs(weights).reshape(len(weights), -1)
    spread_of_bytes = (1 << BYTE_BITS) / 12**0.5
    likely = DEVIATIONS * spread_of_bytes * np.sqrt(np.square(rows).sum(1))
    max_sums = np.minimum(likely, -INT8_LOW * rows.sum(1))
    needed = np.maximum(np.ceil(np.log2(np.maximum(max_sums, 1) / INT8_HIGH)), BYTE_BITS).astype(
        int
    )
    finer = int((shifts - needed).min())
    moved = shifts - finer - BYTE_BITS
    if finer < 0 or np.ptp(shifts) > spread or moved.max() > MAX_RESIDUAL_SHIFT:
        return
    if op.input not in known:
        known[op.input] = _bytes_of(op.input)
    upper, lower, negated = known[op.input]
    target = graph.stored_element(op.results[0])
    share = rebuild_linear(
        op,
        {
            "requant": requant.replaced(
                shift=requant.shift.data - finer, zero_point=0, low=INT8_LOW, high=INT8_HIGH
            )
        },
        input=lower,
        bias=None,
        element=UniformType(target.scale * 2.0**-finer),
    )
    share.attributes.pop(LAYER, None)
    new: list[graph.GraphOperation] = [share]
    turned = op.weights
    if negated:
        element = graph.stored_element(op.weights)
        new.append(graph.ConstantOp.from_array((-weights).astype(np.int8), element))
        turned = new[-1].results[0]
    bias: SSAValue | None = None
    if op.bias is not None:
        coarse = np.rint(graph.known_array(op.bias).astype(np.float64) / (1 << BYTE_BITS))
        element = accumulator_element(upper, turned)
        offset = graph.ConstantOp.from_array(coarse.astype(np.int32), element)
        new.append(offset)
        bias = offset.result
    joined = rebuild_linear(
        op,
        {
            "requant": requant.replaced(shift=requant.shift.data - BYTE_BITS),
            "residual_shift": graph.shifts_of_channels([int(s) for s in moved]),
        },
        input=upper,
        weights=turned,
        bias=bias,
        residual=share.results[0],
    )
    new.append(joined)
    for part in new:
        part.location = op.location
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.results[0].replace_all_uses_with(joined.results[0])
    source = op.input.owner
    erase_with_constants(op)
    if isinstance(source, Operation):
        erase_unused(source)


def _bytes_of(value: SSAValue) -> Bytes:
    """
    Return the two 8-bit halves of a 16-bit value. If two layers have computed them, their results
    are returned; otherwise operations are added that extract them.
    """
    owner, element = value.owner, graph.stored_element(value)
    if isinstance(owner, graph.BinaryOp) and _joins_bytes(owner):
        return Bytes(owner.rhs, owner.lhs, negated=True)
    step = UniformType(element.scale)
    upper = graph.RequantizeOp(value, step.rescaled(2.0**BYTE_BITS), RequantAttr(BYTE_BITS))
    lower = graph.BinaryOp(
        graph.Binary.SUB,
        value,
        upper.result,
        result_element=step,
        shifts=(0, BYTE_BITS),
        requant=RequantAttr(0),
    )
    if isinstance(owner, Operation):
        upper.location = lower.location = owner.location
        place = InsertPoint.after(owner)
    else:
        place = InsertPoint.at_start(owner)
    Rewriter.insert_op([upper, lower], place)
    return Bytes(upper.result, lower.result, negated=False)


def _joins_bytes(op: graph.BinaryOp) -> bool:
    requant = op.requant
    if op.function is not graph.Binary.SUB or requant is None or requant.shift.data:
        return False
    elements = [graph.quantized_element(v) for v in (op.lhs, op.rhs)]
    if any(e is None or e.storage.width.data != NARROW or e.zero_point for e in elements):
        return False
    shifts = op.lhs_shift.value.data, op.rhs_shift.value.data
    factors = op.lhs_multiplier, op.rhs_multiplier, op.activation
    if shifts != (0, BYTE_BITS) or requant.multiplier.data != 1 or any(factors):
        return False
    min_joined, max_joined = (requant.zero_point.data + end for end in (MIN_JOINED, MAX_JOINED))
    return requant.low.data <= max(min_joined, -(1 << WIDE - 1)) and requant.high.data >= min(
        max_joined, (1 << WIDE - 1) - 1
    )


@dataclass(frozen=True)
class WideResultRule(ResidualSpreadPass):
    """
    Convert a layer with a 16-bit result to two layers with 8-bit results, and a sum:

    1. The upper byte, negated: the layer with negated weights and bias, in steps 2^8 as coarse.
    2. The lower byte: the layer, with the negated upper byte as the residual.
    3. The 16-bit result: the lower byte minus 2^8 times the negated upper byte.
    4. A residual is added afterwards in 16 bits. The steps of the first three are then doubled, so
       that only the sum saturates at 16 bits.

    An 8-bit accelerator needs twice the time for both layers, but would leave a 16-bit layer to the
    host. A layer is left unchanged in each of these cases:

    1. It has 16-bit operands or a multiplier, or is depthwise.
    2. The scales of the output channels are more than `residual_spread` octaves apart.
    3. The only consumer is a `graph.shift_swish`, which accelerators compute on the sum.

    Exact, except that values below -32640, the minimum of both bytes, become -32640. With a
    residual, the result is off by at most a step, and products saturate at twice the range of 16
    bits.
    """

    name = "results"

    def change(self, main: FuncOp) -> None:
        for linear in list(main.body.block.ops):
            if not isinstance(linear, graph.LinearOperation):
                continue
            swishes = (isinstance(u.operation, graph.ShiftSwishOp) for u in linear.results[0].uses)
            if may_be_split(linear, (NARROW, WIDE)) and not all(swishes):
                _split_result(linear, self.residual_spread)


def _split_result(op: graph.LinearOperation, spread: int) -> None:
    requant, target = op.requant, graph.stored_element(op.results[0])
    assert requant is not None
    # Doubled steps leave a margin for the value that a residual subtracts.
    coarser = int(op.residual is not None)
    shifts = np.array(requant.net_shifts) + coarser
    if shifts.min() < 0 or shifts.max() + BYTE_BITS > MAX_RESIDUAL_SHIFT or np.ptp(shifts) > spread:
        return
    added = _shift_of_residual(op)
    if added is None or not 0 <= added <= graph.BinaryOp.MAX_SHIFT:
        return
    weights = graph.known_array(op.weights).astype(np.int8)
    total = np.zeros(len(weights), np.int64)
    if op.bias is not None:
        total += graph.known_array(op.bias).astype(np.int64)
    # Round down. The rounded lower byte is then never below -128.
    total = -total - (1 << shifts >> 1) - 1
    if np.abs(total).max() >= 1 << 31:
        return
    negated = graph.ConstantOp.from_array(-weights, graph.stored_element(op.weights))
    accumulator = accumulator_element(op.input, op.weights)
    offset = graph.ConstantOp.from_array(total.astype(np.int32), accumulator)
    element = UniformType(target.scale * 2.0**coarser)

    def bytes_of(more: int) -> dict[str, Attribute | None]:
        shift = requant.shift.data + coarser + more
        byte = requant.replaced(shift=shift, zero_point=0, low=INT8_LOW, high=INT8_HIGH)
        return {"requant": byte, "residual_shift": None}

    upper = rebuild_linear(
        op,
        bytes_of(BYTE_BITS),
        weights=negated.result,
        bias=offset.result,
        residual=None,
        element=element.rescaled(2.0**BYTE_BITS),
    )
    moved = graph.shifts_of_channels([int(s) + BYTE_BITS for s in shifts])
    lower = rebuild_linear(
        op, bytes_of(0) | {"residual_shift": moved}, residual=upper.results[0], element=element
    )
    bounds = requant.zero_point.data, requant.low.data, requant.high.data
    joined_element, (point, low, high) = target, bounds
    if op.residual is not None:
        joined_element = UniformType(element.scale, storage=target.storage)
        point, low, high = 0, joined_element.low, joined_element.high
    joined = graph.BinaryOp(
        graph.Binary.SUB,
        lower.results[0],
        upper.results[0],
        result_element=joined_element,
        shifts=(0, BYTE_BITS),
        requant=RequantAttr(0, zero_point=point, low=max(low, MIN_JOINED + point), high=high),
    )
    new = [negated, offset, upper, lower, joined]
    if op.residual is not None:
        point, low, high = bounds
        new.append(
            graph.BinaryOp(
                graph.Binary.ADD,
                joined.result,
                op.residual,
                result_element=target,
                shifts=(coarser, added),
                requant=RequantAttr(0, zero_point=point, low=low, high=high),
            )
        )
    new[-1].attributes.update(op.attributes)
    new[-1].attributes.pop(MASK, None)
    for part in new:
        part.location = op.location
    for part in (upper, lower):
        part.attributes.pop(LAYER, None)
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.results[0].replace_all_uses_with(new[-1].results[0])
    erase_with_constants(op)


def _shift_of_residual(op: graph.LinearOperation) -> int | None:
    if op.residual is None or op.requant is None:
        return 0
    found = set[int]((np.array(op.residual_shifts) - op.requant.net_shifts).tolist())
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True)
class SplitWidePass(ResidualSpreadOptions, RulePass):
    """
    Convert layers with 16-bit operands or results to two layers for 8-bit accelerators.

    Before:

        %w = graph.constant dense<[[1, -127]]> : tensor<1x2xi8>
            : tensor<1x2x!quant.uniform<i8:f32, 1.0>>
        %y = graph.matmul %x, %w
            {requant = #graph.requant<shift = 15, rounding = half_up, low = -128, high = 127>}
            : (tensor<1x2x!quant.uniform<i16:f32, 1.0>>, tensor<1x2x!quant.uniform<i8:f32, 1.0>>)
            -> tensor<1x1x!quant.uniform<i8:f32, 32768.0>>

    After:

        %u = graph.requantize %x
            {requant = #graph.requant<shift = 8, rounding = half_up, low = -128, high = 127>}
            : (tensor<1x2x!quant.uniform<i16:f32, 1.0>>)
            -> tensor<1x2x!quant.uniform<i8:f32, 256.0>>
        %l = graph.binary sub %x, %u {rhs_shift = 8 : i64,
            requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>}
            : (tensor<1x2x!quant.uniform<i16:f32, 1.0>>, tensor<1x2x!quant.uniform<i8:f32, 256.0>>)
            -> tensor<1x2x!quant.uniform<i8:f32, 1.0>>
        %w = graph.constant dense<[[1, -127]]> : tensor<1x2xi8>
            : tensor<1x2x!quant.uniform<i8:f32, 1.0>>
        %s = graph.matmul %l, %w
            {requant = #graph.requant<shift = 8, rounding = half_up, low = -128, high = 127>}
            : (tensor<1x2x!quant.uniform<i8:f32, 1.0>>, tensor<1x2x!quant.uniform<i8:f32, 1.0>>)
            -> tensor<1x1x!quant.uniform<i8:f32, 256.0>>
        %y = graph.matmul %u, %w residual %s : tensor<1x1x!quant.uniform<i8:f32, 256.0>>
            {residual_shift = 0 : i64,
            requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>}
            : (tensor<1x2x!quant.uniform<i8:f32, 256.0>>, tensor<1x2x!quant.uniform<i8:f32, 1.0>>)
            -> tensor<1x1x!quant.uniform<i8:f32, 32768.0>>
    """

    name = "split-wide"

    def table(self) -> tuple[ModulePass, ...]:
        return WideResultRule(self.residual_spread), WideInputRule(self.residual_spread)
