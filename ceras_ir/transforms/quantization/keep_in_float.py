"""
Keep operations in float for which int8 is too coarse.

This file has the rules for inputs and outputs of a network and for wide ranges. Rules for data
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
from ceras_ir.transforms.graph.fuse import split_activation
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

SUMMING_OPERATIONS = (graph.LinearOperation, graph.RecurrenceOp, graph.Pool2dOp, graph.ResizeOp)
"""
The operations that sum products, average or interpolate. The operations after the last of them are
the tail of a network.
"""

TAIL_REASON = "after the last layer, float costs little; --io int8 computes it in int8"


@dataclass(frozen=True)
class TailRule(ExceptionOptions, FloatNetworkPass):
    """
    Keep in float the operations after the last convolution, product, pooling or resize on each path
    to a result: sigmoids of scores, decoding of boxes, concatenations of outputs.

    Users read these values. Their ranges differ by orders of magnitude, and they are less than a
    thousandth of the work. Operations that only move elements follow their surroundings. Networks
    without any of these four are unchanged. Changes no value.
    """

    name = "tail"

    def change(self, main: FuncOp) -> None:
        # The results of states are operands of layers in the next call.
        states = {state.result for state in states_of(main)}
        after: set[Operation] = set()
        for inner in main.body.block.ops:
            if any(
                v.owner in after or isinstance(v.owner, SUMMING_OPERATIONS) for v in inner.operands
            ):
                after.add(inner)
        tail: set[Operation] = set()
        for inner in reversed(list(main.body.block.ops)):
            users = {use.operation for result in inner.results for use in result.uses}
            is_last = all(isinstance(user, ReturnOp) or user in tail for user in users)
            is_last = is_last and states.isdisjoint(inner.results)
            if (
                inner not in after
                or isinstance(inner, (*SUMMING_OPERATIONS, ReturnOp))
                or not is_last
            ):
                continue
            tail.add(inner)
            moves = is_alias(inner) or _joins_phases(inner)
            if not moves and not is_named(node_names(inner), self.besides):
                keep_in_float(inner, TAIL_REASON)


def _joins_phases(op: Operation) -> bool:
    """Return whether an operation concatenates the parts of a layer that `split-phases` created."""
    return isinstance(op, graph.ConcatOp) and all(
        isinstance(value.owner, graph.Conv2dOp) and value.owner.location == op.location
        for value in op.inputs
    )


HEAD_REASON = "prepares inputs for the first sum of products"


@dataclass(frozen=True)
class HeadRule(ExceptionOptions, FloatNetworkPass):
    """
    Keep in float the operations on inputs before the first convolution, product, pooling or resize:
    normalization by constants or by statistics of the input, features, angles of positions, and
    concatenations of several of them.

    Callers pass floats with ranges that differ by orders of magnitude between features and samples.
    A single scale of int8 would lose the small values before the network normalizes them.

    The rule does not include data movement of a single value, selection from constants by computed
    indices (embeddings), operations that precede none of these four, and operations that depend on
    states. Changes no value.

    Before:

        %m = graph.constant dense<[500.0, 0.005]> : tensor<2xf32> : tensor<2xf32>
        %a = graph.binary sub %x, %m : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
        %y = graph.matmul %a, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>

    After:

        %m = graph.constant dense<[500.0, 0.005]> : tensor<2xf32> : tensor<2xf32>
        %a = graph.binary sub %x, %m {graph.precision = "f32",
            graph.float_reason = "prepares inputs for the first sum of products"}
            : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
        %y = graph.matmul %a, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    """

    name = "head"

    def change(self, main: FuncOp) -> None:
        head = _head(main)
        used = set[Operation]()
        for inner in reversed(list(main.body.block.ops)):
            users = {use.operation for result in inner.results for use in result.uses}
            if not any(isinstance(user, SUMMING_OPERATIONS) or user in used for user in users):
                continue
            used.add(inner)
            named = is_named(node_names(inner), self.besides)
            if inner in head and graph.element_of(inner.results[0]) == f32 and not named:
                keep_in_float(inner, HEAD_REASON)


def _head(main: FuncOp) -> set[Operation]:
    states = {state.argument for state in states_of(main)}
    sources: dict[SSAValue, set[SSAValue]] = {}
    sources.update({value: {value} for value in main.body.block.args if value not in states})
    head: set[Operation] = set()
    for op in main.body.block.ops:
        if isinstance(op, (*SUMMING_OPERATIONS, graph.ConstantOp)) or not isinstance(
            op, graph.GraphOperation
        ):
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


MAX_FACTOR_RATIO = 16
"""The maximum ratio of a factor to the median, which leaves 8 steps of int8 for the median."""

FACTOR_REASON = "multiplies by constants so different that one scale of int8 has no steps for most"


@dataclass(frozen=True)
class FactorRule(ExceptionOptions, FloatNetworkPass):
    """
    Keep in float the elementwise products by constants of which the largest is more than 16 times
    the median.

    Factors share a scale. After a ReLU, a batch normalization divides a channel that is always zero
    by the root of epsilon. With that factor, all other factors would be zero. Zeros among the
    factors do not count. Changes no value.

    Before:

        %f = graph.constant dense<[1.0, 316.0, -1.5, 0.5]> : tensor<4xf32> : tensor<4xf32>
        %y = graph.binary mul %x, %f : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>

    After:

        %f = graph.constant dense<[1.0, 316.0, -1.5, 0.5]> : tensor<4xf32> : tensor<4xf32>
        %y = graph.binary mul %x, %f {graph.precision = "f32", graph.float_reason =
            "multiplies by constants so different that one scale of int8 has no steps for most"}
            : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
    """

    name = "factors"

    def change(self, main: FuncOp) -> None:
        for inner in main.body.block.ops:
            factors = _factors(inner)
            if factors is None or is_named(node_names(inner), self.besides):
                continue
            sizes = np.abs(factors.astype(np.float32))
            sizes = sizes[sizes != 0]
            if sizes.size > 1 and sizes.max() > MAX_FACTOR_RATIO * np.median(sizes):
                keep_in_float(inner, FACTOR_REASON)


def _factors(op: Operation) -> NDArray[np.generic] | None:
    if not isinstance(op, graph.BinaryOp) or op.function is not graph.Binary.MUL:
        return None
    if not isinstance(graph.element_of(op.result), Float32Type):
        return None
    known = (graph.constant_array(value) for value in (op.lhs, op.rhs))
    return next((array for array in known if array is not None), None)


SMALL_REASON = "leads to a logarithm, a divisor or a root of squares, where small values matter"


class RangeRule(FloatNetworkPass):
    """
    Keep in float each logarithm, quotient with its arc tangent, and root of squares, and the
    elementwise operations, reductions, averages, softmax and data movement from a layer to them.

    Examples are magnitudes of a spectrum, angles, and variances of an instance normalization. The
    operations get `graph.precision = "f32"`. The reasons are:

    1. A logarithm has equal results for equal ratios, and so has a quotient for its divisor, but
       the steps of int8 are equal for small and large values.
    2. Squares double the dynamic range, and a root halves it again: 255 steps of a square are 16
       steps of the root. If a layer, such as the filters of a spectrum, uses squares, both also
       remain in float.
    3. Operations from a logarithm to an exponential, and the exponential, also remain in float: in
       a sum of logarithms, a step of int8 would be a factor.
    4. A layer before them can end in a clip with a positive lower bound, such as 1e-7. The bound
       would round to 0 and the logarithm to minus infinity, so the clip becomes a float operation.

    Changes no value.

    Before:

        %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %b = graph.unary <abs> %a : tensor<1x2xf32>
        %y = graph.unary <log> %b : tensor<1x2xf32>

    After:

        %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %b = graph.unary <abs> %a {graph.precision = "f32", graph.float_reason =
            "leads to a logarithm, a divisor or a root of squares, where small values matter"}
            : tensor<1x2xf32>
        %y = graph.unary <log> %b {graph.precision = "f32", graph.float_reason =
            "leads to a logarithm, a divisor or a root of squares, where small values matter"}
            : tensor<1x2xf32>
    """

    name = "ranges"

    def change(self, main: FuncOp) -> None:
        ops = list(main.body.block.ops)
        logarithms = _logarithms(ops)
        leading: set[SSAValue] = set()
        for inner in reversed(ops):
            if leading.isdisjoint(inner.results):
                sensitive = _sensitive_operands(inner, logarithms)
            elif (bounds := _positive_bounds(inner)) is not None:
                assert isinstance(inner, graph.Conv2dOp | graph.MatmulOp)
                keep_in_float(split_activation(inner, bounds), SMALL_REASON)
                sensitive = []
            elif _keeps_sensitivity(inner):
                sensitive = inner.operands
            elif isinstance(inner, graph.LinearOperation) and _has_squares(inner.input):
                sensitive = [inner.input]
            else:
                sensitive = []
            if sensitive:
                leading.update(sensitive)
                keep_in_float(inner, SMALL_REASON)


def _sensitive_operands(op: Operation, logarithms: Collection[SSAValue]) -> Sequence[SSAValue]:
    match op:
        case graph.BinaryOp(function=graph.Binary.DIV, rhs=divisor):
            return [] if isinstance(divisor.owner, graph.ConstantOp) else [divisor]
        case graph.UnaryOp(input=value):
            match op.function.data:
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
    """
    Return the clamp of a layer if its lower bound is positive, which int8 would round to 0; else
    `None`.
    """
    function = op.activation if isinstance(op, graph.LinearOperation) else None
    bounds = None if function is None else function.clip_range
    return function if bounds is not None and bounds[0] > 0 else None


def _is_quotient(value: SSAValue) -> bool:
    match value.owner:
        case graph.BinaryOp(function=graph.Binary.DIV, rhs=divisor):
            return not isinstance(divisor.owner, graph.ConstantOp)
        case graph.UnaryOp(function=graph.FunctionAttr(data=graph.Function.SQRT), input=inner):
            return _is_quotient(inner)
        case Operation() as op if keeps_scale(op):
            return any(map(_is_quotient, op.operands))
        case _:
            return False


def _logarithms(ops: Sequence[Operation]) -> set[SSAValue]:
    found = set[SSAValue]()
    for op in ops:
        kind = op.function.data if isinstance(op, graph.UnaryOp) else None
        leads = _keeps_sensitivity(op) and kind is not graph.Function.EXP
        if kind is graph.Function.LOG or (leads and not found.isdisjoint(op.operands)):
            found.update(op.results)
    return found


def _keeps_sensitivity(op: Operation) -> bool:
    """
    Return whether an operation, if its result is kept in float, needs operands in float as well.
    """
    if isinstance(op, graph.ReduceOp | graph.SoftmaxOp) or keeps_scale(op):
        return True
    if isinstance(op, graph.Pool2dOp):
        return op.function is graph.Pool.AVERAGE
    return op.has_trait(Elementwise, value_if_unregistered=False)


def _has_squares(value: SSAValue) -> bool:
    """Return whether a value is computed from squares, without a layer in between."""
    pending, visited = [value], set[SSAValue]()
    while pending:
        at = pending.pop()
        if at in visited or not isinstance(op := at.owner, Operation):
            continue
        if not _keeps_sensitivity(op):
            continue
        visited.add(at)
        if isinstance(op, graph.BinaryOp) and op.function is graph.Binary.MUL and op.lhs is op.rhs:
            return True
        pending += op.operands
    return False


INTEGER_BORDER_RULES = ("fills", "masks", "factors", "depthwise", "ranges", "pixels", "cell-states")
"""The rules that also apply if the caller passes and receives int8."""


@dataclass(frozen=True)
class KeepInFloatPass(ExceptionOptions, RulePass):
    """
    Keep operations in float for which int8 is too coarse, by `graph.precision = "f32"`.

    They are less than a thousandth of the work of a network. `graph.float_reason` has the reason.

    Before:

        %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %y = graph.unary <exp> %a : tensor<1x2xf32>

    After:

        %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %y = graph.unary <exp> %a {graph.precision = "f32", graph.float_reason =
            "after the last layer, float costs little; --io int8 computes it in int8"}
            : tensor<1x2xf32>
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
