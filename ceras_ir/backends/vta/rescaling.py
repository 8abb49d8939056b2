"""
What of a rescaling VTA's shifter can do: sums go right by a number of bits, one for all channels
or one for each, rounding half up.

Zero points of operands and result are constants of a sum, which is what its bias is for:
`(sum >> s) + z` is `(sum + (z << s)) >> s`, floored, without exception.
"""

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.hardware import SHR_RANGE
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding


def why_not_int8(**values: SSAValue) -> str | None:
    """Why one of the named values is not what VTA computes with, or None."""
    for name, value in values.items():
        element = graph.quantized_element(value)
        if element is not None and (width := element.storage.width.data) > 8:
            return (
                f"VTA stores 8 bits, but the {name} has {width}, for accuracy or as the model "
                "says: it runs on the CPU"
            )
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
    """Why sums cannot be rescaled by shifts that round half up or floor, or None."""
    for multiplier in requant.multipliers:
        if multiplier & (multiplier - 1):
            return (
                f"VTA rescales by shifts only, got a multiplier of {multiplier}: "
                "quantize with power-of-two scales (--snap-scales)"
            )
    least, most = min(requant.net_shifts), max(requant.net_shifts)
    for amount in (least, most):
        if not -31 <= amount <= 31:
            return f"VTA shifts 32-bit sums by at most 31, got {amount}"
    if most - least > SHR_RANGE[1]:
        return (
            f"VTA shifts channels of a layer by at most {SHR_RANGE[1]} bits more than others, got "
            f"{least} to {most}: quantize with one scale for all channels"
        )
    if most > 0 and requant.mode not in (Rounding.HALF_UP, Rounding.FLOOR):
        return f"VTA rounds half up or floors, got {requant.mode.value}: quantize with half_up"
    if least < 0 and requant.zero_point.data % (1 << -least):
        return (
            f"VTA adds before it shifts left by {-least}, of which the zero point "
            f"{requant.zero_point.data} is no multiple: run it on the CPU"
        )
    return None


def common_shift(requant: RequantAttr) -> int:
    """
    By how many bits all sums go right, by immediates: all there is where channels go alike, else
    so many, nearest to zero, that `further_shifts` are in reach.
    """
    least, most = min(requant.net_shifts), max(requant.net_shifts)
    return least if least == most else min(least, max(0, most - SHR_RANGE[1]))


def further_shifts(requant: RequantAttr) -> tuple[int, ...]:
    """
    By how many bits more each channel goes right, none where channels go alike. A vector of
    amounts is read alike by all of VTA's implementations from 0 to 15; floors compose.
    """
    return tuple(shift - common_shift(requant) for shift in requant.channel_shifts)


def rescaling_constants(requant: RequantAttr) -> list[int]:
    """
    What must be added before a floor shift, for each multiplier, so that it rounds as `requant`
    says and its zero point is in the result.
    """
    point, half = requant.zero_point.data, int(requant.mode is Rounding.HALF_UP)
    return [(point << s) + (half << s >> 1) if s > 0 else point >> -s for s in requant.net_shifts]
