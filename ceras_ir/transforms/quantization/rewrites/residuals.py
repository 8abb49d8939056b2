"""A residual outside of the layer that added it."""

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.storage import copy_statistics, drop_statistics
from ceras_ir.transforms.rebuilding import rebuild_linear


def split_residual(
    op: graph.LinearOperation, residual: SSAValue
) -> tuple[graph.LinearOperation, graph.BinaryOp]:
    """The layer without its residual, and the addition, put in its place."""
    plain = rebuild_linear(op, {"activation": None, "residual_shift": None}, residual=None)
    drop_statistics(plain)  # They are the sum's.
    total = graph.BinaryOp(
        graph.Binary.ADD,
        plain.result,
        residual,
        result_element=graph.element_of(op.result),
        activation=op.activation,
    )
    total.location = op.location
    copy_statistics(op, total)
    Rewriter.insert_op([plain, total], InsertPoint.before(op))
    op.result.replace_all_uses_with(total.result)
    Rewriter.erase_op(op)
    return plain, total
