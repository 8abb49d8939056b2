"""
Report errors, remarks and progress to the user, and format text for a terminal.

Errors in the input of the user are exceptions, which any module raises and `ceras_ir.driver`
prints. Each class has an exit status. All other exceptions are errors of the compiler. Passes print
remarks on stderr; a command prints equal remarks a single time. An unknown name gets the suggestion
`; did you mean ...?`.

A progress bar is written to stderr for long work, and only if stderr is a terminal.
"""

import errno
import os
import re
import sys
import time
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeVar

from xdsl.dialects import builtin
from xdsl.dialects.builtin import FusedLoc, LocationAttr, NameLoc
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.hints import isa

MAX_PRINTED_FINDINGS = 30
"""Findings that an error prints on a screen; the remaining findings are counted."""

MAX_NAME_LENGTH, MAX_LINE_LENGTH = 200, 2000
"""Characters of a name, and of a line, that are printed."""


MAX_PATH_LENGTH = 1000
"""Characters of the name of a file that are printed, so that the message fits on the line."""


def printable(text: str, limit: int = MAX_LINE_LENGTH) -> str:
    """
    Return `text` as a single line of at most `limit` characters. Control characters become escapes,
    and a longer text is cut, with three dots.
    """
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: limit + 1])
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


@dataclass(frozen=True)
class Finding:
    """An error at a node of the user's network. An `InputError` can have several."""

    node: str
    """The name of the node, as in the user's file."""
    operator: str
    """The operator, for example `Conv`."""
    message: str
    """A description of the error with the expectation and, if there is one, a remedy."""
    inputs: tuple[str, ...] = field(default=(), compare=False)
    """Graph inputs that determine the operands in question and that `--set` can fix."""

    def __str__(self) -> str:
        name, operator = (printable(text, MAX_NAME_LENGTH) for text in (self.node, self.operator))
        return printable(f"node '{name}' ({operator}): error: {self.message}")


class InputError(DiagnosticException):
    """An error of malformed or contradictory input. Exit status 1."""

    exit_status = 1

    def __init__(self, message: str | Sequence[Finding], file: str | None = None):
        """
        Create an error with a sentence, or with all findings of the same kind. Equal findings are
        merged, because a node can become several operations. `file` is the path as the user wrote
        it; the driver adds it if it is `None`.
        """
        self.findings: tuple[Finding, ...] = (
            () if isinstance(message, str) else tuple(dict.fromkeys(message))
        )
        self.file = file
        super().__init__(message if isinstance(message, str) else "")
        self.message = message if isinstance(message, str) else ""

    def lines(self, file: str) -> list[str]:
        """
        Return the lines of the diagnostic: `FILE: ...` for each finding, up to
        `MAX_PRINTED_FINDINGS`, and then the number of the rest. `file` is used if the error has no
        file.
        """
        file = printable(self.file or file, MAX_PATH_LENGTH)
        if not self.findings:
            return [f"{file}: error: {self.message}"]
        shown = [f"{file}: {f}" for f in self.findings[:MAX_PRINTED_FINDINGS]]
        if more := len(self.findings) - len(shown):
            shown.append(f"{file}: ... and {more} more of the same kind")
        return shown

    def __str__(self) -> str:
        return self.message or "\n".join(map(str, self.findings))


class UnsupportedError(InputError):
    """
    An error of valid input that this compiler or target does not support. Exit status 3.

    Each message contains the word `unsupported`, and all such nodes are reported together.
    """

    exit_status = 3


MAX_REMEDIES = 3
"""Remedies that a message lists."""


class MissingToolError(UnsupportedError):
    """An error of a program or library that is not installed on this machine, with the remedy."""


class DoesNotFitError(UnsupportedError):
    """An error of a network that is too large for the board, with remedies, the cheapest first."""

    def __init__(
        self,
        sizes: str,
        largest: str,
        ways: Sequence[str],
        file: str | None = None,
        totals: Mapping[str, float] | None = None,
    ):
        """
        Create an error. `sizes` is text about the bytes of the network and of the board, `largest`
        is the name of the largest layer, and `ways` are the remedies, the cheapest first. `totals`
        has the sizes by their names in a report, such as `flash_bytes`.
        """
        self.sizes, self.largest, self.ways = sizes, largest, tuple(ways)
        self.totals = totals or {}
        listed = "; ".join(f"({i}) {text}" for i, text in enumerate(self.ways[:MAX_REMEDIES], 1))
        end = f"What would fit: {listed}" if ways else "No known remedy makes it fit"
        super().__init__(f"unsupported size: {sizes}; the largest layer is {largest}. {end}", file)


