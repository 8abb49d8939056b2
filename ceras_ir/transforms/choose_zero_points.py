"""Give values that hardly fall below zero all eight bits, by a zero point."""

from dataclasses import dataclass
from math import ldexp, prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ceras_ir.analysis.function_forms import Form, form_of
from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.precision import NARROW, limits, width
from ceras_ir.analysis.quantizable import data_operands, is_quantized, quantized_operations
from ceras_ir.analysis.ranges import exponent, interval, set_exponent, set_zero_point, zero_point
from ceras_ir.analysis.storage import zero_point_of
from ceras_ir.dialects import graph
from ceras_ir.transforms.recipes import runs

LOST = 1 / 8
"""Share of what int8 holds at its exponent that a zero point may move out of reach."""


@dataclass(frozen=True)
class ChooseZeroPointsPass(ModulePass):
    """
    Symmetric int8 spends half of its numbers below zero, where ReLU leaves nothing and SiLU
    little. A value whose range, as calibration saw it, fits 255 steps half as long gets them and
    a `graph.zero_point`, at which the least number stored is the least seen; so does one that loses
    less than an eighth of what its exponent holds above. Scales stay powers of two.

    Values in 16 bits, and what meets shift-only functions or averages whose ties would be lost by
    a reciprocal, stay symmetric. Targets that only shift cannot take zero points and leave such
    layers to the CPU. With `when-chosen` it runs only if the network's `graph.recipe` has it.
    Needs `graph.range` and `graph.exponent`; changes no value.
    """

    name = "choose-zero-points"

    when_chosen: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main) or not runs(main, self.name, when_chosen=self.when_chosen):
            return
        refused: dict[SSAValue, None] = {}
        values: dict[SSAValue, None] = {}
        for inner in quantized_operations(main):
            ends = [*data_operands(inner), *inner.results]
            values |= dict.fromkeys(ends)
            match inner:
                case graph.UnaryOp() if form_of(inner) is Form.SHIFTS:
                    refused |= dict.fromkeys(ends)
                case graph.Pool2dOp() if _loses_ties(inner):
                    refused |= dict.fromkeys(ends)
                case graph.LinearOperation() if inner.weights in values:
                    refused[inner.weights] = None
                case _:
                    pass
        for value in values:
            if value not in refused:
                _choose(value)


def _loses_ties(op: graph.Pool2dOp) -> bool:
    """Whether windows of an average have an even number of elements, but no power of two."""
    size = prod(op.kernel.get_values())
    return op.function is graph.Pool.AVERAGE and (
        any(op.padding.get_values()) or (size % 2 == 0 and size.bit_count() > 1)
    )


def _choose(value: SSAValue) -> None:
    seen, known = interval(value), exponent(value)
    if seen is None or known is None or width(value) != NARROW or zero_point(value):
        return
    # Zero is always stored exactly: padding is zero.
    low, high = min(seen[0], 0.0), max(seen[1], 0.0)
    point = zero_point_of(low, known - 1)
    least, most = limits(NARROW)
    if not least <= point <= most:
        return
    reach, kept = ldexp(most, known), ldexp(most - point, known - 1)
    if high <= kept or -low <= LOST * reach:
        set_exponent(value, known - 1)
        set_zero_point(value, point)
