"""The integers of a quantized network: weights, biases and tables, from float constants."""

from collections.abc import Sequence
from math import ldexp

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    LocationAttr,
    TensorType,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.network.integer import dequantize, quantize
from ceras_ir.network.storage import Storage, limits


def stored_constant(
    values: NDArray[np.generic], storage: Storage, location: LocationAttr, rows: Sequence[int] = ()
) -> graph.ConstantOp:
    """
    Constants as integers, rounded half to even; the least one is left out, [-127, 127], where
    there is no zero point. With `rows`, what to add to the exponent for each index of the first
    dimension.
    """
    exponent, bits, point = storage
    steps = np.exp2(-(np.array(rows or (0,), np.float32) + np.float32(exponent)))
    by_row = steps.reshape(-1, *(1,) * (values.ndim - 1)) if rows else steps.reshape(())
    scaled = np.rint(values.astype(np.float32) * by_row)
    low, high = limits(bits)
    stored = np.clip(scaled + point, low if point else -high, high).astype(f"int{bits}")
    element = storage.element
    if rows:
        scales = [ldexp(1.0, exponent + row) for row in rows]
        element = UniformType(scales, storage=IntegerType(bits), axis=0)
    return graph.ConstantOp.from_array(stored, element, location=location)


def lookup_table(
    function: graph.FunctionAttr,
    source: UniformType,
    target: UniformType,
    entries: int = 256,
    exponents: Sequence[tuple[int, int]] = (),
) -> DenseIntOrFPElementsAttr:
    """
    `quantize(function(dequantize(i)))` for i from -entries/2 to entries/2 - 1: bit for bit what
    the three operations `graph.dequantize`, `graph.unary` and `graph.quantize` would give. With
    `exponents` one row for each pair of what is added to those of argument and result.
    """
    rows = [
        _entries(function, source.rescaled(2.0**before), target.rescaled(2.0**after), entries)
        for before, after in exponents or [(0, 0)]
    ]
    table = np.stack(rows) if exponents else rows[0]
    type = TensorType(target.storage, table.shape)
    return DenseIntOrFPElementsAttr(type, BytesAttr(table.tobytes()))


def _entries(
    function: graph.FunctionAttr, source: UniformType, target: UniformType, entries: int
) -> NDArray[np.generic]:
    stored = np.arange(-entries // 2, entries // 2).astype(np.int32)
    # A function may overflow far outside what the network computes; infinity saturates.
    with np.errstate(all="ignore"):
        values = apply_function(function, dequantize(stored, source))
    return quantize(values.astype(np.float32), target).astype(f"int{target.storage.width.data}")
