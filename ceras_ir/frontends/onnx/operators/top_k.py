"""The greatest or least elements along an axis, by the rank of every element."""

import numpy as np
from xdsl.dialects.builtin import IntegerType, i32

from ceras_ir.dialects.graph import ArgOp, Compare, Reduce, TakeOp
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import constant_operands, operator
from ceras_ir.frontends.onnx.values import Value

MAX_EXTENT = 1 << 10
"""Elements that are ranked: every one is compared with every other."""
MAX_COMPARISONS = 1 << 24

constant_operands(
    {"TopK": [1]}, "k must be a constant", "make it an initializer, or fix it with --set"
)


@operator("TopK")
def top_k(node: Node, emitter: Emitter) -> list[Value]:
    """
    An element's rank is the number of those that come before it: greater ones, and equal ones of
    lower index. Output t is the element of rank t. In a row with NaN results are unspecified.
    """
    node.ignore("sorted")
    shape, compose = emitter.shape(0), Composer(emitter)
    axis = node.axis(node.integer("axis", -1), len(shape))
    given = emitter.integers(1) if node.opset >= 10 else (node.integer("k", 0),)
    k, n = (given or (0,))[0], shape[axis]
    if not 1 <= k <= n:
        raise node.wrong(f"k must be in [1, {n}], got {k}")
    if n > MAX_EXTENT or int(np.prod(shape)) * n > MAX_COMPARISONS:
        raise node.unsupported(
            f"{k} of {n} elements of {list(shape)}; at most {MAX_EXTENT} are ranked, with 2^24 "
            "comparisons: end the model before it and do the rest in the application"
        )
    order = [i for i in range(len(shape)) if i != axis] + [axis]
    rows = emitter.transposed(emitter.value(0), order)
    outer = shape_of_value(rows)[:-1]
    count = int(np.prod(outer))
    each = emitter.reshaped(rows, (count, n, 1))
    others = emitter.reshaped(rows, (count, 1, n))
    ends = (each, others) if node.flag("largest", True) else (others, each)
    before = compose.cast(compose.compare(Compare.LESS, *ends), i32)
    lower = emitter.constant(np.tril(np.ones((1, n, n), np.int32), -1), "lower")
    equal = compose.mul(compose.cast(compose.compare(Compare.EQUAL, each, others), i32), lower)
    rank = compose.reduce(Reduce.SUM, compose.add(before, equal), (2,))
    wanted = emitter.constant(np.arange(k, dtype=np.int32).reshape(1, 1, k), "ranks")
    chosen = compose.compare(Compare.EQUAL, rank, wanted)
    bytes_of = emitter.materialize(compose.cast(chosen, IntegerType(8)))
    index = emitter.emit(ArgOp(Reduce.MAX, bytes_of, 1))
    starts = emitter.constant(n * np.arange(count, dtype=np.int64).reshape(count, 1, 1), "starts")
    at = emitter.reshaped(compose.add(index, starts), (count * k,))
    column = emitter.materialize(emitter.reshaped(rows, (count * n, 1)))
    found = emitter.emit(TakeOp(column, emitter.materialize(at)))
    back = [order.index(i) for i in range(len(shape))]
    return [
        emitter.transposed(emitter.reshaped(part, (*outer, k)), back) for part in (found, index)
    ]
