"""
Functions of rows: what operations make of the last dimension of one value, in double precision.

Exporters write softmax and normalizations in many ways. Passes recognize them by their results for
some rows, not by the operations. They confirm a function at rows of each magnitude, relative to
each element, because a consumer can depend on a lower bound or an addend such as 1e-12.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, Protocol, TypeVar

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.storage import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.graph.formulas import (
    COMBINED,
    FORMULAS,
    Reals,
    elementwise,
    evaluated,
)
from ceras_ir.transforms.rebuilding import computed_between, erase_dead

MOST_TERMS = 24
"""Operations that one function is looked for in."""

REDUCED = {
    graph.Reduce.SUM: np.add,
    graph.Reduce.MAX: np.maximum,
    graph.Reduce.MIN: np.minimum,
}

Found = TypeVar("Found")


@dataclass(frozen=True)
class RowFunction(Generic[Found]):
    """What the result of an operation is a function of, and which."""

    argument: SSAValue
    inside: Sequence[Operation]
    """The operation, and others between it and the argument."""
    kind: Found


class RowFunctions(Protocol[Found]):
    """A family of functions of rows, and the operations that compute them."""

    @property
    def functions(self) -> Container[graph.Function]:
        """At least one of these is computed between argument and result."""
        ...

    def rows(self, length: int) -> Reals:
        """Return a few rows from which `recognized` derives the function: [rows, length]."""
        ...

    def recognized(self, rows: Reals, values: Reals) -> Found | None:
        """Return the function that maps `rows` to `values`."""
        ...

    def other_rows(self, length: int) -> Reals:
        """Return rows of each magnitude, at which another function of the family differs."""
        ...

    def agrees(self, found: Found, rows: Reals, values: Reals) -> bool:
        """Return whether a function maps `rows` to `values`, each element relative to itself."""
        ...

    def built(self, argument: SSAValue, found: Found) -> Sequence[Operation]:
        """Return operations, of which the last computes a function."""
        ...


def replace_row_functions(block: Block, family: RowFunctions[Found]) -> None:
    """
    Replace what computes functions of a family. Of functions inside each other the outermost is
    taken, unless something else reads one inside: it would be computed twice.
    """
    found: dict[Operation, RowFunction[Found]] = {}
    for op in block.ops:
        if (function := _function(op, family)) is not None:
            found[op] = function
    done = set[Operation]()
    for op, function in reversed(found.items()):
        inside = set(function.inside)
        others = inside.intersection(found) - {op}
        if op in done or any(_is_read_outside(other, inside) for other in others):
            continue
        done |= inside
        argument, shape = function.argument, graph.shape_of(op.results[0])
        between = computed_between(op, argument)
        moved = list[Operation]()
        if graph.shape_of(argument) != shape:
            moved.append(graph.ReshapeOp(argument, shape))
            argument = moved[0].results[0]
        new = [*moved, *family.built(argument, function.kind)]
        for each in new:
            each.location = fused_location(op, *between)
        copy_statistics(op, new[-1])
        Rewriter.insert_op(new, InsertPoint.before(op))
        new[-1].results[0].name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(new[-1].results[0])
    erase_dead(block)


def _is_read_outside(op: Operation, inside: set[Operation]) -> bool:
    return any(use.operation not in inside for use in op.results[0].uses)


def _function(op: Operation, family: RowFunctions[Found]) -> RowFunction[Found] | None:
    if not isinstance(op, graph.BinaryOp | graph.UnaryOp) or not _is_part(op):
        return None
    shape = graph.shape_of(op.result)
    if not shape or shape[-1] < 2:
        return None
    inside = _inside(op)
    if not any(isinstance(each, graph.ReduceOp) for each in inside):
        return None
    if not any(kind in family.functions for each in inside for kind in _kinds(each)):
        return None
    points = family.rows(shape[-1])
    for argument in _arguments(inside, shape):
        values = _results(op.result, argument, points)
        kind = None if values is None else family.recognized(points, values)
        if kind is None:
            continue
        others = family.other_rows(shape[-1])
        values = _results(op.result, argument, others)
        if values is not None and family.agrees(kind, others, values):
            return RowFunction(argument, _inside(op, argument), kind)
    return None


def _kinds(op: Operation) -> Iterator[graph.Function]:
    """The functions that an operation computes; powers may be roots."""
    match op:
        case graph.UnaryOp():
            yield op.function.kind
        case graph.BinaryOp():
            if op.activation is not None:
                yield op.activation.kind
            if op.function is graph.Binary.POW:
                yield graph.Function.SQRT
        case _:
            pass


def _inside(op: Operation, argument: SSAValue | None = None) -> list[Operation]:
    """What computes `op`, row by row, of the argument if there is one."""
    inside = [op]
    for at in inside:
        if len(inside) > MOST_TERMS:
            break
        for value in at.operands:
            owner = value.owner
            if value is argument or not isinstance(owner, Operation) or owner in inside:
                continue
            if _is_part(owner):
                inside.append(owner)
    return inside


def _arguments(inside: Sequence[Operation], shape: Sequence[int]) -> Iterator[SSAValue]:
    """What rows of the same number and length may be made of, the farthest first."""
    values = dict.fromkeys(value for op in inside for value in op.operands)
    for value in reversed(values):
        extents = graph.shape_of(value)
        has_rows = extents[-1:] == shape[-1:] and prod(extents) == prod(shape)
        if has_rows and not isinstance(value.owner, graph.ConstantOp):
            yield value


def _results(value: SSAValue, argument: SSAValue, points: Reals) -> Reals | None:
    """The rows of a value where those of its argument are `points`."""
    return evaluated(value, {argument: points}, _constant, _computed, 2 * MOST_TERMS)


def _constant(value: SSAValue) -> Reals | None:
    """A constant for all elements or for each channel."""
    array = graph.constant_array(value)
    if array is None or array.size not in (1, *array.shape[-1:]):
        return None
    return array.reshape(-1).astype(np.float64)


def _computed(op: Operation, operands: Sequence[Reals]) -> Reals | None:
    if not _is_part(op):
        return None
    match op:
        case graph.ReduceOp():
            return REDUCED[op.function].reduce(operands[0], axis=1, keepdims=True)
        case graph.ReshapeOp():
            return operands[0]
        case graph.BinaryOp() if op.activation is not None:
            formula = FORMULAS[op.activation.kind]
            return formula(COMBINED[op.function](*operands), op.activation.values)
        case _:
            return elementwise(op, operands)


def _is_part(op: Operation) -> bool:
    """Whether an operation computes each row of its result of the same row of its operands."""
    if len(op.results) != 1 or graph.element_of(op.results[0]) != f32:
        return False
    shape = graph.shape_of(op.results[0])
    match op:
        case graph.ReduceOp():
            return op.function in REDUCED and list(op.axes.get_values()) == [len(shape) - 1]
        case graph.ReshapeOp():
            return bool(shape) and graph.shape_of(op.input)[-1:] == shape[-1:]
        case graph.BinaryOp():
            alike = all(_has_rows_of(value, shape) for value in op.operands)
            return alike and op.function in COMBINED and _is_known(op.activation)
        case graph.UnaryOp():
            return _is_known(op.function) and op.channel_exponents is None
        case _:
            return False


def _is_known(function: graph.FunctionAttr | None) -> bool:
    return function is None or (function.kind in FORMULAS and function.affine is None)


def _has_rows_of(value: SSAValue, shape: Sequence[int]) -> bool:
    """Whether an operand is the same for all rows, or has those of a result of this shape."""
    if isinstance(value.owner, graph.ConstantOp):
        return _constant(value) is not None
    return graph.shape_of(value)[:-1] == tuple(shape[:-1]) and bool(shape)
