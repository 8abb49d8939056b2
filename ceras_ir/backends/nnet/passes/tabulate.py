"""Replace what is computed of single int8 numbers by tables, which circuits look up."""

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

from ceras_ir.backends.nnet.rules import is_int8, why_not
from ceras_ir.dialects import graph
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.network import integer
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pattern_pass import PatternPass
from ceras_ir.transforms.quantization.rewrites.tables import FUNCTION

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
