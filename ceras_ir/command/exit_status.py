"""
Convert exceptions to diagnostics, `FILE:LINE:COL: error: ...`, and exit statuses.

`run_tool` wraps the main function of each command. An error of the user becomes at most `MAX_LINES`
lines on stderr. Any other error is an error of the compiler or a plugin: the end of the traceback
is printed first, and a file for the bug report has the full traceback. An error without a file gets
the name of the input.
"""

import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from tempfile import gettempdir
from types import FrameType
from typing import NoReturn

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException, MultipleSpansParseError, ParseError
from xdsl.utils.lexer import Span

from ceras_ir.command.entry_point import (
    OUT_OF_MEMORY,
    discard,
    is_interrupt,
    memory_is_short,
    shown_name,
)
from ceras_ir.command.output_files import first_unused, open_output
from ceras_ir.command.tool_parser import versions
from ceras_ir.support.diagnostics import (
    MAX_PATH_LENGTH,
    Finding,
    InputError,
    UsageError,
    each_once,
    node_names,
    printable,
    with_remedy,
)
from ceras_ir.support.plugin_modules import line_in_plugin

EXIT_STATUS = (
    "Exit status: 0 done, 1 bad input, 2 wrong usage, 3 valid input that is not supported, "
    "70 an internal error."
)
"""The statuses of most commands, for the end of the help."""

MAX_LINES = 30
"""The largest number of lines that a run prints about errors of the user."""

MAX_FRAMES = 4
"""The largest number of frames of a crash, innermost first, that are printed."""

MAX_SUMMARY = 200
"""The largest number of characters of an exception that are printed; it can contain the IR."""
MAX_SOURCE = 100
"""The largest number of characters of a source line; lines with constants are long."""


