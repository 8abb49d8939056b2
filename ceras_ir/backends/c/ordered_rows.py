"""
Print float matrix products with ordered sums, and choose the encodings of their weights in flash.

The sums are ordered: products are added in the order of the weights in memory, and each step is
rounded to float32. These kernels are for machines without vectors and for encoded weights.
Encodings are formats of the dialect `sparse` with positions in complete bytes, and code: each
nonzero weight is a literal of straight-line code. The attribute `c.kernel` selects code, for
weights in any encoding.
"""

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BytesAttr, f32, i8
from xdsl.utils.str_enum import StrEnum

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.values import Refused, apply, constant_weights, value_type
from ceras_ir.dialects.graph import ConstantOp, LinearOperation, MatmulOp, shape_of
from ceras_ir.dialects.sparse import CsrAttr
from ceras_ir.interpreters.float_text import float_literal

KERNEL_ATTRIBUTE, CODE = "c.kernel", "code"
"""The discardable attribute of an operation, and its only value."""


class Encoding(StrEnum):
    """The encoding of the weights of a layer in flash."""

    DENSE = "dense"
    CSR_DELTA8 = "csr_delta8"
    """
    Nonzero weights by rows, each with the distance in columns from the previous weight in 8 bits.
    """
    CSR_INDEX16 = "csr_index16"
    """
    Nonzero weights by rows, each with the index of the column in 16 bits, as in the paper S4 (see
    `docs/papers.md`).
    """
    CODE = "code"


LOSSLESS = (Encoding.DENSE, Encoding.CSR_DELTA8, Encoding.CSR_INDEX16)

CODE_BYTES_PER_WEIGHT = 12
"""
The bytes of flash per weight as code: three loads or sums of 4 bytes, minus the share of common
literals.
"""


def encoded(encoding: Encoding, weights: Array) -> CsrAttr | None:
    """
    Return `weights` [N, K] without zeros, in compressed rows (CSR), for a sparse encoding; `None`
    for dense weights.
    """
    if encoding is Encoding.DENSE:
        return None
    element = i8 if weights.dtype == np.int8 else f32
    return CsrAttr.of(weights, element, delta=encoding is not Encoding.CSR_INDEX16)


def stored_weights(encoding: Encoding, weights: Array) -> int:
    """
    Return the number of weights that a product multiplies. A sparse encoding may also store some
    zeros.
    """
    found = encoded(encoding, weights)
    return weights.size if found is None else int(found.stored.sum())


def weight_bytes(encoding: Encoding, weights: Array) -> int:
    """
    Return the bytes of flash for weights [N, K] in an encoding, without padding for alignment. Code
    is estimated.
    """
    if encoding is Encoding.CODE:
        return CODE_BYTES_PER_WEIGHT * int(np.count_nonzero(weights)) + 8 * weights.shape[0]
    found = encoded(encoding, weights)
    return weights.nbytes if found is None else found.nbytes


def quantized_like_s4(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], float]:
    """
    Return int8 weights and their scale S, rounded as in the paper S4 (see `docs/papers.md`).

    `stored = clip(round(w * (127 / max|w|)), -128, 127)` with ties to even, and `w` is about
    `stored * S` with `S = max|w| / 127` rounded to float32. If all weights are 0, S is 1.
    """
    largest = float(np.abs(weights).max(initial=0.0))
    if largest == 0.0:
        return np.zeros(weights.shape, np.int8), 1.0
    scaled = np.rint(weights.astype(np.float64) * (127.0 / largest))
    return np.clip(scaled, -128, 127).astype(np.int8), float(np.float32(largest / 127.0))


# The coefficients were measured on generated code (`benchmarks/arduino_mlp.py` prints both).


INSTRUCTIONS_PER_WEIGHT = {Encoding.DENSE: 2.8, Encoding.CODE: 3.1}
INSTRUCTIONS_PER_ROW = {Encoding.DENSE: 10.0, Encoding.CODE: 11.0}
INSTRUCTIONS_PER_SPARSE_WEIGHT, INSTRUCTIONS_PER_SPARSE_ROW = 6.4, 25.0
INSTRUCTIONS_PER_CONVERSION = 2.2
"""The number of instructions of a Cortex-M4 that convert an int8 weight to float."""


def instructions(encoding: Encoding, weights: Array) -> float:
    """
    Return the modelled instructions of a Cortex-M4 for the product of encoded weights [N, K] with a
    vector.
    """
    count = stored_weights(encoding, weights)
    each = INSTRUCTIONS_PER_WEIGHT.get(encoding, INSTRUCTIONS_PER_SPARSE_WEIGHT)
    if weights.dtype == np.int8 and encoding is not Encoding.CODE:
        each += INSTRUCTIONS_PER_CONVERSION
    per_row = INSTRUCTIONS_PER_ROW.get(encoding, INSTRUCTIONS_PER_SPARSE_ROW)
    return count * each + per_row * weights.shape[0]


MAX_LITERALS = 4096
"""The maximum number of weights as code, which compiles slowly and is large."""


def uses_ordered_rows(layer: Layer, op: LinearOperation) -> bool:
    """
    Return whether `ordered_rows` prints the layer: a float matrix product with ordered sums and
    constant weights that are encoded or int8, or any such product if there are no vectors.
    """
    if not isinstance(op, MatmulOp) or op.ordered is None:
        return False
    if not isinstance(op.weights.owner, ConstantOp):
        return False
    special = isinstance(op.encoded_weights, CsrAttr) or op.weight_scale is not None
    return special or not layer.options.vectors


def ordered_rows(layer: Layer, op: LinearOperation) -> None:
    """
    Print a float matrix product that adds products in the order of the weights, a row of the input
    at a time.
    """
    constant = constant_weights(op)
    weights = constant.array()
    (rows, k), n = shape_of(op.input), weights.shape[0]
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    depth = 0
    if rows > 1:
        layer.line(f"for (int32_t r = 0; r < {rows}; ++r, {x} += {k}, {y} += {n}) {{")
        depth = 1
    kernel, encoded = op.attributes.get(KERNEL_ATTRIBUTE), constant.encoded
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
    """
    Return the weights [N, K] as a vector in the order in which the dense kernel loads them: groups
    of four rows, interleaved by columns, then the remaining rows.
    """
    grouped, k = len(weights) // 4 * 4, weights.shape[1]
    groups = weights[:grouped].reshape(-1, 4, k).transpose(0, 2, 1)
    return np.concatenate([groups.reshape(-1), weights[grouped:].reshape(-1)])


def _dense(layer: Layer, weights: Array, ctype: str, x: str, y: str, depth: int) -> None:
    def packed() -> Array:
        return interleaved(weights)

    function = layer.kernels.use("dense_rows", NAME=_short(ctype), WEIGHT=ctype)
    w = layer.constant("weights", ctype, weights.size, weights.itemsize, packed)
    layer.line(f"{function}({weights.shape[0]}, {weights.shape[1]}, {x}, {w}, {y});", depth)


def _sparse(layer: Layer, encoded: CsrAttr, ctype: str, x: str, y: str, depth: int) -> None:
    n = encoded.matrix[0]
    if not encoded.values.data:
        layer.line(f"(void)memset({y}, 0, {n}U * sizeof *{y}); /* no weights left */", depth)
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
    if np.count_nonzero(weights) > MAX_LITERALS:
        raise Refused(
            f"encoding 'code' is for tiny layers: at most {MAX_LITERALS} weights that are not "
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
    result = apply(layer.kernels, op.activation, "v")
    layer.loop("o", n, [f"const float v = {value};", f"{y}[o] = {result};"], depth)
