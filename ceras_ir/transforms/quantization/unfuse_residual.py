"""Undo `fuse-residual` where the residual cannot be aligned with the accumulator."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.linear import MAX_RESIDUAL_SHIFT
from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized, quantized_operations
from ceras_ir.network.ranges import (
    copy_statistics,
    drop_statistics,
    interval,
    row_exponents,
    set_exponent,
    set_range,
)
from ceras_ir.transforms.quantization.align_scales import MAX_SHIFT
from ceras_ir.transforms.rebuilding import rebuild_linear

WORTHWHILE = 2
"""How much less error weights must have to pay for an addition of its own."""


@dataclass(frozen=True)
class UnfuseResidualPass(ModulePass):
    """
    Take a residual out of a convolution's or matrix product's epilogue into an addition of its
    own where it is finer than the accumulator, so that no left shift aligns it, or so coarse
    that the shifted residual could overflow 32 bits, or where channels have accumulators of
    different scales. Runs on final exponents.

    With `for-rows`, before anything was observed, it takes out the residuals of layers whose
    constant weights have at most half of their squared error with a scale for each row:
    accumulators of different scales cannot add a residual. Calibration then sees the range of the
    layer alone, which otherwise is only known to be sum less residual, octaves more than it often
    is.

    Exact, because the epilogue adds the residual before it applies its function.
    """

    name = "unfuse-residual"

    for_rows: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        for linear in quantized_operations(main):
            if not isinstance(linear, graph.LinearOperation) or linear.residual is None:
                continue
            if not self.for_rows:
                _unfuse(linear, linear.residual)
            elif _rows_pay(linear):
                _split(linear, linear.residual)


def _rows_pay(op: graph.LinearOperation) -> bool:
    """Whether a scale for each row takes so much error from the weights that it pays for a sum."""
    from ceras_ir.network.exponents import WEIGHT_LOW, least_squares_exponent, squared_error

    weights = graph.constant_array(op.weights)
    if weights is None:
        return False
    rows = weights.astype("float32", copy=False)
    one = squared_error(rows, least_squares_exponent(rows, WEIGHT_LOW), WEIGHT_LOW)
    each = (squared_error(r, least_squares_exponent(r, WEIGHT_LOW), WEIGHT_LOW) for r in rows)
    return one >= WORTHWHILE * sum(each) > 0


def _split(
    op: graph.LinearOperation, residual: SSAValue
) -> tuple[graph.LinearOperation, graph.BinaryOp]:
    """The layer without its residual, and the addition, put in its place."""
    plain = rebuild_linear(op, {"activation": None, "residual_shift": None}, residual=None)
    drop_statistics(plain)  # They are the sum's.
    total = graph.BinaryOp(
        graph.Binary.ADD,
        plain.result,
        residual,
        result_element=graph.element_of(op.result),
        activation=op.activation,
    )
    total.location = op.location
    copy_statistics(op, total)
    Rewriter.insert_op([plain, total], InsertPoint.before(op))
    op.result.replace_all_uses_with(total.result)
    Rewriter.erase_op(op)
    return plain, total


def _unfuse(op: graph.LinearOperation, residual: SSAValue) -> None:
    from ceras_ir.network.exponents import fitting_exponent
    from ceras_ir.network.precision import FINER, WIDE, factor_exponents, largest, set_width, width
    from ceras_ir.transforms.quantization.analysis.accumulator_bounds import Magnitudes, fits
    from ceras_ir.transforms.quantization.analysis.scale_classes import value_exponent

    source, weights = factor_exponents(op, value_exponent)
    accumulator = source + weights
    left = value_exponent(residual) - accumulator
    right = max(value_exponent(op.result) - accumulator, 0)
    bound = Magnitudes.of(op).bound(source, weights)
    same = row_exponents(op) is None
    if same and 0 <= left <= MAX_RESIDUAL_SHIFT and fits(bound, right, largest(residual) << left):
        return
    low, high = _before_residual(op, residual)
    bits = width(op.result)
    plain, total = _split(op, residual)
    set_range(plain.result, low, high)
    exponent = fitting_exponent(max(-low, high))
    set_width(total.result, bits)
    set_width(plain.result, bits)
    exponent -= FINER if bits == WIDE else 0
    set_exponent(plain.result, min(max(exponent, accumulator), accumulator + MAX_SHIFT))


def _before_residual(op: graph.LinearOperation, residual: SSAValue) -> tuple[float, float]:
    """
    What the convolution alone can be while the sum is as it was seen: sum less residual.
    Where a lower bound of the activation hides the sum, smaller values end at that bound too.
    """
    from ceras_ir.network.precision import largest
    from ceras_ir.transforms.quantization.analysis.scale_classes import value_exponent

    ends: list[tuple[float, float]] = []
    for value in (op.result, residual):
        end = (largest(value) - 1) * 2.0 ** value_exponent(value)
        ends.append(interval(value) or (-end, end))
    total, added = ends
    return total[0] - added[1], total[1] - added[0]
