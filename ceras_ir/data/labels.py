"""Read the names of classes."""

from ceras_ir.support.diagnostics import InputError, missing_file_remedy

MAX_LABELS_BYTES = 1 << 24
"""The largest file of names: a vocabulary has 2^20 names at most."""


def read_labels(path: str) -> list[str]:
    """Return the names of classes in a text file with a line per class."""
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read(MAX_LABELS_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"no such file{missing_file_remedy(path)}", path) from None
    except UnicodeDecodeError:
        raise InputError(
            "not a text file in UTF-8: give a file with a line per class", path
        ) from None
    if len(text) > MAX_LABELS_BYTES:
        raise InputError(
            f"more than {MAX_LABELS_BYTES >> 20} MiB: give a file with a line per class", path
        )
    labels = [line.strip() for line in text.split("\n")]
    while labels and not labels[-1]:
        labels.pop()
    return labels
