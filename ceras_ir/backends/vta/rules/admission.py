"""
Decide whether VTA supports an operation: each rule returns `None`, or why VTA does not support it.

The docstring of a rule states the condition for support. The returned sentence has the violation
and the remedy. Placement calls `why_not`. `proven_clamps` computes the range of the rescaled sums
of an operation; a bound of the clamp that no sum exceeds is omitted.
"""

from collections.abc import Callable
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import DEFAULT_VTA_BOARD
from ceras_ir.backends.vta.machine.isa import RESIDUAL_WEIGHT_BITS
from ceras_ir.backends.vta.rules.addition_pooling import (
    FLOAT_RESULT,
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
from ceras_ir.dialects.graph.operation import NO_KERNELS
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.mem.packing import packed_shape
from ceras_ir.dialects.quant import RequantAttr

VTA = "vta"
"""The name of VTA in the attribute `#mem.device`."""

AdmissionRule: TypeAlias = Callable[[graph.LinearOperation, VtaBoard], str | None]


def why_not(op: Operation, board: VtaBoard = DEFAULT_VTA_BOARD) -> str | None:
    """Return `None` if VTA supports `op`, else a sentence with the violated rule and the remedy."""
    if isinstance(op, graph.GraphOperation) and op.has_kernel_form:
        return NO_KERNELS
    if isinstance(op, graph.Pool2dOp):
        return why_not_pool(op, board)
    if isinstance(op, graph.BinaryOp):
        return why_not_add(op, board)
    if isinstance(op, graph.ShiftSwishOp):
        return why_not_swish(op, board)
    if isinstance(op, graph.LookupOp):
        return "VTA has no lookup tables: they run on the CPU (--silu piecewise is SiLU by shifts)"
    if not isinstance(op, graph.Conv2dOp | graph.MatmulOp):
        return (
            "VTA runs convolutions, matrix products, poolings and additions, not other operations"
        )
    if op.table is not None:
        return "VTA has no lookup tables after a sum of products: omit the pass fuse-lookup"
    return next((reason for rule in ADMISSION_RULES if (reason := rule(op, board))), None)


def quantized(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """The operation must be quantized."""
    if not op.is_quantized:
        return FLOAT_RESULT
    return None


def int8(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """
    Input, weights, residual and result must be signed int8, and the zero point of weights must be
    0. The sum can have 16 bits if the only consumer is a `graph.shift_swish`.
    """
    named = {"input": op.input, "weights": op.weights}
    if op.residual is not None:
        named["residual"] = op.residual
    swish = swish_after(op)
    if reason := why_not_int8(**named, result=op.result if swish is None else swish.result):
        return reason
    if point := zero_point(op.weights):
        return f"VTA has no zero point of weights, got {point}: quantize weights symmetrically"
    return None


def constant_weights(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """
    Weights and bias must be constants, packed into tiles at compile time. Only the weights of a
    matrix product can be computed; then the host packs them.
    """
    constants = [("bias", op.bias)]
    if isinstance(op, graph.Conv2dOp):
        constants.append(("weights", op.weights))
    for name, value in constants:
        if value is not None and graph.constant_array(value) is None:
            return f"VTA needs constant {name}: fold the producers, or run it on the CPU"
    return None


def shifted(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """Sums must be rescaled by shifts; the shifts of channels may differ by at most 15 bits."""
    assert op.requant is not None
    return why_not_shift(op.requant)


def residual_moved(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """The left shifts of a residual by channel may differ by at most six bits."""
    low, high = min(op.residual_shifts), max(op.residual_shifts)
    if low < high - RESIDUAL_WEIGHT_BITS:
        return (
            f"VTA supports residual shifts that differ by at most {RESIDUAL_WEIGHT_BITS} bits "
            f"between channels, got {low} to {high}: quantize with per-tensor scales"
        )
    return None


def bounded(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """The sum, with bias, residual, rounding and zero points, must fit 32 bits for all inputs."""
    if accumulator_bound(op) >= 1 << 31:
        return "VTA accumulates in 32 bits, which the sum may exceed: quantize with finer weights"
    return None


def fits(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """The smallest block, an output vector from an input vector, must fit the buffers."""
    shape = graph_contraction(op, board)
    if any(p >= e for p, e in zip(shape.padding, shape.extents * 2, strict=True)):
        return f"VTA needs padding smaller than the window, got {list(shape.padding)}: pad before"
    limit = longest_row(board)
    if max(shape.flattened(limit).width, shape.columns, shape.kblocks * shape.taps) > limit:
        return f"VTA iterates over rows of at most {limit} vectors: use a smaller input or window"
    if reason := misfit(shape, Blocks(1, 1, 1, 1), board):
        return f"VTA cannot store it, {reason}: use a smaller window, dilation or layer"
    return None


def swish_after(op: graph.LinearOperation) -> graph.ShiftSwishOp | None:
    """
    Return the `graph.shift_swish` that is the only consumer of `op`, if the result of `op` has 16
    bits; otherwise `None`.
    """
    element = graph.quantized_element(op.result)
    if element is None or element.storage.width.data != 16 or not op.result.has_one_use():
        return None
    (use,) = op.result.uses
    return use.operation if isinstance(use.operation, graph.ShiftSwishOp) else None


def why_not_swish(op: graph.ShiftSwishOp, board: VtaBoard) -> str | None:
    """
    VTA must support the product before a `graph.shift_swish`, and the swish must be the only
    consumer. It is fused into the product, and the sum remains on the chip.
    """
    linear = op.input.owner
    if not isinstance(linear, graph.LinearOperation) or swish_after(linear) is not op:
        return "VTA fuses swish into a layer with a 16-bit sum and no other consumer of the sum"
    if reason := why_not(linear, board):
        return f"VTA fuses swish into the layer before it, which it cannot run: {reason}"
    return None


def swished(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """A swish in the epilogue must have a right shift of at most 15 bits."""
    swish = swish_after(op)
    if swish is not None and swish.requant.shift.data > 15:
        return f"VTA shifts a swish by at most 15, got {swish.requant.shift.data}"
    return None


ADMISSION_RULES: tuple[AdmissionRule, ...] = (
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
"""The rules of operations other than convolutions and products, a function for each kind."""


def accumulator_bound(op: graph.LinearOperation) -> int:
    """
    Return an upper bound of the magnitude of the accumulators of `op` for any input, with bias,
    residual and a left shift.
    """
    assert op.requant is not None
    # The contribution of the padding has three parts: rows, columns and corners.
    reach = 128 + is_bordered(op) * 3 * abs(zero_point(op.input)) + abs(computed_point(op))
    bound = int((_absolute_sums(op) * reach + np.abs(folded_bias(op))).max())
    if op.residual is not None:
        bound += 128 << max(op.residual_shifts)
    return bound << max(0, -common_shift(op.requant))


def _absolute_sums(op: graph.LinearOperation) -> NDArray[np.int64]:
    """
    Return the sum of the magnitudes of the weights of each output channel; for computed weights,
    the maximum that int8 weights can have.
    """
    if has_computed_weights(op):
        channels, *inputs = graph.shape_of(op.weights)
        return np.full(channels, 128 * prod(inputs), np.int64)
    weights = graph.known_array(op.weights).astype(np.int64)
    return np.abs(weights).reshape(len(weights), -1).sum(axis=1)


def graph_contraction(op: graph.LinearOperation, board: VtaBoard) -> Contraction:
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
    swish = swish_after(op)
    if swish is None:
        return 0
    if len(swish.channel_bends) == 1:
        return 1
    return SWISH_ROWS * -(-graph.shape_of(op.result)[-1] // block)


SumRange = tuple[NDArray[np.int64], NDArray[np.int64]]


def proven_clamps(op: Operation) -> tuple[bool, bool]:
    """
    Return whether the lower and the upper bound of the clamp of `op` have no effect: no requantized
    sum can be below, or above. (False, False) means that nothing is proven, as for computed
    weights.
    """
    match op:
        case graph.LinearOperation() if op.requant is not None and not has_computed_weights(op):
            requant, (lowest, highest) = op.requant, _product_range(op)
        case graph.BinaryOp() if op.requant is not None:
            requant, (lowest, highest) = op.requant, _addition_range(op)
        case _:
            return False, False
    low, high = _shifted(lowest, requant), _shifted(highest, requant)
    return bool((low >= requant.low.data).all()), bool((high <= requant.high.data).all())


def stored_range(value: SSAValue) -> tuple[int, int]:
    """
    Return the minimum and the maximum integer that an int8 value can have, from the clamp of its
    producer; (-128, 127) if the producer has no clamp.
    """
    producer = value.owner
    if isinstance(producer, graph.Pool2dOp) and producer.function is Pool.MAX:
        return stored_range(producer.input)
    if isinstance(producer, graph.LinearOperation | graph.BinaryOp) and producer.requant:
        return producer.requant.low.data, producer.requant.high.data
    return -128, 127


def _product_range(op: graph.LinearOperation) -> SumRange:
    """
    Return the minimum and the maximum sum of each output channel for any input in the range of the
    clamp of its producer. Taps outside the input add zero.
    """
    weights = graph.known_array(op.weights).astype(np.int64)
    weights = weights.reshape(len(weights), -1)
    point = zero_point(op.input)
    low, high = (bound - point for bound in stored_range(op.input))
    low, high = min(low, 0), max(high, 0)
    constant = folded_bias(op) + point * weights.sum(axis=1)
    bounds = weights * low, weights * high
    lowest, highest = (pick(*bounds).sum(axis=1) + constant for pick in (np.minimum, np.maximum))
    if op.residual is not None:
        start, end = stored_range(op.residual)
        shifts = np.array(op.residual_shifts)
        lowest, highest = lowest + (start << shifts), highest + (end << shifts)
    return lowest, highest


def _addition_range(op: graph.BinaryOp) -> SumRange:
    terms = terms_of(op)
    assert terms is not None
    lowest = highest = constant_of(op, terms)
    for term in terms:
        bounds = sorted(term.sign * number << term.bits for number in stored_range(term.value))
        lowest, highest = lowest + bounds[0], highest + bounds[1]
    return np.array([lowest]), np.array([highest])


def _shifted(sums: NDArray[np.int64], requant: RequantAttr) -> NDArray[np.int64]:
    """
    Return each sum shifted to the right by the shift of its channel, rounded down. The sums already
    include the bias, the zero points and the constant for rounding.
    """
    shifts = np.broadcast_to(np.array(requant.net_shifts, np.int64), sums.shape)
    return np.where(shifts >= 0, sums >> np.maximum(shifts, 0), sums << np.maximum(-shifts, 0))
