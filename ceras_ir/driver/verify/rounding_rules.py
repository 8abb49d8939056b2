"""
Bound the difference of results of operations to those of another implementation.

A rule computes the bound of each element of a result from the operands, their bounds and the
result. An operation without a rule is exact if its operands are exact and its result is no float;
otherwise it has no bound (infinity).

The module has the rules of elementwise operations: movement, arithmetic, comparisons and
conversions. Operations that move elements move their bounds. Integers and booleans that are
computed from floats are exact, unless a bound reaches a tie, a limit or another element. A step
then counts as 1, and a wrong index as infinity. For calls, the functions of the module are computed
again, with bounds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.calls import packed_offsets
from ceras_ir.driver.verify.real_values import (
    UNIT,
    Array,
    Doubles,
    Real,
    binary_error,
    gamma,
    smallest_step,
)
from ceras_ir.network import integer

Called: TypeAlias = tuple[list[Array], list[Doubles]]
"""Arrays and their bounds."""


class Evaluation(Protocol):
    """The interface by which a rule computes operations again, for example with other operands."""

    packed: dict[SSAValue, list[Doubles]]
    """The bounds of the results of calls, which are bytes."""

    def evaluate(self, op: Operation, operands: Sequence[Array]) -> Array:
        """Return the result of an operation for other operands."""
        ...

    def call(self, function: FuncOp, arguments: Called) -> Called:
        """
        Return the results of `function`, a function of the module, and their bounds. `arguments`
        are the values of the parameters and their bounds.
        """
        ...


@dataclass(frozen=True)
class Applied:
    """
    An operation of the network that was executed: the operands, the result, and for each element of
    each operand the largest possible difference from the value of another implementation.
    """

    operands: list[Array]
    errors: list[Doubles]
    """The bound of each operand's difference from the operand of another implementation."""
    result: Array
    unit: float
    """The relative rounding of two results, see `Real`."""
    evaluation: Evaluation

    @property
    def excess(self) -> float:
        """
        The relative rounding error of the element type, minus that of float32: 0 for float32, and
        positive for narrower types such as float16.
        """
        return self.unit - UNIT

    @property
    def is_exact(self) -> bool:
        """
        Return whether all bounds are 0, so that the operands equal the operands in the other
        implementation.
        """
        return not any(error.any() for error in self.errors)

    @property
    def nothing(self) -> Doubles:
        """A bound of 0 for each element of the result, which is exact."""
        return np.zeros(self.result.shape)

    @property
    def anything(self) -> Doubles:
        """A bound of infinity for each element of the result: any difference is accepted."""
        return np.full(self.result.shape, inf)

    @property
    def values(self) -> list[Doubles]:
        """The operands, as float64."""
        return [operand.astype(np.float64) for operand in self.operands]

    @property
    def magnitudes(self) -> Doubles:
        """The absolute value of each element of the result, as float64."""
        return np.abs(self.result.astype(np.float64))

    def reals(self) -> list[Real]:
        """
        Return the operands as numbers with bounds, on which arithmetic also computes the bounds.
        """
        pairs = zip(self.operands, self.errors, strict=True)
        return [Real.of(value, error, self.unit) for value, error in pairs]


Op = TypeVar("Op", bound=Operation)
RoundingRule: TypeAlias = Callable[[Op, Applied], Doubles]

_RULES: dict[type[Operation], Callable[[Operation, Applied], Doubles]] = {}


def rule(*kinds: type[Op]) -> Callable[[RoundingRule[Op]], RoundingRule[Op]]:
    """
    Register the decorated function as the rule that bounds the results of the operation classes
    `kinds`.
    """

    def register(function: RoundingRule[Op]) -> RoundingRule[Op]:
        def checked(op: Operation, at: Applied) -> Doubles:
            assert isinstance(op, kinds)
            return function(op, at)

        _RULES.update(dict.fromkeys(kinds, checked))
        return function

    return register


def has_rule(kind: type[Operation]) -> bool:
    """Return whether a rule bounds the floats that operations of class `kind` compute."""
    return kind in _RULES


