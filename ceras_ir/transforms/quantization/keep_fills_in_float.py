"""Keep in float what has a number as large as no other where nothing else was put."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.precision import keep_in_float
from ceras_ir.network.quantizable import keeps_scale
from ceras_ir.transforms.float_network_pass import FloatNetworkPass

FILL = 1e4
"""Magnitude from which a constant is taken to stand for no number: the least that exporters use."""

REASON = "may have a number as large as no other, beside which int8 has no steps"


@dataclass(frozen=True)
class KeepFillsInFloatPass(FloatNetworkPass):
    """
    Keep in float what puts numbers beside a fill, and what reads it: they get
    `graph.precision = "f32"`.

    A fill is a constant with an element of magnitude 10,000 or more, among which rows are put, or
    that a selection or a concatenation has beside other values: -1e9 where a maximum over the
    points of a cell has no point. Sums, maxima, minima, magnitudes and moves may have it too; what
    reads it, such as a ReLU, bounds it. Changes no value.
    """

    name = "keep-fills-in-float"

    def change(self, main: FuncOp) -> None:
        filled: set[SSAValue] = set()
        for op in main.body.block.ops:
            if not op.results or isinstance(op, graph.LinearOperation | graph.ConstantOp):
                continue
            reads = not filled.isdisjoint(op.operands)
            if makes := _makes_fill(op, reads=reads):
                filled.update(op.results)
            if reads or makes:
                keep_in_float(op, REASON)


def _makes_fill(op: Operation, *, reads: bool) -> bool:
    """Whether a result may have a fill, as an operand has if it `reads` one."""
    if graph.element_of(op.results[0]) != f32:
        return False
    match op:
        case graph.PutOp() | graph.SelectOp() | graph.ConcatOp():
            return reads or any(map(_is_fill, op.operands))
        case graph.BinaryOp(function=graph.Binary.ADD | graph.Binary.MAX | graph.Binary.MIN):
            return reads
        case graph.UnaryOp(function=graph.FunctionAttr(kind=graph.Function.LEAKY_RELU)):
            return reads  # Of slope -1 a magnitude.
        case _:
            return reads and keeps_scale(op)


def _is_fill(value: SSAValue) -> bool:
    op = value.owner
    if not isinstance(op, graph.ConstantOp) or graph.element_of(value) != f32:
        return False
    return bool((np.abs(op.array()) >= FILL).any())
