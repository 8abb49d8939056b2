"""Define options for the inputs of a model: shapes, values and states."""

import argparse
from collections.abc import Sequence
from typing import TypedDict, TypeVar

from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.options import option, options

BOOLEAN_WORDS = {"true": "1", "false": "0"}
"""The words for elements of a boolean input."""


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, extents = text.rpartition("=")
    parts = extents.split("x")
    if not name or not all(p.isdecimal() and int(p) < 1 << 31 for p in parts):
        raise argparse.ArgumentTypeError(f"expected NAME=1x3x224x224, got {text!r}")
    return name, tuple(map(int, parts))


def _numbers(text: str) -> tuple[str, tuple[float, ...]]:
    name, _, numbers = text.rpartition("=")
    try:
        found = tuple(
            float(BOOLEAN_WORDS.get(number.lower(), number)) for number in numbers.split(",")
        )
    except ValueError:
        found = ()
    if not name or not found:
        raise argparse.ArgumentTypeError(
            f"expected NAME=16000, a list such as NAME=1,2, or NAME=true, got {text!r}"
        )
    return name, found


def _pair(text: str) -> tuple[str, str]:
    name, _, result = text.rpartition("=")
    if not name or not result:
        raise argparse.ArgumentTypeError(f"expected INPUT=OUTPUT, got {text!r}")
    return name, result


@options
class ShapeOptions:
    """The options for symbolic dimensions and inputs of a model."""

    batch: int = option(1, metavar="N", least=1)
    """Set a symbolic batch dimension to N."""
    shape: tuple[tuple[str, tuple[int, ...]], ...] = option(
        (), metavar="NAME=1x3x224x224", action="append", read=_shape
    )
    """Set the shape of an input with symbolic dimensions; for each such input."""
    set: tuple[tuple[str, tuple[float, ...]], ...] = option(
        (), metavar="NAME=16000", action="append", read=_numbers
    )
    """
    Fix an input to a number, or to a list of numbers with commas: the input is removed, and
    conditions that depend on it are evaluated; may be repeated.
    """


@options
class StateOptions:
    """The option that declares states."""

    state: tuple[tuple[str, str], ...] = option(
        (), metavar="INPUT=OUTPUT", action="append", read=_pair
    )
    """
    Keep an output from call to call as this input, and hide both from callers; the first call uses
    zeros; may be repeated.
    """


Value = TypeVar("Value")


class Bindings(TypedDict):
    """The settings of the inputs of a model, as `read_network` accepts them."""

    batch: int
    shapes: dict[str, tuple[int, ...]]
    values: dict[str, tuple[float, ...]]


class Interface(Bindings):
    """The same settings, with the inputs that are states."""

    states: dict[str, str]


def interface_of(arguments: argparse.Namespace) -> Interface:
    """Return the settings of inputs and states on a command line."""
    return {**bindings_of(arguments), "states": dict(arguments.state)}


def bindings_of(arguments: argparse.Namespace | ShapeOptions) -> Bindings:
    """Return the settings of `ShapeOptions`."""
    return {
        "batch": arguments.batch,
        "shapes": _unique("--shape", arguments.shape),
        "values": _unique("--set", arguments.set),
    }


def _unique(option: str, given: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    """Return the value of `option` for each input. Refuse two values for the same input."""
    names = [name for name, _ in given]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"{option} is given twice for input '{twice[0]}': remove one")
    return dict(given)