class UsageError(InputError):
    """An error in the command line. Exit status 2."""

    exit_status = 2


def node_names(op: Operation) -> list[str]:
    """
    Return the names of all ONNX nodes that were merged into `op`, the main node first. The names
    are part of the location of `op`.
    """
    return [loc.desc.data for loc in _parts(op.location) if isinstance(loc, NameLoc)]


def fused_location(kept: Operation, *merged: Operation) -> LocationAttr:
    """
    Return the location of an operation that replaces `kept` and `merged`: the names of all nodes,
    `kept` first. The first name is printed in diagnostics.
    """
    parts = dict.fromkeys(part for op in (kept, *merged) for part in _parts(op.location))
    names = tuple(part for part in parts if isinstance(part, NameLoc))
    if len(names) < 2 or not node_names(kept):
        return kept.location
    return FusedLoc(names, builtin.NoneAttr())


def _parts(location: LocationAttr) -> list[LocationAttr]:
    if isinstance(location, FusedLoc) and isa(location.locations, builtin.ArrayAttr[LocationAttr]):
        return list(location.locations)
    return [location]


def node_name(op: Operation) -> str:
    """
    Return the name of the ONNX node from which `op` was made. If `op` has no such name, return the
    name of the operation, with the line in an IR file if it is known.
    """
    if names := node_names(op):
        return names[0]
    location = op.location
    is_line = isinstance(location, builtin.FileLineColLoc)
    return f"{op.name} at line {location.line.data}" if is_line else op.name


def refuse_unsupported(
    ops: Iterable[Operation], why_not: Callable[[Operation], str | None], target: str
) -> None:
    """
    Raise an `UnsupportedError` that names all operations in `ops` that the target `target` does not
    support. `why_not` returns the reason, or `None` for a supported operation.
    """
    findings = [
        Finding(node_name(op), op.name, f"unsupported by target {target}: {reason}")
        for op in ops
        if (reason := why_not(op)) is not None
    ]
    if findings:
        raise UnsupportedError(findings)


def _similarity(known: str, name: str) -> tuple[float, int]:
    from difflib import SequenceMatcher

    same = takewhile(lambda pair: pair[0] == pair[1], zip(known, name, strict=False))
    return SequenceMatcher(None, known, name).ratio(), len(list(same))


def did_you_mean(name: str, known: Iterable[str], min_similarity: float = 0.6) -> str:
    """
    Return `; did you mean 'NAME'?`, the end of a message about the unknown `name`, or "". NAME is
    the most similar name in `known`, with a similarity (0 to 1, of `difflib`) of `min_similarity`
    or more. Otherwise up to 3 names are listed that contain `name`; a `name` of 1 or 2 letters must
    be a complete word of them.
    """
    from difflib import get_close_matches

    known = sorted(set(known))
    matches = [each for each in known if each.lower() == name.lower()] or get_close_matches(
        name, known, n=MAX_NAMES, cutoff=min_similarity
    )
    # Of equally similar names, the one with the longest common prefix: cortex-m55 for cortex-m56.
    if matches:
        matches = [max(matches, key=lambda each: _similarity(each, name))]
    if not matches and name:
        is_short = len(name) < MIN_PART_LENGTH
        matches = [
            each
            for each in known
            if name.lower() in (re.split(r"\W", each.lower()) if is_short else each.lower())
        ][:MAX_NAMES]
    listed = " or ".join(f"'{match}'" for match in matches)
    return f"; did you mean {listed}?" if matches else ""


MIN_PART_LENGTH = 3
"""The number of characters from which a part of a word is a hint."""

MAX_ENTRIES = 2000
"""The number of entries up to which a folder is searched for similar names."""

MAX_NAMES = 3
"""The number of similar names that a message lists."""