@dataclass(frozen=True)
class Diagnostic:
    """An error message, with the file, line and column as far as they are known."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    source: tuple[str, ...] = ()
    """The source line and the line with the caret, or ()."""
    severity: str = "error"

    def lines(self, file: str) -> list[str]:
        """
        Return the lines to print, `FILE:LINE:COL: error: MESSAGE` and the source. `file` is used if
        the diagnostic has no file.
        """
        place = [printable(self.file or file, MAX_PATH_LENGTH)]
        if self.line is not None:
            place += [str(self.line), str(self.column or 1)]
        first, *rest = self.message.rstrip().split("\n")
        return [f"{':'.join(place)}: {self.severity}: {first}", *rest, *self.source]


class SourceError(InputError):
    """One or more errors at positions in the input text. Exit status 1."""

    def __init__(self, diagnostics: Sequence[Diagnostic]):
        super().__init__("\n".join(d.message for d in diagnostics))
        self.diagnostics = tuple(diagnostics)

    def lines(self, file: str) -> list[str]:
        return [line for d in self.diagnostics for line in d.lines(self.file or file)]


class InternalError(SourceError):
    """
    An error in a pass of the compiler or of a plugin. Exit status 70.

    The cause of the exception, if any, has the traceback for the author of the pass.
    """

    exit_status = 70

    source: str | None = None
    """The file of the pass that crashed."""

    def __init__(self, diagnostics: Sequence[Diagnostic], advice: str | None = None):
        """
        Create an error. `advice` is the last line: the way to reproduce the failure. With `None`, a
        report is written for a crash; with "", no report is written.
        """
        super().__init__(diagnostics)
        self.advice = advice

    def lines(self, file: str) -> list[str]:
        lines = [part for line in super().lines(file) for part in line.split("\n")]
        max_lines = MAX_LINES - 1
        if len(lines) > max_lines:
            lines = [*lines[: max_lines - 1], f"... and {len(lines) - max_lines + 1} more lines"]
        return [*lines, self.advice] if self.advice else lines


def explain_crash(tool: str, error: InputError) -> None:
    """
    Print where the compiler or a plugin crashed, if `error` is an `InternalError`, and write the
    report of the crash. `tool` is the command.
    """
    if isinstance(error, InternalError) and (cause := error.__cause__) is not None:
        report(_explanation(cause, error.source))
        if error.advice is None:
            error.advice = _crash_report(tool, cause)


def _explanation(error: BaseException, source: str | None) -> list[str]:
    """
    Return the lines of a short traceback of `error`: the innermost frames, and the innermost frame
    in the file `source`, which has the pass that crashed. Notes of xDSL are omitted, because they
    contain the entire IR.
    """
    frames = traceback.extract_tb(error.__traceback__)
    innermost = list(frames[-MAX_FRAMES:])
    in_source = [frame for frame in frames if frame.filename == source]
    if in_source and in_source[-1] not in innermost:
        innermost[0] = in_source[-1]
    first = "Traceback (most recent call last):"
    cause = error.__cause__
    causes = [] if cause is None else [f"caused by {summary(cause)}"]
    return [first, *traceback.format_list(innermost), summary(error), *causes]


def _crash_report(tool: str, cause: BaseException) -> str:
    about = f"{versions(tool)}\ncommand: {shlex.join(sys.argv)}\nPython {sys.version}\n\n"
    problem = ""
    for folder in ("", gettempdir()):
        place = first_unused(folder, f"ceras-crash-{tool.removeprefix('ceras-')}", "txt")
        try:
            with open_output(place) as stream:
                stream.writelines([about, *traceback.format_exception(cause)])
            return f"reproducer: {place}: the command and the full traceback"
        except InputError as error:
            problem = error.lines(place)[0]
    return f"no reproducer: {problem}"


def summary(error: BaseException) -> str:
    """Return the name of the exception and the first line of the text, shortened."""
    first = printable(str(error).strip().partition("\n")[0], MAX_SUMMARY)
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


@contextmanager
def phase(what: str) -> Generator[None]:
    """
    Convert a crash inside the block to an `InternalError` with the message
    `internal error in WHAT`; `what` is, for example, `emission for target c`. Errors of the user
    pass unchanged.
    """
    try:
        yield
    # Any exception but those of the user is an error of the compiler.
    except Exception as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        if isinstance(error, DiagnosticException | OSError | MemoryError):
            raise
        if memory_is_short():
            raise MemoryError from error
        message = f"internal error in {what}: {summary(error)}"
        raise InternalError([Diagnostic(message)]) from error


def _excerpt(span: Span[str] | Span[bytes]) -> tuple[str, ...]:
    content = span.input.content
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    return excerpt(text, span.start, span.end)


def excerpt(text: str, begin: int, stop: int) -> tuple[str, ...]:
    """
    Return two lines for a diagnostic: the line of `text` that contains the index `begin`, cut to a
    window, and carets below the characters from `begin` to `stop` (exclusive). Return () for an
    empty line.
    """
    position = min(begin, len(text))
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    first = max(start, position - MAX_SOURCE // 2)
    line = text[first : min(end, first + MAX_SOURCE)].replace("\t", " ").rstrip("\r")
    if not line.strip():
        return ()
    caret = min(position - first, len(line))
    width = max(1, min(stop - position, len(line) - caret))
    return line, " " * caret + "^" * width


def from_parse_error(error: ParseError) -> SourceError:
    """Convert an error of xDSL's parser to a `SourceError` with the source line."""

    def at(span: Span[str] | Span[bytes], message: str, severity: str) -> Diagnostic:
        where = span.get_location()
        return Diagnostic(message, where.file, where.line, where.col, _excerpt(span), severity)

    found = [at(error.span, error.msg, "error")]
    if isinstance(error, MultipleSpansParseError):
        for span, message in error.refs:
            found.append(at(span, message or error.ref_text or "see here", "note"))
    return SourceError(found)


