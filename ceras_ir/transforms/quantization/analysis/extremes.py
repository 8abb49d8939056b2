"""The range of all the arrays that one value takes."""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from ceras_ir.network.exponents import fitting_exponent
from ceras_ir.transforms.quantization.analysis.distribution import Function, identity
from ceras_ir.transforms.quantization.analysis.seen import Seen


class Choice(NamedTuple):
    """How to store a value."""

    exponent: int
    """The exponent, if zero is stored as zero."""
    affine: tuple[int, int] | None = None
    """Exponent and zero point, where a zero point is worth it."""


class Extremes:
    """The observer that clips nothing: the least and the greatest element seen."""

    def __init__(self) -> None:
        self.low, self.high = inf, -inf
        self.last = 0.0, 0.0
        """Those of the array that was seen last."""
        self.functions: Sequence[Function] = (identity,)
        """What reads each kind of channels."""

    def exponent(self) -> int:
        """The exponent at which nothing that was seen is clipped."""
        return fitting_exponent(self.magnitude)

    def choice(self, *, clips: bool = True) -> Choice:
        """How to store the value; of extremes the range says which zero point would do."""
        return Choice(self.exponent())

    def observe(self, seen: Seen) -> None:
        """Take one array into account."""
        self.last = seen.ends
        self.low, self.high = min(self.low, self.last[0]), max(self.high, self.last[1])

    def merge(self, following: "Extremes") -> None:
        """Take in what another of the same kind saw of the arrays behind these."""
        self.low, self.high = min(self.low, following.low), max(self.high, following.high)
        self.last = following.last

    @property
    def magnitude(self) -> float:
        return max(-self.low, self.high)
