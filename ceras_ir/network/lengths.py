"""
Parse the lengths of an input: the set of shapes for which a program is compiled.

`1x32,1x64` lists shapes, and `1x32..512:32` has a range with a step in one dimension. The *length*
is the extent of the first dimension in which the shapes of the first such input differ. Other
inputs with several shapes have a shape for each length, in the same order.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TypeAlias

from ceras_ir.support.diagnostics import UsageError

Shape: TypeAlias = tuple[int, ...]

MAX_LENGTHS = 64
"""The maximum number of lengths of a program; each is compiled."""

MAX_EXTENT = (1 << 31) - 1

_EXTENT = re.compile(r"([0-9]{1,10})(?:\.\.([0-9]{1,10})(?::([0-9]{1,10}))?)?")


@dataclass(frozen=True)
class Lengths:
    """The lengths of a program, and the shapes of inputs at each length."""

    input: str
    """The input that has the length."""
    dimension: int
    values: tuple[int, ...]
    """Ascending and different."""
    shapes: Mapping[str, tuple[Shape, ...]]
    """For each input with a given shape, the shape at each length."""

    def at(self, index: int) -> dict[str, Shape]:
        """Return the shapes at a length, by input."""
        return {name: shapes[index] for name, shapes in self.shapes.items()}

    @property
    def text(self) -> str:
        """The lengths for messages."""
        return listed(self.values)


def listed(values: Sequence[int]) -> str:
    """Return a text for ascending numbers: all of them, or their range."""
    if len(values) <= 8:
        return ", ".join(map(str, values))
    step = values[1] - values[0]
    if all(b - a == step for a, b in pairwise(values)):
        return f"{values[0]}..{values[-1]}" + (f":{step}" if step > 1 else "")
    return f"{', '.join(map(str, values[:6]))}, ... {values[-1]}"


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """
    Return the shapes that a text specifies. The message of a `ValueError` is the reason why there
    are no shapes.
    """
    found: list[Shape] = []
    for part in text.split(","):
        found += _expanded(part)
        if len(found) > MAX_LENGTHS:
            raise ValueError(f"more than {MAX_LENGTHS} shapes: leave out some, or use a range")
    if len({len(shape) for shape in found}) > 1:
        raise ValueError("the shapes have different numbers of dimensions")
    return tuple(found)


def _expanded(part: str) -> list[Shape]:
    extents: list[list[int]] = []
    for word in part.split("x"):
        if (match := _EXTENT.fullmatch(word)) is None:
            raise ValueError("expected NAME=1x3x224x224, or several such as NAME=1x32..512:32")
        extents.append(_range(*match.groups()))
    ranges = [values for values in extents if len(values) > 1]
    if len(ranges) > 1:
        raise ValueError(
            f"{part} has ranges in {len(ranges)} dimensions: use a range in a single dimension, or "
            "list the shapes with commas"
        )
    count = len(ranges[0]) if ranges else 1
    return [tuple(e[i] if len(e) > 1 else e[0] for e in extents) for i in range(count)]


def _range(first: str, last: str | None, step: str | None) -> list[int]:
    start, end, by = int(first), int(last or first), int(step or 1)
    if max(start, end, by) > MAX_EXTENT:
        raise ValueError(f"{max(start, end, by)} is too large: at most {MAX_EXTENT}")
    if last is None:
        return [start]
    if start < 1 or by < 1:
        raise ValueError(f"{first}..{last} must start at 1 or more, with a step of 1 or more")
    if end <= start:
        raise ValueError(f"{first}..{last} must end above {first}")
    if (end - start) // by >= MAX_LENGTHS:
        count = (end - start) // by + 1
        better = 1 << ((end - 1) // MAX_LENGTHS).bit_length()
        example = f"{better}..{end // better * better}:{better}"
        raise ValueError(
            f"{first}..{last} has {count:,} lengths, and a program at most {MAX_LENGTHS}: use a "
            f"step, such as {example}"
        )
    if (end - start) % by:
        raise ValueError(
            f"{first}..{last}:{step} does not reach {last}: the last length is "
            f"{end - (end - start) % by}"
        )
    return list(range(start, end + 1, by))


def lengths_of(given: Mapping[str, tuple[Shape, ...]]) -> Lengths | None:
    """
    Return the lengths that shapes of inputs specify, or `None` if each has a single shape.
    Contradictory shapes are a `UsageError`.
    """
    varying = {name: shapes for name, shapes in given.items() if len(shapes) > 1}
    if not varying:
        return None
    name, shapes = next(iter(varying.items()))
    for other, more in varying.items():
        if len(more) != len(shapes):
            raise UsageError(
                f"--shape: '{name}' has {len(shapes)} shapes and '{other}' {len(more)}: give both "
                "a shape for each length, or leave out an input that has the same symbol"
            )
    dimension = next(
        (d for d, extents in enumerate(zip(*shapes, strict=True)) if len(set(extents)) > 1), 0
    )
    values = [shape[dimension] for shape in shapes]
    if twice := sorted(v for v in set(values) if values.count(v) > 1):
        raise UsageError(
            f"--shape: '{name}' has two shapes of length {twice[0]}, the extent of dimension "
            f"{dimension}: each length has one shape"
        )
    order = sorted(range(len(values)), key=values.__getitem__)
    largest = [prod(shapes[i]) for i in order]
    if largest != sorted(largest):
        raise UsageError(
            f"--shape: '{name}' has fewer elements at a larger length: the largest length must "
            "have the most elements"
        )
    sorted_shapes = {
        n: tuple(each[i] for i in order) if len(each) > 1 else each * len(order)
        for n, each in given.items()
    }
    return Lengths(name, dimension, tuple(values[i] for i in order), sorted_shapes)
