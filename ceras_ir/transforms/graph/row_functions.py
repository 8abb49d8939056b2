"""
Recognize softmax and normalizations along the last axis by their results, in double precision.

Exporters write these functions in different ways. Passes compare the results for some rows, not the
operations. They confirm a function at rows of each magnitude, relative to each element, because a
consumer can depend on a lower bound or an addend such as 1e-12.
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

MAX_OPERATIONS = 24
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
    A function of rows that operations of the network compute: the kind, the argument and the
    operations.
    """

    argument: SSAValue
    inside: Sequence[Operation]
    """The operation and the operations between it and the argument."""
    kind: Found


class RowFunctions(Protocol[Found]):
    """A family of functions of rows, and the operations that compute them."""

    @property
    def functions(self) -> Container[graph.Function]:
        """
        Functions of the dialect, of which at least one must occur between argument and result.
        Other operations are not examined.
        """
        ...

    def rows(self, length: int) -> Reals:
        """Return a few rows from which `recognized` derives the function: [rows, length]."""
        ...

    def recognized(self, rows: Reals, values: Reals) -> Found | None:
        """Return the function that maps `rows` to `values`, or `None`."""
        ...

    def other_rows(self, length: int) -> Reals:
        """
        Return test rows of all magnitudes, on which the functions of the family have different
        results.
        """
        ...

    def agrees(self, found: Found, rows: Reals, values: Reals) -> bool:
        """Return whether a function maps `rows` to `values`, each element relative to itself."""
        ...

    def built(self, argument: SSAValue, found: Found) -> Sequence[Operation]:
        """Return operations, of which the last computes a function."""
        ...


def replace_row_functions(block: Block, family: RowFunctions[Found]) -> None:
    """
    Replace operations that compute functions of a family. Of nested functions the outermost is
    replaced, unless an inner function has another consumer, for which it would be computed a second
    time.
    """
    found: dict[Operation, RowFunction[Found]] = {}
    for op in block.ops:
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
        more = family.other_rows(shape[-1])
        values = _results(op.result, argument, more)
        if values is not None and family.agrees(kind, more, values):
            return RowFunction(argument, _inside(op, argument), kind)
    return None


def _kinds(op: Operation) -> Iterator[graph.Function]:
    # A power can be a root.
    if isinstance(op, graph.UnaryOp):
        yield op.function.kind
    elif isinstance(op, graph.BinaryOp):
        if op.activation is not None:
            yield op.activation.kind
        if op.function is graph.Binary.POW:
            yield graph.Function.SQRT


def _inside(op: Operation, argument: SSAValue | None = None) -> list[Operation]:
    # The operations that compute `op` row by row, up to the argument.
    inside = [op]
    for at in inside:
        if len(inside) > MAX_OPERATIONS:
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


def _results(value: SSAValue, argument: SSAValue, points: Reals) -> Reals | None:
    return evaluated(value, {argument: points}, _constant, _computed, 2 * MAX_OPERATIONS)


def _constant(value: SSAValue) -> Reals | None:
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
            return has_rows and op.function in COMBINED and _is_known(op.activation)
        case graph.UnaryOp():
            return _is_known(op.function) and op.channel_exponents is None
        case _:
            return False


def _is_known(function: graph.FunctionAttr | None) -> bool:
    return function is None or (function.kind in FORMULAS and function.affine is None)


def _has_rows_of(value: SSAValue, shape: Sequence[int]) -> bool:
    # The operand is equal for all rows, or has the rows of a result with this shape.
    if isinstance(value.owner, graph.ConstantOp):
        return _constant(value) is not None
    return graph.shape_of(value)[:-1] == tuple(shape[:-1]) and bool(shape)


ULP = 2.0**-23
"""The relative difference of equal values: an ulp of float32."""


@dataclass(frozen=True)
class SoftmaxRule(NetworkPass):
    """
    Replace operations that compute softmax along the last axis by `graph.softmax`.

    The operations are exponentials divided by their sum, with or without a subtraction of the
    maximum, times a reciprocal, or the exponential of a difference from the logarithm of the sum.
    The pass compares the results in double precision, not the operations. The result differs by the
    rounding of the parts. Without the subtraction of the maximum the operations can overflow;
    `graph.softmax` is finite for all rows.

    Before:

        %a = graph.unary <exp> %x : tensor<3x2xf32>
        %s = graph.reduce sum %a {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
        %y = graph.binary div %a, %s : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>

    After:

        %y = graph.softmax %x {axis = 1 : i64} : tensor<3x2xf32>
    """

    name = "softmax"

    def change(self, main: FuncOp) -> None:
        replace_row_functions(main.body.block, Softmax())


