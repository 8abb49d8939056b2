"""Rules of `keep-in-float`: factors and values over several orders of magnitude."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import Float32Type
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import Elementwise
from ceras_ir.network.quantizable import keeps_scale
from ceras_ir.network.storage import keep_in_float
from ceras_ir.support.diagnostics import node_names
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.graph.fuse_epilogues import split_activation
from ceras_ir.transforms.quantization.options import ExceptionOptions
from ceras_ir.transforms.quantization.set_precision import is_named

SPREAD = 16
"""How much larger than the median a factor may be: the median then has 8 steps of int8."""

FACTORS = "multiplies by constants so different that one scale of int8 has no steps for most"


@dataclass(frozen=True)
class FactorRule(ExceptionOptions, FloatNetworkPass):
    """
    Keep in float the elementwise products by constants of which the largest is more than 16 times
    the median.

    Factors share a scale. After a ReLU, a batch normalization divides a channel that is always zero
    by the root of epsilon: next to that factor, all other factors would be zero. Zeros among the
    factors do not count. Changes no value.
    """

    name = "factors"

    def change(self, main: FuncOp) -> None:
        for inner in main.body.block.ops:
            factors = _factors(inner)
            if factors is None or is_named(node_names(inner), self.besides):
                continue
            if _is_wide(factors):
                keep_in_float(inner, FACTORS)


def _factors(op: Operation) -> NDArray[np.generic] | None:
    """The constant that a value is multiplied by, in float."""
    if not isinstance(op, graph.BinaryOp) or op.function is not graph.Binary.MUL:
        return None
    if not isinstance(graph.element_of(op.result), Float32Type):
        return None
    known = (graph.constant_array(value) for value in (op.lhs, op.rhs))
    return next((array for array in known if array is not None), None)


def _is_wide(factors: NDArray[np.generic]) -> bool:
    sizes = np.abs(factors.astype(np.float32))
    sizes = sizes[sizes != 0]
    return sizes.size > 1 and bool(sizes.max() > SPREAD * np.median(sizes))


SMALL = "leads to a logarithm, a divisor or a root of squares: small numbers count there"


class RangeRule(FloatNetworkPass):
    """
    Keep in float every logarithm, quotient and its arc tangent, and root of squares, and what leads
    to it, or to the divisor, from a sum of products.

    Magnitudes of a spectrum are such roots, and arc cosines and angles such arc tangents. What
    leads to them are elementwise operations, reductions, averages, softmax and moves, the variances
    of an instance normalization among them. They get `graph.precision = "f32"`.

    A logarithm tells .001 from .002 as it does 1 from 2, and so does a quotient of its divisor,
    while steps of int8 are as large for small numbers as for large ones. Squares double that range,
    and a root halves it again: of 255 steps of a square the root would have 16. Where a sum of
    products, such as the filters of a spectrum, reads what squares lead to, it and they stay in
    float too. So does what leads from a logarithm to an exponential, and the exponential: sums of
    logarithms are products, of which a step of int8 would be a factor. Changes no value.

    A layer that leads there can end in a clip with a positive lower bound, such as 1e-7. The bound
    would round to 0 and the logarithm to minus infinity, so that the clip becomes an operation in
    float.
    """

    name = "ranges"

    def change(self, main: FuncOp) -> None:
        ops = list(main.body.block.ops)
        logarithms = _logarithms(ops)
        leading: set[SSAValue] = set()
        for inner in reversed(ops):
            if leading.isdisjoint(inner.results):
                read = _starts(inner, logarithms)
            elif (bounds := _positive_bounds(inner)) is not None:
                assert isinstance(inner, graph.Conv2dOp | graph.MatmulOp)
                keep_in_float(split_activation(inner, bounds), SMALL)
                read = []
            elif _leads_on(inner):
                read = inner.operands
            elif isinstance(inner, graph.LinearOperation) and _has_squares(inner.input):
                read = [inner.input]
            else:
                read = []
            if read:
                leading.update(read)
                keep_in_float(inner, SMALL)


def _starts(op: Operation, logarithms: Collection[SSAValue]) -> Sequence[SSAValue]:
    """What an operation reads of which small numbers count."""
    match op:
        case graph.BinaryOp(function=graph.Binary.DIV, rhs=divisor):
            return [] if isinstance(divisor.owner, graph.ConstantOp) else [divisor]
        case graph.UnaryOp(input=value):
            match op.function.kind:
                case graph.Function.LOG:
                    counts = True
                case graph.Function.EXP:
                    counts = value in logarithms
                case graph.Function.SQRT:
                    counts = _has_squares(value)
                case graph.Function.ATAN:
                    counts = _is_quotient(value)
                case _:
                    counts = False
            return [value] if counts else []
        case _:
            return []


def _positive_bounds(op: Operation) -> graph.FunctionAttr | None:
    """Return the clip of a layer that has a positive lower bound, which rounds to 0 in int8."""
    function = op.activation if isinstance(op, graph.LinearOperation) else None
    bounds = None if function is None else function.clip_range
    return function if bounds is not None and bounds[0] > 0 else None


def _is_quotient(value: SSAValue) -> bool:
    """Whether a value is a quotient of computed values, its root, or an element of those."""
    match value.owner:
        case graph.BinaryOp(function=graph.Binary.DIV, rhs=divisor):
            return not isinstance(divisor.owner, graph.ConstantOp)
        case graph.UnaryOp(function=graph.FunctionAttr(kind=graph.Function.SQRT), input=inner):
            return _is_quotient(inner)
        case Operation() as op if keeps_scale(op):
            return any(map(_is_quotient, op.operands))
        case _:
            return False


def _logarithms(ops: Sequence[Operation]) -> set[SSAValue]:
    """Logarithms, and what is made of them but by exponentials and sums of products."""
    found = set[SSAValue]()
    for op in ops:
        kind = op.function.kind if isinstance(op, graph.UnaryOp) else None
        leads = _leads_on(op) and kind is not graph.Function.EXP
        if kind is graph.Function.LOG or (leads and not found.isdisjoint(op.operands)):
            found.update(op.results)
    return found


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
