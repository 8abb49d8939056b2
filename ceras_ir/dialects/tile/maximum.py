"""A maximum over windows of results that a convolution takes while its sums are on chip."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class WindowMaximum:
    """
    Windows of `kernel` elements, `strides` apart, that begin `before` elements ahead of theirs.

    `fits` holds where windows neither reach past the next one's first element nor past the end, so
    that maxima can be taken in place.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    before: tuple[int, int]

    @classmethod
    def of(cls, values: Sequence[int]) -> "WindowMaximum":
        kh, kw, sh, sw, top, left = values
        return cls((kh, kw), (sh, sw), (top, left))

    @property
    def values(self) -> tuple[int, ...]:
        """As `of` takes them."""
        return (*self.kernel, *self.strides, *self.before)

    @property
    def merged(self) -> int:
        """Elements for each maximum."""
        return self.strides[0] * self.strides[1]

    def results(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of maxima."""
        return rows // self.strides[0], columns // self.strides[1]

    def offsets(self, axis: int) -> list[int]:
        """Of the other elements of a window, from the one at the stride's multiple on."""
        kernel, before = self.kernel[axis], self.before[axis]
        return [offset for offset in range(-before, kernel - before) if offset]

    def fits(self, rows: int, columns: int) -> bool:
        """Whether the maximum of `rows` x `columns` elements can be taken in place."""
        return all(
            stride > 1 and 0 <= before < stride and before < kernel <= before + stride
            for kernel, stride, before in zip(self.kernel, self.strides, self.before, strict=True)
        ) and not (rows % self.strides[0] or columns % self.strides[1])
