"""Q/DQ networks: whether one is, and which operations integers pass as floats do."""

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.analysis.quantizable import keeps_scale
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation


def only_moves(op: GraphOperation) -> bool:
    """Whether elements are moved, or the greatest taken; what puts others around is apart."""
    return not isinstance(op, graph.PadOp) and keeps_scale(op)


def carries_quantization(module: ModuleOp) -> bool:
    """
    Whether activations are quantized or dequantized anywhere; constants that are only stored
    in integers say nothing about activations.
    """
    for op in module.walk():
        if isinstance(op, GraphOperation) and not isinstance(op, graph.ConstantOp):
            if op.is_quantized:
                return True
            if isinstance(op, graph.DequantizeOp) and not isinstance(
                op.input.owner, graph.ConstantOp
            ):
                return True
    return False
