"""
Replace functions of int8 values by lookup tables, and fuse tables into convolutions and products.

The FPGA has a circuit for lookups. The circuits of convolutions and products contain tables, too.
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
from ceras_ir.dialects.graph.lookup import FUNCTION
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.network import integer
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pass_kinds import PatternPass
from ceras_ir.transforms.rebuilding import rebuild_linear

TABLE_INPUTS = np.arange(-128, 128).astype(np.int8)


class TabulateRequantize(RewritePattern):
    """Replace `requantize(x)` from int8 to int8 by `lookup(x)`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.RequantizeOp, rewriter: PatternRewriter, /):
        if not is_int8(op.input) or not is_int8(op.result):
            return
        source, target = graph.stored_element(op.input), graph.stored_element(op.result)
        centred = TABLE_INPUTS.astype(np.int64) - source.zero_point
        entries = integer.requantize(centred, op.requant, target)
        new = graph.LookupOp(op.input, _table(entries, target.storage), target)
        new.location = op.location
        rewriter.replace(op, new)


class TabulateDequantize(RewritePattern):
    """
    Replace `dequantize(conv2d)` by `lookup(conv2d)` with float entries. The rule also applies to
    `matmul`.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.DequantizeOp, rewriter: PatternRewriter, /):
        linear = op.input.owner
        if not isinstance(linear, graph.LinearOperation) or not is_int8(op.input):
            return
        # After a layer on the CPU, the dequantization remains.
        if why_not(linear) is not None:
            return
        values = integer.dequantize(TABLE_INPUTS, graph.stored_element(op.input))
        last: graph.GraphOperation = op
        use = op.result.get_user_of_unique_use()
        # Exponents by channel would need a table per channel.
        if isinstance(use, graph.UnaryOp) and use.channel_exponents is None:
            # A function may overflow for inputs that do not occur in the network.
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
    Replace requantizations of int8 and dequantizations of FPGA layers by lookups.

    The rewrite is exact: each entry is the result of the interpreter for the input of the entry.
    In the example, the step of the result is so large that all entries are 0.

    Before:

        !fine = !quant.uniform<i8:f32, 0.5>
        !coarse = !quant.uniform<i8:f32, 128.0>
        #r = #graph.requant<shift = 8, rounding = half_even, low = -128, high = 127>
        %y = graph.requantize %x {requant = #r} : (tensor<4x!fine>) -> tensor<4x!coarse>

    After:

        %y = graph.lookup %x, dense<0> : tensor<256xi8> : (tensor<4x!fine>) -> tensor<4x!coarse>
    """

    name = "tabulate"
    pattern = GreedyRewritePatternApplier([TabulateRequantize(), TabulateDequantize()])
    repeats = False


class FuseLookup(RewritePattern):
    """
    Fuse `lookup(conv2d(x, w), t)` into `conv2d(x, w) {table = t}`. The rule also applies to
    `matmul`.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.LookupOp, rewriter: PatternRewriter, /):
        linear = op.input.owner
        # Another consumer needs the values before the lookup.
        if not isinstance(linear, graph.LinearOperation) or not op.input.has_one_use():
            return
        # On the CPU, a separate lookup of the entire tensor is faster.
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
    Fuse a lookup into the preceding convolution or matrix product if the FPGA can execute it.

    The rewrite is exact: the table is applied to the result of the requantization.

    Before:

        !q = !quant.uniform<i8:f32, 0.5>
        #r = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>
        %a = graph.matmul %x, %w {requant = #r} : (tensor<3x4x!q>, tensor<2x4x!q>) -> tensor<3x2x!q>
        %y = graph.lookup %a, dense<3> : tensor<256xi8> : (tensor<3x2x!q>) -> tensor<3x2x!q>

    After:

        %y = graph.matmul %x, %w {requant = #r, table = dense<3> : tensor<256xi8>}
            : (tensor<3x4x!q>, tensor<2x4x!q>) -> tensor<3x2x!q>
    """

    name = "fuse-lookup"
    pattern = FuseLookup()
    repeats = False
