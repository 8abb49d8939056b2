"""
What VTA can run, as a list of rules, and the ranges of rescaled sums.

The docstring of a rule says what is allowed. A rule returns a sentence with the reason why an
operation breaks it and the way out, or None. Placement asks `why_not`. `proven_clamps` finds clamps
beyond all values that an operation can produce, which are left out.
"""

from collections.abc import Callable
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import DEFAULT_BOARD
from ceras_ir.backends.vta.machine.isa import RESIDUAL_WEIGHT_BITS
from ceras_ir.backends.vta.rules.addition_pooling import (
    constant_of,
    terms_of,
    why_not_add,
    why_not_average,
    why_not_max,
    why_not_pool,
)
from ceras_ir.backends.vta.rules.channel_constants import (
    block_groups,
    common_shift,
    computed_point,
    folded_bias,
    groups_together,
    has_computed_weights,
    is_bordered,
    why_not_int8,
    why_not_shift,
    with_products,
    zero_point,
)
from ceras_ir.backends.vta.schedule.blocks import Blocks, longest_row, misfit
from ceras_ir.backends.vta.schedule.contraction import SWISH_ROWS, Contraction
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.mem.packing import packed_shape
from ceras_ir.dialects.quant import RequantAttr

VTA = "vta"
"""What `#mem.device` calls the accelerator."""

Rule: TypeAlias = Callable[[graph.LinearOperation, VtaBoard], str | None]


def why_not(op: Operation, board: VtaBoard = DEFAULT_BOARD) -> str | None:
    """None if VTA can run `op`, else one sentence: the rule that it breaks and the way out."""
    if isinstance(op, graph.Pool2dOp):
        return why_not_pool(op, board)
    if isinstance(op, graph.BinaryOp):
        return why_not_add(op, board)
    if isinstance(op, graph.ShiftSwishOp):
        return why_not_swish(op, board)
    if isinstance(op, graph.LookupOp):
        return "VTA has no tables: they run on the CPU (a SiLU can be shifts: --silu piecewise)"
    if not isinstance(op, graph.Conv2dOp | graph.MatmulOp):
        return (
            "VTA runs convolutions, matrix products, pooling and additions; others run on the CPU"
        )
    if op.table is not None:
        return "VTA has no tables behind a sum of products; leave fuse-lookup out"
    return next((reason for rule in RULES if (reason := rule(op, board))), None)


