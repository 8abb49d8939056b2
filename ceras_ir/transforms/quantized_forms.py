"""
The quantized form of every operation that has one, from exponents that are already chosen.

Each is one rounding away from the float operation on the same stored numbers: products and
sums are exact in 32 bits, then one requantization rounds half up and clamps.
"""

from __future__ import annotations

from math import ldexp, prod

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from ceras_ir.analysis.quantized_constants import bias_constant, int8_type, lookup_table
from ceras_ir.analysis.ranges import WEIGHT_EXPONENT, drop_statistics, weight_exponent
from ceras_ir.analysis.rescaling import MAX_RIGHT, clamp_range, rescaling
from ceras_ir.diagnostics import Finding, InputError, node_name
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.linear import MAX_RESIDUAL_SHIFT
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.transforms.quantized_values import QuantizedValues
from ceras_ir.transforms.rebuilding import rebuild_linear, with_operands

FUNCTION = "graph.function"
"""Attribute of a `graph.lookup`: the function that its table was made from."""

POOL_OCTAVES = 20
"""
How far apart the scales of an average may be; further ones give the same: averages of up to
2^12 elements are all rounded to zero, or all saturated.
"""


def quantized_form(op: GraphOperation, values: QuantizedValues) -> list[GraphOperation]:
    """The operations that replace `op`, which is quantizable; the last has its result."""
    match op:
        case graph.LinearOperation():
            return _linear(op, values)
        case graph.UnaryOp():
            return [_unary(op, values)]
        case graph.BinaryOp():
            return [_binary(op, values)]
        case graph.Pool2dOp() if op.function is graph.Pool.AVERAGE:
            return [_average(op, values)]
        case _:
            target = values.exponent(op.output)
            operands = [values.get(v, target) for v in op.operands]
            new = with_operands(op, operands, int8_type(target))
            if isinstance(new, graph.PadOp):
                new.value = IntegerAttr(0, i64)
            return [new]


def _linear(op: graph.LinearOperation, values: QuantizedValues) -> list[GraphOperation]:
    chosen = weight_exponent(op)
    source, target = values.exponent(op.input), values.exponent(op.result)
    weights = values.exponent(op.weights) if chosen is None else chosen
    accumulator = source + weights
    new: list[GraphOperation] = []
    bias = None
    if isinstance(op.bias, SSAValue) and isinstance(op.bias.owner, graph.ConstantOp):
        constant = op.bias.owner
        stored = bias_constant(constant.array(), accumulator, constant.location)
        if stored is None:
            raise _refused(op, "the bias does not fit 32 bits: run --align-scales first")
        new.append(stored)
        bias = stored.result
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
        values.get(op.input),
        values.get(op.weights, weights),
        bias,
        None if op.residual is None else values.get(op.residual),
        graph.type_with_element(op.result, int8_type(target)),
        {
            "activation": None,
            "requant": rescaling(accumulator, target, clamp_range(op.activation, target)),
            "residual_shift": IntegerAttr(shift, i64) if op.residual is not None else None,
        },
    )
    drop_statistics(quantized)
    quantized.attributes.pop(WEIGHT_EXPONENT, None)
    return [*new, quantized]


def _unary(op: graph.UnaryOp, values: QuantizedValues) -> GraphOperation:
    source, target = values.exponent(op.input), values.exponent(op.result)
    element = int8_type(target)
    new: GraphOperation
    if op.function.clip_range is not None:
        requant = rescaling(source, target, clamp_range(op.function, target))
        new = graph.RequantizeOp(values.get(op.input), element, requant)
    else:
        table = lookup_table(op.function, source, target)
        new = graph.LookupOp(values.get(op.input), table, element)
        new.attributes[FUNCTION] = op.function
    new.location = op.location
    return new


def _binary(op: graph.BinaryOp, values: QuantizedValues) -> GraphOperation:
    lhs, rhs, target = (values.exponent(v) for v in (op.lhs, op.rhs, op.result))
    clamp = clamp_range(op.activation, target)
    if op.function is graph.Binary.MUL:
        sources, shifts = (lhs, rhs), (0, 0)
        requant = rescaling(lhs + rhs, target, clamp)
    else:
        # An operand too fine to be aligned is rounded first; its rest is below 2^-22 of the sum.
        least = max(lhs, rhs) - graph.BinaryOp.MAX_SHIFT
        sources = max(lhs, least), max(rhs, least)
        finest = min(sources)
        shifts = sources[0] - finest, sources[1] - finest
        requant = rescaling(finest, target, clamp)
    new = graph.BinaryOp(
        op.function,
        values.get(op.lhs, sources[0]),
        values.get(op.rhs, sources[1]),
        result_element=int8_type(target),
        shifts=shifts,
        requant=requant,
    )
    new.location = op.location
    return new


def _average(op: graph.Pool2dOp, values: QuantizedValues) -> GraphOperation:
    source, target = values.exponent(op.input), values.exponent(op.result)
    bounded = min(max(target, source - POOL_OCTAVES), source + POOL_OCTAVES)
    input = values.get(op.input)
    requant = graph.reciprocal_requant(prod(op.kernel.get_values()), input, ldexp(1.0, bounded))
    factor, shift = requant.multiplier.data, requant.shift.data
    log2 = factor.bit_length() - 1
    if not any(op.padding.get_values()) and factor == 1 << log2 and 0 <= shift - log2 <= MAX_RIGHT:
        # Every window is full, so that the factor is the same for all, and a shift does it.
        requant = RequantAttr(shift - log2)
    new = with_operands(op, [input], int8_type(target))
    new.properties["requant"] = requant
    return new


def _refused(op: GraphOperation, message: str) -> InputError:
    return InputError([Finding(node_name(op), op.name, message)])
