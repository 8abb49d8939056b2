"""Make channels of the positions that a window along rows steps over."""

import numpy as np
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.transforms.pattern_pass import PatternPass

FEW = 4
"""Channels that kernels fill up to: so many and more need no others."""


class FoldStride(RewritePattern):
    """
    A convolution of few channels whose window is one row of a multiple of its stride s becomes one
    of stride 1 over s times as many channels: [N, H, W, C] read as [N, H, W / s, s * C], and
    weights [O, 1, K, C] as [O, 1, K / s, s * C].

    Exact: nothing moves, and sums have the same order.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.Conv2dOp, rewriter: PatternRewriter, /):
        weights = op.weights.owner
        if not isinstance(weights, graph.ConstantOp) or op.is_quantized:
            return
        n, h, w, c = graph.shape_of(op.input)
        outputs, rows, columns, _ = graph.shape_of(op.weights)
        down, along = op.strides.get_values()
        if rows != 1 or c >= FEW or op.group_count != 1 or along == 1:
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


class FoldStridePass(PatternPass):
    """
    Make channels of the positions that a strided window of one row steps over.

    It is for sound: a window of 256 samples with stride 128 becomes one of 2 over 128 channels.
    Kernels fill few channels up to four, and multiply as often.
    """

    name = "fold-stride"
    pattern = FoldStride()
    repeats = False
