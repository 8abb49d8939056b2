"""
Delta debugging: smaller and smaller inputs for which a command still ends with status 0.

A `Subject` makes candidates, each a valid input; what is written here knows no format. Every kind
of reduction is repeated until none of them finds anything smaller.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, Protocol, TypeAlias, TypeVar

from ceras_ir.command.shell_command import OutOfTimeError, ShellCommand
from ceras_ir.support.diagnostics import InputError

T = TypeVar("T")

MAX_COMPRESSED = 1 << 24
"""Bytes above which files are compared by their length alone: compression takes a while."""

Smaller: TypeAlias = Callable[[T], bool]
"""Whether a candidate is interesting; it is the input from then on if it is."""


class Subject(Protocol[T]):
    """A format that can be reduced."""

    def write(self, input: T) -> bytes:
        """The file of an input."""
        ...

    def size(self, input: T) -> tuple[int, int]:
        """The number of its operations, and of elements of its tensors."""
        ...

    def reductions(self) -> Sequence[Callable[[T, "Smaller[T]"], None]]:
        """Kinds of reduction: each tries candidates made of an input, larger steps first."""
        ...


class Reduction(Generic[T]):
    """The smallest interesting input so far."""

    def __init__(self, subject: Subject[T], input: T, command: ShellCommand):
        self._subject, self._command = subject, command
        self.data = subject.write(input)
        self._size = subject.size(input)
        self.first = self._size[0]
        self._best = input

    @property
    def left(self) -> int:
        """The number of operations that are left; there were `first`."""
        return self._size[0]

    def run(self, said: Callable[[str], None]) -> None:
        """Reduce until nothing helps or the time is over; `said` hears of progress."""
        status = self._command.status(self.data)
        if status != 0:
            ended = "takes too long" if status is None else f"ends with status {status}"
            raise InputError(
                f"nothing to reduce: the command of --test {ended} on it, and must end with 0"
            )
        try:
            while self._round(said):
                pass
        except OutOfTimeError:
            said("the time is over")

    def _round(self, said: Callable[[str], None]) -> bool:
        before = self.data
        for reduction in self._subject.reductions():
            reduction(self._best, self._accepts)
            said(f"{self.left} operations, {len(self.data):,} bytes, {self._command.runs} runs")
        return self.data != before

    def _accepts(self, candidate: T) -> bool:
        data = self._subject.write(candidate)
        # Else two kinds of reduction could undo each other for ever.
        size = self._subject.size(candidate)
        if (size, _weight(data)) >= (self._size, _weight(self.data)):
            return False
        if self._command.status(data) != 0:
            return False
        self._best, self.data, self._size = candidate, data, size
        return True


def _weight(data: bytes) -> int:
    """Bytes after compression: equal elements weigh less, where they take as many."""
    return len(zlib.compress(data, 1)) if len(data) < MAX_COMPRESSED else len(data)


def smallest_subset(items: Sequence[T], interesting: Callable[[list[T]], bool]) -> list[T]:
    """
    A subset of `items`, which are interesting together, no element of which can go alone: Zeller
    and Hildebrandt's `ddmin` (2002). One element of n is found in about 2 log2(n) questions.
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
