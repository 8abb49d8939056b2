"""
Limits of time and memory that options set.

They are variables of the environment, so that worker processes inherit them.
"""

import os
from dataclasses import dataclass
from math import inf

from ceras_ir.support.diagnostics import InputError


@dataclass(frozen=True)
class TimeLimit:
    """The time limit of a kind of external programs, such as compilers."""

    programs: str
    """The programs, in words for an error message."""
    flag: str
    """The command line option that sets the limit."""
    variable: str
    """The environment variable that has the limit in seconds."""
    default_s: float
    """The limit in seconds if the variable is not set."""

    def seconds(self) -> float:
        """
        Return the limit in seconds. Raise an `InputError` if the text of the environment variable
        is not a positive number.
        """
        text = os.environ.get(self.variable, "")
        try:
            seconds = float(text) if text else self.default_s
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < inf:
            raise InputError(f"{self.variable} must be a number of seconds, got {text!r}")
        return seconds


COMPILERS = TimeLimit("a C or C++ compiler", "--compiler-timeout", "CERAS_COMPILER_TIMEOUT", 600.0)
PROGRAMS = TimeLimit(
    "another program (simulator, synthesis, emulator)",
    "--program-timeout",
    "CERAS_PROGRAM_TIMEOUT",
    3600.0,
)
TIME_LIMITS = (COMPILERS, PROGRAMS)

MEMORY_FLAG, MEMORY_VARIABLE = "--sample-memory", "CERAS_SAMPLE_MEMORY"
DEFAULT_MEMORY_BYTES = 2 << 30


def memory_limit() -> int:
    """Return the maximum number of bytes of arrays that may be read from a file into memory."""
    text = os.environ.get(MEMORY_VARIABLE, "")
    if text and not text.isdecimal():
        raise InputError(f"{MEMORY_VARIABLE} must be a number of bytes, got {text!r}")
    return int(text) if text else DEFAULT_MEMORY_BYTES
