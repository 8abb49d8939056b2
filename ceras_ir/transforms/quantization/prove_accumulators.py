"""Prove that no 32-bit accumulator of a quantized network can overflow, whatever the input."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.network.integer import zero_points
from ceras_ir.support.diagnostics import Finding, InputError, node_name

LARGEST = 2**31 - 1


@dataclass(frozen=True)
class ProveAccumulatorsPass(ModulePass):
    """
    Refuse a quantized network in which some accumulator could leave 32 bits. Changes nothing.

    The bound is computed per output channel on the stored integers: |bias| + sum of |weight| *
    largest |input|, plus the largest |residual| shifted left, plus the half that a rounding shift
    adds. It holds in any order of addition, so every target may choose its own.
    """

    name = "prove-accumulators"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        findings = [
            Finding(
                node_name(inner),
                inner.name,
                f"the accumulator can reach {bound}, which exceeds {LARGEST} "
                "(2^31 - 1); choose a coarser scale for the weights or the result",
            )
            for inner, bound in accumulator_bounds(op)
            if bound > LARGEST
        ]
        if findings:
            raise InputError(findings)


def accumulator_bounds(module: ModuleOp) -> Iterator[tuple[Operation, int]]:
    """The largest magnitude of the accumulator of every quantized operation that has one."""
    for op in module.walk():
        match op:
            case graph.LinearOperation(requant=RequantAttr() as requant):
                residual = 0 if op.residual is None else _largest(op.residual)
                yield (
                    op,
                    _sums(op) + (residual << max(op.residual_shifts)) + _half(requant),
                )
            case graph.BinaryOp(requant=RequantAttr() as requant):
                lhs, rhs = _largest(op.lhs) * op.factors[0], _largest(op.rhs) * op.factors[1]
                sum_or_product = lhs * rhs if op.function is graph.Binary.MUL else lhs + rhs
                yield op, sum_or_product + _half(requant)
            case graph.Pool2dOp(requant=RequantAttr()):
                rows, columns = op.kernel.get_values()
                yield op, rows * columns * _largest(op.input)
            case _:
                pass


def _sums(op: graph.LinearOperation) -> int:
    """The largest |bias| + sum of |weight| * |input| of any output channel."""
    constant = graph.constant_array(op.weights)
    shape = graph.shape_of(op.weights)
    if constant is None:
        weights = np.full(shape, _largest(op.weights), np.int64)
    else:
        element = graph.stored_element(op.weights)
        weights = np.abs(constant.astype(np.int64) - zero_points(element, len(shape)))
    products = weights.reshape(shape[0], -1).sum(axis=1) * _largest(op.input)
    if op.bias is None:
        return int(products.max())
    bias = graph.constant_array(op.bias)
    if bias is None:
        return 1 << 31
    return int((products + np.abs(bias.astype(np.int64))).max())


def _largest(value: SSAValue) -> int:
    """The largest magnitude of a stored number less its zero point."""
    element = graph.stored_element(value)
    return element.reach


def _half(requant: RequantAttr) -> int:
    """What a shift adds for rounding in 32 bits; a multiplier works on 64."""
    if requant.multiplier.data != 1 or requant.shift.data == 0 or requant.mode is Rounding.FLOOR:
        return 0
    return 1 << requant.shift.data - 1
