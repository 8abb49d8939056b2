"""
Compute layers with values of 16 bits by layers of 8 bits, for accelerators of 8 bits.

A layer is computed twice, once for each byte of the input or of the result.
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
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.dialects.sparse import MASK
from ceras_ir.network.integer import INT8_HIGH, INT8_LOW
from ceras_ir.network.storage import LAYER, NARROW, WIDE
from ceras_ir.transforms.pass_kinds import RulePass
from ceras_ir.transforms.quantization.integer_forms import accumulator_element
from ceras_ir.transforms.quantization.residuals import ResidualSpreadPass
from ceras_ir.transforms.quantization_options import ResidualSpreadOptions
from ceras_ir.transforms.rebuilding import erase_unused, erase_with_constants, rebuild_linear

# What the passes that compute a layer twice, once for each byte, have in common.

BYTE = WIDE - NARROW

LEAST, MOST = INT8_LOW - (INT8_HIGH << BYTE), INT8_HIGH - (INT8_LOW << BYTE)
"""The least and the most that a lower byte less 2^8 times a negated upper one says."""


def may_be_split(op: graph.LinearOperation, widths: Sequence[int]) -> bool:
    """
    Whether a layer whose input and result have so many bits may be computed twice, by powers of two
    and with negated weights: int8 without zero point, at least -127.
    """
    types = [graph.quantized_element(v) for v in (op.input, op.results[0])]
    kind, weights = graph.quantized_element(op.weights), graph.constant_array(op.weights)
    if op.requant is None or op.table is not None or op.has_single_channel_groups or None in types:
        return False
    if [t.storage.width.data for t in types if t] != list(widths):
        return False
    if kind is None or weights is None or op.encoded_weights is not None:
        return False
    if (
        kind.storage.width.data != NARROW
        or not kind.is_signed
        or any(p.data for p in kind.zero_points)
    ):
        return False
    powers = all(m & (m - 1) == 0 for m in op.requant.multipliers)
    return powers and op.requant.mode is Rounding.HALF_UP and weights.min(initial=0) >= -INT8_HIGH


# Read a value of 16 bits by two layers of 8 bits, which an accelerator of 8 bits computes.

DEVIATIONS = 4.0
"""Standard deviations of products with random bytes that their sums in 8 bits reach."""


class Bytes(NamedTuple):
    """A value of 16 bits less its zero point: `lower` + 2^8 `upper`, or less it, if `negated`."""

    upper: SSAValue
    lower: SSAValue
    negated: bool


@dataclass(frozen=True)
class WideInputRule(ResidualSpreadPass):
    """
    Compute a layer that reads 16 bits as two that read 8 bits:

    1. Its share of the lower byte: the products with it, in 8 bits, at the finest power of two that
       four standard deviations of products with random bytes fit.
    2. The layer on the upper byte, with that share as its residual.

    The bytes are those of two layers that `results` made, if it made the value, and
    operations of their own elsewhere. An accelerator of 8 bits takes twice the time for both layers
    together, where it would leave one that reads 16 bits to its host. Layers with a residual, a
    table, more than 8 bits in their result, products that share nothing, or multipliers stay. So do
    those whose rows of weights have scales that are more than `residual_spread` octaves apart, and
    those whose share would have longer steps than their result.

    Rounds the share once more, to at most half a step of the result, clips it where bytes are far
    from random, and rounds the bias to 2^8 steps of the accumulator. Numbers above 32639 become
    that, the most that both bytes can say.
    """

    name = "inputs"

    def change(self, main: FuncOp) -> None:
        known: dict[SSAValue, Bytes] = {}
        for linear in list(main.body.block.ops):
            if isinstance(linear, graph.LinearOperation) and _reads_wide(linear):
                _split_input(linear, known, self.residual_spread)


def _reads_wide(op: graph.LinearOperation) -> bool:
    """Whether a layer makes 8 bits of 16, and may be computed twice."""
    return may_be_split(op, (WIDE, NARROW)) and op.residual is None


def _split_input(op: graph.LinearOperation, known: dict[SSAValue, Bytes], spread: int) -> None:
    requant = op.requant
    assert requant is not None
    weights = graph.known_array(op.weights).astype(np.int64)
    shifts = np.broadcast_to(requant.net_shifts, len(weights))
    rows = np.abs(weights).reshape(len(weights), -1)
    spread_of_bytes = (1 << BYTE) / 12**0.5
    likely = DEVIATIONS * spread_of_bytes * np.sqrt(np.square(rows).sum(1))
    most = np.minimum(likely, -INT8_LOW * rows.sum(1))
    needed = np.maximum(np.ceil(np.log2(np.maximum(most, 1) / INT8_HIGH)), BYTE).astype(int)
    finer = int((shifts - needed).min())
    moved = shifts - finer - BYTE
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
    made: list[graph.GraphOperation] = [share]
    turned = op.weights
    if negated:
        element = graph.stored_element(op.weights)
        made.append(graph.ConstantOp.from_array((-weights).astype(np.int8), element))
        turned = made[-1].results[0]
    bias: SSAValue | None = None
    if op.bias is not None:
        coarse = np.rint(graph.known_array(op.bias).astype(np.float64) / (1 << BYTE))
        element = accumulator_element(upper, turned)
        offset = graph.ConstantOp.from_array(coarse.astype(np.int32), element)
        made.append(offset)
        bias = offset.result
    whole = rebuild_linear(
        op,
        {
            "requant": requant.replaced(shift=requant.shift.data - BYTE),
            "residual_shift": graph.shifts_of_channels([int(s) for s in moved]),
        },
        input=upper,
        weights=turned,
        bias=bias,
        residual=share.results[0],
    )
    made.append(whole)
    for part in made:
        part.location = op.location
    Rewriter.insert_op(made, InsertPoint.before(op))
    op.results[0].replace_all_uses_with(whole.results[0])
    source = op.input.owner
    erase_with_constants(op)
    if isinstance(source, Operation):
        erase_unused(source)


def _bytes_of(value: SSAValue) -> Bytes:
    """The bytes of a value of 16 bits, which are there already if two layers made them."""
    owner, element = value.owner, graph.stored_element(value)
    if isinstance(owner, graph.BinaryOp) and _joins_bytes(owner):
        return Bytes(owner.rhs, owner.lhs, negated=True)
    step = UniformType(element.scale)
    upper = graph.RequantizeOp(value, step.rescaled(2.0**BYTE), RequantAttr(BYTE))
    lower = graph.BinaryOp(
        graph.Binary.SUB,
        value,
        upper.result,
        result_element=step,
        shifts=(0, BYTE),
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
    """Whether a value is what `results` makes of two bytes, without bounds."""
    requant = op.requant
    if op.function is not graph.Binary.SUB or requant is None or requant.shift.data:
        return False
    bytes_read = [graph.quantized_element(v) for v in (op.lhs, op.rhs)]
    if any(e is None or e.storage.width.data != NARROW or e.zero_point for e in bytes_read):
        return False
    shifts = op.lhs_shift.value.data, op.rhs_shift.value.data
    factors = op.lhs_multiplier, op.rhs_multiplier, op.activation
    if shifts != (0, BYTE) or requant.multiplier.data != 1 or any(factors):
        return False
    least, most = (requant.zero_point.data + end for end in (LEAST, MOST))
    return requant.low.data <= max(least, -(1 << WIDE - 1)) and requant.high.data >= min(
        most, (1 << WIDE - 1) - 1
    )


# Make a result of 16 bits of two layers of 8 bits, which an accelerator of 8 bits computes.


@dataclass(frozen=True)
class WideResultRule(ResidualSpreadPass):
    """
    Compute a layer whose result has 16 bits as two with results of 8 bits, and a sum:

    1. The upper byte, negated: the layer with negated weights and bias, in steps 2^8 as coarse.
    2. The lower byte: the layer itself, to which the upper one is added as its residual.
    3. The lower byte less 2^8 times the negated upper one, in 16 bits.
    4. A residual is added to that, in 16 bits: the three before are then of half as many steps,
       so that the sum, and not what it is made of, reaches the ends of 16 bits.

    An accelerator of 8 bits takes twice the time for both layers together, where it would leave
    one with 16 bits to its host. Layers with 16 bits in their operands, with products that share
    nothing, as depthwise ones, or with multipliers stay. So do those whose rows of weights have
    scales that are more than `residual_spread` octaves apart, and those that one
    `graph.shift_swish` alone reads, which accelerators compute on their sums.

    Exact, but for numbers below -32640: they become that, the least that both parts can say. With a
    residual a step off, and products beyond twice the range of 16 bits stop there.
    """

    name = "results"

    def change(self, main: FuncOp) -> None:
        for linear in list(main.body.block.ops):
            if isinstance(linear, graph.LinearOperation) and _is_wide(linear):
                _split_result(linear, self.residual_spread)


def _is_wide(op: graph.LinearOperation) -> bool:
    """Whether a layer makes 16 bits of 8, and may be computed twice."""
    swishes = (isinstance(use.operation, graph.ShiftSwishOp) for use in op.results[0].uses)
    return may_be_split(op, (NARROW, WIDE)) and not all(swishes)


def _split_result(op: graph.LinearOperation, spread: int) -> None:
    requant, target = op.requant, graph.stored_element(op.results[0])
    assert requant is not None
    # Half as many steps leave room for what a residual takes away.
    coarser = int(op.residual is not None)
    shifts = np.array(requant.net_shifts) + coarser
    if shifts.min() < 0 or shifts.max() + BYTE > MAX_RESIDUAL_SHIFT or np.ptp(shifts) > spread:
        return
    added = _shift_of_residual(op)
    if added is None or not 0 <= added <= graph.BinaryOp.MAX_SHIFT:
        return
    weights = graph.known_array(op.weights).astype(np.int8)
    total = np.zeros(len(weights), np.int64)
    if op.bias is not None:
        total += graph.known_array(op.bias).astype(np.int64)
    # Rounds down what the lower byte, which is rounded itself, leaves at or above -128.
    total = -total - (1 << shifts >> 1) - 1
    if np.abs(total).max() >= 1 << 31:
        return
    negated = graph.ConstantOp.from_array(-weights, graph.stored_element(op.weights))
    accumulator = accumulator_element(op.input, op.weights)
    offset = graph.ConstantOp.from_array(total.astype(np.int32), accumulator)
    element = UniformType(target.scale * 2.0**coarser)

    def bytes_of(more: int) -> dict[str, Attribute | None]:
        """The epilogue of one byte, so much coarser."""
        shift = requant.shift.data + coarser + more
        byte = requant.replaced(shift=shift, zero_point=0, low=INT8_LOW, high=INT8_HIGH)
        return {"requant": byte, "residual_shift": None}

    upper = rebuild_linear(
        op,
        bytes_of(BYTE),
        weights=negated.result,
        bias=offset.result,
        residual=None,
        element=element.rescaled(2.0**BYTE),
    )
    moved = graph.shifts_of_channels([int(s) + BYTE for s in shifts])
    lower = rebuild_linear(
        op, bytes_of(0) | {"residual_shift": moved}, residual=upper.results[0], element=element
    )
    ends = requant.zero_point.data, requant.low.data, requant.high.data
    whole, (point, low, high) = target, ends
    if op.residual is not None:
        whole = UniformType(element.scale, storage=target.storage)
        point, low, high = 0, whole.low, whole.high
    joined = graph.BinaryOp(
        graph.Binary.SUB,
        lower.results[0],
        upper.results[0],
        result_element=whole,
        shifts=(0, BYTE),
        requant=RequantAttr(0, zero_point=point, low=max(low, LEAST + point), high=high),
    )
    made = [negated, offset, upper, lower, joined]
    if op.residual is not None:
        point, low, high = ends
        made.append(
            graph.BinaryOp(
                graph.Binary.ADD,
                joined.result,
                op.residual,
                result_element=target,
                shifts=(coarser, added),
                requant=RequantAttr(0, zero_point=point, low=low, high=high),
            )
        )
    made[-1].attributes.update(op.attributes)
    made[-1].attributes.pop(MASK, None)
    for part in made:
        part.location = op.location
    for part in (upper, lower):
        part.attributes.pop(LAYER, None)
    Rewriter.insert_op(made, InsertPoint.before(op))
    op.results[0].replace_all_uses_with(made[-1].results[0])
    erase_with_constants(op)


def _shift_of_residual(op: graph.LinearOperation) -> int | None:
    """By how many bits the steps of a residual are longer than the result's; 0 without one."""
    if op.residual is None or op.requant is None:
        return 0
    found = set[int]((np.array(op.residual_shifts) - op.requant.net_shifts).tolist())
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True)
class SplitWidePass(ResidualSpreadOptions, RulePass):
    """
    Compute a layer that has 16 bits in its result or input by two layers that have 8 bits, which
    an accelerator of 8 bits computes.
    """

    name = "split-wide"

    def table(self) -> tuple[ModulePass, ...]:
        return WideResultRule(self.residual_spread), WideInputRule(self.residual_spread)
