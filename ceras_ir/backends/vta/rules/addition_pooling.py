"""
Decide whether VTA supports a pooling or an addition.

Maxima are ALU operations, and averages are GEMMs with a diagonal: a multiplier of up to two int8
digits, and shifts. An addition is a convolution by a diagonal of weights with a residual. Both
operands are multiplied by powers of two: the first by weights, the second by weights and shifts.
"""

from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.isa import RESIDUAL_WEIGHT_BITS, is_immediate
from ceras_ir.backends.vta.rules.channel_constants import (
    common_shift,
    rescaling_constants,
    why_not_int8,
    why_not_shift,
    zero_point,
)
from ceras_ir.backends.vta.schedule.blocks import Blocks, longest_row, misfit
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.backends.vta.schedule.search import Pooling, averaging_blocks, pooling_blocks
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.mem.packing import packed_shape
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.network import integer as division
from ceras_ir.network.integer import Averaging
from ceras_ir.network.storage import WIDE

FLOAT_RESULT = (
    "VTA computes on int8 only, and the result is float: quantize the network (--quantize, or "
    "calibration data), or add a quantizer after the operation"
)
"""The reason why operations without a quantized result are not computed."""

LOW_BITS = 7
"""
The bits of a multiplier that the second weight tile holds; the sums of the first tile, which has
the other bits, are shifted left by this number.
"""
MAX_MULTIPLIER = 127 << LOW_BITS | 127
"""The largest multiplier of an average that two weight tiles of int8 digits can express."""


def multiplier_digits(average: Averaging) -> tuple[int, ...]:
    """
    Return the multiplier of an average as one or two digits of 7 bits, the most significant first.
    """
    if average.multiplier <= 127:
        return (average.multiplier,)
    return (average.multiplier >> LOW_BITS, average.multiplier & 127)


def averaging(window: int, requant: RequantAttr, point: int = 0) -> Averaging | None:
    """
    Return the multiplier, addend and shift with which VTA averages `window` elements exactly like
    `requant`, for all sums, or `None` if there are none. `point` is the zero point of the elements.
    """
    return division.averaging(
        window, requant, point, max_multiplier=MAX_MULTIPLIER, product_limit=1 << 30
    )


def averaging_of(op: graph.Pool2dOp) -> Averaging | None:
    """
    Return the multiplier, addend and shift with which VTA computes an average pooling exactly, or
    `None` if there are none. All windows must have the same divisor.
    """
    assert op.requant is not None
    kh, kw = op.kernel.get_values()
    return averaging(kh * kw, op.requant, zero_point(op.input))


def why_not_pool(op: graph.Pool2dOp, board: VtaBoard) -> str | None:
    """Return `None` if VTA supports `op`, else the rule that it violates and the remedy."""
    if reason := why_not_int8(input=op.input, result=op.result):
        return reason
    if any(d != 1 for d in op.dilations.get_values()):
        return "VTA pools adjacent elements only: a dilated window runs on the CPU"
    shape = graph_pooling(op, board)
    limit = longest_row(board)
    if max(shape.width, shape.columns, shape.height * shape.width * shape.is_global) > limit:
        return f"VTA iterates over rows of at most {limit} vectors: use a smaller input"
    if op.function is Pool.AVERAGE:
        return why_not_average(op, shape, board)
    return why_not_max(op, shape, board)


def why_not_average(op: graph.Pool2dOp, shape: Pooling, board: VtaBoard) -> str | None:
    """Averages must divide all windows by the same number, for which an exact multiplier exists."""
    if any(shape.padding) and not op.includes_padding:
        return (
            "VTA divides by a constant, but windows at the border have fewer elements: count the "
            "padding, or pool without padding"
        )
    if any(shape.padding) and (point := zero_point(op.input)):
        return (
            f"VTA pads with zeros, but the input has the zero point {point}: pool without padding"
        )
    average = averaging_of(op)
    if average is None:
        assert op.requant is not None
        window, mode = "x".join(map(str, shape.kernel)), op.requant.mode.value
        return f"VTA has no multiplier that divides exactly for a window of {window}, {mode}"
    if averaging_blocks(shape, len(multiplier_digits(average)), board) is None:
        return "VTA cannot store a window in the buffers: use a smaller window"
    return None


def why_not_max(op: graph.Pool2dOp, shape: Pooling, board: VtaBoard) -> str | None:
    """Maxima must have stride 1, or windows up to twice the stride."""
    if not shape.is_separable_in_place:
        return (
            f"VTA pools with stride 1 or windows up to twice the stride, got {shape.kernel[1]} "
            f"at stride {shape.strides[1]}"
        )
    if pooling_blocks(shape, board) is None:
        return "VTA cannot store a window in the buffers: use a smaller window"
    return None


def graph_pooling(op: graph.Pool2dOp, board: VtaBoard) -> Pooling:
    n, c, h, w, *_ = packed_shape(graph.shape_of(op.input), board.vector)
    _, rows, columns, _ = graph.shape_of(op.result)
    (kh, kw), (sh, sw) = op.kernel.get_values(), op.strides.get_values()
    top, left, bottom, right = op.padding.get_values()
    return Pooling(n * c, h, w, rows, columns, (kh, kw), (sh, sw), (top, left, bottom, right))


