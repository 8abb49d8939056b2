"""
Compute elementwise operations at fixed points in double precision, as functions of an argument.

Equal compositions of operations share a result, which is computed once, from the results of the
operands. The network must not change while the results are in use.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, OpResult, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.transforms.graph.formulas import DOUBLE_BINARY, FORMULAS, Doubles, formula_of

T = TypeVar("T")

MAX_FUNCTION_OPERATIONS = 16
"""Operations between the result of a function and the argument."""
MAX_VALUES = 2 * MAX_FUNCTION_OPERATIONS
"""Values between the result of a function and the argument, constants included."""
MAX_RESULTS = 8192
"""Results that are kept: about 8 MB."""

_FAR = [2.0**i for i in range(4, 9)]
POINTS: Doubles = np.array([*(-far for far in _FAR[::-1]), *np.linspace(-12, 12, 97), *_FAR])
"""Arguments of the functions."""


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """An elementwise operation that can be part of a function."""

    formula: Callable[..., Doubles]
    operands: tuple[SSAValue, ...]
    inputs: tuple[tuple[SSAValue, Operation | None], ...]
    """The operands that are no constants, each with the operation that computes it, if any."""


@dataclass(frozen=True, eq=False, slots=True)
class Composition(Generic[T]):
    """
    Elementwise operations of a network as a function of an argument: the values at `POINTS`, and
    the result of a function of these values (`derived`). Operations with equal functions share it.
    """

    values: Doubles | None
    """The elements at `POINTS`, or `None` if they depend on other values than the argument."""
    size: int
    """An upper bound of the number of values from which they are computed."""
    derived: T | None


class PointValues(Generic[T]):
    """
    Evaluates elementwise operations of a network as functions of an argument, at the arguments
    `POINTS`. `derive` is a function of the values, such as a search for equal activations; the
    results are cached.
    """

    def __init__(self, derive: Callable[[Doubles], T]):
        self._derive = derive
        """A function of elements at `POINTS`."""
        self._parts: dict[Operation, Part | None] = {}
        self._compositions: dict[tuple[object, ...], Composition[T]] = {}
        self._by_argument: dict[SSAValue, dict[SSAValue, Composition[T]]] = {}
        self._constants: dict[SSAValue, Composition[T]] = {}
        self._other: Composition[T] = Composition(None, 0, None)

    def is_part(self, op: Operation) -> bool:
        """
        Return whether `op` can be part of a function that is evaluated: it is elementwise on
        float32 values and scalar constants, and has a formula in double precision.
        """
        return self._part(op) is not None

    def arguments(self, op: Operation) -> Iterator[SSAValue]:
        """
        Return the values of which the result of `op` may be a function, the most distant from `op`
        first.
        """
        inside = {op}
        pending = [op]
        values = dict[SSAValue, None]()
        for at in pending:
            if len(pending) > MAX_FUNCTION_OPERATIONS:
                break
            if (part := self._part(at)) is None:
                continue
            for value, owner in part.inputs:
                values[value] = None
                if owner is not None and owner not in inside and self.is_part(owner):
                    inside.add(owner)
                    pending.append(owner)
        return reversed(values)

    def derived(self, value: SSAValue, argument: SSAValue) -> T | None:
        """
        Return `derive` of the values that `value` has as a function of `argument`. Return `None` if
        `value` depends on a value other than `argument` and constants, or on more than `MAX_VALUES`
        values.
        """
        if len(self._compositions) > MAX_RESULTS:
            self._compositions.clear()
            self._by_argument.clear()
            self._constants.clear()
        if (known := self._by_argument.get(argument)) is None:
            known = self._by_argument[argument] = {argument: self._shared((), lambda: POINTS)}
        found = self._find(value, known, MAX_VALUES)
        if found is None or (found.size > MAX_VALUES and not _has_few_values(value, argument)):
            return None
        return found.derived

    def _find(
        self, value: SSAValue, known: dict[SSAValue, Composition[T]], depth: int
    ) -> Composition[T] | None:
        # `None` if there are more than `depth` operations in sequence.
        found = known.get(value) or self._constants.get(value)
        if found is None and (found := self._computed(value, known, depth)) is not None:
            known[value] = found
        return found

    def _computed(
        self, value: SSAValue, known: dict[SSAValue, Composition[T]], depth: int
    ) -> Composition[T] | None:
        if not isinstance(value, OpResult):
            return self._other
        if (part := self._part(value.op)) is None:
            return self._constant(value)
        if not depth:
            return None
        operands = list[Composition[T]]()
        for operand in part.operands:
            found = known.get(operand) or self._find(operand, known, depth - 1)
            if found is None or found is self._other:
                return found
            operands.append(found)
        key = part.formula, *operands
        if (found := self._compositions.get(key)) is not None:
            return found
        return self._shared(key, lambda: part.formula(*(o.values for o in operands)))

    def _constant(self, value: SSAValue) -> Composition[T]:
        if (number := graph.constant_number(value)) is None:
            return self._other
        found = self._shared((number.hex(),), lambda: np.full(POINTS.shape, number))
        self._constants[value] = found
        return found

    def _shared(self, key: tuple[object, ...], compute: Callable[[], Doubles]) -> Composition[T]:
        if (found := self._compositions.get(key)) is None:
            with np.errstate(all="ignore"):
                values = compute()
            size = 1 + sum(each.size for each in key if isinstance(each, Composition))
            found = Composition(values, size, self._derive(values))
            self._compositions[key] = found
        return found

    def _part(self, op: Operation) -> Part | None:
        try:
            return self._parts[op]
        except KeyError:
            self._parts[op] = part = self._new_part(op)
            return part

    @staticmethod
    def _new_part(op: Operation) -> Part | None:
        if (formula := formula_of(op) if _is_part(op) else None) is None:
            return None
        inputs = list[tuple[SSAValue, Operation | None]]()
        for value in op.operands:
            owner = value.op if isinstance(value, OpResult) else None
            if not isinstance(owner, graph.ConstantOp):
                inputs.append((value, owner))
        return Part(formula, tuple(op.operands), tuple(inputs))


def _has_few_values(value: SSAValue, argument: SSAValue) -> bool:
    # A bound counts a value again for each path from the result.
    seen = {argument}

    def visit(value: SSAValue) -> bool:
        owner = value.owner
        if value in seen:
            return True
        seen.add(value)
        if isinstance(owner, graph.ConstantOp):
            return True
        assert isinstance(owner, Operation)
        return len(seen) <= MAX_VALUES and all(map(visit, owner.operands))

    return visit(value)


def _is_part(op: Operation) -> bool:
    constants = [v for v in op.operands if isinstance(v.owner, graph.ConstantOp)]
    # Constants per channel, as of a batch normalization.
    if any(graph.constant_number(value) is None for value in constants):
        return False
    match op:
        case graph.BinaryOp():
            return _is_float(op.result) and op.activation is None and op.function in DOUBLE_BINARY
        case graph.UnaryOp():
            is_known = op.function.data in FORMULAS and op.function.affine is None
            return is_known and op.channel_exponents is None and _is_float(op.result)
        case graph.SelectOp():
            return _is_float(op.result)
        case graph.CastOp():
            return _is_float(op.result) and isinstance(op.input.owner, graph.CompareOp)
        case graph.CompareOp():
            return _is_float(op.lhs) and op.function is not graph.Compare.EQUAL
        case _:
            return False


def _is_float(value: SSAValue) -> bool:
    return graph.element_of(value) == f32
