"""`graph.encoded_matmul` in C: weights as the encoding lays them out, sums in their order."""

import numpy as np

from ceras_ir.backends.c.functions import apply
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.requant import Refused
from ceras_ir.backends.c.types import value_type
from ceras_ir.dialects.graph import ConstantOp, shape_of
from ceras_ir.dialects.graph.encoded import EncodedMatmulOp, Encoding
from ceras_ir.interpreters.float_text import float_literal
from ceras_ir.network.weight_encoding import Array, SparseRows

MOST_LITERALS = 4096
"""Weights that may become code: more would be slow to compile and larger than any encoding."""


@prints(EncodedMatmulOp)
def encoded_matmul(layer: Layer, op: EncodedMatmulOp) -> None:
    """One row of the input at a time."""
    constant = op.weights.owner
    if not isinstance(constant, ConstantOp):
        raise Refused("encoded weights must be constants; use graph.matmul")
    weights = constant.array()
    (rows, k), n = shape_of(op.input), weights.shape[0]
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    depth = 0
    if rows > 1:
        layer.line(f"for (int32_t r = 0; r < {rows}; ++r, {x} += {k}, {y} += {n}) {{")
        depth = 1
    match op.kind:
        case Encoding.DENSE:
            _dense(layer, weights, value_type(op.weights), x, y, depth)
        case Encoding.CODE:
            _code(layer, weights, x, y, depth)
        case _:
            _sparse(layer, op.kind, weights, value_type(op.weights), x, y, depth)
    _epilogue(layer, op, y, n, depth)
    if rows > 1:
        layer.line("}")


def _short(ctype: str) -> str:
    return {"float": "f32", "int8_t": "i8", "uint8_t": "u8", "uint16_t": "u16"}[ctype]


def interleaved(weights: Array) -> Array:
    """Groups of four rows column by column, the rows that are left over one by one."""
    whole, k = len(weights) // 4 * 4, weights.shape[1]
    groups = weights[:whole].reshape(-1, 4, k).transpose(0, 2, 1)
    return np.concatenate([groups.reshape(-1), weights[whole:].reshape(-1)])


def _dense(layer: Layer, weights: Array, ctype: str, x: str, y: str, depth: int) -> None:
    def packed() -> Array:
        return interleaved(weights)

    function = layer.kernels.use("dense_rows", NAME=_short(ctype), WEIGHT=ctype)
    w = layer.constant("weights", ctype, weights.size, weights.itemsize, packed)
    layer.line(f"{function}({weights.shape[0]}, {weights.shape[1]}, {x}, {w}, {y});", depth)


def _sparse(
    layer: Layer, kind: Encoding, weights: Array, ctype: str, x: str, y: str, depth: int
) -> None:
    sparse = SparseRows.of(kind, weights)
    if not sparse.values.size:
        layer.line(f"memset({y}, 0, {len(weights)} * sizeof *{y}); /* no weights left */", depth)
        layer.line(f"(void){x};", depth)
        return
    count_type = f"{sparse.counts.dtype.name}_t"
    function = layer.kernels.use(
        "delta_rows" if kind is Encoding.CSR_DELTA8 else "index_rows",
        NAME=f"{_short(ctype)}_{_short(count_type)}",
        COUNT=count_type,
        WEIGHT=ctype,
    )
    counts = layer.array("counts", sparse.counts, count_type)
    places = layer.array("places", sparse.places, f"{sparse.places.dtype.name}_t")
    values = layer.array("values", sparse.values, ctype)
    layer.line(f"{function}({len(weights)}, {x}, {counts}, {places}, {values}, {y});", depth)


def _code(layer: Layer, weights: Array, x: str, y: str, depth: int) -> None:
    if np.count_nonzero(weights) > MOST_LITERALS:
        raise Refused(
            f"encoding 'code' is for tiny layers: at most {MOST_LITERALS} weights that are not "
            f"zero, got {np.count_nonzero(weights)}; use csr_delta8"
        )
    layer.line("float sum;", depth)
    for o, row in enumerate(weights):
        layer.line("sum = 0.0f;", depth)
        for i in np.flatnonzero(row):
            value = float_literal(float(row[i]))
            layer.line(f"sum += {x}[{i}] * {value};", depth)
        layer.line(f"{y}[{o}] = sum;", depth)
    layer.line(f"(void){x};", depth)


def _epilogue(layer: Layer, op: EncodedMatmulOp, y: str, n: int, depth: int) -> None:
    value = f"{y}[o]"
    if op.scale is not None:
        value += f" * {float_literal(op.scale)}"
    if op.bias is not None:
        value += f" + {layer.read(op.bias, 'bias')}[o]"
    if value == f"{y}[o]" and op.activation is None:
        return
    result = apply(layer.kernels, op.activation, "v") if op.activation is not None else "v"
    layer.loop("o", n, [f"const float v = {value};", f"{y}[o] = {result};"], depth)
