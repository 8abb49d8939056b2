"""Remove operations that do not change values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import add, mul

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary
from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.dialects.graph.layout import LAYOUT_PATTERNS, permutation_of
from ceras_ir.dialects.graph.operation import broadcast_shape
from ceras_ir.network.function import replaced_nan
from ceras_ir.network.storage import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pass_kinds import NetworkPass, PatternPass, RulePass
from ceras_ir.transforms.rebuilding import erase_dead

NEUTRAL = {graph.Binary.MUL: 1.0, graph.Binary.DIV: 1.0, graph.Binary.SUB: 0.0}
"""The neutral right operand of each function; x + 0 is missing, because it changes -0 to 0."""


class FoldIdentities(RewritePattern):
    """Fold `x * 1`, `1 * x`, `x / 1` and `x - 0` to `x`, in float32 without broadcast. Exact."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        if op.activation is not None or op.result.type not in (op.lhs.type, op.rhs.type):
            return
        pairs = [(op.lhs, op.rhs)]
        if op.function is graph.Binary.MUL:
            pairs.append((op.rhs, op.lhs))
        for value, other in pairs:
            constant = graph.constant_array(other)
            if value.type != op.result.type or constant is None or constant.dtype != np.float32:
                continue
            if op.function in NEUTRAL and (constant == NEUTRAL[op.function]).all():
                rewriter.replace(op, [], [value])
                return


class AddOpposite(RewritePattern):
    """Rewrite `x - y * -1` to `x + y`. Exact: the negation of a float is exact."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        opposite = op.rhs.owner
        if op.function is not graph.Binary.SUB or not isinstance(opposite, graph.BinaryOp):
            return
        if opposite.function is not graph.Binary.MUL or opposite.activation is not None:
            return
        for value, other in ((opposite.lhs, opposite.rhs), (opposite.rhs, opposite.lhs)):
            if graph.constant_number(other) == -1.0 and value.type == op.rhs.type:
                if graph.element_of(value) != f32:
                    return
                new = graph.BinaryOp(
                    graph.Binary.ADD, op.lhs, value, result_element=f32, activation=op.activation
                )
                new.location = fused_location(op, opposite)
                copy_statistics(op, new)
                rewriter.replace(op, new)
                return


class NeutralRule(PatternPass):
    """
    Remove float multiplications and divisions by 1 and subtractions of 0, and replace the
    subtraction of a negated value by an addition.

    Before:

        %one = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
        %a = graph.binary mul %x, %one : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
        %y = graph.unary <tanh> %a : tensor<2x3xf32>

    After:

        %y = graph.unary <tanh> %x : tensor<2x3xf32>
    """

    name = "neutral"
    pattern = GreedyRewritePatternApplier([FoldIdentities(), AddOpposite()])


class DropExpand(RewritePattern):
    """
    Rewrite `x * gather(g)` to `x * g` if the gather only repeats the elements of an axis of extent
    1. The rule applies to all binary operations, comparisons and selections. Exact: a broadcast
    reads the same elements.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: graph.BinaryOp | graph.CompareOp | graph.SelectOp, rewriter: PatternRewriter, /
    ):
        for i, value in enumerate(op.operands):
            if (repeated := _repeated(value)) is None:
                continue
            operands = [*op.operands]
            operands[i] = repeated
            shape: tuple[int, ...] | None = ()
            for operand in operands:
                shape = None if shape is None else broadcast_shape(shape, graph.shape_of(operand))
            if shape != graph.shape_of(op.result):
                continue
            op.operands[i] = repeated
            rewriter.notify_op_modified(op)
            return


def _repeated(value: SSAValue) -> SSAValue | None:
    # The operand of a gather that repeats an axis of extent 1.
    gather = value.owner
    if not isinstance(gather, graph.GatherOp):
        return None
    is_one = graph.shape_of(gather.input)[gather.axis.value.data] == 1
    return gather.input if is_one else None


