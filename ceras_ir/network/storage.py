"""How a value of a float network will be stored: in what steps, bits, and from what zero."""

from math import ceil, ldexp
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerType

from ceras_ir.dialects.quant import UniformType
from ceras_ir.network.precision import NARROW, limits

FAR = 64
"""A zero point from which int8 holds at least half as much again on one side as without."""


class Storage(NamedTuple):
    """`real = 2**exponent * (stored - zero_point)`, stored in so many signed bits."""

    exponent: int
    bits: int = NARROW
    zero_point: int = 0

    @property
    def element(self) -> UniformType:
        """The type of the stored numbers."""
        return UniformType(
            ldexp(1.0, self.exponent), self.zero_point, storage=IntegerType(self.bits)
        )

    @property
    def symmetric_exponent(self) -> int:
        """
        The exponent that holds as much without zero point. Where that is far off, int8 reaches
        half as far from zero without it, so that steps are twice as long; see `choose-zero-points`.
        """
        return self.exponent + (abs(self.zero_point) >= FAR)


def zero_point_of(low: float, exponent: int) -> int:
    """The zero point at which the least number of int8 stands for `low`, or just below it."""
    return limits(NARROW)[0] + ceil(ldexp(-low, -exponent))


def common_storage(storages: list[Storage], bits: int) -> Storage:
    """
    What holds all that any of `storages` does: the coarsest steps, and a zero point where all
    have one.
    """
    if bits != NARROW or any(s.zero_point == 0 for s in storages):
        return Storage(max(s.symmetric_exponent for s in storages), bits)
    exponent = max(s.exponent for s in storages)
    lowest = min(ldexp(s.element.low - s.zero_point, s.exponent) for s in storages)
    return Storage(exponent, bits, zero_point_of(lowest, exponent))
