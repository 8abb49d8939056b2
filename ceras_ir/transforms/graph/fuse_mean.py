"""Make an average of a sum that is divided, and one average of two."""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.canonicalization.layout import LAYOUT_PATTERNS
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pattern_pass import PatternPass

NEAR = 2.0**-23
"""Relative difference of a float32 reciprocal from the exact reciprocal: at most an ulp."""


class FuseMean(RewritePattern):
    """
    `reduce sum (x) / n`, or times one over n, becomes `pool2d average`, where x is summed along
    neighbouring dimensions before the last, and n is the number of elements added. What is no
    feature map is reshaped to one: the tokens of a transformer, or pixels in one dimension.

    Both add in row-major order, then divide. Exact, but for sums along height and width, which
    `pool2d` adds row by row, and for products.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        if op.activation is not None or graph.element_of(op.result) != f32:
            return
        for total, count in _quotients(op):
            reduce = total.owner
            # Another reader needs the sum.
            if not isinstance(reduce, graph.ReduceOp) or not total.has_one_use():
                continue
            window = _window(reduce)
            if window is None or abs(count - prod(window[1])) > NEAR * count:
                continue
            if graph.shape_of(op.result) == graph.shape_of(total):
                _replace(op, reduce, *window, rewriter)
                return


def _quotients(op: graph.BinaryOp) -> list[tuple[SSAValue, float]]:
    """Return the operands that `op` may divide, each with the constant divisor."""
    pairs = [(op.lhs, op.rhs)]
    if op.function is graph.Binary.MUL:
        pairs.append((op.rhs, op.lhs))
    elif op.function is not graph.Binary.DIV:
        return []
    known = [(value, graph.constant_number(other)) for value, other in pairs]
    is_product = op.function is graph.Binary.MUL
    return [(value, 1 / n if is_product else n) for value, n in known if n is not None and n > 0]


def _window(reduce: graph.ReduceOp) -> tuple[tuple[int, int, int, int], tuple[int, int]] | None:
    """The feature map that a sum is of, and the window that it adds."""
    shape, axes = graph.shape_of(reduce.input), reduce.axes.get_values()
    if reduce.function is not graph.Reduce.SUM or not axes or axes[-1] == len(shape) - 1:
        return None
    if len(shape) == 4 and set(axes) <= {1, 2}:
        n, h, w, c = shape
        return (n, h, w, c), (h if 1 in axes else 1, w if 2 in axes else 1)
    first, last = axes[0], axes[-1]
    if len(axes) != last + 1 - first:
        return None
    added = prod(shape[first : last + 1])
    if (image := _image(reduce.input, shape, axes)) is not None:
        return image, image[1:3]
    return (prod(shape[:first]), added, 1, prod(shape[last + 1 :])), (added, 1)


def _image(
    value: SSAValue, shape: tuple[int, ...], axes: Sequence[int]
) -> tuple[int, int, int, int] | None:
    """The feature map whose pixels, in one dimension, are all added."""
    flat = value.owner
    if not isinstance(flat, graph.ReshapeOp) or len(shape) != 3 or list(axes) != [1]:
        return None
    source = graph.shape_of(flat.input)
    if len(source) != 4 or (source[0], source[3]) != (shape[0], shape[2]):
        return None
    n, h, w, c = source
    return n, h, w, c


def _replace(
    op: graph.BinaryOp,
    reduce: graph.ReduceOp,
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int],
    rewriter: PatternRewriter,
) -> None:
    made: list[graph.GraphOperation] = []
    value = reduce.input
    if isinstance(flat := value.owner, graph.ReshapeOp) and graph.shape_of(flat.input) == shape:
        value = flat.input
    if graph.shape_of(value) != shape:
        made.append(graph.ReshapeOp(value, shape))
        value = made[-1].output
    element = graph.element_of(op.result)
    made.append(graph.Pool2dOp(graph.Pool.AVERAGE, value, kernel, result_element=element))
    if made[-1].output.type != op.result.type:
        made.append(graph.ReshapeOp(made[-1].output, graph.shape_of(op.result)))
    for new in made:
        new.location = op.location
        if not isinstance(new, graph.ReshapeOp) or new is made[-1]:
            new.attributes.update(op.attributes)
    rewriter.replace(op, made)
    rewriter.erase(reduce)


class MergeMeans(RewritePattern):
    """
    The average along one of height and width, averaged along the other, is an average along both.

    Equal over the reals: all elements count alike. It is rounded once instead of twice.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.Pool2dOp, rewriter: PatternRewriter, /):
        inner = op.input.owner
        if not isinstance(inner, graph.Pool2dOp) or not op.input.has_one_use():
            return
        if _axes(op) is None or _axes(inner) is None or inner.is_quantized:
            return
        size = graph.shape_of(inner.input)[1:3]
        if graph.shape_of(op.result)[1:3] != (1, 1) or op.is_quantized:
            return
        element = graph.element_of(op.result)
        new = graph.Pool2dOp(graph.Pool.AVERAGE, inner.input, size, result_element=element)
        new.location = fused_location(inner, op)
        new.attributes.update(op.attributes)
        rewriter.replace(op, new)
        rewriter.erase(inner)


def _axes(op: graph.Pool2dOp) -> set[int] | None:
    """The dimensions that `op` takes the whole average along, None if it does anything else."""
    shape, result = graph.shape_of(op.input), graph.shape_of(op.result)
    if op.function is not graph.Pool.AVERAGE or any(op.padding.get_values()):
        return None
    axes = {d for d in (1, 2) if op.window[d - 1] == shape[d]}
    rest = {1, 2} - axes
    is_whole = all(op.window[d - 1] == 1 and result[d] == shape[d] for d in rest)
    return axes if is_whole else None


class FuseMeanPass(PatternPass):
    """
    Fuse `graph.reduce sum` and the division by its count into `graph.pool2d average`, which can be
    quantized, and averages along width and then height into one.

    Exporters write means so: over pixels in one dimension, over tokens, as a sum times a
    reciprocal. Means along the last dimension stay, which are those of normalizations.
    """

    name = "fuse-mean"
    pattern = GreedyRewritePatternApplier([FuseMean(), MergeMeans(), *LAYOUT_PATTERNS])
