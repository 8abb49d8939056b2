"""Which weights meet which elements in a convolution over an input with zeros between elements."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Phases of one axis that one convolution computes, as channels one behind the other."""

    taps: Sequence[Sequence[int]]
    """Of each phase, which weight each tap is; the axis's `kernel` stands for one of zero."""
    padding: tuple[int, int]


@dataclass(frozen=True)
class Axis:
    """
    One axis: `stride` is how far elements are apart, `before` what the border adds before the
    first.

    Output o meets element i by weight `stride * i + before - o`. The outputs of a phase,
    `stride * q + phase`, meet every stride-th weight, and elements side by side from q on.
    """

    size: int
    stride: int
    before: int
    kernel: int
    outputs: int

    def apart(self) -> list[Part]:
        """A convolution for each phase, which computes ceil(outputs / stride) positions."""
        positions = -(-self.outputs // self.stride)
        parts: list[Part] = []
        for phase in range(self.stride):
            before, first = divmod(self.before - phase, self.stride)
            taps = list(range(first, self.kernel, self.stride))
            # A weight of zero meets what no weight of the phase does.
            taps = [self.kernel] * -before + taps if taps else [self.kernel]
            before = max(before, 0)
            after = positions - 1 + len(taps) - before - self.size
            taps += [self.kernel] * -after
            parts.append(Part([taps], (before, max(after, 0))))
        return parts

    def together(self) -> Part:
        """
        One convolution for all phases, whose outputs begin `start` before the axis's. Phases with
        fewer weights than others get zeros.
        """
        count = -(-self.kernel // self.stride)
        last = -((self.before - self.outputs + 1) // self.stride)
        phases = [
            [min(first + i * self.stride, self.kernel) for i in range(count)]
            for first in reversed(range(self.stride))
        ]
        return Part(phases, (self.before // self.stride, max(last + count - self.size, 0)))

    @property
    def start(self) -> int:
        """The first output among those of all phases together."""
        return self.stride - 1 - self.before % self.stride
