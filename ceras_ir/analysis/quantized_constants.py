"""The integers of a quantized network: weights, biases and tables, from float constants."""

from math import ldexp

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    LocationAttr,
    TensorType,
    i8,
    i32,
)

from ceras_ir.analysis.exponents import HIGH, WEIGHT_LOW
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.interpreters.integer import dequantize, quantize


def int8_type(exponent: int) -> UniformType:
    """int8 in steps of `2**exponent`, no zero point."""
    return UniformType(ldexp(1.0, exponent))


def int8_constant(
    values: NDArray[np.generic], exponent: int, location: LocationAttr
) -> graph.ConstantOp:
    """Constants as integers in [-127, 127], rounded half to even."""
    scaled = np.rint(values.astype(np.float32) * np.float32(ldexp(1.0, -exponent)))
    stored = np.clip(scaled, WEIGHT_LOW, HIGH).astype(np.int8)
    return graph.ConstantOp.from_array(stored, int8_type(exponent), location=location)


def bias_constant(
    values: NDArray[np.generic], exponent: int, location: LocationAttr
) -> graph.ConstantOp | None:
    """
    A bias in 32 bits at the accumulator's exponent, rounded half to even; None where it does
    not fit, because it is never clipped.
    """
    stored = np.rint(values.astype(np.float64) * ldexp(1.0, -exponent))
    if np.abs(stored).max(initial=0) >= 2.0**31:
        return None
    element = UniformType(ldexp(1.0, exponent), storage=i32)
    return graph.ConstantOp.from_array(stored.astype(np.int32), element, location=location)


def lookup_table(
    function: graph.FunctionAttr, source: int, target: int
) -> DenseIntOrFPElementsAttr:
    """
    `quantize(function(dequantize(i)))` for i from -128 to 127: bit for bit what the three
    operations `graph.dequantize`, `graph.unary` and `graph.quantize` would give.
    """
    stored = np.arange(-128, 128).astype(np.int8)
    # A function may overflow far outside what the network computes; infinity saturates.
    with np.errstate(all="ignore"):
        values = apply_function(function, dequantize(stored, int8_type(source)))
    table = quantize(values.astype(np.float32), int8_type(target)).astype(np.int8)
    return DenseIntOrFPElementsAttr(TensorType(i8, [256]), BytesAttr(table.tobytes()))
