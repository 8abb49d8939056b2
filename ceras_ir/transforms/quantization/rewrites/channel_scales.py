"""Float multiplications that give channels of values factors of their own."""

from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.network.precision import NARROW, keep_in_float, stays_float, width
from ceras_ir.transforms.quantization.analysis.channel_slots import (
    is_channel_scale,
    layers_behind,
)

REASON = "brings channels near each other before they share the steps of int8"


def insert_channel_scales(main: FuncOp) -> None:
    """
    Multiply by ones what floats make of sums of products, such as a spectrum, and only layers of
    integers read.
    """
    import numpy as np

    behind: set[SSAValue] = set()
    for op in list(main.body.block.ops):
        if not isinstance(op, GraphOperation):
            continue
        is_linear = isinstance(op, graph.LinearOperation)
        if is_linear or not behind.isdisjoint(op.operands):
            behind.update(op.results)
        value = op.results[0]
        if is_linear or value not in behind or not stays_float(op):
            continue
        layers = layers_behind(main, value)
        if width(value) != NARROW or not layers or any(map(stays_float, layers)):
            continue
        ones = graph.ConstantOp.from_array(np.ones(graph.shape_of(value)[-1:], np.float32))
        scaled = graph.BinaryOp(graph.Binary.MUL, value, ones.result, result_element=f32)
        keep_in_float(scaled, REASON)
        ones.location = scaled.location = op.location
        value.replace_uses_with_if(scaled.result, lambda use, own=scaled: use.operation is not own)
        Rewriter.insert_op((ones, scaled), InsertPoint.after(op))


def drop_channel_scales(main: FuncOp) -> None:
    """Remove multiplications by ones that nothing was made of."""
    for op in list(main.body.block.ops):
        if is_channel_scale(op) and (graph.known_array(op.rhs) == 1).all():
            ones = op.rhs.owner
            op.result.replace_all_uses_with(op.lhs)
            Rewriter.erase_op(op)
            if isinstance(ones, Operation) and not any(result.uses for result in ones.results):
                Rewriter.erase_op(ones)
