"""The greatest or least elements along an axis."""

import numpy as np

from ceras_ir.dialects.graph import Reduce, TopKOp
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import WHERE_COMPUTED, constant_operands, operator
from ceras_ir.frontends.onnx.values import Value

constant_operands({"TopK": [1]}, "k must be a constant", WHERE_COMPUTED)


@operator("TopK")
def top_k(node: Node, emitter: Emitter) -> list[Value]:
    """
    Elements come in order, of equal ones that of lower index first, and NaN last; `sorted=0` allows
    any order.
    """
    node.ignore("sorted")
    shape = emitter.shape(0)
    axis = node.axis(node.integer("axis", -1), len(shape))
    given = emitter.integers(1) if node.opset >= 10 else (node.integer("k", 0),)
    k, n = (given or (0,))[0], shape[axis]
    if not 1 <= k <= n:
        raise node.wrong(f"k must be in [1, {n}], got {k}")
    order = [i for i in range(len(shape)) if i != axis] + [axis]
    rows = emitter.transposed(emitter.value(0), order)
    outer = shape_of_value(rows)[:-1]
    count = int(np.prod(outer))
    kind = Reduce.MAX if node.flag("largest", True) else Reduce.MIN
    rows = emitter.materialize(emitter.reshaped(rows, (count, n)))
    index = emitter.emit(TopKOp(kind, rows, k))
    back = [order.index(i) for i in range(len(shape))]
    return [
        emitter.transposed(emitter.reshaped(part, (*outer, k)), back)
        for part in (_taken(emitter, rows, index), index)
    ]


def _taken(emitter: Emitter, rows: Value, index: Value) -> Value:
    """The elements of rows [R, N] at indices [R, K]."""
    (count, n), (_, k) = shape_of_value(rows), shape_of_value(index)
    starts = n * np.arange(count, dtype=np.int64).reshape(count, 1)
    compose = Composer(emitter)
    at = compose.add(index, emitter.constant(starts, "starts"))
    column = emitter.reshaped(rows, (count * n, 1))
    return emitter.reshaped(compose.taken(column, at), (count, k))
