"""
The pass `keep-in-float` keeps in float the operations for which int8 has no steps.

The rules for both ends of a network and for wide ranges are in this file; the rules for data
movement and masks are in `keep_moves_in_float.py`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import Float32Type, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import Elementwise
from ceras_ir.network.function import is_alias, keeps_scale, states_of
from ceras_ir.network.storage import keep_in_float
from ceras_ir.support.diagnostics import node_names
from ceras_ir.transforms.graph.affine_forward import DepthwiseRule
from ceras_ir.transforms.graph.fuse_epilogues import split_activation
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, RulePass
from ceras_ir.transforms.quantization.keep_moves_in_float import (
    CellStateRule,
    FillRule,
    FloatPixelRule,
    ForkRule,
    MaskRule,
    MoveRule,
)
from ceras_ir.transforms.quantization.set_precision import is_named
from ceras_ir.transforms.quantization_options import ExceptionOptions

# Rules of `keep-in-float`: operations before the first and after the last sum of products.

SUMS = (graph.LinearOperation, graph.RecurrenceOp, graph.Pool2dOp, graph.ResizeOp)
"""What does the work of a network; what follows the last of them is its tail."""

FOLLOWS = "follows the last sum of products"


@dataclass(frozen=True)
class TailRule(ExceptionOptions, FloatNetworkPass):
    """
    Keep in float the operations after the last convolution, product, pooling or resize on each path
    to a result: sigmoids of scores, decoding of boxes, concatenations of outputs.

    Users read these values. Their ranges differ by orders of magnitude, and they are less than a
    thousandth of the work. Operations that only move elements follow their surroundings. Networks
    without such sums are unchanged. Changes no value.
    """

    name = "tail"

    def change(self, main: FuncOp) -> None:
        # What the next call reads has sums of products behind it.
        kept = {state.result for state in states_of(main)}
        after: set[Operation] = set()
        for inner in main.body.block.ops:
            if any(v.owner in after or isinstance(v.owner, SUMS) for v in inner.operands):
                after.add(inner)
        tail: set[Operation] = set()
        for inner in reversed(list(main.body.block.ops)):
            readers = {use.operation for result in inner.results for use in result.uses}
            ends = all(isinstance(reader, ReturnOp) or reader in tail for reader in readers)
            ends = ends and kept.isdisjoint(inner.results)
            if inner not in after or isinstance(inner, (*SUMS, ReturnOp)) or not ends:
                continue
            tail.add(inner)
            moves = is_alias(inner) or _joins_phases(inner)
            if not moves and not is_named(node_names(inner), self.besides):
                keep_in_float(inner, FOLLOWS)


def _joins_phases(op: Operation) -> bool:
    """Whether an operation only joins what `split-phases` made of one layer: moving bytes."""
    return isinstance(op, graph.ConcatOp) and all(
        isinstance(value.owner, graph.Conv2dOp) and value.owner.location == op.location
        for value in op.inputs
    )


PREPARES = "prepares inputs for the first sum of products"


@dataclass(frozen=True)
class HeadRule(ExceptionOptions, FloatNetworkPass):
    """
    Keep in float the operations on inputs before the first convolution, product, pooling or resize:
    normalization by constants or by statistics of the input, features, angles of positions, and
    operations that join several of them.

    Callers pass floats with ranges that differ by orders of magnitude between features and samples.
    A single scale of int8 would lose the small values before the network normalizes them.
    Operations that only move elements of a single value follow their surroundings. The rule does
    not include reads of constants by computed indices, such as embeddings, operations that no sum
    uses, and operations that depend on states. Changes no value.
    """

    name = "head"

    def change(self, main: FuncOp) -> None:
        head = _head(main)
        read = set[Operation]()
        for inner in reversed(list(main.body.block.ops)):
            readers = {use.operation for result in inner.results for use in result.uses}
            if not any(isinstance(reader, SUMS) or reader in read for reader in readers):
                continue
            read.add(inner)
            named = is_named(node_names(inner), self.besides)
            if inner in head and graph.element_of(inner.results[0]) == f32 and not named:
                keep_in_float(inner, PREPARES)


def _head(main: FuncOp) -> set[Operation]:
    """
    The operations that compute from inputs, constants, and what such operations made, and those
    that join several of these.
    """
    kept = {state.argument for state in states_of(main)}
    sources: dict[SSAValue, set[SSAValue]] = {}
    sources.update({value: {value} for value in main.body.block.args if value not in kept})
    head: set[Operation] = set()
    for op in main.body.block.ops:
        if isinstance(op, (*SUMS, graph.ConstantOp)) or not isinstance(op, graph.GraphOperation):
            continue
        computed = [v for v in op.operands if not isinstance(v.owner, graph.ConstantOp)]
        if not computed or not all(value in sources for value in computed):
            continue
        if isinstance(op, graph.TakeOp) and isinstance(op.input.owner, graph.ConstantOp):
            continue
        moved = set[SSAValue]().union(*(sources[value] for value in computed))
        if keeps_scale(op) and len(moved) == 1:
            sources[op.results[0]] = moved
            continue
        head.add(op)
        sources.update({result: {result} for result in op.results})
    return head


# Rules of `keep-in-float`: factors and values over several orders of magnitude.

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


# Keep in float the operations for which int8 has no steps.

INSIDE = ("fills", "masks", "factors", "depthwise", "ranges", "pixels", "cell-states")
"""Rules that also apply where a caller hands over and receives int8."""


@dataclass(frozen=True)
class KeepInFloatPass(ExceptionOptions, RulePass):
    """
    Keep in float the operations for which int8 has no steps. They get `graph.precision = "f32"`.

    They are less than a thousandth of the work of a network. `graph.float_reason` has the reason.
    """

    name = "keep-in-float"

    def table(self) -> tuple[ModulePass, ...]:
        return (
            HeadRule(self.besides),
            TailRule(self.besides),
            FillRule(),
            MaskRule(),
            FactorRule(self.besides),
            # The factors of channels that `factors` leaves get per-channel scales.
            DepthwiseRule(rows=True),
            RangeRule(),
            FloatPixelRule(),
            MoveRule(),
            ForkRule(),
            CellStateRule(),
        )