def at_operation(op: Operation, message: str) -> Diagnostic:
    """
    Return a diagnostic with `message` about `op`, at the line in parsed IR or at the node of a
    model, whichever the location has.
    """
    match op.location:
        case FileLineColLoc(filename=file, line=line, column=column):
            return Diagnostic(f"'{op.name}' op {message}", file.data, line.data, column.data)
        case _ if names := node_names(op):
            return NodeDiagnostic(message, node=names[0], operator=op.name)
        case _:
            return Diagnostic(f"'{op.name}' op {message}")


@dataclass(frozen=True)
class NodeDiagnostic(Diagnostic):
    """An error at a node of the imported network, which has a name and no line."""

    node: str = ""
    operator: str = ""

    def lines(self, file: str) -> list[str]:
        first, *rest = self.message.rstrip().split("\n")
        place = printable(self.file or file, MAX_PATH_LENGTH)
        return [f"{place}: {Finding(self.node, self.operator, first)}", *rest]


def report(lines: Sequence[str], max_lines: int = MAX_LINES) -> None:
    """Print `lines` to stderr. If there are more than `max_lines`, the rest is only counted."""
    lines = [printable(part) for line in lines for part in line.removesuffix("\n").split("\n")]
    shown = lines if len(lines) <= max_lines else lines[: max_lines - 1]
    if more := len(lines) - len(shown):
        shown = [*shown, f"... and {more} more lines"]
    try:
        for line in shown:
            print(line, file=sys.stderr)
    except OSError:
        discard(sys.stderr)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Handle a signal: exit by an exception without message, so that partial output is removed."""
    # `timeout` sends the signal twice: to the process and to its group.
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _escape_characters(stream: object) -> None:
    if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
        stream.reconfigure(errors="backslashreplace")


def run_tool(
    tool: str, main: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None
) -> int:
    """
    Run the function `main` of the command `tool` on `argv` (default: the command line). Print
    errors as diagnostics, and return the exit status.
    """
    shown = shown_name(tool)
    if argv is None:
        signal.signal(signal.SIGTERM, _end)
        # `nohup` ignores this signal.
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, _end)
    for stream in ("stdout", "stderr"):
        # The caller closed the stream (`>&-`).
        if getattr(sys, stream) is None:
            setattr(sys, stream, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        _escape_characters(getattr(sys, stream))
    try:
        with phase(shown), each_once():
            try:
                status = main(sys.argv[1:] if argv is None else argv)
            except SystemExit as error:
                sys.stdout.flush()
                if (place := line_in_plugin(error)) is None:
                    # `--help` exits in this way.
                    raise
                report(
                    [
                        f"{shown}: error: {place[0]}:{place[1]}: a plugin calls "
                        f"sys.exit({error.code!r}): raise an exception"
                    ]
                )
                return 1
            sys.stdout.flush()
            return status
    except UsageError as error:
        report([*error.lines(shown), f"{shown}: try '{shown} --help'"])
        return error.exit_status
    except InputError as error:
        explain_crash(tool, error)
        report(error.lines(shown))
        return error.exit_status
    except DiagnosticException as error:
        report([f"{shown}: error: {line}" for line in str(error).splitlines()[:1]])
        return 1
    except BrokenPipeError:
        # The reader of the output, such as `| head`, has exited.
        discard(sys.stdout)
        return 141
    except OSError as error:
        # An error without a file name usually concerns the output.
        if error.filename is None:
            discard(sys.stdout)
        file = str(error.filename or shown)
        report([f"{printable(file, MAX_PATH_LENGTH)}: error: {with_remedy(error, file)}"])
        return 1
    except MemoryError:
        report([f"{shown}: error: {OUT_OF_MEMORY}"])
        return 1
    except KeyboardInterrupt:
        report([f"{shown}: interrupted"])
        return 130


@contextmanager
def naming(file: str) -> Generator[None]:
    """
    Set the file of each `InputError` inside the block to `file`, unless it has a file. A
    `UsageError` concerns the command line, and gets no file.
    """
    try:
        yield
    except UsageError:
        raise
    except InputError as error:
        error.file = error.file or file
        raise
