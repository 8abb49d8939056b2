"""Memory that is free, given back to the system."""

import ctypes
import gc


def give_back() -> None:
    """
    Erase what only refers to itself, as erased operations and their constants do, and hand free
    memory below what is used back to the system; where its library is not glibc, it decides.
    """
    gc.collect()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):  # No shared library of its own, Windows, macOS.
        return
    trim(0)