def error_of(op: Operation, at: Applied) -> Doubles:
    """
    Return for each element of the result of `op` the largest difference from another
    implementation, as float64 in the shape of the result. Without a rule for `op`, this is 0 for
    integers from exact operands, and otherwise infinity.
    """
    with np.errstate(all="ignore"):
        if (found := _RULES.get(type(op))) is not None:
            bound = found(op, at)
        else:
            bound = at.nothing if at.is_exact and not is_float(at.result) else at.anything
    if np.isnan(bound).any():
        bound = np.nan_to_num(bound, nan=inf, posinf=inf)
    return np.broadcast_to(bound, at.result.shape)


def is_float(array: Array) -> bool:
    """Return whether the elements of `array` are floats."""
    return array.dtype.kind == "f"


def moved(op: Operation, at: Applied) -> Doubles:
    """
    Return the bounds of the result of a data movement operation or an average: `op` applied to the
    bounds of the operands.
    """
    if at.is_exact:
        return at.nothing
    errors = [error.astype(np.float32) for error in at.errors]
    return at.evaluation.evaluate(op, errors).astype(np.float64)


def equal(actual: Array, expected: Array) -> NDArray[np.bool_]:
    """Return the mask of equal elements; NaN equals NaN."""
    same = np.asarray(actual == expected)
    if is_float(actual) and not same.all():
        same |= np.isnan(actual) & np.isnan(expected)
    return same


def within(actual: Array, expected: Array, bound: Doubles) -> NDArray[np.bool_]:
    """
    Return a boolean array: whether each element of `actual` equals the element of `expected`, or
    differs by at most the element of `bound` (in floats, the smallest step of the type is added).

    In float arrays, two elements of equal sign with magnitudes of 2^127 or more always agree,
    finite or infinite: an intermediate result of either implementation may have overflowed.
    """
    with np.errstate(all="ignore"):
        apart: Doubles = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
        if not is_float(expected):
            # Large integers that differ may be the same float64.
            return equal(actual, expected) | ((apart <= bound) & (bound > 0))
        apart -= smallest_step(expected.dtype)
        close: NDArray[np.bool_] = apart <= bound
        if not close.all():
            magnitude = np.minimum(np.abs(actual), np.abs(expected))
            huge = (magnitude >= 2.0**127) & (np.sign(actual) == np.sign(expected))
            close |= equal(actual, expected) | huge
    return close


rule(graph.ReshapeOp, graph.TransposeOp, graph.ConcatOp, graph.SliceOp, graph.GatherOp)(moved)


@rule(graph.UnaryOp)
def _unary(op: graph.UnaryOp, at: Applied) -> Doubles:
    if op.channel_factors is not None:
        return at.anything
    (x,) = at.reals()
    return x.function_error(op.function, at.result.astype(np.float64))


@rule(graph.BinaryOp)
def _binary(op: graph.BinaryOp, at: Applied) -> Doubles:
    if not is_float(at.result) or op.activation is not None:
        return _integer_binary(op, at)
    return binary_error(op.function, *at.reals())


def _integer_binary(op: graph.BinaryOp, at: Applied) -> Doubles:
    a, b = at.errors
    if op.activation is not None:
        return at.anything
    if at.is_exact:
        return at.nothing
    match op.function:
        case graph.Binary.ADD | graph.Binary.SUB:
            return a + b
        case graph.Binary.MIN | graph.Binary.MAX:
            return np.maximum(a, b)
        case graph.Binary.MUL:
            return np.abs(at.values[0]) * b + np.abs(at.values[1]) * a + a * b
        case _:
            return np.where(a + b > 0, inf, 0.0)


@rule(graph.SelectOp)
def _select(op: graph.SelectOp, at: Applied) -> Doubles:
    condition, a, b = at.values
    unsure, ea, eb = at.errors
    known = np.where(condition != 0, ea, eb)
    if not unsure.any():
        return known
    apart = np.abs(a - b) + np.maximum(ea, eb)
    return np.where(unsure > 0, apart, known)


