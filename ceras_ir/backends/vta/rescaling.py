"""What of a rescaling VTA's shifter can do: sums go right by a number of bits, rounding half up."""

from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding


def why_not_int8(**values: SSAValue) -> str | None:
    """Why one of the named values is not what VTA computes with, or None."""
    for name, value in values.items():
        element = graph.quantized_element(value)
        if element is None or element.storage.width.data != 8 or not element.is_signed:
            return f"VTA needs int8, but the {name} is {graph.element_of(value)}: quantize to i8"
        if any(point.data for point in element.zero_points):
            return f"VTA has no zero points, but the {name} has one: quantize symmetrically"
    return None


def why_not_shift(requant: RequantAttr) -> str | None:
    """Why sums cannot be rescaled by a shift that rounds half up or floors, or None."""
    multiplier = requant.multiplier.data
    if requant.is_per_channel:
        return (
            "VTA rescales all channels by one shift, got a multiplier per channel: "
            "run --snap-scales"
        )
    if multiplier & (multiplier - 1) or requant.zero_point.data:
        return (
            f"VTA rescales by shifts only, got a multiplier of {multiplier}: "
            "quantize with power-of-two scales (--snap-scales)"
        )
    amount = net_shift(requant)
    if not -31 <= amount <= 31:
        return f"VTA shifts 32-bit sums by at most 31, got {amount}"
    if amount > 0 and requant.mode not in (Rounding.HALF_UP, Rounding.FLOOR):
        return f"VTA rounds half up or floors, got {requant.mode.value}: quantize with half_up"
    return None


def net_shift(requant: RequantAttr) -> int:
    """By how many bits the sum goes right, for a multiplier that is a power of two."""
    return requant.shift.data - (requant.multiplier.data.bit_length() - 1)


def rounding_constant(requant: RequantAttr) -> int:
    """What must be added before a floor shift, so that it rounds as `requant` says."""
    shift = net_shift(requant)
    return 1 << (shift - 1) if shift > 0 and requant.mode is Rounding.HALF_UP else 0