def quantized(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """Numbers are quantized."""
    if not op.is_quantized:
        return "VTA computes on int8 only: quantize the network (--quantize, or calibration data)"
    return None


def int8(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """
    Input, weights, residual and result are signed int8, all but the weights with any zero point;
    the sum may be of 16 bits where nothing but a swish of shifts reads it.
    """
    named = {"input": op.input, "weights": op.weights}
    if op.residual is not None:
        named["residual"] = op.residual
    swish = swish_after(op)
    if reason := why_not_int8(**named, result=op.result if swish is None else swish.result):
        return reason
    if point := zero_point(op.weights):
        return f"VTA has no zero point of weights, got {point}: quantize them symmetrically"
    return None


def constant_weights(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """
    Weights and bias are constants, packed into tiles at compile time; only the weights of a matrix
    product may be computed, where the host packs them.
    """
    constants = [("bias", op.bias)]
    if isinstance(op, graph.Conv2dOp):
        constants.append(("weights", op.weights))
    for name, value in constants:
        if value is not None and graph.constant_array(value) is None:
            return f"VTA needs constant {name}: fold what computes them, or run it on the CPU"
    return None


def shifted(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """
    Sums are rescaled by shifts that round half up or floor, each channel's by at most 15 bits
    more than another's.
    """
    assert op.requant is not None
    return why_not_shift(op.requant)


def residual_moved(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """A residual goes left by at most six bits more in one channel than in another."""
    least, most = min(op.residual_shifts), max(op.residual_shifts)
    if least < most - RESIDUAL_WEIGHT_BITS:
        return (
            f"VTA shifts a residual by up to {RESIDUAL_WEIGHT_BITS} bits more in one channel than "
            f"in another, got {least} to {most}: quantize with one scale for all channels"
        )
    return None


def bounded(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """The sum, with bias, residual, rounding and zero points, fits 32 bits for every input."""
    if accumulator_bound(op) >= 1 << 31:
        return "VTA accumulates in 32 bits, which the sum may exceed: quantize with finer weights"
    return None


def fits(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """The smallest block, one output vector from one of inputs, fits the buffers."""
    shape = graph_contraction(op, board)
    if any(p >= e for p, e in zip(shape.padding, shape.extents * 2, strict=True)):
        return f"VTA needs padding smaller than the window, got {list(shape.padding)}: pad before"
    most = longest_row(board)
    if max(shape.flattened(most).width, shape.columns, shape.kblocks * shape.taps) > most:
        return f"VTA steps over rows of at most {most} vectors: use a smaller input or window"
    if reason := misfit(shape, Blocks(1, 1, 1, 1), board):
        return f"VTA cannot hold it, {reason}: use a smaller window, dilation or layer"
    return None


def swish_after(op: graph.LinearOperation) -> graph.ShiftSwishOp | None:
    """The swish of shifts that is the only reader of the result, which has 16 bits."""
    element = graph.quantized_element(op.result)
    if element is None or element.storage.width.data != 16 or not op.result.has_one_use():
        return None
    (use,) = op.result.uses
    return use.operation if isinstance(use.operation, graph.ShiftSwishOp) else None


def why_not_swish(op: graph.ShiftSwishOp, board: VtaBoard) -> str | None:
    """A swish of shifts ends the product before it, whose sum never leaves the chip."""
    linear = op.input.owner
    if not isinstance(linear, graph.LinearOperation) or swish_after(linear) is not op:
        return "VTA takes swish of 16-bit sums that nothing else reads; others run on the CPU"
    if reason := why_not(linear, board):
        return f"VTA takes swish with the layer before it, which it cannot run: {reason}"
    return None


def swished(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """A swish in the epilogue has constants and halves that are immediates."""
    swish = swish_after(op)
    if swish is not None and swish.requant.shift.data > 15:
        return f"VTA shifts a swish by at most 15, got {swish.requant.shift.data}"
    return None


RULES: tuple[Rule, ...] = (
    quantized,
    int8,
    constant_weights,
    shifted,
    residual_moved,
    bounded,
    swished,
    fits,
)


OTHER_RULES: tuple[Callable[..., str | None], ...] = (
    why_not_max,
    why_not_average,
    why_not_add,
    why_not_swish,
)
"""Those of operations that are no products, a function for each kind."""


def accumulator_bound(op: graph.LinearOperation) -> int:
    """No partial sum, in any order, with folded bias and left shift, exceeds this in magnitude."""
    assert op.requant is not None
    # What is around the input comes in three parts: rows, columns and corners.
    reach = 128 + is_bordered(op) * 3 * abs(zero_point(op.input)) + abs(computed_point(op))
    most = _absolute_sums(op) * reach + np.abs(folded_bias(op))
    bound = int(most.max())
    if op.residual is not None:
        bound += 128 << max(op.residual_shifts)
    return bound << max(0, -common_shift(op.requant))


def _absolute_sums(op: graph.LinearOperation) -> NDArray[np.int64]:
    """Of the weights of every output channel; of computed ones the most that they can be."""
    if has_computed_weights(op):
        channels, *inputs = graph.shape_of(op.weights)
        return np.full(channels, 128 * prod(inputs), np.int64)
    weights = graph.known_array(op.weights).astype(np.int64)
    return np.abs(weights).reshape(len(weights), -1).sum(axis=1)


def graph_contraction(op: graph.LinearOperation, board: VtaBoard) -> Contraction:
    """The shape of `op` on packed tensors."""
    assert op.requant is not None
    has_residual, shifts = op.residual is not None, int(common_shift(op.requant) != 0)
    by_channel = bool(op.requant.channel_shifts)
    block, swish = board.block, _swish_vectors(op, board.block)
    packed = packed_shape(graph.shape_of(op.input), board.vector)
    if not isinstance(op, graph.Conv2dOp):
        (kblocks, m, *_), (n, _) = packed, graph.shape_of(op.weights)
        matrix = Contraction(
            *(1, kblocks, 1, m, -(-n // block), 1, m),
            residual=has_residual,
            residual_by_channel=len(op.residual_shifts) > 1,
            shifts=shifts,
            by_channel=by_channel,
            swish=swish,
        )
        return with_products(matrix, op, board)
    batch, _, height, width, *_ = packed
    outputs, kh, kw, channels = graph.shape_of(op.weights)
    _, rows, columns, _ = graph.shape_of(op.result)
    (sh, sw), (dh, dw) = op.strides.get_values(), op.dilations.get_values()
    top, left, bottom, right = op.padding.get_values()
    together, groups = groups_together(op, block), block_groups(op, block)
    kblocks, nblocks = -(-channels * together // block), -(-outputs // block) // groups
    shape = Contraction(
        *(batch, kblocks, height, width, nblocks, rows, columns),
        kernel=(kh, kw),
        strides=(sh, sw),
        padding=(top, left, bottom, right),
        dilations=(dh, dw),
        residual=has_residual,
        residual_by_channel=len(op.residual_shifts) > 1,
        shifts=shifts,
        by_channel=by_channel,
        groups=groups,
        swish=swish,
        outside=is_bordered(op),
    )
    return with_products(shape, op, board)


def _swish_vectors(op: graph.LinearOperation, block: int) -> int:
    """See `Contraction.swish`."""
    swish = swish_after(op)
    if swish is None:
        return 0
    if len(swish.channel_bends) == 1:
        return 1
    return SWISH_ROWS * -(-graph.shape_of(op.result)[-1] // block)


SumRange = tuple[NDArray[np.int64], NDArray[np.int64]]


def proven_clamps(op: Operation) -> tuple[bool, bool]:
    """
    Whether no sum is rescaled to less than the lower, or to more than the upper end. Nothing is
    known of sums with computed weights.
    """
    match op:
        case graph.LinearOperation() if op.requant is not None and not has_computed_weights(op):
            requant, (least, most) = op.requant, _products(op)
        case graph.BinaryOp() if op.requant is not None:
            requant, (least, most) = op.requant, _addition(op)
        case _:
            return False, False
    low, high = _shifted(least, requant), _shifted(most, requant)
    return bool((low >= requant.low.data).all()), bool((high <= requant.high.data).all())


def stored_range(value: SSAValue) -> tuple[int, int]:
    """What a value of int8 can hold, by the clamp of what makes it."""
    producer = value.owner
    if isinstance(producer, graph.Pool2dOp) and producer.function is Pool.MAX:
        return stored_range(producer.input)
    if isinstance(producer, graph.LinearOperation | graph.BinaryOp) and producer.requant:
        return producer.requant.low.data, producer.requant.high.data
    return -128, 127


def _products(op: graph.LinearOperation) -> SumRange:
    """Of the sums of every channel; a tap outside of the input adds nothing."""
    weights = graph.known_array(op.weights).astype(np.int64)
    weights = weights.reshape(len(weights), -1)
    point = zero_point(op.input)
    low, high = (end - point for end in stored_range(op.input))
    low, high = min(low, 0), max(high, 0)
    constant = folded_bias(op) + point * weights.sum(axis=1)
    ends = weights * low, weights * high
    least, most = (pick(*ends).sum(axis=1) + constant for pick in (np.minimum, np.maximum))
    if op.residual is not None:
        start, end = stored_range(op.residual)
        least, most = (
            total + (number << np.array(op.residual_shifts))
            for total, number in ((least, start), (most, end))
        )
    return least, most


def _addition(op: graph.BinaryOp) -> SumRange:
    terms = terms_of(op)
    assert terms is not None
    least = most = constant_of(op, terms)
    for term in terms:
        ends = sorted(term.sign * number << term.bits for number in stored_range(term.value))
        least, most = least + ends[0], most + ends[1]
    return np.array([least]), np.array([most])


def _shifted(sums: NDArray[np.int64], requant: RequantAttr) -> NDArray[np.int64]:
    """Sums that have all constants in them, floored by the shift of each channel."""
    shifts = np.broadcast_to(np.array(requant.net_shifts, np.int64), sums.shape)
    return np.where(shifts >= 0, sums >> np.maximum(shifts, 0), sums << np.maximum(-shifts, 0))
