"""Print sums, lookups and pooling windows of int8 for cores with Helium."""

from math import prod
from typing import Literal

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_helium import HELIUM
from ceras_ir.backends.c.values import (
    Rescaling,
    half_of,
    quantized,
    value_type,
    zero_point_of,
)
from ceras_ir.dialects.graph import Binary, BinaryOp, Pool, Pool2dOp, shape_of
from ceras_ir.dialects.quant import Rounding

INSTRUCTIONS_PER_BLOCK = 70
"""Instructions for a sum of 16 elements."""

LOOKUP_PER_BLOCK, POOL_OUTPUT = 8, 15
"""Instructions for 16 lookups, and for the conversion of the sum of a window."""


def fits_vectors(op: BinaryOp, rescale: Rescaling) -> bool:
    """
    Return whether Helium computes the operation exactly in 32 bits: a sum or difference of int8
    tensors of equal shape, requantized by a shift.
    """
    requant = op.requant
    assert requant is not None
    return (
        op.function in (Binary.ADD, Binary.SUB)
        and {value_type(v) for v in (op.lhs, op.rhs, op.result)} == {"int8_t"}
        and shape_of(op.lhs) == shape_of(op.rhs) == shape_of(op.result)
        and rescale.type == "int32_t"
        and requant.multiplier.data == 1
        and not requant.is_per_channel
        and requant.mode not in (Rounding.HALF_AWAY, Rounding.DOUBLE_ROUND)
        and all(0 < factor < 1 << 31 for factor in op.factors)
    )


def print_vectors(layer: Layer, op: BinaryOp, pointers: tuple[str, str, str]) -> None:
    """
    Print an operation for which `fits_vectors` holds. `pointers` are the C names of both operands
    and of the result.
    """
    requant = op.requant
    assert requant is not None
    layer.kernel = HELIUM
    a, b, y = pointers
    left, right = op.factors
    right = -right if op.function is Binary.SUB else right
    points = [zero_point_of(quantized(v, "operand")) for v in (op.lhs, op.rhs)]
    constant = -(points[0] * left + points[1] * right)
    shift, zero_point = requant.shift.data, requant.zero_point.data
    low, high = requant.low.data, requant.high.data
    even = requant.mode is Rounding.HALF_EVEN and half_of(requant) > 0
    vectors: list[str] = []
    for i, (part, half) in enumerate(((0, "b"), (0, "t"), (1, "b"), (1, "t"))):
        vectors.append(f"v = vmulq_n_s32(vmovl{half}q_s16(a{part}), {left});")
        vectors.append(f"v = vmlaq_n_s32(v, vmovl{half}q_s16(b{part}), {right});")
        if constant:
            vectors.append(f"v = vaddq_n_s32(v, {constant});")
        if even:
            odd = f"vandq_s32(vshrq_n_s32(v, {shift}), vdupq_n_s32(1))"
            vectors.append(f"v = vaddq_n_s32(vaddq_s32(v, {odd}), {half_of(requant) - 1});")
        if shift:
            rounded = "r" if requant.mode is Rounding.HALF_UP else ""
            vectors.append(f"v = v{rounded}shrq_n_s32(v, {shift});")
        if zero_point:
            vectors.append(f"v = vaddq_n_s32(v, {zero_point});")
        target = ("even", "odd")[i // 2]
        vectors.append(f"{target} = vqmovn{half}q_s32({target}, v);")
    clamp = [f"bytes = vmaxq_s8(bytes, vdupq_n_s8({low}));"] if low > -128 else []
    clamp += [f"bytes = vminq_s8(bytes, vdupq_n_s8({high}));"] if high < 127 else []
    portable = [f"int32_t v = a[i] * {left} + b[i] * {right} + {constant};"]
    if even:
        portable.append(f"v += {half_of(requant) - 1} + (v >> {shift} & 1);")
    elif half := half_of(requant):
        portable.append(f"v += {half};")
    portable.append(f"v = (v >> {shift}) + {zero_point};")
    portable.append(f"y[i] = (int8_t)(v < {low} ? {low} : v > {high} ? {high} : v);")
    numbers = (left, right, constant, shift, zero_point, low, high)
    mode = {Rounding.HALF_UP: "u", Rounding.HALF_EVEN: "e", Rounding.FLOOR: "f"}[requant.mode]
    function = layer.kernels.use(
        "helium_sum",
        NAME="_".join([mode, *map(str, numbers)]).replace("-", "m"),
        VECTORS="\n".join(f"    {line}" for line in vectors),
        CLAMP="".join(f"    {line}\n" for line in clamp),
        PORTABLE="\n".join(f"    {line}" for line in portable),
    )
    layer.line(f"{function}({y}, {a}, {b}, {prod(shape_of(op.result))});")


def lookup_kernel(layer: Layer) -> str:
    """
    Return the name of the C function `(y, x, table, n)` that replaces each of `n` bytes by its
    entry in a table of 256 bytes. The layer is marked as computed with Helium.
    """
    layer.kernel = HELIUM
    return layer.kernels.use("helium_lookup")


WINDOWS = {
    "largest": {
        "OUT": "int8_t",
        "START": "value",
        "LANES": "16",
        "PREDICATE": "vctp8q",
        "VECTOR": "int8x16_t",
        "DUP": "vdupq_n_s8",
        "ADD": "vmaxq_s8",
        "LOAD": "vldrbq_z_s8",
        "STORE": "vstrbq_p_s8",
        "PORTABLE": "tap[i] > y[c + i] ? tap[i] : y[c + i]",
    },
    "sum": {
        "OUT": "int32_t",
        "START": "-count * value",
        "LANES": "4",
        "PREDICATE": "vctp32q",
        "VECTOR": "int32x4_t",
        "DUP": "vdupq_n_s32",
        "ADD": "vaddq_s32",
        "LOAD": "vldrbq_z_s32",
        "STORE": "vstrwq_p_s32",
        "PORTABLE": "y[c + i] + tap[i]",
    },
}
"""Windows of pooling: from the lowest value, or minus the zero point of each element."""


def window_kernel(layer: Layer, kind: Literal["largest", "sum"]) -> str:
    """
    Return the name of the C function `(y, x, window, position, value)` that computes the maximum
    (`largest`) or the sum of a pooling window. Sums start from minus `value` for each element, and
    maxima from `value`.
    """
    layer.kernel = HELIUM
    return layer.kernels.use("helium_window", NAME=kind, WHAT=kind, **WINDOWS[kind])


def pooling_instructions(op: Pool2dOp) -> float:
    """Return the modelled instructions of a pooling layer that Helium computes."""
    taps, channels = prod(op.kernel.get_values()), shape_of(op.input)[3]
    is_maximum = op.function is Pool.MAX
    vectors = -(-channels // int(WINDOWS["largest" if is_maximum else "sum"]["LANES"]))
    outputs = 0 if is_maximum else POOL_OUTPUT * channels
    return prod(shape_of(op.result)[:3]) * (vectors * (5 * taps + 20) + outputs + 60)
