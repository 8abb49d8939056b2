"""
Read the registers of a core from the SystemVerilog package that declares them.

The package is the single source of the numbers: headers of drivers and pages are printed from it.
"""

import re
from dataclasses import dataclass

_CONSTANT = re.compile(r"^  localparam (\w+) = (\d+);(?:  // (.*))?$", re.MULTILINE)


@dataclass(frozen=True)
class RegisterConstant:
    """A constant in the SystemVerilog package of registers. `meaning` is the comment next to it."""

    name: str
    value: int
    meaning: str


def register_constants(text: str) -> list[RegisterConstant]:
    """Return the constants that `text`, a part of a package, declares in lines of `localparam`."""
    return [RegisterConstant(name, int(n), meaning) for name, n, meaning in _CONSTANT.findall(text)]
