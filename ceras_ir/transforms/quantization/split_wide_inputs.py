"""Read a value of 16 bits by two layers of 8 bits, which an accelerator of 8 bits computes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.linear import MAX_RESIDUAL_SHIFT
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.network.integer import HIGH, LOW
from ceras_ir.network.storage import LAYER, NARROW, WIDE
from ceras_ir.transforms.quantization.rewrites.integer_forms import accumulator_element
from ceras_ir.transforms.quantization.rewrites.layers_of_bytes import (
    BYTE,
    LEAST,
    MOST,
    may_be_split,
)
from ceras_ir.transforms.quantization.rewrites.residual_spread_pass import ResidualSpreadPass
from ceras_ir.transforms.rebuilding import erase_unused, erase_with_constants, rebuild_linear

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
                _split(linear, known, self.residual_spread)


def _reads_wide(op: graph.LinearOperation) -> bool:
    """Whether a layer makes 8 bits of 16, and may be computed twice."""
    return may_be_split(op, (WIDE, NARROW)) and op.residual is None


def _split(op: graph.LinearOperation, known: dict[SSAValue, Bytes], spread: int) -> None:
    requant = op.requant
    assert requant is not None
    weights = graph.known_array(op.weights).astype(np.int64)
    shifts = np.broadcast_to(requant.net_shifts, len(weights))
    rows = np.abs(weights).reshape(len(weights), -1)
    spread_of_bytes = (1 << BYTE) / 12**0.5
    likely = DEVIATIONS * spread_of_bytes * np.sqrt(np.square(rows).sum(1))
    most = np.minimum(likely, -LOW * rows.sum(1))
    needed = np.maximum(np.ceil(np.log2(np.maximum(most, 1) / HIGH)), BYTE).astype(int)
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
                shift=requant.shift.data - finer, zero_point=0, low=LOW, high=HIGH
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
