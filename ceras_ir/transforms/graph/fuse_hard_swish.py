"""Recognize HardSigmoid and HardSwish, which exporters spell with Add, Clip, Mul and Div."""

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.network.ranges import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pattern_pass import PatternPass

NEAR = 2.0**-20
"""Relative; how far constants may be off that exporters write."""

SIXTH = 1 / 6


class FuseHardSigmoid(RewritePattern):
    """`clip(x + 3, 0, 6) / 6`, or times a sixth, becomes `hard_sigmoid(x)`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        for value in _six_times(op):
            if (found := _clipped_sum(value)) is not None:
                function = graph.FunctionAttr(graph.Function.HARD_SIGMOID, (SIXTH, 0.5))
                _replace(op, found[0], function, found[1:], rewriter)
                return


class FuseHardSwish(RewritePattern):
    """`x * hard_sigmoid(x)` and `x * clip(x + 3, 0, 6) / 6`, in any order, are `hard_swish(x)`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        function = graph.FunctionAttr(graph.Function.HARD_SWISH)
        for x, other in _factors(op):
            gate = other.owner
            if isinstance(gate, graph.UnaryOp) and gate.input is x and _is_gate(gate):
                _replace(op, x, function, (gate,), rewriter)
                return
        for value in _six_times(op):
            product = value.owner
            if not isinstance(product, graph.BinaryOp) or not value.has_one_use():
                continue
            for x, other in _factors(product):
                if (found := _clipped_sum(other)) is not None and found[0] is x:
                    _replace(op, x, function, (product, *found[1:]), rewriter)
                    return


def _factors(op: graph.BinaryOp) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The factors of a product, in either order."""
    if op.function is graph.Binary.MUL and op.activation is None:
        yield op.lhs, op.rhs
        yield op.rhs, op.lhs


def _six_times(op: graph.BinaryOp) -> Iterator[SSAValue]:
    """What `op` takes a sixth of."""
    for value, other in _factors(op):
        if _is_number(other, SIXTH):
            yield value
    if op.function is graph.Binary.DIV and op.activation is None and _is_number(op.rhs, 6.0):
        yield op.lhs


def _clipped_sum(value: SSAValue) -> tuple[SSAValue, Operation, Operation] | None:
    """`x` of `clip(x + 3, 0, 6)`, the clip and the sum, which nothing else reads."""
    clip = value.owner
    if not isinstance(clip, graph.UnaryOp) or clip.function.clip_range != (0.0, 6.0):
        return None
    total = clip.input.owner
    if not isinstance(total, graph.BinaryOp) or total.function is not graph.Binary.ADD:
        return None
    if total.activation is not None or not value.has_one_use() or not clip.input.has_one_use():
        return None
    for x, other in ((total.lhs, total.rhs), (total.rhs, total.lhs)):
        if _is_number(other, 3.0) and x.type == value.type:
            return x, clip, total
    return None


def _is_gate(op: graph.UnaryOp) -> bool:
    """Whether `op` is the hard_sigmoid of HardSwish, and nothing else reads it."""
    function = op.function
    if function.kind is not graph.Function.HARD_SIGMOID or function.affine is not None:
        return False
    if op.channel_exponents is not None or not op.result.has_one_use():
        return False
    return all(_is_near(*pair) for pair in zip(function.values, (SIXTH, 0.5), strict=True))


def _is_near(number: float, expected: float) -> bool:
    return abs(number - expected) <= NEAR * expected


def _is_number(value: SSAValue, expected: float) -> bool:
    number = graph.constant_number(value)
    return number is not None and _is_near(number, expected)


def _replace(
    op: graph.BinaryOp,
    x: SSAValue,
    function: graph.FunctionAttr,
    gone: tuple[Operation, ...],
    rewriter: PatternRewriter,
) -> None:
    """`function(x)` in the place of `op` and what it alone was made of, the last first."""
    new = graph.UnaryOp(x, function)
    new.location = fused_location(op, *gone)
    copy_statistics(op, new)
    rewriter.replace(op, new)
    for inner in gone:
        rewriter.erase(inner)


class FuseHardSwishPass(PatternPass):
    """
    Replace `clip(x + 3, 0, 6) / 6` by the one function hard_sigmoid, and x times it by hard_swish.

    Products by a sixth count too, in any order. Nothing else may read what is between. Off by the
    rounding of a sixth.
    """

    name = "fuse-hard-swish"
    pattern = GreedyRewritePatternApplier([FuseHardSigmoid(), FuseHardSwish()])
