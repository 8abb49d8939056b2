"""
Search the smallest input for which a command still exits with status 0 (delta debugging).

A `Subject` creates candidates, which are valid inputs; this module is independent of the format.
All kinds of reduction are repeated until no candidate is smaller.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, Protocol, TypeAlias, TypeVar

from ceras_ir.driver.opt.modes import OutOfTimeError, ShellCommand
from ceras_ir.support.diagnostics import InputError

T = TypeVar("T")

MAX_COMPRESSED_BYTES = 1 << 24
"""Larger files are compared only by length, because compression is slow."""

Smaller: TypeAlias = Callable[[T], bool]
"""Return whether a candidate is interesting. An interesting candidate becomes the input."""


class Subject(Protocol[T]):
    """
    The interface of a format of test inputs, such as IR or ONNX, that can be reduced: the bytes of
    an input, the size, and the ways to make it smaller.
    """

    def write(self, input: T) -> bytes:
        """Return the contents of the file for an input."""
        ...

    def size(self, input: T) -> tuple[int, int]:
        """
        Return the number of operations of an input, and the number of elements of the tensors. Of
        two inputs, the one with the lower pair is smaller.
        """
        ...

    def reductions(self) -> Sequence[Callable[[T, "Smaller[T]"], None]]:
        """
        Return a function for each way to make an input smaller. The function gets an input and
        tries smaller candidates, large steps first; the second argument returns whether a candidate
        is accepted.
        """
        ...


class Reduction(Generic[T]):
    """The search for a small input for which a command still exits with status 0."""

    def __init__(self, subject: Subject[T], input: T, command: ShellCommand):
        self._subject, self._command = subject, command
        self.data = subject.write(input)
        self._size = subject.size(input)
        self.first = self._size[0]
        self._best = input

    @property
    def left(self) -> int:
        """The number of operations in the smallest input so far."""
        return self._size[0]

    def run(self, report: Callable[[str], None]) -> None:
        """
        Replace the input by smaller candidates with which the command still exits with status 0,
        until no smaller candidate does or the time limit is reached. `report` receives a line of
        progress after each kind of reduction. The result is `data`. Raise `InputError` if the
        command fails for the input.
        """
        status = self._command.status(self.data)
        if status != 0:
            result = "takes too long" if status is None else f"exits with status {status}"
            raise InputError(
                f"cannot reduce: the command of --test {result} for the input; it must exit with 0"
            )
        try:
            while self._round(report):
                pass
        except OutOfTimeError:
            report("the time limit is reached")

    def _round(self, report: Callable[[str], None]) -> bool:
        before = self.data
        for reduction in self._subject.reductions():
            reduction(self._best, self._accepts)
            report(f"{self.left} operations, {len(self.data):,} bytes, {self._command.runs} runs")
        return self.data != before

    def _accepts(self, candidate: T) -> bool:
        data = self._subject.write(candidate)
        # Without this check, two kinds of reduction could undo each other forever.
        size = self._subject.size(candidate)
        if (size, _weight(data)) >= (self._size, _weight(self.data)):
            return False
        if self._command.status(data) != 0:
            return False
        self._best, self.data, self._size = candidate, data, size
        return True


def _weight(data: bytes) -> int:
    # After compression, equal elements need fewer bytes.
    return len(zlib.compress(data, 1)) if len(data) < MAX_COMPRESSED_BYTES else len(data)


def smallest_subset(items: Sequence[T], interesting: Callable[[list[T]], bool]) -> list[T]:
    """
    Return a subset of `items` for which `interesting` holds, and no longer holds if any single
    element is removed. It must hold for `items`. The algorithm is `ddmin` of Zeller and Hildebrandt
    (2002); to find a single element of n, it needs about 2 log2(n) calls.
    """
    kept: list[T] = list(items)
    parts = 2
    if kept and interesting([]):
        return []
    while len(kept) > 1:
        chunks = list(_split(kept, parts))
        rests = [[x for c in chunks if c is not left for x in c] for left in chunks]
        if (chunk := next(filter(interesting, chunks), None)) is not None:
            kept, parts = chunk, 2
        elif parts > 2 and (rest := next(filter(interesting, rests), None)) is not None:
            kept, parts = rest, parts - 1
        elif parts == len(kept):
            break
        else:
            parts = 2 * parts
        parts = min(parts, len(kept))
    return kept


def _split(items: Sequence[T], parts: int) -> Iterator[list[T]]:
    bounds = [len(items) * i // parts for i in range(parts + 1)]
    for start, stop in pairwise(bounds):
        yield list(items[start:stop])
