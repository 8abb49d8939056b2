"""
Replace functions of single int8 values by tables, and fuse tables into convolutions and products.

The circuits of the FPGA look up tables; the circuits of convolutions and products contain tables.
"""

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    Float32Type,
    IntegerType,
    TensorType,
    f32,
)
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.backends.nnet.rules import MAX_TABLES, is_int8, why_not
from ceras_ir.dialects import graph
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.network import integer
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pass_kinds import PatternPass
from ceras_ir.transforms.quantization.analysis.rescaling import FUNCTION
from ceras_ir.transforms.rebuilding import rebuild_linear

STORED = np.arange(-128, 128).astype(np.int8)
"""Every number that a table is asked for."""


class TabulateRequantize(RewritePattern):
    """`requantize(x)` from int8 to int8 becomes `lookup(x)`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.RequantizeOp, rewriter: PatternRewriter, /):
        if not is_int8(op.input) or not is_int8(op.result):
            return
        source, target = graph.stored_element(op.input), graph.stored_element(op.result)
        centred = STORED.astype(np.int64) - source.zero_point
        entries = integer.requantize(centred, op.requant, target)
        new = graph.LookupOp(op.input, _table(entries, target.storage), target)
        new.location = op.location
        rewriter.replace(op, new)


class TabulateDequantize(RewritePattern):
    """
    `dequantize(x)` of what a convolution or product on the FPGA makes, with the function of it
    where that is all that reads it, becomes `lookup(x)` with float entries.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.DequantizeOp, rewriter: PatternRewriter, /):
        linear = op.input.owner
        if not isinstance(linear, graph.LinearOperation) or not is_int8(op.input):
            return
        # The CPU dequantizes what it has computed itself.
        if why_not(linear) is not None:
            return
        values = integer.dequantize(STORED, graph.stored_element(op.input))
        last: graph.GraphOperation = op
        use = op.result.get_user_of_unique_use()
        # Of exponents by channel there would be tables by channel.
        if isinstance(use, graph.UnaryOp) and use.channel_exponents is None:
            # A function may overflow far outside what the network computes.
            with np.errstate(all="ignore"):
                values = apply_function(use.function, values)
            last = use
        new = graph.LookupOp(op.input, _table(values.astype(np.float32), f32), f32)
        new.location = op.location
        if isinstance(last, graph.UnaryOp):
            new.attributes[FUNCTION] = last.function
            new.location = fused_location(op, last)
        rewriter.insert(new)
        rewriter.replace(last, [], [new.result])
        if last is not op:
            rewriter.erase(op)


def _table(
    entries: NDArray[np.generic], storage: IntegerType | Float32Type
) -> DenseIntOrFPElementsAttr:
    return DenseIntOrFPElementsAttr(
        TensorType(storage, entries.shape), BytesAttr(entries.tobytes())
    )


class TabulatePass(PatternPass):
    """
    Replace requantizations of int8, and dequantizations behind convolutions, by tables.

    Exact: an entry is what the interpreter computes for the stored number of its place.
    """

    name = "tabulate"
    pattern = GreedyRewritePatternApplier([TabulateRequantize(), TabulateDequantize()])
    repeats = False


class FuseLookup(RewritePattern):
    """`lookup(conv2d(x, w), t)` becomes `conv2d(x, w) {table = t}`; so for `matmul`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.LookupOp, rewriter: PatternRewriter, /):
        linear = op.input.owner
        # Another reader wants the numbers in front of the table.
        if not isinstance(linear, graph.LinearOperation) or not op.input.has_one_use():
            return
        # The CPU looks up whole layers faster than it does pixels.
        if linear.table is not None or not is_int8(op.input) or why_not(linear) is not None:
            return
        target = graph.quantized_element(op.result)
        if target is not None and not is_int8(op.result):
            return
        if len(op.tables) > MAX_TABLES:
            return
        epilogue = {"table": op.table, "rows": op.rows}
        new = rebuild_linear(linear, epilogue, element=graph.element_of(op.result))
        if FUNCTION in op.attributes:
            new.attributes[FUNCTION] = op.attributes[FUNCTION]
        new.location = fused_location(linear, op)
        rewriter.replace(op, new)
        rewriter.erase(linear)


class FuseLookupPass(PatternPass):
    """
    Fuse a lookup into the convolution or matrix product before it, where the FPGA runs that.

    Exact: the table is read at the number that the requantization has made.
    """

    name = "fuse-lookup"
    pattern = FuseLookup()
    repeats = False
