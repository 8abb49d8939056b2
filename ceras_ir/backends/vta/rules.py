"""
What VTA can run, as a list of rules.

A rule is a function whose docstring says what is allowed; it returns the sentence why an
operation breaks it and the way out, or None. `why_not` is what placement asks.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from xdsl.ir import Operation, SSAValue

from ceras_ir.analysis.blocks import Blocks, longest_row, misfit
from ceras_ir.analysis.contraction import Contraction
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.encoding import DEFAULT_BOARD
from ceras_ir.backends.vta.pooling_rules import why_not_pool
from ceras_ir.dialects import graph
from ceras_ir.dialects.mem import LANES
from ceras_ir.dialects.quant import Rounding

Rule: TypeAlias = Callable[[graph.LinearOperation, VtaBoard], str | None]


def why_not(op: Operation, board: VtaBoard = DEFAULT_BOARD) -> str | None:
    """None if VTA can run `op`, else one sentence: the rule that it breaks and the way out."""
    if isinstance(op, graph.Pool2dOp):
        return why_not_pool(op, board)
    if not isinstance(op, graph.Conv2dOp | graph.MatmulOp):
        return "VTA runs convolutions, matrix products and max pooling; others run on the CPU"
    return next((reason for rule in RULES if (reason := rule(op, board))), None)


def quantized(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """Numbers are quantized."""
    if not op.is_quantized:
        return "VTA computes on int8 only: quantize the network (--quantize, or calibration data)"
    return None


def int8(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """Input, weights, residual and result are signed int8 with zero point 0."""
    named = {"input": op.input, "weights": op.weights, "result": op.result}
    if op.residual is not None:
        named["residual"] = op.residual
    for name, value in named.items():
        element = graph.quantized_element(value)
        if element is None or element.storage.width.data != 8 or not element.is_signed:
            return f"VTA needs int8, but the {name} is {graph.element_of(value)}: quantize to i8"
        if any(point.data for point in element.zero_points):
            return f"VTA has no zero points, but the {name} has one: quantize symmetrically"
    return None


def constant_weights(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """Weights and bias are constants, because they are packed into tiles at compile time."""
    for name, value in (("weights", op.weights), ("bias", op.bias)):
        if value is not None and graph.constant_array(value) is None:
            return f"VTA needs constant {name}: fold what computes them, or run it on the CPU"
    return None


def ungrouped(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """Convolutions have one group."""
    if isinstance(op, graph.Conv2dOp) and op.group_count != 1:
        return f"VTA multiplies 16x16 channels, groups must be 1, got {op.group_count}"
    return None


def shifted(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """Sums are rescaled by a shift that rounds half up or floors."""
    requant = op.requant
    assert requant is not None
    multiplier = requant.multiplier.data
    if requant.is_per_channel:
        return (
            "VTA rescales all channels by one shift, got a multiplier per channel: "
            "run --snap-scales"
        )
    if multiplier & (multiplier - 1) or requant.zero_point.data:
        return (
            f"VTA rescales by shifts only, got a multiplier of {multiplier}: "
            "quantize with power-of-two scales (--snap-scales)"
        )
    amount = net_shift(op)
    if not -31 <= amount <= 31:
        return f"VTA shifts 32-bit sums by at most 31, got {amount}"
    if amount > 0 and requant.mode not in (Rounding.HALF_UP, Rounding.FLOOR):
        return f"VTA rounds half up or floors, got {requant.mode.value}: quantize with half_up"
    return None


def bounded(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """The sum, with bias, residual and rounding, fits 32 bits for every input."""
    if accumulator_bound(op) >= 1 << 31:
        return "VTA accumulates in 32 bits, which the sum may exceed: quantize with finer weights"
    return None


def fits(op: graph.LinearOperation, board: VtaBoard) -> str | None:
    """The smallest block, one output vector from 16 channels, fits the buffers."""
    shape = graph_contraction(op)
    if any(p >= e for p, e in zip(shape.padding, shape.extents * 2, strict=True)):
        return f"VTA needs padding smaller than the window, got {list(shape.padding)}: pad before"
    most = longest_row(board)
    if max(shape.flattened(most).width, shape.columns, shape.kblocks * shape.taps) > most:
        return f"VTA steps over rows of at most {most} vectors: use a smaller input or window"
    if reason := misfit(shape, Blocks(1, 1, 1, 1), board):
        return f"VTA cannot hold it, {reason}: use a smaller window, dilation or layer"
    return None


RULES: tuple[Rule, ...] = (
    quantized,
    int8,
    constant_weights,
    ungrouped,
    shifted,
    bounded,
    fits,
)


def net_shift(op: graph.LinearOperation) -> int:
    """By how many bits the sum goes right, for a multiplier that is a power of two."""
    assert op.requant is not None
    return op.requant.shift.data - (op.requant.multiplier.data.bit_length() - 1)


def rounding_constant(op: graph.LinearOperation) -> int:
    """What must be added before a floor shift, so that it rounds as the operation says."""
    assert op.requant is not None
    shift = net_shift(op)
    return 1 << (shift - 1) if shift > 0 and op.requant.mode is Rounding.HALF_UP else 0


def accumulator_bound(op: graph.LinearOperation) -> int:
    """No partial sum, in any order, with rounding and left shift, exceeds this in magnitude."""
    weights = _integers(op.weights)
    most = np.abs(weights).reshape(weights.shape[0], -1).sum(axis=1) * 128
    if op.bias is not None:
        most = most + np.abs(_integers(op.bias))
    bound = int(most.max()) + rounding_constant(op)
    if op.residual is not None:
        bound += 128 << op.residual_left_shift
    return bound << max(0, -net_shift(op))


def _integers(value: SSAValue) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    array = graph.constant_array(value)
    assert array is not None
    return array.astype(np.int64)


def graph_contraction(op: graph.LinearOperation) -> Contraction:
    """The shape of `op` on packed tensors."""
    has_residual, shifts = op.residual is not None, int(net_shift(op) != 0)
    if not isinstance(op, graph.Conv2dOp):
        (m, k), (n, _) = graph.shape_of(op.input), graph.shape_of(op.weights)
        return Contraction(
            *(1, _blocks(k), 1, m, _blocks(n), 1, m), residual=has_residual, shifts=shifts
        )
    batch, height, width, channels = graph.shape_of(op.input)
    outputs, kh, kw, _ = graph.shape_of(op.weights)
    _, rows, columns, _ = graph.shape_of(op.result)
    (sh, sw), (dh, dw) = op.strides.get_values(), op.dilations.get_values()
    top, left, bottom, right = op.padding.get_values()
    return Contraction(
        *(batch, _blocks(channels), height, width, _blocks(outputs), rows, columns),
        kernel=(kh, kw),
        strides=(sh, sw),
        padding=(top, left, bottom, right),
        dilations=(dh, dw),
        residual=has_residual,
        shifts=shifts,
    )


def _blocks(channels: int) -> int:
    return -(-channels // LANES)
