"""
The quantized form of every operation that has one, from exponents that are already chosen.

Each is one rounding away from the float operation on the same stored numbers: products and
sums are exact in 32 bits, then one requantization rounds half up and clamps.
"""

from __future__ import annotations

from math import ldexp, prod

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.linear import MAX_RESIDUAL_SHIFT
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.network.precision import FINER, NARROW, WIDE, factor_exponents, width
from ceras_ir.network.ranges import (
    ROW_EXPONENTS,
    WEIGHT_EXPONENT,
    drop_statistics,
    row_exponents,
    weight_exponent,
)
from ceras_ir.network.storage import Storage
from ceras_ir.support.diagnostics import Finding, InputError, node_name
from ceras_ir.transforms.quantization.analysis.quantized_constants import (
    bias_constant,
    stored_constant,
)
from ceras_ir.transforms.quantization.analysis.rescaling import (
    MAX_RIGHT,
    clamp_range,
    rescaling,
    rescaling_to,
    rounding_of,
)
from ceras_ir.transforms.quantization.rewrites.quantized_functions import unary_form
from ceras_ir.transforms.quantization.rewrites.quantized_values import QuantizedValues
from ceras_ir.transforms.rebuilding import rebuild_linear, with_operands

POOL_OCTAVES = 30
"""
How far apart the scales of an average may be; further ones give the same: averages of up to
2^12 elements are all rounded to zero, or all saturated, in 16 bits too.
"""


MAX_WIDE_WINDOW = 1 << 15
"""Elements from which the sum of a window in 16 bits could leave 32; it is read in 8 bits."""


def quantized_form(op: GraphOperation, values: QuantizedValues) -> list[GraphOperation]:
    """The operations that replace `op`, which is quantizable; the last has its result."""
    match op:
        case graph.LinearOperation():
            return _linear(op, values)
        case graph.UnaryOp():
            return unary_form(op, values)
        case graph.BinaryOp():
            return [_binary(op, values)]
        case graph.Pool2dOp() if op.function is graph.Pool.AVERAGE:
            return [_average(op, values)]
        case _:
            target = values.storage(op.output)
            read = (
                values.get_as(v, target) if op.keeps_scale else values.get(v) for v in op.operands
            )
            new = op.quantized([*read], target.element)
            drop_statistics(new)
            return [new]


def _linear(op: graph.LinearOperation, values: QuantizedValues) -> list[GraphOperation]:
    source, weights = factor_exponents(op, values.exponent)
    target = values.storage(op.result)
    accumulator, rows = source + weights, row_exponents(op) or ()
    new: list[GraphOperation] = []
    bias = None
    if isinstance(op.bias, SSAValue) and isinstance(op.bias.owner, graph.ConstantOp):
        constant = op.bias.owner
        stored = bias_constant(constant.array(), accumulator, constant.location, rows)
        if stored is None:
            raise _refused(op, "the bias does not fit 32 bits: run --align-scales first")
        new.append(stored)
        bias = stored.result
    if rows and isinstance(op.weights.owner, graph.ConstantOp):
        owner = op.weights.owner
        new.append(stored_constant(owner.array(), Storage(weights), owner.location, rows))
        kernel = new[-1].output
    else:
        kernel = values.get(op.weights, weights, NARROW)
    shift = 0
    if op.residual is not None:
        shift = values.exponent(op.residual) - accumulator
        if not 0 <= shift <= MAX_RESIDUAL_SHIFT:
            raise _refused(
                op,
                f"residual_shift must be in [0, {MAX_RESIDUAL_SHIFT}], got {shift}: "
                "run --unfuse-residual first",
            )
    quantized = rebuild_linear(
        op,
        {
            "activation": None,
            "requant": rescaling(
                accumulator,
                target.exponent,
                clamp_range(op.activation, target),
                rows,
                target.zero_point,
            ),
            "residual_shift": IntegerAttr(shift, i64) if op.residual is not None else None,
        },
        input=values.get(op.input, source, NARROW if weight_exponent(op) is None else None),
        weights=kernel,
        bias=bias,
        residual=None if op.residual is None else values.get(op.residual),
        element=target.element,
    )
    drop_statistics(quantized)
    for name in (WEIGHT_EXPONENT, ROW_EXPONENTS):
        quantized.attributes.pop(name, None)
    return [*new, quantized]


def _binary(op: graph.BinaryOp, values: QuantizedValues) -> GraphOperation:
    lhs, rhs, target = (values.exponent(v) for v in (op.lhs, op.rhs, op.result))
    shifts = 0, 0
    if op.function is graph.Binary.MUL:
        # What a shift of 31 would all but drop loses its last bits first: 2^30 and a half fit.
        sources = max(lhs, target - rhs - MAX_RIGHT + 1), rhs
        accumulator = sources[0] + rhs
    else:
        # An operand too fine to be aligned is rounded first; its rest is below 2^-21 of the sum,
        # or 2^-13 where the other one has 16 bits, because a sum has 32.
        coarser = op.lhs if lhs >= rhs else op.rhs
        reach = (values.storage(coarser).element.reach - 1).bit_length()
        least = max(lhs, rhs) - graph.BinaryOp.MAX_SHIFT + reach - NARROW + 1
        sources = max(lhs, least), max(rhs, least)
        accumulator = min(sources)
        shifts = sources[0] - accumulator, sources[1] - accumulator
    operands = values.get(op.lhs, sources[0]), values.get(op.rhs, sources[1])
    elements = [graph.quantized_element(value) for value in operands]
    points = [element.zero_point for element in elements if element is not None]
    new = graph.BinaryOp(
        op.function,
        *operands,
        result_element=values.storage(op.result).element,
        shifts=shifts,
        requant=rescaling_to(values.storage(op.result), accumulator, points, op.activation),
    )
    new.location = op.location
    return new


def _average(op: graph.Pool2dOp, values: QuantizedValues) -> GraphOperation:
    source, target = values.exponent(op.input), values.storage(op.result).element
    narrow = prod(op.kernel.get_values()) >= MAX_WIDE_WINDOW
    if width(op.input) == WIDE and narrow:
        source += FINER
    input = values.get(op.input, source, NARROW if narrow else None)
    new = with_operands(op, [input], target)
    points = values.storage(op.input).zero_point, target.zero_point
    new.properties["requant"] = average_rescaling(op, input, target, rounding_of(*points))
    return new


def average_rescaling(
    op: graph.Pool2dOp, input: SSAValue, target: UniformType, rounding: Rounding
) -> RequantAttr:
    """Division by the size of the window, from one scale to another."""
    element = graph.stored_element(input)
    nearest = max(target.scale, ldexp(element.scale, -POOL_OCTAVES))
    bounded = min(nearest, ldexp(element.scale, POOL_OCTAVES))
    reciprocal = graph.reciprocal_requant(prod(op.kernel.get_values()), input, bounded)
    factor, shift = reciprocal.multiplier.data, reciprocal.shift.data
    log2 = factor.bit_length() - 1
    if not any(op.padding.get_values()) and factor == 1 << log2 and 0 <= shift - log2 <= MAX_RIGHT:
        # Every window is full, so that the factor is the same for all, and a shift does it.
        factor, shift = 1, shift - log2
    return RequantAttr(
        shift,
        multiplier=factor,
        rounding=rounding,
        zero_point=target.zero_point,
        low=target.low,
        high=target.high,
    )


def _refused(op: GraphOperation, message: str) -> InputError:
    return InputError([Finding(node_name(op), op.name, message)])
