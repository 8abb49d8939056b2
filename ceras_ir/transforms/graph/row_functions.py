"""
Functions of rows: what operations make of the last dimension of one value, in double precision.

Exporters write softmax and normalizations in many ways. Passes recognize them by their results for
some rows, not by the operations. They confirm a function at rows of each magnitude, relative to
each element, because a consumer can depend on a lower bound or an addend such as 1e-12.

The rules of `fuse-functions` for softmax and normalization are the second part of this file.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.storage import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.graph.formulas import COMBINED, FORMULAS, Reals, elementwise, evaluated
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, NetworkPass
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


# Recognize softmax and normalizations of rows by their values, in any spelling.

ULP = 2.0**-23
"""Relative difference of equal values: an ulp of float32."""


@dataclass(frozen=True)
class SoftmaxRule(NetworkPass):
    """
    Replace operations that compute softmax along the last dimension by `graph.softmax`.

    Exponentials divided by their sum, with the maximum taken off or not, times a reciprocal, or
    as the exponential of what the logarithm of the sum is taken off. Operations are not compared
    but what they compute, in double precision. Off by the rounding of the parts; what is spelled
    without the maximum is finite for all rows afterwards.
    """

    name = "softmax"

    def change(self, main: FuncOp) -> None:
        replace_row_functions(main.body.block, Softmax())


class Softmax:
    """The one function of its family."""

    functions = (graph.Function.EXP,)

    def rows(self, length: int) -> Reals:
        """Rows of several sizes, around several numbers."""
        random = np.random.default_rng(0)
        sizes = np.array([0.0, 0.1, 1.0, 1.0, 4.0, 8.0])[:, None]
        offsets = np.array([0.0, -3.0, 0.5, 8.0, 0.0, 2.0])[:, None]
        return random.uniform(-1, 1, (len(sizes), length)) * sizes + offsets

    def other_rows(self, length: int) -> Reals:
        """Return rows with results from 1e-220 to 1, and with tiny, equal and large arguments."""
        random = np.random.default_rng(1)
        offsets = np.array([0.0, -300.0, -40.0, 40.0, 300.0])[:, None, None]
        sizes = 2.0 ** np.arange(-3, 9)[:, None]
        return (random.uniform(-1, 1, (5, 12, length)) * sizes + offsets).reshape(-1, length)

    def recognized(self, rows: Reals, values: Reals) -> Literal[True] | None:
        """Return whether `values` are the softmax of `rows`."""
        powers = np.exp(rows - rows.max(axis=1, keepdims=True))
        expected = powers / powers.sum(axis=1, keepdims=True)
        alike = values.shape == rows.shape and (np.abs(values - expected) <= ULP * expected).all()
        return True if alike else None

    def agrees(self, found: Literal[True], rows: Reals, values: Reals) -> bool:
        """Return whether `values` are the softmax of `rows`."""
        return self.recognized(rows, values) is found

    def built(self, argument: SSAValue, found: Literal[True]) -> Sequence[Operation]:
        """The operation."""
        return [graph.SoftmaxOp(argument, len(graph.shape_of(argument)) - 1)]


NEAR = 2.0**-20
"""Difference of equal values, as a multiple of the product with the scale and of the bias."""
LARGE, TINY = 1e6, 1e-7
"""Magnitudes of rows beside which epsilon is nothing, and that are nothing beside epsilon."""
ZERO_ROW, LARGE_ROW, TINY_ROW = range(3)
MIN_EPSILON = 1e-20
"""A smaller epsilon is not distinct from 0 next to the variance of the tiny row."""


@dataclass(frozen=True)
class Normalization:
    """The parameters of a normalization of rows."""

    scale: NDArray[np.float32]
    bias: NDArray[np.float32] | None
    epsilon: float
    centred: bool


@dataclass(frozen=True)
class NormalizationRule(FloatNetworkPass):
    """
    Replace operations that normalize rows along the last dimension by `graph.normalize`.

    `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)`, or without the means of `x`, with
    constant factors and addends for the channels behind it. Exporters spell it as a dozen nodes in
    many ways: with powers, reciprocals, the mean of squares less the square of the mean, or as
    `x * factor + (bias - mean * factor)`. So operations are not compared but what they compute, in
    double precision. Off by the rounding of the parts. A quantized network stays as it is.
    """

    name = "normalization"

    def change(self, main: FuncOp) -> None:
        replace_row_functions(main.body.block, Normalizations())


class Normalizations:
    """Those with any parameters."""

    functions = (graph.Function.SQRT,)

    def rows(self, length: int) -> Reals:
        """A row of zeros, a large one, a tiny one, and others."""
        random = np.random.default_rng(0)
        sizes = np.array([0.0, LARGE, TINY, 1e-3, 1.0, 30.0])[:, None]
        offsets = np.array([0.0, 0.0, 0.0, 0.0, -2.0, 3.0])[:, None]
        return random.normal(size=(len(sizes), length)) * sizes + offsets

    def recognized(self, rows: Reals, values: Reals) -> Normalization | None:
        """The normalization that makes `values` of `rows`."""
        if values.shape != rows.shape or not np.isfinite(values).all():
            return None
        # Values of something else may be any numbers.
        with np.errstate(all="ignore"):
            found = _parameters(rows, values, centred=True)
            return found or _parameters(rows, values, centred=False)

    def other_rows(self, length: int) -> Reals:
        """
        Return rows of sizes 2^-66 to 2^22, with variances far below and above any epsilon. Powers
        of elements give rows that have few large elements, as far from the mean as possible.
        """
        random = np.random.default_rng(1)
        sizes = 2.0 ** np.arange(-66, 24, 2)[:, None]
        return np.concatenate(
            [
                random.normal(size=(len(sizes), length)) * sizes,
                random.normal(size=(16, length)) ** 9,
                np.eye(1, length),
                -np.eye(1, length),
            ]
        )

    def agrees(self, found: Normalization, rows: Reals, values: Reals) -> bool:
        """Return whether a normalization maps `rows` to `values`."""
        return values.shape == rows.shape and _agrees(found, rows, values)

    def built(self, argument: SSAValue, found: Normalization) -> Sequence[Operation]:
        """The operation, behind its constants."""
        scale = graph.ConstantOp.from_array(found.scale)
        bias = None if found.bias is None else graph.ConstantOp.from_array(found.bias)
        new = graph.NormalizeOp(
            argument,
            scale.result,
            None if bias is None else bias.result,
            epsilon=found.epsilon,
            centred=found.centred,
        )
        return [scale, *([] if bias is None else [bias]), new]


def _parameters(rows: Reals, values: Reals, *, centred: bool) -> Normalization | None:
    """With which parameters rows are normalized to these values."""
    parts = rows - rows.mean(axis=1, keepdims=True) if centred else rows
    variances = np.square(parts).mean(axis=1, keepdims=True)
    bias = values[ZERO_ROW]
    # No element of a large row is so near its mean that it would not tell the scale.
    normal = parts[LARGE_ROW] / np.sqrt(variances[LARGE_ROW])
    scale = (values[LARGE_ROW] - bias) / normal
    top = scale * parts[TINY_ROW]
    channel = int(np.abs(top).argmax())
    rooted = float(values[TINY_ROW, channel] - bias[channel])
    if rooted == 0.0:
        return None
    epsilon = float((top[channel] / rooted) ** 2 - variances[TINY_ROW, 0])
    if not MIN_EPSILON < epsilon < LARGE:
        return None
    epsilon = float(np.float32(epsilon))
    addend = bias.astype(np.float32) if bias.any() else None
    found = Normalization(scale.astype(np.float32), addend, epsilon, centred)
    return found if _agrees(found, rows, values) else None


def _agrees(found: Normalization, rows: Reals, values: Reals) -> bool:
    """Return whether elements differ by rounding only, relative to the element of the same row."""
    parts = rows - rows.mean(axis=1, keepdims=True) if found.centred else rows
    variances = np.square(parts).mean(axis=1, keepdims=True)
    products = found.scale * parts / np.sqrt(variances + found.epsilon)
    bias = np.zeros(1) if found.bias is None else found.bias.astype(np.float64)
    # An element near the mean is rounded as the largest element of the row is.
    sizes = np.abs(products) + NEAR * np.abs(products).max(axis=1, keepdims=True) + np.abs(bias)
    return bool((np.abs(values - (products + bias)) <= NEAR * sizes).all())
