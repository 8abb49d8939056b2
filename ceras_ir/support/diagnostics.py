"""
Errors and remarks for the user.

Errors in the input of the user are exceptions. They are raised anywhere below the command line and
printed by `ceras_ir.driver`; each class has its exit status. All other exceptions are errors of the
compiler. Passes print remarks on stderr; equal lines are printed once in a run of a command. A name
that is not known gets the suggestion `; did you mean ...?`.
"""

import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
)
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.hints import isa

MAX_FINDINGS = 30
"""How many findings one error prints; the rest are counted, so that a screen holds it."""


MAX_NAME, MAX_WIDTH = 200, 2000
"""Characters of a name, and of a line, that are printed."""


def printable(text: str, most: int = MAX_WIDTH) -> str:
    """One line of bounded length, whatever names the user's file has."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong at one node of the user's network."""

    node: str
    """Name of the node as the user's file spells it."""
    operator: str
    """Its operator, for example `Conv`."""
    message: str
    """What is wrong, what was expected, and the way out where there is one."""
    inputs: tuple[str, ...] = field(default=(), compare=False)
    """Inputs of the network that decide the operands concerned, and that --set can fix."""

    def __str__(self) -> str:
        name, operator = (printable(text, MAX_NAME) for text in (self.node, self.operator))
        return printable(f"node '{name}' ({operator}): error: {self.message}")


class InputError(DiagnosticException):
    """The input is malformed or contradicts itself. Exit status 1."""

    exit_status = 1

    def __init__(self, message: str | Sequence[Finding], file: str | None = None):
        """
        `message` is one sentence or all the findings of one kind, of which equal ones count once: a
        node may have become several operations. `file` is the path as the user wrote it (the
        driver fills it in where it is None).
        """
        self.findings = () if isinstance(message, str) else tuple(dict.fromkeys(message))
        self.file = file
        super().__init__(message if isinstance(message, str) else "")
        self.message = message if isinstance(message, str) else ""

    def lines(self, file: str) -> list[str]:
        """The diagnostic, one `FILE: ...` line per finding, at most a screenful."""
        file = self.file or file
        if not self.findings:
            return [f"{file}: error: {self.message}"]
        shown = [f"{file}: {f}" for f in self.findings[:MAX_FINDINGS]]
        if more := len(self.findings) - len(shown):
            shown.append(f"{file}: ... and {more} more of the same kind")
        return shown

    def __str__(self) -> str:
        return self.message or "\n".join(map(str, self.findings))


class UnsupportedError(InputError):
    """
    Valid input that this compiler or target does not take. Exit status 3; every message
    has the word `unsupported`, and all such nodes are reported at once.
    """

    exit_status = 3


MAX_WAYS = 3
"""Ways out that a message names."""


class DoesNotFitError(UnsupportedError):
    """A network that is too large for its board, and ways out, the cheapest first."""

    def __init__(self, sizes: str, largest: str, ways: Sequence[str], file: str | None = None):
        """`sizes` are those of network and board, `largest` is the layer to look at."""
        self.sizes, self.largest, self.ways = sizes, largest, tuple(ways)
        listed = "; ".join(f"({i}) {text}" for i, text in enumerate(self.ways[:MAX_WAYS], 1))
        end = f"What would fit: {listed}" if ways else "No remedy known here would make it fit"
        super().__init__(f"unsupported size: {sizes}; the largest layer is {largest}. {end}", file)


class UsageError(InputError):
    """The command line itself is wrong. Exit status 2."""

    exit_status = 2


def node_names(op: Operation) -> list[str]:
    """The names of all nodes of the network that went into `op`, its own first."""
    return [loc.desc.data for loc in _parts(op.location) if isinstance(loc, NameLoc)]


def fused_location(kept: Operation, *gone: Operation) -> LocationAttr:
    """Where an operation comes from that stands for several; the first gives its name."""
    parts = dict.fromkeys(part for op in (kept, *gone) for part in _parts(op.location))
    names = tuple(part for part in parts if isinstance(part, NameLoc))
    if len(names) < 2 or not node_names(kept):
        return kept.location
    return FusedLoc(names, NoneAttr())


def _parts(location: LocationAttr) -> list[LocationAttr]:
    if isinstance(location, FusedLoc) and isa(location.locations, ArrayAttr[LocationAttr]):
        return list(location.locations)
    return [location]


def node_name(op: Operation) -> str:
    """The name of the network's node that `op` came from, or its own name without one."""
    if names := node_names(op):
        return names[0]
    match op.location:
        case FileLineColLoc(line=line):
            return f"{op.name} at line {line.data}"
        case _:
            return op.name


MISTYPED = 0.85
"""How similar a name is that can hardly be another: one letter of six may be wrong."""


def did_you_mean(name: str, known: Iterable[str], least: float = 0.6) -> str:
    """
    The end of a message about the unknown `name`: the most similar known one, if any is similar
    by `least` of 1.
    """
    from difflib import get_close_matches

    matches = get_close_matches(name, sorted(known), n=1, cutoff=least)
    return f"; did you mean '{matches[0]}'?" if matches else ""


_said: ContextVar[set[str] | None] = ContextVar("said", default=None)

_silent: ContextVar[bool] = ContextVar("silent", default=False)


def remark(line: str) -> None:
    """Print `line` to stderr, unless it has been inside of the same `each_once`."""
    said = _said.get()
    if said is not None and not _silent.get():
        if line in said:
            return
        said.add(line)
    if not _silent.get():
        print(line, file=sys.stderr)


@contextmanager
def each_once() -> Generator[None]:
    """
    Print equal remarks once: a network that is quantized for several targets is calibrated for
    each, on the same samples.
    """
    token = _said.set(set())
    try:
        yield
    finally:
        _said.reset(token)


@contextmanager
def no_remarks() -> Generator[None]:
    """Print no remarks about a network that is made only to see whether it can be."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)