class Softmax:
    """
    The family of functions that are equal to softmax, with the rows on which they are compared.
    """

    functions = (graph.Function.EXP,)

    def rows(self, length: int) -> Reals:
        random = np.random.default_rng(0)
        sizes = np.array([0.0, 0.1, 1.0, 1.0, 4.0, 8.0])[:, None]
        offsets = np.array([0.0, -3.0, 0.5, 8.0, 0.0, 2.0])[:, None]
        return random.uniform(-1, 1, (len(sizes), length)) * sizes + offsets

    def other_rows(self, length: int) -> Reals:
        # Results from 1e-220 to 1, and tiny, equal and large arguments.
        random = np.random.default_rng(1)
        offsets = np.array([0.0, -300.0, -40.0, 40.0, 300.0])[:, None, None]
        sizes = 2.0 ** np.arange(-3, 9)[:, None]
        return (random.uniform(-1, 1, (5, 12, length)) * sizes + offsets).reshape(-1, length)

    def recognized(self, rows: Reals, values: Reals) -> Literal[True] | None:
        powers = np.exp(rows - rows.max(axis=1, keepdims=True))
        expected = powers / powers.sum(axis=1, keepdims=True)
        agrees = values.shape == rows.shape and (np.abs(values - expected) <= ULP * expected).all()
        return True if agrees else None

    def agrees(self, found: Literal[True], rows: Reals, values: Reals) -> bool:
        return self.recognized(rows, values) is found

    def built(self, argument: SSAValue, found: Literal[True]) -> Sequence[Operation]:
        return [graph.SoftmaxOp(argument, len(graph.shape_of(argument)) - 1)]


FORM_TOLERANCE = 2.0**-20
"""Difference of equal values, as a multiple of the product with the scale and of the bias."""
LARGE, TINY = 1e6, 1e-7
"""Magnitudes of rows: epsilon is negligible for the first, and dominates for the second."""
ZERO_ROW, LARGE_ROW, TINY_ROW = range(3)
MIN_EPSILON = 1e-20
"""A smaller epsilon is not distinct from 0 in comparison with the variance of the tiny row."""


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
    Replace operations that normalize rows along the last axis by `graph.normalize`.

    The function is `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)`, or without the means of
    x, followed by constant factors and addends of the channels. Exporters write it as about twelve
    nodes in different ways: with powers, reciprocals, the mean of squares minus the square of the
    mean, or as `x * factor + (bias - mean * factor)`. The pass therefore compares the results in
    double precision, not the operations. The result differs by the rounding of the parts. A
    quantized network remains unchanged.

    Before:

        %n = graph.constant dense<2.0> : tensor<1xf32> : tensor<1xf32>
        %e = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
        %a = graph.binary mul %x, %x : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
        %s = graph.reduce sum %a {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
        %b = graph.binary div %s, %n : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
        %c = graph.binary add %b, %e {activation = #graph.function<sqrt>}
            : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
        %y = graph.binary div %x, %c : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>

    After:

        %s = graph.constant dense<1.0> : tensor<2xf32> : tensor<2xf32>
        %y = graph.normalize %x scale %s : tensor<2xf32> {epsilon = 0.5 : f32, centred = false}
            : tensor<3x2xf32> -> tensor<3x2xf32>
    """

    name = "normalization"

    def change(self, main: FuncOp) -> None:
        replace_row_functions(main.body.block, Normalizations())


class Normalizations:
    """The family of normalizations with any parameters."""

    functions = (graph.Function.SQRT,)

    def rows(self, length: int) -> Reals:
        random = np.random.default_rng(0)
        sizes = np.array([0.0, LARGE, TINY, 1e-3, 1.0, 30.0])[:, None]
        offsets = np.array([0.0, 0.0, 0.0, 0.0, -2.0, 3.0])[:, None]
        return random.normal(size=(len(sizes), length)) * sizes + offsets

    def recognized(self, rows: Reals, values: Reals) -> Normalization | None:
        if values.shape != rows.shape or not np.isfinite(values).all():
            return None
        # The values of another function can be any numbers.
        with np.errstate(all="ignore"):
            found = _parameters(rows, values, centred=True)
            return found or _parameters(rows, values, centred=False)

    def other_rows(self, length: int) -> Reals:
        # Magnitudes 2^-66 to 2^22, with variances far below and above any epsilon. Ninth powers
        # give rows with few large elements, which are as far from the mean as possible.
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
        return values.shape == rows.shape and _agrees(found, rows, values)

    def built(self, argument: SSAValue, found: Normalization) -> Sequence[Operation]:
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
    parts = rows - rows.mean(axis=1, keepdims=True) if centred else rows
    variances = np.square(parts).mean(axis=1, keepdims=True)
    bias = values[ZERO_ROW]
    # Each element of the large row is far enough from the mean to determine the scale.
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
    # Elements differ by rounding only, relative to the element.
    parts = rows - rows.mean(axis=1, keepdims=True) if found.centred else rows
    variances = np.square(parts).mean(axis=1, keepdims=True)
    products = found.scale * parts / np.sqrt(variances + found.epsilon)
    bias = np.zeros(1) if found.bias is None else found.bias.astype(np.float64)
    # The rounding error of an element near the mean is that of the largest element of the row.
    sizes = (
        np.abs(products)
        + FORM_TOLERANCE * np.abs(products).max(axis=1, keepdims=True)
        + np.abs(bias)
    )
    return bool((np.abs(values - (products + bias)) <= FORM_TOLERANCE * sizes).all())
