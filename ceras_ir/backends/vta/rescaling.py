"""
What of a rescaling VTA's shifter can do: sums go right by a number of bits, rounding half up.

Zero points of operands and result are constants of a sum, which is what its bias is for:
`(sum >> s) + z` is `(sum + (z << s)) >> s`, floored, without exception.
"""

from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding


def why_not_int8(**values: SSAValue) -> str | None:
    """Why one of the named values is not what VTA computes with, or None."""
    for name, value in values.items():
        element = graph.quantized_element(value)
        if element is None or element.storage.width.data != 8 or not element.is_signed:
            return f"VTA needs int8, but the {name} is {graph.element_of(value)}: quantize to i8"
        if len({point.data for point in element.zero_points}) > 1:
            return (
                f"VTA folds one zero point, but the {name} has one per channel: quantize with one"
            )
    return None


def zero_point(value: SSAValue) -> int:
    """The stored number that stands for zero in what `why_not_int8` has admitted."""
    element = graph.quantized_element(value)
    assert element is not None
    return element.zero_points.data[0].data


def why_not_shift(requant: RequantAttr) -> str | None:
    """Why sums cannot be rescaled by a shift that rounds half up or floors, or None."""
    multiplier = requant.multiplier.data
    if requant.is_per_channel:
        return (
            "VTA rescales all channels by one shift, got a multiplier per channel: "
            "run --snap-scales"
        )
    if multiplier & (multiplier - 1):
        return (
            f"VTA rescales by shifts only, got a multiplier of {multiplier}: "
            "quantize with power-of-two scales (--snap-scales)"
        )
    amount = net_shift(requant)
    if not -31 <= amount <= 31:
        return f"VTA shifts 32-bit sums by at most 31, got {amount}"
    if amount > 0 and requant.mode not in (Rounding.HALF_UP, Rounding.FLOOR):
        return f"VTA rounds half up or floors, got {requant.mode.value}: quantize with half_up"
    if amount < 0 and requant.zero_point.data % (1 << -amount):
        return (
            f"VTA adds before it shifts left by {-amount}, of which the zero point "
            f"{requant.zero_point.data} is no multiple: run it on the CPU"
        )
    return None


def net_shift(requant: RequantAttr) -> int:
    """By how many bits the sum goes right, for a multiplier that is a power of two."""
    return min(requant.net_shifts)


def rescaling_constant(requant: RequantAttr) -> int:
    """
    What must be added before a floor shift, so that it rounds as `requant` says and its zero
    point is in the result.
    """
    shift, point = net_shift(requant), requant.zero_point.data
    if shift <= 0:
        return point >> -shift
    half = 1 << (shift - 1) if requant.mode is Rounding.HALF_UP else 0
    return half + (point << shift)
