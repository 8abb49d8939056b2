"""Import products of computed matrices."""

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import broadcast_shape
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.tflite.operation import Operation, operator

MAX_BATCH = 1 << 10
"""The maximum number of products of integers in an operator."""


@operator("BATCH_MATMUL")
def batch_matmul(op: Operation) -> Value:
    """
    Import BATCH_MATMUL: matrix products over the last two dimensions. Options transpose either
    operand.
    """
    sides: list[Value] = []
    for i in range(2):
        value = op.tensor(i) if op.is_quantized else op.real(i)
        rank = len(shape_of_value(value))
        if rank < 2:
            raise op.wrong(f"operand {i} has {rank} dimensions, expected at least two")
        if op.operator.options.flag(i):
            value = op.emitter.transposed(value, [*range(rank - 2), rank - 1, rank - 2])
        sides.append(value)
    if op.is_quantized:
        return _integer_products(op, sides[0], sides[1])
    return op.one("MatMul", sides)


def _integer_products(op: Operation, a: Value, b: Value) -> Value:
    """Emit a product of int8 for each matrix of the batch, to which operands are broadcast."""
    kinds = {op.input(0).kind, op.input(1).kind, op.output.kind}
    if kinds != {"int8"}:
        raise op.unsupported(f"of {', '.join(sorted(kinds))}; quantize to int8")
    left, right = shape_of_value(a), shape_of_value(b)
    batch = broadcast_shape(left[:-2], right[:-2])
    if batch is None or left[-1] != right[-2]:
        raise op.wrong(f"{list(left)} times {list(right)}")
    if prod(batch) > MAX_BATCH:
        raise op.unsupported(f"{prod(batch)} products, expected at most {MAX_BATCH}; split it")
    (m, k), n, emitter = left[-2:], right[-1], op.emitter
    # The kernel multiplies the scales in single precision.
    product = np.float32(op.element(0).scale) * np.float32(op.element(1).scale)
    target = op.result_element
    requant = op.requant([float(product) / target.scale], (target.low, target.high))
    rows = emitter.reshaped(a, (prod(left[:-2]), m, k))
    columns = emitter.transposed(emitter.reshaped(b, (prod(right[:-2]), k, n)), (0, 2, 1))
    places = [
        np.broadcast_to(np.arange(prod(s)).reshape(s), batch).reshape(-1).tolist()
        for s in (left[:-2], right[:-2])
    ]
    found: list[SSAValue] = []
    for i, j in zip(*places, strict=True):
        x, w = emitter.slice_at(rows, i), emitter.slice_at(columns, j)
        matrix = graph.MatmulOp(
            emitter.materialize(x), emitter.materialize(w), result_element=target, requant=requant
        )
        found.append(emitter.emit(matrix))
    parts = [emitter.reshaped(v, (1, m, n)) for v in found]
    return emitter.reshaped(emitter.joined(parts, 0), (*batch, m, n))
