"""Numbers along the axes of pictures."""

from math import floor, log10


def round_numbers(end: int, most: int = 12) -> range:
    """Round numbers from 0 to `end`, at most `most` steps of them."""
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    return range(0, end + 1, next(step for step in steps if end <= most * step))


def decades(low: float, high: float) -> list[int]:
    """Powers of ten around positive numbers, as exponents."""
    first, last = floor(log10(low)), floor(log10(high))
    return list(range(first, last + 2))
