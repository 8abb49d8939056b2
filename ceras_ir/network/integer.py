"""Integer arithmetic of quantized operations: the documented rounding, shift and clamp."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntAttr

from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType

Integers = NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)


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

    # One multiplier, or one for each output channel, which is the last dimension.
    multipliers = np.array(requant.multipliers, np.int64)
    factor = multipliers if multipliers.size > 1 else multipliers[0]  # A scalar keeps its shape.
    product = accumulator.astype(np.int64) * factor
    rounded = round_shift(product, requant.shift.data, requant.mode) + requant.zero_point.data
    return np.clip(rounded, requant.low.data, requant.high.data).astype(numpy_dtype(element))


def _along_axis(values: NDArray[Number], element: UniformType, rank: int) -> NDArray[Number]:
    """One value, or one per channel of the axis of `element`, so that it broadcasts."""
    if not isinstance(element.axis, IntAttr):
        return values.reshape(())
    axis = element.axis.data
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def zero_points(element: UniformType, rank: int) -> Integers:
    """The zero points of `element`, for tensors of `rank`."""
    points = np.array([point.data for point in element.zero_points], np.int64)
    return _along_axis(points, element, rank)


def scales(element: UniformType, rank: int) -> NDArray[np.float32]:
    """The scales of `element`, for tensors of `rank`."""
    values = np.array([scale.data for scale in element.scales]).astype(np.float32)
    return _along_axis(values, element, rank)


def quantize(x: NDArray[np.float32], element: UniformType) -> NDArray[np.generic]:
    """`graph.quantize`: division in float32, ties to even; NaN gives the zero point."""
    from ceras_ir.dialects.graph.constant import numpy_dtype

    scaled = np.rint(x / scales(element, x.ndim))
    bounded = np.clip(np.nan_to_num(scaled, nan=0.0), -(2.0**31), 2.0**31 - 1)
    shifted = bounded.astype(np.int64) + zero_points(element, x.ndim)
    return np.clip(shifted, element.low, element.high).astype(numpy_dtype(element))


def dequantize(q: NDArray[np.generic], element: UniformType) -> NDArray[np.float32]:
    """`graph.dequantize`: exact integers times the scale, in float32."""
    centred = (q.astype(np.int64) - zero_points(element, q.ndim)).astype(np.float32)
    return centred * scales(element, q.ndim)
