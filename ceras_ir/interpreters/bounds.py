"""What text may say and no verifier can see: an index that leaves its buffer when it is run."""

from collections.abc import Iterable

from xdsl.dialects.builtin import IntegerAttr


class OutOfRangeError(Exception):
    """An operation reaches beyond what it was given; the interpreter says which operation."""


def check(what: str, low: int, high: int, extent: int) -> None:
    """Refuse positions from `low` to `high` that are not all in `[0, extent)`."""
    if low < 0 or high >= extent:
        position = low if low < 0 else high
        raise OutOfRangeError(f"{what} {position} is out of range, expected [0, {extent})")


def check_indices(indices: Iterable[int], extents: Iterable[int]) -> None:
    """Refuse an index that its dimension does not have."""
    for index, extent in zip(indices, extents, strict=False):
        check("index", index, index, extent)


def index_values(operands: Iterable[int | IntegerAttr]) -> tuple[int, ...]:
    """The values of index operands: xDSL computes integers up to 0.74, and attributes from 0.75."""
    return tuple(v.value.data if isinstance(v, IntegerAttr) else v for v in operands)
