"""
The rules that bound how far results of operations may be from those of another implementation.

A rule makes the bound of each element of a result from the operands, their bounds and the result.
An operation without a rule is exact if its operands are and its result is no float; otherwise it
has no bound (infinity).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.driver.verify.rounding.real import UNIT, Array, Doubles, Real, smallest_step

Called: TypeAlias = tuple[list[Array], list[Doubles]]
"""Arrays and their bounds."""


class Evaluation(Protocol):
    """What a rule may ask for."""

    packed: dict[SSAValue, list[Doubles]]
    """The bounds of the results of calls, which are bytes."""

    def evaluate(self, op: Operation, operands: Sequence[Array]) -> Array:
        """The result of an operation of other operands."""
        ...

    def call(self, function: FuncOp, arguments: Called) -> Called:
        """The results of a function of the module, and their bounds."""
        ...


@dataclass(frozen=True)
class Applied:
    """An operation that was computed."""

    operands: list[Array]
    errors: list[Doubles]
    """The bounds of the operands."""
    result: Array
    unit: float
    """The relative rounding of two results, see `Real`."""
    evaluation: Evaluation

    @property
    def excess(self) -> float:
        """What a type narrower than float32 adds to the rounding of a sum, which is in float32."""
        return self.unit - UNIT

    @property
    def is_exact(self) -> bool:
        """Whether all operands are those of the other implementation."""
        return not any(error.any() for error in self.errors)

    @property
    def nothing(self) -> Doubles:
        """The bounds of an exact result."""
        return np.zeros(self.result.shape)

    @property
    def anything(self) -> Doubles:
        """The bounds of a result of which nothing is known."""
        return np.full(self.result.shape, inf)

    @property
    def values(self) -> list[Doubles]:
        """The operands, as float64."""
        return [operand.astype(np.float64) for operand in self.operands]

    @property
    def magnitudes(self) -> Doubles:
        """Of the elements of the result."""
        return np.abs(self.result.astype(np.float64))

    def reals(self) -> list[Real]:
        """The operands."""
        pairs = zip(self.operands, self.errors, strict=True)
        return [Real.of(value, error, self.unit) for value, error in pairs]


Op = TypeVar("Op", bound=Operation)
Rule: TypeAlias = Callable[[Op, Applied], Doubles]

_RULES: dict[type[Operation], Callable[[Operation, Applied], Doubles]] = {}


def rule(*kinds: type[Op]) -> Callable[[Rule[Op]], Rule[Op]]:
    """Register the rule of some kinds of operations."""

    def register(function: Rule[Op]) -> Rule[Op]:
        def checked(op: Operation, at: Applied) -> Doubles:
            assert isinstance(op, kinds)
            return function(op, at)

        _RULES.update(dict.fromkeys(kinds, checked))
        return function

    return register


def has_rule(kind: type[Operation]) -> bool:
    """Whether floats that operations of a kind compute have a bound."""
    return kind in _RULES


def error_of(op: Operation, at: Applied) -> Doubles:
    """The bound of each element of the result."""
    with np.errstate(all="ignore"):
        if (found := _RULES.get(type(op))) is not None:
            bound = found(op, at)
        else:
            bound = at.nothing if at.is_exact and not is_float(at.result) else at.anything
    if np.isnan(bound).any():
        bound = np.nan_to_num(bound, nan=inf, posinf=inf)
    return np.broadcast_to(bound, at.result.shape)


def is_float(array: Array) -> bool:
    """Whether elements are floats."""
    return array.dtype.kind == "f"


def moved(op: Operation, at: Applied) -> Doubles:
    """The bound of an operation that moves elements, or averages them."""
    if at.is_exact:
        return at.nothing
    errors = [error.astype(np.float32) for error in at.errors]
    return at.evaluation.evaluate(op, errors).astype(np.float64)


def equal(actual: Array, expected: Array) -> NDArray[np.bool_]:
    """Which elements are equal; NaN equals NaN."""
    same = np.asarray(actual == expected)
    if is_float(actual) and not same.all():
        same |= np.isnan(actual) & np.isnan(expected)
    return same


def within(actual: Array, expected: Array, bound: Doubles) -> NDArray[np.bool_]:
    """
    Which elements are equal, or not further apart than their bounds. Numbers from 2^127 on may be
    infinities, since implementations overflow in intermediate results.
    """
    with np.errstate(all="ignore"):
        apart: Doubles = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
        if not is_float(expected):
            # Large integers that differ may be the same float64.
            return equal(actual, expected) | ((apart <= bound) & (bound > 0))
        apart -= smallest_step(expected.dtype)
        close: NDArray[np.bool_] = apart <= bound
        if not close.all():
            least = np.minimum(np.abs(actual), np.abs(expected))
            huge = (least >= 2.0**127) & (np.sign(actual) == np.sign(expected))
            close |= equal(actual, expected) | huge
    return close