def padding_of_maxima(op: graph.Pool2dOp) -> int:
    """
    Return the stored integer that VTA uses for positions outside the input of a maximum pooling.

    It is 0, the padding of loads, if the producer of the input clamps at 0 or above, or if there is
    no padding; else -128, the minimum of int8.
    """
    producer = op.input.owner
    clamped = isinstance(producer, graph.LinearOperation) and (
        producer.requant is not None and producer.requant.low.data >= 0
    )
    return 0 if clamped or not any(op.padding.get_values()) else -128


@dataclass(frozen=True)
class Term:
    """An operand of an addition, which is multiplied by `sign * 2 ** bits`."""

    value: SSAValue
    bits: int
    sign: int


def terms_of(op: graph.BinaryOp) -> tuple[Term, Term] | None:
    """
    Return the operands of an addition with their factors, the smaller shift first; `None` if a
    factor is not a power of two.
    """
    if any(factor & (factor - 1) for factor in op.factors):
        return None
    lhs, rhs = (factor.bit_length() - 1 for factor in op.factors)
    sign = -1 if op.function is Binary.SUB else 1
    first, second = sorted(
        (Term(op.lhs, lhs, 1), Term(op.rhs, rhs, sign)), key=lambda term: term.bits
    )
    return first, second


def constant_of(op: graph.BinaryOp, terms: tuple[Term, Term]) -> int:
    """
    Return the integer that an addition must add to the sum of its operands, for rounding and zero
    points.
    """
    assert op.requant is not None
    points = sum(term.sign * zero_point(term.value) << term.bits for term in terms)
    (constant,) = rescaling_constants(op.requant)
    return constant - points


def why_not_add(op: graph.BinaryOp, board: VtaBoard) -> str | None:
    """Sums and differences must have two int8 tensors of the same shape, aligned by shifts."""
    if op.function not in (Binary.ADD, Binary.SUB):
        return f"VTA adds and subtracts; '{op.function.value}' of two tensors runs on the CPU"
    if op.requant is None:
        return FLOAT_RESULT
    if op.function is Binary.SUB and not why_not_int8(lhs=op.lhs, rhs=op.rhs) and _is_wide(op):
        return (
            "VTA stores 8 bits, so it computes the two bytes of a 16-bit result separately, and "
            "the CPU joins them"
        )
    if reason := why_not_int8(lhs=op.lhs, rhs=op.rhs, result=op.result) or why_not_shift(
        op.requant
    ):
        return reason
    shape = graph.shape_of(op.result)
    if {graph.shape_of(op.lhs), graph.shape_of(op.rhs)} != {shape} or len(shape) not in (2, 4):
        return "VTA adds matrices or feature maps of equal shapes: other sums run on the CPU"
    if any(isinstance(v.owner, graph.ConstantOp) for v in (op.lhs, op.rhs)):
        return "VTA adds results of layers: fold a constant into the bias of the previous layer"
    terms = terms_of(op)
    if terms is None or terms[0].bits > RESIDUAL_WEIGHT_BITS:
        return f"VTA aligns operands by shifts of one operand, got factors {list(op.factors)}"
    bound = sum(128 << term.bits for term in terms) + abs(constant_of(op, terms))
    if bound << max(0, -common_shift(op.requant)) >= 1 << 31:
        return "VTA accumulates in 32 bits, which the sum may exceed: align the scales"
    contraction = addition_contraction(op, board)
    if max(contraction.width, contraction.height) > longest_row(board):
        return f"VTA iterates over rows of at most {longest_row(board)} vectors: use smaller inputs"
    if reason := misfit(contraction, Blocks(1, 1, 1, 1), board):
        return f"VTA cannot store it: {reason}"
    return None


def _is_wide(op: graph.BinaryOp) -> bool:
    """
    Return whether the result has 16 bits. The pass `split-wide` with the option `results` computes
    it by two layers.
    """
    element = graph.quantized_element(op.result)
    return element is not None and element.storage.width.data == WIDE


def addition_contraction(op: graph.BinaryOp, board: VtaBoard) -> Contraction:
    """
    Return the shape of an addition in the form of a convolution, so that schedules can be searched:
    all vectors are positions of a single channel block.
    """
    terms = terms_of(op)
    assert op.requant is not None and terms is not None
    rows, columns = addition_plane(op, board)
    return Contraction(
        *(1, 1, rows, columns, 1, rows, columns),
        residual=True,
        shifts=int(common_shift(op.requant) != 0),
        bias_cycles=_immediate_cycles(constant_of(op, terms)),
    )


def addition_plane(op: graph.BinaryOp, board: VtaBoard) -> tuple[int, int]:
    """
    Return the rows and columns of the image as which an addition is executed, in vectors: a single
    row if it fits, else a row of the operands per row.
    """
    shape = packed_shape(graph.shape_of(op.result), board.vector)
    extents = shape[: -len(board.vector)]
    vectors = prod(extents)
    if vectors <= longest_row(board):
        return 1, vectors
    columns = prod(extents[-2:]) if len(extents) == 4 else extents[-1]
    return vectors // columns, columns


def _immediate_cycles(constant: int) -> int:
    # A constant that is too large for an immediate is loaded.
    return int(constant != 0) if is_immediate(constant) else 2
