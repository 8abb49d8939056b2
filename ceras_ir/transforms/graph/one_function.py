"""One function in the place of the elementwise operations that spell it."""

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.ranges import copy_statistics
from ceras_ir.support.diagnostics import fused_location


def replace_by_function(
    op: graph.GraphOperation, argument: SSAValue, function: graph.FunctionAttr
) -> None:
    """
    `function(argument)` in the place of the result of `op`. It answers to the names of `op` and of
    all between that nobody else reads; these stay until what is dead is erased.
    """
    new = graph.UnaryOp(argument, function)
    new.location = op.location
    gone: list[Operation] = [op]
    for inner in gone:
        for value in inner.operands:
            owner = value.owner
            if value is argument or not isinstance(owner, Operation) or owner in gone:
                continue
            if isinstance(owner, graph.ConstantOp):
                continue
            if all(use.operation in gone for use in value.uses):
                gone.append(owner)
                new.location = fused_location(new, owner)
    copy_statistics(op, new)
    Rewriter.insert_op(new, InsertPoint.before(op))
    new.result.name_hint = op.output.name_hint
    op.output.replace_all_uses_with(new.result)
