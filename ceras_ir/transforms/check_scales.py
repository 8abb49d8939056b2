"""Check the arithmetic of scales in a quantized network, apart from what chose them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.diagnostics import Finding, InputError, node_name
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import scale_of
from ceras_ir.dialects.quant import RequantAttr

TOLERANCE = 2.0**-22
"""Relative; a multiplier of 31 bits stays far below, and powers of two are exact."""


@dataclass(frozen=True)
class CheckScalesPass(ModulePass):
    """
    Refuse a quantized network whose shifts and multipliers contradict the scales of its
    types: every requantization must turn the scale of its accumulator into that of its
    result, biases and residuals must be at the accumulator's, addends at one. Changes nothing.
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
    match op:
        case graph.LinearOperation(requant=RequantAttr() as requant):
            accumulator = scale_of(op.input) * scale_of(op.weights)
            if op.bias is not None:
                yield from _differ("bias", scale_of(op.bias), "the accumulator", accumulator)
            if op.residual is not None:
                aligned = scale_of(op.residual) / 2**op.residual_left_shift
                yield from _differ("shifted residual", aligned, "the accumulator", accumulator)
        case graph.BinaryOp(requant=RequantAttr() as requant):
            lhs, rhs = scale_of(op.lhs) / 2 ** op.shifts[0], scale_of(op.rhs) / 2 ** op.shifts[1]
            if op.function is graph.Binary.MUL:
                accumulator = lhs * rhs
            else:
                accumulator = lhs
                yield from _differ("shifted lhs", lhs, "the shifted rhs", rhs)
        case graph.Pool2dOp(requant=RequantAttr() as requant):
            accumulator = scale_of(op.input) / prod(op.kernel.get_values())
        case graph.RequantizeOp(requant=requant):
            accumulator = scale_of(op.input)
        case _:
            return
    made, result = accumulator / _factor(requant), scale_of(op.results[0])
    # Integers below 2^30 vanish in a shift of 31, and so they would in a longer one; so does
    # a factor of 2^30 saturate all but zero. Shifters have no more.
    vanishes = requant.shift.data == 31 and not isinstance(op, graph.LinearOperation)
    if not (vanishes and made < result) and not (_factor(requant) == 2**30 and made > result):
        yield from _differ("requantized accumulator", made, "the result", result)


def _factor(requant: RequantAttr) -> float:
    """What a requantization multiplies its accumulator by."""
    return requant.multiplier.data / 2.0**requant.shift.data


def _differ(name: str, scale: float, of: str, expected: float) -> Iterator[str]:
    if abs(scale - expected) > TOLERANCE * expected:
        yield f"the {name} has scale {scale}, but {of} has {expected}"
