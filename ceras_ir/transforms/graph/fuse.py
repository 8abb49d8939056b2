"""
Fuse operations that the hardware executes in a single step: the pipeline `fuse`.

`fuse-epilogues` fuses residuals and activations into the output stage of an operation, or splits
them.
"""

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
from ceras_ir.transforms.graph.zero_padding import ZeroPadding
from ceras_ir.transforms.pass_kinds import PatternPass, PipelinePass, RulePass
from ceras_ir.transforms.rebuilding import rebuild_linear


class FuseResidual(RewritePattern):
    """
    Rewrite `conv2d(x) + y` to `conv2d(x) residual y`. The rule also applies to `matmul`. Exact,
    because the output stage adds the residual to the same float32 number and addition commutes. The
    fused operation replaces the addition, where both operands and the residual are defined. The
    addition was the only consumer.
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
    linear = value.owner
    if not isinstance(linear, graph.LinearOperation):
        return None
    # A quantized layer adds integers, even if the table returns floats.
    if linear.is_quantized:
        return None
    # The output stage has a single addition, before the function, and no other consumer.
    if linear.activation is not None or linear.residual is not None:
        return None
    if not linear.result.has_one_use():
        return None
    other = op.rhs if value is op.lhs else op.lhs
    # A constant operand is a bias or data, and the addition remains.
    if graph.shape_of(other) != graph.shape_of(value) or isinstance(other.owner, graph.ConstantOp):
        return None
    return linear


def _later(
    a: graph.LinearOperation | None, b: graph.LinearOperation | None
) -> graph.LinearOperation | None:
    if a is None or b is None:
        return a or b
    return b if a.is_before_in_block(b) else a


class ResidualRule(PatternPass):
    """
    Fuse an addition of two tensors of equal shape into the layer that produces one of them.

    The layer must have no residual and no activation. If both operands are produced by such layers,
    the later layer is used.
    """

    name = "residuals"
    pattern = FuseResidual()
    repeats = False


@dataclass
class FuseActivation(RewritePattern):
    """
    Rewrite `f(conv2d(x))` to `conv2d(x) {activation = f}`; `matmul` and `binary` likewise. Exact,
    because the output stage applies the same function to the same number. The fused operation keeps
    its position, location and name. Functions other than clips are not fused if the range of the
    argument is known, as after `observe-ranges`.
    """

    only_clips: bool
    """Whether functions other than clips remain separate, directly after the operation."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.UnaryOp, rewriter: PatternRewriter, /):
        producer = op.input.owner
        if not isinstance(producer, graph.LinearOperation | graph.BinaryOp):
            return
        if op.channel_exponents is not None:
            return
        # The output stage of a quantized layer is a table, even if it returns floats.
        if producer.is_quantized:
            return
        # There is a single activation, and another consumer needs the value before the function.
        if producer.activation is not None or not producer.result.has_one_use():
            return
        # The observed range is the index range of a lookup table.
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
    zeros = ZeroPadding.of(op) if isinstance(op, graph.Conv2dOp) else None
    return zeros is not None and any(zeros.between)


@options
class EpilogueOptions:
    """The option that selects the functions to fuse."""

    integers: bool = False
    """Whether the network will be quantized; then only clips are fused into a float operation."""


@dataclass(frozen=True)
class ActivationRule(EpilogueOptions, ModulePass):
    """
    Fuse `graph.unary` into the preceding convolution, matrix product or binary operation.

    If a float network will be quantized, only clips are fused. The other functions receive the
    position and the location that they would have in the output stage: lookup tables require the
    value before the function.
    """

    name = "activations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        only_clips = self.integers and not is_quantized(main_function(op))
        pattern = FuseActivation(only_clips)
        PatternRewriteWalker(pattern, apply_recursively=False).rewrite_module(op)


def split_activation(
    op: graph.Conv2dOp | graph.MatmulOp | graph.BinaryOp, function: graph.FunctionAttr
) -> graph.UnaryOp:
    """
    Remove the activation `function` from `op`, add it as a separate operation after `op`, and
    return that operation.
    """
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
    Rewrite `conv2d(x) {activation = f}` to `f(conv2d(x))` if f is not a clip. Exact, because the
    output stage applied the same function to the same number. The value before the function, which
    indexes a lookup table, becomes a value of the graph.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: graph.Conv2dOp | graph.MatmulOp | graph.BinaryOp, rewriter: PatternRewriter, /
    ):
        function = op.activation
        # A requantization includes a clip as the clamp range.
        if function is None or function.clip_range is not None:
            return
        rewriter.notify_op_modified(op)
        split_activation(op, function)


class SplitActivationRule(PatternPass):
    """
    Split functions other than relu and clip from layers, if a network is quantized after it was
    fused for a float target.

    The value before the function then gets a range, and the function becomes a `graph.lookup`.

    Before:

        %y = graph.matmul %x, %w {activation = #graph.function<tanh>}
            : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>

    After:

        %a = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
        %y = graph.unary <tanh> %a : tensor<1x2xf32>
    """

    name = "split-activations"
    pattern = SplitActivation()
    repeats = False


@dataclass(frozen=True)
class FuseEpiloguesPass(EpilogueOptions, RulePass):
    """
    Fuse residuals and activations into the output stage of the preceding operation.

    Residuals are fused first, because an output stage adds before it applies the function.

    Before:

        %a = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
        %b = graph.binary add %a, %r : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
        %y = graph.unary <relu> %b : tensor<1x2xf32>

    After:

        %y = graph.matmul %x, %w residual %r : tensor<1x2xf32> {activation = #graph.function<relu>}
            : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
    """

    name = "fuse-epilogues"

    def table(self) -> tuple[ModulePass, ...]:
        return ResidualRule(), ActivationRule(self.integers)


@dataclass(frozen=True)
class FusePass(EpilogueOptions, PipelinePass):
    """
    Fuse batch normalization, Swish, residuals and activations of a float network into convolutions,
    matrix products and binary operations.

    Identity operations are removed, the heads of attention are separated, and transposed
    convolutions are computed without multiplications by zeros. Values change only by the rounding
    of folded constants. `hard-swish=true` adds the error that `swish-to-hard-swish` documents.
    Residuals are fused before activations, because an output stage adds before it applies the
    function.
    """

    name = "fuse"

    hard_swish: bool = False
    """Approximate swish by hard_swish; each value changes by at most 0.142."""

    def passes(self) -> tuple[ModulePass, ...]:
        from ceras_ir.transforms.graph.branches import DistributeConcatPass, FuseBranchesPass
        from ceras_ir.transforms.graph.eliminate_transposes import EliminateTransposesPass
        from ceras_ir.transforms.graph.fold_affine import FoldAffinePass
        from ceras_ir.transforms.graph.fold_identities import FoldIdentitiesPass
        from ceras_ir.transforms.graph.fuse_functions import FuseFunctionsPass, SwishToHardSwishPass
        from ceras_ir.transforms.graph.fuse_windows import FuseWindowsPass
        from ceras_ir.transforms.graph.split_phases import SplitPhasesPass

        return (
            FoldIdentitiesPass(),
            FuseFunctionsPass(rules=("elementwise", "softmax")),
            EliminateTransposesPass(),
            DistributeConcatPass(),
            FuseWindowsPass(),
            FoldAffinePass(),
            *((SwishToHardSwishPass(),) if self.hard_swish else ()),
            FuseBranchesPass(),
            FuseEpiloguesPass(self.integers),
            SplitPhasesPass(),
        )
