"""Fuse sums, padding, crops and strides into the windows of poolings and convolutions."""

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.layout import LAYOUT_PATTERNS
from ceras_ir.network.storage import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.graph.zero_padding import ZeroPadding
from ceras_ir.transforms.pass_kinds import PatternPass, RulePass

RECIPROCAL_ERROR = 2.0**-23
"""The relative difference of a float32 reciprocal from the exact reciprocal: at most an ulp."""


class FuseMean(RewritePattern):
    """
    Rewrite `reduce sum (x) / n`, or the product with 1 / n, to `pool2d average`. The summed axes
    must be adjacent and precede the last axis, and n must be the number of summed elements. A
    tensor that is not a feature map [N, H, W, C], such as the tokens of a transformer, is reshaped.
    Both forms add in row-major order and then divide. Exact except for sums along height and width,
    which `pool2d` adds row by row, and for products.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        if op.activation is not None or graph.element_of(op.result) != f32:
            return
        for total, count in _quotients(op):
            reduce = total.owner
            # Another consumer needs the sum.
            if not isinstance(reduce, graph.ReduceOp) or not total.has_one_use():
                continue
            window = _window(reduce)
            if window is None or abs(count - prod(window[1])) > RECIPROCAL_ERROR * count:
                continue
            if graph.shape_of(op.result) == graph.shape_of(total):
                _replace_mean(op, reduce, *window, rewriter)
                return


def _quotients(op: graph.BinaryOp) -> list[tuple[SSAValue, float]]:
    # The operands that `op` can divide, each with the constant divisor.
    pairs = [(op.lhs, op.rhs)]
    if op.function is graph.Binary.MUL:
        pairs.append((op.rhs, op.lhs))
    elif op.function is not graph.Binary.DIV:
        return []
    known = [(value, graph.constant_number(other)) for value, other in pairs]
    is_product = op.function is graph.Binary.MUL
    return [(value, 1 / n if is_product else n) for value, n in known if n is not None and n > 0]


def _window(reduce: graph.ReduceOp) -> tuple[tuple[int, int, int, int], tuple[int, int]] | None:
    # The feature map and the summed window.
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
    flat = reduce.input.owner
    if isinstance(flat, graph.ReshapeOp) and len(shape) == 3 and list(axes) == [1]:
        # A sum over all pixels of a flattened feature map.
        source = graph.shape_of(flat.input)
        if len(source) == 4 and (source[0], source[3]) == (shape[0], shape[2]):
            n, h, w, c = source
            return (n, h, w, c), (h, w)
    return (prod(shape[:first]), added, 1, prod(shape[last + 1 :])), (added, 1)


def _replace_mean(
    op: graph.BinaryOp,
    reduce: graph.ReduceOp,
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int],
    rewriter: PatternRewriter,
) -> None:
    ops: list[graph.GraphOperation] = []
    value = reduce.input
    if isinstance(flat := value.owner, graph.ReshapeOp) and graph.shape_of(flat.input) == shape:
        value = flat.input
    if graph.shape_of(value) != shape:
        ops.append(graph.ReshapeOp(value, shape))
        value = ops[-1].output
    element = graph.element_of(op.result)
    ops.append(graph.Pool2dOp(graph.Pool.AVERAGE, value, kernel, result_element=element))
    if ops[-1].output.type != op.result.type:
        ops.append(graph.ReshapeOp(ops[-1].output, graph.shape_of(op.result)))
    for new in ops:
        new.location = op.location
        if not isinstance(new, graph.ReshapeOp) or new is ops[-1]:
            new.attributes.update(op.attributes)
    rewriter.replace(op, ops)
    rewriter.erase(reduce)


class MergeMeans(RewritePattern):
    """
    Merge an average along the height and an average along the width into a single average over
    both. Equal over the reals, because all elements have the same weight. The result is rounded a
    single time instead of twice.
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
    # The axes that `op` averages completely; None for other poolings.
    shape, result = graph.shape_of(op.input), graph.shape_of(op.result)
    if op.function is not graph.Pool.AVERAGE or any(op.padding.get_values()):
        return None
    axes = {d for d in (1, 2) if op.window[d - 1] == shape[d]}
    rest = {1, 2} - axes
    is_whole = all(op.window[d - 1] == 1 and result[d] == shape[d] for d in rest)
    return axes if is_whole else None


