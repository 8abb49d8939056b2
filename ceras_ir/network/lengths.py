"""
Parse shapes: the lengths of an input, for which a program is compiled, and the maximum of a value
inside the network.

`1x32,1x64` lists shapes, and `1x32..512:32` has a range in one dimension, with a step that is 1 by
default. A range from 0, as in `3x0..480x0..640`, is a single extent that data decide. The *length*
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

MAX_PROPOSED_EXTENT = 1 << 14
"""The longest input for which messages propose a range. Programs for longer inputs rarely fit."""


def parse_shape(name: str, given: str | Sequence[int]) -> Shape:
    """
    Return the single shape of the value `name`: a sequence, or a text as in `--shape`. Raise a
    `UsageError` for another text.
    """
    if not isinstance(given, str):
        return tuple(given)
    try:
        first, *others = parse_shapes(given)
    except ValueError as error:
        raise UsageError(f"shapes of '{name}': {error}") from None
    if others:
        raise UsageError(f"shapes of '{name}': several lengths; use load_lengths")
    return first


_EXTENT = re.compile(r"([0-9]{1,10})(?:\.\.([0-9]{1,10})(?::([0-9]{1,10}))?)?")


class UpTo(int):
    """
    An extent that data decide at run time, from 0 to this number. The text is `0..N`, as in
    `--shape`, so that texts of shapes differ from those of static shapes.
    """

    def __repr__(self) -> str:
        return f"0..{int(self)}"

    __str__ = __repr__

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)


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
    def largest(self) -> str:
        """The shape at the largest length as the value of `--shape`: `x=1x64x16`."""
        return f"{self.input}={'x'.join(map(str, self.at(-1)[self.input]))}"

    @property
    def text(self) -> str:
        """The lengths for messages."""
        return listed(self.values)


def listed(values: Sequence[int]) -> str:
    """Return a text for ascending lengths: all of them, or their range and number."""
    if len(values) <= 8:
        return ", ".join(map(str, values))
    step, count = values[1] - values[0], f"({len(values)} lengths)"
    if all(b - a == step for a, b in pairwise(values)):
        return f"{values[0]}..{values[-1]}" + (f":{step} " if step > 1 else " ") + count
    return f"{', '.join(map(str, values[:6]))}, ... {values[-1]} {count}"


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
            raise ValueError(
                "expected NAME=1x3x224x224, or several shapes such as NAME=1x16..64:16x3 (from 16 "
                "to 64 in steps of 16), or NAME=1x3x0..480x0..640 for the maximum of a value "
                "inside the network"
            )
        extents.append(_range(*match.groups()))
    ranges = [values for values in extents if len(values) > 1]
    if ranges and any(isinstance(e, UpTo) for (e, *_) in extents):
        raise ValueError(
            f"{part} mixes the maximum of a value inside the network with several lengths: write "
            f"0..{ranges[0][-1]}, or a number"
        )
    if len(ranges) > 1:
        raise ValueError(
            f"{part} has ranges in {len(ranges)} dimensions: use a range in a single dimension, or "
            "list the shapes with commas; for the maximum of a value inside the network, ranges "
            "start at 0"
        )
    count = len(ranges[0]) if ranges else 1
    return [tuple(e[i] if len(e) > 1 else e[0] for e in extents) for i in range(count)]


def _range(first: str, last: str | None, step: str | None) -> list[int]:
    """Return the extents of a range; `0..N`, which data decide, is a single extent."""
    start, end, by = int(first), int(last or first), int(step or 1)
    if max(start, end, by) > MAX_EXTENT:
        raise ValueError(f"{max(start, end, by)} is too large: at most {MAX_EXTENT}")
    if last is None:
        return [start]
    if start == 0 and end < 1:
        raise ValueError(f"0..{last} is no maximum: 0..N needs N of 1 or more")
    if start == 0 and step is not None:
        raise ValueError(f"0..{last}:{step}: a maximum takes no step; write 0..{last}")
    if start == 0:
        return [UpTo(end)]
    if start < 1 or by < 1:
        raise ValueError(f"{first}..{last} must start at 1 or more, with a step of 1 or more")
    if end <= start:
        raise ValueError(f"{first}..{last} must end above {first}")
    if (end - start) // by >= MAX_LENGTHS:
        count = (end - start) // by + 1
        raise ValueError(
            f"{first}..{last} has {count:,} lengths, and a program at most {MAX_LENGTHS}: "
            f"{_smaller_range(start, end)}"
        )
    if (end - start) % by:
        raise ValueError(
            f"{first}..{last}:{step} does not reach {last}: the last length is "
            f"{end - (end - start) % by}"
        )
    return list(range(start, end + 1, by))


def _smaller_range(start: int, end: int) -> str:
    """
    Return the proposal of a range of the largest extents from `start` to `end` with the smallest
    accepted step that is a power of two. No range is proposed above `MAX_PROPOSED_EXTENT`.
    """
    if end > MAX_PROPOSED_EXTENT:
        return "give a smaller last length and a larger step"
    by = 1
    while (end - start) // by >= MAX_LENGTHS:
        by *= 2
    return f"use a step, such as {start + (end - start) % by}..{end}:{by}"


def _is_inner(shape: Shape) -> bool:
    return any(isinstance(n, UpTo) for n in shape)


def not_an_input(name: str) -> str:
    """Return the message for a value inside the network with several shapes."""
    return (
        f"--shape: '{name}' is inside the network and has several shapes, which only an input "
        "decides: write 0..N for an extent up to N, or a number"
    )


def lengths_of(given: Mapping[str, tuple[Shape, ...]]) -> Lengths | None:
    """
    Return the lengths that shapes of inputs specify, or `None` if each has a single shape.
    Contradictory shapes are a `UsageError`.
    """
    varying = {name: shapes for name, shapes in given.items() if len(shapes) > 1}
    if not varying:
        return None
    inputs = [n for n, found in varying.items() if not any(map(_is_inner, found))]
    if not inputs:
        raise UsageError(not_an_input(next(iter(varying))))
    name, shapes = inputs[0], varying[inputs[0]]
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
            f"{dimension}. A program selects the shape by the length: give shapes that differ in "
            f"dimension {dimension}, or compile the other shapes as separate programs"
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
