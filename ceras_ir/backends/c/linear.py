"""Sums of products: which of the ways to print them an operation takes."""

from ceras_ir.backends.c.computed_weights import computed_integer_matmul, computed_matmul
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_float import float_linear
from ceras_ir.backends.c.linear_integer import integer_linear
from ceras_ir.backends.c.ordered_rows import ordered_rows, takes_ordered_rows
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.requant import Refused
from ceras_ir.dialects import graph


@prints(graph.Conv2dOp, graph.MatmulOp)
def linear(layer: Layer, op: graph.Conv2dOp | graph.MatmulOp) -> None:
    """`graph.conv2d` and `graph.matmul`."""
    if op.table is not None:
        raise Refused("a table behind a sum of products; leave fuse-lookup out, which is for nnet")
    if isinstance(op, graph.MatmulOp) and not isinstance(op.weights.owner, graph.ConstantOp):
        (computed_integer_matmul if op.is_quantized else computed_matmul)(layer, op)
    elif op.is_quantized:
        integer_linear(layer, op)
    elif takes_ordered_rows(layer, op):
        ordered_rows(layer, op)
    else:
        float_linear(layer, op)
