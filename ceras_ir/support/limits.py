"""
Limits of time and memory that options set.

They are variables of the environment, so that worker processes inherit them.
"""

import os

from ceras_ir.support.diagnostics import InputError

TIMEOUT_FLAG, TIMEOUT_VARIABLE = "--compiler-timeout", "CERAS_COMPILER_TIMEOUT"
DEFAULT_TIMEOUT_S = 600.0

MEMORY_FLAG, MEMORY_VARIABLE = "--sample-memory", "CERAS_SAMPLE_MEMORY"
DEFAULT_MEMORY_BYTES = 2 << 30


def compiler_timeout() -> float:
    """Return the time limit of a compiler in seconds."""
    text = os.environ.get(TIMEOUT_VARIABLE, "")
    try:
        seconds = float(text) if text else DEFAULT_TIMEOUT_S
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InputError(f"{TIMEOUT_VARIABLE} must be a number of seconds, got {text!r}")
    return seconds


def memory_limit() -> int:
    """Return the largest number of bytes of arrays that are read from a file into memory."""
    text = os.environ.get(MEMORY_VARIABLE, "")
    if text and not text.isdecimal():
        raise InputError(f"{MEMORY_VARIABLE} must be a number of bytes, got {text!r}")
    return int(text) if text else DEFAULT_MEMORY_BYTES
