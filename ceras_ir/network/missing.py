"""
Values that are missing: NaN in an input that the network replaces, as imputers and `nan_to_num` do.
"""

from collections.abc import Mapping
from typing import NamedTuple

from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare
from ceras_ir.network.function import input_names
from ceras_ir.network.quantizable import keeps_scale


class Replaced(NamedTuple):
    """A value, and what is taken in place of its NaN."""

    value: SSAValue
    by: SSAValue


def replaced_nan(op: graph.SelectOp) -> Replaced | None:
    """What `where(isnan(x), y, x)` replaces, however its condition is turned."""
    condition, kept, other = op.condition.owner, op.lhs, op.rhs
    if isinstance(condition, graph.BinaryOp) and condition.function is Binary.XOR:
        truth = graph.constant_array(condition.rhs)
        if truth is None or not truth.all():
            return None
        condition, kept, other = condition.lhs.owner, op.rhs, op.lhs
    if not isinstance(condition, graph.CompareOp) or condition.function is not Compare.EQUAL:
        return None
    return Replaced(kept, other) if condition.lhs is condition.rhs is kept else None


def inputs_that_may_lack(main: FuncOp) -> frozenset[str]:
    """
    The names of the inputs whose NaN reach no result: on every way from them something else is
    chosen where they are NaN, or a forest reads them, which has a branch for them. Between the
    input and the choice there may be moves and functions of single elements.
    """
    sources: dict[SSAValue, frozenset[str]] = {
        value: frozenset({name})
        for name, value in zip(input_names(main), main.body.block.args, strict=True)
        if isinstance(graph.element_of(value), AnyFloat)
    }
    found = frozenset[str]().union(*sources.values())
    for op in main.body.block.ops:
        lacking = _sources(op, sources)
        if not lacking or isinstance(op, graph.CompareOp | graph.TreeEnsembleOp):
            continue
        if isinstance(op, graph.UnaryOp | graph.BinaryOp | graph.SelectOp) or keeps_scale(op):
            sources[op.results[0]] = lacking
        else:
            found -= lacking
    return found


def _sources(op: Operation, sources: Mapping[SSAValue, frozenset[str]]) -> frozenset[str]:
    """The inputs whose NaN may be in what an operation reads."""
    read = set(op.operands)
    if isinstance(op, graph.SelectOp) and (replaced := replaced_nan(op)) is not None:
        read = {replaced.by}
    return frozenset[str]().union(*(sources.get(value, frozenset()) for value in read))
