"""Errors that do not know their file get the one the user is working on."""

from collections.abc import Generator
from contextlib import contextmanager

from ceras_ir.support.diagnostics import InputError


@contextmanager
def naming(file: str) -> Generator[None]:
    """An `InputError` raised inside without a file is about `file`."""
    try:
        yield
    except InputError as error:
        error.file = error.file or file
        raise