class TransposeBeforeExpand(RewritePattern):
    """
    Rewrite `transpose(gather(g))` to `gather(transpose(g))` if the gather only repeats the elements
    of an axis of extent 1. Exact, and the transpose moves fewer elements.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.TransposeOp, rewriter: PatternRewriter, /):
        gather = op.input.owner
        if _repeated(op.input) is None or not isinstance(gather, graph.GatherOp):
            return
        order = permutation_of(op)
        axis = order.index(gather.axis.value.data)
        before = graph.TransposeOp(gather.input, order)
        after = graph.GatherOp(before.result, axis, gather.indices.get_values())
        before.location, after.location = op.location, gather.location
        rewriter.replace(op, (before, after))


class ExpandRule(PatternPass):
    """
    Remove gathers that repeat an axis of extent 1 before operations that broadcast.

    PyTorch exports `x * gate.expand_as(x)`, of squeeze-and-excitation, in this form: the gate
    became an image and was moved between layouts.

    Before:

        %a = graph.gather %g {axis = 0 : i64, indices = array<i64: 0, 0, 0>}
            : (tensor<1x4xf32>) -> tensor<3x4xf32>
        %y = graph.binary mul %x, %a : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>

    After:

        %y = graph.binary mul %x, %g : (tensor<3x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
    """

    name = "expands"
    pattern = GreedyRewritePatternApplier([*LAYOUT_PATTERNS, TransposeBeforeExpand(), DropExpand()])


MAX_ACTIVATION = 2.0**64
"""The assumed bound of the magnitudes of inputs and layer results."""

MAGNITUDES: dict[Binary, Callable[[float, float], float]] = {
    Binary.ADD: add,
    Binary.SUB: add,
    Binary.MUL: mul,
}
"""The magnitude of the result for the magnitudes of the operands."""

FLOAT32_LIMIT = float(np.finfo(np.float32).max) + 2.0**102
"""Magnitudes below it round to a finite float32 number."""


@dataclass(frozen=True)
class NanGuardRule(NetworkPass):
    """
    Replace `where(isnan(p), 0, p)` by p, a softmax of rows with a finite element in each row.

    Masks must be constants that are finite or that leave a finite score in each row, such as -inf
    above the diagonal. The exporter of PyTorch writes the guard for each attention. Exact if inputs
    and results of layers are below 2^64.

    Before:

        %p = graph.softmax %x {axis = 1 : i64} : tensor<2x4xf32>
        %z = graph.constant dense<0.0> : tensor<f32> : tensor<f32>
        %e = graph.compare equal %p, %p : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
        %y = graph.select %e, %p, %z
            : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>

    After:

        %y = graph.softmax %x {axis = 1 : i64} : tensor<2x4xf32>
    """

    name = "nan-guards"

    def change(self, main: FuncOp) -> None:
        block, bounds = main.body.block, _UpperBounds()
        for inner in list(block.ops):
            if not isinstance(inner, graph.SelectOp) or (guarded := _guarded(inner)) is None:
                continue
            if bounds.has_finite_rows(guarded.input):
                guarded.result.name_hint = guarded.result.name_hint or inner.result.name_hint
                Rewriter.replace_op(inner, [], [guarded.result])
        erase_dead(block)


def _guarded(op: graph.SelectOp) -> graph.SoftmaxOp | None:
    guarded = replaced_nan(op)
    if guarded is None or guarded.value.type != op.result.type:
        return None
    softmax = guarded.value.owner
    return softmax if isinstance(softmax, graph.SoftmaxOp) else None


@dataclass
class _UpperBounds:
    known: dict[SSAValue, float | None] = field(default_factory=dict[SSAValue, float | None])

    def has_finite_rows(self, scores: SSAValue) -> bool:
        # Each row along the last axis has a finite element and no positive infinity.
        if self.of(scores) is not None:
            return True
        op = scores.owner
        if not isinstance(op, graph.BinaryOp) or op.function is not Binary.ADD or op.activation:
            return False
        for mask, scored in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            array = graph.constant_array(mask)
            if array is None or graph.shape_of(mask)[-1:] != graph.shape_of(scores)[-1:]:
                continue
            numbers = array.astype(np.float32)
            is_open = np.abs(numbers) < MAX_ACTIVATION
            if bool(np.all(is_open | np.isneginf(numbers))) and bool(np.all(is_open.any(-1))):
                return self.of(scored) is not None
        return False

    def of(self, value: SSAValue) -> float | None:
        if value not in self.known:
            self.known[value] = None
            bound = self._computed(value)
            self.known[value] = bound if bound is not None and bound < FLOAT32_LIMIT else None
        return self.known[value]

    def _computed(self, value: SSAValue) -> float | None:
        op = value.owner
        match op:
            case Block():
                return MAX_ACTIVATION
            case graph.ConstantOp():
                return float(np.abs(op.array().astype(np.float64)).max(initial=0.0))
            case graph.LinearOperation():
                residual = MAX_ACTIVATION if op.residual is None else self.of(op.residual)
                return None if residual is None else MAX_ACTIVATION + residual
            case graph.NormalizeOp():
                return MAX_ACTIVATION
            case graph.CastOp() if is_integer(graph.element_of(op.input)):
                return MAX_ACTIVATION
            case graph.BinaryOp() if op.activation is None and op.function in MAGNITUDES:
                lhs, rhs = self.of(op.lhs), self.of(op.rhs)
                return None if lhs is None or rhs is None else MAGNITUDES[op.function](lhs, rhs)
            case graph.ReshapeOp() | graph.TransposeOp() | graph.SliceOp():
                return self.of(op.input)
            case graph.ConcatOp():
                return self._largest(op.inputs)
            case graph.SelectOp():
                return self._largest([op.lhs, op.rhs])
            case _:
                return None

    def _largest(self, values: Iterable[SSAValue]) -> float | None:
        bounds = [self.of(value) for value in values]
        return None if None in bounds else max(b for b in bounds if b is not None)


@dataclass(frozen=True)
class FoldIdentitiesPass(RulePass):
    """Remove operations that do not change values, as exporters write them."""

    name = "fold-identities"

    def table(self) -> tuple[ModulePass, ...]:
        return NanGuardRule(), ExpandRule(), NeutralRule()
