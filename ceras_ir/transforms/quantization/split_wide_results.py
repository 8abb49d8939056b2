"""Make a result of 16 bits of two layers of 8 bits, which an accelerator of 8 bits computes."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.linear import MAX_RESIDUAL_SHIFT
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.dialects.sparse import MASK
from ceras_ir.network.integer import HIGH, LOW
from ceras_ir.network.storage import LAYER, NARROW, WIDE
from ceras_ir.transforms.quantization.rewrites.integer_forms import accumulator_element
from ceras_ir.transforms.quantization.rewrites.layers_of_bytes import BYTE, LEAST, may_be_split
from ceras_ir.transforms.quantization.rewrites.residual_spread_pass import ResidualSpreadPass
from ceras_ir.transforms.rebuilding import erase_with_constants, rebuild_linear


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
                _split(linear, self.residual_spread)


def _is_wide(op: graph.LinearOperation) -> bool:
    """Whether a layer makes 16 bits of 8, and may be computed twice."""
    swishes = (isinstance(use.operation, graph.ShiftSwishOp) for use in op.results[0].uses)
    return may_be_split(op, (NARROW, WIDE)) and not all(swishes)


def _split(op: graph.LinearOperation, spread: int) -> None:
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
        byte = requant.replaced(shift=shift, zero_point=0, low=LOW, high=HIGH)
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
