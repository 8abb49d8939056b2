"""
Matrix products whose sums are ordered, on machines without vectors or from encoded weights: float
rows times weights as they lie in memory, every step rounded to float32.
"""

import numpy as np
from xdsl.dialects.builtin import BytesAttr

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.encodings import CODE, KERNEL
from ceras_ir.backends.c.functions import apply
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.operands import constant_weights
from ceras_ir.backends.c.requant import Refused
from ceras_ir.backends.c.types import value_type
from ceras_ir.dialects.graph import ConstantOp, LinearOperation, MatmulOp, shape_of
from ceras_ir.dialects.sparse import CsrAttr
from ceras_ir.interpreters.float_text import float_literal

MOST_LITERALS = 4096
"""Weights that may become code: more would be slow to compile and larger than any encoding."""


def takes_ordered_rows(layer: Layer, op: LinearOperation) -> bool:
    """Whether this is the way to print a float operation."""
    if not isinstance(op, MatmulOp) or op.ordered is None:
        return False
    if not isinstance(op.weights.owner, ConstantOp):
        return False
    special = isinstance(op.encoded_weights, CsrAttr) or op.weight_scale is not None
    return special or not layer.options.vectors


def ordered_rows(layer: Layer, op: LinearOperation) -> None:
    """One row of the input at a time."""
    constant = constant_weights(op)
    weights = constant.array()
    (rows, k), n = shape_of(op.input), weights.shape[0]
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    depth = 0
    if rows > 1:
        layer.line(f"for (int32_t r = 0; r < {rows}; ++r, {x} += {k}, {y} += {n}) {{")
        depth = 1
    kernel, encoded = op.attributes.get(KERNEL), constant.encoded
    if kernel is not None:
        layer.kernel = CODE
        _code(layer, weights, x, y, depth)
    elif isinstance(encoded, CsrAttr):
        _sparse(layer, encoded, value_type(op.weights), x, y, depth)
    else:
        _dense(layer, weights, value_type(op.weights), x, y, depth)
    _epilogue(layer, op, y, n, depth)
    if rows > 1:
        layer.line("}")


def _short(ctype: str) -> str:
    names = {"float": "f32", "int8_t": "i8", "uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32"}
    return names[ctype]


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


def _sparse(layer: Layer, encoded: CsrAttr, ctype: str, x: str, y: str, depth: int) -> None:
    n = encoded.matrix[0]
    if not encoded.values.data:
        layer.line(f"memset({y}, 0, {n} * sizeof *{y}); /* no weights left */", depth)
        layer.line(f"(void){x};", depth)
        return
    count_type = f"uint{encoded.counts_width.data}_t"
    place_type = "uint8_t" if encoded.delta.data else "uint16_t"
    function = layer.kernels.use(
        "delta_rows" if encoded.delta.data else "index_rows",
        NAME=f"{_short(ctype)}_{_short(count_type)}",
        COUNT=count_type,
        WEIGHT=ctype,
    )
    counts = layer.array("counts", _section(encoded.counts, count_type), count_type)
    places = layer.array("places", _section(encoded.places, place_type), place_type)
    values = layer.array("values", encoded.elements_of_values, ctype)
    layer.line(f"{function}({n}, {x}, {counts}, {places}, {values}, {y});", depth)


def _section(section: BytesAttr, ctype: str) -> Array:
    return np.frombuffer(section.data, ctype.removesuffix("_t"))


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


def _epilogue(layer: Layer, op: LinearOperation, y: str, n: int, depth: int) -> None:
    value = f"{y}[o]"
    if op.weight_scale is not None:
        value += f" * {float_literal(op.weight_scale)}"
    if op.bias is not None:
        value += f" + {layer.read(op.bias, 'bias')}[o]"
    if op.residual is not None:
        r = " + r * " + str(n) if depth else ""
        value += f" + ({layer.read(op.residual, 'residual')}{r})[o]"
    if value == f"{y}[o]" and op.activation is None:
        return
    result = apply(layer.kernels, op.activation, "v") if op.activation is not None else "v"
    layer.loop("o", n, [f"const float v = {value};", f"{y}[o] = {result};"], depth)
