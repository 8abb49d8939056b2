"""Read the names of classes."""

from ceras_ir.support.diagnostics import InputError, missing_file_remedy
from ceras_ir.support.user_files import read_text

MAX_LABELS_BYTES = 1 << 24
"""The largest file of names: a vocabulary has 2^20 names at most."""


def read_labels(path: str) -> list[str]:
    """
    Return the names of classes in a text file: line i (from 0) is the name of class i. Empty lines
    at the end are ignored.
    """
    try:
        text = read_text(path, MAX_LABELS_BYTES)
    except FileNotFoundError:
        raise InputError(f"no such file{missing_file_remedy(path)}", path) from None
    except UnicodeDecodeError:
        raise InputError(
            "not a text file in UTF-8: give a file with a line per class", path
        ) from None
    labels = [line.strip() for line in text.split("\n")]
    while labels and not labels[-1]:
        labels.pop()
    return labels
