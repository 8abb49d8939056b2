"""Errors that do not know their file get the one the user is working on."""

from collections.abc import Generator
from contextlib import contextmanager

from ceras_ir.support.diagnostics import InputError, UsageError


@contextmanager
def naming(file: str) -> Generator[None]:
    """
    An `InputError` raised inside without a file is about `file`; wrong usage is about the command
    line, and stays without.
    """
    try:
        yield
    except UsageError:
        raise
    except InputError as error:
        error.file = error.file or file
        raise
