"""
Diagnostics as Python has them: errors are exceptions, remarks of passes are warnings.

Commands print both to stderr. What goes wrong is an `InputError` or one of its kinds, whatever
raised it below; nothing is printed.
"""

import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr
from io import StringIO

from xdsl.utils.exceptions import DiagnosticException

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.remarks import each_once


class CerasWarning(UserWarning):
    """What a pass says on stderr of a command, such as that few samples calibrate."""


@contextmanager
def diagnosed(file: str) -> Generator[None]:
    """
    Have everything inside fail with an `InputError` that knows its file, `file` where it has none,
    and whose note is what a command prints; and remark by a `CerasWarning`.
    """
    remarks = StringIO()
    try:
        # Passes write to sys.stderr, and show no progress where it is no terminal.
        with redirect_stderr(remarks), each_once():
            yield
    except InputError as error:
        _noted(error, file)
        raise
    except OSError as error:
        place = str(error.filename or file)
        raise _noted(InputError(error.strerror or str(error), place), file) from error
    except DiagnosticException as error:
        raise _noted(InputError(str(error).strip()), file) from error
    finally:
        _warn(remarks.getvalue())


def _noted(error: InputError, file: str) -> InputError:
    """`error` with its file, and with what a command prints as its note."""
    error.file = error.file or file
    error.add_note("\n".join(error.lines(error.file)))
    return error


def _warn(text: str) -> None:
    """Hand the lines of `text` to the caller of the API."""
    frame, level = sys._getframe(), 1  # pyright: ignore[reportPrivateUsage]
    while frame is not None and _is_ours(str(frame.f_globals.get("__name__", ""))):
        frame, level = frame.f_back, level + 1
    for line in text.splitlines():
        warnings.warn(line, CerasWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "contextlib" or module.startswith("ceras_ir.api")
