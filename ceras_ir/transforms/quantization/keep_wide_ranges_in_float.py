"""Keep logarithms and roots of squares in float, and the powers that they are of."""

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.traits import Elementwise
from ceras_ir.network.precision import keep_in_float
from ceras_ir.network.quantizable import keeps_scale
from ceras_ir.transforms.float_network_pass import FloatNetworkPass

REASON = "leads to a logarithm or a root of squares: small numbers count there, and int8 has few"


class KeepWideRangesInFloatPass(FloatNetworkPass):
    """
    Keep in float every logarithm and root of squares, such as the magnitudes of a spectrum, and
    what leads to it from a sum of products.

    That are elementwise operations, reductions, averages, softmax and moves, the variances of an
    instance normalization among them. They get `graph.precision = "f32"`.

    A logarithm tells .001 from .002 as it does 1 from 2, while steps of int8 are as large for small
    numbers as for large ones. Squares double that range, and a root halves it again: of 255 steps
    of a square the root would have 16. Where a sum of products, such as the filters of a spectrum,
    reads what squares lead to, it and they stay in float too. Changes no value.
    """

    name = "keep-wide-ranges-in-float"

    def change(self, main: FuncOp) -> None:
        leading: set[SSAValue] = set()
        for inner in reversed(list(main.body.block.ops)):
            starts = _is_start(inner)
            if not starts and leading.isdisjoint(inner.results):
                continue
            if starts or _leads_on(inner):
                leading.update(inner.operands)
            elif isinstance(inner, graph.LinearOperation) and _has_squares(inner.input):
                leading.add(inner.input)
            else:
                continue
            keep_in_float(inner, REASON)


def _is_start(op: Operation) -> bool:
    """Whether an operation is a logarithm or a root of squares."""
    if not isinstance(op, graph.UnaryOp):
        return False
    if op.function.kind is graph.Function.SQRT:
        return _has_squares(op.input)
    return op.function.kind is graph.Function.LOG


def _leads_on(op: Operation) -> bool:
    """Whether an operation is none of those that end the way back from what is kept."""
    if isinstance(op, graph.ReduceOp | graph.SoftmaxOp) or keeps_scale(op):
        return True
    if isinstance(op, graph.Pool2dOp):
        return op.function is graph.Pool.AVERAGE
    return op.has_trait(Elementwise, value_if_unregistered=False)


def _has_squares(value: SSAValue) -> bool:
    """Whether numbers times themselves lead to a value, without a sum of products between."""
    ways, seen = [value], set[SSAValue]()
    while ways:
        at = ways.pop()
        if at in seen or not isinstance(op := at.owner, Operation) or not _leads_on(op):
            continue
        seen.add(at)
        if isinstance(op, graph.BinaryOp) and op.function is graph.Binary.MUL and op.lhs is op.rhs:
            return True
        ways += op.operands
    return False