ERRNO_REMEDIES = {
    errno.ENOSPC: ("free space, or write to another disk",) * 2,
    errno.EDQUOT: ("free space, or write to another disk",) * 2,
    errno.EACCES: ("permit reading (chmod)", "write to a folder that is yours"),
    errno.EPERM: ("permit reading (chmod)", "write to a folder that is yours"),
    errno.EROFS: ("", "write to a folder that is yours"),
    errno.ENOENT: ("", "write to a folder that is yours"),
    errno.EISDIR: ("give a file, not a folder", "write to another path"),
    errno.ENOTDIR: ("a part of the path is a file: correct the path", "write to another path"),
}
"""The remedies for errors of a file that is read, and of a file that is written."""


def with_remedy(error: OSError, path: str, *, writing: bool = False) -> str:
    """
    Return the text of `error`, followed by a remedy if one is known: similar names for a missing
    file or, if `writing`, the folder to create.
    """
    text = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        remedy = missing_folder_remedy(path) if writing else missing_file_remedy(path)
        if remedy:
            return text + remedy
    reading, remedy = ERRNO_REMEDIES.get(error.errno or 0, ("", "write to another path"))
    remedy = remedy if writing else reading
    return f"{text}; {remedy}" if remedy else text


def cannot_write(error: OSError, path: str) -> InputError:
    """Return the error for a file or folder at `path` that cannot be written, with a remedy."""
    return InputError(f"cannot write: {with_remedy(error, path, writing=True)}", path)


def missing_folder_remedy(path: str) -> str:
    """Return the end of a message about the output `path` if the folder does not exist, else ""."""
    folder = os.path.dirname(path)
    if not folder or os.path.isdir(folder):
        return ""
    while os.path.dirname(folder) and not os.path.isdir(os.path.dirname(folder)):
        folder = os.path.dirname(folder)
    return f"; there is no folder '{folder}': create it, or write to another folder"


def missing_file_remedy(path: str) -> str:
    """
    Return the end of a message about the missing file `path`: the folder that does not exist, the
    most similar name in the folder, or files with the same ending.
    """
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return f"; there is no folder '{folder}': create it, or give another path"
    known = names if len(names) <= MAX_ENTRIES else []
    # Equal endings do not make names similar.
    begins = {each: each.partition(".")[0] for each in known}
    begin = name.partition(".")[0]
    similar = [each for each in known if did_you_mean(begin, [begins[each]])]
    if near := did_you_mean(name, similar):
        return near
    ending = os.path.splitext(name)[1]
    alike = sorted(each for each in known if ending and each.endswith(ending))[:MAX_NAMES]
    where = f"folder '{folder}'" if folder else "current folder"
    if alike:
        return f"; files that end in {ending} in the {where}: {', '.join(alike)}"
    return f"; the {where} has no similar file: give the full path"


_printed: ContextVar[set[str] | None] = ContextVar("printed", default=None)
_silent: ContextVar[bool] = ContextVar("silent", default=False)


def remark(line: str) -> None:
    """Print `line` to stderr, unless the surrounding `each_once` has already printed it."""
    printed = _printed.get()
    if _silent.get() or (printed is not None and line in printed):
        return
    if printed is not None:
        printed.add(line)
    print(line, file=sys.stderr)


@contextmanager
def each_once() -> Generator[None]:
    """
    Print equal remarks a single time inside the block, for example if several targets compile the
    same network.
    """
    token = _printed.set(set())
    try:
        yield
    finally:
        _printed.reset(token)


@contextmanager
def no_remarks() -> Generator[None]:
    """Suppress all remarks inside the block, for a trial import or compilation."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def shortened(name: str, longest: int = 40) -> str:
    """
    Return the name. If it has more than `longest` characters, return the first `longest - 3` and
    three dots.
    """
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """
    Return a line of text for each row of cells, so that columns have equal widths. The columns with
    an index in `right` are right-aligned, the rest left-aligned.
    """
    columns = max(map(len, rows))
    full = [[*row, *[""] * (columns - len(row))] for row in rows]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in full
    ]


T = TypeVar("T")

DELAY_S = 2.0
"""The delay before a bar appears; shorter work shows no bar."""


def progress(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """
    Yield `items`, and show a progress bar with the text `description` if this needs more than
    `DELAY_S` seconds and stderr is a terminal. `total` is the number of items, needed if `items`
    has no length.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    total = len(items) if isinstance(items, Sized) else total
    started = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(description, total=total)
    shown = False
    try:
        for item in items:
            yield item
            bar.advance(task)
            if not shown and time.monotonic() - started > DELAY_S:
                bar.start()
                shown = True
    finally:
        if shown:
            bar.stop()
