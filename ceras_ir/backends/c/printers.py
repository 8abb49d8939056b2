"""
Who prints which operation in C: `@prints(MyOp)` above a function of a `Layer` and the operation.

A printer adds lines to the function of its layer: it asks the layer for pointers to operands and
results (`read`, `write`), for constants and scratch memory, and its kernels for shared functions.
It raises `Refused` where it has no C. The modules of `FAMILIES` are imported when the first
operation is printed; a dialect from elsewhere has its printers where it is defined.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from xdsl.ir import Operation

if TYPE_CHECKING:
    from ceras_ir.backends.c.layer import Layer

OpT = TypeVar("OpT", bound=Operation)
Printer: TypeAlias = "Callable[[Layer, Operation], None]"
"""Prints the body of one operation's function."""

FAMILIES = (
    "border",
    "calls",
    "computed_tiles",
    "detection",
    "elementwise",
    "linear",
    "logic",
    "movement",
    "normalization",
    "pooling",
    "placing",
    "recurrence",
    "reduction",
    "selection",
    "trees",
)
"""Modules beside this one with printers."""

_PRINTERS: dict[type[Operation], Printer] = {}


def prints(
    *kinds: type[OpT],
) -> Callable[[Callable[[Layer, OpT], None]], Callable[[Layer, OpT], None]]:
    """Register the printer of operations of exactly these classes."""

    def register(function: Callable[[Layer, OpT], None]) -> Callable[[Layer, OpT], None]:
        def checked(layer: Layer, op: Operation) -> None:
            assert isinstance(op, kinds)
            function(layer, op)

        _PRINTERS.update(dict.fromkeys(kinds, checked))
        return function

    return register


def printer_of(op: Operation) -> Printer | None:
    """What prints an operation; None where C has nothing for it."""
    for family in FAMILIES:
        import_module(f"{__package__}.{family}")
    return _PRINTERS.get(type(op))
