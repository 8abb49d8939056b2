"""
Recognize functions of rows, along the last axis, by their results in double precision.

Exporters write these functions in different ways. Passes compare the results for some rows, not the
operations. They confirm a function at rows of each magnitude, relative to each element, because a
consumer can depend on a lower bound or an addend such as 1e-12.
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
    DOUBLE_BINARY,
    FORMULAS,
    Doubles,
    elementwise,
    evaluated,
)
from ceras_ir.transforms.rebuilding import computed_between, erase_dead

MAX_ROW_FUNCTION_OPERATIONS = 24
"""Operations between the result of a function and the argument."""

REDUCED = {
    graph.Reduce.SUM: np.add,
    graph.Reduce.MAX: np.maximum,
    graph.Reduce.MIN: np.minimum,
}

Found = TypeVar("Found")


@dataclass(frozen=True)
class RowFunction(Generic[Found]):
    """
    Operations of a network that compute a function of rows (along the last axis), such as softmax:
    the argument, the operations, and the function with parameters (`kind`).
    """

    argument: SSAValue
    inside: Sequence[Operation]
    """The operation and the operations between it and the argument."""
    kind: Found


class RowFunctions(Protocol[Found]):
    """
    A family of functions of rows, such as all normalizations: how to recognize a member by results
    for test rows, and the operations that replace it.
    """

    @property
    def functions(self) -> Container[graph.Function]:
        """
        Elementwise functions of which at least one is part of each member of the family, such as
        `exp` for softmax. Operations without them are not examined, to save time.
        """
        ...

    def rows(self, length: int) -> Doubles:
        """
        Return a few test rows [rows, length]. `recognized` derives the function from the results
        for them.
        """
        ...

    def recognized(self, rows: Doubles, values: Doubles) -> Found | None:
        """
        Return the member of the family (with parameters) that maps the test rows `rows` to
        `values`, or `None`.
        """
        ...

    def other_rows(self, length: int) -> Doubles:
        """
        Return further test rows [rows, length] of all magnitudes, to confirm a recognized function.
        Any two members of the family have different results for these rows.
        """
        ...

    def agrees(self, found: Found, rows: Doubles, values: Doubles) -> bool:
        """
        Return whether the member `found` maps `rows` to `values`. Differences are measured relative
        to each element, because a consumer can depend on small elements.
        """
        ...

    def built(self, argument: SSAValue, found: Found) -> Sequence[Operation]:
        """Return new operations, of which the last computes the member `found` for `argument`."""
        ...


def replace_row_functions(block: Block, family: RowFunctions[Found]) -> None:
    """
    Replace the operations of a block that compute a function of `family` by the operation of that
    function. Of nested functions the outermost is replaced, unless an inner function has another
    consumer, because it would then be computed twice.
    """
    found: dict[Operation, RowFunction[Found]] = {}
    reduced = set[Operation]()
    for op in block.ops:
        if not isinstance(op, graph.ReduceOp) and all(v.owner not in reduced for v in op.operands):
            continue
        if not _is_part(op):
            continue
        # Only these depend on a reduction through operations on rows.
        reduced.add(op)
        if (function := _function(op, family)) is not None:
            found[op] = function
    done = set[Operation]()
    for op, function in reversed(found.items()):
        inside = set(function.inside)
        nested = inside.intersection(found) - {op}
        users = {use.operation for each in nested for use in each.results[0].uses}
        if op in done or not users <= inside:
            continue
        done |= inside
        argument, shape = function.argument, graph.shape_of(op.results[0])
        between = computed_between(op, argument)
        new = list[Operation]()
        if graph.shape_of(argument) != shape:
            new.append(graph.ReshapeOp(argument, shape))
            argument = new[0].results[0]
        new += family.built(argument, function.kind)
        for each in new:
            each.location = fused_location(op, *between)
        copy_statistics(op, new[-1])
        Rewriter.insert_op(new, InsertPoint.before(op))
        new[-1].results[0].name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(new[-1].results[0])
    erase_dead(block)


def _function(op: Operation, family: RowFunctions[Found]) -> RowFunction[Found] | None:
    if not isinstance(op, graph.BinaryOp | graph.UnaryOp):
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
        more = family.other_rows(shape[-1])
        values = _results(op.result, argument, more)
        if values is not None and family.agrees(kind, more, values):
            return RowFunction(argument, _inside(op, argument), kind)
    return None


def _kinds(op: Operation) -> Iterator[graph.Function]:
    # A power can be a root.
    if isinstance(op, graph.UnaryOp):
        yield op.function.data
    elif isinstance(op, graph.BinaryOp):
        if op.activation is not None:
            yield op.activation.data
        if op.function is graph.Binary.POW:
            yield graph.Function.SQRT


def _inside(op: Operation, argument: SSAValue | None = None) -> list[Operation]:
    # The operations that compute `op` row by row, up to the argument.
    inside = [op]
    for at in inside:
        if len(inside) > MAX_ROW_FUNCTION_OPERATIONS:
            break
        for value in at.operands:
            owner = value.owner
            if value is argument or not isinstance(owner, Operation) or owner in inside:
                continue
            if _is_part(owner):
                inside.append(owner)
    return inside


def _arguments(inside: Sequence[Operation], shape: Sequence[int]) -> Iterator[SSAValue]:
    # Values with equal numbers of rows and columns, the most distant first.
    values = dict.fromkeys(value for op in inside for value in op.operands)
    for value in reversed(values):
        extents = graph.shape_of(value)
        has_rows = extents[-1:] == shape[-1:] and prod(extents) == prod(shape)
        if has_rows and not isinstance(value.owner, graph.ConstantOp):
            yield value


def _results(value: SSAValue, argument: SSAValue, points: Doubles) -> Doubles | None:
    return evaluated(
        value, {argument: points}, _constant, _computed, 2 * MAX_ROW_FUNCTION_OPERATIONS
    )


def _constant(value: SSAValue) -> Doubles | None:
    array = graph.constant_array(value)
    if array is None or array.size not in (1, *array.shape[-1:]):
        return None
    return array.reshape(-1).astype(np.float64)


def _computed(op: Operation, operands: Sequence[Doubles]) -> Doubles | None:
    if not _is_part(op):
        return None
    match op:
        case graph.ReduceOp():
            return REDUCED[op.function].reduce(operands[0], axis=1, keepdims=True)
        case graph.ReshapeOp():
            return operands[0]
        case graph.BinaryOp() if op.activation is not None:
            formula = FORMULAS[op.activation.data]
            return formula(DOUBLE_BINARY[op.function](*operands), op.activation.values)
        case _:
            return elementwise(op, operands)


def _is_part(op: Operation) -> bool:
    # Each row of the result depends only on the same row of the operands.
    if len(op.results) != 1 or graph.element_of(op.results[0]) != f32:
        return False
    shape = graph.shape_of(op.results[0])
    match op:
        case graph.ReduceOp():
            return op.function in REDUCED and list(op.axes.get_values()) == [len(shape) - 1]
        case graph.ReshapeOp():
            return bool(shape) and graph.shape_of(op.input)[-1:] == shape[-1:]
        case graph.BinaryOp():
            has_rows = all(_has_rows_of(value, shape) for value in op.operands)
            return has_rows and op.function in DOUBLE_BINARY and _is_known(op.activation)
        case graph.UnaryOp():
            return _is_known(op.function) and op.channel_exponents is None
        case _:
            return False


def _is_known(function: graph.FunctionAttr | None) -> bool:
    return function is None or (function.data in FORMULAS and function.affine is None)


def _has_rows_of(value: SSAValue, shape: Sequence[int]) -> bool:
    # The operand is equal for all rows, or has the rows of a result with this shape.
    if isinstance(value.owner, graph.ConstantOp):
        return _constant(value) is not None
    return graph.shape_of(value)[:-1] == tuple(shape[:-1]) and bool(shape)
