"""
Keep operations in float for which int8 is too coarse.

This file has the rules for inputs and outputs of a network and for factors. Rules for wide ranges
are in `keep_ranges_in_float.py`, rules for data movement and masks in `keep_moves_in_float.py`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import Float32Type, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import is_alias, keeps_scale, states_of
from ceras_ir.network.storage import keep_in_float
from ceras_ir.support.diagnostics import node_names
from ceras_ir.transforms.graph.affine_forward import DepthwiseRule
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, RulePass
from ceras_ir.transforms.quantization.keep_moves_in_float import (
    CellStateRule,
    FillRule,
    FloatPixelRule,
    ForkRule,
    MaskRule,
    MoveRule,
)
from ceras_ir.transforms.quantization.keep_ranges_in_float import RangeRule
from ceras_ir.transforms.quantization.set_precision import is_named
from ceras_ir.transforms.quantization_options import ExceptionOptions

SUMMING_OPERATIONS = (graph.LinearOperation, graph.RecurrenceOp, graph.Pool2dOp, graph.ResizeOp)
"""
The operations that sum products, average or interpolate. The operations after the last of them are
the tail of a network.
"""

TAIL_REASON = "after the last layer that sums, float costs little; --io int8 computes it in int8"


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
    """
    Return whether `op` concatenates parallel convolutions that `split-phases` created from a single
    transposed convolution (they have the same location).
    """
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


AFFINE_REASON = "scales and offsets that differ between elements would share one scale of int8 each"


@dataclass(frozen=True)
class AffineRule(ExceptionOptions, FloatNetworkPass):
    """
    Keep in float each product by different constants that is followed by a sum with a constant.

    Batch normalizations of sub-bands have this form. `fold-affine` and `depthwise` convert those
    with a factor per channel; the others would round the factors, the product, the offsets and the
    sum. In float, only the result is rounded. A depthwise layer whose result only such a product
    uses remains in float too: its few weights and its result would be rounded, and the time would
    be the same. Changes no value.

    Before:

        %k = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
        %t = graph.constant dense<[[0.5], [0.25]]> : tensor<2x1xf32> : tensor<2x1xf32>
        %a = graph.binary mul %x, %k : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
        %y = graph.binary add %a, %t : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>

    After:

        %k = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
        %t = graph.constant dense<[[0.5], [0.25]]> : tensor<2x1xf32> : tensor<2x1xf32>
        %a = graph.binary mul %x, %k {graph.precision = "f32", graph.float_reason =
            "scales and offsets that differ between elements would share one scale of int8 each"}
            : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
        %y = graph.binary add %a, %t {graph.precision = "f32", graph.float_reason =
            "scales and offsets that differ between elements would share one scale of int8 each"}
            : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
    """

    name = "affines"

    def change(self, main: FuncOp) -> None:
        for inner in main.body.block.ops:
            factors = _factors(inner)
            if factors is None or is_named(node_names(inner), self.besides):
                continue
            users = [use.operation for use in inner.results[0].uses]
            is_affine = len(users) == 1 and _adds_constant(users[0])
            if is_affine and len(np.unique(np.abs(factors))) > 1:
                layer = _depthwise_producer(inner)
                named = layer is not None and is_named(node_names(layer), self.besides)
                for each in (inner, users[0], *([] if layer is None or named else [layer])):
                    keep_in_float(each, AFFINE_REASON)


def _depthwise_producer(op: Operation) -> graph.LinearOperation | None:
    """
    Return the layer with single-channel groups of which `op` is the only consumer, directly or
    after data movement, or `None`.
    """
    while True:
        moved = [v for v in op.operands if not isinstance(v.owner, graph.ConstantOp)]
        if len(moved) != 1 or not moved[0].has_one_use():
            return None
        producer = moved[0].owner
        if isinstance(producer, graph.LinearOperation):
            return producer if producer.has_single_channel_groups else None
        if not isinstance(producer, Operation) or not keeps_scale(producer):
            return None
        op = producer


def _adds_constant(op: Operation) -> bool:
    if not isinstance(op, graph.BinaryOp) or op.function is not graph.Binary.ADD:
        return False
    return any(isinstance(value.owner, graph.ConstantOp) for value in op.operands)


INTEGER_BORDER_RULES = (
    *("fills", "masks", "factors", "depthwise", "affines", "ranges", "pixels", "cell-states"),
)
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
            "after the last layer that sums, float costs little; --io int8 computes it in int8"}
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
            AffineRule(self.besides),
            RangeRule(),
            FloatPixelRule(),
            MoveRule(),
            ForkRule(),
            CellStateRule(),
        )
