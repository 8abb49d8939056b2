"""Check the arithmetic of scales and zero points, apart from what chose them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import scale_of
from ceras_ir.dialects.graph.normalization import FRACTION, RECIPROCAL
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.support.diagnostics import Finding, InputError, node_name

T = TypeVar("T")
U = TypeVar("U")

TOLERANCE = 2.0**-22
"""Relative; a multiplier of 31 bits stays far below, and powers of two are exact."""
PRODUCT_BITS = 28
"""Of addends times multipliers, whose sum has to fit 32 bits: wide addends leave these few bits."""


@dataclass(frozen=True)
class CheckScalesPass(ModulePass):
    """
    Refuse a quantized network whose requantizations contradict the scales and zero points of its
    types.

    1. Every requantization turns the scale of its accumulator into that of its result, and adds the
       result's zero point.
    2. Biases and residuals have the accumulator's scale.
    3. Addends share one scale.

    Changes nothing.
    """

    name = "check-scales"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        findings = [
            Finding(node_name(inner), inner.name, message)
            for inner in op.walk()
            for message in _contradictions(inner)
        ]
        if findings:
            raise InputError(findings)


def _contradictions(op: Operation) -> Iterator[str]:
    if any(_has_channels(value) for value in _activations(op)):
        yield "activations have one scale; only constants have one for each channel"
        return
    yield from _misplaced(op)
    match op:
        case graph.LinearOperation(requant=RequantAttr() as requant):
            (input,) = _scales(op.input)
            accumulators = [input * weights for weights in _scales(op.weights)]
            if op.bias is not None:
                for bias, accumulator in _pairs(_scales(op.bias), accumulators):
                    yield from _differ("bias", bias, "the accumulator", accumulator)
            if op.residual is not None:
                residuals = [scale_of(op.residual) / 2**shift for shift in op.residual_shifts]
                for aligned, accumulator in _pairs(residuals, accumulators):
                    yield from _differ("shifted residual", aligned, "the accumulator", accumulator)
            if op.table is not None:
                # No type says the scale of what a table is asked for.
                return
        case graph.BinaryOp(requant=RequantAttr() as requant):
            if op.function is not graph.Binary.MUL and op.multipliers != (1, 1):
                yield from _misaligned(op, requant)
                return
            lhs, rhs = scale_of(op.lhs) / 2 ** op.shifts[0], scale_of(op.rhs) / 2 ** op.shifts[1]
            if op.function is graph.Binary.MUL:
                accumulators = [lhs * rhs]
            else:
                accumulators = [lhs]
                yield from _differ("shifted lhs", lhs, "the shifted rhs", rhs)
        case graph.Pool2dOp(requant=RequantAttr() as requant):
            accumulators = [scale_of(op.input) / prod(op.kernel.get_values())]
        case graph.RequantizeOp(requant=requant) | graph.ShiftSwishOp(requant=requant):
            accumulators = [scale_of(op.input)]
        case graph.IntegerSoftmaxOp(requant=requant):
            accumulators = [2.0**-RECIPROCAL]
        case graph.IntegerNormalizeOp(requant=requant):
            accumulators = [scale_of(op.scale) * 2.0**-FRACTION]
            yield from _differ("bias", scale_of(op.bias), "the accumulator", accumulators[0])
        case _:
            return
    coarse = 0.0
    if isinstance(op, graph.BinaryOp) and op.function is not graph.Binary.MUL:
        # Multipliers may have come out as powers of two, to as many bits as they had.
        coarse = 2.0 ** (graph.stored_element(op.lhs).storage.width.data - PRODUCT_BITS)
    unit = 2.0**-requant.shift.data
    # The least factor at which all but zero saturates, and the greatest at which all vanishes.
    enough, little = 2.0**30, 0.0
    if isinstance(op, graph.Pool2dOp):
        given, made = (graph.stored_element(v).storage.width.data for v in (op.input, op.result))
        enough = 2.0 ** (made + 1)
        little = 0.499 / 2.0**given / prod(op.kernel.get_values())
    for multiplier, accumulator in _pairs(requant.multipliers, accumulators):
        factor = multiplier * unit
        made, result = accumulator / factor, scale_of(op.results[0])
        # Integers below 2^30 vanish in a shift of 31, and so they would in a longer one; so
        # does a factor of 2^30 saturate all but zero. Shifters have no more, multipliers one bit.
        vanishes = requant.shift.data == 31 and not isinstance(op, graph.LinearOperation)
        vanishes |= factor <= little
        if (vanishes and made < result) or (factor >= enough and made > result):
            continue
        # A multiplier is a whole number; channels of small scales have small ones.
        slack = 0.0 if multiplier == 1 and not requant.is_per_channel else result * unit
        slack = max(slack / factor, coarse * result)
        yield from _differ("requantized accumulator", made, "the result", result, slack)


def _activations(op: Operation) -> list[SSAValue]:
    """What a rescaling operation reads and gives, but for weights and biases."""
    if not isinstance(op, graph.GraphOperation) or "requant" not in op.properties:
        return []
    weights = op.weights if isinstance(op, graph.LinearOperation) else None
    return [v for v in (*op.data_operands, *op.results) if v is not weights]


def _has_channels(value: SSAValue) -> bool:
    element = graph.quantized_element(value)
    return element is not None and element.is_per_axis


def _misplaced(op: Operation) -> Iterator[str]:
    """Operations compute with numbers less their zero points, so that zero has to become zero."""
    requant = op.properties.get("requant")
    if not isinstance(requant, RequantAttr):
        return
    if isinstance(op, graph.LinearOperation) and op.table is not None:
        return  # No type says the zero point of what a table is asked for.
    added, expected = requant.zero_point.data, graph.stored_element(op.results[0]).zero_point
    if added != expected:
        yield f"the requantization adds zero point {added}, but the result has {expected}"


def _misaligned(op: graph.BinaryOp, requant: RequantAttr) -> Iterator[str]:
    """Each addend has a multiplier of its own that takes it to the scale of the result."""
    unit, result = requant.multiplier.data / 2.0**requant.shift.data, scale_of(op.result)
    for name, value, factor in zip(("lhs", "rhs"), (op.lhs, op.rhs), op.factors, strict=True):
        made = factor * unit * result
        yield from _differ(
            f"multiplied {name}", made, "the operand", scale_of(value), result * unit
        )


def _scales(value: SSAValue) -> list[float]:
    """The scales of a quantized value: one, or one per channel."""
    element = graph.stored_element(value)
    return [scale.data for scale in element.scales]


def _pairs(first: Sequence[T], second: Sequence[U]) -> Iterator[tuple[T, U]]:
    """Entries that belong to the same channel, where one entry stands for all channels."""
    count = max(len(first), len(second))
    return ((first[i % len(first)], second[i % len(second)]) for i in range(count))


def _differ(name: str, scale: float, of: str, expected: float, slack: float = 0.0) -> Iterator[str]:
    if abs(scale - expected) > max(TOLERANCE * expected, slack):
        yield f"the {name} has scale {scale}, but {of} has {expected}"
