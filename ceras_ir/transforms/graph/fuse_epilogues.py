"""Residuals and activations: in epilogues, or as separate operations."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.function import is_quantized, main_function
from ceras_ir.network.storage import copy_precision, copy_statistics, drop_statistics, interval
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.support.options import options
from ceras_ir.transforms.graph.fuse_windows import ZeroPadding
from ceras_ir.transforms.pass_kinds import PatternPass, RulePass
from ceras_ir.transforms.rebuilding import rebuild_linear


class FuseResidual(RewritePattern):
    """
    `conv2d(x) + y` becomes `conv2d(x) residual y`; so for `matmul`.

    Exact, because the epilogue adds the residual to the same float32 number and addition
    commutes. The fused operation stands where the addition stood: there both its operands
    and the residual are defined, and the addition was the only reader.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        if op.function is not graph.Binary.ADD or op.is_quantized:
            return
        linear = _later(_fusible(op, op.lhs), _fusible(op, op.rhs))
        if linear is None:
            return
        residual = op.rhs if op.lhs is linear.result else op.lhs
        fused = rebuild_linear(linear, {"activation": op.activation}, residual=residual)
        copy_statistics(op, fused)
        fused.location = fused_location(linear, op)
        rewriter.replace(op, fused)
        rewriter.erase(linear)


def _fusible(op: graph.BinaryOp, value: SSAValue) -> graph.LinearOperation | None:
    """What makes the operand `value` of the addition `op`, if it can add the other operand."""
    linear = value.owner
    if not isinstance(linear, graph.LinearOperation):
        return None
    # A quantized layer adds integers, also where its table makes floats.
    if linear.is_quantized:
        return None
    # The epilogue adds before it applies a function, once, and for this reader alone.
    if linear.activation is not None or linear.residual is not None:
        return None
    if not linear.result.has_one_use():
        return None
    other = op.rhs if value is op.lhs else op.lhs
    # A constant is a bias, or data that no convolution made: it stays an addition.
    if graph.shape_of(other) != graph.shape_of(value) or isinstance(other.owner, graph.ConstantOp):
        return None
    return linear


def _later(
    a: graph.LinearOperation | None, b: graph.LinearOperation | None
) -> graph.LinearOperation | None:
    """Of two operations the one that runs last, so that the other's result need not wait."""
    if a is None or b is None:
        return a or b
    return b if a.is_before_in_block(b) else a


class ResidualRule(PatternPass):
    """
    Fuse an addition of two tensors of one shape into the convolution or matrix product that makes
    one of them. That layer must have neither residual nor activation yet. If both addends are made
    by such a layer, the later one takes the addition.
    """

    name = "residuals"
    pattern = FuseResidual()
    repeats = False


@dataclass
class FuseActivation(RewritePattern):
    """
    `f(conv2d(x))` becomes `conv2d(x) {activation = f}`; so for `matmul` and `binary`.

    Exact, because the epilogue applies the same function to the same number. The fused
    operation keeps its own place, location and name. A function that does more than clip stays
    apart from a value whose range is known, as `calibrate` leaves it.
    """

    only_clips: bool
    """Whether functions that do more than clip remain separate, next to the operation."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.UnaryOp, rewriter: PatternRewriter, /):
        producer = op.input.owner
        if not isinstance(producer, graph.LinearOperation | graph.BinaryOp):
            return
        if op.channel_exponents is not None:
            return
        # A table is the epilogue of integers, also where it makes floats of them.
        if producer.is_quantized:
            return
        # There is one epilogue only, and another reader needs the value before the function.
        if producer.activation is not None or not producer.result.has_one_use():
            return
        # What calibration saw there is what a lookup table is indexed by.
        if interval(producer.result) is not None and op.function.clip_range is None:
            return
        producer.location = fused_location(producer, op)
        rewriter.notify_op_modified(producer)
        if self.only_clips and op.function.clip_range is None and not _has_phases(producer):
            op.location = producer.location
            op.detach()
            Rewriter.insert_op(op, InsertPoint.after(producer))
            return
        producer.activation = op.function
        copy_statistics(op, producer)
        rewriter.replace(op, [], [producer.result])


def _has_phases(op: graph.LinearOperation | graph.BinaryOp) -> bool:
    """Whether `split-phases` splits a layer, and with it the function of each phase."""
    zeros = ZeroPadding.of(op) if isinstance(op, graph.Conv2dOp) else None
    return zeros is not None and any(zeros.between)


@options
class EpilogueOptions:
    """Which functions become part of an operation."""

    integers: bool = False
    """Whether the network will be quantized: then only clips become part of a float operation."""


@dataclass(frozen=True)
class ActivationRule(EpilogueOptions, ModulePass):
    """
    Fuse `graph.unary` into the convolution, matrix product or binary operation before it.

    In a float network that will be quantized, only a clip becomes part of that operation. Other
    functions get the place and the location that they have as its epilogue: tables need the value
    before them.
    """

    name = "activations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        only_clips = self.integers and not is_quantized(main_function(op))
        pattern = FuseActivation(only_clips)
        PatternRewriteWalker(pattern, apply_recursively=False).rewrite_module(op)


def split_activation(
    op: graph.Conv2dOp | graph.MatmulOp | graph.BinaryOp, function: graph.FunctionAttr
) -> graph.UnaryOp:
    """Move the activation `function` of `op` to a new operation after it, and return that."""
    unary = graph.UnaryOp(op.result, function)
    unary.location = op.location
    copy_statistics(op, unary)
    copy_precision(op, unary)
    drop_statistics(op)
    op.activation = None
    Rewriter.insert_op(unary, InsertPoint.after(op))
    op.result.replace_uses_with_if(unary.result, lambda use: use.operation is not unary)
    return unary


class SplitActivation(RewritePattern):
    """
    `conv2d(x) {activation = f}` becomes `f(conv2d(x))` where f does more than clip.

    Exact, because the epilogue applied the same function to the same number. The value
    before the function becomes visible: it is what a lookup table is indexed by.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: graph.Conv2dOp | graph.MatmulOp | graph.BinaryOp, rewriter: PatternRewriter, /
    ):
        function = op.activation
        # A requantization clips by its clamp range.
        if function is None or function.clip_range is not None:
            return
        rewriter.notify_op_modified(op)
        split_activation(op, function)


class SplitActivationRule(PatternPass):
    """
    Make functions other than relu and clip separate operations, in networks that are quantized
    after they were fused for a float target. The value before the function then gets a range, and
    the function becomes a `graph.lookup`.
    """

    name = "split-activations"
    pattern = SplitActivation()
    repeats = False


@dataclass(frozen=True)
class FuseEpiloguesPass(EpilogueOptions, RulePass):
    """
    Fuse residuals and activations into the operation before them, which computes them in the
    epilogue. Residuals are first, because an epilogue adds before it applies the function.
    """

    name = "fuse-epilogues"

    def table(self) -> tuple[ModulePass, ...]:
        return ResidualRule(), ActivationRule(self.integers)
