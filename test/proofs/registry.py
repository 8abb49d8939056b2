"""
List the integer identities that passes and backends rely on, and provide functions to prove them.

An identity names the files that rely on it, each with the text in question, so that a changed
formula is a failed proof. It also has a precondition, with the text that checks it, and a function
that proves it. A formula is written a single time, for arrays of integers and for bit vectors of
z3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]

Integers = NDArray[np.int64]
Places = dict[str, str]
"""Files below the root, each with a text to find in it; blanks and line breaks do not count."""


class MissingSolverError(Exception):
    """The error that z3 is not installed."""

    def __init__(self) -> None:
        super().__init__("needs z3: pip install '.[proofs]'")


@dataclass(frozen=True)
class Identity:
    """An identity: the files that rely on it, the precondition and the proof."""

    name: str
    states: str
    relied_on: Places
    requires: str
    checked_by: Places
    """The text that checks the precondition; empty if types or construction guarantee it."""
    by: str
    is_slow: bool
    prove: Callable[[], None]

    def missing(self) -> list[str]:
        """List the files that no longer contain the text."""
        return [
            f"{path}: {text}"
            for places in (self.relied_on, self.checked_by)
            for path, text in places.items()
            if _squeezed(text) not in _squeezed((ROOT / path).read_text(encoding="utf-8"))
        ]


IDENTITIES: list[Identity] = []


def identity(
    *,
    relied_on: Places,
    requires: str,
    by: str,
    checked_by: Places | None = None,
    slow: bool = False,
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Add the decorated proof to the list; the docstring states the identity, the name names it."""

    def listed(proof: Callable[[], None]) -> Callable[[], None]:
        name = proof.__name__.replace("_", "-")
        states = " ".join((proof.__doc__ or "").split())
        IDENTITIES.append(
            Identity(name, states, relied_on, requires, checked_by or {}, by, slow, proof)
        )
        return proof

    return listed


def _squeezed(text: str) -> str:
    return "".join(text.split())


def same(found: Integers | NDArray[Any], expected: Integers | NDArray[Any], *at: Integers) -> None:
    """Fail at the first element that differs, with the arguments."""
    wrong = np.argwhere(np.asarray(found) != np.asarray(expected))
    if wrong.size:
        i = tuple(wrong[0])
        where = [int(np.broadcast_to(a, np.shape(found))[i]) for a in at]
        raise AssertionError(f"at {where}: {np.asarray(found)[i]} is not {np.asarray(expected)[i]}")


def every(bits: int) -> Integers:
    """Return all signed integers of so many bits."""
    return np.arange(-(1 << bits - 1), 1 << bits - 1, dtype=np.int64)


def solver() -> ModuleType:
    """Return z3 if it is installed."""
    try:
        return import_module("z3")
    except ImportError as error:
        raise MissingSolverError from error


def valid(claim: Any, assumptions: Iterable[Any] = ()) -> None:
    """Fail with a counterexample unless the claim holds for all bits that meet the assumptions."""
    z3 = solver()
    search = z3.Solver()
    search.add(*assumptions, z3.Not(claim))
    answer = search.check()
    if answer != z3.unsat:
        raise AssertionError(f"{answer}: {search.model() if answer == z3.sat else 'no answer'}")


def signed(value: int, bits: int = 32) -> int:
    """Interpret the low bits of a number as a signed integer."""
    half = 1 << bits - 1
    return (value + half) % (1 << bits) - half
