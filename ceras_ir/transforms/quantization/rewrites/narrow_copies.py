"""Copies in 8 bits of values that others read in 16: what products take for the price of bytes."""

from collections.abc import Mapping
from math import inf

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.quantizable import computes, joins, keeps_scale, quantized_operations
from ceras_ir.network.storage import (
    NARROW,
    STATISTICS,
    attributes_of,
    exponent,
    set_attribute,
    stays_float,
    width,
)

Copies = Mapping[SSAValue, graph.UnaryOp]
"""The copy of each value that has one."""


def insert_copies(main: FuncOp, *, of_products: bool) -> Copies:
    """
    Have products with constant weights read copies of the stored values that something else reads
    too, such as a residual. A copy is a clip without bounds, with the range and scale of its value;
    where both have one width, `erase_idle_copies` takes it out again. Of results of products there
    are copies only if `of_products`: an accelerator of 8 bits does not make 16.
    """
    inside = quantized_operations(main)
    made = [op.results[0] for op in inside if computes(op) or joins(op)]
    copies: dict[SSAValue, graph.UnaryOp] = {}
    for value in (*main.body.block.args, *made):
        products = [use for use in value.uses if _is_product(use)]
        is_narrow = width(value) == NARROW and exponent(value) is not None
        if isinstance(value.owner, graph.LinearOperation) and not of_products:
            continue
        if is_narrow and 0 < len(products) < len(list(value.uses)):
            copies[value] = _copied(main, value, products)
    return copies


def erase_idle_copies(copies: Copies) -> None:
    """Have products read a value itself that is stored as its copy is."""
    for value, copy in copies.items():
        if width(value) == width(copy.result):
            copy.result.replace_all_uses_with(value)
            Rewriter.erase_op(copy)


def _copied(main: FuncOp, value: SSAValue, uses: list[Use]) -> graph.UnaryOp:
    copy = graph.UnaryOp(value, graph.FunctionAttr(graph.Function.CLIP, [-inf, inf]))
    owner = value.owner
    if isinstance(owner, Operation):
        copy.location, place = owner.location, InsertPoint.after(owner)
    else:
        copy.location, place = uses[0].operation.location, InsertPoint.at_start(main.body.block)
    for name in STATISTICS:
        set_attribute(copy.result, name, attributes_of(value).get(name))
    Rewriter.insert_op(copy, place)
    for use in uses:
        use.operation.operands[use.index] = copy.result
    return copy


def _is_product(use: Use) -> bool:
    """
    Whether products with constant weights read this use, moved or not, and nothing else does. What
    floats move is stored behind them.
    """
    op = use.operation
    if stays_float(op):
        return False
    if isinstance(op, graph.LinearOperation):
        return use.index == 0 and isinstance(op.weights.owner, graph.ConstantOp)
    if not keeps_scale(op) or joins(op):
        return False
    uses = list(op.results[0].uses)
    return bool(uses) and all(map(_is_product, uses))