@rule(graph.CompareOp)
def _compare(op: graph.CompareOp, at: Applied) -> Doubles:
    bound = at.errors[0] + at.errors[1]
    if not bound.any():
        return at.nothing
    apart = np.abs(at.values[0] - at.values[1])
    return np.where((bound > 0) & ~(apart > bound), 1.0, 0.0)


@rule(graph.CastOp)
def _cast(op: graph.CastOp, at: Applied) -> Doubles:
    value, error = at.values[0], at.errors[0]
    if at.result.dtype == np.bool_:
        return np.where((error > 0) & (np.abs(value) <= error), 1.0, 0.0)
    if not is_float(at.operands[0]):
        return error + at.unit * np.abs(value) if is_float(at.result) else error
    if is_float(at.result):
        return error
    # ONNX does not define the conversion of numbers outside the range of the integers.
    info = np.iinfo(at.result.dtype.name)
    inside = (np.trunc(value) >= float(info.min)) & (np.trunc(value) < float(info.max) + 1)
    if not error.any():
        return np.where(inside, 0.0, inf)
    steps = np.abs(np.trunc(value + error) - np.trunc(value - error))
    return np.where(inside, steps, inf)


@rule(graph.QuantizeOp)
def _quantize(op: graph.QuantizeOp, at: Applied) -> Doubles:
    element = graph.stored_element(op.result)
    if element.is_bipolar:
        return np.where((at.errors[0] > 0) & (np.abs(at.values[0]) <= at.errors[0]), 2.0, 0.0)
    scale = integer.scales(element, at.operands[0].ndim).astype(np.float64)
    point = integer.zero_points(element, at.operands[0].ndim)
    real: Doubles = at.values[0] / scale
    reach = at.errors[0] / scale + (UNIT / 2) * np.abs(real) * (at.errors[0] > 0)
    low, high = (
        np.clip(integer.round_float(edge, op.mode) + point, element.low, element.high)
        for edge in (real - reach, real + reach)
    )
    stored = at.result.astype(np.float64)
    return np.maximum(np.abs(high - stored), np.abs(low - stored))


@rule(graph.ThresholdOp)
def _threshold(op: graph.ThresholdOp, at: Applied) -> Doubles:
    found = at.nothing
    for limits in at.operands[1]:
        is_near = (at.errors[0] > 0) & (np.abs(at.values[0] - limits) <= at.errors[0])
        found = found + is_near * np.abs(op.steps)
    return found


@rule(graph.DequantizeOp)
def _dequantize(op: graph.DequantizeOp, at: Applied) -> Doubles:
    scale = integer.scales(graph.stored_element(op.input), at.result.ndim).astype(np.float64)
    return at.errors[0] * scale + at.unit * at.magnitudes


@rule(graph.PadOp)
def _pad(op: graph.PadOp, at: Applied) -> Doubles:
    if op.function is not graph.Pad.CONSTANT:
        return moved(op, at)
    found = at.nothing
    shape, low, between = at.operands[0].shape, op.low.get_values(), op.interior.get_values()
    places = zip(shape, low, between, strict=True)
    inside = tuple(slice(a, a + (n - 1) * (i + 1) + 1, i + 1) for n, a, i in places)
    found[inside] = at.errors[0]
    return found


@rule(graph.TakeOp)
def _take(op: graph.TakeOp, at: Applied) -> Doubles:
    if at.errors[1].any():
        return at.anything
    return at.evaluation.evaluate(op, [at.errors[0], at.operands[1]]).astype(np.float64)


@rule(graph.PutOp)
def _put(op: graph.PutOp, at: Applied) -> Doubles:
    if at.errors[1].any() or (op.function is graph.Reduce.PRODUCT and at.errors[2].any()):
        return at.anything

    def put(into: Doubles, values: Doubles) -> Doubles:
        operands = [into.astype(np.float32), at.operands[1], values.astype(np.float32)]
        return at.evaluation.evaluate(op, operands).astype(np.float64)

    spread = put(at.errors[0], at.errors[2])
    if not is_float(at.result) or op.function in (None, graph.Reduce.MAX, graph.Reduce.MIN):
        return spread
    own = gamma(len(at.operands[1])) * put(np.abs(at.values[0]), np.abs(at.values[2]))
    return own if op.function is graph.Reduce.PRODUCT else spread + own