class MeanRule(PatternPass):
    """
    Fuse `graph.reduce sum` and the division by the count into `graph.pool2d average`, and merge
    averages along width and height.

    The average can be quantized. Exporters write means over pixels or tokens as a sum times a
    reciprocal. Means along the last axis remain; they are part of normalizations.

    Before:

        %n = graph.constant dense<6.0> : tensor<1xf32> : tensor<1xf32>
        %s = graph.reduce sum %x {axes = array<i64: 1, 2>}
            : (tensor<1x2x3x4xf32>) -> tensor<1x1x1x4xf32>
        %y = graph.binary div %s, %n : (tensor<1x1x1x4xf32>, tensor<1xf32>) -> tensor<1x1x1x4xf32>

    After:

        %y = graph.pool2d average %x {kernel = array<i64: 2, 3>}
            : (tensor<1x2x3x4xf32>) -> tensor<1x1x1x4xf32>
    """

    name = "means"
    pattern = GreedyRewritePatternApplier([FuseMean(), MergeMeans(), *LAYOUT_PATTERNS])


class FusePad(RewritePattern):
    """
    Rewrite `conv2d(pad(x))` to `conv2d(x)` with more padding. The pad must add zeros or zero points
    around height and width. A transpose can be between pad and convolution, or the equivalent
    reshape of a single channel. Exact, because padding of a convolution contributes 0, as these
    elements do.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.Conv2dOp, rewriter: PatternRewriter, /):
        zeros = ZeroPadding.of(op)
        if zeros is None or any(zeros.between):
            return
        old, more = op.padding.get_values(), (*zeros.low, *zeros.high)
        op.properties["padding"] = integers([a + b for a, b in zip(old, more, strict=True)])
        op.operands[0] = zeros.insert_source(rewriter)
        op.location = fused_location(op, zeros.pad)
        rewriter.notify_op_modified(op)
        zeros.erase_unused(rewriter)


class PadRule(PatternPass):
    """
    Fuse `graph.pad` with zeros into the consuming convolutions.

    Before:

        %p = graph.pad constant %x {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>,
            interior = array<i64: 0, 0, 0, 0>, value = 0.0 : f32}
            : (tensor<1x2x2x1xf32>) -> tensor<1x3x3x1xf32>
        %y = graph.conv2d %p, %w : (tensor<1x3x3x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>

    After:

        %y = graph.conv2d %x, %w {padding = array<i64: 1, 1, 0, 0>}
            : (tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
    """

    name = "pads"
    pattern = FusePad()


class FoldCrop(RewritePattern):
    """
    Rewrite `slice(conv2d(x))` to `conv2d(x)` with less padding. The slice must remove only rows and
    columns that the padding added, and be the only consumer. Exact: the remaining elements are
    computed from the same elements.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SliceOp, rewriter: PatternRewriter, /):
        conv = op.input.owner
        if not isinstance(conv, graph.Conv2dOp) or not op.input.has_one_use():
            return
        if conv.is_quantized or conv.residual is not None or conv.ordered is not None:
            return
        starts, shape = op.starts.get_values(), graph.shape_of(op.input)
        result, strides = graph.shape_of(op.result), conv.strides.get_values()
        if any(step != 1 for step in op.strides.get_values()):
            return
        if (result[0], result[3]) != (shape[0], shape[3]):
            return
        padding = list(conv.padding.get_values())
        for d in (1, 2):
            cut = shape[d] - starts[d] - result[d]
            padding[d - 1] -= starts[d] * strides[d - 1]
            padding[d + 1] -= cut * strides[d - 1]
        if min(padding) < 0:
            return
        changed = {"padding": graph.integers(padding)}
        new = conv.rebuilt([*conv.operands], shape=result, changed=changed)
        new.location = fused_location(conv, op)
        copy_statistics(op, new)
        rewriter.replace(op, new)
        rewriter.erase(conv)


class CropRule(PatternPass):
    """
    Reduce the padding of a convolution instead of cropping the result.

    Causal convolutions are exported in this form (`Chomp1d` of temporal convolutional networks):
    padding is added on both sides and a side is cropped.

    Before:

        %a = graph.conv2d %x, %w {padding = array<i64: 0, 2, 0, 2>}
            : (tensor<1x1x5x1xf32>, tensor<1x1x3x1xf32>) -> tensor<1x1x7x1xf32>
        %y = graph.slice %a {starts = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>}
            : (tensor<1x1x7x1xf32>) -> tensor<1x1x5x1xf32>

    After:

        %y = graph.conv2d %x, %w {padding = array<i64: 0, 2, 0, 0>}
            : (tensor<1x1x5x1xf32>, tensor<1x1x3x1xf32>) -> tensor<1x1x5x1xf32>
    """

    name = "crops"
    pattern = FoldCrop()


MIN_KERNEL_CHANNELS = 4
"""The number of channels to which kernels pad; more channels need no padding."""


class FoldStride(RewritePattern):
    """
    Convert the stride of a convolution with few channels to channels. The window must be a single
    row with a width that is a multiple of the stride s. [N, H, W, C] is read as [N, H, W / s, s *
    C], and weights [O, 1, K, C] as [O, 1, K / s, s * C]. Exact: the elements have the same
    addresses, and sums have the same order.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.Conv2dOp, rewriter: PatternRewriter, /):
        weights = op.weights.owner
        if not isinstance(weights, graph.ConstantOp) or op.is_quantized:
            return
        n, h, w, c = graph.shape_of(op.input)
        outputs, rows, columns, _ = graph.shape_of(op.weights)
        down, along = op.strides.get_values()
        if rows != 1 or c >= MIN_KERNEL_CHANNELS or op.group_count != 1 or along == 1:
            return
        if columns % along or w % along or any(op.padding.get_values()):
            return
        if op.dilations.get_values() != (1, 1):
            return
        wide = c * along
        folded = graph.ReshapeOp(op.input, (n, h, w // along, wide))
        array = np.asarray(weights.array(), np.float32)
        packed = graph.ConstantOp.from_array(
            array.reshape(outputs, 1, columns // along, wide),
            graph.element_of(op.weights),
            location=weights.location,
        )
        new = graph.Conv2dOp(
            folded.result,
            packed.result,
            op.bias,
            op.residual,
            result_element=graph.element_of(op.result),
            strides=(down, 1),
            activation=op.activation,
        )
        folded.location = new.location = op.location
        new.attributes |= op.attributes
        if op.ordered is not None:
            new.ordered = op.ordered
        rewriter.replace(op, [folded, packed, new], [new.result])


class StrideRule(PatternPass):
    """
    Convert the stride of a window with a single row to channels.

    For audio, a window of 256 samples with stride 128 becomes a window of 2 over 128 channels.
    Kernels pad fewer than four channels to four, which wastes multiplications.

    Before:

        %w = graph.constant dense<[[[[1.0], [2.0], [3.0], [4.0]]]]> : tensor<1x1x4x1xf32>
            : tensor<1x1x4x1xf32>
        %y = graph.conv2d %x, %w {strides = array<i64: 1, 2>}
            : (tensor<1x1x6x1xf32>, tensor<1x1x4x1xf32>) -> tensor<1x1x2x1xf32>

    After:

        %a = graph.reshape %x : (tensor<1x1x6x1xf32>) -> tensor<1x1x3x2xf32>
        %w = graph.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]]]> : tensor<1x1x2x2xf32>
            : tensor<1x1x2x2xf32>
        %y = graph.conv2d %a, %w
            : (tensor<1x1x3x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x1xf32>
    """

    name = "strides"
    pattern = FoldStride()
    repeats = False


@dataclass(frozen=True)
class FuseWindowsPass(RulePass):
    """Fuse sums, padding, crops and strides into the windows of poolings and convolutions."""

    name = "fuse-windows"

    def table(self) -> tuple[ModulePass, ...]:
        return MeanRule(), PadRule(), CropRule(), StrideRule()
