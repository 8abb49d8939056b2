"""
How many taps of a convolution's window become channels of one position.

All of them make a matrix of windows (im2col), as many as the stride is space to depth. In between,
a convolution by fewer taps is left, on more channels.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class WindowAxis:
    """One direction: parts of `taps` taps, `step` taps apart, of which the first reader counts."""

    kernel: int
    stride: int
    taps: int
    step: int

    @property
    def parts(self) -> int:
        """The extent of the convolution that is left, over parts as channels."""
        return 1 + -(-(self.kernel - self.taps) // self.step)

    @property
    def dilation(self) -> int:
        """Positions between the parts that one result reads."""
        return self.step // self.stride if self.parts > 1 else 1

    def positions(self, results: int) -> int:
        """Parts along the axis, of which one begins at every stride."""
        return results + (self.parts - 1) * self.dilation

    def tap(self, part: int, place: int) -> int | None:
        """Which tap a part has at a place; None where that is past the end, or in another part."""
        if part and place < self.taps - self.step:
            return None
        tap = part * self.step + place
        return tap if tap < self.kernel else None


@dataclass(frozen=True)
class Windows:
    """Both directions."""

    down: WindowAxis
    across: WindowAxis

    @classmethod
    def whole(cls, kernel: tuple[int, int], strides: tuple[int, int]) -> "Windows":
        """All taps of a window, side by side."""
        down, across = (WindowAxis(k, s, k, s) for k, s in zip(kernel, strides, strict=True))
        return cls(down, across)

    @classmethod
    def of(cls, kernel: tuple[int, int], strides: tuple[int, int]) -> "Iterator[Windows]":
        """All ways to take a window apart, but for single taps."""
        axes = [list(_axes(k, s)) for k, s in zip(kernel, strides, strict=True)]
        for down, across in product(*axes):
            if down.taps * across.taps > 1:
                yield cls(down, across)

    @property
    def size(self) -> tuple[int, int]:
        """Taps of a part."""
        return self.down.taps, self.across.taps

    @property
    def kernel(self) -> tuple[int, int]:
        """Of the convolution that is left."""
        return self.down.parts, self.across.parts

    @property
    def dilations(self) -> tuple[int, int]:
        """Of the convolution that is left."""
        return self.down.dilation, self.across.dilation

    def plane(self, results: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of parts."""
        return self.down.positions(results[0]), self.across.positions(results[1])


def _axes(kernel: int, stride: int) -> Iterator[WindowAxis]:
    for taps in range(stride, kernel):
        yield WindowAxis(kernel, stride, taps, taps // stride * stride)
    yield WindowAxis(kernel, stride, kernel, stride)
