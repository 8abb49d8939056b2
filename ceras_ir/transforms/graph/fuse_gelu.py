"""Recognize GELU, which exporters spell with an error function."""

from dataclasses import dataclass
from math import sqrt

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.ranges import copy_statistics
from ceras_ir.support.diagnostics import fused_location

NEAR = 2.0**-20
"""Relative; how far the root of two may be off that exporters write."""


@dataclass(frozen=True)
class FuseGeluPass(ModulePass):
    """
    Replace `x * (erf(x / sqrt 2) + 1) * 0.5`, multiplied in any order, by the one function gelu,
    where nothing else reads what is between.

    Off by the rounding of what is multiplied in another order.
    """

    name = "fuse-gelu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = main_function(op).body.block
        for inner in list(block.ops):
            if isinstance(inner, graph.UnaryOp) and inner.function.kind is graph.Function.ERF:
                _fuse(inner)
        for inner in reversed(list(block.ops)):
            if isinstance(inner, graph.GraphOperation) and inner.results[0].first_use is None:
                Rewriter.erase_op(inner)


def _fuse(erf: graph.UnaryOp) -> None:
    argument = _over_root_of_two(erf.input)
    total = _only_reader(erf.result, graph.Binary.ADD)
    if argument is None or total is None or _number(_other(total, erf.result)) != 1.0:
        return
    last, factor, has_argument = total, 1.0, False
    while (product := _only_reader(last.result, graph.Binary.MUL)) is not None:
        other = _other(product, last.result)
        halved = other.owner
        if (number := _number(other)) is not None:
            factor *= number
        elif has_argument:
            break
        elif other is argument:
            has_argument = True
        elif isinstance(halved, graph.BinaryOp) and argument in halved.operands:
            number = _number(_other(halved, argument))
            if halved.function is not graph.Binary.MUL or halved.activation or number is None:
                break
            factor, has_argument = factor * number, True
        else:
            break
        last = product
        if has_argument and factor == 0.5:
            _replace(argument, last, erf)
            return


def _replace(argument: SSAValue, last: graph.BinaryOp, erf: graph.UnaryOp) -> None:
    if graph.shape_of(argument) != graph.shape_of(last.result):
        return
    gelu = graph.UnaryOp(argument, graph.FunctionAttr(graph.Function.GELU))
    gelu.location = fused_location(last, erf)
    copy_statistics(last, gelu)
    Rewriter.insert_op(gelu, InsertPoint.before(last))
    gelu.result.name_hint = last.result.name_hint
    last.result.replace_all_uses_with(gelu.result)


def _over_root_of_two(value: SSAValue) -> SSAValue | None:
    owner = value.owner
    if not isinstance(owner, graph.BinaryOp) or owner.activation is not None:
        return None
    number = _number(owner.rhs)
    expected = {graph.Binary.DIV: sqrt(2), graph.Binary.MUL: sqrt(0.5)}.get(owner.function)
    if number is None or expected is None or abs(number - expected) > NEAR * expected:
        return None
    return owner.lhs


def _only_reader(value: SSAValue, function: graph.Binary) -> graph.BinaryOp | None:
    if not value.has_one_use():
        return None
    reader: Operation = next(iter(value.uses)).operation
    if not isinstance(reader, graph.BinaryOp) or reader.function is not function:
        return None
    return None if reader.activation is not None or reader.is_quantized else reader


def _other(op: graph.BinaryOp, value: SSAValue) -> SSAValue:
    return op.rhs if op.lhs is value else op.lhs


def _number(value: SSAValue) -> float | None:
    array = graph.constant_array(value)
    return None if array is None or array.size != 1 else float(array.reshape(-1)[0])