@rule(graph.ArgOp)
def _arg(op: graph.ArgOp, at: Applied) -> Doubles:
    if not at.errors[0].any():
        return at.nothing
    sign = 1.0 if op.function is graph.Reduce.MAX else -1.0
    values = np.sort(np.moveaxis(sign * at.values[0], op.axis.value.data, -1))
    bound = np.moveaxis(at.errors[0], op.axis.value.data, -1).max(axis=-1)
    if values.shape[-1] < 2:
        return at.nothing
    close = values[..., -1] - values[..., -2] <= 2 * bound
    return np.where(close, inf, 0.0).reshape(at.result.shape)


@rule(graph.TopKOp)
def _top_k(op: graph.TopKOp, at: Applied) -> Doubles:
    if not at.errors[0].any():
        return at.nothing
    sign = 1.0 if op.function is graph.Reduce.MAX else -1.0
    values = -np.sort(-sign * at.values[0], axis=-1)
    bound = 2 * at.errors[0].max(axis=-1, keepdims=True)
    close = np.diff(values, axis=-1, append=-inf) >= -bound
    close |= np.diff(values, axis=-1, prepend=inf) >= -bound
    return np.where(close[..., : at.result.shape[-1]], inf, 0.0)


@rule(graph.ExtractOp)
def _extract(op: graph.ExtractOp, at: Applied) -> Doubles:
    caller = op.input.owner
    assert isinstance(caller, graph.CallingOperation)
    index = packed_offsets(caller.packed_types).index(op.start)
    return at.evaluation.packed[op.input][index]


@rule(graph.BranchOp)
def _branch(op: graph.BranchOp, at: Applied) -> Doubles:
    taken, other = op.functions
    function = taken if at.operands[0].item() else other
    _, found = at.evaluation.call(function, (at.operands[1:], at.errors[1:]))
    at.evaluation.packed[op.output] = _known(found, unknown=bool(at.errors[0].any()))
    return at.nothing


@rule(graph.LoopOp)
def _loop(op: graph.LoopOp, at: Applied) -> Doubles:
    values, bounds = list(at.operands), list(at.errors)
    going = (values.pop(0), bounds.pop(0)) if op.condition is not None else None
    first, last = len(op.carried), len(op.carried) + len(op.scanned)
    state, spread = values[:first], bounds[:first]
    (body,), steps = op.functions, op.step_count
    backwards = op.backwards.get_values()
    stacked = [np.zeros(kind.get_shape()) for kind in list(op.packed_types)[first:]]
    unknown = going is not None and bool(going[1].any())
    step = 0
    while step < steps and (going is None or going[0].item()) and not unknown:
        # The index of the element in a reversed value, and in any other value.
        places = step, steps - 1 - step
        steps_read = [places[back] for back in backwards[: last - first]]
        elements = [np.asarray(v[i]) for v, i in zip(values[first:last], steps_read, strict=True)]
        errors = [np.asarray(e[i]) for e, i in zip(bounds[first:last], steps_read, strict=True)]
        number = np.array(step, np.int64)
        found, off = at.evaluation.call(
            body,
            (
                [number, *state, *elements, *values[last:]],
                [np.zeros(()), *spread, *errors, *bounds[last:]],
            ),
        )
        if going is not None:
            going = found.pop(0), off.pop(0)
            unknown = bool(going[1].any())
        state, spread = found[:first], off[:first]
        for stack, error, back in zip(stacked, off[first:], backwards[last - first :], strict=True):
            stack[places[back]] = error
        step += 1
    at.evaluation.packed[op.output] = _known([*spread, *stacked], unknown=unknown)
    return at.nothing


def _known(errors: list[Doubles], *, unknown: bool) -> list[Doubles]:
    return [np.full(error.shape, inf) for error in errors] if unknown else errors
