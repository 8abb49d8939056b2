"""The range of all the arrays that one value takes."""

from math import inf

from ceras_ir.transforms.quantization.analysis.seen import Seen


class Extremes:
    """The least and the greatest element seen; what observers are made of."""

    def __init__(self) -> None:
        self.low, self.high = inf, -inf
        self.last = 0.0, 0.0
        """Those of the array that was seen last."""

    def observe(self, seen: Seen) -> None:
        self.last = seen.ends
        self.low, self.high = min(self.low, self.last[0]), max(self.high, self.last[1])

    def merge_extremes(self, following: "Extremes") -> None:
        """Take in the range of the arrays behind these."""
        self.low, self.high = min(self.low, following.low), max(self.high, following.high)
        self.last = following.last

    @property
    def magnitude(self) -> float:
        return max(-self.low, self.high)
