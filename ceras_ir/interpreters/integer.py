"""Integer arithmetic of quantized operations: the documented rounding, shift and clamp."""

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType

Integers = NDArray[np.int64]


def round_shift(value: Integers, shift: int, mode: Rounding) -> Integers:
    """`value / 2**shift`, rounded as `mode` says."""
    if shift == 0:
        return value
    half = np.int64(1) << np.int64(shift - 1)
    floor = value >> shift
    match mode:
        case Rounding.FLOOR:
            return floor
        case Rounding.HALF_UP:
            return (value + half) >> shift
        case Rounding.HALF_AWAY:
            return np.where(value >= 0, (value + half) >> shift, -((half - value) >> shift))
        case Rounding.HALF_EVEN:
            rest = value - (floor << shift)
            up = (rest > half) | ((rest == half) & ((floor & 1) == 1))
            return floor + up


def requantize(
    accumulator: NDArray[np.generic], requant: RequantAttr, element: UniformType
) -> NDArray[np.generic]:
    """An integer accumulator as the stored numbers of `element`, as `#graph.requant` says."""
    from ceras_ir.dialects.graph.constant import numpy_dtype

    product = accumulator.astype(np.int64) * requant.multiplier.data
    rounded = round_shift(product, requant.shift.data, requant.mode) + requant.zero_point.data
    return np.clip(rounded, requant.low.data, requant.high.data).astype(numpy_dtype(element))


def quantize(x: NDArray[np.float32], element: UniformType) -> NDArray[np.generic]:
    """`graph.quantize`: division in float32, ties to even; NaN gives the zero point."""
    from ceras_ir.dialects.graph.constant import numpy_dtype

    scaled = np.rint(x / np.float32(element.scale))
    bounded = np.clip(np.nan_to_num(scaled, nan=0.0), -(2.0**31), 2.0**31 - 1)
    shifted = bounded.astype(np.int64) + element.zero_point
    return np.clip(shifted, element.low, element.high).astype(numpy_dtype(element))


def dequantize(q: NDArray[np.generic], element: UniformType) -> NDArray[np.float32]:
    """`graph.dequantize`: exact integers times the scale, in float32."""
    return (q.astype(np.int32) - element.zero_point).astype(np.float32) * np.float32(element.scale)
