"""
Show diagnostics and models in Python: exceptions, warnings, HTML for notebooks.

Commands print diagnostics to stderr. Here, an error is an `InputError` or a subclass, a warning is
a `CerasWarning`, and a note is logged; nothing is printed. Each part of HTML is complete.
"""

import logging
import re
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from html import escape
from io import StringIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.pipeline.printing import MAX_LISTED, print_module
from ceras_ir.pipeline.report import Entry
from ceras_ir.support.diagnostics import InputError, each_once, with_remedy
from ceras_ir.support.extensions import find_hook


class CerasWarning(UserWarning):
    """A `warning:` of a command, which asks the user to act: for example, to give more samples."""


LOGGER = logging.getLogger("ceras_ir")
"""The logger of the notes of commands, which report decisions."""

NOTE = re.compile(r"([\w. -]+: )?note: ")
"""The start of a note; the word before is the pass or the command."""


@contextmanager
def diagnosed(file: str) -> Generator[None]:
    """
    Convert each error inside the block to an `InputError` that has a file (by default `file`) and,
    as a note, the text that a command would print. Warnings become Python warnings of class
    `CerasWarning`, and notes are logged.
    """
    remarks = StringIO()
    try:
        # Passes write to sys.stderr, and show progress only on a terminal.
        with redirect_stderr(remarks), each_once():
            yield
    except InputError as error:
        _noted(error, file)
        raise
    except OSError as error:
        place = str(error.filename or file)
        raise _noted(InputError(with_remedy(error, place), place), file) from error
    except DiagnosticException as error:
        raise _noted(InputError(str(error).strip()), file) from error
    finally:
        _report(remarks.getvalue())


class Pages(ABC):
    """The hook `pages`: an extension draws the page and the pictures of a network as HTML."""

    @abstractmethod
    def page(self, report: Entry, title: str, target: str) -> str:
        """Return the HTML page of `ceras-report` about `report`, the content of a `report.json`."""

    @abstractmethod
    def graph(self, module: ModuleOp) -> str:
        """Return a picture of the function `main` as HTML."""

    @abstractmethod
    def memory(self, report: Entry, title: str, target: str) -> str | None:
        """Return a picture of the memory plan in `report` as HTML; `None` without a plan."""


PAGES = "pages"


def pages_if_installed() -> Pages | None:
    """Return the implementation of `Pages` by an extension, or `None` without such an extension."""
    found = find_hook(PAGES, Pages)
    return None if found is None else found()


def _noted(error: InputError, file: str) -> InputError:
    error.file = error.file or file
    error.add_note("\n".join(error.lines(error.file)))
    return error


def _report(text: str) -> None:
    """
    Log the notes in `text`, lines that a command would print to stderr, and issue all other lines
    as Python warnings at the line that called the API.
    """
    frame, level = sys._getframe(), 1  # pyright: ignore[reportPrivateUsage]
    while frame is not None and _is_ours(str(frame.f_globals.get("__name__", ""))):
        frame, level = frame.f_back, level + 1
    for line in text.splitlines():
        if NOTE.match(line):
            LOGGER.info("%s", line)
        else:
            warnings.warn(line, CerasWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "contextlib" or module.startswith("ceras_ir.api")


MAX_IR_CHARACTERS = 200_000
"""The largest number of characters of IR in a notebook."""

NUMBERS = "text-align:right;font-variant-numeric:tabular-nums"


def signature(inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> str:
    """
    Return the inputs and outputs of a network as a line of text:
    `x float32[1, 28, 28] -> y float32[1, 10]`.
    """
    sides = (
        ", ".join(f"{t.name} {t.model_dtype or t.dtype}{list(t.shape)}" for t in side)
        for side in (inputs, outputs)
    )
    return " -> ".join(sides)


def text_of(module: ModuleOp) -> str:
    """Return the IR as text, in which large constants are replaced by a placeholder."""
    stream = StringIO()
    print_module(module, stream, elide=MAX_LISTED)
    return stream.getvalue()


def ir(module: ModuleOp) -> str:
    """Return the IR as an HTML element, truncated after `MAX_IR_CHARACTERS`."""
    text = text_of(module)
    if more := len(text) - MAX_IR_CHARACTERS:
        text = text if more < 0 else f"{text[:MAX_IR_CHARACTERS]}\n... {more:,} more characters"
    return f'<pre style="overflow:auto;max-height:40em">{escape(text)}</pre>'


def layers(entries: Sequence[Mapping[str, object]]) -> str:
    """Return an HTML table of the layers in a report, without columns that are empty."""
    known = ("name", "op", "form", "bits", "device", "macs", "bytes", "cycles", "kernel")
    columns = [key for key in known if any(key in entry for entry in entries)]
    return table(columns, [[entry.get(key) for key in columns] for entry in entries])


def totals(content: Mapping[str, object]) -> str:
    """Return an HTML table of the totals in a report."""
    rows = [[k.replace("_", " "), v] for k, v in content.items() if isinstance(v, int | float)]
    return table(["total", ""], rows)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return an HTML table; numbers are aligned to the right, and text to the left."""
    head = "".join(f'<th style="text-align:left">{escape(c)}</th>' for c in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
        return f'<td style="{NUMBERS}">{text}</td>'
    return f'<td style="text-align:left">{escape(str(value))}</td>'


def paragraph(text: str) -> str:
    return f"<p><b>{escape(text)}</b></p>"


def folded(title: str, content: str | None) -> str:
    """
    Return HTML that shows only `title` until the user clicks on it, and then `content`. Return ""
    if `content` is `None`.
    """
    if content is None:
        return ""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def joined(parts: Sequence[str]) -> str:
    return "\n".join(part for part in parts if part)
