"""
Search options that make a model importable: `--shape` for inputs with open dimensions, and `--set`
for small inputs that decide branches or sizes.

Each proposal is a successful import. The search starts with the given shapes and changes one
dimension at a time, as long as more nodes are emitted. It fixes an input only if a refused node or
branch depends on it. `remedies.py` writes the messages.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import TypeAlias

import onnx

from ceras_ir.frontends.onnx.model.functions import all_nodes
from ceras_ir.frontends.onnx.search_space import OpenDimensions, candidate_values
from ceras_ir.support.diagnostics import InputError, UnsupportedError

MAX_IMPORTS = 100
"""Maximum number of imports in a search."""

MAX_EMITTED_NODES = 10_000
"""Approximate maximum number of emitted nodes in a search, which bounds the time."""

MAX_SHAPE_ATTEMPTS = 60
"""Maximum number of imports in the search for shapes with fixed values."""

MAX_INPUT_ELEMENTS = 1 << 21
"""Maximum size of an input in an attempt; pictures of three channels are smaller."""

MAX_TRIED_EXTENT = 1 << 16

SIDES = (224, 32, 28, 64, 96, 112, 128, 160, 192, 256, 299, 320, 384, 416, 448, 480, 512, 640)
"""Usual heights and widths of pictures."""

TEXT_LINE_SIDES = (48, 320)
"""Height and width of pictures of a line of text."""

USUAL = (16, 8, 32, 4, 2, 64, 10, 20, 48, 80, 96, 100, 128, 160, 256, 320, 400, 480, 512, 640, 1024)
"""Usual extents of other dimensions."""


@dataclass(frozen=True)
class Options:
    """The options `--shape` and `--set`: shapes and values of inputs by name."""

    shapes: Mapping[str, Sequence[int]]
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class ImportOutcome:
    """
    The result of a trial import: the error, or `None` if it succeeded, and the number of nodes that
    were imported before the error.
    """

    error: InputError | None
    emitted: int

    @property
    def is_wrong(self) -> bool:
        """
        Whether the error is that shapes, types or values do not fit together. An unsupported node
        is no such error.
        """
        return self.error is not None and not isinstance(self.error, UnsupportedError)

    @property
    def undecided(self) -> Sequence[str]:
        """
        The names of the inputs with values or shapes that cause the findings, so that fixing them
        may help.
        """
        findings = () if self.error is None else self.error.findings
        return list(dict.fromkeys(name for f in findings for name in f.inputs))

    @property
    def numbers(self) -> Sequence[int]:
        """
        The integers in the first message of the error. They can be extents that the model expects.
        """
        findings = () if self.error is None else self.error.findings
        return [int(digits) for f in findings[:1] for digits in re.findall(r"\d{1,9}", f.message)]

    @property
    def place(self) -> str:
        """The name of the node in the first message of the error, or ""."""
        return "" if self.error is None or not self.error.findings else self.error.findings[0].node


Attempt: TypeAlias = Callable[[Options], ImportOutcome]
Extents: TypeAlias = Mapping[str, int]
InputValues: TypeAlias = Mapping[str, Sequence[float]]


class ExhaustedError(Exception):
    """The search has made the largest permitted number of trial imports."""


@dataclass(frozen=True)
class OptionProposal:
    """
    Options with which no shapes, types or values contradict each other, and the outcome of the
    import.
    """

    options: Options
    outcome: ImportOutcome

    @property
    def is_complete(self) -> bool:
        """
        Whether the model can be imported with these options; otherwise it has unsupported nodes.
        """
        return self.outcome.error is None


class Search:
    """
    The search for options with which a model can be imported. `taken` are the options of the user,
    with which the import fails.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        taken: Options,
        open_dimensions: OpenDimensions,
        attempt: Attempt,
    ):
        self.graph = graph
        self.taken = taken
        self.open = open_dimensions
        self.progressed = False
        """Whether any attempt emitted more nodes than the first attempt."""
        self._attempt = attempt
        self._known: dict[tuple[Hashable, ...], ImportOutcome] = {}
        count = sum(1 for _ in all_nodes(graph.node))
        self._left = min(MAX_IMPORTS, MAX_EMITTED_NODES // (count + 1) + 2)

    def run(self) -> OptionProposal | None:
        """
        Return the first options with which the import succeeds, otherwise the options with the
        fewest unsupported nodes, or `None`.
        """
        self._partial: OptionProposal | None = None
        try:
            found = self._with_values(self.open.start, self.taken.values)
            if found is not None:
                return self._without_needless_values(*found)
        except ExhaustedError:
            pass
        return self._partial

    def options(self, extents: Extents, values: InputValues) -> Options:
        """
        Return the options that give the open dimensions these `extents`, and the inputs these
        `values`.
        """
        shapes = {k: s for k, s in self.open.shapes(extents).items() if k not in values}
        inputs = {value.name for value in self.graph.input}
        kept = {k: s for k, s in self.taken.shapes.items() if k in values or k not in inputs}
        return Options({**shapes, **kept}, values)

    def _outcome(self, extents: Extents, values: InputValues) -> ImportOutcome:
        key = (
            tuple(extents.values()),
            tuple(sorted((name, tuple(numbers)) for name, numbers in values.items())),
        )
        if (known := self._known.get(key)) is not None:
            return known
        if not self._left:
            raise ExhaustedError
        self._left -= 1
        outcome = self._attempt(self.options(extents, values))
        self._known[key] = outcome
        return outcome

    def _with_values(
        self, extents: Extents, values: InputValues
    ) -> tuple[Extents, InputValues] | None:
        """
        Search for input values, in addition to `values`, with which the model can be imported.
        Return the extents and all values, or `None` if no candidate succeeds.
        """
        extents, outcome = self._fitting(extents, values)
        if outcome.error is None:
            return extents, values
        names = [name for name in outcome.undecided if name not in values]
        if not names and not outcome.is_wrong:
            self._partial = _fewer(
                self._partial, OptionProposal(self.options(extents, values), outcome)
            )
        elif not names:
            # A value given by the user may be wrong.
            names = [name for name in self.taken.values if values is self.taken.values]
        for name in names[:1]:
            for numbers in candidate_values(self.graph, name):
                found = self._with_values(extents, {**values, name: numbers})
                if found is not None:
                    return found
        return None

    def _fitting(self, extents: Extents, values: InputValues) -> tuple[Extents, ImportOutcome]:
        """
        Change `extents` one at a time until no error depends on them: the remaining errors depend
        on values of inputs. Return the extents and the outcome.
        """
        first = outcome = self._outcome(extents, values)
        limit = len(self._known) + MAX_SHAPE_ATTEMPTS
        # Sums of extents, as of a concatenation, decrease only if all extents do.
        small = {name: 1 if name in self.open.guessed else n for name, n in extents.items()}
        for begin in (extents, small):
            extents, outcome = begin, self._outcome(begin, values)
            while outcome.is_wrong and not outcome.undecided:
                better = self._better(extents, values, outcome, limit)
                if better is None:
                    break
                extents, outcome = better
                self.progressed |= outcome.emitted > first.emitted
            if not outcome.is_wrong or outcome.undecided:
                break
        return extents, outcome

    def _better(
        self, extents: Extents, values: InputValues, outcome: ImportOutcome, limit: int
    ) -> tuple[Extents, ImportOutcome] | None:
        """
        Return the first change of `extents` with which more nodes can be imported than in
        `outcome`, and the new outcome; or `None`. `limit` is the number of trial imports.
        """
        for move in self._moves(extents, outcome):
            changes = [move]
            while changes and len(self._known) < limit:
                changed = {**extents, **(change := changes.pop(0))}
                if max(map(prod, self.open.shapes(changed).values())) > MAX_INPUT_ELEMENTS:
                    continue
                found = self._outcome(changed, values)
                if not found.is_wrong or found.emitted > outcome.emitted:
                    return changed, found
                if change is move and len(move) == 1 and found.place == outcome.place:
                    (name, extent), *_ = move.items()
                    line = (extents[name], outcome.numbers), (extent, found.numbers)
                    changes += ({name: crossing} for crossing in crossings(*line))
        return None

    def _moves(self, extents: Extents, outcome: ImportOutcome) -> Iterator[Mapping[str, int]]:
        found = [n for n in dict.fromkeys(outcome.numbers) if 0 < n <= MAX_TRIED_EXTENT]
        # An extent of 1 often fits only because it is broadcast.
        numbers = sorted(found, key=lambda n: n == 1)
        names = sorted(
            extents, key=lambda name: (name in self.open.batches, name in self.open.given)
        )
        inner = [name for name in names if name not in self.open.batches]
        for name in inner:
            if extents[name] in numbers:
                yield from ({name: number} for number in numbers)
                equal = [n for n in inner if extents[n] == extents[name]]
                yield from (dict.fromkeys(equal, number) for number in numbers if number > 1)
        for pair in self.open.pictures:
            yield dict(zip(pair, TEXT_LINE_SIDES, strict=True))
            yield from (dict(zip(pair, (side, side), strict=True)) for side in SIDES)
        for name in names:
            extent = extents[name]
            yield {name: 2 * extent}
            yield from ({name: number} for number in (*numbers, 1))
            yield from (
                {name: extent * b // a}
                for a, b in permutations(numbers, 2)
                if extent * b % a == 0 and extent * b // a <= MAX_TRIED_EXTENT
            )
        known = dict.fromkeys((*extents.values(), *self.open.fixed, *USUAL))
        yield from ({name: extent} for extent in known for name in names)

    def _without_needless_values(self, extents: Extents, values: InputValues) -> OptionProposal:
        for name in [name for name in values if name not in self.taken.values]:
            fewer = {k: numbers for k, numbers in values.items() if k != name}
            try:
                if self._outcome(extents, fewer).error is None:
                    values = fewer
            except ExhaustedError:
                break
        return OptionProposal(self.options(extents, values), self._outcome(extents, values))


def _fewer(known: OptionProposal | None, new: OptionProposal) -> OptionProposal:
    if known is None:
        return new
    errors = [each.outcome.error for each in (known, new)]
    counts = [0 if error is None else len(error.findings) for error in errors]
    return new if counts[1] < counts[0] else known


def crossings(a: tuple[int, Sequence[int]], b: tuple[int, Sequence[int]]) -> Sequence[int]:
    """
    Return extents to try, at which two numbers in an error message (such as two extents that must
    be equal) would be equal. `a` and `b` are two extents that were tried, each with the numbers of
    the message; numbers that change are assumed to be linear in the extent.
    """
    (first, before), (second, after) = a, b
    if len(before) != len(after) or first == second:
        return []
    found: list[int] = []
    for got, other in zip(before, after, strict=True):
        if got == other:
            continue
        for expected, unchanged in zip(before, after, strict=True):
            if expected != unchanged or expected == 1:  # An extent of 1 is broadcast.
                continue
            exact = first + (expected - got) * (second - first) / (other - got)
            found += [int(exact), int(exact) + 1]
    return [n for n in dict.fromkeys(found) if 0 < n <= MAX_TRIED_EXTENT][:6]
